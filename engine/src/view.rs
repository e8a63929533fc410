//! What a reader pins: the memtables, index runs and rowsets of a tablet at one moment.
//!
//! Owns the immutable [`TabletView`] and the cell that holds the one in force. A view never changes; a flush or a
//! compaction makes a new one and swaps it in after its edit is durable.
//!
//! Invariant: every operation of the tablet up to `flushed_through` is in `runs`, every later one in `memtables`.
//! Invariant: the version ranges of `runs` do not overlap, newest first, and each rowset that an entry of `runs`
//! names is in `rowsets`.

use std::ops::Deref;
use std::sync::Arc;

use codec::Version;
use pkindex::Run;
use sync::{ArcGuard, ArcSwap, Mutex};

use crate::memtable::Memtable;
use crate::rowset::Rowsets;

/// The memtables, runs and rowsets of one tablet at one moment.
#[derive(Debug)]
pub(crate) struct TabletView {
    /// Newest first; the first is the active one.
    pub(crate) memtables: Vec<Arc<Memtable>>,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
    /// The manifest's number of each run, in the order of `runs`.
    pub(crate) run_ids: Vec<u64>,
    /// Every rowset that an entry of `runs` may point to.
    pub(crate) rowsets: Arc<Rowsets>,
    /// The last version that is in `runs` and no longer in `memtables`.
    pub(crate) flushed_through: Version,
}

impl TabletView {
    /// The view of a tablet that holds nothing.
    pub(crate) fn empty(active: Arc<Memtable>) -> TabletView {
        TabletView {
            memtables: vec![active],
            runs: Vec::new(),
            run_ids: Vec::new(),
            rowsets: Arc::default(),
            flushed_through: Version(0),
        }
    }

    /// The memtable that takes writes.
    pub(crate) fn active(&self) -> &Arc<Memtable> {
        self.memtables.first().expect("a view always has an active memtable")
    }
}

/// The cell with the view in force.
#[derive(Debug)]
pub(crate) struct ViewCell {
    current: ArcSwap<TabletView>,
    /// Held while the view is replaced. Readers never wait for it.
    replacing: Mutex<()>,
}

/// The view as a single read pins it: nothing that other threads read is written for it.
pub(crate) struct Look(ArcGuard<TabletView>);

impl Deref for Look {
    type Target = TabletView;

    #[inline]
    fn deref(&self) -> &TabletView {
        &self.0
    }
}

impl ViewCell {
    pub(crate) fn new(view: TabletView) -> ViewCell {
        ViewCell { current: ArcSwap::new(Arc::new(view)), replacing: Mutex::new(()) }
    }

    /// Pins the view in force.
    pub(crate) fn pin(&self) -> Arc<TabletView> {
        self.current.load_full()
    }

    /// Pins the view in force for as long as a single read takes: a thread has room for a few of these at a time.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        Look(self.current.load())
    }

    /// Replaces the view by one made from it. Changes are serialised by the lock, so none is lost.
    pub(crate) fn replace(&self, make: impl FnOnce(&TabletView) -> TabletView) {
        let replacing = self.replacing.lock();
        let next = Arc::new(make(&self.current.load()));
        let previous = self.current.swap(next);
        drop(replacing);
        // The last reader's pin may be this one: what it frees is freed outside the lock.
        drop(previous);
    }
}
