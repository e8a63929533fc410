//! What the directory holds, by kind.
//!
//! Owns the way from a listing of the directory to what each file is for. Opens no file.
//!
//! Invariant: each file is counted once, so the parts add up to what the directory holds.

use std::collections::BTreeSet;

use codec::FileId;

use crate::core::Core;
use crate::error::Error;
use crate::files::{CURRENT, CURRENT_TEMPORARY, FileKind, LOCK, parse_name};

/// The bytes of all files in the directory of a database, by what they are for. The lengths are those of the files: a
/// segment of the log counts with what is preallocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskUsage {
    /// Index runs in force.
    pub index_bytes: u64,
    /// Rowsets in force.
    pub row_bytes: u64,
    /// The log, the segment prepared for later included.
    pub log_bytes: u64,
    /// The manifest, and the file that names it.
    pub manifest_bytes: u64,
    /// What has left the view and goes with its last reader, log segments and manifests included; and what could not be
    /// deleted, and goes with the next open.
    pub obsolete_bytes: u64,
    /// Index runs and rowsets that a flush or a compaction writes now. Of an engine that is
    /// [open for reading only](crate::Engine::open_read_only): those that were not in force, whatever the reason.
    pub unfinished_bytes: u64,
    /// What recoveries saved of torn logs, and files that are none of ours.
    pub other_bytes: u64,
    /// How many files there are.
    pub files: u64,
}

impl DiskUsage {
    /// All of it.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.index_bytes
            + self.row_bytes
            + self.log_bytes
            + self.manifest_bytes
            + self.obsolete_bytes
            + self.unfinished_bytes
            + self.other_bytes
    }

    /// Lists the directory.
    pub(crate) fn of(core: &Core) -> Result<DiskUsage, Error> {
        let mut gone = core.files.obsolete();
        let before = in_force(core);
        let listed = core.files.fs.list(&core.files.dir);
        let listed = listed.map_err(|error| Error::io("listing the directory", error))?;
        // Asked again: what came into force while it was listed is none that is being written, and neither is what has
        // left.
        let in_force = in_force(core);
        gone.extend(core.files.obsolete());
        gone.extend(before.difference(&in_force));
        // Of another process's obsolete files only the order of numbers tells.
        let needed_from = if core.health.is_read_only() { needed_from(core) } else { NeededFrom::default() };
        let mut usage = DiskUsage::default();
        for entry in listed.iter().filter(|entry| entry.is_file) {
            usage.files += 1;
            let name = entry.name.to_str();
            let part = match name.and_then(parse_name) {
                Some(file) if gone.contains(&file) => &mut usage.obsolete_bytes,
                Some((id, FileKind::Log)) if id < needed_from.log => &mut usage.obsolete_bytes,
                Some((id, FileKind::Manifest)) if id < needed_from.manifest => &mut usage.obsolete_bytes,
                Some((_, FileKind::Log)) => &mut usage.log_bytes,
                Some((_, FileKind::Manifest)) => &mut usage.manifest_bytes,
                Some(file @ (_, FileKind::Index)) if in_force.contains(&file) => &mut usage.index_bytes,
                Some(file @ (_, FileKind::Rows)) if in_force.contains(&file) => &mut usage.row_bytes,
                Some((_, FileKind::Index | FileKind::Rows)) => &mut usage.unfinished_bytes,
                None if matches!(name, Some(CURRENT | CURRENT_TEMPORARY | LOCK)) => &mut usage.manifest_bytes,
                None => &mut usage.other_bytes,
            };
            *part += entry.len;
        }
        Ok(usage)
    }
}

/// The first segments that are needed.
#[derive(Default)]
struct NeededFrom {
    log: FileId,
    manifest: FileId,
}

fn needed_from(core: &Core) -> NeededFrom {
    let log = core.log.segments().first().map(|segment| segment.id);
    let manifest = core.manifest.segments().first().copied();
    NeededFrom { log: log.unwrap_or_default(), manifest: manifest.unwrap_or_default() }
}

/// The index files and rowsets of all tables.
fn in_force(core: &Core) -> BTreeSet<(FileId, FileKind)> {
    let mut files = BTreeSet::new();
    for table in core.catalog.all() {
        let view = table.tablet.view.pin();
        let index = view.runs.iter().flat_map(|run| run.files());
        files.extend(index.map(|file| (file.info.id, FileKind::Index)));
        files.extend(view.rowsets.iter().map(|rowset| (rowset.id().into(), FileKind::Rows)));
    }
    files
}
