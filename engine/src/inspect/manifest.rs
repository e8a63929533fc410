//! What is in one segment of a manifest: edits, and gaps where something cannot be read.

use std::ops::ControlFlow;
use std::path::Path;

use codec::{FileId, TableId, Version};
use wal::Piece;

use super::log::{Gap, must_be_there};
use super::{InspectedTable, Place};
use crate::error::Result;
use crate::files::FileKind;
use crate::manifest::{Edit, TabletEdit, log_options};
use crate::options::Options;
use crate::recovery::hold_segment;
use crate::schema::Schema;

/// A part of a manifest segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestPiece {
    /// An edit that is whole.
    Edit(ManifestEdit),
    /// Bytes that are none.
    Gap(Gap),
}

/// A change of what is on the disk. What it does not say stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestEdit {
    /// Where its record begins, in bytes.
    pub offset: u64,
    /// The first segment of the log that is needed.
    pub log_start: Option<u64>,
    /// The number that the next file gets, at least.
    pub next_file: Option<u64>,
    /// No version above this has been given out.
    pub version_ceiling: Option<Version>,
    /// The last version that is known to be durable.
    pub durable_through: Option<Version>,
    /// Up to where the log is known to be whole: segment and byte.
    pub attested: Option<(u64, u64)>,
    /// Tables that were made or changed.
    pub tables: Vec<InspectedTable>,
    /// The ids of tables that were dropped.
    pub dropped_tables: Vec<u32>,
    /// What became of the files of tablets.
    pub tablets: Vec<TabletChange>,
}

/// What an edit changes in one tablet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TabletChange {
    /// Its id.
    pub tablet: u32,
    /// Everything up to this version is in its files.
    pub flushed_through: Option<Version>,
    /// Index runs that come: the id of each, and the numbers of its files.
    pub added_runs: Vec<(u64, Vec<u64>)>,
    /// The ids of index runs that go.
    pub removed_runs: Vec<u64>,
    /// The numbers of rowsets that come.
    pub added_rowsets: Vec<u64>,
    /// The numbers of rowsets that go.
    pub removed_rowsets: Vec<u64>,
}

/// Reads a manifest segment, `17.manifest`, and gives its pieces in order, until `visit` breaks off. Of a segment
/// that is being written it gives what was there at the call.
///
/// # Errors
/// `InvalidArgument` if the file is not named so; `Corruption` for a record that is whole and no edit;
/// `UnsupportedFormat`, `Io`.
pub fn read_manifest(
    path: impl AsRef<Path>,
    options: &Options,
    mut visit: impl FnMut(ManifestPiece) -> ControlFlow<()>,
) -> Result<()> {
    let place = Place::of(path.as_ref(), FileKind::Manifest)?;
    must_be_there(options, path.as_ref())?;
    let fs = hold_segment(&options.fs, &place.dir, place.id, FileKind::Manifest);
    let mut flow = Ok(ControlFlow::Continue(()));
    wal::salvage(&log_options(&fs, &place.dir), &[place.id], &mut |piece| {
        if matches!(flow, Ok(ControlFlow::Continue(()))) {
            let piece = match piece {
                Piece::Record(record) => edit(record.position.offset, record.body).map(ManifestPiece::Edit),
                Piece::Gap(gap) => Ok(ManifestPiece::Gap(gap.into())),
            };
            flow = piece.map(&mut visit);
        }
    })?;
    flow.map(drop)
}

fn edit(offset: u64, body: &[u8]) -> Result<ManifestEdit> {
    let edit = Edit::decode(body)?;
    let number = |id: FileId| id.0;
    let tables = edit.tables.iter().map(|table| {
        Ok(InspectedTable {
            id: table.id.0,
            name: table.name.clone(),
            schema: Schema::decode(&table.schema)?,
        })
    });
    Ok(ManifestEdit {
        offset,
        log_start: edit.log_start.map(number),
        next_file: edit.next_file.map(number),
        version_ceiling: edit.version_ceiling,
        durable_through: edit.durable_through,
        attested: edit.attested.map(|at| (at.segment.0, at.offset)),
        tables: tables.collect::<Result<_>>()?,
        dropped_tables: edit.dropped_tables.iter().map(|TableId(id)| *id).collect(),
        tablets: edit.tablets.iter().map(change).collect(),
    })
}

fn change(edit: &TabletEdit) -> TabletChange {
    TabletChange {
        tablet: edit.tablet.0,
        flushed_through: edit.flushed_through,
        added_runs: edit
            .added_runs
            .iter()
            .map(|run| (run.id, run.files.iter().map(|file| file.id.0).collect()))
            .collect(),
        removed_runs: edit.removed_runs.clone(),
        added_rowsets: edit.added_rowsets.iter().map(|info| info.id.0).collect(),
        removed_rowsets: edit.removed_rowsets.iter().map(|id| u64::from(id.0)).collect(),
    }
}
