//! Compactions: neighbouring index runs become one, and rows of a few rowsets under them move on the way.
//!
//! Owns the run of a job. What to do is claimed in `claim` and picked in `pick`, or asked for in `whole`; index runs
//! are merged by `pkindex`, rows are copied by `move_rows`; `install` brings what was written into force. A rowset to
//! which no entry points any more leaves with the edit, unread.
//!
//! Invariant: an index run takes part in one compaction at a time. Compactions of other runs of the same tablet, and
//! flushes on top of all, go on beside it.
//! Invariant: an error leaves the inputs in force and removes the outputs. It never poisons: compaction can wait.

mod backoff;
mod claim;
mod install;
mod lanes;
mod move_rows;
mod notes;
mod pick;
mod sample;
mod shape;
mod whole;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pkindex::{Compaction, CompactionOptions, Outcome, Retention};

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::events::{CompactionSummary, Event};
use crate::files::{FileKind, Outputs};
use crate::rowset::WrittenRowset;
use crate::tablet::Tablet;
use crate::tablet::files::{base_run_options, rowset_options, run_options};
use crate::view::TabletView;

use install::install;
use lanes::Lanes;
use move_rows::Moving;
use pick::Work;

pub(crate) use backoff::Backoff;
pub(crate) use claim::{Eagerness, claim, due, note_debt};
pub(crate) use lanes::{Permits, Taken};
pub(crate) use notes::Compacting;
pub(crate) use pick::DEPTH_MAX_IDLE;
pub(crate) use sample::{KeySample, note_overwrites};
pub(crate) use shape::{depth_under, overlap_depth};
pub(crate) use whole::compact_whole;

/// A compaction, registered.
#[derive(Debug)]
pub(crate) struct CompactionJob {
    tablet: Arc<Tablet>,
    view: Arc<TabletView>,
    work: Work,
    run_ids: Vec<u64>,
}

impl Drop for CompactionJob {
    fn drop(&mut self) {
        self.tablet.compacting.unregister(&self.run_ids);
    }
}

/// Runs a job and installs what it gives.
pub(crate) fn run(core: &Core, job: &CompactionJob) -> Result<(), Error> {
    let start = core.clock.now();
    let Work { inputs, moving, bytes, .. } = &job.work;
    let (runs, rowsets) = (inputs.len(), moving.len());
    let _span = tracing::info_span!("compaction", tablet = %job.tablet.id, runs, rowsets, bytes).entered();
    // Looked up once: a table that is dropped meanwhile is the same one at the end.
    let table =
        if core.events.are_wanted() { core.catalog.names_of([&job.tablet]).remove(0) } else { String::new() };
    core.events.raise(|| Event::CompactionBegun {
        table: table.clone(),
        runs: runs as u64,
        rowsets: rowsets as u64,
        bytes: *bytes,
    });
    let result = merge_and_install(core, job);
    let took = core.clock.now().saturating_sub(start);
    core.counters.note_compaction_time(took);
    core.events.raise(|| Event::CompactionEnded { table, took, result: result.clone() });
    match &result {
        Ok(_) => core.backoff.succeeded(),
        Err(error) if job.tablet.compacting.cancel().load(Ordering::Acquire) => {
            tracing::debug!(%error, "a compaction was given up");
        }
        Err(error) => {
            core.counters.failed_compactions.add(1);
            if error.kind() == ErrorKind::NoSpace {
                core.backoff.failed(core.clock.now());
            } else {
                job.tablet.compacting.note_failure(&job.run_ids, &job.work.moving, core.clock.now());
                note_debt(core, [&job.tablet]);
            }
            tracing::warn!(%error, tablet = %job.tablet.id, "a compaction failed and will be tried again");
        }
    }
    core.health.progress.notify();
    result.map(|_| ())
}

/// Returns what was done.
fn merge_and_install(core: &Core, job: &CompactionJob) -> Result<CompactionSummary, Error> {
    let index_outputs = Outputs::new(&core.files, FileKind::Index);
    let row_outputs = Arc::new(Outputs::new(&core.files, FileKind::Rows));
    let retention = core.registry.retention();
    let result = merge(core, job, &retention, &index_outputs, &row_outputs)
        .and_then(|merged| install(core, job, &retention, &merged));
    if let Err(error) = &result
        && (error.kind() == ErrorKind::NoSpace || !core.health.is_poisoned())
    {
        // The edit never was.
        index_outputs.discard();
        row_outputs.discard();
    }
    result
}

/// What a job has written.
struct Merged {
    outcome: Outcome,
    rowsets: Vec<WrittenRowset>,
}

fn merge(
    core: &Core,
    job: &CompactionJob,
    retention: &Retention,
    index_outputs: &Outputs,
    row_outputs: &Arc<Outputs>,
) -> Result<Merged, Error> {
    let Work { inputs, moving, moved_bytes, bytes } = &job.work;
    let base = inputs.end == job.view.runs.len();
    let run_options = if base { base_run_options } else { run_options };
    let compaction = Compaction {
        base,
        inputs: job.view.runs[inputs.clone()].to_vec(),
        retention: retention.clone(),
        moving: moving.clone(),
        options: CompactionOptions::for_files(run_options(&core.options, &job.tablet.owner())),
    };
    let flush_first = (!core.is_inline()).then(|| Arc::clone(core.stall.flush_first()));
    let movers = Moving::new(
        &job.view.rowsets,
        moving,
        *moved_bytes,
        Arc::clone(row_outputs),
        rowset_options(&core.options, &job.tablet.owner()),
        flush_first,
    );
    let lanes = Lanes { core, bytes: *bytes };
    let cancel = job.tablet.compacting.cancel();
    let outcome = compaction.run(index_outputs, &lanes, &|slice| movers.slice(slice), cancel)?;
    let (rowsets, rows) = movers.finish()?;
    let written: u64 = rowsets.iter().map(|rowset| rowset.info.entries).sum();
    assert!(
        rows == written && rows == outcome.stats.entries_moved,
        "a row is written for each entry that moves: {rows}, {written}, {}",
        outcome.stats.entries_moved
    );
    Ok(Merged { outcome, rowsets })
}

#[cfg(test)]
mod tests;
