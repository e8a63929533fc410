//! Backpressure: slows writers before the queue, smoothly, so that none has to stop.
//!
//! Owns the count of memtable bytes and the pace of admission. Above the soft mark a batch waits for as long as its
//! bytes take at the allowed rate; the rate falls from well above what the flushes manage to well below as memory
//! fills, so the fill settles between the marks. The debt of compaction (runs, and rowsets over one key, beyond what
//! reads bear) slows writers too: the rate falls by the same part with each step of debt, from twice what the
//! flushes manage down to a small part of it, so that it settles where compaction keeps up. At the hard mark of memory a batch waits until a flush
//! frees some; debt alone stops nobody.
//!
//! Invariant: a batch is admitted while the usage before it is below the hard mark, however large the batch.
//!
//! A stall is the time in which batches are slowed, with pauses shorter than a second: that is what listeners hear of. They
//! hear of it under the stall's lock, so in order.
//!
//! Lock order: the pace and the stall are leaves; nobody sleeps under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sync::Mutex;

use crate::error::Error;
use crate::events::{Event, Events};
use crate::health::HealthCell;
use crate::runtime::Clock;

/// Delays shorter than this are kept for a later batch: a sleep is no finer.
const DELAY_MIN: Duration = Duration::from_micros(300);
/// A single delay is never longer: what is left is asked of the next batches.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// What batches owe is never more than this.
const OWED_MAX: Duration = Duration::from_secs(1);
/// The rate before the first flush has shown one, in bytes a second.
const RATE_START: u64 = 64 << 20;
const RATE_MIN: u64 = 1 << 20;
/// Runs that a tablet has beyond what compaction leaves when it keeps up: from where writers begin to be slowed, and
/// where the slowing is strongest.
pub(crate) const RUNS_SOFT: usize = 4;
pub(crate) const RUNS_HARD: usize = 40;
/// The same for rowsets over one key, counted from well below the bound of their depth.
pub(crate) const DEPTH_SOFT: usize = 0;
pub(crate) const DEPTH_HARD: usize = 18;
/// How often the rate is halved where debt slows most.
const DEBT_HALVINGS: f64 = 12.0;

/// Writers are idle when no flush came for this long at least.
const IDLE_AFTER_MIN: Duration = Duration::from_millis(500);
/// A longer time between flushes counts as this.
const FLUSH_GAP_MAX: Duration = Duration::from_secs(5);

/// A stall has ended when nobody was slowed for so long.
const STALL_OVER_AFTER: Duration = Duration::from_secs(1);
/// Between two causes of one stall that are told. They may alternate with every batch.
const STALL_CAUSE_AFTER: Duration = Duration::from_secs(1);

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

/// A time in which writers are slowed.
#[derive(Clone, Copy, Debug)]
struct Slowed {
    /// What was told last, and when.
    cause: StallCause,
    told: Duration,
    since: Duration,
    /// When the last batch was let go.
    last: Duration,
}

/// Which batches are slowed now.
#[derive(Clone, Copy, Debug, Default)]
struct Slowing {
    stall: Option<Slowed>,
    /// How many batches wait.
    waiting: usize,
    /// There will be no stall any more.
    is_over: bool,
}

/// How flushes come.
#[derive(Clone, Copy, Debug, Default)]
struct Rhythm {
    /// When the last one ended.
    last: Duration,
    /// The time from one to the next, smoothed.
    gap: Duration,
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
    slowing: Mutex<Slowing>,
    events: Arc<Events>,
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
            slowing: Mutex::default(),
            events: Arc::default(),
            delays: AtomicU64::new(0),
            stops: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
            longest_nanos: AtomicU64::new(0),
        }
    }

    /// The same, and it tells when writers are slowed.
    pub(crate) fn telling(self, events: Arc<Events>) -> Stall {
        Stall { events, ..self }
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

    /// Whether writers leave the engine alone: memory is not short, none of them is slowed, and no flush has come for so
    /// long that the next would be late if they went on as before.
    pub(crate) fn is_idle(&self, now: Duration) -> bool {
        let rhythm = *self.rhythm.lock();
        let is_late = now.saturating_sub(rhythm.last) >= IDLE_AFTER_MIN.max(rhythm.gap * 2);
        is_late && !self.is_above_soft() && *self.paid_until.lock() <= now
    }

    fn note_pressure(&self) {
        let is_flush_first = self.is_above_soft() && self.debt_pressure() == 0.0;
        // Read first: it changes rarely, and others read it often.
        if self.is_flush_first() != is_flush_first {
            self.flush_first.store(is_flush_first, Ordering::Relaxed);
        }
    }

    /// Tells of a flush of so many bytes: when it began and ended.
    pub(crate) fn note_flush(&self, bytes: usize, start: Duration, end: Duration) {
        let took = end.saturating_sub(start);
        {
            let mut rhythm = self.rhythm.lock();
            let gap = end.saturating_sub(rhythm.last).min(FLUSH_GAP_MAX);
            rhythm.gap = (rhythm.gap * 3 + gap) / 4;
            rhythm.last = end;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let now = (bytes as u64).saturating_mul(1_000_000) / micros;
        let before = self.rate.load(Ordering::Relaxed);
        self.rate
            .store(((before.saturating_mul(3).saturating_add(now)) / 4).max(RATE_MIN), Ordering::Relaxed);
    }

    /// How far memory is between the marks: 0 at the soft mark or below it, 1 at the hard mark.
    fn memory_pressure(&self) -> f64 {
        between(self.used(), self.soft, self.hard)
    }

    /// The same for the debt of compaction.
    fn debt_pressure(&self) -> f64 {
        let (runs, depth) = self.debt();
        between(runs, RUNS_SOFT, RUNS_HARD).max(between(depth, DEPTH_SOFT, DEPTH_HARD))
    }

    /// How fast batches may come, as a multiple of what the flushes manage; `None` if as fast as they like.
    ///
    /// Twice it where memory or debt begin to press; for memory a quarter of it at the hard mark, for debt less and less.
    /// It equals what is worked off somewhere between, and settles there.
    fn pace(&self) -> Option<f64> {
        let (memory, debt) = (self.memory_pressure(), self.debt_pressure());
        if memory == 0.0 && debt == 0.0 {
            return None;
        }
        Some((2.0 - 1.75 * memory).min(2.0 * (-DEBT_HALVINGS * debt).exp2()))
    }

    /// How many rows of so many bytes may come in a second, as far as anything presses.
    #[cfg(test)]
    pub(crate) fn allowed_rows(&self, bytes: f64) -> Option<f64> {
        self.pace().map(|pace| self.rate.load(Ordering::Relaxed) as f64 * pace / bytes)
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
            self.begin_wait(cause, start);
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
        if let Some(pace) = self.pace() {
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
        self.begin_wait(cause, now);
        clock.sleep(wait);
        self.end_wait(now, clock.now());
    }

    /// What writers would wait for now.
    pub(crate) fn pressing(&self) -> Option<StallCause> {
        let (memory, debt) = (self.memory_pressure(), self.debt_pressure());
        if self.is_above_hard() {
            Some(StallCause::MemoryFull)
        } else if memory == 0.0 && debt == 0.0 {
            None
        } else if 2.0 - 1.75 * memory < 2.0 * (-DEBT_HALVINGS * debt).exp2() {
            Some(StallCause::Memory)
        } else {
            Some(StallCause::Compaction)
        }
    }

    /// A batch begins to wait. The first one begins a stall.
    fn begin_wait(&self, cause: StallCause, now: Duration) {
        let mut slowing = self.slowing.lock();
        slowing.waiting += 1;
        if slowing.is_over {
            return;
        }
        let is_told = slowing.stall.is_some_and(|stall| {
            let is_stop = cause == StallCause::MemoryFull;
            cause == stall.cause || !is_stop && now.saturating_sub(stall.told) < STALL_CAUSE_AFTER
        });
        if !is_told {
            let since = slowing.stall.map_or(now, |stall| stall.since);
            slowing.stall = Some(Slowed { cause, told: now, since, last: now });
            self.events.raise(|| Event::StallBegun { cause });
        }
    }

    /// It has waited since `start`.
    fn end_wait(&self, start: Duration, now: Duration) {
        let mut slowing = self.slowing.lock();
        slowing.waiting -= 1;
        if let Some(stall) = &mut slowing.stall {
            stall.last = stall.last.max(now);
        }
        drop(slowing);
        let nanos = u64::try_from(now.saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        self.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Ends a stall in which nobody waits, and nobody did for long. Called now and then.
    pub(crate) fn end_if_over(&self, now: Duration) {
        let mut slowing = self.slowing.lock();
        let is_over = |stall: Slowed| now.saturating_sub(stall.last) >= STALL_OVER_AFTER;
        if slowing.waiting == 0 && slowing.stall.is_some_and(is_over) {
            self.end_stall(&mut slowing);
        }
    }

    /// Ends a stall, since there are no writers any more. None begins again.
    pub(crate) fn end(&self) {
        let mut slowing = self.slowing.lock();
        slowing.is_over = true;
        self.end_stall(&mut slowing);
    }

    fn end_stall(&self, slowing: &mut Slowing) {
        if let Some(Slowed { since, last, .. }) = slowing.stall.take() {
            self.events.raise(|| Event::StallEnded { took: last.saturating_sub(since) });
        }
    }
}

/// How far a value is between two marks: 0 at the first or below it, 1 at the second or above it.
fn between(value: usize, soft: usize, hard: usize) -> f64 {
    (value.saturating_sub(soft) as f64 / (hard - soft).max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_pace_falls_without_a_step_as_memory_fills() {
        let stall = Stall::new(1000);
        let mut before = 2.0;
        for used in 0..=1000 {
            stall.used.store(used, Ordering::Relaxed);
            let pace = stall.pace().unwrap_or(2.0);
            assert!(pace <= before && before - pace < 0.01, "{used}: {before} to {pace}");
            before = pace;
        }
        assert_eq!(before, 0.25);
    }

    #[test]
    fn the_pace_falls_without_a_step_as_debt_grows() {
        for (runs, depth) in [(1, 0), (0, 1), (1, 1)] {
            let stall = Stall::new(1000);
            let mut before = 2.0;
            for debt in 0..100 {
                stall.set_debt(debt * runs, debt * depth);
                let pace = stall.pace().unwrap_or(2.0);
                // A step of debt takes no more than two fifths of the pace.
                assert!(pace <= before && pace > before * 0.6, "{debt}: {before} to {pace}");
                before = pace;
            }
            assert!(before < 0.02, "{before}");
        }
    }

    #[test]
    fn compaction_yields_to_a_flush_unless_its_own_debt_presses() {
        let stall = Stall::new(1000);
        assert!(!stall.is_flush_first());
        stall.grow(600);
        assert!(stall.is_flush_first());
        stall.set_debt(RUNS_SOFT + 1, 0);
        assert!(!stall.is_flush_first());
        stall.set_debt(0, 0);
        stall.shrink(200);
        assert!(!stall.is_flush_first());
    }

    #[test]
    fn writers_are_idle_when_the_next_flush_is_late() {
        let stall = Stall::new(1000);
        let seconds = Duration::from_secs;
        assert!(!stall.is_idle(Duration::from_millis(100)) && stall.is_idle(seconds(1)));
        for second in 0..50 {
            let start = seconds(2 * second);
            stall.note_flush(1, start, start);
            assert!(!stall.is_idle(start + Duration::from_millis(499)));
        }
        assert!(!stall.is_idle(seconds(98 + 3)), "a flush every two seconds: not late yet");
        assert!(stall.is_idle(seconds(98 + 5)));
        stall.grow(501);
        assert!(!stall.is_idle(seconds(98 + 5)), "memory is short");
    }

    #[test]
    fn below_the_soft_mark_nobody_waits() {
        let stall = Stall::new(1 << 20);
        stall.admit(1 << 30, &Clock::manual(), &HealthCell::default(), || {}).expect("healthy");
        assert_eq!(stall.delays.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_stall_is_told_once_however_many_batches_wait_and_ends_after_a_second() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = {
            let heard = Arc::clone(&heard);
            move |event: &Event| heard.lock().push(format!("{event:?}"))
        };
        let events = Arc::new(Events::new(Path::new("/db"), Some(Arc::new(listener))));
        let stall = Stall::new(1000).telling(Arc::clone(&events));
        let (clock, health) = (Clock::manual(), HealthCell::default());
        // A stop lasts for longer than a stall without anybody waiting would.
        let stopped = || {
            clock.sleep(STALL_OVER_AFTER * 5);
            stall.end_if_over(clock.now());
            stall.shrink(500);
        };
        let admit = |bytes| stall.admit(bytes, &clock, &health, stopped).expect("healthy");
        let hear = || {
            events.deliver();
            std::mem::take(&mut *heard.lock())
        };
        admit(1 << 30);
        stall.grow(900);
        (0..5).for_each(|_| admit(1 << 20));
        assert_eq!(hear(), ["StallBegun { cause: Memory }"]);
        stall.end_if_over(clock.now() + STALL_OVER_AFTER / 2);
        assert_eq!(hear(), [""; 0], "others may come");
        stall.grow(100);
        admit(1);
        assert_eq!(
            hear(),
            ["StallBegun { cause: MemoryFull }"],
            "it has got worse, and is not over while one waits"
        );
        stall.set_debt(RUNS_HARD, 0);
        admit(1 << 20);
        assert_eq!(hear(), ["StallBegun { cause: Compaction }"], "it is another cause now");
        stall.set_debt(0, 0);
        stall.grow(400);
        admit(1 << 20);
        assert_eq!(hear(), [""; 0], "causes that alternate are told now and then");
        stall.shrink(400);
        stall.end_if_over(clock.now() + STALL_OVER_AFTER);
        stall.end_if_over(clock.now() + STALL_OVER_AFTER);
        let ended = hear();
        assert!(ended.len() == 1 && ended[0].starts_with("StallEnded { took: 5."), "{ended:?}");
        stall.set_debt(RUNS_HARD, 0);
        admit(1 << 20);
        stall.end();
        let heard = hear();
        assert_eq!(heard[0], "StallBegun { cause: Compaction }");
        assert!(heard.len() == 2 && heard[1].starts_with("StallEnded"), "{heard:?}");
        admit(1 << 20);
        assert_eq!(hear(), [""; 0], "there are no writers any more");
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
