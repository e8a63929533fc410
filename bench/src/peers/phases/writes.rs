//! Loads, and upserts of rows that are there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::measure::thread_cpu_time;
use crate::peers::draw::{Distribution, Draw, Load, Order};
use crate::peers::meter::nanos;
use crate::peers::rows::{Batch, Rows};

use super::{Task, in_threads, latencies, share, together};

/// Who wrote a value: the upper bits of its stamp. The rest counts the batches of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(in crate::peers) enum Writer {
    Load = 1,
    Upserts = 2,
    Mixed = 3,
    Synced = 4,
    Killed = 5,
}

const THREAD_BITS: u32 = 12;
const BATCH_BITS: u32 = 48;

impl Writer {
    /// The stamp of the rows of a batch.
    pub(in crate::peers) fn stamp(self, thread: u64, batch: u64) -> u64 {
        (((self as u64) << THREAD_BITS | thread) << BATCH_BITS) | batch
    }

    /// The batch of a stamp, if this writer's thread wrote it.
    pub(in crate::peers) fn batch_of(self, thread: u64, stamp: u64) -> Option<u64> {
        let batch = stamp & ((1 << BATCH_BITS) - 1);
        (self.stamp(thread, batch) == stamp).then_some(batch)
    }

    /// Whether any thread of this writer wrote it.
    pub(in crate::peers) fn is_of(self, stamp: u64) -> bool {
        stamp >> (THREAD_BITS + BATCH_BITS) == self as u64
    }

    /// A seed for what a thread of it draws.
    pub(in crate::peers) fn seed(self, seed: u64, thread: u64) -> u64 {
        seed ^ self.stamp(thread, 0)
    }
}

/// Writes every row once. The latencies are those of batches, from the first key encoded to the commit acknowledged.
pub(in crate::peers) fn load(task: Task<'_>, order: Order) -> anyhow::Result<Histogram<u64>> {
    let load = Load::new(order);
    let all = in_threads(task.threads, |thread| {
        let fill = |numbers: &mut Vec<u64>| load.fill(task.rows, task.batch, numbers);
        write_batches(task, Writer::Load, thread, &AtomicU64::new(0), fill)
    })?;
    Ok(together(all))
}

/// Writes rows that are there, drawn by a zipfian distribution.
pub(in crate::peers) fn upsert(task: Task<'_>, count: u64) -> anyhow::Result<Histogram<u64>> {
    let all = in_threads(task.threads, |thread| {
        let mut draw = draw(task.rows, Writer::Upserts, task.seed, thread);
        let mut left = share(count, task.threads, thread);
        let fill = |numbers: &mut Vec<u64>| {
            let now = left.min(task.batch);
            left -= now;
            draw.fill(task.rows, now, numbers);
        };
        write_batches(task, Writer::Upserts, thread, &AtomicU64::new(0), fill)
    })?;
    Ok(together(all))
}

/// Upserts until it is told to stop, and counts for each thread how many batches were acknowledged.
pub(in crate::peers) fn upsert_until(
    task: Task<'_>,
    stop: &AtomicBool,
    acknowledged: &[AtomicU64],
) -> anyhow::Result<()> {
    in_threads(task.threads, |thread| {
        let mut draw = draw(task.rows, Writer::Killed, task.seed, thread);
        let fill = |numbers: &mut Vec<u64>| {
            let now = if stop.load(Ordering::Relaxed) { 0 } else { task.batch };
            draw.fill(task.rows, now, numbers);
        };
        write_batches(task, Writer::Killed, thread, &acknowledged[thread as usize], fill)
    })?;
    Ok(())
}

/// What a writer's thread draws its rows from.
pub(in crate::peers) fn draw(rows: &Rows, writer: Writer, seed: u64, thread: u64) -> Draw {
    Draw::new(Distribution::Zipfian, rows, writer.seed(seed, thread))
}

/// Writes batches until there is nothing more to write.
fn write_batches(
    task: Task<'_>,
    writer: Writer,
    thread: u64,
    acknowledged: &AtomicU64,
    mut fill: impl FnMut(&mut Vec<u64>),
) -> anyhow::Result<Histogram<u64>> {
    let mut to = task.store.writer()?;
    let mut latencies = latencies();
    let (mut batch, mut numbers) = (Batch::new(task.rows), Vec::new());
    for count in 0.. {
        fill(&mut numbers);
        if numbers.is_empty() {
            break;
        }
        batch.fill(task.rows, &numbers, writer.stamp(thread, count));
        let start = Instant::now();
        to.write(&batch)?;
        let took = start.elapsed();
        latencies.record(nanos(took))?;
        task.live.note(numbers.len() as u64, took);
        acknowledged.store(count + 1, Ordering::Relaxed);
    }
    Ok(latencies)
}

/// The processor time a row that making the rows of a load takes, and those of upserts: the benchmark's own part.
pub(in crate::peers) fn own_cost(rows: &Rows, batch_rows: u64) -> (Duration, Duration) {
    const ROWS: u64 = 200_000;
    let count = rows.count().min(ROWS);
    let (mut batch, mut numbers) = (Batch::new(rows), Vec::new());
    let mut cost = |fill: &mut dyn FnMut(&mut Vec<u64>)| {
        let before = thread_cpu_time();
        let mut left = count;
        while left > 0 {
            fill(&mut numbers);
            batch.fill(rows, &numbers, left);
            std::hint::black_box(&batch);
            left = left.saturating_sub(batch_rows);
        }
        (thread_cpu_time() - before) / u32::try_from(count).expect("few enough")
    };
    let load = Load::new(Order::Random);
    let loading = cost(&mut |numbers| load.fill(rows, batch_rows, numbers));
    let mut draw = draw(rows, Writer::Upserts, 1, 0);
    let upserting = cost(&mut |numbers| draw.fill(rows, batch_rows, numbers));
    (loading, upserting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_tell_who_wrote() {
        let stamp = Writer::Killed.stamp(3, 12_345);
        assert_eq!(Writer::Killed.batch_of(3, stamp), Some(12_345));
        assert_eq!(Writer::Killed.batch_of(2, stamp), None);
        assert_eq!(Writer::Upserts.batch_of(3, stamp), None);
        assert!(Writer::Killed.is_of(stamp) && !Writer::Synced.is_of(stamp));
        assert_ne!(Writer::Killed.seed(1, 0), Writer::Killed.seed(1, 1));
    }

    #[test]
    fn the_own_cost_is_small() {
        let (load, upserts) = own_cost(&Rows::new(50_000, 100, 1), 100);
        assert!(!load.is_zero() && load < Duration::from_micros(50), "{load:?}");
        assert!(!upserts.is_zero() && upserts < Duration::from_micros(50), "{upserts:?}");
    }
}
