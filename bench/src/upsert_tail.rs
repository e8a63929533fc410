//! `upsert-tail`: loads a table, upserts its rows at random for long, and tells how long batches take meanwhile.
//!
//! Every phase is driven as fast as the engine takes it, by threads that each commit one batch after the other: what a
//! batch waits for, the next ones of its thread wait for too. Nothing is left out of the latencies: they are those of
//! whole batches, from the first row encoded to the commit acknowledged, with all delays that the engine imposes.
//!
//! | phase | what |
//! |---|---|
//! | load | all rows once, in the order of their time over all hosts, then a flush; its rate is the load rate |
//! | upserts | rows drawn at random; flushes and compactions run |
//! | idle | a flush, and waiting until the engine has nothing left to do |
//!
//! Invariant: the table has as many rows at the end as were loaded, and that is checked.

mod outcome;
mod report;
mod sampler;
mod workload;
mod writers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nyala::{Engine, Options, Table};

use crate::args::{Distribution, UpsertTailArgs};
use crate::{measure, plot};

use outcome::Outcome;
use sampler::{Live, Phase, Sampler};
use workload::{Draw, Rows};

/// Runs the benchmark.
pub(crate) fn run(args: &UpsertTailArgs) -> anyhow::Result<()> {
    let folder = args.dir.join("upsert-tail");
    measure::make_folder(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut outcomes = Vec::new();
    for &distribution in &args.distributions {
        let database = folder.join(format!("database-{}", distribution.name()));
        measure::remove_folder(&database)?;
        let outcome = run_one(args, distribution, &database)
            .with_context(|| format!("upserts, {}", distribution.name()))?;
        if !args.keep {
            measure::remove_folder(&database)?;
        }
        let csv = folder.join(format!("{}.csv", distribution.name()));
        outcome.write_csv(&csv).with_context(|| format!("writing {}", csv.display()))?;
        let svg = folder.join(format!("{}.svg", distribution.name()));
        let panels = outcome.panels();
        measure::write_file(&svg, plot::draw(&outcome.title(args), &panels, &outcome.marks()).as_bytes())?;
        eprintln!("wrote {} and {}", csv.display(), svg.display());
        outcomes.push(outcome);
    }
    report::print(&outcomes);
    if args.json {
        println!("{}", report::to_json(&outcomes));
    }
    Ok(())
}

fn run_one(args: &UpsertTailArgs, distribution: Distribution, database: &Path) -> anyhow::Result<Outcome> {
    let options = Options { memory_bytes: usize::try_from(args.memory.as_u64())?, ..Options::default() };
    let engine = Engine::open(database, options)?;
    let table = engine.create_table("metrics", workload::schema()?)?;
    let rows = Arc::new(Rows::new(args.rows, args.seed));
    let live = Arc::new(Live::default());
    let sampler = Sampler::start(engine.clone(), database, &live)?;

    eprintln!("{}: loading {} rows", distribution.name(), args.rows);
    live.enter(Phase::Load);
    let start = Instant::now();
    let loaded = writers::run(args, &engine, &table, &live, args.rows, |_| Draw::in_order(&rows))?;
    let load_seconds = start.elapsed().as_secs_f64();
    engine.flush()?;
    let stats = engine.stats();
    // Every row is stored once and every key is in the index once, however it is spread over runs.
    let live_bytes = stats.index_bytes + stats.row_bytes;

    eprintln!("{}: {} upserts", distribution.name(), args.upserts);
    let before = engine.stats();
    live.enter(Phase::Upserts);
    let start = Instant::now();
    let draw = |thread| Draw::new(distribution, &rows, args.seed ^ (thread + 1));
    let upserted = writers::run(args, &engine, &table, &live, args.upserts, draw)?;
    let seconds = start.elapsed().as_secs_f64();
    let after = engine.stats();

    sampler.take_now();
    live.enter(Phase::Idle);
    let idle = wait_until_idle(&engine, &table, Duration::from_secs(args.idle_seconds))?;
    let series = sampler.stop()?;
    verify(args, &engine, &table)?;
    engine.close()?;
    Ok(Outcome {
        distribution,
        load_rows_per_second: args.rows as f64 / load_seconds,
        load: loaded,
        rows_per_second: args.upserts as f64 / seconds,
        seconds,
        threads: args.threads,
        upserts: upserted,
        live_bytes,
        stall_seconds: (after.stall_time.saturating_sub(before.stall_time)).as_secs_f64(),
        longest_stall: after.longest_stall,
        delayed_batches: after.delayed_batches - before.delayed_batches,
        stopped_batches: after.stopped_batches - before.stopped_batches,
        flushed_bytes: after.flushed_bytes - before.flushed_bytes,
        compaction_bytes_out: after.compaction_bytes_out - before.compaction_bytes_out,
        compactions: after.compactions - before.compactions,
        moved_bytes: after.moved_bytes - before.moved_bytes,
        compaction_seconds: (after.compaction_time.saturating_sub(before.compaction_time)).as_secs_f64(),
        is_idle: idle,
        series,
    })
}

/// Flushes, and waits until nothing has changed for a while. False if the time was up before that.
fn wait_until_idle(engine: &Engine, table: &Table, most: Duration) -> anyhow::Result<bool> {
    let quiet = (most / 4).min(Duration::from_secs(5));
    engine.flush()?;
    let start = Instant::now();
    let mut quiet_since = Instant::now();
    let state = || (engine.stats().compactions, engine.stats().obsolete_files, table.stats());
    let mut before = state();
    while start.elapsed() < most {
        std::thread::sleep(Duration::from_millis(100));
        let now = state();
        if now != before {
            quiet_since = Instant::now();
            before = now;
        }
        if quiet_since.elapsed() >= quiet {
            return Ok(true);
        }
    }
    Ok(false)
}

fn verify(args: &UpsertTailArgs, engine: &Engine, table: &Table) -> anyhow::Result<()> {
    let rows = table.count()?;
    ensure!(rows == args.rows, "{} rows were loaded, {rows} are there", args.rows);
    if args.check {
        let report = engine.check()?;
        ensure!(report.problems.is_empty(), "check: {:?}", report.problems);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
