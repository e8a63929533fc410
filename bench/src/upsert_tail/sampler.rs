//! Looks at the engine every 250 ms, from a thread of its own.
//!
//! What is on the disk is told by the lengths of the files that are there, so that outputs in the making and files that
//! wait to be removed count.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use nyala::Engine;

use crate::measure::{folder_bytes, resident_bytes};

const PERIOD: Duration = Duration::from_millis(250);

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Load,
    Upserts,
    Idle,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Load => "load",
            Phase::Upserts => "upserts",
            Phase::Idle => "idle",
        }
    }
}

/// What the writing threads and the sampler share.
#[derive(Debug)]
pub(super) struct Live {
    start: Instant,
    phase: AtomicU8,
    rows: AtomicU64,
    /// The slowest batch since the last sample, in nanoseconds.
    slowest: AtomicU64,
    /// Samples taken.
    samples: AtomicU64,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            start: Instant::now(),
            phase: AtomicU8::new(Phase::Load as u8),
            rows: AtomicU64::new(0),
            slowest: AtomicU64::new(0),
            samples: AtomicU64::new(0),
        }
    }
}

impl Live {
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Load,
            1 => Phase::Upserts,
            _ => Phase::Idle,
        }
    }

    /// Counts a batch, and tells the time in seconds since the start.
    pub(super) fn note_batch(&self, rows: u64, nanos: u64) -> f64 {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.slowest.fetch_max(nanos, Ordering::Relaxed);
        self.start.elapsed().as_secs_f64()
    }
}

/// The engine at a moment. Sizes are in bytes; rates and waits are those since the sample before.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// In seconds since the first phase began.
    pub(super) at: f64,
    pub(super) phase: Phase,
    /// Written so far, in all phases.
    pub(super) rows: u64,
    pub(super) rows_per_second: f64,
    pub(super) slowest_ms: f64,
    /// How long batches were delayed or stopped, over all threads, for each second.
    pub(super) stall_ms_per_second: f64,
    pub(super) runs: u64,
    /// How many rowsets cover a key, at most.
    pub(super) depth: u64,
    pub(super) rowsets: u64,
    /// By how many runs and by how many rowsets over a key the engine is behind.
    pub(super) debt_runs: u64,
    pub(super) debt_depth: u64,
    pub(super) sealed_memtables: u64,
    pub(super) memtable_bytes: u64,
    pub(super) index_bytes: u64,
    pub(super) row_bytes: u64,
    /// Rows stored that nothing points to.
    pub(super) garbage_rows: u64,
    /// Of index files and rowsets that are in the folder, in force or not.
    pub(super) data_bytes: u64,
    /// Of everything in the folder: the log too.
    pub(super) disk_bytes: u64,
    pub(super) resident_bytes: u64,
    pub(super) compactions: u64,
}

/// A thread that takes samples.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    live: Arc<Live>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    pub(super) fn start(engine: Engine, folder: &Path, live: &Arc<Live>) -> std::io::Result<Sampler> {
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, shared, stopped) = (folder.to_owned(), Arc::clone(live), Arc::clone(&stop));
        let body = move || take_samples(&engine, &folder, &shared, &stopped);
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(body)?;
        Ok(Sampler { stop, live: Arc::clone(live), thread })
    }

    /// Sees to it that there is a sample of this phase, however short it was.
    pub(super) fn take_now(&self) {
        let before = self.live.samples.load(Ordering::Relaxed);
        // The first that ends may have begun before.
        while self.live.samples.load(Ordering::Relaxed) < before + 2 && !self.thread.is_finished() {
            self.thread.thread().unpark();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it, after a last sample.
    pub(super) fn stop(self) -> anyhow::Result<Vec<Sample>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok().context("the sampling thread panicked")
    }
}

fn take_samples(engine: &Engine, folder: &Path, live: &Live, stop: &AtomicBool) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut stalled = Duration::ZERO;
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let mut sample = take(engine, folder, live);
        let before = samples.last().map_or((0.0, 0), |before| (before.at, before.rows));
        let seconds = (sample.at - before.0).max(1e-3);
        sample.rows_per_second = (sample.rows - before.1) as f64 / seconds;
        let stall_time = engine.stats().stall_time;
        sample.stall_ms_per_second = stall_time.saturating_sub(stalled).as_secs_f64() * 1e3 / seconds;
        stalled = stall_time;
        samples.push(sample);
        live.samples.fetch_add(1, Ordering::Relaxed);
        if is_last {
            return samples;
        }
        std::thread::park_timeout(PERIOD);
    }
}

fn take(engine: &Engine, folder: &Path, live: &Live) -> Sample {
    let stats = engine.stats();
    let sum = |count: fn(&nyala::TableStats) -> u64| stats.tables.iter().map(count).sum::<u64>();
    let is_data = |path: &Path| path.extension().is_some_and(|kind| kind == "idx" || kind == "row");
    Sample {
        at: live.start.elapsed().as_secs_f64(),
        phase: live.phase(),
        rows: live.rows.load(Ordering::Relaxed),
        rows_per_second: 0.0,
        slowest_ms: live.slowest.swap(0, Ordering::Relaxed) as f64 / 1e6,
        stall_ms_per_second: 0.0,
        runs: sum(|table| table.index_runs),
        depth: sum(|table| table.overlap_depth),
        rowsets: sum(|table| table.rowsets),
        debt_runs: stats.debt_runs,
        debt_depth: stats.debt_depth,
        sealed_memtables: sum(|table| table.sealed_memtables),
        memtable_bytes: stats.memtable_bytes,
        index_bytes: stats.index_bytes,
        row_bytes: stats.row_bytes,
        garbage_rows: sum(|table| table.stored_rows.saturating_sub(table.live_rows)),
        data_bytes: folder_bytes(folder, is_data),
        disk_bytes: folder_bytes(folder, |_| true),
        resident_bytes: resident_bytes().unwrap_or(0),
        compactions: stats.compactions,
    }
}
