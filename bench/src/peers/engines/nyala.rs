//! Nyala, in two forms: a table of one binary key and one binary value, and a typed table of three key columns and two
//! value columns. The typed key is two bytes shorter: its string comes last and needs no end.

use std::marker::PhantomData;
use std::path::Path;

use anyhow::Context;
use nyala::{Engine, Options, Row, RowRef, Schema, SchemaBuilder, Table, Type, WriteBatch};

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

/// How a row lies in a table.
pub(in crate::peers) trait Form: Send + Sync + 'static {
    /// The columns of the key.
    const KEYS: &'static [&'static str];

    fn schema() -> SchemaBuilder;
    fn upsert(batch: &mut WriteBatch, table: &Table, key: &Key, value: &[u8]) -> nyala::Result<()>;
    fn get(table: &Table, key: &Key) -> nyala::Result<Option<Row>>;
    fn scan_from(scan: nyala::Scan, key: &Key) -> nyala::Scan;
    /// Host and time.
    fn key(row: RowRef<'_>) -> anyhow::Result<(u32, i64)>;
    fn value<'a>(row: RowRef<'a>) -> anyhow::Result<Value<'a>>;
}

/// One binary key and one binary value.
pub(in crate::peers) struct KeyValue;

impl Form for KeyValue {
    const KEYS: &'static [&'static str] = &["key"];

    fn schema() -> SchemaBuilder {
        Schema::builder().key("key", Type::Binary).column("value", Type::Binary)
    }

    fn upsert(batch: &mut WriteBatch, table: &Table, key: &Key, value: &[u8]) -> nyala::Result<()> {
        batch.upsert(table, (&key.encode()[..], value))
    }

    fn get(table: &Table, key: &Key) -> nyala::Result<Option<Row>> {
        table.get(&key.encode()[..])
    }

    fn scan_from(scan: nyala::Scan, key: &Key) -> nyala::Scan {
        scan.range((&key.encode()[..],)..)
    }

    fn key(row: RowRef<'_>) -> anyhow::Result<(u32, i64)> {
        rows::decode_key(row.get(0)?).context("no key")
    }

    fn value<'a>(row: RowRef<'a>) -> anyhow::Result<Value<'a>> {
        Value::split(row.get(1)?).context("a short value")
    }
}

/// A column for each part of the key, and two for the value.
pub(in crate::peers) struct Typed;

impl Form for Typed {
    const KEYS: &'static [&'static str] = &["host", "time", "metric"];

    fn schema() -> SchemaBuilder {
        Schema::builder()
            .key("host", Type::U32)
            .key("time", Type::I64)
            .key("metric", Type::String)
            .column("stamp", Type::U64)
            .column("rest", Type::Binary)
    }

    fn upsert(batch: &mut WriteBatch, table: &Table, key: &Key, value: &[u8]) -> nyala::Result<()> {
        let value = Value::split(value).expect("the values of a batch are long enough");
        batch.upsert(table, (key.host, key.time, key.metric, value.stamp, value.rest))
    }

    fn get(table: &Table, key: &Key) -> nyala::Result<Option<Row>> {
        table.get((key.host, key.time, key.metric))
    }

    fn scan_from(scan: nyala::Scan, key: &Key) -> nyala::Scan {
        scan.range((key.host, key.time, key.metric)..)
    }

    fn key(row: RowRef<'_>) -> anyhow::Result<(u32, i64)> {
        Ok((row.get(0)?, row.get(1)?))
    }

    fn value<'a>(row: RowRef<'a>) -> anyhow::Result<Value<'a>> {
        Ok(Value { stamp: row.get(3)?, rest: row.get(4)? })
    }
}

/// A table of one form.
pub(in crate::peers) struct Nyala<F> {
    engine: Engine,
    table: Table,
    durability: nyala::Durability,
    form: PhantomData<F>,
}

impl<F: Form> Nyala<F> {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<Nyala<F>> {
        let engine = Engine::open(&setup.folder, options(setup))?;
        let table = engine.open_or_create_table("rows", F::schema().build()?)?;
        let durability = match setup.durability {
            Durability::Buffered => nyala::Durability::Buffered,
            Durability::Synced => nyala::Durability::Sync,
        };
        Ok(Nyala { engine, table, durability, form: PhantomData })
    }
}

impl<F: Form> Store for Nyala<F> {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(NyalaWriter { nyala: self, batch: self.engine.batch() }))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(NyalaReader(self)))
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(self.engine.flush()?)
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        let stats = self.engine.stats();
        let sealed: u64 = stats.tables.iter().map(|table| table.sealed_memtables).sum();
        Ok(stats.compaction_threads + stats.compactions_due + stats.obsolete_files + sealed == 0)
    }

    fn is_log(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "wal")
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.engine.close()?)
    }
}

struct NyalaWriter<'s, F> {
    nyala: &'s Nyala<F>,
    batch: WriteBatch,
}

impl<F: Form> Writer for NyalaWriter<'_, F> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        for (key, value) in batch.iter() {
            F::upsert(&mut self.batch, &self.nyala.table, key, value)?;
        }
        self.batch.commit(self.nyala.durability)?;
        Ok(())
    }
}

struct NyalaReader<'s, F>(&'s Nyala<F>);

impl<F: Form> Reader for NyalaReader<'_, F> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let row = F::get(&self.0.table, key)?;
        if let Some(row) = &row {
            see(F::value(row.as_ref())?);
        }
        Ok(row.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let mut from = self.0.table.scan();
        match scan.start {
            Start::First => {}
            Start::Last => from = from.reverse(),
            Start::At(key) => from = F::scan_from(from, &key),
        }
        if scan.columns == Columns::Keys {
            from = from.columns(F::KEYS);
        }
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
        let mut cursor = from.limit(limit).cursor()?;
        let mut count = 0;
        while let Some(row) = cursor.next()? {
            let (host, time) = F::key(row)?;
            let value = match scan.columns {
                Columns::Keys => None,
                Columns::All => Some(F::value(row)?),
            };
            see(host, time, value)?;
            count += 1;
        }
        Ok(count)
    }
}
