//! Compactions: neighbouring index runs become one, and rows of a few rowsets under them move on the way.
//!
//! Owns the registration of jobs, their run, and the install. What to do is picked in `pick`, index runs are merged by
//! `pkindex`, rows are copied by `move_rows`. A rowset to which no entry points any more leaves with the edit, unread.
//!
//! Order: row and index files synced, directory synced, edit durable, view swapped, old files deleted once no reader is
//! left.
//!
//! Invariant: an index run takes part in one compaction at a time. Compactions of other runs of the same tablet, and
//! flushes on top of all, go on beside it.
//! Invariant: a rowset whose rows were moved has no entry left and goes with the edit that adds the new ones; a rowset
//! with an entry stays.
//! Invariant: an error leaves the inputs in force and removes the outputs. It never poisons: compaction can wait.

mod lanes;
mod move_rows;
mod notes;
mod pick;
mod sample;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use codec::{FileId, RowsetId, Version};
use pkindex::{Compaction, CompactionOptions, Outcome, Retention, Run};
use sstable::FileInfo;
use sync::Mutex;

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::events::{CompactionSummary, Event};
use crate::files::{FileKind, Outputs};
use crate::flush::{
    base_run_options, open_index_files, open_rowset, rowset_info, rowset_options, run_options, tell_files,
};
use crate::manifest::{Edit, RunDesc, TabletEdit};
use crate::options::{Compression, Options};
use crate::rowset::{Rowset, WrittenRowset};
use crate::tablet::{Tablet, live_counts};
use crate::view::TabletView;

use lanes::Lanes;
use move_rows::Moving;
use notes::{Noted, NotesAt};
use pick::{Policy, Work};
use shape::Shape;

pub(crate) use lanes::{Permits, Taken};
pub(crate) use notes::Compacting;
pub(crate) use pick::DEPTH_MAX_IDLE;
pub(crate) use sample::{KeySample, note_overwrites};
pub(crate) use shape::{depth_under, overlap_depth};

/// What is reason enough for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eagerness {
    /// What must be done, with others at work.
    Busy,
    /// What only tidies up, too.
    Idle,
    /// What must be done and reads no more than so many bytes.
    Below(u64),
}

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

/// A full disk backs off, so that trying again does not keep it full.
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

/// When to compact what, by the sizes of what flushes write.
fn policy(options: &Options) -> Policy {
    let mut policy = Policy::new(options.rowset_bytes);
    let memtable_bytes = options.memtable_seal_bytes() as u64;
    // About the index run of a full memtable.
    policy.index.tier_bytes = (memtable_bytes / 8).max(1);
    policy.index.upper_bytes_min = memtable_bytes / 2;
    policy.lanes = options.background_threads;
    if options.compression == Compression::None {
        // Nothing would come of it.
        policy.idle.raw_percent_max = 100;
    }
    policy
}

/// What to do next in a tablet that is in the state of `view`.
fn look(
    core: &Core,
    tablet: &Tablet,
    view: &TabletView,
    noted: &mut Noted,
    retention: &Retention,
    eagerness: Eagerness,
) -> Option<Work> {
    let is_idle = eagerness == Eagerness::Idle;
    if !noted.is_open() || noted.is_settled(&view.run_ids, is_idle) {
        return None;
    }
    let notes = NotesAt { noted, retention, now: core.clock.now(), with_jobs: true };
    let shape = Shape::of(view, &notes, tablet.compacting.overwrite_percent());
    let work = pick::pick(&shape, &policy(&core.options), is_idle);
    if work.is_none() && !shape.holds_old_versions() {
        noted.settle(&view.run_ids, is_idle);
    }
    work.filter(|work| match eagerness {
        Eagerness::Below(bytes) => work.bytes <= bytes,
        Eagerness::Busy | Eagerness::Idle => true,
    })
}

/// Looks at one tablet, and registers what there is to do.
fn claim_in(
    core: &Core,
    tablet: &Arc<Tablet>,
    retention: &Retention,
    eagerness: Eagerness,
) -> Option<CompactionJob> {
    if tablet.is_dropped() {
        return None;
    }
    let mut noted = tablet.compacting.lock();
    let view = tablet.view.pin();
    let work = look(core, tablet, &view, &mut noted, retention, eagerness)?;
    Some(register(tablet, view, &mut noted, work))
}

fn register(tablet: &Arc<Tablet>, view: Arc<TabletView>, noted: &mut Noted, work: Work) -> CompactionJob {
    let run_ids = view.run_ids[work.inputs.clone()].to_vec();
    noted.register(&run_ids);
    CompactionJob { tablet: Arc::clone(tablet), view, work, run_ids }
}

/// Takes the next compaction: the smallest that has to be, over all tablets; else one that tidies up, if that is wanted.
pub(crate) fn claim(core: &Core, eagerness: Eagerness) -> Option<CompactionJob> {
    if !core.health.is_healthy() || !core.backoff.is_over(core.clock.now()) {
        return None;
    }
    let retention = core.registry.retention();
    if eagerness == Eagerness::Idle {
        return claim_smallest(core, &retention, Eagerness::Busy)
            .or_else(|| claim_smallest(core, &retention, Eagerness::Idle));
    }
    claim_smallest(core, &retention, eagerness)
}

fn claim_smallest(core: &Core, retention: &Retention, eagerness: Eagerness) -> Option<CompactionJob> {
    loop {
        let smallest = core
            .catalog
            .all()
            .into_iter()
            .filter(|table| !table.tablet.is_dropped())
            .filter_map(|table| {
                let tablet = &table.tablet;
                let mut noted = tablet.compacting.lock();
                let view = tablet.view.pin();
                let work = look(core, tablet, &view, &mut noted, retention, eagerness)?;
                Some((work.bytes, Arc::clone(tablet)))
            })
            .min_by_key(|(bytes, _)| *bytes);
        let (_, tablet) = smallest?;
        // Others may have been faster; then there is something else, or nothing.
        if let Some(job) = claim_in(core, &tablet, retention, eagerness) {
            return Some(job);
        }
    }
}

/// How many tablets have a compaction that has to be and does not run yet.
pub(crate) fn due(core: &Core) -> usize {
    let retention = core.registry.retention();
    let is_due = |tablet: &Tablet| {
        let mut noted = tablet.compacting.lock();
        let view = tablet.view.pin();
        look(core, tablet, &view, &mut noted, &retention, Eagerness::Busy).is_some()
    };
    core.catalog.all().iter().filter(|table| is_due(&table.tablet)).count()
}

/// Finds out by how much these tablets are behind, and tells the backpressure about the worst of all.
pub(crate) fn note_debt<'a>(core: &Core, changed: impl IntoIterator<Item = &'a Arc<Tablet>>) {
    let retention = core.registry.retention();
    for tablet in changed {
        let noted = tablet.compacting.lock();
        let view = tablet.view.pin();
        let notes = NotesAt { noted: &noted, retention: &retention, now: core.clock.now(), with_jobs: false };
        let shape = Shape::of(&view, &notes, 0);
        tablet.compacting.set_debt(pick::debt(&shape, &policy(&core.options)));
    }
    let (mut runs, mut depth) = (0, 0);
    for table in core.catalog.all() {
        let debt = table.tablet.compacting.debt();
        runs = runs.max(debt.0);
        depth = depth.max(debt.1);
    }
    core.stall.set_debt(runs, depth);
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

/// How a view changes: the inputs go, the output takes their place, and the new rowsets come. Flushes may have put runs
/// on top meanwhile, and other compactions may have replaced runs above and below.
struct Change<'a> {
    job: &'a CompactionJob,
    run_id: u64,
    run: Option<Arc<Run>>,
    added: Vec<Arc<Rowset>>,
}

impl Change<'_> {
    /// The view after the change, with the rowsets that nothing points to any more still in it.
    fn apply(&self, view: &TabletView) -> TabletView {
        let inputs = self.job.run_ids.len();
        let at =
            view.run_ids.windows(inputs).position(|ids| ids == self.job.run_ids).unwrap_or_else(|| {
                panic!("tablet {}: only one compaction removes a run", self.job.tablet.id)
            });
        let mut runs = view.runs.clone();
        let mut run_ids = view.run_ids.clone();
        runs.splice(at..at + inputs, self.run.clone());
        run_ids.splice(at..at + inputs, self.run.as_ref().map(|_| self.run_id));
        TabletView {
            memtables: view.memtables.clone(),
            runs,
            run_ids,
            rowsets: Arc::new(view.rowsets.with(&[], self.added.iter().cloned())),
            flushed_through: view.flushed_through,
        }
    }

    /// The rowsets of a changed view that nothing points to.
    ///
    /// # Panics
    /// If a rowset whose rows were moved is not among them, or if an entry of the new run leads nowhere: what is in
    /// force is right still, and must stay.
    fn dead(&self, next: &TabletView) -> Vec<Arc<Rowset>> {
        let live: BTreeMap<RowsetId, u64> = live_counts(next);
        for moved in &self.job.work.moving {
            assert_eq!(live.get(moved), Some(&0), "no entry points into rowset {moved}, which was moved");
        }
        for file in self.run.iter().flat_map(|run| run.files()) {
            for (rowset, _) in &file.properties.per_rowset {
                assert!(next.rowsets.get(*rowset).is_some(), "rowset {rowset} is pointed to and there");
            }
        }
        next.rowsets.iter().filter(|rowset| live.get(&rowset.id()) == Some(&0)).cloned().collect()
    }
}

fn install(
    core: &Core,
    job: &CompactionJob,
    retention: &Retention,
    merged: &Merged,
) -> Result<CompactionSummary, Error> {
    core.files.sync_dir().inspect_err(|error| core.health.poison(error))?;
    let outcome = &merged.outcome;
    let files = output_files(outcome);
    let open = |rowset| open_rowset(&core.files, &core.cache, &rowset_info(rowset));
    let change = Change {
        job,
        run_id: core.files.next_id().0,
        run: open_output(core, outcome)?,
        added: merged.rowsets.iter().map(open).collect::<Result<_, _>>()?,
    };
    if let Some(run) = &change.run {
        job.tablet.compacting.note_run(change.run_id, retention, run.versions());
    }
    let dead = std::cell::RefCell::new(Vec::new());
    let installed = core.manifest.install(
        |state| {
            if !state.tablets.contains_key(&job.tablet.id) {
                return Ok(None);
            }
            // Under the manifest's lock no other edit changes the view: what is dead here is dead for good.
            *dead.borrow_mut() = change.dead(&change.apply(&job.tablet.view.pin()));
            Ok(Some(Edit {
                attested: Some(core.log.synced()),
                durable_through: Some(core.log.synced_version()),
                version_ceiling: core.commit.ceiling_to_raise(),
                tablets: vec![TabletEdit {
                    tablet: job.tablet.id,
                    removed_runs: job.run_ids.clone(),
                    added_runs: change
                        .run
                        .iter()
                        .map(|_| RunDesc { id: change.run_id, files: files.clone() })
                        .collect(),
                    added_rowsets: merged.rowsets.iter().map(rowset_info).collect(),
                    removed_rowsets: dead.borrow().iter().map(|rowset| rowset.id()).collect(),
                    ..TabletEdit::default()
                }],
                ..Edit::default()
            }))
        },
        |state| {
            core.commit.raise_ceiling(state.version_ceiling);
            let gone: Vec<RowsetId> = dead.borrow().iter().map(|rowset| rowset.id()).collect();
            // Before anybody sees them: another compaction may be done with them at once.
            tell_files(core, merged.outcome.files.iter().map(|file| &file.info), FileKind::Index);
            tell_files(core, merged.rowsets.iter().map(|rowset| &rowset.info), FileKind::Rows);
            job.tablet.view.replace(|view| {
                let next = change.apply(view);
                TabletView { rowsets: Arc::new(next.rowsets.with(&gone, [])), ..next }
            });
        },
    );
    let installed = installed.inspect_err(|error| core.health.fail(error))?;
    if installed.is_none() {
        return Err(Error::new(ErrorKind::NoSuchTable, "the table was dropped under its compaction"));
    }
    Ok(retire(core, job, merged, dead.take()))
}

/// What is left to do after the install. Returns what was done.
fn retire(core: &Core, job: &CompactionJob, merged: &Merged, dead: Vec<Arc<Rowset>>) -> CompactionSummary {
    let outcome = &merged.outcome;
    let inputs = &job.view.runs[job.work.inputs.clone()];
    let kept: Vec<FileId> = outcome.reused.iter().map(|file| file.info.id).collect();
    for file in inputs.iter().flat_map(|run| run.files()).filter(|file| !kept.contains(&file.info.id)) {
        core.files.retire_index(Arc::clone(file));
    }
    let gone: Vec<RowsetId> = dead.iter().map(|rowset| rowset.id()).collect();
    for rowset in dead {
        core.files.retire_rows(rowset);
    }
    job.tablet.compacting.forget(&job.run_ids, &gone);
    let stats = &outcome.stats;
    let summary = CompactionSummary {
        entries_in: stats.entries_in,
        entries_dropped: stats.entries_dropped,
        bytes_in: stats.bytes_in,
        bytes_out: stats.bytes_out,
        moved_rows: stats.entries_moved,
        moved_bytes: merged.rowsets.iter().map(|rowset| rowset.info.len).sum(),
        dropped_rowsets: gone.len() as u64,
    };
    core.counters.note_compaction(&summary);
    note_debt(core, [&job.tablet]);
    core.signals.housekeeping.set();
    summary
}

/// What a tablet held on disk when a caller asked for it to be compacted.
#[derive(Debug)]
struct Asked {
    rowsets: BTreeSet<RowsetId>,
    through: Version,
}

impl Asked {
    fn of(view: &TabletView) -> Asked {
        let rowsets = view.rowsets.iter().map(|rowset| rowset.id()).collect();
        Asked { rowsets, through: view.flushed_through }
    }

    /// Whether a job moves a rowset that stood then, or merges nothing that has come since. Each of the former leaves
    /// one less to move, and without anything new the latter come to an end.
    fn has(&self, job: &CompactionJob) -> bool {
        let mut inputs = job.view.runs[job.work.inputs.clone()].iter();
        job.work.moving.iter().any(|rowset| self.rowsets.contains(rowset))
            || inputs.all(|run| run.versions().1 <= self.through)
    }

    /// The next job, if there is one. However much is written meanwhile, at some time there is none.
    fn next(&self, core: &Core, tablet: &Arc<Tablet>) -> Option<CompactionJob> {
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

#[cfg(test)]
mod tests;
