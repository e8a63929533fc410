//! Checks the root: `CURRENT`, the manifest, the files that it names, and that what is in force is what it says.
//!
//! All of it under the manifest's lock, so that no edit comes in between: the manifest is small, and only flushes,
//! compactions and the making of tables wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use codec::{FileId, TableId};
use sstable::FileInfo;
use wal::ReplayRecord;

use super::report::{CheckReport, Findings, ProblemKind};
use crate::catalog::TableCore;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::files::{CURRENT_TEMPORARY, FileKind, file_name, parse_name};
use crate::manifest::{self, Edit, Owner, State, TabletState};
use crate::schema::Schema;

/// Checks the root of what is on disk.
pub(super) fn check(core: &Core, report: &mut CheckReport) -> Result<(), Error> {
    core.manifest.inspect(|state, options, segments| {
        check_current(core, segments, &mut Findings::new(report))?;
        check_manifest(state, options, segments, &mut Findings::new(report))?;
        check_state(core, state, &mut Findings::new(report));
        check_files(core, state, segments, report)?;
        let tables = core.catalog.all();
        let named: BTreeMap<TableId, &str> =
            state.tables.values().map(|table| (table.id, table.name.as_str())).collect();
        let open: BTreeMap<TableId, &str> =
            tables.iter().map(|table| (table.id, table.name.as_str())).collect();
        Findings::new(report).equal(ProblemKind::Manifest, None, "the tables", &named, &open);
        for table in &tables {
            check_table(state, table, &mut Findings::of(report, &table.name));
        }
        Ok(())
    })
}

fn check_current(core: &Core, segments: &[(FileId, u64)], findings: &mut Findings<'_>) -> Result<(), Error> {
    let first = segments.first().map(|(id, _)| *id);
    match manifest::read_current(&*core.files.fs, &core.files.dir) {
        Ok(Some(current)) if Some(current) == first => {}
        // A change of it that failed half-way may have come to be nevertheless. A reopen will see.
        Ok(Some(_)) if core.health.is_poisoned() => {}
        Ok(Some(current)) => {
            let expected = first.unwrap_or_default();
            let what = "the manifest that CURRENT names";
            findings.differs(ProblemKind::Current, None, what, expected, current);
        }
        Ok(None) => findings.found(ProblemKind::Current, None, "CURRENT is missing"),
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        Err(error) => findings.found(ProblemKind::Current, None, error),
    }
    Ok(())
}

/// The edits on disk add up to the state in force.
fn check_manifest(
    state: &State,
    options: &wal::Options,
    segments: &[(FileId, u64)],
    findings: &mut Findings<'_>,
) -> Result<(), Error> {
    let file = segments.first().map(|(id, _)| *id);
    let mut edits = Edits::default();
    findings.report.bytes += wal::verify(options, segments, &mut edits)?;
    findings.report.edits += edits.count;
    for error in &edits.damaged {
        findings.log(ProblemKind::Manifest, error);
    }
    if let Some(error) = edits.failed {
        findings.found(ProblemKind::Manifest, file, error);
    } else if edits.damaged.is_empty() && edits.state != *state {
        let what = "its edits add up to something else than is in force";
        findings.found(ProblemKind::Manifest, file, what);
    }
    Ok(())
}

#[derive(Default)]
struct Edits {
    state: State,
    count: u64,
    damaged: Vec<wal::Error>,
    failed: Option<Error>,
}

impl wal::Verifier for Edits {
    fn record(&mut self, record: ReplayRecord<'_>) {
        self.count += 1;
        if self.failed.is_none() {
            let applied = Edit::decode(record.body).and_then(|edit| self.state.apply(&edit));
            self.failed =
                applied.err().map(|error| error.context(format_args!("the edit at {}", record.position)));
        }
    }

    fn found(&mut self, _: FileId, error: wal::Error) {
        self.damaged.push(error);
    }
}

/// What the state says must not contradict itself, nor what is in force.
fn check_state(core: &Core, state: &State, findings: &mut Findings<'_>) {
    for what in state.contradictions() {
        findings.found(ProblemKind::Manifest, None, what);
    }
    let visible = core.registry.visible();
    if state.version_ceiling < visible {
        let what = "the version ceiling, at least the visible version";
        findings.differs(ProblemKind::Manifest, None, what, visible, state.version_ceiling);
    }
    let first = core.log.segments().first().map(|segment| segment.id);
    if first.is_none_or(|first| first > state.log_start) {
        let what = format_args!("the log should start with segment {}, and starts later", state.log_start);
        findings.found(ProblemKind::Log, first, what);
    }
}

/// Every file that is named is there, with its length; what else there is of ours is told of.
fn check_files(
    core: &Core,
    state: &State,
    segments: &[(FileId, u64)],
    report: &mut CheckReport,
) -> Result<(), Error> {
    let dir = &core.files.dir;
    let entries = core
        .files
        .fs
        .list(dir)
        .map_err(|error| Error::io(format_args!("listing {}", dir.display()), error))?;
    let found: BTreeMap<&str, u64> = entries
        .iter()
        .filter(|entry| entry.is_file)
        .filter_map(|entry| Some((entry.name.to_str()?, entry.len)))
        .collect();
    let mut named: BTreeSet<(FileId, FileKind)> =
        segments.iter().map(|&(id, _)| (id, FileKind::Manifest)).collect();
    named.extend(core.log.segments().iter().map(|segment| (segment.id, FileKind::Log)));
    let mut findings = Findings::new(report);
    for (kind, info) in state.files() {
        // A file may lie in two runs' descriptions only while it moves whole; one look is enough.
        if named.insert((info.id, kind)) {
            check_file(kind, info, &found, &mut findings);
        }
    }
    for name in found.keys() {
        let is_extra = match parse_name(name) {
            Some((id, kind)) => !named.contains(&(id, kind)) && core.files.is_leftover(id, kind),
            None => *name == CURRENT_TEMPORARY,
        };
        if is_extra {
            report.extra_files.push((*name).to_owned());
        }
    }
    Ok(())
}

fn check_file(kind: FileKind, info: &FileInfo, found: &BTreeMap<&str, u64>, findings: &mut Findings<'_>) {
    let name = file_name(info.id, kind);
    match found.get(name.as_str()) {
        None => {
            let what = format_args!("{name}, which the manifest names, is missing");
            findings.found(ProblemKind::MissingFile, Some(info.id), what);
        }
        Some(len) if *len != info.len => {
            let what = format_args!("the length of {name}");
            findings.differs(ProblemKind::WrongFile, Some(info.id), what, info.len, len);
        }
        Some(_) => {}
    }
}

/// A table that is open is the one that the manifest describes.
pub(super) fn check_table(state: &State, table: &Arc<TableCore>, findings: &mut Findings<'_>) {
    let Some(described) = state.tables.get(&table.id) else { return };
    match Schema::decode(&described.schema) {
        // No edit is made meanwhile, so none is under way between the manifest and the table.
        Ok(schema) if schema == *table.newest.newest() => {}
        Ok(_) => findings.found(ProblemKind::Schema, None, "the manifest has another schema of the table"),
        Err(error) => findings.found(ProblemKind::Schema, None, error),
    }
    if described.tablets != [table.tablet.id] {
        let (expected, found) = (table.tablet.id, format!("{:?}", described.tablets));
        findings.differs(ProblemKind::Schema, None, "the tablets of the table", expected, found);
    }
    if let Some(tablet) = state.tablets.get(&table.tablet.id) {
        check_view(tablet, table, findings);
    }
}

fn check_view(tablet: &TabletState, table: &TableCore, findings: &mut Findings<'_>) {
    let view = table.tablet.view.pin();
    let owner = table.tablet.owner();
    let kind = ProblemKind::Manifest;
    let described: Vec<u64> = tablet.runs.iter().map(|run| run.id).collect();
    findings.equal(kind, None, "the index runs", &described, &view.run_ids);
    findings.equal(kind, None, "the flushed version", &tablet.flushed_through, &view.flushed_through);
    for (described, run) in tablet.runs.iter().zip(&view.runs) {
        let names =
            |infos: &mut dyn Iterator<Item = &FileInfo>| infos.map(|info| info.id.0).collect::<Vec<_>>();
        let expected = names(&mut described.files.iter());
        let found = names(&mut run.files().iter().map(|file| &file.info));
        findings.equal(kind, None, format_args!("the files of run {}", described.id), &expected, &found);
        for (info, file) in described.files.iter().zip(run.files()) {
            let is_same = info.entries == file.info.entries
                && info.first_key == file.info.first_key
                && info.last_key == file.info.last_key;
            if !is_of(&file.properties.owner, table, &owner) {
                findings.found(
                    ProblemKind::WrongFile,
                    Some(info.id),
                    "the file says that it is another table's",
                );
            }
            if info.id == file.info.id && !is_same {
                let what = "the manifest has another count of keys, or another first or last key";
                findings.found(kind, Some(info.id), what);
            }
        }
    }
    let rowsets: Vec<u32> = tablet.rowsets.keys().map(|id| id.0).collect();
    let found: Vec<u32> = view.rowsets.iter().map(|rowset| rowset.id().0).collect();
    findings.equal(kind, None, "the rowsets", &rowsets, &found);
    for (info, rowset) in tablet.rowsets.values().zip(view.rowsets.iter()) {
        if !is_of(rowset.reader().user_properties(), table, &owner) {
            findings.found(ProblemKind::WrongFile, Some(info.id), "the file says that it is another table's");
        }
        findings.equal(kind, Some(info.id), "the rows of a rowset", &info.entries, &rowset.info().entries);
    }
}

/// Whether a file that tells `told` of itself is this table's: it was written now, or before the table was altered or
/// renamed.
fn is_of(told: &[u8], table: &TableCore, owner: &[u8]) -> bool {
    if told == owner {
        return true;
    }
    let Ok(told) = Owner::decode(told) else { return false };
    let is_ours = (told.table, told.tablet) == (table.id, table.tablet.id);
    is_ours && Schema::decode(&told.schema).is_ok_and(|earlier| table.newest.newest().comes_of(&earlier))
}
