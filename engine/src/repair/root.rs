//! Learns which tables and files there are.
//!
//! The manifest in force, if it can be read whole. Otherwise the readable beginning of it, or the newest one that there
//! is; then the files in the directory are taken as well, since what was written later is named nowhere.
//!
//! Invariant: edits behind a damaged one are not applied. Of them only tables that were made, altered, renamed or
//! dropped are taken, and which numbers of files they know of, which depend on nothing before them.

use codec::FileId;

use super::report::{Loss, LossKind, RepairReport, RepairSource};
use super::{Patient, VERSION_MAX};
use crate::error::{Error, ErrorKind};
use crate::files::{CURRENT, FileKind, file_name};
use crate::manifest::{self, Edit, State};

/// What is known of tables and files.
pub(super) struct Root {
    pub(super) state: State,
    /// Whether the state is the one in force: then nothing else belongs to the database.
    pub(super) is_whole: bool,
}

impl Root {
    /// Why the manifest, which can be read whole, is nevertheless not all there was, as far as the directory shows:
    /// something that it names is gone, and there are files that it never knew of.
    pub(super) fn lost_edits(&self, patient: &Patient<'_>) -> Option<String> {
        let is_newer = |id: &FileId| *id >= self.state.next_file;
        let of = |kind| patient.listing.of(kind).into_iter().find(is_newer).map(|id| file_name(id, kind));
        let newer = of(FileKind::Index).or_else(|| of(FileKind::Rows))?;
        let mut named = self.state.files().map(|(kind, info)| (info.id, kind));
        let gone = named
            .find(|(id, kind)| !patient.listing.has(*id, *kind))
            .or_else(|| {
                let log_start = (self.state.log_start, FileKind::Log);
                (!patient.listing.has(log_start.0, log_start.1)).then_some(log_start)
            })
            .map(|(id, kind)| file_name(id, kind))?;
        Some(format!("it has lost edits: it names {gone}, which is gone, and does not know of {newer}"))
    }

    /// Goes on without relying on the manifest.
    pub(super) fn distrust(&mut self, why: String, report: &mut RepairReport) {
        self.is_whole = false;
        report.source = RepairSource::PartOfManifest;
        report.lose(Loss::new(LossKind::Manifest, why));
    }
}

/// Learns it.
///
/// # Errors
/// `UnsupportedFormat`: what a newer version wrote is not touched.
pub(super) fn learn(patient: &Patient<'_>, report: &mut RepairReport) -> Result<Root, Error> {
    let present = patient.listing.of(FileKind::Manifest);
    let current = match manifest::read_current(&**patient.fs(), patient.dir) {
        Err(error) if error.kind() == ErrorKind::UnsupportedFormat => return Err(error),
        Ok(Some(current)) => Some(current),
        Ok(None) => {
            report.note(format!("{CURRENT} is missing; the newest manifest is taken"));
            None
        }
        Err(error) => {
            report.note(format!("{error}; the newest manifest is taken"));
            None
        }
    };
    match whole(patient, current, &present)? {
        Ok(state) => {
            report.source = RepairSource::Manifest;
            Ok(Root { state, is_whole: true })
        }
        Err(why) => in_part(patient, current, &present, &why, report),
    }
}

/// The manifest in force, or why it cannot be read.
fn whole(
    patient: &Patient<'_>,
    current: Option<FileId>,
    present: &[FileId],
) -> Result<Result<State, String>, Error> {
    let load = |id| match manifest::load(patient.fs(), patient.dir, id, present) {
        Err(error) if error.kind() == ErrorKind::UnsupportedFormat => Err(error),
        Err(error) => Ok(Err(error.to_string())),
        Ok(state) => Ok(Ok(state)),
    };
    if let Some(current) = current {
        return load(current);
    }
    let mut newest_first = present.to_vec();
    newest_first.sort_unstable_by(|a, b| b.cmp(a));
    for id in newest_first {
        match manifest::begins_at(patient.fs(), patient.dir, id) {
            // The making of this one was interrupted, or another one goes on here.
            Ok(manifest::Beginning::Empty | manifest::Beginning::Later) => {}
            Ok(manifest::Beginning::Complete) => return load(id),
            Err(error) if error.kind() == ErrorKind::UnsupportedFormat => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        }
    }
    Ok(Err("there is no manifest".to_owned()))
}

/// What the readable edits add up to.
#[derive(Default)]
struct Pieces {
    state: Option<State>,
    /// The segment that the state begins in.
    begins: FileId,
    /// Set from a damaged place on.
    is_broken: bool,
    gaps: Vec<wal::Gap>,
    failed: Option<String>,
}

impl Pieces {
    fn take(&mut self, record: &wal::ReplayRecord<'_>) {
        let edit = match Edit::decode(record.body) {
            Ok(edit) => edit,
            Err(error) => {
                self.is_broken = true;
                self.failed = Some(error.to_string());
                return;
            }
        };
        if edit.is_complete() {
            let mut state = State::default();
            if state.apply(&edit).is_ok() {
                *self = Pieces { state: Some(state), begins: record.position.segment, ..Pieces::default() };
                return;
            }
        }
        let Some(state) = &mut self.state else { return };
        if !self.is_broken {
            if let Err(error) = state.apply(&edit) {
                self.is_broken = true;
                self.failed = Some(error.to_string());
            }
            return;
        }
        state.next_file = state.next_file.max(edit.next_file.unwrap_or_default());
        for table in &edit.tables {
            for &tablet in &table.tablets {
                state.tablets.entry(tablet).or_default();
            }
            state.tables.insert(table.id, table.clone());
        }
        for id in &edit.dropped_tables {
            if let Some(table) = state.tables.remove(id) {
                for tablet in &table.tablets {
                    state.tablets.remove(tablet);
                }
            }
        }
    }
}

fn in_part(
    patient: &Patient<'_>,
    current: Option<FileId>,
    present: &[FileId],
    why: &str,
    report: &mut RepairReport,
) -> Result<Root, Error> {
    let read = |segments: &[FileId]| {
        let mut pieces = Pieces::default();
        let options = manifest::log_options(patient.fs(), patient.dir);
        wal::salvage(&options, segments, &mut |piece| match piece {
            wal::Piece::Record(record) => pieces.take(&record),
            wal::Piece::Gap(gap) => {
                pieces.is_broken |= gap.hides_records;
                pieces.gaps.push(gap);
            }
        })
        .map(|()| pieces)
    };
    // What comes before the one in force is older; look at it only if that gives nothing.
    let from = current.unwrap_or_default();
    let in_force: Vec<FileId> = present.iter().copied().filter(|id| *id >= from).collect();
    let mut pieces = read(&in_force)?;
    report.source = RepairSource::PartOfManifest;
    if pieces.state.is_none() {
        pieces = read(present)?;
        report.source = RepairSource::OlderManifest;
    }
    let mut loss = Loss::new(LossKind::Manifest, why);
    if let Some(gap) = pieces.gaps.first() {
        loss = loss.in_file(file_name(gap.at.segment, FileKind::Manifest));
        (loss.offset, loss.bytes) = (Some(gap.at.offset), Some(gap.bytes));
    }
    if let Some(failed) = &pieces.failed {
        loss.why = format!("{}; {failed}", loss.why);
    }
    let state = match pieces.state {
        Some(state) => state,
        None => {
            report.source = RepairSource::Files;
            State::default()
        }
    };
    if report.source == RepairSource::OlderManifest {
        let name = file_name(pieces.begins, FileKind::Manifest);
        report.note(format!("{name}, an older one, is taken in its place"));
    }
    report.lose(loss);
    let mut root = Root { state, is_whole: false };
    // Nobody has checked what these edits add up to.
    root.state.version_ceiling = root.state.version_ceiling.min(VERSION_MAX);
    Ok(root)
}
