//! Whether the engine takes writes, and the first cause if it does not.
//!
//! Owns the state and the way between states: healthy to no-space and back (by `resume`), anything to poisoned, and
//! anything to closed. An engine that reads only is so from the beginning. Poison and closing are final. Every change
//! wakes all that wait for progress.
//!
//! Lock order: leaves. A change is told to listeners under the cause, so that changes are heard in their order.

use std::sync::Arc;
use std::time::Duration;

use sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use sync::{Condvar, Mutex};

use crate::error::{Error, ErrorKind};
use crate::events::{Event, Events};

const HEALTHY: u8 = 0;
const READ_ONLY: u8 = 1;
const NO_SPACE: u8 = 2;
const POISONED: u8 = 3;
const CLOSED: u8 = 4;

/// Whether an engine takes writes.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, Health, Options};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// assert!(engine.health().is_healthy());
/// engine.close()?;
/// assert_eq!(engine.health(), Health::Closed);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Health {
    /// Reads and writes work.
    #[default]
    Healthy,
    /// The database was opened by [`Engine::open_read_only`](crate::Engine::open_read_only): reads work, writes return
    /// `ReadOnly`.
    ReadOnly,
    /// The disk is full. Reads work; writes return this error until [`Engine::resume`](crate::Engine::resume).
    NoSpace(Error),
    /// A write or a sync failed in a way that leaves open what is on disk. Reads work; writes return this first
    /// cause. Closing and opening again recovers everything that was acknowledged.
    Poisoned(Error),
    /// The engine is closed.
    Closed,
}

impl Health {
    /// Whether reads and writes work.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        matches!(self, Health::Healthy)
    }

    /// Why writes are refused: the error that they return, if it is that of a full disk or of an earlier failure.
    #[must_use]
    pub fn cause(&self) -> Option<&Error> {
        match self {
            Health::NoSpace(cause) | Health::Poisoned(cause) => Some(cause),
            Health::Healthy | Health::ReadOnly | Health::Closed => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct HealthCell {
    state: AtomicU8,
    /// Whether it was opened for reading only.
    is_read_only: bool,
    /// Stays set whatever else happens: who failed while the engine was closing must learn that an edit may be on disk.
    was_poisoned: AtomicBool,
    cause: Mutex<Option<Error>>,
    events: Arc<Events>,
    pub(crate) progress: Progress,
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the engine is closed")
}

impl HealthCell {
    /// Of an engine that reads only.
    pub(crate) fn read_only() -> HealthCell {
        let cause = Error::new(ErrorKind::ReadOnly, "the database is open for reading only");
        HealthCell {
            state: AtomicU8::new(READ_ONLY),
            is_read_only: true,
            cause: Mutex::new(Some(cause)),
            ..HealthCell::default()
        }
    }

    /// Whether it was opened for reading only, also when it is closed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// One that tells of its changes.
    pub(crate) fn new(events: Arc<Events>) -> HealthCell {
        HealthCell { events, ..HealthCell::default() }
    }

    /// For every read: an error only after `close`.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.state.load(Ordering::Acquire) == CLOSED { Err(closed()) } else { Ok(()) }
    }

    /// For every write.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.state.load(Ordering::Acquire) == HEALTHY { Ok(()) } else { self.look_closer() }
    }

    #[cold]
    fn look_closer(&self) -> Result<(), Error> {
        // State and cause change together, under this lock: somebody may have resumed since the first look.
        let cause = self.cause.lock();
        match self.state.load(Ordering::Acquire) {
            HEALTHY => Ok(()),
            CLOSED => Err(closed()),
            _ => Err(cause.clone().unwrap_or_else(closed)),
        }
    }

    /// Whether background work may write: not when closed or poisoned, and not while the disk is full.
    pub(crate) fn is_healthy(&self) -> bool {
        self.state.load(Ordering::Acquire) == HEALTHY
    }

    /// Whether a failure left open what is on disk, also if the engine was closed before or after it.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.was_poisoned.load(Ordering::Acquire)
    }

    /// The first cause of poison, or of a full disk.
    pub(crate) fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    fn worsen(&self, to: u8, cause: Option<Error>) {
        let mut kept = self.cause.lock();
        let from = self.state.load(Ordering::Acquire);
        if cause.is_some() && (kept.is_none() || from < to) {
            *kept = cause;
        }
        if from < to {
            self.state.store(to, Ordering::Release);
            self.events.raise(|| Event::HealthChanged { health: of(to, kept.clone()) });
        }
        drop(kept);
        self.progress.notify();
    }

    /// Writes are refused for ever. The first cause is kept.
    pub(crate) fn poison(&self, cause: &Error) {
        tracing::error!(%cause, "writes are refused from now on");
        self.was_poisoned.store(true, Ordering::Release);
        let cause = cause.clone().context("writes are refused since an earlier failure");
        self.worsen(POISONED, Some(cause));
    }

    /// A failure of log, flush or manifest: for lack of space it can be resumed, else it poisons. For a lack that may
    /// pass nothing was done, and whoever wants it done tries again.
    pub(crate) fn fail(&self, cause: &Error) {
        if cause.is_transient() {
            tracing::warn!(%cause, "this may work later");
            self.progress.notify();
        } else if cause.kind() == ErrorKind::NoSpace {
            tracing::warn!(%cause, "writes are refused until there is space");
            self.worsen(NO_SPACE, Some(cause.clone()));
        } else {
            self.poison(cause);
        }
    }

    pub(crate) fn close(&self) {
        self.worsen(CLOSED, None);
    }

    /// Back from no-space.
    pub(crate) fn resume(&self) -> Result<(), Error> {
        let mut cause = self.cause.lock();
        match self.state.compare_exchange(NO_SPACE, HEALTHY, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => *cause = None,
            Err(HEALTHY) => return Ok(()),
            Err(CLOSED) => return Err(closed()),
            Err(_) => return Err(cause.clone().unwrap_or_else(closed)),
        }
        self.events.raise(|| Event::HealthChanged { health: Health::Healthy });
        drop(cause);
        self.progress.notify();
        Ok(())
    }

    pub(crate) fn report(&self) -> Health {
        let cause = self.cause.lock();
        of(self.state.load(Ordering::Acquire), cause.clone())
    }
}

fn of(state: u8, cause: Option<Error>) -> Health {
    match (state, cause) {
        (NO_SPACE, Some(cause)) => Health::NoSpace(cause),
        (POISONED, Some(cause)) => Health::Poisoned(cause),
        (READ_ONLY, _) => Health::ReadOnly,
        (CLOSED, _) => Health::Closed,
        _ => Health::Healthy,
    }
}

/// Wakes whoever waits for something to happen: a flush, a published version, a change of health.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    /// Call after the change is visible to the condition that waiters look at.
    pub(crate) fn notify(&self) {
        // Sequentially consistent on both sides: either the waiter sees the change, or we see the waiter.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }

    /// Waits until `condition` gives something. It is looked at after every notice and at least every `period`.
    pub(crate) fn wait_for<T>(&self, period: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
        if let Some(result) = condition() {
            return result;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        let result = loop {
            if let Some(result) = condition() {
                break result;
            }
            self.changed.wait_for(&mut guard, period);
        };
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stays_and_poison_is_final() {
        let health = HealthCell::default();
        health.check_writable().expect("healthy");
        health.fail(&Error::new(ErrorKind::NoSpace, "full"));
        assert_eq!(health.check_writable().expect_err("full").kind(), ErrorKind::NoSpace);
        health.resume().expect("there is space");
        health.check_writable().expect("healthy again");
        health.fail(&Error::new(ErrorKind::Io, "first"));
        health.fail(&Error::new(ErrorKind::Io, "second"));
        assert!(health.check_writable().expect_err("poisoned").to_string().contains("first"));
        assert!(health.resume().is_err());
        health.check_open().expect("reads go on");
        health.close();
        assert_eq!(health.check_open().expect_err("closed").kind(), ErrorKind::Closed);
        assert!(health.is_poisoned());
    }

    /// A write that looks while somebody resumes goes on or meets the full disk: the engine is open.
    #[test]
    fn no_write_takes_a_resume_for_a_close() {
        let health = HealthCell::default();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Acquire) {
                        if let Err(error) = health.check_writable() {
                            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                        }
                    }
                });
            }
            for _ in 0..20_000 {
                health.fail(&Error::new(ErrorKind::NoSpace, "full"));
                health.resume().expect("there is space");
            }
            is_over.store(true, Ordering::Release);
        });
    }

    #[test]
    fn changes_are_told_in_the_order_in_which_they_happen() {
        const ROUNDS: usize = 2000;
        let heard: Arc<Mutex<Vec<bool>>> = Arc::default();
        let listener = {
            let heard = Arc::clone(&heard);
            move |event: &Event| {
                let Event::HealthChanged { health } = event else { panic!("{event:?}") };
                heard.lock().push(matches!(health, Health::Healthy));
            }
        };
        let events = Arc::new(Events::new(std::path::Path::new("/db"), Some(Arc::new(listener))));
        let health = HealthCell::new(Arc::clone(&events));
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        // No more wait to be told than fit.
                        barrier.wait();
                        events.deliver();
                        barrier.wait();
                        health.fail(&Error::new(ErrorKind::NoSpace, "full"));
                        health.resume().expect("there is space");
                    }
                });
            }
        });
        events.deliver();
        let heard = heard.lock();
        assert!(!heard.is_empty() && heard.len().is_multiple_of(2));
        assert!(heard.iter().enumerate().all(|(at, is_healthy)| *is_healthy == (at % 2 == 1)), "{heard:?}");
    }

    #[test]
    fn a_failure_after_the_close_is_still_known() {
        let health = HealthCell::default();
        health.close();
        health.fail(&Error::new(ErrorKind::Io, "a worker's last sync"));
        assert!(health.is_poisoned());
        assert!(health.cause().expect("the cause").to_string().contains("last sync"));
        assert_eq!(health.check_writable().expect_err("closed").kind(), ErrorKind::Closed);
    }

    #[test]
    fn a_waiter_wakes_at_the_notice_and_not_at_the_period() {
        let progress = Progress::default();
        let flag = AtomicU8::new(0);
        let start = std::time::Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                progress
                    .wait_for(Duration::from_secs(60), || (flag.load(Ordering::Acquire) == 1).then_some(()));
            });
            std::thread::sleep(Duration::from_millis(20));
            flag.store(1, Ordering::Release);
            progress.notify();
        });
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
