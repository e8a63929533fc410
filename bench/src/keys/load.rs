//! A whole load, with keys made in either way: what their part of it is.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nyala::{Durability, Engine, Options, Schema, Table, Type};

use crate::allocator;
use crate::args::KeysArgs;
use crate::measure;
use crate::peers::draw::{Load, Order};
use crate::peers::rows::{Batch, Rows, Value};

use super::Variant;
use super::heap::RowSetKeyProbe;
use super::path::{self, KEY_BYTES};

const BATCH: u64 = 100;

/// What a load costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Of the whole process, until the engine has nothing left to do.
    pub(super) cpu_ns_per_row: f64,
    pub(super) rows_per_second: f64,
    /// By the threads that write, over all.
    pub(super) allocations_per_row: f64,
}

/// Values are the same columns in both tables.
fn schema(variant: Variant) -> nyala::Result<Schema> {
    let builder = Schema::builder();
    let builder = match variant {
        Variant::Heap => builder.key("key", Type::Binary),
        Variant::Arena => builder.key("host", Type::U32).key("time", Type::I64).key("metric", Type::String),
    };
    builder.column("stamp", Type::U64).column("rest", Type::Binary).build()
}

/// Loads all rows into a new table.
pub(super) fn run(args: &KeysArgs, variant: Variant, rows: &Rows, folder: &Path) -> anyhow::Result<Cost> {
    let database = folder.join(variant.name());
    measure::remove_folder(&database)?;
    let options = Options { memory_bytes: usize::try_from(args.memory.as_u64())?, ..Options::default() };
    let engine = Engine::open(&database, options)?;
    let table = engine.create_table("rows", schema(variant)?)?;
    let order = if args.random { Order::Random } else { Order::Sequential };
    let load = Load::new(order);
    let (start, cpu) = (Instant::now(), measure::process_cpu_time());
    let allocations = std::thread::scope(|scope| {
        let write = || write(variant, &engine, &table, rows, &load);
        let started: Vec<_> = (0..args.load_threads).map(|_| scope.spawn(write)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<u64>>| {
            thread.join().ok().context("a thread of the benchmark panicked")?
        };
        started.into_iter().map(join).sum::<anyhow::Result<u64>>()
    })?;
    let elapsed = start.elapsed();
    wait_until_idle(&engine)?;
    let cpu = measure::process_cpu_time().saturating_sub(cpu);
    ensure!(table.count()? == rows.count(), "rows are missing");
    engine.close()?;
    drop((table, engine));
    measure::remove_folder(&database)?;
    let count = rows.count() as f64;
    Ok(Cost {
        cpu_ns_per_row: cpu.as_nanos() as f64 / count,
        rows_per_second: count / elapsed.as_secs_f64().max(1e-9),
        allocations_per_row: allocations as f64 / count,
    })
}

/// Writes batches until there are no more rows, and tells how often it asked for memory.
fn write(variant: Variant, engine: &Engine, table: &Table, rows: &Rows, load: &Load) -> anyhow::Result<u64> {
    let layout = path::layout()?;
    let (mut made, mut numbers) = (Batch::new(rows), Vec::new());
    let (mut batch, mut scratch) = (engine.batch(), Vec::new());
    let before = allocator::allocations();
    loop {
        load.fill(rows, BATCH, &mut numbers);
        if numbers.is_empty() {
            return Ok(allocator::allocations() - before);
        }
        made.fill(rows, &numbers, 1);
        for (key, value) in made.iter() {
            let Value { stamp, rest } = Value::split(value).context("a short value")?;
            match variant {
                Variant::Heap => {
                    let probe = RowSetKeyProbe::new(&layout, &path::columns(key), KEY_BYTES)?;
                    std::hint::black_box(probe.hash());
                    probe.encode_for_memtable(&layout, &mut scratch)?;
                    batch.upsert(table, (&scratch[..], stamp, rest))?;
                }
                Variant::Arena => {
                    batch.upsert(table, (key.host, key.time, key.metric, stamp, rest))?;
                }
            }
        }
        batch.commit(Durability::Buffered)?;
    }
}

/// Flushes, and waits until nothing runs or waits in the background.
fn wait_until_idle(engine: &Engine) -> anyhow::Result<()> {
    engine.flush()?;
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(20));
        let stats = engine.stats();
        if stats.compaction_threads + stats.compactions_due > 0 {
            quiet_since = Instant::now();
        }
    }
    Ok(())
}
