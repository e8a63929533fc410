//! What the benchmark asks of an engine, and which engines there are.
//!
//! An adapter does what the engine's documentation recommends for a call, and no more: it keeps no rows, and answers
//! nothing by itself. Keys are encoded by the adapter, inside of what is measured, unless the engine does so.

use std::path::{Path, PathBuf};

use super::engines;
use super::rows::{Batch, Key, Rows, Value};

/// An engine, or a way to use one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Engine {
    /// Nyala, a table of one binary key and one binary value
    Nyala,
    /// Nyala, a table of three key columns and two value columns
    NyalaTyped,
    /// RocksDB (feature `rocksdb`)
    Rocksdb,
    /// fjall (feature `fjall`)
    Fjall,
    /// redb (feature `redb`)
    Redb,
    /// LMDB through heed (feature `lmdb`)
    Lmdb,
    /// SQLite (feature `sqlite`)
    Sqlite,
}

impl Engine {
    const ALL: [Engine; 7] = [
        Engine::Nyala,
        Engine::NyalaTyped,
        Engine::Rocksdb,
        Engine::Fjall,
        Engine::Redb,
        Engine::Lmdb,
        Engine::Sqlite,
    ];

    /// As it is written on the command line and in the results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Nyala => "nyala",
            Engine::NyalaTyped => "nyala-typed",
            Engine::Rocksdb => "rocksdb",
            Engine::Fjall => "fjall",
            Engine::Redb => "redb",
            Engine::Lmdb => "lmdb",
            Engine::Sqlite => "sqlite",
        }
    }

    /// Whether this program was built with it.
    pub(super) fn is_built(self) -> bool {
        match self {
            Engine::Nyala | Engine::NyalaTyped => true,
            Engine::Rocksdb => cfg!(feature = "rocksdb"),
            Engine::Fjall => cfg!(feature = "fjall"),
            Engine::Redb => cfg!(feature = "redb"),
            Engine::Lmdb => cfg!(feature = "lmdb"),
            Engine::Sqlite => cfg!(feature = "sqlite"),
        }
    }

    /// All that this program was built with.
    pub(super) fn built() -> impl Iterator<Item = Engine> {
        Engine::ALL.into_iter().filter(|engine| engine.is_built())
    }

    /// The packages whose versions stand for its version.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Engine::Nyala | Engine::NyalaTyped => &["nyala"],
            Engine::Rocksdb => &["rocksdb", "librocksdb-sys"],
            Engine::Fjall => &["fjall", "lsm-tree"],
            Engine::Redb => &["redb"],
            Engine::Lmdb => &["heed", "lmdb-master-sys"],
            Engine::Sqlite => &["rusqlite", "libsqlite3-sys"],
        }
    }

    /// Names and versions of its packages, as this program was built with them.
    pub(super) fn version(self) -> String {
        const LOCK: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));
        let versions = self.packages().iter().map(|package| {
            let entry = format!("name = \"{package}\"\nversion = \"");
            let version = LOCK.split(&entry).nth(1).and_then(|rest| rest.split('"').next());
            format!("{package} {}", version.unwrap_or("of no known version"))
        });
        versions.collect::<Vec<_>>().join(", ")
    }
}

/// Which settings an engine is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Taste {
    /// What the engine's documentation recommends
    Documented,
    /// What somebody who argues for the engine would choose
    Argued,
}

impl Taste {
    pub(super) fn name(self) -> &'static str {
        match self {
            Taste::Documented => "documented",
            Taste::Argued => "argued",
        }
    }
}

/// A setting that is not left at the engine's default, or that was left there on purpose, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) source: &'static str,
}

/// Makes a setting.
#[expect(clippy::needless_pass_by_value, reason = "numbers and texts, made where they are given")]
pub(super) fn setting(name: &'static str, value: impl ToString, source: &'static str) -> Setting {
    Setting { name, value: value.to_string(), source }
}

/// When a commit is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// When the operating system has it, or what comes next to that.
    Buffered,
    /// When the disk has it.
    Synced,
}

/// How to open an engine.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) folder: PathBuf,
    #[cfg_attr(
        not(any(test, feature = "fjall", feature = "lmdb", feature = "sqlite")),
        expect(dead_code, reason = "only these have settings that depend on the rows")
    )]
    pub(super) rows: Rows,
    pub(super) taste: Taste,
    /// For memtables and caches together, in bytes.
    pub(super) memory: usize,
    /// Of all commits, until it is closed.
    pub(super) durability: Durability,
    /// Threads that write and threads that read.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(dead_code, reason = "only SQLite has a cache for each of them")
    )]
    pub(super) threads: usize,
}

/// The first key, and the direction, of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// From the first key on.
    First,
    /// From the last key backwards.
    Last,
    /// From this key on, which is there.
    At(Key),
}

/// What a scan gives of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    All,
    Keys,
}

/// What a scan is to give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub(super) start: Start,
    pub(super) columns: Columns,
    pub(super) limit: u64,
}

/// Looks at a row that a scan gives: host, time, and the value if it was asked for.
pub(super) type SeeRow<'a> = dyn FnMut(u32, i64, Option<Value<'_>>) -> anyhow::Result<()> + 'a;

/// An open engine. It closes cleanly when it is dropped, or says why it could not by [`Store::close`].
pub(super) trait Store: Sync {
    /// For one thread.
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>>;

    /// For one thread.
    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>>;

    /// Brings to the disk, in its final form, what is in memory.
    fn flush(&self) -> anyhow::Result<()>;

    /// Whether nothing runs or waits in the background. An engine that cannot tell says that it is idle: the processor
    /// time of the process is looked at too.
    fn is_idle(&self) -> anyhow::Result<bool>;

    /// Whether a file in the folder belongs to the write-ahead log.
    fn is_log(&self, file: &Path) -> bool;

    fn close(self: Box<Self>) -> anyhow::Result<()>;
}

/// Writes batches.
pub(super) trait Writer {
    /// Writes the rows, whether their keys are there or not, and commits them together.
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()>;
}

/// Reads rows.
pub(super) trait Reader {
    /// Ends what the engine holds for a series of reads, such as a transaction. The next read sees all that is
    /// committed.
    fn refresh(&mut self) -> anyhow::Result<()>;

    /// Looks at the value of a key, and tells whether there is one.
    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool>;

    /// Looks at rows in key order, and tells how many there were.
    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64>;
}

/// Opens an engine, or makes an empty one if the folder is empty.
pub(super) fn open(engine: Engine, setup: &Setup) -> anyhow::Result<Box<dyn Store>> {
    match engine {
        Engine::Nyala => Ok(Box::new(engines::nyala::Nyala::<engines::nyala::KeyValue>::open(setup)?)),
        Engine::NyalaTyped => Ok(Box::new(engines::nyala::Nyala::<engines::nyala::Typed>::open(setup)?)),
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => Ok(Box::new(engines::rocksdb::RocksDb::open(setup)?)),
        #[cfg(feature = "fjall")]
        Engine::Fjall => Ok(Box::new(engines::fjall::Fjall::open(setup)?)),
        #[cfg(feature = "redb")]
        Engine::Redb => Ok(Box::new(engines::redb::Redb::open(setup)?)),
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => Ok(Box::new(engines::lmdb::Lmdb::open(setup)?)),
        #[cfg(feature = "sqlite")]
        Engine::Sqlite => Ok(Box::new(engines::sqlite::Sqlite::open(setup)?)),
        #[cfg(not(all(
            feature = "rocksdb",
            feature = "fjall",
            feature = "redb",
            feature = "lmdb",
            feature = "sqlite"
        )))]
        missing => {
            anyhow::bail!("this program was built without {0}: build it with --features {0}", missing.name())
        }
    }
}

/// What an engine is set to, and who recommends it.
pub(super) fn settings(engine: Engine, setup: &Setup) -> Vec<Setting> {
    match engine {
        Engine::Nyala | Engine::NyalaTyped => engines::nyala::settings(setup),
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => engines::rocksdb::settings(setup),
        #[cfg(feature = "fjall")]
        Engine::Fjall => engines::fjall::settings(setup),
        #[cfg(feature = "redb")]
        Engine::Redb => engines::redb::settings(setup),
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => engines::lmdb::settings(setup),
        #[cfg(feature = "sqlite")]
        Engine::Sqlite => engines::sqlite::settings(setup),
        #[cfg(not(all(
            feature = "rocksdb",
            feature = "fjall",
            feature = "redb",
            feature = "lmdb",
            feature = "sqlite"
        )))]
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert_eq!(Engine::Nyala.version(), concat!("nyala ", env!("CARGO_PKG_VERSION")));
        for engine in Engine::ALL {
            assert!(!engine.version().contains("no known"), "{}", engine.version());
        }
    }
}
