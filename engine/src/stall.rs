//! Backpressure: slows writers before the queue, smoothly, so that none has to stop.
//!
//! Owns the count of memtable bytes and the pace of admission. Above the soft mark a batch waits for as long as its
//! bytes take at the allowed rate; the rate falls from well above what the flushes manage to well below as memory
//! fills, so the fill settles between the marks. The index's debt (runs beyond what reads bear) counts like memory.
//! At the hard mark a batch waits until a flush frees memory.
//!
//! Invariant: a batch is admitted while the usage before it is below the hard mark, however large the batch.
//!
//! Lock order: the pace is a leaf; nobody sleeps under it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::Error;
use crate::health::HealthCell;
use crate::runtime::Clock;

/// Delays shorter than this are kept for a later batch: a sleep is no finer.
const DELAY_MIN: Duration = Duration::from_micros(300);
/// A single delay is never longer: what is left is asked of the next batches.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// The rate before the first flush has shown one, in bytes a second.
const RATE_START: u64 = 64 << 20;
const RATE_MIN: u64 = 1 << 20;
/// Runs that a tablet has beyond what compaction leaves when it keeps up: from where writers begin to be slowed, and
/// where the slowing is strongest.
pub(crate) const DEBT_SOFT: usize = 6;
pub(crate) const DEBT_HARD: usize = 40;

#[derive(Debug)]
pub(crate) struct Stall {
    used: AtomicUsize,
    soft: usize,
    hard: usize,
    /// By how many runs the worst tablet is behind.
    debt: AtomicUsize,
    /// What flushes manage, in bytes of memtable a second.
    rate: AtomicU64,
    /// When the batches admitted so far are paid for.
    paid_until: Mutex<Duration>,
    pub(crate) delays: AtomicU64,
    pub(crate) stops: AtomicU64,
    pub(crate) waited_nanos: AtomicU64,
    pub(crate) longest_nanos: AtomicU64,
}

impl Stall {
    pub(crate) fn new(memtable_bytes_max: usize) -> Stall {
        Stall {
            used: AtomicUsize::new(0),
            soft: memtable_bytes_max / 2,
            hard: memtable_bytes_max,
            debt: AtomicUsize::new(0),
            rate: AtomicU64::new(RATE_START),
            paid_until: Mutex::default(),
            delays: AtomicU64::new(0),
            stops: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
            longest_nanos: AtomicU64::new(0),
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_above_soft(&self) -> bool {
        self.used() > self.soft
    }

    pub(crate) fn is_above_hard(&self) -> bool {
        self.used() >= self.hard
    }

    pub(crate) fn grow(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_debt(&self, runs: usize) {
        self.debt.store(runs, Ordering::Relaxed);
    }

    /// Tells how long a flush of so many bytes took.
    pub(crate) fn note_flush(&self, bytes: usize, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let now = (bytes as u64).saturating_mul(1_000_000) / micros;
        let before = self.rate.load(Ordering::Relaxed);
        self.rate
            .store(((before.saturating_mul(3).saturating_add(now)) / 4).max(RATE_MIN), Ordering::Relaxed);
    }

    /// How far between the marks the engine is: 0 at the soft mark or below it, 1 at the hard mark.
    fn pressure(&self) -> f64 {
        let between = |value: usize, soft: usize, hard: usize| {
            value.saturating_sub(soft) as f64 / (hard - soft).max(1) as f64
        };
        let memory = between(self.used(), self.soft, self.hard);
        let debt = between(self.debt.load(Ordering::Relaxed), DEBT_SOFT, DEBT_HARD);
        memory.max(debt).min(1.0)
    }

    /// Waits as long as a batch of so many bytes has to. `signal` wakes the workers before a stop.
    pub(crate) fn admit(
        &self,
        bytes: usize,
        clock: &Clock,
        health: &HealthCell,
        signal: impl Fn(),
    ) -> Result<(), Error> {
        if self.is_above_hard() {
            let start = clock.now();
            self.stops.fetch_add(1, Ordering::Relaxed);
            signal();
            let admitted = health.progress.wait_for(Duration::from_millis(50), || {
                if let Err(error) = health.check_writable() {
                    return Some(Err(error));
                }
                (!self.is_above_hard()).then_some(Ok(()))
            });
            self.note_wait(clock.now().saturating_sub(start));
            return admitted;
        }
        let pressure = self.pressure();
        if pressure > 0.0 {
            self.delay(bytes, pressure, clock);
        }
        Ok(())
    }

    fn delay(&self, bytes: usize, pressure: f64, clock: &Clock) {
        // Twice the flush rate at the soft mark, a quarter of it at the hard one: equal to it somewhere between.
        let allowed = self.rate.load(Ordering::Relaxed) as f64 * (2.0 - 1.75 * pressure);
        let cost = Duration::from_secs_f64(bytes as f64 / allowed.max(1.0));
        let now = clock.now();
        let wait = {
            let mut paid_until = self.paid_until.lock();
            *paid_until = (*paid_until).max(now) + cost;
            (*paid_until).saturating_sub(now)
        };
        if wait < DELAY_MIN {
            return;
        }
        let wait = wait.min(DELAY_MAX);
        self.delays.fetch_add(1, Ordering::Relaxed);
        clock.sleep(wait);
        self.note_wait(clock.now().saturating_sub(now));
    }

    fn note_wait(&self, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_grows_without_a_step() {
        let stall = Stall::new(1000);
        let mut before = 0.0;
        for used in 0..=1000 {
            stall.used.store(used, Ordering::Relaxed);
            let pressure = stall.pressure();
            assert!(pressure >= before && pressure - before < 0.01, "{used}: {before} to {pressure}");
            before = pressure;
        }
        assert_eq!(before, 1.0);
    }

    #[test]
    fn the_debt_of_the_index_counts_too() {
        let stall = Stall::new(1000);
        stall.set_debt(DEBT_SOFT);
        assert_eq!(stall.pressure(), 0.0);
        stall.set_debt(DEBT_HARD + 100);
        assert_eq!(stall.pressure(), 1.0);
    }

    #[test]
    fn below_the_soft_mark_nobody_waits() {
        let stall = Stall::new(1 << 20);
        stall.admit(1 << 30, &Clock::manual(), &HealthCell::default(), || {}).expect("healthy");
        assert_eq!(stall.delays.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn at_the_hard_mark_a_closing_engine_wakes_the_waiter() {
        let stall = Stall::new(1000);
        stall.grow(1000);
        let health = HealthCell::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| stall.admit(1, &Clock::manual(), &health, || {}));
            std::thread::sleep(Duration::from_millis(10));
            health.close();
            waiter.join().expect("no panic").expect_err("closed");
        });
    }
}
