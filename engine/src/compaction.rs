//! Compactions: neighbouring index runs become one.
//!
//! Owns the choice of a tablet, the registration of the job, and the install. What to merge is picked, and merged, by
//! `pkindex`. A rowset to which no entry points any more leaves with the edit, unread.
//!
//! Invariant: one compaction of a tablet at a time; flushes go on, on top of its inputs.
//! Invariant: an error leaves the inputs in force and removes the outputs. It never poisons: compaction can wait.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use codec::{FileId, Location, RowsetId};
use parking_lot::Mutex;
use pkindex::pick::{Policy, RunShape, pick};
use pkindex::{BoxError, Compaction, CompactionOptions, Entry, Executor, Outcome, Relocate, Run};
use sstable::FileInfo;

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::files::{FileKind, Outputs};
use crate::flush::{open_index_files, run_options};
use crate::manifest::{Edit, RunDesc, TabletEdit};
use crate::options::Options;
use crate::rowset::Rowset;
use crate::tablet::{Tablet, live_counts};
use crate::view::TabletView;

/// A tablet's compaction, registered.
#[derive(Debug)]
pub(crate) struct CompactionJob {
    tablet: Arc<Tablet>,
    view: Arc<TabletView>,
    inputs: Range<usize>,
}

impl Drop for CompactionJob {
    fn drop(&mut self) {
        self.tablet.is_compacting.store(false, Ordering::Release);
    }
}

/// Failures back off, so that a damaged input does not keep a processor busy.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: AtomicU32,
    until: Mutex<Duration>,
}

impl Backoff {
    fn is_over(&self, now: Duration) -> bool {
        now >= *self.until.lock()
    }

    fn failed(&self, now: Duration) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(10);
        *self.until.lock() = now + Duration::from_millis(100 << failures);
    }

    fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }
}

fn shape(run: &Run) -> RunShape {
    RunShape { bytes: run.bytes(), entries: run.entries(), busy: false }
}

/// What is picked: as by default, but tiers follow the size of an index file, so that small ones make tiers too.
fn policy(options: &Options) -> Policy {
    let file_bytes = options.index_file_bytes;
    Policy { tier_bytes: file_bytes / 16, upper_bytes_min: file_bytes / 4, ..Policy::default() }
}

/// How many runs a view has beyond what picking leaves when compaction keeps up.
pub(crate) fn debt(view: &TabletView, options: &Options) -> usize {
    let largest = view.runs.iter().map(|run| run.bytes()).max().unwrap_or(0);
    view.runs.len().saturating_sub(policy(options).runs_max(largest))
}

/// Takes the next compaction: that of the tablet with the most runs. `is_idle` allows work that only tidies up.
pub(crate) fn claim(core: &Core, is_idle: bool) -> Option<CompactionJob> {
    if !core.health.is_healthy() || !core.backoff.is_over(core.clock.now()) {
        return None;
    }
    let policy = policy(&core.options);
    let mut best: Option<CompactionJob> = None;
    for table in core.catalog.all() {
        let tablet = table.tablet.clone();
        if tablet.is_compacting.swap(true, Ordering::AcqRel) {
            continue;
        }
        let view = tablet.view.pin();
        let shapes: Vec<RunShape> = view.runs.iter().map(|run| shape(run)).collect();
        // From here on the job's drop unregisters.
        let mut job = CompactionJob { tablet, view, inputs: 0..0 };
        let Some(inputs) = pick(&shapes, &policy, is_idle) else { continue };
        job.inputs = inputs;
        if best.as_ref().is_none_or(|best| best.view.runs.len() < job.view.runs.len()) {
            best = Some(job);
        }
    }
    best
}

/// A compaction of all runs of a tablet into one; `None` if there is nothing to merge or one is running.
pub(crate) fn claim_whole(tablet: &Arc<Tablet>) -> Option<CompactionJob> {
    if tablet.is_compacting.swap(true, Ordering::AcqRel) {
        return None;
    }
    let view = tablet.view.pin();
    let runs = view.runs.len();
    let job = CompactionJob { tablet: Arc::clone(tablet), view, inputs: 0..runs };
    (runs > 0).then_some(job)
}

/// Runs the slices one after the other, in the worker that has the job.
struct InTurn;

impl Executor for InTurn {
    fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        for job in jobs {
            job();
        }
    }
}

/// Moves no rows.
struct Stay;

impl Relocate for Stay {
    fn relocate(&mut self, _key: &[u8], _entry: Entry, from: Location) -> Result<Location, BoxError> {
        Ok(from)
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Runs a job and installs what it gives.
pub(crate) fn run(core: &Core, job: &CompactionJob) -> Result<(), Error> {
    let result = merge_and_install(core, job);
    match &result {
        Ok(()) => core.backoff.succeeded(),
        Err(error) if core.workers.stopping().load(Ordering::Acquire) || job.tablet.is_dropped() => {
            tracing::debug!(%error, "a compaction was given up");
        }
        Err(error) => {
            core.counters.failed_compactions.add(1);
            core.backoff.failed(core.clock.now());
            tracing::warn!(%error, tablet = %job.tablet.id, "a compaction failed and will be tried again");
        }
    }
    core.health.progress.notify();
    result
}

fn merge_and_install(core: &Core, job: &CompactionJob) -> Result<(), Error> {
    let inputs: Vec<Arc<Run>> = job.view.runs[job.inputs.clone()].to_vec();
    let outputs = Outputs::new(&core.files, FileKind::Index);
    let compaction = Compaction {
        base: job.inputs.end == job.view.runs.len(),
        inputs: inputs.clone(),
        retention: core.registry.retention(),
        moving: Vec::new(),
        options: CompactionOptions::for_files(run_options(&core.options)),
    };
    let stopping = core.workers.stopping();
    let outcome = compaction.run(&outputs, &InTurn, &|_slice| Box::new(Stay), stopping)?;
    let installed = install(core, job, &inputs, &outcome);
    if let Err(error) = &installed
        && (error.kind() == ErrorKind::NoSpace || !core.health.is_poisoned())
    {
        // The edit never was.
        outputs.discard();
    }
    installed
}

/// The files of the new run, in key order, with those that moved over untouched.
fn output_files(outcome: &Outcome) -> Vec<FileInfo> {
    let mut files: Vec<FileInfo> = outcome.files.iter().map(|file| file.info.clone()).collect();
    files.extend(outcome.reused.iter().map(|file| file.info.clone()));
    files.sort_by(|a, b| a.first_key.cmp(&b.first_key));
    files
}

/// The new run: new files opened, reused ones shared with the inputs.
fn open_output(core: &Core, outcome: &Outcome) -> Result<Option<Arc<Run>>, Error> {
    let infos: Vec<FileInfo> = outcome.files.iter().map(|file| file.info.clone()).collect();
    let mut files = open_index_files(&core.files, &core.cache, &infos)?;
    files.extend(outcome.reused.iter().cloned());
    if files.is_empty() {
        return Ok(None);
    }
    files.sort_by(|a, b| a.info.first_key.cmp(&b.info.first_key));
    Ok(Some(Arc::new(Run::new(files)?)))
}

fn install(core: &Core, job: &CompactionJob, inputs: &[Arc<Run>], outcome: &Outcome) -> Result<(), Error> {
    core.files.sync_dir().inspect_err(|error| core.health.poison(error))?;
    let files = output_files(outcome);
    let run = open_output(core, outcome)?;
    let run_id = core.files.next_id().0;
    let removed_runs: Vec<u64> = job.view.run_ids[job.inputs.clone()].to_vec();
    let replaced = replace_runs(&job.tablet, inputs, run.as_ref(), run_id);
    let dead = std::cell::RefCell::new(Vec::new());
    let installed = core.manifest.install(
        |state| {
            if !state.tablets.contains_key(&job.tablet.id) {
                return Ok(None);
            }
            // Under the manifest's lock no other edit changes the view: what is dead here is dead for good.
            let view = job.tablet.view.pin();
            let next = replaced(&view);
            *dead.borrow_mut() = dead_rowsets(&next);
            let added_runs =
                if run.is_some() { vec![RunDesc { id: run_id, files: files.clone() }] } else { Vec::new() };
            Ok(Some(Edit {
                attested: Some(core.log.synced()),
                version_ceiling: core.commit.ceiling_to_raise(),
                tablets: vec![TabletEdit {
                    tablet: job.tablet.id,
                    removed_runs: removed_runs.clone(),
                    added_runs,
                    removed_rowsets: dead.borrow().iter().map(|rowset| rowset.id()).collect(),
                    ..TabletEdit::default()
                }],
                ..Edit::default()
            }))
        },
        |state| {
            core.commit.raise_ceiling(state.version_ceiling);
            let gone: Vec<RowsetId> = dead.borrow().iter().map(|rowset| rowset.id()).collect();
            job.tablet.view.replace(|view| {
                let next = replaced(view);
                TabletView { rowsets: Arc::new(next.rowsets.with(&gone, [])), ..next }
            });
        },
    );
    let installed = installed.inspect_err(|error| core.health.fail(error))?;
    if installed.is_none() {
        return Err(Error::new(ErrorKind::NoSuchTable, "the table was dropped under its compaction"));
    }
    let kept: Vec<FileId> = outcome.reused.iter().map(|file| file.info.id).collect();
    for file in inputs.iter().flat_map(|run| run.files()).filter(|file| !kept.contains(&file.info.id)) {
        core.files.retire_index(Arc::clone(file));
    }
    for rowset in dead.take() {
        core.files.retire_rows(rowset);
    }
    core.counters.note_compaction(&outcome.stats);
    core.note_runs();
    core.signals.housekeeping.set();
    Ok(())
}

/// How a view changes: the inputs go, the output takes their place. Flushes may have put runs on top meanwhile.
fn replace_runs<'a>(
    tablet: &'a Tablet,
    inputs: &'a [Arc<Run>],
    output: Option<&'a Arc<Run>>,
    run_id: u64,
) -> impl Fn(&TabletView) -> TabletView + 'a {
    move |view| {
        let at = view
            .runs
            .iter()
            .position(|run| Arc::ptr_eq(run, &inputs[0]))
            .unwrap_or_else(|| panic!("tablet {}: only its one compaction removes runs", tablet.id));
        let mut runs = view.runs.clone();
        let mut run_ids = view.run_ids.clone();
        runs.splice(at..at + inputs.len(), output.cloned());
        run_ids.splice(at..at + inputs.len(), output.map(|_| run_id));
        TabletView {
            memtables: view.memtables.clone(),
            runs,
            run_ids,
            rowsets: Arc::clone(&view.rowsets),
            flushed_through: view.flushed_through,
        }
    }
}

fn dead_rowsets(view: &TabletView) -> Vec<Arc<Rowset>> {
    let live: BTreeMap<RowsetId, u64> = live_counts(view);
    view.rowsets.iter().filter(|rowset| live.get(&rowset.id()) == Some(&0)).cloned().collect()
}

/// Merges all runs of a tablet into one, in the caller's thread, after a compaction that is running.
pub(crate) fn compact_whole(core: &Core, tablet: &Arc<Tablet>) -> Result<(), Error> {
    let job = core.health.progress.wait_for(Duration::from_millis(20), || {
        if let Err(error) = core.health.check_writable().and_then(|()| tablet.check_not_dropped()) {
            return Some(Err(error));
        }
        if tablet.view.pin().runs.is_empty() {
            return Some(Ok(None));
        }
        claim_whole(tablet).map(|job| Ok(Some(job)))
    })?;
    let Some(job) = job else { return Ok(()) };
    let _caller = core.callers.read();
    core.health.check_writable()?;
    run(core, &job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_follow_the_size_of_a_file() {
        assert_eq!(policy(&Options::default()), Policy::default());
        let small = Options { index_file_bytes: 1024, ..Options::default() };
        let run = |entries: u64| RunShape { bytes: entries * 30, entries, busy: false };
        let runs = [run(10), run(11), run(12), run(10), run(1000)];
        assert_eq!(pick(&runs, &policy(&small), false), Some(0..4), "the large run stays out of it");
    }
}
