//! Installs a compaction: one edit takes the inputs away and brings what was written.
//!
//! Order: directory synced, edit durable, view swapped, old files deleted once no reader is left.
//!
//! Invariant: a rowset whose rows were moved has no entry left and goes with the edit that adds the new ones; a rowset
//! with an entry stays.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{FileId, RowsetId};
use pkindex::{Outcome, Retention, Run};
use sstable::FileInfo;

use super::claim::note_debt;
use super::{CompactionJob, Merged};
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::events::CompactionSummary;
use crate::files::FileKind;
use crate::manifest::{Edit, RunDesc, TabletEdit};
use crate::rowset::Rowset;
use crate::tablet::files::{open_index_files, open_rowset, rowset_info, tell_files};
use crate::tablet::live_counts;
use crate::view::TabletView;

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

    /// What the manifest is told of it.
    fn edit(&self, merged: &Merged, dead: &[Arc<Rowset>]) -> TabletEdit {
        let run = self.run.iter().map(|_| RunDesc { id: self.run_id, files: output_files(&merged.outcome) });
        TabletEdit {
            tablet: self.job.tablet.id,
            removed_runs: self.job.run_ids.clone(),
            added_runs: run.collect(),
            added_rowsets: merged.rowsets.iter().map(rowset_info).collect(),
            removed_rowsets: dead.iter().map(|rowset| rowset.id()).collect(),
            ..TabletEdit::default()
        }
    }
}

pub(super) fn install(
    core: &Core,
    job: &CompactionJob,
    retention: &Retention,
    merged: &Merged,
) -> Result<CompactionSummary, Error> {
    core.files.sync_dir().inspect_err(|error| core.health.poison(error))?;
    let open = |rowset| open_rowset(&core.files, &core.cache, &rowset_info(rowset));
    let change = Change {
        job,
        run_id: core.files.next_id().0,
        run: open_output(core, &merged.outcome)?,
        added: merged.rowsets.iter().map(open).collect::<Result<_, _>>()?,
    };
    if let Some(run) = &change.run {
        job.tablet.compacting.note_run(change.run_id, retention, run.versions());
    }
    let dead = RefCell::new(Vec::new());
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
                tablets: vec![change.edit(merged, &dead.borrow())],
                ..Edit::default()
            }))
        },
        |state| {
            core.commit.raise_ceiling(state.version_ceiling);
            let gone: Vec<RowsetId> = dead.borrow().iter().map(|rowset| rowset.id()).collect();
            // Before anybody sees them: another compaction may be done with them at once.
            tell_files(&core.events, merged.outcome.files.iter().map(|file| &file.info), FileKind::Index);
            tell_files(&core.events, merged.rowsets.iter().map(|rowset| &rowset.info), FileKind::Rows);
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
