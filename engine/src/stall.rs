//! Backpressure: slows writers before the queue, smoothly, so that none has to stop.
//!
//! Owns the count of memtable bytes and the admission of batches. Above the soft mark a batch waits for as long as its
//! bytes take at the allowed rate (`pace`); the rate falls from well above what the flushes manage to well below as
//! memory fills, so the fill settles between the marks. The debt of compaction (runs, and rowsets over one key, beyond
//! what reads bear) slows writers too: the rate falls by the same part with each step of debt, from twice what the
//! flushes manage down to a small part of it, so that it settles where compaction keeps up. At the hard mark of memory
//! a batch waits until a flush frees some; debt alone stops nobody.
//!
//! Invariant: a batch is admitted while the usage before it is below the hard mark, however large the batch.
//!
//! Lock order: the pace, the rhythm of flushes and what is told are leaves; nobody sleeps under them.

mod pace;
mod rhythm;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sync::Mutex;

use crate::error::Error;
use crate::events::Events;
use crate::health::HealthCell;
use crate::runtime::Clock;
use pace::Pressure;
use rhythm::Rhythm;
use told::Told;

/// Delays shorter than this are kept for a later batch: a sleep is no finer.
const DELAY_MIN: Duration = Duration::from_micros(300);
/// A single delay is never longer: what is left is asked of the next batches.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// What batches owe is never more than this.
const OWED_MAX: Duration = Duration::from_secs(1);
/// The rate before the first flush has shown one, in bytes a second.
const RATE_START: u64 = 64 << 20;
const RATE_MIN: u64 = 1 << 20;

/// What writers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// Memtables fill up faster than they are flushed: batches are delayed.
    Memory,
    /// Memtables have taken all of their memory: batches stop until a flush frees some.
    MemoryFull,
    /// Compaction is behind, with index runs or with rowsets over one key: batches are delayed.
    Compaction,
}

#[derive(Debug)]
pub(crate) struct Stall {
    used: AtomicUsize,
    soft: usize,
    hard: usize,
    /// By how many runs the worst tablet is behind, and by how many rowsets over one key.
    debt_runs: AtomicUsize,
    debt_depth: AtomicUsize,
    /// Whether a flush should have the machine: memory is short, and the debt of compaction is not what slows writers.
    flush_first: Arc<AtomicBool>,
    rhythm: Mutex<Rhythm>,
    /// What flushes manage, in bytes of memtable a second.
    rate: AtomicU64,
    /// When the batches admitted so far are paid for.
    paid_until: Mutex<Duration>,
    told: Told,
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
            debt_runs: AtomicUsize::new(0),
            debt_depth: AtomicUsize::new(0),
            flush_first: Arc::default(),
            rhythm: Mutex::default(),
            rate: AtomicU64::new(RATE_START),
            paid_until: Mutex::default(),
            told: Told::default(),
            delays: AtomicU64::new(0),
            stops: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
            longest_nanos: AtomicU64::new(0),
        }
    }

    /// The same, and it tells when writers are slowed.
    pub(crate) fn telling(self, events: Arc<Events>) -> Stall {
        Stall { told: Told::to(events), ..self }
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
        self.note_pressure();
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.note_pressure();
    }

    /// Tells by how many runs, and by how many rowsets over one key, the worst tablet is behind.
    pub(crate) fn set_debt(&self, runs: usize, depth: usize) {
        self.debt_runs.store(runs, Ordering::Relaxed);
        self.debt_depth.store(depth, Ordering::Relaxed);
        self.note_pressure();
    }

    /// What [`Stall::set_debt`] was told last.
    pub(crate) fn debt(&self) -> (usize, usize) {
        (self.debt_runs.load(Ordering::Relaxed), self.debt_depth.load(Ordering::Relaxed))
    }

    /// Whether compactions should leave the machine to a flush for a moment.
    pub(crate) fn is_flush_first(&self) -> bool {
        self.flush_first.load(Ordering::Relaxed)
    }

    /// The same, for those who outlive a borrow.
    pub(crate) fn flush_first(&self) -> &Arc<AtomicBool> {
        &self.flush_first
    }

    /// Whether writers leave the engine alone: memory is not short, none of them is slowed, and no flush has come for
    /// so long that the next would be late if they went on as before.
    pub(crate) fn is_idle(&self, now: Duration) -> bool {
        let is_late = self.rhythm.lock().is_late(now);
        is_late && !self.is_above_soft() && *self.paid_until.lock() <= now
    }

    fn note_pressure(&self) {
        let is_flush_first = self.is_above_soft() && !self.pressure().is_from_debt();
        // Read first: it changes rarely, and others read it often.
        if self.is_flush_first() != is_flush_first {
            self.flush_first.store(is_flush_first, Ordering::Relaxed);
        }
    }

    /// Tells of a flush of so many bytes: when it began and ended.
    pub(crate) fn note_flush(&self, bytes: usize, start: Duration, end: Duration) {
        let took = end.saturating_sub(start);
        self.rhythm.lock().note(end);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let now = (bytes as u64).saturating_mul(1_000_000) / micros;
        let before = self.rate.load(Ordering::Relaxed);
        self.rate
            .store(((before.saturating_mul(3).saturating_add(now)) / 4).max(RATE_MIN), Ordering::Relaxed);
    }

    fn pressure(&self) -> Pressure {
        Pressure::of(self.used(), (self.soft, self.hard), self.debt())
    }

    /// What writers would wait for now.
    pub(crate) fn pressing(&self) -> Option<StallCause> {
        if self.is_above_hard() { Some(StallCause::MemoryFull) } else { self.pressure().presses() }
    }

    /// How many rows of so many bytes may come in a second, as far as anything presses.
    #[cfg(test)]
    pub(crate) fn allowed_rows(&self, bytes: f64) -> Option<f64> {
        self.pressure().pace().map(|pace| self.rate.load(Ordering::Relaxed) as f64 * pace / bytes)
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
            let cause = StallCause::MemoryFull;
            let _span = tracing::debug_span!("stall", %cause, bytes).entered();
            self.told.begin_wait(cause, start);
            signal();
            let admitted = health.progress.wait_for(Duration::from_millis(50), || {
                if let Err(error) = health.check_writable() {
                    return Some(Err(error));
                }
                (!self.is_above_hard()).then_some(Ok(()))
            });
            self.end_wait(start, clock.now());
            return admitted;
        }
        if let Some(pace) = self.pressure().pace() {
            self.delay(bytes, pace, clock);
        }
        Ok(())
    }

    fn delay(&self, bytes: usize, pace: f64, clock: &Clock) {
        let allowed = self.rate.load(Ordering::Relaxed) as f64 * pace;
        let cost = Duration::from_secs_f64(bytes as f64 / allowed.max(1.0));
        let now = clock.now();
        let wait = {
            let mut paid_until = self.paid_until.lock();
            // What one batch owes is bounded: a large one in a bad moment must not slow all that come for long.
            *paid_until = ((*paid_until).max(now) + cost).min(now + OWED_MAX);
            (*paid_until).saturating_sub(now)
        };
        if wait < DELAY_MIN {
            return;
        }
        let wait = wait.min(DELAY_MAX);
        self.delays.fetch_add(1, Ordering::Relaxed);
        let cause = self.pressing().unwrap_or(StallCause::Memory);
        let _span = tracing::trace_span!("stall", %cause, bytes).entered();
        self.told.begin_wait(cause, now);
        clock.sleep(wait);
        self.end_wait(now, clock.now());
    }

    /// A batch has waited since `start`.
    fn end_wait(&self, start: Duration, now: Duration) {
        self.told.end_wait(now);
        let nanos = u64::try_from(now.saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        self.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Ends a stall in which nobody waits, and nobody did for long. Called now and then.
    pub(crate) fn end_if_over(&self, now: Duration) {
        self.told.end_if_over(now);
    }

    /// Ends a stall, since there are no writers any more. None begins again.
    pub(crate) fn end(&self) {
        self.told.end();
    }
}

#[cfg(test)]
mod tests;
