//! Where the log has to start: which of its segments memtables need, and the deletion of those that none does.
//!
//! Invariant: the manifest names a later start before a segment is deleted.
//! Invariant: the segment that the manifest names is on disk, with its header and its name; or it names a later one
//! already.
//!
//! Lock order: the commit's stage is held to look, and given back before the manifest's lock is taken.

use std::sync::Arc;

use codec::FileId;

use super::FlushJob;
use crate::catalog::TableCore;
use crate::core::Core;
use crate::error::Error;
use crate::files::FileKind;
use crate::manifest::Edit;
use crate::memtable::Memtable;

/// The first log segment that is needed once the job is installed. Looked up in the stage, between groups: else a
/// group could be in the log and not yet noted by its memtable.
pub(super) fn log_start_after(core: &Core, job: &FlushJob) -> FileId {
    let _stage = core.commit.stage();
    let mut start = core.log.end().segment;
    for table in core.catalog.all() {
        let flushing = |memtable: &Arc<Memtable>| {
            job.memtables.iter().any(|(_, slot)| Arc::ptr_eq(&slot.memtable, memtable))
        };
        if let Some(first) = table.tablet.log_first_without(flushing) {
            start = start.min(first);
        }
    }
    start
}

/// The segment that the manifest will name as the start of the log must be on disk, with its header and its name. If
/// it is gone, the manifest names a later start already.
pub(super) fn sync_log_start(core: &Core, start: FileId) -> Result<(), Error> {
    let segment = core.log.segments().into_iter().find(|segment| segment.id == start);
    let Some(segment) = segment else { return Ok(()) };
    core.log.sync(segment.start()).map_err(|error| {
        let error = Error::from(error);
        core.health.poison(&error);
        error
    })
}

/// Deletes the log segments below `start`, which the manifest does not need any more.
pub(super) fn delete_log_below(core: &Core, start: FileId) {
    let old: Vec<FileId> =
        core.log.segments().into_iter().map(|segment| segment.id).filter(|id| *id < start).collect();
    if old.is_empty() {
        return;
    }
    core.log.forget_below(start);
    for id in old {
        core.files.retire_unnamed(id, FileKind::Log);
    }
    core.signals.housekeeping.set();
}

/// Seals every memtable that keeps a segment below `keep` alive.
pub(crate) fn seal_older_than(core: &Core, keep: FileId) {
    let _stage = core.commit.stage();
    for table in core.catalog.all() {
        if table.tablet.memory().active_log_first.is_some_and(|first| first < keep) {
            table.tablet.seal();
        }
    }
    core.signals.flush.set();
}

/// Deletes log segments that no memtable needs, although no flush came by to say so.
pub(crate) fn drop_unneeded_log(core: &Core) -> Result<(), Error> {
    let start = {
        let _stage = core.commit.stage();
        let end = core.log.end().segment;
        let first = |table: Arc<TableCore>| table.tablet.log_first_without(|_| false);
        core.catalog.all().into_iter().filter_map(first).min().map_or(end, |first| first.min(end))
    };
    start_log_at(core, start)
}

/// Makes `start` the start of the log, unless a flush has gone further since it was looked up.
pub(super) fn start_log_at(core: &Core, start: FileId) -> Result<(), Error> {
    if core.manifest.with_state(|state| state.log_start >= start) {
        return Ok(());
    }
    let installed = sync_log_start(core, start).and_then(|()| {
        core.manifest.install(
            |state| {
                // What was committed to the segments that go is durable, and nothing else may say so any more.
                let durable_through = Some(core.log.synced_version());
                let edit = Edit { log_start: Some(start), durable_through, ..Edit::default() };
                Ok((state.log_start < start).then_some(edit))
            },
            |_| (),
        )
    });
    match installed {
        Ok(Some(())) => delete_log_below(core, start),
        Ok(None) => {}
        Err(error) => {
            core.health.fail(&error);
            return Err(error);
        }
    }
    Ok(())
}
