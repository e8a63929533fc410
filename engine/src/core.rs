//! What every handle, reader and worker shares.
//!
//! Owns the parts of an open engine and nothing else: each part keeps its own invariants. A [`Handle`] is what users'
//! handles hold; when the last one goes, the engine closes. Workers and iterators hold the [`Core`] alone, so they
//! keep nothing open.
//!
//! Lock order, over all parts: inline turn, callers, manifest, commit's stage, a tablet's unflushed list, a memtable's
//! tree, a view cell. Under the leaves (registry, catalog, health, stall, obsolete list, events, signals, waiters) no
//! other lock is taken, but that an event may be raised under any; under the queue's only a waiter's. Nothing that a
//! reader or a writer waits for is held across disk work, but for the stage, which is held across the append to the
//! log. (A flush shares a sealed memtable with its readers while it writes.)

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use codec::Version;
use sync::{Mutex, RwLock};
use vfs::Lock;

use crate::background;
use crate::batch::BufferPool;
use crate::catalog::{Catalog, TableCore};
use crate::commit::Commit;
use crate::compaction::{Backoff, Permits};
use crate::error::{Error, ErrorKind};
use crate::events::Events;
use crate::files::Files;
use crate::health::HealthCell;
use crate::manifest::Manifest;
use crate::metrics::Published;
use crate::options::{Options, RuntimeMode};
use crate::read::ReadPoint;
use crate::runtime::{Chance, Clock, Signal, Workers};
use crate::snapshot::{Registry, Snapshot};
use crate::stall::Stall;
use crate::stats::Counters;
use crate::tablet::Tablet;
use crate::view::{Look, TabletView};

/// Wakes the workers, by what they do.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) flush: Signal,
    pub(crate) compaction: Signal,
    pub(crate) housekeeping: Signal,
}

impl Signals {
    /// Wakes all workers for good, once they are told to stop.
    pub(crate) fn end(&self) {
        for signal in [&self.flush, &self.compaction, &self.housekeeping] {
            signal.set_for_good();
        }
    }
}

/// Whose turn it is to do inline work.
#[derive(Debug, Default)]
pub(crate) struct InlineTurn {
    /// Nothing is done by chance, only what is asked for: for tests that choose the order themselves.
    pub(crate) only_on_demand: bool,
}

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) files: Arc<Files>,
    pub(crate) cache: Arc<sstable::Cache>,
    pub(crate) log: wal::Log,
    pub(crate) manifest: Manifest,
    pub(crate) registry: Arc<Registry>,
    /// The last commit that the open found.
    pub(crate) recovered_to: Version,
    /// Of that, what was on disk for certain: all, unless it was opened for reading only.
    pub(crate) found_durable: Version,
    /// The first version that was given out since.
    pub(crate) first_version: Version,
    pub(crate) catalog: Catalog,
    pub(crate) commit: Commit,
    pub(crate) stall: Stall,
    pub(crate) health: HealthCell,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) workers: Workers,
    /// The thread that tells of events. Closing waits for it last, with nothing held: a listener may be closing, too.
    pub(crate) teller: Workers,
    pub(crate) signals: Signals,
    pub(crate) backoff: Backoff,
    pub(crate) compaction_permits: Permits,
    pub(crate) counters: Counters,
    pub(crate) events: Arc<Events>,
    pub(crate) published: Published,
    pub(crate) buffers: BufferPool,
    /// Of the thread that divides the memory between memtables and cache.
    pub(crate) memory_turn: Mutex<()>,
    /// Held by the thread that does inline work: one at a time, as with one worker.
    pub(crate) inline_turn: Mutex<InlineTurn>,
    /// Shared by callers' threads that write files or edits themselves, from a check of the health on. Closing takes it
    /// alone before it lets go of the directory: nobody writes there afterwards.
    pub(crate) callers: RwLock<()>,
    /// Held until the engine is closed.
    pub(crate) lock: Mutex<Option<Box<dyn Lock>>>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Core {
    /// What a read that begins now sees of a tablet.
    ///
    /// The view is pinned first: whatever made it kept what readers need from the version on that was visible then,
    /// and the one that is read afterwards is no older. And a memtable that is still active after the visible version
    /// was read holds, with what is below it in the view, every operation up to that version.
    pub(crate) fn read_point(&self, tablet: &Tablet) -> ReadPoint {
        self.read_point_with(|| tablet.view.pin())
    }

    /// The same for a single read.
    pub(crate) fn look(&self, tablet: &Tablet) -> ReadPoint<Look> {
        self.read_point_with(|| tablet.view.look())
    }

    #[inline]
    fn read_point_with<V: Deref<Target = TabletView>>(&self, pin: impl Fn() -> V) -> ReadPoint<V> {
        let mut view = pin();
        loop {
            let at = self.registry.visible();
            let again = pin();
            if Arc::ptr_eq(view.active(), again.active()) {
                return ReadPoint::new(view, at);
            }
            view = again;
        }
    }

    /// What a read at a snapshot sees. The snapshot was registered before: whatever view is in force holds what it
    /// needs.
    pub(crate) fn read_point_at(&self, tablet: &Tablet, snapshot: &Snapshot) -> Result<ReadPoint, Error> {
        if !snapshot.belongs_to(&self.registry) {
            return Err(Error::invalid("the snapshot belongs to another engine"));
        }
        Ok(ReadPoint::new(tablet.view.pin(), snapshot.at()))
    }

    /// A table with the schema that is in force. It knows that of every row that could be read before.
    pub(crate) fn in_force(&self, table: &Arc<TableCore>) -> Result<Arc<TableCore>, Error> {
        if table.newest.version() == table.schema.version() {
            return Ok(Arc::clone(table));
        }
        let newest = self.catalog.find(table.id);
        newest.ok_or_else(|| Error::new(ErrorKind::NoSuchTable, "the table was dropped"))
    }

    /// Waits until a version is visible.
    pub(crate) fn wait_visible(&self, version: Version) -> Result<(), Error> {
        self.health.progress.wait_for(Duration::from_millis(100), || {
            if self.registry.visible() >= version {
                return Some(Ok(()));
            }
            self.health.check_writable().err().map(Err)
        })
    }

    /// The last commit that readers see. (The registry's version begins between two lives, where no commit was.)
    pub(crate) fn last_committed(&self) -> Version {
        let visible = self.registry.visible();
        if visible < self.first_version { self.recovered_to } else { visible }
    }

    /// The last commit that is durable with all before it.
    pub(crate) fn last_durable(&self) -> Version {
        self.log.synced_version().max(self.found_durable)
    }

    /// Makes a commit durable, with all before it.
    pub(crate) fn wait_durable(&self, version: Version) -> Result<(), Error> {
        // Whatever was made durable since: no commit of this database lies between two of its lives.
        if self.recovered_to < version && version < self.first_version {
            let found = self.recovered_to;
            return Err(Error::invalid(format!(
                "commit {version} did not survive, or is another database's; the last of those before that did is {found}"
            )));
        }
        if version <= self.last_durable() {
            return Ok(());
        }
        if self.health.is_read_only() {
            return self.health.check_writable();
        }
        if version > self.registry.visible() {
            return Err(Error::invalid(format!("there was no commit {version} yet")));
        }
        self.health.check_open()?;
        self.sync_visible()
    }

    /// How many threads compact at most. One more flushes.
    pub(crate) fn compaction_threads(&self) -> usize {
        self.options.background_threads
    }

    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.options.runtime, RuntimeMode::Inline { .. })
    }

    /// In the inline mode: does some of the work that waits, perhaps none, as the seed has it.
    pub(crate) fn run_inline_work(&self) {
        if self.is_inline()
            && let Some(turn) = self.inline_turn.try_lock()
            && !turn.only_on_demand
        {
            self.inline(background::run_some);
        }
    }

    /// In the inline mode: does all flushes that wait, after another thread's inline work.
    pub(crate) fn run_inline_flushes(&self) {
        if self.is_inline() {
            let _turn = self.inline_turn.lock();
            self.inline(background::run_flushes);
        }
    }

    /// Inline work is a worker's: closing waits for it, and a panic in it poisons the engine.
    fn inline(&self, work: impl FnOnce(&Core)) {
        // A caller that drops a table has it already.
        let _caller = self.callers.read_recursive();
        if self.health.check_open().is_ok() && catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.health.poison(&Error::new(ErrorKind::Io, "inline background work panicked"));
        }
    }

    /// What a caller asks for that may raise events, and holds no lock before and after. In the inline mode, where no
    /// thread does it, the listener is told what came of it before the caller goes on, whether it failed or not.
    #[inline]
    pub(crate) fn door<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = work();
        if self.is_inline() {
            self.events.deliver();
        }
        done
    }

    /// Sees to it that sealed memtables are flushed.
    pub(crate) fn wake_flush(&self) {
        self.signals.flush.set();
        self.run_inline_flushes();
    }
}

/// What users' handles share. The engine closes when the last one is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = crate::engine::close(&self.core) {
            tracing::error!(%error, "the engine could not be closed cleanly; its log will be replayed");
        }
    }
}
