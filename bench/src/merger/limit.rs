//! The limit: what a compaction cannot do without, done without merging.
//!
//! Reads the inputs' bytes in the pieces in which a compaction reads them, checks a checksum of each block's worth of
//! bytes, hashes as many keys as the output has and builds its filters, and writes as many bytes as the output has,
//! with a checksum for each block's worth, in files of the same size, synced. No block is decoded, nothing compared.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use codec::{FileId, Kind, checksum, hash_key};
use vfs::{File, Fs, OsFs};
use xorf::BinaryFuse8;

use super::inputs;
use super::once::Merging;

const CHUNK_BYTES: usize = 256 << 10;
const BLOCK_BYTES: usize = 4 << 10;
/// A filter has at most so many keys.
const FILTER_KEYS: usize = 1 << 16;
const FILE_BYTES: u64 = 64 << 20;
const WRITEBACK_BYTES: u64 = 1 << 20;

/// Does it.
pub(super) fn run(inputs: &Path, outputs: &Path, merging: &Merging) -> anyhow::Result<()> {
    let fs = OsFs::new();
    let mut names: Vec<_> = fs.list(inputs)?.into_iter().filter(|entry| entry.is_file).collect();
    names.retain(|entry| Path::new(&entry.name).extension().is_some_and(|extension| extension == "idx"));
    let bytes_in: u64 = names.iter().map(|entry| entry.len).sum();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut writer = Writer::new(&fs, outputs);
    let mut filters = Filters::default();
    let (mut read, mut keys) = (0u64, 0u64);
    for (number, entry) in names.iter().enumerate() {
        let file = fs.open(&inputs.join(&entry.name))?;
        let mut at = 0;
        while at < entry.len {
            let len = usize::try_from(entry.len - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            file.read_exact_at(&mut chunk[..len], at)?;
            sum(&chunk[..len], number as u64, at);
            at += len as u64;
            read += len as u64;
            // Output and filters keep step with the input.
            let due = |all: u64| (u128::from(all) * u128::from(read) / u128::from(bytes_in.max(1))) as u64;
            writer.write_until(due(merging.bytes_out()), &chunk)?;
            for key in keys..due(merging.keys_out()) {
                filters.add(&inputs::key(key))?;
            }
            keys = due(merging.keys_out());
        }
    }
    filters.finish()?;
    writer.finish()
}

fn sum(bytes: &[u8], file: u64, at: u64) {
    for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let offset = at + (number * BLOCK_BYTES) as u64;
        black_box(checksum(Kind::KeyedBlock, FileId(file), offset, &[block]));
    }
}

#[derive(Default)]
struct Filters {
    hashes: Vec<u64>,
}

impl Filters {
    fn add(&mut self, key: &[u8]) -> anyhow::Result<()> {
        self.hashes.push(hash_key(key).0);
        if self.hashes.len() == FILTER_KEYS { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if self.hashes.is_empty() {
            return Ok(());
        }
        self.hashes.sort_unstable();
        self.hashes.dedup();
        let filter = BinaryFuse8::try_from(&self.hashes);
        black_box(filter.map_err(anyhow::Error::msg).context("building a filter")?);
        self.hashes.clear();
        Ok(())
    }
}

struct Writer<'a> {
    fs: &'a OsFs,
    folder: &'a Path,
    file: Option<Arc<dyn File>>,
    files: u64,
    /// Bytes in all files, in this one, and those of it that the disk was asked to begin writing.
    written: u64,
    len: u64,
    writeback: u64,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(fs: &'a OsFs, folder: &'a Path) -> Writer<'a> {
        Writer { fs, folder, file: None, files: 0, written: 0, len: 0, writeback: 0, buffer: Vec::new() }
    }

    /// Writes bytes of `from`, over and over, until all files together have `total`.
    fn write_until(&mut self, total: u64, from: &[u8]) -> anyhow::Result<()> {
        while self.written < total {
            let len = usize::try_from(total - self.written).map_or(from.len(), |left| left.min(from.len()));
            self.write(&from[..len])?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                self.files += 1;
                let path = self.folder.join(format!("limit-{}.idx", self.files));
                Arc::clone(self.file.insert(self.fs.create(&path)?))
            }
        };
        // As blocks are gathered in the writer's buffer.
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        sum(&self.buffer, self.files, self.len);
        file.write_all_at(&self.buffer, self.len)?;
        self.len += bytes.len() as u64;
        self.written += bytes.len() as u64;
        if self.len - self.writeback >= WRITEBACK_BYTES {
            file.start_writeback(self.writeback, self.len - self.writeback)?;
            self.writeback = self.len;
        }
        if self.len >= FILE_BYTES { self.end_file() } else { Ok(()) }
    }

    fn end_file(&mut self) -> anyhow::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync()?;
        }
        (self.len, self.writeback) = (0, 0);
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.end_file()
    }
}
