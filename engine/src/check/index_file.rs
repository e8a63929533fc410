//! Checks one index file: its bytes, its keys, its lists of versions, what it tells of itself, and that each entry
//! leads to its row.
//!
//! A row holds no key. That an entry has the right row follows from its version, which no other operation ever had, and
//! from the order: the rows of a rowset lie in the order of the keys that lead to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{Location, RowsetId, Version};
use encoded_key::KeyDecoder;
use pkindex::{Entry, IndexFile, Place, wire};
use sstable::{Caching, Direction, FindingKind, OrdinalCursor, Verifier};

use super::report::{Findings, ProblemKind};
use super::tablet::TakenRows;
use crate::error::Error;
use crate::rowset::{Rowset, stored_row};
use crate::schema::Schema;
use crate::view::TabletView;

/// Where the entries of a run stand in the rowsets under it: the files of a run are followed in key order.
#[derive(Default)]
pub(super) struct Followed(BTreeMap<RowsetId, Position>);

struct Position {
    rows: OrdinalCursor,
    last: Option<u32>,
}

/// What the entries of a file add up to.
#[derive(Default)]
struct Counted {
    keys: u64,
    entries: u64,
    deletions: u64,
    versions: Option<(Version, Version)>,
    per_rowset: BTreeMap<RowsetId, u64>,
    first_key: Option<Vec<u8>>,
    last_key: Vec<u8>,
}

/// Checks one file.
pub(super) fn check(
    schema: &Schema,
    view: &TabletView,
    file: &Arc<IndexFile>,
    taken: &mut TakenRows,
    followed: &mut Followed,
    findings: &mut Findings<'_>,
) -> Result<(), Error> {
    findings.report.index_files += 1;
    let id = file.info.id;
    let problems_before = findings.report.problems.len();
    let mut walk = Walk {
        schema,
        view,
        file,
        taken,
        followed,
        findings,
        counted: Counted::default(),
        entries: Vec::new(),
        scratch: Vec::new(),
        is_whole: true,
        failed: None,
    };
    let report = file.reader.verify_with(&mut walk)?;
    let Walk { findings, counted, is_whole, failed, .. } = walk;
    if let Some(error) = failed {
        return Err(error);
    }
    findings.report.bytes += report.bytes;
    if findings.report.problems.len() == problems_before || is_whole {
        let (expected, found) = (file.info.footer_checksum, report.footer_checksum);
        if (file.info.len, expected) != (report.bytes, found) {
            let what = "length and footer checksum";
            let (expected, found) =
                (format!("{}, {expected:08x}", file.info.len), format!("{}, {found:08x}", report.bytes));
            findings.differs(ProblemKind::WrongFile, Some(id), what, expected, found);
        }
    }
    // Counts of a file that could not be read whole say nothing.
    if is_whole {
        check_counts(file, &counted, findings);
    }
    Ok(())
}

fn check_counts(file: &IndexFile, counted: &Counted, findings: &mut Findings<'_>) {
    let (id, says) = (Some(file.info.id), &file.properties);
    let mut equal = |what: &str, expected: u64, found: u64| {
        if expected != found {
            findings.differs(ProblemKind::Counts, id, what, expected, found);
        }
    };
    equal("keys, as the file says", says.keys, counted.keys);
    equal("entries, as the file says", says.entries, counted.entries);
    equal("deletions, as the file says", says.deletions, counted.deletions);
    let several = (says.has_several, counted.entries > counted.keys);
    findings.equal(ProblemKind::Counts, id, "a key with several versions", &several.0, &several.1);
    if let Some(versions) = counted.versions
        && versions != says.versions
    {
        let text = |(first, last): (Version, Version)| format!("{first} to {last}");
        let (expected, found) = (text(says.versions), text(versions));
        findings.differs(ProblemKind::Counts, id, "versions, as the file says", expected, found);
    }
    let said: BTreeMap<RowsetId, u64> = says.per_rowset.iter().copied().collect();
    for rowset in said.keys().chain(counted.per_rowset.keys().filter(|id| !said.contains_key(id))) {
        let count = |counts: &BTreeMap<RowsetId, u64>| counts.get(rowset).copied().unwrap_or(0);
        let (expected, found) = (count(&said), count(&counted.per_rowset));
        if expected != found {
            let what = format_args!("entries that point into rowset {rowset}, as the file says");
            findings.differs(ProblemKind::Counts, id, what, expected, found);
        }
    }
    let first_key = counted.first_key.as_deref().unwrap_or_default();
    for (what, expected, found) in [
        ("the first key", &says.first_key[..], first_key),
        ("the last key", &says.last_key[..], &counted.last_key[..]),
    ] {
        if expected != found {
            let text = format!("{what} is not the one that the file says{}", findings.key_text(found));
            findings.found(ProblemKind::Counts, id, text);
        }
    }
}

struct Walk<'a, 'r> {
    schema: &'a Schema,
    view: &'a TabletView,
    file: &'a IndexFile,
    taken: &'a mut TakenRows,
    followed: &'a mut Followed,
    findings: &'a mut Findings<'r>,
    counted: Counted,
    entries: Vec<Entry>,
    scratch: Vec<u8>,
    /// Whether every entry could be read.
    is_whole: bool,
    failed: Option<Error>,
}

impl Verifier for Walk<'_, '_> {
    fn entry(&mut self, key: &[u8], value: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.counted.keys += 1;
        self.counted.first_key.get_or_insert_with(|| key.to_vec());
        self.counted.last_key.clear();
        self.counted.last_key.extend_from_slice(key);
        self.key(key);
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        match wire::decode(value, &mut entries) {
            Ok(()) => {
                for entry in &entries {
                    if let Err(error) = self.follow(key, entry) {
                        self.failed = Some(error);
                        break;
                    }
                }
            }
            Err(error) => {
                self.is_whole = false;
                let text = format!("the versions of a key: {error}{}", self.findings.key_text(key));
                self.findings.found(ProblemKind::Entries, Some(self.file.info.id), text);
            }
        }
        self.entries = entries;
    }

    fn found(&mut self, kind: FindingKind, error: sstable::Error) {
        self.is_whole &= !matches!(kind, FindingKind::Block | FindingKind::BlockIndex);
        self.findings.in_sstable(kind, &error);
    }
}

impl Walk<'_, '_> {
    fn key(&mut self, key: &[u8]) {
        let mut decoder = KeyDecoder::new(self.schema.key_layout(), key);
        let decode = |decoder: &mut KeyDecoder<'_>, scratch: &mut Vec<u8>| {
            (0..self.schema.key_columns()).try_for_each(|_| decoder.next_column(scratch).map(drop))
        };
        if let Err(error) = decode(&mut decoder, &mut self.scratch).and_then(|()| decoder.finish()) {
            let text = format!("a key does not decode: {error}{}", self.findings.key_text(key));
            self.findings.found(ProblemKind::Key, Some(self.file.info.id), text);
        }
    }

    fn follow(&mut self, key: &[u8], entry: &Entry) -> Result<(), Error> {
        let id = Some(self.file.info.id);
        let version = entry.version;
        self.counted.entries += 1;
        self.findings.report.entries += 1;
        let (first, last) = self.counted.versions.unwrap_or((version, version));
        self.counted.versions = Some((first.min(version), last.max(version)));
        if version > self.view.flushed_through {
            let what = "the version of an entry, at most the flushed one";
            self.findings.differs(ProblemKind::Versions, id, what, self.view.flushed_through, version);
        }
        let Place::At(location) = entry.place else {
            self.counted.deletions += 1;
            return Ok(());
        };
        *self.counted.per_rowset.entry(location.rowset).or_default() += 1;
        let Some(rowset) = self.view.rowsets.get(location.rowset) else {
            let what =
                format_args!("the entry of version {version} names {location}, which is not in the view");
            self.findings.found(ProblemKind::NoRow, id, what);
            return Ok(());
        };
        let rows = rowset.info().entries;
        if u64::from(location.rowid.0) >= rows {
            let what = format_args!("the entry of version {version} names {location}, which has {rows} rows");
            self.findings.found(ProblemKind::NoRow, id, what);
            return Ok(());
        }
        self.place(key, version, location, rowset);
        self.row(version, location, rowset)
    }

    /// Nobody else has the row, and it lies where its key says.
    fn place(&mut self, key: &[u8], version: Version, location: Location, rowset: &Arc<Rowset>) {
        let id = Some(self.file.info.id);
        let is_free = self.taken.take(location.rowset, location.rowid.0);
        let position = self.followed.position(rowset);
        let last = position.last.replace(location.rowid.0);
        if !is_free {
            let what = format_args!("the entry of version {version} names {location}, as another one does");
            self.findings.found(ProblemKind::SharedRow, id, what);
        } else if let Some(last) = last
            && location.rowid.0 < last
        {
            let what = format_args!("the entry of version {version} names {location}, after row {last}");
            self.findings.found(ProblemKind::RowOrder, id, what);
        }
        if key < rowset.first_key() || key > rowset.last_key() {
            let what = format!(
                "the entry of version {version} names {location}, whose keys are others{}",
                self.findings.key_text(key)
            );
            self.findings.found(ProblemKind::RowOrder, id, what);
        }
    }

    /// The row is the one of that version. What is in it is checked with its rowset.
    fn row(&mut self, version: Version, location: Location, rowset: &Arc<Rowset>) -> Result<(), Error> {
        let position = self.followed.position(rowset);
        let found = match position.rows.get(location.rowid.0) {
            Ok(bytes) => stored_row(bytes, location).map(|(found, _, _)| found),
            Err(error) if error.is_corruption() => {
                self.findings.sstable(ProblemKind::Block, &error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        match found {
            Ok(found) if found == version => {}
            Ok(found) => {
                let what = format_args!("{location}: the version of the row");
                let file = Some(location.rowset.into());
                self.findings.differs(ProblemKind::RowVersion, file, what, version, found);
            }
            Err(error) => self.findings.error(ProblemKind::Row, location.rowset.into(), error)?,
        }
        Ok(())
    }
}

impl Followed {
    fn position(&mut self, rowset: &Arc<Rowset>) -> &mut Position {
        self.0.entry(rowset.id()).or_insert_with(|| {
            let mut rows = rowset.reader().cursor(Direction::Forward);
            rows.set_caching(Caching::Leave);
            Position { rows, last: None }
        })
    }
}
