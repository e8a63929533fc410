//! redb: one table.
//!
//! It has no write-ahead log. A commit that is not durable is in memory only, and lost when the process ends without a
//! durable one after it, so nothing of redb's is equal to a log that is buffered. What comes next: each commit but one
//! a second is not durable. After SIGKILL up to a second is gone, and the benchmark says how much.

use std::ops::Bound;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use redb::{
    AccessGuard, Builder, Database, ReadOnlyTable, ReadableDatabase, StorageError, TableDefinition,
    TableError, WriteTransaction,
};

use crate::measure;
use crate::peers::rows::{self, Batch, Key, Value};
use crate::peers::store::{
    Columns, Durability, Reader, Scan, SeeRow, Setting, Setup, Start, Store, Taste, Writer, setting,
};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// A key and its value, as a range gives them.
type Entry<'a> = Result<(AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>), StorageError>;

/// How long commits that are not durable may go on.
const INTERVAL: Duration = Duration::from_secs(1);

/// Somebody who argues for redb would leave it its default.
fn cache_bytes(setup: &Setup) -> usize {
    match setup.taste {
        Taste::Documented => setup.memory,
        Taste::Argued => 1 << 30,
    }
}

/// What is set.
pub(in crate::peers) fn settings(setup: &Setup) -> Vec<Setting> {
    const BUILDER: &str = "https://docs.rs/redb/latest/redb/struct.Builder.html";
    const DURABILITY: &str = "https://docs.rs/redb/latest/redb/enum.Durability.html";
    const DESIGN: &str = "https://github.com/cberner/redb/blob/master/docs/design.md";
    let durability = match setup.durability {
        Durability::Buffered => "None, and Immediate once a second",
        Durability::Synced => "Immediate",
    };
    vec![
        setting("set_cache_size", cache_bytes(setup), BUILDER),
        setting("set_durability", durability, DURABILITY),
        setting("compression, filters, write-ahead log", "it has none", DESIGN),
    ]
}

pub(in crate::peers) struct Redb {
    database: Database,
    durability: Durability,
    /// When the last durable commit was, if not all are.
    last_durable: Mutex<Instant>,
}

impl Redb {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<Redb> {
        measure::make_folder(&setup.folder)?;
        let file = setup.folder.join("rows.redb");
        let database = Builder::new().set_cache_size(cache_bytes(setup)).create(file)?;
        if matches!(database.begin_read()?.open_table(TABLE), Err(TableError::TableDoesNotExist(_))) {
            let transaction = database.begin_write()?;
            transaction.open_table(TABLE)?;
            transaction.commit()?;
        }
        Ok(Redb { database, durability: setup.durability, last_durable: Mutex::new(Instant::now()) })
    }

    fn begin_write(&self) -> anyhow::Result<WriteTransaction> {
        let mut transaction = self.database.begin_write()?;
        if self.durability == Durability::Buffered {
            let mut last = self.last_durable.lock().expect("nobody panics with it");
            if last.elapsed() >= INTERVAL {
                *last = Instant::now();
            } else {
                transaction.set_durability(redb::Durability::None)?;
            }
        }
        Ok(transaction)
    }
}

impl Store for Redb {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(RedbWriter(self)))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(RedbReader { database: &self.database, table: None }))
    }

    fn flush(&self) -> anyhow::Result<()> {
        // The first makes all before it durable, and the second gives back the pages that this let go.
        for _ in 0..2 {
            self.database.begin_write()?.commit()?;
        }
        Ok(())
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(true)
    }

    fn is_log(&self, _: &Path) -> bool {
        false
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.database.close()?)
    }
}

struct RedbWriter<'s>(&'s Redb);

impl Writer for RedbWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in batch.iter() {
                table.insert(&key.encode()[..], value)?;
            }
        }
        Ok(transaction.commit()?)
    }
}

struct RedbReader<'s> {
    database: &'s Database,
    /// Of the transaction that reads go through.
    table: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl RedbReader<'_> {
    fn table(&mut self) -> anyhow::Result<&ReadOnlyTable<&'static [u8], &'static [u8]>> {
        if self.table.is_none() {
            self.table = Some(self.database.begin_read()?.open_table(TABLE)?);
        }
        Ok(self.table.as_ref().expect("it was just opened"))
    }
}

impl Reader for RedbReader<'_> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        self.table = None;
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let value = self.table()?.get(&key.encode()[..])?;
        if let Some(value) = &value {
            see(Value::split(value.value()).context("a short value")?);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
        let from;
        let lower: Bound<&[u8]> = match scan.start {
            Start::At(key) => {
                from = key.encode();
                Bound::Included(&from)
            }
            Start::First | Start::Last => Bound::Unbounded,
        };
        let range = self.table()?.range::<&[u8]>((lower, Bound::Unbounded))?;
        let mut count = 0;
        let mut visit = |entry: Entry<'_>| {
            let (key, value) = entry?;
            let (host, time) = rows::decode_key(key.value()).context("no key")?;
            count += 1;
            match scan.columns {
                Columns::Keys => see(host, time, None),
                Columns::All => see(host, time, Some(Value::split(value.value()).context("a short value")?)),
            }
        };
        match scan.start {
            Start::Last => range.rev().take(limit).try_for_each(&mut visit)?,
            Start::First | Start::At(_) => range.take(limit).try_for_each(&mut visit)?,
        }
        Ok(count)
    }
}
