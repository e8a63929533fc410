//! The one seam for threads, time and chance.
//!
//! Owns the engine's threads and joins them. In the inline mode there are none: background work runs in the callers'
//! threads, in an order that follows from a seed, time moves only when it is asked for, and nobody sleeps. With the
//! simulated disk every run can then be replayed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use sync::atomic::{AtomicBool, Ordering};
use sync::thread::{self, JoinHandle};
use sync::{Condvar, Mutex};

use crate::options::RuntimeMode;

/// Time since the engine was opened.
#[derive(Debug)]
pub(crate) enum Clock {
    Real(Instant),
    /// Each look moves it by a microsecond, each sleep by its length.
    Manual(AtomicU64),
}

impl Clock {
    pub(crate) fn real() -> Clock {
        // A model must be the same run again for the same schedule.
        if cfg!(nyala_shuttle) { Clock::manual() } else { Clock::Real(Instant::now()) }
    }

    pub(crate) fn manual() -> Clock {
        Clock::Manual(AtomicU64::new(0))
    }

    /// The clock that goes with a mode: without threads time stands still unless somebody looks.
    pub(crate) fn of(mode: RuntimeMode) -> Clock {
        match mode {
            RuntimeMode::Threads => Clock::real(),
            RuntimeMode::Inline { .. } => Clock::manual(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        match self {
            Clock::Real(start) => start.elapsed(),
            Clock::Manual(nanos) => Duration::from_nanos(nanos.fetch_add(1000, Ordering::Relaxed)),
        }
    }

    pub(crate) fn sleep(&self, duration: Duration) {
        match self {
            Clock::Real(_) => thread::sleep(duration),
            Clock::Manual(nanos) => {
                let add = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                nanos.fetch_add(add, Ordering::Relaxed);
            }
        }
    }
}

/// Leaves the processor to others for a moment. Only for worker threads: in the inline mode nobody sleeps.
pub(crate) fn give_way(duration: Duration) {
    thread::sleep(duration);
}

/// Wakes one kind of worker.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    is_set: bool,
    is_over: bool,
}

impl Signal {
    /// Wakes whoever waits, or the first who will.
    pub(crate) fn set(&self) {
        let mut state = self.state.lock();
        if !state.is_set {
            state.is_set = true;
            self.changed.notify_all();
        }
    }

    /// Nobody waits from now on. Several workers may wait for one signal: one that was just about to must not find it
    /// taken by another.
    pub(crate) fn set_for_good(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for a [`Signal::set`] since the last wait, but not longer than `period`.
    pub(crate) fn wait(&self, period: Duration) {
        let mut state = self.state.lock();
        if !state.is_set && !state.is_over {
            self.changed.wait_for(&mut state, period);
        }
        state.is_set = false;
    }
}

/// A small generator for the order of inline work (splitmix64). Not for anything that must be hard to guess.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<u64>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(Mutex::new(seed))
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// The engine's threads.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// True from [`Workers::stop`] on. Long work looks at it now and then.
    pub(crate) fn stopping(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Starts a thread.
    pub(crate) fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = start(name, body)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Tells the threads to end. The caller wakes them, then joins.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Waits until they have ended, but not for the caller's own.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A listener may close the engine from within; its thread ends by itself then.
            if thread.thread().id() == thread::current().id() {
                continue;
            }
            // A worker catches its own panics and poisons the engine; there is nothing to learn here.
            let _ = thread.join();
        }
    }
}

/// Starts a thread that whoever starts it joins.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    thread::Builder::new().name(format!("nyala-{name}")).spawn(body)
}

/// Runs `work` on this thread, as number 0, and on up to `more` threads of its own beside it, and waits for all. A
/// thread that cannot be started is done without: the others must be able to do its part.
pub(crate) fn in_parallel(name: &str, more: usize, work: impl Fn(usize) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for number in 1..=more {
            let builder = thread::Builder::new().name(format!("nyala-{name}"));
            if let Err(error) = builder.spawn_scoped(scope, move || work(number)) {
                tracing::warn!(%error, "a thread could not be started");
                break;
            }
        }
        work(0);
    });
}
