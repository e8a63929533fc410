//! One process of the benchmark: opens one engine, runs a group of phases, and prints a line of JSON for each number.
//!
//! | line | |
//! |---|---|
//! | `{"phase": .., "metric": .., "value": ..}` | a number |
//! | `{"series": phase, "points": [[seconds, rows/s, slowest ms], ..]}` | how a phase went |
//! | `{"acknowledged": [batches, ..]}` | how many batches each thread had acknowledged, in a process that waits to be killed |

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::measure;

use super::args::{Group, PeersOnceArgs, Phase, WorkloadArgs};
use super::draw::Order;
use super::meter::{self, Cost, Live};
use super::phases::points::{self, Which};
use super::phases::scans::{self, SHORT_ROWS};
use super::phases::writes::{self, Writer};
use super::phases::{Task, mixed, synced};
use super::rows::Rows;
use super::store::{self, Columns, Durability, Setup, Start, Store};

/// So many of the last batches that a thread had acknowledged before it was killed are looked for.
const LOOKED_FOR: u64 = 200;

/// Runs a group of phases, and prints.
pub(crate) fn run(args: &PeersOnceArgs) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    run_group(args, &mut |line| {
        writeln!(stdout, "{line}")?;
        Ok(stdout.flush()?)
    })
}

/// Takes the lines.
type Out<'a> = dyn FnMut(Value) -> anyhow::Result<()> + 'a;

/// Runs a group of phases, and gives what it has to say to `out`.
pub(super) fn run_group(args: &PeersOnceArgs, out: &mut Out<'_>) -> anyhow::Result<()> {
    let mut process = Process { args, rows: rows(&args.workload), out };
    match args.group {
        Group::Load => process.load(),
        Group::Sequential => process.sequential(),
        Group::Read => process.read(),
        Group::Mixed => process.mixed(),
        Group::Synced => process.synced(),
        Group::Killed => process.upsert_until_killed(),
        Group::Reopen => process.reopen(),
    }
}

/// The rows of a run.
pub(super) fn rows(workload: &WorkloadArgs) -> Rows {
    Rows::new(workload.rows, workload.value_bytes, workload.seed)
}

/// How an engine is opened for a group.
pub(super) fn setup(workload: &WorkloadArgs, folder: &std::path::Path, durability: Durability) -> Setup {
    Setup {
        folder: folder.to_owned(),
        rows: rows(workload),
        taste: workload.settings,
        memory: usize::try_from(workload.memory.as_u64()).unwrap_or(usize::MAX),
        durability,
        threads: usize::try_from(workload.threads).unwrap_or(1),
    }
}

struct Process<'a> {
    args: &'a PeersOnceArgs,
    rows: Rows,
    out: &'a mut Out<'a>,
}

impl Process<'_> {
    fn workload(&self) -> &WorkloadArgs {
        &self.args.workload
    }

    fn open(&self, durability: Durability) -> anyhow::Result<Box<dyn Store>> {
        let setup = setup(self.workload(), &self.args.folder, durability);
        store::open(self.args.engine, &setup)
            .with_context(|| format!("opening {}", self.args.folder.display()))
    }

    fn number(&mut self, phase: &str, metric: &str, value: f64) -> anyhow::Result<()> {
        (self.out)(json!({ "phase": phase, "metric": metric, "value": value }))
    }

    fn latencies(&mut self, phase: &str, prefix: &str, latencies: &Histogram<u64>) -> anyhow::Result<()> {
        for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)] {
            let value = latencies.value_at_quantile(quantile) as f64 / 1e3;
            self.number(phase, &format!("{prefix}{name}"), value)?;
        }
        Ok(())
    }

    /// What every phase tells: a rate, processor time and memory. `what` is the unit: `row`, `read` or `commit`.
    fn cost(&mut self, phase: &str, what: &str, count: u64, cost: &Cost) -> anyhow::Result<()> {
        self.number(phase, &format!("{what}s_per_s"), count as f64 / cost.elapsed.as_secs_f64().max(1e-9))?;
        self.number(phase, &format!("cpu_ns_per_{what}"), cost.cpu.as_nanos() as f64 / count.max(1) as f64)?;
        self.number(phase, "peak_memory_bytes", cost.peak_memory as f64)?;
        self.number(phase, "peak_anonymous_bytes", cost.peak_anonymous as f64)
    }

    /// What phases that write tell besides. `row_bytes` is what a user wrote with each row.
    fn written(&mut self, phase: &str, rows: u64, cost: &Cost, store: &dyn Store) -> anyhow::Result<()> {
        let user = rows * self.rows.row_bytes();
        self.number(phase, "write_amplification", cost.written as f64 / user.max(1) as f64)?;
        let folder = &self.args.folder;
        let disk = measure::allocated_bytes(folder, &|_| true);
        let log = measure::allocated_bytes(folder, &|file| store.is_log(file));
        self.number(phase, "disk_bytes", disk as f64)?;
        self.number(phase, "disk_log_bytes", log as f64)?;
        if let Some(idle) = cost.idle {
            self.number(phase, "idle_after_s", idle.after.as_secs_f64())?;
            self.number(phase, "idle_reached", f64::from(u8::from(idle.reached)))?;
        }
        Ok(())
    }

    fn task<'t>(&'t self, store: &'t dyn Store, live: &'t Live) -> Task<'t> {
        let WorkloadArgs { threads, batch, seed, .. } = *self.workload();
        Task { store, rows: &self.rows, live, threads, batch, seed }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.workload().idle_seconds)
    }

    /// Writes, waits until the engine is idle, and tells everything of it, unless nobody asked for the phase.
    fn write_phase(
        &mut self,
        phase: &str,
        store: &dyn Store,
        is_asked_for: bool,
        write: impl FnOnce(Task<'_>) -> anyhow::Result<Histogram<u64>>,
    ) -> anyhow::Result<()> {
        let live = Live::default();
        let idle = Some((store, self.patience()));
        let (latencies, cost) = meter::measure(&live, idle, || write(self.task(store, &live)))?;
        if !is_asked_for {
            return Ok(());
        }
        let rows = self.rows.count();
        self.cost(phase, "row", rows, &cost)?;
        self.latencies(phase, "", &latencies)?;
        self.written(phase, rows, &cost, store)?;
        let points = cost.series.iter().map(|point| [point.at, point.rows_per_second, point.slowest_ms]);
        (self.out)(json!({ "series": phase, "points": points.collect::<Vec<_>>() }))
    }

    fn load(&mut self) -> anyhow::Result<()> {
        let (has_load, has_upserts) = (self.workload().has(Phase::P1), self.workload().has(Phase::P2));
        let (loading, upserting) = writes::own_cost(&self.rows, self.workload().batch);
        let store = self.open(Durability::Buffered)?;
        if has_load {
            self.number("P1", "own_cpu_ns_per_row", loading.as_nanos() as f64)?;
        }
        self.write_phase("P1", &*store, has_load, |task| writes::load(task, Order::Random))?;
        if has_upserts {
            self.number("P2", "own_cpu_ns_per_row", upserting.as_nanos() as f64)?;
            let count = self.rows.count();
            self.write_phase("P2", &*store, true, |task| writes::upsert(task, count))?;
        }
        let start = Instant::now();
        store.close()?;
        if self.workload().has(Phase::P7) {
            self.number("P7-clean", "close_ms", start.elapsed().as_secs_f64() * 1e3)?;
        }
        Ok(())
    }

    fn sequential(&mut self) -> anyhow::Result<()> {
        let store = self.open(Durability::Buffered)?;
        self.write_phase("P1-sequential", &*store, true, |task| writes::load(task, Order::Sequential))?;
        store.close()
    }

    /// Opens, reads one row, and tells how long that took.
    fn timed_open(&mut self, phase: &str) -> anyhow::Result<Box<dyn Store>> {
        let (start, cpu) = (Instant::now(), measure::process_cpu_time());
        let store = self.open(Durability::Buffered)?;
        points::read_existing(&mut *store.reader()?, &self.rows, self.rows.count() / 2)?;
        let (took, cpu) = (start.elapsed(), measure::process_cpu_time().saturating_sub(cpu));
        if self.workload().has(Phase::P7) {
            self.number(phase, "open_ms", took.as_secs_f64() * 1e3)?;
            self.number(phase, "open_cpu_ms", cpu.as_secs_f64() * 1e3)?;
            self.number(phase, "peak_memory_bytes", measure::status_bytes("VmHWM").unwrap_or(0) as f64)?;
        }
        Ok(store)
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let store = self.timed_open("P7-clean")?;
        let rows = self.rows.count();
        if self.workload().has(Phase::P3) {
            self.point_reads("P3-existing", &*store, Which::Existing, rows / 5)?;
            self.point_reads("P3-missing", &*store, Which::Missing, rows / 10)?;
            self.point_reads("P3-zipfian", &*store, Which::Zipfian, rows / 10)?;
        }
        if self.workload().has(Phase::P4) {
            self.full_scan("P4-forward", &*store, Start::First, Columns::All)?;
            self.full_scan("P4-reverse", &*store, Start::Last, Columns::All)?;
            self.full_scan("P4-keys", &*store, Start::First, Columns::Keys)?;
            self.short_scans("P4-short", &*store, rows / 50)?;
        }
        store.close()
    }

    fn point_reads(
        &mut self,
        phase: &str,
        store: &dyn Store,
        which: Which,
        count: u64,
    ) -> anyhow::Result<()> {
        let live = Live::default();
        let (latencies, cost) =
            meter::measure(&live, None, || points::read(self.task(store, &live), which, count))?;
        self.cost(phase, "row", count, &cost)?;
        self.latencies(phase, "", &latencies)
    }

    fn full_scan(
        &mut self,
        phase: &str,
        store: &dyn Store,
        start: Start,
        columns: Columns,
    ) -> anyhow::Result<()> {
        let live = Live::default();
        let ((), cost) =
            meter::measure(&live, None, || scans::full(self.task(store, &live), start, columns))?;
        self.cost(phase, "row", self.rows.count(), &cost)
    }

    fn short_scans(&mut self, phase: &str, store: &dyn Store, count: u64) -> anyhow::Result<()> {
        let live = Live::default();
        let (latencies, cost) = meter::measure(&live, None, || scans::short(self.task(store, &live), count))?;
        self.cost(phase, "row", live.rows(), &cost)?;
        let per_scan = cost.cpu.as_nanos() as f64 / 1e3 / count.max(1) as f64;
        self.number(phase, &format!("cpu_us_per_scan_of_{SHORT_ROWS}"), per_scan)?;
        self.latencies(phase, "", &latencies)
    }

    fn mixed(&mut self) -> anyhow::Result<()> {
        let store = self.open(Durability::Buffered)?;
        let live = Live::default();
        let each = self.rows.count() / 10;
        let idle: Option<(&dyn Store, Duration)> = Some((&*store, self.patience()));
        let (latencies, cost) = meter::measure(&live, idle, || mixed::run(self.task(&*store, &live), each))?;
        self.cost("P6", "row", 2 * each, &cost)?;
        self.latencies("P6", "read_", &latencies.reads)?;
        self.latencies("P6", "upsert_", &latencies.upserts)?;
        self.written("P6", each, &cost, &*store)?;
        store.close()
    }

    fn synced(&mut self) -> anyhow::Result<()> {
        let store = self.open(Durability::Synced)?;
        let duration = Duration::from_secs(self.workload().seconds);
        for threads in [2, 8] {
            let phase = format!("P5-{threads}-threads");
            let live = Live::default();
            let (latencies, cost) = meter::measure(&live, None, || {
                synced::commit(Task { threads, ..self.task(&*store, &live) }, duration)
            })?;
            self.cost(&phase, "row", latencies.len(), &cost)?;
            self.latencies(&phase, "", &latencies)?;
        }
        store.close()
    }

    /// Goes on until somebody kills the process, or nobody takes its lines any more.
    fn upsert_until_killed(&mut self) -> anyhow::Result<()> {
        let store = self.open(Durability::Buffered)?;
        let (rows, live) = (self.rows.clone(), Live::default());
        let WorkloadArgs { threads, batch, seed, .. } = *self.workload();
        let task = Task { store: &*store, rows: &rows, live: &live, threads, batch, seed };
        let acknowledged: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers = scope.spawn(|| writes::upsert_until(task, &stop, &acknowledged));
            let mut told = Ok(());
            while told.is_ok() && !writers.is_finished() {
                std::thread::sleep(Duration::from_millis(10));
                let load = |batches: &AtomicU64| batches.load(Ordering::Relaxed);
                let batches: Vec<u64> = acknowledged.iter().map(load).collect();
                told = (self.out)(json!({ "acknowledged": batches }));
            }
            stop.store(true, Ordering::Relaxed);
            writers.join().ok().context("a thread of the benchmark panicked")??;
            told
        })
    }

    fn reopen(&mut self) -> anyhow::Result<()> {
        let store = self.timed_open("P7-killed")?;
        let mut count = 0;
        let scan = store::Scan { start: Start::First, columns: Columns::Keys, limit: u64::MAX };
        store.reader()?.scan(scan, &mut |_, _, _| {
            count += 1;
            Ok(())
        })?;
        ensure!(count == self.rows.count(), "{count} of {} rows are there", self.rows.count());
        let (lost, looked_for) = self.lost_rows(&*store)?;
        self.number("P7-killed", "acknowledged_rows_lost", lost as f64)?;
        self.number("P7-killed", "acknowledged_rows_looked_for", looked_for as f64)?;
        store.close()
    }

    /// Looks for the rows of the last batches that were acknowledged before the process was killed. Tells how many are
    /// lost, and of how many.
    fn lost_rows(&self, store: &dyn Store) -> anyhow::Result<(u64, u64)> {
        let mut reader = store.reader()?;
        let (mut lost, mut looked_for) = (0, 0);
        for (thread, &acknowledged) in self.args.acknowledged.iter().enumerate() {
            let thread = thread as u64;
            let mut draw = writes::draw(&self.rows, Writer::Killed, self.workload().seed, thread);
            let mut last: HashMap<u64, u64> = HashMap::new();
            let mut numbers = Vec::new();
            for batch in 0..acknowledged {
                draw.fill(&self.rows, self.workload().batch, &mut numbers);
                if batch + LOOKED_FOR >= acknowledged {
                    last.extend(numbers.iter().map(|&number| (number, batch)));
                }
            }
            for (number, batch) in last {
                let stamp = points::read_existing(&mut *reader, &self.rows, number)?;
                // Another thread may have written it later.
                let is_there = match Writer::Killed.batch_of(thread, stamp) {
                    Some(found) => found >= batch,
                    None => Writer::Killed.is_of(stamp),
                };
                looked_for += 1;
                lost += u64::from(!is_there);
            }
        }
        Ok((lost, looked_for))
    }
}
