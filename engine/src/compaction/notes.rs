//! What a tablet's compactions note beside its view: what is being merged, what has failed, what snapshots held.
//!
//! Owns the registration of jobs, and the time for which an input that failed is left alone. Nothing of it is on disk:
//! after a reopen no job runs, nothing has failed, and no snapshot holds anything.
//!
//! Lock order: the notes' lock is taken before a view cell, and never while another is held but the manifest's. That of
//! the flag which stops all is a leaf.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use codec::{RowsetId, Version};
use pkindex::Retention;
use pkindex::pick::Load;
use sync::{Mutex, MutexGuard};

use super::pick::Debt;
use super::shape::Notes;

/// The notes of a tablet.
#[derive(Debug)]
pub(crate) struct Compacting {
    noted: Mutex<Noted>,
    /// Tells the compactions of the tablet to stop: it was dropped, or the engine closes.
    cancel: AtomicBool,
    /// Whether that is for good.
    is_over: Mutex<bool>,
    /// How many of a thousand keys that were written lately were there before.
    overwrite_permille: AtomicU64,
    /// By how much the tablet is behind.
    debt_runs: AtomicU64,
    debt_depth: AtomicU64,
}

impl Default for Compacting {
    fn default() -> Compacting {
        Compacting {
            noted: Mutex::default(),
            cancel: AtomicBool::new(false),
            is_over: Mutex::default(),
            // Until experience says otherwise every upsert is taken for an overwrite: space matters more.
            overwrite_permille: AtomicU64::new(1000),
            debt_runs: AtomicU64::new(0),
            debt_depth: AtomicU64::new(0),
        }
    }
}

/// What failed, and until when it is left alone.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    failures: u32,
    until: Duration,
}

impl Trouble {
    fn again(&mut self, now: Duration) {
        self.until = now + Duration::from_millis(100 << self.failures.min(10));
        self.failures += 1;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// The runs that take part in a compaction.
    busy: BTreeSet<u64>,
    /// What failed, by run and by rowset.
    runs: BTreeMap<u64, Trouble>,
    rowsets: BTreeMap<RowsetId, Trouble>,
    /// How many callers wait to compact all runs. Until they have, no other compaction of the tablet begins.
    waiting: usize,
    /// By run, how many snapshots could hold an old version in it when it was written.
    held: BTreeMap<u64, usize>,
    /// States of the tablet in which nothing was to do: the greatest number of a run and how many runs there are, for
    /// work that must be and for work that tidies up.
    settled: [Option<(u64, usize)>; 2],
}

/// How many readers can need an entry of these versions beside a newer one of its key.
fn holders(retention: &Retention, versions: (Version, Version)) -> usize {
    let (first, last) = versions;
    let from = retention.snapshots.partition_point(|&snapshot| snapshot < first);
    let to = retention.snapshots.partition_point(|&snapshot| snapshot < last);
    to.saturating_sub(from) + usize::from(retention.floor < last)
}

impl Compacting {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock()
    }

    /// The flag that stops the tablet's compactions.
    pub(crate) fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    /// Stops them until they may [go on](Compacting::go_on).
    pub(crate) fn stop(&self) {
        self.cancel.store(true, Ordering::Release);
    }

    /// Lets them go on, unless they were stopped for good.
    pub(crate) fn go_on(&self) {
        let is_over = self.is_over.lock();
        self.cancel.store(*is_over, Ordering::Release);
    }

    /// Stops them for good: the engine closes.
    pub(crate) fn end(&self) {
        let mut is_over = self.is_over.lock();
        *is_over = true;
        self.cancel.store(true, Ordering::Release);
    }

    /// Of a hundred entries of newer runs, how many take the place of an older one.
    pub(crate) fn overwrite_percent(&self) -> u64 {
        self.overwrite_permille.load(Ordering::Relaxed).div_ceil(10)
    }

    /// Notes that of so many keys that were written, some were there before.
    pub(crate) fn note_overwrites(&self, found: u64, keys: u64) {
        let now = found * 1000 / keys.max(1);
        let before = self.overwrite_permille.load(Ordering::Relaxed);
        // Samples are small: several of them count.
        self.overwrite_permille.store((3 * before + now) / 4, Ordering::Relaxed);
    }

    pub(crate) fn set_debt(&self, debt: Debt) {
        self.debt_runs.store(debt.runs as u64, Ordering::Relaxed);
        self.debt_depth.store(debt.depth as u64, Ordering::Relaxed);
    }

    pub(crate) fn debt(&self) -> (usize, usize) {
        let load = |debt: &AtomicU64| usize::try_from(debt.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        (load(&self.debt_runs), load(&self.debt_depth))
    }

    /// Notes what a new run was written for.
    pub(crate) fn note_run(&self, run: u64, retention: &Retention, versions: (Version, Version)) {
        self.lock().held.insert(run, holders(retention, versions));
    }

    /// A failure of a merge: of moving rows, if it moved some; else of the runs.
    pub(crate) fn note_failure(&self, runs: &[u64], moving: &[RowsetId], now: Duration) {
        let mut noted = self.lock();
        for &rowset in moving {
            noted.rowsets.entry(rowset).or_default().again(now);
        }
        if moving.is_empty() {
            for &run in runs {
                noted.runs.entry(run).or_default().again(now);
            }
        }
    }

    /// Forgets runs and rowsets that have left the view.
    pub(crate) fn forget(&self, runs: &[u64], rowsets: &[RowsetId]) {
        let mut noted = self.lock();
        for run in runs {
            noted.runs.remove(run);
            noted.held.remove(run);
        }
        for rowset in rowsets {
            noted.rowsets.remove(rowset);
        }
    }

    /// Lets running compactions end, and no other begin.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.lock().waiting += 1;
        Waiting(self)
    }

    /// Ends a job.
    pub(crate) fn unregister(&self, runs: &[u64]) {
        let mut noted = self.lock();
        for run in runs {
            noted.busy.remove(run);
        }
    }
}

/// While it lives, no compaction of the tablet begins but the one that is waited for.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Compacting);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Noted {
    /// How many runs take part in a compaction.
    pub(crate) fn busy_runs(&self) -> usize {
        self.busy.len()
    }

    /// Whether a compaction may begin by itself.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting == 0
    }

    pub(crate) fn register(&mut self, runs: &[u64]) {
        for &run in runs {
            assert!(self.busy.insert(run), "run {run} takes part in one compaction at a time");
        }
    }

    pub(crate) fn is_compacting(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Whether nothing was to do when the tablet had these runs.
    pub(crate) fn is_settled(&self, run_ids: &[u64], load: Load) -> bool {
        self.settled[load as usize] == Some(state_of(run_ids))
    }

    /// Nothing is to do until the runs change, unless something waits for a time or a snapshot.
    pub(crate) fn settle(&mut self, run_ids: &[u64], load: Load) {
        if self.busy.is_empty() && self.runs.is_empty() && self.rowsets.is_empty() {
            self.settled[load as usize] = Some(state_of(run_ids));
        }
    }
}

/// Every install that adds a run gives it a greater number than any before; one that adds none leaves fewer.
fn state_of(run_ids: &[u64]) -> (u64, usize) {
    (run_ids.iter().copied().max().unwrap_or(0), run_ids.len())
}

/// The notes at a moment.
pub(crate) struct NotesAt<'a> {
    pub(crate) noted: &'a Noted,
    pub(crate) retention: &'a Retention,
    pub(crate) now: Duration,
    /// Whether runs that take part in a compaction count as busy, or only those that fail.
    pub(crate) with_jobs: bool,
}

impl Notes for NotesAt<'_> {
    fn is_run_busy(&self, run: u64) -> bool {
        (self.with_jobs && self.noted.busy.contains(&run))
            || self.noted.runs.get(&run).is_some_and(|trouble| self.now < trouble.until)
    }

    fn is_rowset_busy(&self, rowset: RowsetId) -> bool {
        self.noted.rowsets.get(&rowset).is_some_and(|trouble| self.now < trouble.until)
    }

    fn is_freed(&self, run: u64, versions: (Version, Version)) -> bool {
        let now = holders(self.retention, versions);
        match self.noted.held.get(&run) {
            // At least half of the readers have gone since: each merge for this reason leaves half of them at most.
            Some(&then) if then > 0 => now * 2 <= then,
            _ => now == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retention(floor: u64, snapshots: &[u64]) -> Retention {
        Retention { floor: Version(floor), snapshots: snapshots.iter().copied().map(Version).collect() }
    }

    #[test]
    fn only_snapshots_between_the_versions_of_a_run_hold_something_in_it() {
        let versions = (Version(10), Version(20));
        assert_eq!(holders(&retention(50, &[]), versions), 0);
        assert_eq!(holders(&retention(50, &[3, 9, 20, 33]), versions), 0);
        assert_eq!(holders(&retention(50, &[9, 10, 19, 20]), versions), 2);
        assert_eq!(holders(&retention(15, &[]), versions), 1, "a reader may come that sees version 15");
    }

    #[test]
    fn failures_are_left_alone_for_longer_and_longer() {
        let compacting = Compacting::default();
        let none = retention(1, &[]);
        let is_busy = |millis: u64| {
            let noted = compacting.lock();
            let now = Duration::from_millis(millis);
            let notes = NotesAt { noted: &noted, retention: &none, now, with_jobs: true };
            (notes.is_run_busy(1), notes.is_rowset_busy(RowsetId(7)))
        };
        compacting.note_failure(&[1, 2], &[RowsetId(7)], Duration::ZERO);
        assert_eq!((is_busy(50), is_busy(150)), ((false, true), (false, false)), "first without the rows");
        compacting.note_failure(&[1, 2], &[], Duration::from_millis(200));
        compacting.note_failure(&[1, 2], &[], Duration::from_millis(200));
        assert_eq!((is_busy(399), is_busy(401)), ((true, false), (false, false)));
        compacting.forget(&[1, 2], &[RowsetId(7)]);
        assert_eq!(is_busy(201), (false, false));
    }
}
