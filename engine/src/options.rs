//! What can be set when an engine is opened, and what is wrong with a set of options.
//!
//! Owns the defaults and their limits. Never reads the environment or a file.

use crate::error::{Error, Result};
use crate::events::EventListener;
use crate::memtable::MEMTABLE_BYTES_MAX;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Fs, OsFs};

/// One kibibyte.
const KIB: u64 = 1024;
/// One mebibyte.
const MIB: u64 = 1024 * KIB;
/// One gibibyte.
const GIB: u64 = 1024 * MIB;

/// A memtable is sealed before it grows larger than this and one commit group.
const MEMTABLE_SEAL_BYTES_MAX: u64 = 4 * GIB;
const _: () = assert!(MEMTABLE_SEAL_BYTES_MAX + 2 * GIB <= MEMTABLE_BYTES_MAX as u64);

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// When it is handed to the operating system: it survives the end of the process, however sudden. After a loss
    /// of power a prefix of all commits is there, without gaps.
    #[default]
    Buffered,
    /// When the disk has it: it survives a loss of power, and so does every write that became visible before it.
    Sync,
}

/// How rows, and the oldest index run of a table, are compressed. Newer runs never are: they will soon be
/// written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// LZ4, for the blocks that get smaller by an eighth or more.
    #[default]
    Lz4,
}

/// Where background work runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuntimeMode {
    /// In threads that the engine owns and joins.
    #[default]
    Threads,
    /// In the callers' threads, in an order that follows from the seed: for tests and simulation.
    Inline {
        /// Equal seeds and equal calls give equal runs.
        seed: u64,
    },
}

/// Options of an engine. Later versions may have more of them: set what is to differ, and end with
/// `..Options::default()`, so that the program goes on compiling.
///
/// ```
/// use nyala::{Durability, Options};
///
/// let options = Options { memory_bytes: 64 << 20, default_durability: Durability::Sync, ..Default::default() };
/// options.validate().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory in bytes for memtables and the block cache together; half for each. What readers pin, batches under
    /// construction and the indexes of open files come on top. Default: 256 MiB; at least 256 KiB.
    pub memory_bytes: usize,

    /// Size in bytes at which the memtable of one table is sealed and flushed. Larger ones make fewer and larger
    /// runs, thus less work later; smaller ones make for shorter pauses. Default (`None`): a quarter of the memory
    /// for memtables, but at most 64 MiB. From 1 KiB to all of the memory for memtables, but at most 4 GiB.
    pub memtable_bytes: Option<usize>,

    /// Durability of the writes that name none. Default: [`Durability::Buffered`].
    pub default_durability: Durability,

    /// How long a buffered write may stay unsynced while the engine is open and has threads of its own. `None` leaves
    /// it to the operating system, usually some 30 s. Default: 1 s; at least 1 ms.
    pub background_sync_interval: Option<Duration>,

    /// Size in bytes of the log at which the memtables that keep its oldest part alive are flushed, however small.
    /// Bounds both the disk space of the log and the time of recovery. Default: 512 MiB; at least two segments.
    pub log_bytes_max: u64,

    /// Size in bytes of a segment of the log. Default: 64 MiB; from 4 KiB to 4 GiB.
    pub log_segment_bytes: u64,

    /// Size in bytes of a block of an index run. Larger ones make a smaller block index and slower point reads.
    /// Default: 4 KiB; from 64 bytes to 1 MiB.
    pub index_block_bytes: usize,

    /// Size in bytes of a block of rows, before compression. Default: 4 KiB; from 64 bytes to 1 MiB.
    pub row_block_bytes: usize,

    /// Size in bytes at which a file of an index run is cut. Default: 64 MiB; from 1 KiB to 2 GiB.
    pub index_file_bytes: u64,

    /// Size in bytes at which a rowset is cut. Larger ones make fewer files and coarser moves of rows. Default:
    /// 192 MiB; from 1 KiB to 2 GiB.
    pub rowset_bytes: u64,

    /// How rows and the oldest index run are compressed. Default: [`Compression::Lz4`].
    pub compression: Compression,

    /// Threads that compact, each other runs or a part of a large compaction. One more flushes, and goes first.
    /// Default: the machine's processors, at least 2 and at most 8. From 1 to 256.
    pub background_threads: usize,

    /// Where background work runs. Default: [`RuntimeMode::Threads`].
    pub runtime: RuntimeMode,

    /// The file system. Default: the real disk.
    pub fs: Arc<dyn Fs>,

    /// Who is told what the engine does: flushes, compactions, stalls, failures, files. Default: nobody.
    pub listener: Option<Arc<dyn EventListener>>,

    /// Whether the texts of errors may show keys. Default: no, since logs travel further than data should.
    pub keys_in_errors: bool,

    /// Whether opening makes the directory and an empty engine if there is none. Default: yes.
    pub create_if_missing: bool,

    /// The largest batch in bytes of keys and rows. Default: 128 MiB, room for a maximal row; from 1 KiB to 1 GiB.
    /// A batch may be larger than the memory for memtables.
    pub batch_bytes_max: usize,

    /// The largest batch in operations. Default: 1,000,000; at least 1, at most 100,000,000.
    pub batch_operations_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Options {
            memory_bytes: 256 << 20,
            memtable_bytes: None,
            default_durability: Durability::Buffered,
            background_sync_interval: Some(Duration::from_secs(1)),
            log_bytes_max: 512 * MIB,
            log_segment_bytes: 64 * MIB,
            index_block_bytes: 4 << 10,
            row_block_bytes: 4 << 10,
            index_file_bytes: 64 * MIB,
            rowset_bytes: 192 * MIB,
            compression: Compression::Lz4,
            background_threads: processors.clamp(2, 8),
            runtime: RuntimeMode::Threads,
            fs: Arc::new(OsFs),
            listener: None,
            keys_in_errors: false,
            create_if_missing: true,
            batch_bytes_max: 128 << 20,
            batch_operations_max: 1_000_000,
        }
    }
}

impl Options {
    /// Checks the options, as opening an engine does.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that lists every violation, not only the
    /// first.
    pub fn validate(&self) -> Result<()> {
        let mut wrong = Violations::default();
        wrong.range("memory_bytes", self.memory_bytes as u64, 256 * KIB, 1 << 46);
        if let Some(bytes) = self.memtable_bytes {
            // A memtable's addresses reach twice as far, which leaves room for the largest batch.
            let most = (self.memtable_bytes_max() as u64).clamp(KIB, MEMTABLE_SEAL_BYTES_MAX);
            wrong.range("memtable_bytes", bytes as u64, KIB, most);
        }
        wrong.range("log_segment_bytes", self.log_segment_bytes, 4 * KIB, 4 * GIB);
        wrong.range("log_bytes_max", self.log_bytes_max, self.log_segment_bytes.saturating_mul(2), u64::MAX);
        wrong.range("index_block_bytes", self.index_block_bytes as u64, 64, MIB);
        wrong.range("row_block_bytes", self.row_block_bytes as u64, 64, MIB);
        wrong.range("index_file_bytes", self.index_file_bytes, KIB, 2 * GIB);
        wrong.range("rowset_bytes", self.rowset_bytes, KIB, 2 * GIB);
        wrong.range("background_threads", self.background_threads as u64, 1, 256);
        wrong.range("batch_bytes_max", self.batch_bytes_max as u64, KIB, GIB);
        wrong.range("batch_operations_max", self.batch_operations_max as u64, 1, 100_000_000);
        if let Some(interval) = self.background_sync_interval
            && interval < Duration::from_millis(1)
        {
            wrong.add(format_args!("background_sync_interval is {interval:?}, the least is 1ms"));
        }
        wrong.finish()
    }

    /// How many bytes all memtables together, active and sealed, may take: half of the memory.
    #[must_use]
    pub fn memtable_bytes_max(&self) -> usize {
        self.memory_bytes / 2
    }

    /// How many bytes the block cache may take: what the memtables leave.
    #[must_use]
    pub fn cache_bytes(&self) -> usize {
        self.memory_bytes - self.memtable_bytes_max()
    }

    /// The size in bytes at which the memtable of a table is sealed.
    #[must_use]
    pub fn memtable_seal_bytes(&self) -> usize {
        self.memtable_bytes.unwrap_or_else(|| (self.memtable_bytes_max() / 4).min(64 << 20))
    }
}

/// Collects what is wrong, so that nobody has to correct options one error at a time.
#[derive(Default)]
struct Violations {
    text: String,
}

impl Violations {
    fn add(&mut self, violation: std::fmt::Arguments<'_>) {
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        self.text.write_fmt(violation).expect("writing to a string cannot fail");
    }

    fn range(&mut self, name: &str, value: u64, least: u64, most: u64) {
        if value < least {
            self.add(format_args!("{name} is {value}, the least is {least}"));
        } else if value > most {
            self.add(format_args!("{name} is {value}, the most is {most}"));
        }
    }

    fn finish(self) -> Result<()> {
        if self.text.is_empty() { Ok(()) } else { Err(Error::invalid(self.text).context("options")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_defaults_are_valid_and_share_the_memory() {
        let options = Options::default();
        options.validate().expect("the defaults");
        assert_eq!(options.memtable_bytes_max() + options.cache_bytes(), options.memory_bytes);
        assert_eq!(options.memtable_seal_bytes(), 32 << 20);
        assert_eq!(options.default_durability, Durability::Buffered);
    }

    #[test]
    fn tiny_thresholds_are_valid() {
        let options = Options {
            memory_bytes: 1 << 20,
            memtable_bytes: Some(1024),
            log_bytes_max: 8192,
            log_segment_bytes: 4096,
            index_block_bytes: 128,
            row_block_bytes: 128,
            index_file_bytes: 1024,
            rowset_bytes: 1024,
            background_threads: 1,
            batch_bytes_max: 1024,
            batch_operations_max: 1,
            runtime: RuntimeMode::Inline { seed: 7 },
            ..Default::default()
        };
        options.validate().expect("small, but it works");
        let derived = Options { memory_bytes: 1 << 20, ..Default::default() };
        assert_eq!(derived.memtable_seal_bytes(), 128 << 10);
    }

    #[test]
    fn a_memtable_is_never_larger_than_its_addresses_reach() {
        let large =
            |bytes| Options { memory_bytes: 64 << 30, memtable_bytes: Some(bytes), ..Default::default() };
        large(4 << 30).validate().expect("the most");
        large((4 << 30) + 1).validate().expect_err("one above");
    }

    #[test]
    fn every_violation_is_listed() {
        let options = Options {
            memory_bytes: 1,
            memtable_bytes: Some(0),
            log_bytes_max: 5000,
            log_segment_bytes: 4096,
            row_block_bytes: 1 << 30,
            background_threads: 0,
            background_sync_interval: Some(Duration::ZERO),
            ..Default::default()
        };
        let error = options.validate().expect_err("seven violations");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        for name in [
            "memory_bytes is 1,",
            "memtable_bytes is 0,",
            "log_bytes_max is 5000, the least is 8192",
            "row_block_bytes is 1073741824, the most is 1048576",
            "background_threads is 0",
            "background_sync_interval is 0ns",
        ] {
            assert!(text.contains(name), "{text}");
        }
        assert!(!text.contains("rowset_bytes"), "{text}");
    }
}
