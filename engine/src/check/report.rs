//! What a check found: typed, with the place, what was expected and what is there.
//!
//! Owns the report, its words, and how errors of the layers below become findings. Key bytes get in only if the options
//! allow it.

use std::collections::BTreeSet;
use std::fmt;

use codec::FileId;
use sstable::FindingKind;

use crate::error::{Error, ErrorKind};
use crate::row::show_key;
use crate::schema::Schema;

/// What a check read, and what it found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Rows read and decoded, those that nothing points to included.
    pub rows: u64,
    /// Edits of the manifest read.
    pub edits: u64,
    /// Segments of the log read.
    pub log_segments: u64,
    /// Batches of the log read and decoded.
    pub log_batches: u64,
    /// Bytes read, of all files together.
    pub bytes: u64,
    /// Files of ours that nothing names. They do no harm; the next open for writing removes them. For an engine that is
    /// [open for reading only](crate::Engine::open_read_only) beside a writer, what that was working on counts too:
    /// nothing named it yet, and no open removes it.
    pub extra_files: Vec<String>,
    /// What is wrong, with the place. Empty if all is well.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What kind of thing is wrong.
    pub kind: ProblemKind,
    /// The table, if it is one table's.
    pub table: Option<String>,
    /// The number of the file, if it is one file's.
    pub file: Option<u64>,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// What is wrong, as a sentence.
    pub what: String,
    /// What should be there.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
}

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A block, the header or the footer of an index file or rowset is not what was written.
    Block,
    /// A block index: its blocks do not tile the file, or its separators do not separate.
    BlockIndex,
    /// Keys of a file, or the files of a run, are out of order.
    KeyOrder,
    /// A key does not pass the filter of its own file.
    Filter,
    /// A file tells of itself what is not so: counts, versions, first and last key.
    Counts,
    /// The versions of a key are not a list as it is written.
    Entries,
    /// A key is none of its table's.
    Key,
    /// Versions overlap between runs, or are outside of what the run or the tablet holds.
    Versions,
    /// An entry leads to no row.
    NoRow,
    /// An entry leads to a row of another version.
    RowVersion,
    /// Two entries lead to one row.
    SharedRow,
    /// Rows do not lie in the order of their keys, or outside of what the manifest says of their rowset.
    RowOrder,
    /// A row does not decode under its table's schema.
    Row,
    /// A rowset lies under no index run, or under several.
    Rowset,
    /// A file that the manifest names is not there.
    MissingFile,
    /// A file is not the one that the manifest names: its length or the checksum of its footer is another.
    WrongFile,
    /// `CURRENT` is damaged, or names another manifest.
    Current,
    /// The manifest is damaged, contradicts itself, or is not what is in force.
    Manifest,
    /// A table and its schema do not fit.
    Schema,
    /// The write-ahead log is damaged, broken off, or holds what was never written to it.
    Log,
}

impl ProblemKind {
    fn words(self) -> &'static str {
        match self {
            ProblemKind::Block => "a damaged block",
            ProblemKind::BlockIndex => "a wrong block index",
            ProblemKind::KeyOrder => "keys out of order",
            ProblemKind::Filter => "a key unknown to its filter",
            ProblemKind::Counts => "wrong properties",
            ProblemKind::Entries => "a damaged list of versions",
            ProblemKind::Key => "a damaged key",
            ProblemKind::Versions => "versions out of place",
            ProblemKind::NoRow => "an entry without a row",
            ProblemKind::RowVersion => "a row of another version",
            ProblemKind::SharedRow => "a row with two entries",
            ProblemKind::RowOrder => "rows out of order",
            ProblemKind::Row => "a damaged row",
            ProblemKind::Rowset => "a rowset out of place",
            ProblemKind::MissingFile => "a missing file",
            ProblemKind::WrongFile => "another file",
            ProblemKind::Current => "a wrong CURRENT",
            ProblemKind::Manifest => "a wrong manifest",
            ProblemKind::Schema => "a wrong schema",
            ProblemKind::Log => "a damaged log",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(table) = &self.table {
            write!(f, ", table {table:?}")?;
        }
        if let Some(file) = self.file {
            write!(f, ", file {file}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
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

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "read {} bytes: {} tables, {} index files, {} rowsets, {} entries, {} rows, {} edits of the manifest, \
             {} batches in {} log segments",
            self.bytes,
            self.tables,
            self.index_files,
            self.rowsets,
            self.entries,
            self.rows,
            self.edits,
            self.log_batches,
            self.log_segments
        )?;
        for name in &self.extra_files {
            writeln!(f, "nothing names {name}, which does no harm")?;
        }
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        match self.problems.len() {
            0 => f.write_str("all is well"),
            1 => f.write_str("1 problem"),
            count => write!(f, "{count} problems"),
        }
    }
}

/// Where findings of one table, or of the directory, go.
pub(crate) struct Findings<'a> {
    pub(super) report: &'a mut CheckReport,
    table: Option<String>,
    /// Set if the texts may show keys.
    schema: Option<Schema>,
    /// Blocks that are damaged: whoever needs one finds it again.
    damaged: BTreeSet<(FileId, u64)>,
}

impl<'a> Findings<'a> {
    /// For findings of no table.
    pub(crate) fn new(report: &'a mut CheckReport) -> Findings<'a> {
        Findings { report, table: None, schema: None, damaged: BTreeSet::new() }
    }

    /// For findings of a table.
    pub(crate) fn of(report: &'a mut CheckReport, table: &str) -> Findings<'a> {
        Findings { table: Some(table.to_owned()), ..Findings::new(report) }
    }

    pub(super) fn show_keys(&mut self, schema: &Schema) {
        self.schema = Some(schema.clone());
    }

    /// The key for a text, if it may be shown.
    pub(super) fn key_text(&self, key: &[u8]) -> String {
        match &self.schema {
            Some(schema) => format!(", key {}", show_key(schema, key)),
            None => String::new(),
        }
    }

    /// Something is wrong.
    pub(super) fn found(&mut self, kind: ProblemKind, file: Option<FileId>, what: impl fmt::Display) {
        self.push(kind, file, None, what.to_string(), None);
    }

    /// Two things that should be equal are not.
    pub(super) fn differs(
        &mut self,
        kind: ProblemKind,
        file: Option<FileId>,
        what: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) {
        let (expected, found) = (expected.to_string(), found.to_string());
        let what = format!("{what}: {expected} expected, {found} found");
        self.push(kind, file, None, what, Some((expected, found)));
    }

    /// Tells of a difference, if there is one.
    pub(super) fn equal<T: PartialEq + fmt::Debug>(
        &mut self,
        kind: ProblemKind,
        file: Option<FileId>,
        what: impl fmt::Display,
        expected: &T,
        found: &T,
    ) {
        if expected != found {
            self.differs(kind, file, what, format_args!("{expected:?}"), format_args!("{found:?}"));
        }
    }

    /// A finding of an sstable's own verification.
    pub(super) fn in_sstable(&mut self, kind: FindingKind, error: &sstable::Error) {
        let kind = match kind {
            FindingKind::BlockIndex => ProblemKind::BlockIndex,
            FindingKind::KeyOrder => ProblemKind::KeyOrder,
            FindingKind::Filter => ProblemKind::Filter,
            FindingKind::Counts => ProblemKind::Counts,
            _ => ProblemKind::Block,
        };
        self.sstable(kind, error);
    }

    /// An error of an sstable as a finding; a damaged block is told of once.
    pub(super) fn sstable(&mut self, kind: ProblemKind, error: &sstable::Error) {
        let (offset, evidence) = evidence(error);
        if kind == ProblemKind::Block
            && let Some(offset) = offset
            && !self.damaged.insert((error.file(), offset))
        {
            return;
        }
        self.push(kind, Some(error.file()), offset, error.to_string(), evidence);
    }

    /// An error of the log or the manifest as a finding.
    pub(super) fn log(&mut self, kind: ProblemKind, error: &wal::Error) {
        let (file, offset) = match error {
            wal::Error::Corruption { segment, offset, .. } => (Some(*segment), Some(*offset)),
            _ => (None, None),
        };
        self.push(kind, file, offset, error.to_string(), None);
    }

    /// Damage becomes a finding; an error of the disk ends the check.
    pub(super) fn error(&mut self, kind: ProblemKind, file: FileId, error: Error) -> Result<(), Error> {
        if error.kind() == ErrorKind::Io {
            return Err(error);
        }
        self.found(kind, Some(file), error);
        Ok(())
    }

    fn push(
        &mut self,
        kind: ProblemKind,
        file: Option<FileId>,
        offset: Option<u64>,
        what: String,
        evidence: Option<(String, String)>,
    ) {
        let (expected, found) = evidence.unzip();
        let (table, file) = (self.table.clone(), file.map(|id| id.0));
        self.report.problems.push(Problem { kind, table, file, offset, what, expected, found });
    }
}

fn evidence(error: &sstable::Error) -> (Option<u64>, Option<(String, String)>) {
    match error {
        sstable::Error::Checksum { offset, expected, found, .. } => {
            (Some(*offset), Some((format!("{expected:08x}"), format!("{found:08x}"))))
        }
        sstable::Error::Mismatch { offset, expected, found, .. } => {
            (Some(*offset), Some((expected.to_string(), found.to_string())))
        }
        sstable::Error::Malformed { offset, .. } | sstable::Error::Io { offset, .. } => (Some(*offset), None),
        _ => (None, None),
    }
}
