//! The hot paths: what is done before, and what is counted.
//!
//! Rows have a key of three columns, 26 bytes when encoded, and two value columns. Tables are small, so that a path is
//! counted in seconds; background work runs in this thread, when it is called for.

use std::hint::black_box;
use std::path::Path;

use anyhow::ensure;
use clap::ValueEnum;
use nyala::{Durability, Engine, Options, RuntimeMode, Schema, Table, Timestamp, Type};

use crate::args::InputArgs;
use crate::merger;

/// Rows that a table has before anything is counted.
const ROWS: u64 = 20_000;
const BATCH_ROWS: u64 = 100;
/// So large that nothing is flushed by itself.
const MEMORY_AMPLE: usize = 256 << 20;
/// The least there is: nearly every block of a table is read from its file.
const MEMORY_LEAST: usize = 256 << 10;
/// Keys to merge, of eight runs.
const MERGE_KEYS: u64 = 40_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HotPath {
    /// A row into a batch: the key encoded and hashed, the row laid out
    Encode,
    /// A row of a committed batch of 100, in no order of the keys, from encoding to the memtable
    Commit,
    /// The same with keys in order
    CommitInOrder,
    /// A row of a flush: walk of the memtable, rowset, index run, filters
    Flush,
    /// A point read of a row in the memtable
    GetInMemtable,
    /// A point read of a row whose blocks are in the cache
    GetInCache,
    /// A point read of a row whose blocks are in their files
    GetOnDisk,
    /// A point read of a key that is not there
    GetMissing,
    /// A row of a scan
    ScanStep,
    /// A row of a scan in reverse
    ScanStepReverse,
    /// A key of a merge of eight index runs
    MergeStep,
    /// A key of an index run that is built: blocks, block index, filter
    BlockBuild,
}

impl HotPath {
    pub(crate) const ALL: [HotPath; 12] = [
        HotPath::Encode,
        HotPath::Commit,
        HotPath::CommitInOrder,
        HotPath::Flush,
        HotPath::GetInMemtable,
        HotPath::GetInCache,
        HotPath::GetOnDisk,
        HotPath::GetMissing,
        HotPath::ScanStep,
        HotPath::ScanStepReverse,
        HotPath::MergeStep,
        HotPath::BlockBuild,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            HotPath::Encode => "encode",
            HotPath::Commit => "commit",
            HotPath::CommitInOrder => "commit-in-order",
            HotPath::Flush => "flush",
            HotPath::GetInMemtable => "get-in-memtable",
            HotPath::GetInCache => "get-in-cache",
            HotPath::GetOnDisk => "get-on-disk",
            HotPath::GetMissing => "get-missing",
            HotPath::ScanStep => "scan-step",
            HotPath::ScanStepReverse => "scan-step-reverse",
            HotPath::MergeStep => "merge-step",
            HotPath::BlockBuild => "block-build",
        }
    }

    /// How many times the work does it.
    pub(crate) fn times(self) -> u64 {
        match self {
            HotPath::MergeStep | HotPath::BlockBuild => MERGE_KEYS,
            _ => ROWS,
        }
    }

    /// Does what comes before, and with `work` what is counted, in a folder that is not there yet.
    pub(crate) fn run(self, folder: &Path, work: bool) -> anyhow::Result<()> {
        match self {
            HotPath::Encode => encode(folder, work),
            HotPath::Commit => commit(folder, work, shuffled),
            HotPath::CommitInOrder => commit(folder, work, |number| number),
            HotPath::Flush => flush(folder, work),
            HotPath::GetInMemtable => get(folder, work, Place::Memtable),
            HotPath::GetInCache => get(folder, work, Place::Cache),
            HotPath::GetOnDisk => get(folder, work, Place::Disk),
            HotPath::GetMissing => get_missing(folder, work),
            HotPath::ScanStep => scan(folder, work, false),
            HotPath::ScanStepReverse => scan(folder, work, true),
            HotPath::MergeStep => {
                let input = InputArgs { keys: MERGE_KEYS, runs: 8, deletions: 0.0, seed: 1 };
                merger::merge_engine(folder, &input, work)
            }
            HotPath::BlockBuild => merger::build_run(folder, if work { MERGE_KEYS } else { 0 }),
        }
    }
}

/// A number below `2 * ROWS` for each number below it, in no order.
fn shuffled(number: u64) -> u64 {
    // 40,000 and 23,333 have no common divisor.
    number * 23_333 % (2 * ROWS)
}

fn open(folder: &Path, memory_bytes: usize) -> anyhow::Result<(Engine, Table)> {
    let options = Options { memory_bytes, runtime: RuntimeMode::Inline { seed: 1 }, ..Options::default() };
    let engine = Engine::open(folder, options)?;
    let schema = Schema::builder()
        .key("host", Type::U32)
        .key("time", Type::Timestamp)
        .key("metric", Type::String)
        .column("value", Type::F64)
        .column("note", Type::String)
        .build()?;
    let table = engine.open_or_create_table("metrics", schema)?;
    Ok((engine, table))
}

type Row = (u32, Timestamp, &'static str, f64, &'static str);

fn key(number: u64) -> (u32, Timestamp, &'static str) {
    let time = Timestamp::from_micros(1_700_000_000_000_000 + (number / 10 * 1_000_000) as i64);
    ((number % 10) as u32, time, "cpu.user.all")
}

fn row(number: u64) -> Row {
    let (host, time, metric) = key(number);
    (host, time, metric, number as f64, "a text that is as long as many a note would be")
}

/// Upserts the rows of some numbers, in batches.
fn load(engine: &Engine, table: &Table, numbers: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    let mut batch = engine.batch();
    for number in numbers {
        batch.upsert(table, row(number))?;
        if batch.len() as u64 == BATCH_ROWS {
            batch.commit(Durability::Buffered)?;
        }
    }
    batch.commit(Durability::Buffered)?;
    Ok(())
}

fn encode(folder: &Path, work: bool) -> anyhow::Result<()> {
    let (engine, table) = open(folder, MEMORY_AMPLE)?;
    let mut batch = engine.batch();
    for number in 0..if work { ROWS } else { 0 } {
        batch.upsert(&table, row(shuffled(number)))?;
        if batch.len() as u64 == BATCH_ROWS {
            black_box(&mut batch).clear();
        }
    }
    Ok(())
}

fn commit(folder: &Path, work: bool, order: fn(u64) -> u64) -> anyhow::Result<()> {
    let (engine, table) = open(folder, MEMORY_AMPLE)?;
    let rows = if work { 2 * ROWS } else { ROWS };
    load(&engine, &table, (0..rows).map(order))?;
    // What closes it is not to depend on what was written.
    std::mem::forget(engine);
    Ok(())
}

fn flush(folder: &Path, work: bool) -> anyhow::Result<()> {
    let (engine, table) = open(folder, MEMORY_AMPLE)?;
    load(&engine, &table, (0..ROWS).map(shuffled))?;
    if work {
        table.flush()?;
    }
    std::mem::forget(engine);
    Ok(())
}

/// Where the rows are that a path reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Memtable,
    Cache,
    Disk,
}

/// A table with `ROWS` rows, at their place.
fn filled(folder: &Path, place: Place) -> anyhow::Result<(Engine, Table)> {
    let (mut engine, mut table) = open(folder, MEMORY_AMPLE)?;
    load(&engine, &table, 0..ROWS)?;
    if place != Place::Memtable {
        table.flush()?;
    }
    if place == Place::Disk {
        engine.close()?;
        drop((engine, table));
        (engine, table) = open(folder, MEMORY_LEAST)?;
    }
    Ok((engine, table))
}

fn get_all(table: &Table) -> anyhow::Result<()> {
    for number in 0..ROWS {
        let found = table.get(key(number * 7_919 % ROWS))?;
        ensure!(black_box(found).is_some(), "row {number} is not there");
    }
    Ok(())
}

fn get(folder: &Path, work: bool, place: Place) -> anyhow::Result<()> {
    let (engine, table) = filled(folder, place)?;
    if place == Place::Cache {
        get_all(&table)?;
    }
    if work {
        get_all(&table)?;
    }
    std::mem::forget(engine);
    Ok(())
}

fn get_missing(folder: &Path, work: bool) -> anyhow::Result<()> {
    let (engine, table) = filled(folder, Place::Cache)?;
    get_all(&table)?;
    for number in 0..if work { ROWS } else { 0 } {
        let (host, time, _) = key(number);
        ensure!(black_box(table.get((host, time, "cpu.user.one"))?).is_none(), "nobody wrote that row");
    }
    std::mem::forget(engine);
    Ok(())
}

fn scan(folder: &Path, work: bool, in_reverse: bool) -> anyhow::Result<()> {
    let (engine, table) = filled(folder, Place::Cache)?;
    if work {
        let scan = table.scan();
        let mut cursor = if in_reverse { scan.reverse() } else { scan }.cursor()?;
        let mut rows = 0;
        while let Some(row) = cursor.next()? {
            let value: f64 = row.get(3)?;
            black_box(value);
            rows += 1;
        }
        ensure!(rows == ROWS, "{rows} rows");
    }
    std::mem::forget(engine);
    Ok(())
}
