//! Nyala, in two forms: a table of one binary key and one binary value, and a typed table of three key columns and two
//! value columns. The typed key is two bytes shorter: its string comes last and needs no end.

use std::path::Path;

use anyhow::Context;
use nyala::{Engine, Options, Row, RowRef, Schema, Table, Type};

use crate::peers::rows::{self, Batch, Key, Value};
use crate::peers::store::{
    Columns, Durability, Reader, Scan, SeeRow, Setting, Setup, Start, Store, Taste, Writer, setting,
};

fn options(setup: &Setup) -> Options {
    let mut options = Options { memory_bytes: setup.memory, ..Options::default() };
    if setup.taste == Taste::Argued {
        options.memtable_bytes = Some((options.memtable_bytes_max() / 2).clamp(1 << 10, 64 << 20));
        options.row_block_bytes = 8 << 10;
    }
    options
}

/// What is set.
pub(in crate::peers) fn settings(setup: &Setup) -> Vec<Setting> {
    const OPTIONS: &str = "engine/src/options.rs";
    const TUNING: &str = "docs/tuning.md";
    let options = options(setup);
    vec![
        setting("memory_bytes", options.memory_bytes, TUNING),
        setting("memtable_bytes", options.memtable_seal_bytes(), TUNING),
        setting("row_block_bytes", options.row_block_bytes, TUNING),
        setting("index_block_bytes", format!("{} (default)", options.index_block_bytes), OPTIONS),
        setting("compression", format!("{:?} (default)", options.compression), OPTIONS),
        setting("filter", "binary fuse of 8 bits, some 9 bits a key (always)", "docs/file-formats.md"),
        setting("background_threads", options.background_threads, OPTIONS),
        setting("background_sync_interval", format!("{:?}", options.background_sync_interval), OPTIONS),
    ]
}

/// What both forms share.
struct Opened {
    engine: Engine,
    table: Table,
    durability: nyala::Durability,
}

impl Opened {
    fn open(setup: &Setup, schema: Schema) -> anyhow::Result<Opened> {
        let engine = Engine::open(&setup.folder, options(setup))?;
        let table = engine.open_or_create_table("rows", schema)?;
        let durability = match setup.durability {
            Durability::Buffered => nyala::Durability::Buffered,
            Durability::Synced => nyala::Durability::Sync,
        };
        Ok(Opened { engine, table, durability })
    }

    fn is_idle(&self) -> bool {
        let stats = self.engine.stats();
        let sealed: u64 = stats.tables.iter().map(|table| table.sealed_memtables).sum();
        stats.compaction_threads + stats.compactions_due + stats.obsolete_files + sealed == 0
    }
}

fn is_log(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "wal")
}

/// A table of one binary key and one binary value.
pub(in crate::peers) struct KeyValue(Opened);

impl KeyValue {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<KeyValue> {
        let schema = Schema::builder().key("key", Type::Binary).column("value", Type::Binary).build()?;
        Opened::open(setup, schema).map(KeyValue)
    }
}

impl Store for KeyValue {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(KeyValueWriter { opened: &self.0, batch: self.0.engine.batch() }))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(KeyValueReader(&self.0.table)))
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(self.0.engine.flush()?)
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(self.0.is_idle())
    }

    fn is_log(&self, file: &Path) -> bool {
        is_log(file)
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.0.engine.close()?)
    }
}

struct KeyValueWriter<'s> {
    opened: &'s Opened,
    batch: nyala::WriteBatch,
}

impl Writer for KeyValueWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        for (key, value) in batch.iter() {
            self.batch.upsert(&self.opened.table, (&key.encode()[..], value))?;
        }
        Ok(self.batch.commit(self.opened.durability)?)
    }
}

struct KeyValueReader<'s>(&'s Table);

impl Reader for KeyValueReader<'_> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let row: Option<Row> = self.0.get(&key.encode()[..])?;
        if let Some(row) = &row {
            see(Value::split(row.get(1)?).context("a short value")?);
        }
        Ok(row.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let mut from = self.0.scan();
        if let Start::At(key) = scan.start {
            from = from.range((&key.encode()[..],)..);
        }
        run_scan(from, scan, &["key"], &mut |row| {
            let (host, time) = rows::decode_key(row.get(0)?).context("no key")?;
            let value = match scan.columns {
                Columns::Keys => None,
                Columns::All => Some(Value::split(row.get(1)?).context("a short value")?),
            };
            see(host, time, value)
        })
    }
}

/// Runs a scan that has its first key already, and tells how many rows it gave.
fn run_scan(
    mut from: nyala::Scan,
    scan: Scan,
    keys: &[&str],
    see: &mut dyn FnMut(RowRef<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    if scan.start == Start::Last {
        from = from.reverse();
    }
    if scan.columns == Columns::Keys {
        from = from.columns(keys);
    }
    let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
    let mut cursor = from.limit(limit).cursor()?;
    let mut count = 0;
    while let Some(row) = cursor.next()? {
        see(row)?;
        count += 1;
    }
    Ok(count)
}

/// A typed table.
pub(in crate::peers) struct Typed(Opened);

impl Typed {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<Typed> {
        let schema = Schema::builder()
            .key("host", Type::U32)
            .key("time", Type::I64)
            .key("metric", Type::String)
            .column("stamp", Type::U64)
            .column("rest", Type::Binary)
            .build()?;
        Opened::open(setup, schema).map(Typed)
    }
}

impl Store for Typed {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(TypedWriter { opened: &self.0, batch: self.0.engine.batch() }))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(TypedReader(&self.0.table)))
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(self.0.engine.flush()?)
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(self.0.is_idle())
    }

    fn is_log(&self, file: &Path) -> bool {
        is_log(file)
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.0.engine.close()?)
    }
}

struct TypedWriter<'s> {
    opened: &'s Opened,
    batch: nyala::WriteBatch,
}

impl Writer for TypedWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        for (key, value) in batch.iter() {
            let value = Value::split(value).expect("the values of a batch are long enough");
            let row = (key.host, key.time, key.metric, value.stamp, value.rest);
            self.batch.upsert(&self.opened.table, row)?;
        }
        Ok(self.batch.commit(self.opened.durability)?)
    }
}

struct TypedReader<'s>(&'s Table);

impl Reader for TypedReader<'_> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let row = self.0.get((key.host, key.time, key.metric))?;
        if let Some(row) = &row {
            see(Value { stamp: row.get(3)?, rest: row.get(4)? });
        }
        Ok(row.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let mut from = self.0.scan();
        if let Start::At(key) = scan.start {
            from = from.range((key.host, key.time, key.metric)..);
        }
        run_scan(from, scan, &["host", "time", "metric"], &mut |row| {
            let value = match scan.columns {
                Columns::Keys => None,
                Columns::All => Some(Value { stamp: row.get(3)?, rest: row.get(4)? }),
            };
            see(row.get(0)?, row.get(1)?, value)
        })
    }
}
