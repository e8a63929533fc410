//! Threads that write batches, one after the other, and how long each took.

use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;
use nyala::{Durability, Engine, Table};

use crate::args::UpsertTailArgs;
use crate::measure::thread_cpu_time;

use super::sampler::Live;
use super::workload::Draw;

/// How many of the slowest batches are remembered.
const SLOWEST: usize = 10;

/// A batch that took long, and what it spent its time with.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowBatch {
    /// When it was done, in seconds since the first phase began.
    pub(super) at: f64,
    pub(super) took: Duration,
    /// Processor time of its thread.
    pub(super) cpu: Duration,
    /// How long its thread was ready to run and had no processor. Zero where the system does not say.
    pub(super) wait_for_cpu: Duration,
}

impl SlowBatch {
    /// What is left: delays, locks, the disk.
    pub(super) fn blocked(&self) -> Duration {
        self.took.saturating_sub(self.cpu).saturating_sub(self.wait_for_cpu)
    }
}

/// What the threads of a phase did.
#[derive(Debug)]
pub(super) struct Written {
    /// Of batches, in nanoseconds.
    pub(super) latencies: Histogram<u64>,
    /// The slowest first.
    pub(super) slowest: Vec<SlowBatch>,
}

impl Written {
    fn new() -> Written {
        let latencies = Histogram::new(3).expect("three digits are few enough");
        Written { latencies, slowest: Vec::new() }
    }

    fn note(&mut self, batch: SlowBatch) {
        self.latencies.record(nanos(batch.took)).expect("the histogram grows");
        if self.slowest.len() < SLOWEST || self.slowest.last().is_some_and(|last| last.took < batch.took) {
            let at = self.slowest.partition_point(|other| other.took >= batch.took);
            self.slowest.insert(at, batch);
            self.slowest.truncate(SLOWEST);
        }
    }

    fn add(&mut self, other: Written) {
        self.latencies.add(&other.latencies).expect("a histogram that grows takes any other");
        self.slowest.extend(other.slowest);
        self.slowest.sort_by_key(|batch| std::cmp::Reverse(batch.took));
        self.slowest.truncate(SLOWEST);
    }
}

/// Writes `rows` rows with all threads.
pub(super) fn run(
    args: &UpsertTailArgs,
    engine: &Engine,
    table: &Table,
    live: &Live,
    rows: u64,
    draw: impl Fn(u64) -> Draw + Sync,
) -> anyhow::Result<Written> {
    std::thread::scope(|scope| {
        let share = |thread: u64| rows / args.threads + u64::from(thread < rows % args.threads);
        let threads: Vec<_> = (0..args.threads)
            .map(|thread| {
                let draw = &draw;
                scope.spawn(move || write(engine, table, live, draw(thread), share(thread), args.batch))
            })
            .collect();
        let mut all = Written::new();
        for thread in threads {
            all.add(thread.join().ok().context("a writing thread panicked")??);
        }
        Ok(all)
    })
}

fn write(
    engine: &Engine,
    table: &Table,
    live: &Live,
    mut draw: Draw,
    rows: u64,
    batch_rows: u64,
) -> anyhow::Result<Written> {
    let mut written = Written::new();
    let mut batch = engine.batch();
    let mut numbers = Vec::new();
    let mut left = rows;
    let mut waiting = RunQueue::open();
    while left > 0 {
        draw.fill(&mut numbers, left.min(batch_rows));
        let seed = draw.write();
        let waited = waiting.waited();
        let (start, cpu) = (Instant::now(), thread_cpu_time());
        for (index, &number) in numbers.iter().enumerate() {
            batch.upsert(table, draw.rows().row(number, seed.wrapping_add(index as u64)))?;
        }
        batch.commit(Durability::Buffered)?;
        let took = start.elapsed();
        let cpu = thread_cpu_time().saturating_sub(cpu);
        let wait_for_cpu = waiting.waited().saturating_sub(waited);
        batch.clear();
        let at = live.note_batch(numbers.len() as u64, nanos(took));
        written.note(SlowBatch { at, took, cpu, wait_for_cpu });
        left -= left.min(batch_rows);
    }
    Ok(written)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How long this thread was ready to run but not running, as the kernel counts it.
struct RunQueue {
    #[expect(clippy::disallowed_types, reason = "/proc is no file of the engine")]
    schedstat: Option<std::fs::File>,
}

impl RunQueue {
    #[expect(clippy::disallowed_types, reason = "/proc is no file of the engine")]
    fn open() -> RunQueue {
        RunQueue { schedstat: std::fs::File::open("/proc/thread-self/schedstat").ok() }
    }

    #[cfg(unix)]
    fn waited(&mut self) -> Duration {
        use std::os::unix::fs::FileExt;
        let read = || {
            let mut text = [0; 64];
            let len = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(&text[..len]).ok()?;
            text.split_whitespace().nth(1)?.parse().ok()
        };
        Duration::from_nanos(read().unwrap_or(0))
    }

    #[cfg(not(unix))]
    fn waited(&mut self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_batches_are_remembered() {
        let batch = |millis| SlowBatch {
            at: 0.0,
            took: Duration::from_millis(millis),
            cpu: Duration::from_millis(millis / 2),
            wait_for_cpu: Duration::ZERO,
        };
        let mut written = Written::new();
        for millis in (1..100).chain(50..60) {
            written.note(batch(millis));
        }
        let mut other = Written::new();
        other.note(batch(200));
        written.add(other);
        let slowest: Vec<_> = written.slowest.iter().map(|batch| batch.took.as_millis()).collect();
        assert_eq!(slowest, [200, 99, 98, 97, 96, 95, 94, 93, 92, 91]);
        assert_eq!(written.slowest[0].blocked(), Duration::from_millis(100));
        assert_eq!(written.latencies.len(), 110);
        assert_eq!(written.latencies.max() / 1_000_000, 200);
        assert_eq!(written.latencies.value_at_quantile(0.5) / 1_000_000, 52);
    }
}
