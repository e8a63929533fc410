//! Compaction on request: all runs of a tablet become one, in the caller's thread.
//!
//! Owns the end of such a request beside writers that go on. The jobs are those of any compaction.
//!
//! Invariant: it ends. Each job either moves a rowset that stood when it was asked for, or merges nothing that has come
//! since.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use codec::{RowsetId, Version};

use super::claim::{Eagerness, claim_in, policy, register};
use super::notes::NotesAt;
use super::shape::Shape;
use super::{CompactionJob, pick, run};
use crate::core::Core;
use crate::error::Error;
use crate::tablet::Tablet;
use crate::view::TabletView;

/// What a tablet held on disk when a caller asked for it to be compacted.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) rowsets: BTreeSet<RowsetId>,
    through: Version,
}

impl Asked {
    pub(super) fn of(view: &TabletView) -> Asked {
        let rowsets = view.rowsets.iter().map(|rowset| rowset.id()).collect();
        Asked { rowsets, through: view.flushed_through }
    }

    /// Whether a job moves a rowset that stood then, or merges nothing that has come since. Each of the former leaves
    /// one less to move, and without anything new the latter come to an end.
    pub(super) fn has(&self, job: &CompactionJob) -> bool {
        let mut inputs = job.view.runs[job.work.inputs.clone()].iter();
        job.work.moving.iter().any(|rowset| self.rowsets.contains(rowset))
            || inputs.all(|run| run.versions().1 <= self.through)
    }

    /// The next job, if there is one. However much is written meanwhile, at some time there is none.
    pub(super) fn next(&self, core: &Core, tablet: &Arc<Tablet>) -> Option<CompactionJob> {
        let retention = core.registry.retention();
        let job = claim_in(core, tablet, &retention, Eagerness::Idle)?;
        if self.has(&job) {
            return Some(job);
        }
        drop(job);
        core.signals.compaction.set();
        None
    }
}

/// Merges all runs of a tablet into one, in the caller's thread, after the compactions that are running; then goes on
/// until the rowsets that there were are as they are when the engine had nothing else to do for long. What is written
/// meanwhile is left to the workers: else this might never return.
pub(crate) fn compact_whole(core: &Core, tablet: &Arc<Tablet>) -> Result<(), Error> {
    let waiting = tablet.compacting.wait();
    let job = core.health.progress.wait_for(Duration::from_millis(20), || {
        if let Err(error) = core.health.check_writable().and_then(|()| tablet.check_not_dropped()) {
            return Some(Err(error));
        }
        let mut noted = tablet.compacting.lock();
        if noted.is_compacting() {
            return None;
        }
        let view = tablet.view.pin();
        let retention = core.registry.retention();
        // It is asked for: also what has failed is tried again.
        let notes = NotesAt { noted: &noted, retention: &retention, now: Duration::MAX, with_jobs: true };
        let shape = Shape::of(&view, &notes, tablet.compacting.overwrite_percent());
        let work = pick::pick_whole(&shape, &policy(&core.options));
        let asked = Asked::of(&view);
        Some(Ok(work.map(|work| (asked, register(tablet, view, &mut noted, work)))))
    })?;
    drop(waiting);
    let Some((asked, job)) = job else { return Ok(()) };
    run_for_caller(core, &job)?;
    drop(job);
    loop {
        core.health.check_writable()?;
        tablet.check_not_dropped()?;
        let Some(job) = asked.next(core, tablet) else { return Ok(()) };
        run_for_caller(core, &job)?;
    }
}

/// Runs a job in a caller's thread, which closing waits for.
fn run_for_caller(core: &Core, job: &CompactionJob) -> Result<(), Error> {
    let _caller = core.callers.read();
    core.health.check_writable()?;
    run(core, job)
}
