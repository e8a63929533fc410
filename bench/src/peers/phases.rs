//! What is done to an engine in each phase, by the threads of the benchmark.
//!
//! Every thread does one thing after the other: what an operation waits for, the next ones of its thread wait for too,
//! and nothing is corrected for that.

pub(super) mod mixed;
pub(super) mod points;
pub(super) mod scans;
pub(super) mod synced;
pub(super) mod writes;

use anyhow::Context;
use hdrhistogram::Histogram;

use super::meter::Live;
use super::rows::Rows;
use super::store::Store;

/// What all phases need.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) rows: &'a Rows,
    pub(super) live: &'a Live,
    pub(super) threads: u64,
    /// Rows of a batch, and reads between two refreshes.
    pub(super) batch: u64,
    pub(super) seed: u64,
}

/// A histogram of nanoseconds.
pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are few enough")
}

/// The part of a thread.
pub(super) fn share(all: u64, threads: u64, thread: u64) -> u64 {
    all / threads + u64::from(thread < all % threads)
}

/// Runs `work` in so many threads, each with its number, and gives what they gave.
pub(super) fn in_threads<T: Send>(
    threads: u64,
    work: impl Fn(u64) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().ok().context("a thread of the benchmark panicked")?
        };
        started.into_iter().map(join).collect()
    })
}

/// All of them in one.
pub(super) fn together(all: Vec<Histogram<u64>>) -> Histogram<u64> {
    let mut sum = latencies();
    for one in all {
        sum.add(&one).expect("a histogram that grows takes any other");
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_whole() {
        let shares: Vec<u64> = (0..3).map(|thread| share(11, 3, thread)).collect();
        assert_eq!(shares, [4, 4, 3]);
    }

    #[test]
    fn the_first_error_of_a_thread_is_told() {
        assert_eq!(in_threads(3, |thread| Ok(thread * 2)).expect("no error"), [0, 2, 4]);
        let error = in_threads(3, |thread| {
            anyhow::ensure!(thread != 1, "thread {thread}");
            Ok(())
        });
        assert_eq!(error.expect_err("an error").to_string(), "thread 1");
    }
}
