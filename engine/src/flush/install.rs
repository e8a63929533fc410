//! Installs a flush: the files that the memtables of a job became come into force with one edit, and the memtables go.
//!
//! Order: files synced, directory synced, log synced through the last version flushed, edit durable, view swapped,
//! memory given back, old log segments deleted.
//!
//! Invariant: a job that fails leaves no file behind, unless its edit may be on disk.

use std::sync::Arc;

use pkindex::{Retention, Run};

use super::FlushJob;
use super::log_start::{delete_log_below, log_start_after, sync_log_start};
use super::write::{Flushed, flush_rowset_options, write_memtable};
use crate::compaction;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::events::FlushSummary;
use crate::files::FileKind;
use crate::manifest::{Edit, State, TabletEdit};
use crate::rowset::Rowset;
use crate::tablet::files::{open_rowset, open_run, rowset_info, tell_files};
use crate::tablet::{Tablet, Unflushed};
use crate::view::TabletView;

/// A memtable, and the files that are to take its place.
struct Ready<'a> {
    tablet: &'a Arc<Tablet>,
    slot: &'a Unflushed,
    flushed: Flushed,
    opened: Opened,
}

/// The files of a memtable, opened.
struct Opened {
    run: Option<Arc<Run>>,
    rowsets: Vec<Arc<Rowset>>,
}

/// Returns what came into force.
pub(super) fn write_and_install(core: &Core, job: &FlushJob) -> Result<FlushSummary, Error> {
    let retention = core.registry.retention();
    let ready = write_and_open(core, job, &retention).or_else(|first| {
        // Once more, under new numbers: a file that failed to sync is not trusted again, another may do.
        tracing::warn!(error = %first, "a flush is tried once more");
        write_and_open(core, job, &retention)
    })?;
    install(core, job, &retention, &ready)
}

/// Writes the files of a job and opens them. If anything fails, none is left.
fn write_and_open<'a>(
    core: &Core,
    job: &'a FlushJob,
    retention: &Retention,
) -> Result<Vec<Ready<'a>>, Error> {
    let written = write_all(core, job, retention)?;
    let opened = written.iter().map(|flushed| open(core, flushed)).collect::<Result<Vec<Opened>, Error>>();
    match opened {
        Ok(opened) => {
            let parts = job.memtables.iter().zip(written).zip(opened);
            Ok(parts
                .map(|(((tablet, slot), flushed), opened)| Ready { tablet, slot, flushed, opened })
                .collect())
        }
        Err(error) => {
            discard(core, &written);
            Err(error)
        }
    }
}

fn write_all(core: &Core, job: &FlushJob, retention: &Retention) -> Result<Vec<Flushed>, Error> {
    let mut written: Vec<Flushed> = Vec::with_capacity(job.memtables.len());
    for (tablet, slot) in &job.memtables {
        let rows = flush_rowset_options(&core.options, tablet, &slot.memtable);
        let (files, options) = (&core.files, &core.options);
        match write_memtable(files, options, &tablet.owner(), rows, &slot.memtable, retention) {
            Ok(flushed) => written.push(flushed),
            Err(error) => {
                discard(core, &written);
                return Err(error);
            }
        }
    }
    Ok(written)
}

fn open(core: &Core, flushed: &Flushed) -> Result<Opened, Error> {
    let infos = flushed.index_infos();
    let run = if infos.is_empty() { None } else { Some(open_run(&core.files, &core.cache, &infos)?) };
    let rowsets = flushed
        .rowsets
        .iter()
        .map(|rowset| open_rowset(&core.files, &core.cache, &rowset_info(rowset)))
        .collect::<Result<_, _>>()?;
    Ok(Opened { run, rowsets })
}

/// Removes what will not be installed.
fn discard<'a>(core: &Core, written: impl IntoIterator<Item = &'a Flushed>) {
    for flushed in written {
        flushed.discard(&core.files);
    }
}

fn install(
    core: &Core,
    job: &FlushJob,
    retention: &Retention,
    ready: &[Ready<'_>],
) -> Result<FlushSummary, Error> {
    let discard_all = || discard(core, ready.iter().map(|part| &part.flushed));
    if let Err(error) = sync(core, job) {
        // A failed sync of the directory or the log leaves open what is on disk.
        discard_all();
        core.health.poison(&error);
        return Err(error);
    }
    let log_start = log_start_after(core, job);
    sync_log_start(core, log_start)?;
    for part in ready {
        if let Some(run) = &part.opened.run {
            part.tablet.compacting.note_run(part.flushed.run_id, retention, run.versions());
        }
    }
    let installed = core.manifest.install(
        |state| {
            Ok(Some(Edit {
                // Housekeeping may have gone further meanwhile: what it deleted must not be named again.
                log_start: Some(log_start.max(state.log_start)),
                attested: Some(core.log.synced()),
                durable_through: Some(core.log.synced_version()),
                version_ceiling: core.commit.ceiling_to_raise(),
                tablets: tablet_edits(ready, state),
                ..Edit::default()
            }))
        },
        |state| {
            core.commit.raise_ceiling(state.version_ceiling);
            publish_named(core, ready, state)
        },
    );
    let are_named = match installed {
        Ok(are_named) => are_named.expect("the edit is always made"),
        Err(error) => {
            // For lack of space or of descriptors the edit never was; after any other failure it may be on disk, and
            // its files are kept.
            if error.kind() == ErrorKind::NoSpace || error.is_transient() {
                discard_all();
            }
            return Err(error);
        }
    };
    let summary = forget_memtables(core, ready, &are_named);
    delete_log_below(core, log_start);
    for part in ready {
        compaction::note_overwrites(part.tablet, &part.flushed.sample);
    }
    compaction::note_debt(core, ready.iter().map(|part| part.tablet));
    core.signals.compaction.set();
    Ok(summary)
}

/// Makes durable what the edit will rely on.
fn sync(core: &Core, job: &FlushJob) -> Result<(), Error> {
    core.files.sync_dir()?;
    let log_end = job.memtables.iter().map(|(_, slot)| slot.log_end).max().expect("a job has memtables");
    Ok(core.log.sync(log_end)?)
}

/// A tablet may be gone by now. One whose drop has only begun is still there: its files are named, and it is for the
/// drop to retire them, or for the table to go on with them if the drop fails.
fn tablet_edits(ready: &[Ready<'_>], state: &State) -> Vec<TabletEdit> {
    ready
        .iter()
        .filter(|part| state.tablets.contains_key(&part.tablet.id))
        .map(|part| part.flushed.edit(part.tablet.id))
        .collect()
}

/// Publishes what the edit in force names; says which parts those are.
fn publish_named(core: &Core, ready: &[Ready<'_>], state: &State) -> Vec<bool> {
    let publish = |part: &Ready<'_>| {
        let is_named = state.tablets.contains_key(&part.tablet.id);
        if is_named {
            // Before anybody sees them: a compaction may be done with them at once.
            tell_files(&core.events, part.flushed.index.iter().map(|file| &file.info), FileKind::Index);
            tell_files(&core.events, part.flushed.rowsets.iter().map(|rowset| &rowset.info), FileKind::Rows);
            publish(part);
        }
        is_named
    };
    ready.iter().map(publish).collect()
}

/// Swaps the view: the memtable goes, its run and rowsets come.
fn publish(part: &Ready<'_>) {
    let Ready { tablet, slot, flushed, opened } = part;
    tablet.view.replace(|view| {
        let mut runs = view.runs.clone();
        let mut run_ids = view.run_ids.clone();
        if let Some(run) = &opened.run {
            runs.insert(0, Arc::clone(run));
            run_ids.insert(0, flushed.run_id);
        }
        TabletView {
            memtables: view
                .memtables
                .iter()
                .filter(|kept| !Arc::ptr_eq(kept, &slot.memtable))
                .cloned()
                .collect(),
            runs,
            run_ids,
            rowsets: Arc::new(view.rowsets.with(&[], opened.rowsets.iter().cloned())),
            flushed_through: flushed.through.max(view.flushed_through),
        }
    });
}

/// Gives the memory back, and removes the files that were not named. Returns what came into force.
fn forget_memtables(core: &Core, ready: &[Ready<'_>], are_named: &[bool]) -> FlushSummary {
    core.counters.flushes.add(1);
    let mut summary = FlushSummary::default();
    for (part, is_named) in ready.iter().zip(are_named) {
        core.stall.shrink(part.tablet.forget_flushed(&part.slot.memtable));
        core.counters.flushed_bytes.add(part.flushed.bytes());
        if *is_named {
            summary.files += part.flushed.files();
            summary.bytes += part.flushed.bytes();
        } else {
            part.flushed.discard(&core.files);
        }
    }
    summary
}
