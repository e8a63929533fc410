//! What the engine tells of its work, and to whom.
//!
//! Owns the queue between the engine and its listener. Whoever does the work puts an event into the queue, under
//! whatever locks it holds; a thread of its own takes them out and calls the listener. So a listener may be slow, may
//! call the engine, and may panic, and no write, flush or compaction notices.
//!
//! Invariant: the listener is called with no lock of the engine held, by one thread at a time, in the order in which
//! things happened.
//! Invariant: the queue is bounded. What does not fit is counted, and the listener is told how much it missed.
//! Invariant: who changes something of which listeners hear raises the event before anybody else can change it further,
//! under the lock of what changes if there is one. Else the order in the queue is not that of what happened.
//!
//! Lock order: the queue, the signal and the listener's cell are leaves below all other leaves. The turn is taken with
//! nothing held.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sync::Mutex;

use crate::error::Error;
use crate::health::Health;
use crate::runtime::Signal;
use crate::stall::StallCause;

/// How many events may wait for a slow listener.
const WAITING_MAX: usize = 4096;

/// Is told what an engine does; see [`Options::listener`](crate::Options::listener). Closures are listeners.
///
/// It is called by a thread of the engine's that does nothing else, with no lock held, one event after the other. What
/// is left when the engine is closed is told by who closes. Without threads, in
/// [`RuntimeMode::Inline`](crate::RuntimeMode::Inline), those tell that call the engine: before a call returns, whether
/// it failed or not, the listener has heard what came of it, unless another thread is telling just then. What an open
/// does is not told, but [reported](crate::Engine::recovery_report).
///
/// It may call the engine, close it, and drop its last handle, but not wait in it for ever: who closes the engine waits
/// until it has heard everything. (A close from within the listener does not: what is left is told after it returns.) A
/// panic of a listener is caught and logged. An engine that is [open for reading only](crate::Engine::open_read_only)
/// tells nothing.
///
/// Who keeps an [`Engine`](crate::Engine) in its listener keeps it open until it is closed by
/// [`Engine::close`](crate::Engine::close); then the engine lets go of the listener.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::{Arc, Mutex};
///
/// use nyala::{Engine, Event, Options, Schema, Type};
///
/// let flushed = Arc::new(Mutex::new(Vec::new()));
/// let heard = Arc::clone(&flushed);
/// let listener = move |event: &Event| {
///     if let Event::FlushEnded { tables, result: Ok(_), .. } = event {
///         heard.lock().unwrap().extend(tables.clone());
///     }
/// };
/// let engine = Engine::open(dir.path(), Options { listener: Some(Arc::new(listener)), ..Options::default() })?;
/// let schema = Schema::builder().key("id", Type::U64).build()?;
/// let table = engine.open_or_create_table("numbers", schema)?;
/// table.upsert((7,))?;
/// engine.close()?;
/// assert_eq!(*flushed.lock().unwrap(), ["numbers"]);
/// # Ok(()) }
/// ```
pub trait EventListener: Send + Sync {
    /// Hears of one event.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

/// Something that an engine did, or that happened to it. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A flush begins: memtables are written to files.
    #[non_exhaustive]
    FlushBegun {
        /// The tables whose memtables they are. A table can be there twice; one that was dropped is `(dropped)`.
        tables: Vec<String>,
        /// Memory of the memtables.
        memtable_bytes: u64,
    },
    /// A flush has ended.
    #[non_exhaustive]
    FlushEnded {
        /// As when it began.
        tables: Vec<String>,
        /// How long it took.
        took: Duration,
        /// What it wrote, or why it failed: then the memtables stay, and unless the engine is being closed, takes no
        /// writes already, or lacks space already, [`Event::HealthChanged`] follows.
        result: Result<FlushSummary, Error>,
    },
    /// A compaction begins: index runs are merged, perhaps rows move.
    #[non_exhaustive]
    CompactionBegun {
        /// The table.
        table: String,
        /// How many index runs are merged.
        runs: u64,
        /// How many rowsets are moved.
        rowsets: u64,
        /// How much there is to read.
        bytes: u64,
    },
    /// A compaction has ended.
    #[non_exhaustive]
    CompactionEnded {
        /// The table.
        table: String,
        /// How long it took.
        took: Duration,
        /// What it did, or why it failed: then its inputs stay in force, and it is tried again later. One that a close
        /// or a drop of its table has cut short is told as failed, and not counted in
        /// [`Stats::failed_compactions`](crate::Stats::failed_compactions).
        result: Result<CompactionSummary, Error>,
    },
    /// Writers are slowed from now on, or, if they were before, for another cause: told at once if they are stopped,
    /// else not more often than once a second.
    #[non_exhaustive]
    StallBegun {
        /// What they wait for.
        cause: StallCause,
    },
    /// For a second no writer was slowed, or the engine is closed.
    #[non_exhaustive]
    StallEnded {
        /// From when the first batch was slowed until the last one was let go.
        took: Duration,
    },
    /// The engine takes writes no more, or again, or is being closed. Failures in the background show here.
    #[non_exhaustive]
    HealthChanged {
        /// From now on.
        health: Health,
    },
    /// A file of an index run or a rowset is durable and in force.
    #[non_exhaustive]
    FileMade {
        /// Its name in the directory.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// A file was deleted, since nothing names it any more.
    #[non_exhaustive]
    FileDeleted {
        /// Its name in the directory.
        name: String,
    },
    /// The listener was so slow that some events were dropped here.
    #[non_exhaustive]
    Missed {
        /// How many.
        events: u64,
    },
}

/// What a flush wrote. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushSummary {
    /// Files of index runs and rowsets.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

/// What a compaction did. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionSummary {
    /// Index entries read.
    pub entries_in: u64,
    /// Entries that nobody needs any more.
    pub entries_dropped: u64,
    /// Size of the index files read.
    pub bytes_in: u64,
    /// Size of the index files written.
    pub bytes_out: u64,
    /// Rows that moved to new rowsets.
    pub moved_rows: u64,
    /// Size of these rowsets.
    pub moved_bytes: u64,
    /// Rowsets that went, since nothing points to them any more.
    pub dropped_rowsets: u64,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<Event>,
    missed: u64,
}

/// The way from the engine to its listener. By default there is none.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The directory: metrics are told apart by it.
    database: String,
    listener: Mutex<Option<Arc<dyn EventListener>>>,
    are_wanted: AtomicBool,
    /// Nothing is raised any more.
    are_over: AtomicBool,
    queue: Mutex<Queue>,
    /// Wakes the thread that tells.
    pub(crate) signal: Signal,
    /// Of the thread that is telling.
    turn: Mutex<()>,
}

impl Events {
    pub(crate) fn new(dir: &Path, listener: Option<Arc<dyn EventListener>>) -> Events {
        let are_wanted = cfg!(feature = "metrics") || listener.is_some();
        Events {
            database: dir.display().to_string(),
            listener: Mutex::new(listener),
            are_wanted: AtomicBool::new(are_wanted),
            ..Events::default()
        }
    }

    /// Whether anybody listens. If not, events are not even made.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted.load(Ordering::Relaxed)
    }

    /// Nothing is raised any more: once all is told, the listener is let go of.
    pub(crate) fn end(&self) {
        self.are_over.store(true, Ordering::Release);
        self.signal.set_for_good();
    }

    /// Puts an event into the queue.
    #[inline]
    pub(crate) fn raise(&self, event: impl FnOnce() -> Event) {
        if self.are_wanted() {
            self.put(event());
        }
    }

    #[cold]
    fn put(&self, event: Event) {
        let mut queue = self.queue.lock();
        if queue.events.len() < WAITING_MAX {
            queue.events.push(event);
        } else {
            queue.missed += 1;
        }
        drop(queue);
        self.signal.set();
    }

    /// Tells the listener all that waits. Call with no lock held.
    pub(crate) fn deliver(&self) {
        loop {
            // Who is at it already, perhaps this very thread, goes on until the queue is empty.
            let Some(turn) = self.turn.try_lock() else { return };
            let listener = self.listener.lock().clone();
            while let Some(Queue { events, missed }) = self.take() {
                events.iter().for_each(|event| self.tell(listener.as_deref(), event));
                if missed > 0 {
                    self.tell(listener.as_deref(), &Event::Missed { events: missed });
                }
            }
            if self.are_over.load(Ordering::Acquire) {
                self.are_wanted.store(false, Ordering::Relaxed);
                drop(self.listener.lock().take());
            }
            drop(turn);
            // It may hold the last handle of the engine.
            drop(listener);
            // What was raised after the last look, by somebody who then found the turn taken.
            if self.queue.lock().is_empty() {
                return;
            }
        }
    }

    fn take(&self) -> Option<Queue> {
        let taken = std::mem::take(&mut *self.queue.lock());
        (!taken.is_empty()).then_some(taken)
    }

    fn tell(&self, listener: Option<&dyn EventListener>, event: &Event) {
        let told = catch_unwind(AssertUnwindSafe(|| {
            crate::metrics::note(&self.database, event);
            if let Some(listener) = listener {
                listener.on_event(event);
            }
        }));
        if told.is_err() {
            tracing::error!(?event, "a listener panicked");
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.missed == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn listening(listener: impl EventListener + 'static) -> Events {
        Events::new(Path::new("/db"), Some(Arc::new(listener)))
    }

    fn deleted(number: usize) -> Event {
        Event::FileDeleted { name: number.to_string() }
    }

    #[test]
    fn events_come_in_order_and_those_that_do_not_fit_are_counted() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let events = listening({
            let heard = Arc::clone(&heard);
            move |event: &Event| {
                heard.lock().push(match event {
                    Event::FileDeleted { name } => name.clone(),
                    Event::Missed { events } => format!("missed {events}"),
                    other => panic!("{other:?}"),
                });
            }
        });
        for number in 0..WAITING_MAX + 3 {
            events.raise(|| deleted(number));
        }
        events.deliver();
        events.raise(|| deleted(7));
        events.deliver();
        let heard = heard.lock();
        let expected: Vec<String> = (0..WAITING_MAX).map(|number| number.to_string()).collect();
        assert_eq!(heard[..WAITING_MAX], expected);
        assert_eq!(heard[WAITING_MAX..], ["missed 3", "7"]);
    }

    #[test]
    fn a_listener_that_panics_hears_the_next_event() {
        let heard = Arc::new(AtomicU64::new(0));
        let events = listening({
            let heard = Arc::clone(&heard);
            move |_: &Event| {
                assert!(heard.fetch_add(1, Ordering::Relaxed) > 0, "the first time it panics");
            }
        });
        events.raise(|| deleted(1));
        events.raise(|| deleted(2));
        events.deliver();
        assert_eq!(heard.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_a_listener_causes_it_hears_afterwards() {
        let events = Arc::new(Mutex::new(None::<Arc<Events>>));
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = {
            let (events, heard) = (Arc::clone(&events), Arc::clone(&heard));
            move |event: &Event| {
                let Event::FileDeleted { name } = event else { return };
                heard.lock().push(format!("{name} begins"));
                let engine = events.lock().clone().expect("it was put there");
                if name == "1" {
                    engine.raise(|| deleted(2));
                    engine.deliver();
                }
                heard.lock().push(format!("{name} ends"));
            }
        };
        let own = Arc::new(listening(listener));
        *events.lock() = Some(Arc::clone(&own));
        own.raise(|| deleted(1));
        own.deliver();
        assert_eq!(*heard.lock(), ["1 begins", "1 ends", "2 begins", "2 ends"]);
        *events.lock() = None;
    }

    #[test]
    fn without_a_listener_no_event_is_made() {
        let events = Events::new(Path::new("/db"), None);
        let mut is_made = false;
        events.raise(|| {
            is_made = true;
            deleted(1)
        });
        events.deliver();
        assert_eq!(is_made, cfg!(feature = "metrics"), "nobody listens");
    }

    #[test]
    fn what_is_raised_while_another_ends_to_tell_is_told() {
        let heard = Arc::new(AtomicU64::new(0));
        let events = listening({
            let heard = Arc::clone(&heard);
            move |_: &Event| {
                heard.fetch_add(1, Ordering::Relaxed);
            }
        });
        const ROUNDS: u64 = 20_000;
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (events, heard, barrier) = (&events, &heard, &barrier);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        barrier.wait();
                        events.raise(|| deleted(thread));
                        events.deliver();
                        barrier.wait();
                        assert_eq!(heard.load(Ordering::Relaxed), 2 * round, "without another call");
                    }
                });
            }
        });
    }

    #[test]
    fn once_all_is_told_the_listener_is_let_go_of() {
        let heard = Arc::new(AtomicU64::new(0));
        let events = listening({
            let heard = Arc::clone(&heard);
            move |_: &Event| {
                heard.fetch_add(1, Ordering::Relaxed);
            }
        });
        events.raise(|| deleted(1));
        events.deliver();
        assert_eq!(Arc::strong_count(&heard), 2);
        events.raise(|| deleted(2));
        events.end();
        events.deliver();
        assert_eq!((heard.load(Ordering::Relaxed), Arc::strong_count(&heard)), (2, 1));
        assert!(!events.are_wanted());
    }
}
