//! A tablet: one table's memtables, runs and rowsets, and what of them the log still holds.
//!
//! Owns the view cell and the list of memtables that are not flushed yet, with the part of the log that each needs.
//!
//! Invariant: the list and the view's memtables are the same, in opposite order.
//! Invariant: a memtable is sealed between batches, by whoever holds the commit's stage, and never when empty.
//!
//! Lock order: the commit's stage, then the unflushed list, then the view cell. The owner's lock is a leaf.

pub(crate) mod files;

use std::sync::Arc;

use codec::{FileId, TabletId, Version};
use sync::Mutex;
use sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wal::Position;

use crate::compaction::Compacting;
use crate::error::{Error, ErrorKind};
use crate::memtable::Memtable;
use crate::view::{TabletView, ViewCell};

/// A memtable whose operations are in the log only.
#[derive(Clone, Debug)]
pub(crate) struct Unflushed {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) is_sealed: bool,
    pub(crate) is_flushing: bool,
    /// The segment of its first operation.
    log_first: Option<FileId>,
    /// The end of its last.
    pub(crate) log_end: Position,
    /// What the memory budget counts for it, in bytes.
    pub(crate) counted: usize,
}

#[derive(Debug)]
pub(crate) struct Tablet {
    pub(crate) id: TabletId,
    /// Whose its files are, as they tell it themselves. Files that are begun after the table was altered tell the new
    /// schema.
    owner: Mutex<Arc<[u8]>>,
    pub(crate) view: ViewCell,
    /// Oldest first; the last is the active one.
    unflushed: Mutex<Vec<Unflushed>>,
    /// Set under the commit's stage; from then on no operation is applied.
    being_dropped: AtomicBool,
    /// The drop is durable: nobody flushes what is left.
    is_gone: AtomicBool,
    /// What its compactions note.
    pub(crate) compacting: Compacting,
    memtables_made: AtomicU64,
}

fn fresh(memtable: &Arc<Memtable>) -> Unflushed {
    Unflushed {
        memtable: Arc::clone(memtable),
        is_sealed: false,
        is_flushing: false,
        log_first: None,
        log_end: Position { segment: FileId(0), offset: 0 },
        counted: 0,
    }
}

impl Tablet {
    /// A tablet with the runs and rowsets of `make`'s view, and an empty memtable.
    pub(crate) fn new(
        id: TabletId,
        owner: Vec<u8>,
        make: impl FnOnce(Arc<Memtable>) -> TabletView,
    ) -> Tablet {
        let active = Arc::new(Memtable::new(0));
        let unflushed = vec![fresh(&active)];
        Tablet {
            id,
            owner: Mutex::new(owner.into()),
            view: ViewCell::new(make(active)),
            unflushed: Mutex::new(unflushed),
            being_dropped: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            compacting: Compacting::default(),
            memtables_made: AtomicU64::new(1),
        }
    }

    /// Whose files that are begun now are. It knows the schema of every row that is in a memtable or a file already.
    pub(crate) fn owner(&self) -> Arc<[u8]> {
        Arc::clone(&self.owner.lock())
    }

    /// From now on files tell this. Call before a row is written with the schema that it tells of.
    pub(crate) fn set_owner(&self, owner: Vec<u8>) {
        *self.owner.lock() = owner.into();
    }

    pub(crate) fn check_not_dropped(&self) -> Result<(), Error> {
        if self.is_dropped() {
            return Err(Error::new(ErrorKind::NoSuchTable, "the table was dropped"));
        }
        Ok(())
    }

    /// Whether it was dropped, or is about to be.
    pub(crate) fn is_dropped(&self) -> bool {
        self.being_dropped.load(Ordering::Acquire)
    }

    /// Whether it was dropped for good.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Refuses operations from now on. Stops the tablet's compactions, and does not wait for them. Call with the
    /// commit's stage.
    pub(crate) fn begin_drop(&self) {
        self.being_dropped.store(true, Ordering::Release);
        self.compacting.stop();
    }

    /// The drop could not be made durable.
    pub(crate) fn take_back_drop(&self) {
        self.being_dropped.store(false, Ordering::Release);
        self.compacting.go_on();
    }

    /// The drop is durable.
    pub(crate) fn end_drop(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// Notes that the active memtable took operations that lie in the log from `first` to `end`. Returns by how many
    /// bytes it has grown. Call with the commit's stage.
    pub(crate) fn note_applied(&self, first: FileId, end: Position) -> usize {
        let mut unflushed = self.unflushed.lock();
        let active = unflushed.last_mut().expect("a tablet always has an active memtable");
        active.log_first.get_or_insert(first);
        active.log_end = active.log_end.max(end);
        let bytes = active.memtable.bytes();
        let grown = bytes.saturating_sub(active.counted);
        active.counted = active.counted.max(bytes);
        grown
    }

    /// Counts what a replay has put into the active memtable, for which no part of the log is kept.
    pub(crate) fn count_replayed(&self) {
        let mut unflushed = self.unflushed.lock();
        let active = unflushed.last_mut().expect("a tablet always has an active memtable");
        active.counted = active.memtable.bytes();
    }

    /// Seals the active memtable and puts an empty one in its place. False if it is empty. Call with the commit's
    /// stage, between batches.
    pub(crate) fn seal(&self) -> bool {
        let mut unflushed = self.unflushed.lock();
        let active = unflushed.last_mut().expect("a tablet always has an active memtable");
        if active.memtable.is_empty() {
            return false;
        }
        active.is_sealed = true;
        let next = Arc::new(Memtable::new(self.memtables_made.fetch_add(1, Ordering::Relaxed)));
        unflushed.push(fresh(&next));
        self.view.replace(|view| TabletView {
            memtables: std::iter::once(next).chain(view.memtables.iter().cloned()).collect(),
            runs: view.runs.clone(),
            run_ids: view.run_ids.clone(),
            rowsets: Arc::clone(&view.rowsets),
            flushed_through: view.flushed_through,
        });
        true
    }

    /// Takes the oldest sealed memtable for a job that holds the `held` before it, and so all before it. None if
    /// another job has one of them: flushes are installed in seal order.
    pub(crate) fn claim_sealed(&self, held: usize) -> Option<Unflushed> {
        let mut unflushed = self.unflushed.lock();
        let oldest = unflushed.get_mut(held)?;
        if !oldest.is_sealed || oldest.is_flushing {
            return None;
        }
        oldest.is_flushing = true;
        Some(oldest.clone())
    }

    /// Gives back what [`Tablet::claim_sealed`] took, after a flush that failed.
    pub(crate) fn unclaim(&self, memtable: &Arc<Memtable>) {
        let mut unflushed = self.unflushed.lock();
        if let Some(slot) = unflushed.iter_mut().find(|slot| Arc::ptr_eq(&slot.memtable, memtable)) {
            slot.is_flushing = false;
        }
    }

    /// Forgets a memtable that was flushed. It must be the oldest. Returns what the budget counted for it.
    pub(crate) fn forget_flushed(&self, memtable: &Arc<Memtable>) -> usize {
        let mut unflushed = self.unflushed.lock();
        let at = unflushed
            .iter()
            .position(|slot| Arc::ptr_eq(&slot.memtable, memtable))
            .expect("a flushed memtable was unflushed before");
        assert_eq!(at, 0, "flushes of a tablet are installed in seal order");
        unflushed.remove(at).counted
    }

    /// The first segment of the log that is still needed for this tablet, but for memtables that `is_flushing`.
    pub(crate) fn log_first_without(&self, is_flushing: impl Fn(&Arc<Memtable>) -> bool) -> Option<FileId> {
        let unflushed = self.unflushed.lock();
        unflushed.iter().filter(|slot| !is_flushing(&slot.memtable)).filter_map(|slot| slot.log_first).min()
    }

    /// Whether a sealed memtable waits, the bytes of the active one, and those of all.
    pub(crate) fn memory(&self) -> TabletMemory {
        let unflushed = self.unflushed.lock();
        let active = unflushed.last().expect("a tablet always has an active memtable");
        TabletMemory {
            active_bytes: active.counted,
            active_log_first: active.log_first,
            sealed: unflushed.len() - 1,
            bytes: unflushed.iter().map(|slot| slot.counted).sum(),
        }
    }

    /// Whether a memtable that holds a version up to `through` is not flushed yet.
    pub(crate) fn has_unflushed_through(&self, through: Version) -> bool {
        self.unflushed
            .lock()
            .iter()
            .filter_map(|slot| slot.memtable.versions())
            .any(|(first, _)| first <= through)
    }

    /// The last version applied, if any memtable is not flushed.
    pub(crate) fn last_unflushed(&self) -> Option<Version> {
        self.unflushed.lock().iter().filter_map(|slot| slot.memtable.versions()).map(|(_, last)| last).max()
    }
}

impl Tablet {
    /// Gives back what the budget counts for a dropped table. Its memtables live on for the readers that pin them.
    pub(crate) fn uncount(&self) -> usize {
        self.unflushed.lock().iter_mut().map(|slot| std::mem::take(&mut slot.counted)).sum()
    }
}

/// A tablet's unflushed memory at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TabletMemory {
    pub(crate) active_bytes: usize,
    pub(crate) active_log_first: Option<FileId>,
    pub(crate) sealed: usize,
    pub(crate) bytes: usize,
}

/// The live index entries of each rowset of a view: the sum of the properties of its index files.
pub(crate) fn live_counts(view: &TabletView) -> std::collections::BTreeMap<codec::RowsetId, u64> {
    let mut counts = std::collections::BTreeMap::new();
    for rowset in view.rowsets.iter() {
        counts.insert(rowset.id(), 0);
    }
    for file in view.runs.iter().flat_map(|run| run.files()) {
        for (rowset, entries) in &file.properties.per_rowset {
            *counts.entry(*rowset).or_default() += entries;
        }
    }
    counts
}
