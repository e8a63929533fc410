//! Checks the invariants of everything on disk.
//!
//! Owns the walk over a view and the words for what it finds. Verifies each file past the cache, then follows entries
//! to rows as readers do. Changes nothing, and goes on after a finding, so that one report names all damage that can be
//! reached.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use codec::{FileId, RowsetId, Version};
use pkindex::{Entry, IndexFile, Place, Run, Source};
use sstable::Direction;

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::rowset::{Rowset, RowsetCursor};
use crate::schema::Schema;
use crate::view::TabletView;

/// What a check read, and what it found wrong.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables checked.
    pub tables: u64,
    /// Index files read.
    pub index_files: u64,
    /// Rowsets read.
    pub rowsets: u64,
    /// Index entries followed to their rows.
    pub entries: u64,
    /// Rows read and decoded.
    pub rows: u64,
    /// What is wrong, with the place. Empty if all is well.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The table.
    pub table: String,
    /// The number of the file, if it is one file's.
    pub file: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {:?}", self.table)?;
        if let Some(file) = self.file {
            write!(f, ", file {file}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks every table.
pub(crate) fn check(core: &Core) -> Result<CheckReport, Error> {
    core.health.check_open()?;
    let mut report = CheckReport::default();
    for table in core.catalog.all() {
        let view = table.tablet.view.pin();
        check_view(&table.name, &table.schema, &view, &mut report, &|| core.health.check_open())?;
        report.tables += 1;
    }
    Ok(report)
}

/// Checks one view.
pub(crate) fn check_view(
    table: &str,
    schema: &Schema,
    view: &TabletView,
    report: &mut CheckReport,
    go_on: &dyn Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut walk = Walk { table, schema, view, report, go_on };
    walk.version_ranges();
    for run in &view.runs {
        for file in run.files() {
            (walk.go_on)()?;
            walk.index_file(file)?;
        }
    }
    for rowset in view.rowsets.iter() {
        (walk.go_on)()?;
        walk.rowset(rowset)?;
    }
    Ok(())
}

struct Walk<'a> {
    table: &'a str,
    schema: &'a Schema,
    view: &'a TabletView,
    report: &'a mut CheckReport,
    go_on: &'a dyn Fn() -> Result<(), Error>,
}

/// What the entries of one file add up to.
#[derive(Default)]
struct Counted {
    entries: u64,
    deletions: u64,
    per_rowset: BTreeMap<RowsetId, u64>,
}

impl Walk<'_> {
    fn found(&mut self, file: Option<FileId>, what: impl fmt::Display) {
        let problem =
            Problem { table: self.table.to_owned(), file: file.map(|id| id.0), what: what.to_string() };
        self.report.problems.push(problem);
    }

    /// Damage becomes a finding; an I/O error ends the check.
    fn finding(&mut self, file: FileId, error: impl Into<Error>) -> Result<(), Error> {
        let error = error.into();
        if error.kind() == ErrorKind::Io {
            return Err(error);
        }
        self.found(Some(file), error);
        Ok(())
    }

    fn version_ranges(&mut self) {
        let ranges: Vec<(Version, Version)> = self.view.runs.iter().map(|run| run.versions()).collect();
        for pair in ranges.windows(2) {
            let (newer, older) = (pair[0], pair[1]);
            if newer.0 <= older.1 {
                self.found(
                    None,
                    format_args!(
                        "the run of versions {} to {} lies on the run of versions {} to {}",
                        newer.0, newer.1, older.0, older.1
                    ),
                );
            }
        }
        if let Some((_, last)) = ranges.first()
            && *last > self.view.flushed_through
        {
            self.found(None, format_args!("version {last} is in a run but not flushed yet"));
        }
    }

    fn index_file(&mut self, file: &Arc<IndexFile>) -> Result<(), Error> {
        self.report.index_files += 1;
        let id = file.info.id;
        if let Err(error) = file.reader.verify() {
            self.finding(id, error)?;
            return Ok(());
        }
        let mut counted = Counted::default();
        if let Err(error) = self.follow_entries(file, &mut counted) {
            self.finding(id, error)?;
            return Ok(());
        }
        let says = &file.properties;
        if (says.entries, says.deletions) != (counted.entries, counted.deletions) {
            let (entries, deletions) = (says.entries, says.deletions);
            self.found(
                Some(id),
                format_args!(
                    "it says {entries} entries, {deletions} of them deletions, and has {} and {}",
                    counted.entries, counted.deletions
                ),
            );
        }
        let said: BTreeMap<RowsetId, u64> = says.per_rowset.iter().copied().collect();
        if said != counted.per_rowset {
            self.found(
                Some(id),
                format_args!("it says {said:?} entries a rowset, and has {:?}", counted.per_rowset),
            );
        }
        Ok(())
    }

    /// Follows each entry of a file to its row.
    fn follow_entries(&mut self, file: &Arc<IndexFile>, counted: &mut Counted) -> Result<(), Error> {
        let run = Arc::new(Run::new(vec![Arc::clone(file)])?);
        let mut cursor = run.cursor(Direction::Forward, &(Bound::Unbounded, Bound::Unbounded))?;
        let mut cursors: BTreeMap<RowsetId, RowsetCursor> = BTreeMap::new();
        let mut entries: Vec<Entry> = Vec::new();
        while cursor.key().is_some() {
            if counted.entries.is_multiple_of(4096) {
                (self.go_on)()?;
            }
            entries.clear();
            cursor.entries(&mut entries)?;
            for entry in &entries {
                counted.entries += 1;
                self.report.entries += 1;
                match entry.place {
                    Place::Deleted => counted.deletions += 1,
                    Place::At(location) => {
                        *counted.per_rowset.entry(location.rowset).or_default() += 1;
                        let Some(rowset) = self.view.rowsets.get(location.rowset) else {
                            self.found(
                                Some(file.info.id),
                                format_args!(
                                    "the entry of version {} names {location}, which is not in the view",
                                    entry.version
                                ),
                            );
                            continue;
                        };
                        let rows = cursors
                            .entry(location.rowset)
                            .or_insert_with(|| RowsetCursor::new(rowset, Direction::Forward));
                        let row = match rows.get(location.rowid, entry.version) {
                            Ok((_, row)) => self.schema.row_layout().verify(row),
                            Err(error) => Err(error),
                        };
                        if let Err(error) = row {
                            self.finding(location.rowset.into(), error)?;
                        }
                    }
                }
            }
            cursor.advance()?;
        }
        Ok(())
    }

    fn rowset(&mut self, rowset: &Arc<Rowset>) -> Result<(), Error> {
        self.report.rowsets += 1;
        self.report.rows += rowset.info().entries;
        if let Err(error) = rowset.reader().verify() {
            self.finding(rowset.id().into(), error)?;
        }
        let pointing = self
            .view
            .runs
            .iter()
            .filter(|run| run.files().iter().any(|file| file.properties.entries_in(rowset.id()) > 0));
        let pointing = pointing.count();
        let live: u64 = self
            .view
            .runs
            .iter()
            .flat_map(|run| run.files())
            .map(|file| file.properties.entries_in(rowset.id()))
            .sum();
        if pointing > 1 {
            self.found(Some(rowset.id().into()), format_args!("{pointing} index runs point into one rowset"));
        }
        if live == 0 {
            self.found(Some(rowset.id().into()), "no index entry points into the rowset");
        }
        if live > rowset.info().entries {
            let rows = rowset.info().entries;
            self.found(Some(rowset.id().into()), format_args!("{live} index entries point to {rows} rows"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
