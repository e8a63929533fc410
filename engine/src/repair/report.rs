//! What a repair could read, and what is lost: typed, with key ranges.
//!
//! Owns the report and its words. Keys are in the ranges; the texts show them only if the options say so.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use codec::Version;

use crate::error::{Error, ErrorKind};
use crate::record::{Record, encode_key};
use crate::row::show_key;
use crate::schema::Schema;

/// What a repair read, and what it could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether the new database was written. It then opens, and passes a check.
    pub is_written: bool,
    /// Where the tables and their files were learnt from.
    pub source: RepairSource,
    /// The tables, as far as they are known.
    pub tables: Vec<RepairedTable>,
    /// What is lost or uncertain. Empty if nothing is.
    pub losses: Vec<Loss>,
    /// What is worth knowing and costs nothing, such as a `CURRENT` that could be done without.
    pub notes: Vec<String>,
    /// Where the log ends in something that looks as if it was never wholly written. No loss: an open leaves it out
    /// too, and nothing in the log says that it was synced.
    pub torn: Option<TornLog>,
    /// Segments of the log that were read.
    pub log_segments: u64,
    /// Batches of the log that were taken.
    pub log_batches: u64,
    /// Operations in them.
    pub log_operations: u64,
    show_keys: bool,
}

/// The end of a log that looks like an interrupted write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornLog {
    /// The log segment, by its file's name.
    pub file: String,
    /// Where in it the log ends, in bytes.
    pub offset: u64,
    /// How many bytes follow that are not zeros.
    pub bytes: u64,
    /// What stands there instead of a record.
    pub reason: String,
}

/// Where the tables and their files were learnt from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairSource {
    /// The manifest in force, all of it.
    #[default]
    Manifest,
    /// The readable part of the manifest in force, and the files themselves.
    PartOfManifest,
    /// An older manifest, and the files themselves.
    OlderManifest,
    /// The files themselves: there is no manifest that can be read.
    Files,
}

/// What became of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: Arc<Schema>,
    /// The last version up to which everything was read, but for the losses. If the end of the log is gone without a
    /// trace, which nothing but a later record could tell, it was above this.
    pub read_through: Version,
    /// Rows in the new database.
    pub rows: u64,
    /// Keys whose newest version that could be read is a deletion: they are absent, as they should be.
    pub deleted_keys: u64,
    /// Keys of which an older version stands in for a newer one that could not be read.
    pub older_rows: u64,
    /// Keys of which no row could be read.
    pub lost_rows: u64,
    /// Index files that were read, at least in part.
    pub index_files: u64,
}

/// Something that is lost, or that is not certain any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// What kind of loss.
    pub kind: LossKind,
    /// Which table; `None`: any.
    pub table: Option<String>,
    /// Which keys of it.
    pub keys: KeyRange,
    /// Which versions, the first and the last, as far as that is known.
    pub versions: Option<(Version, Version)>,
    /// Which file, by its name; `None` if it is none in particular, or several.
    pub file: Option<String>,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// How many bytes of it.
    pub bytes: Option<u64>,
    /// How many rows, entries or batches, if that is known.
    pub count: Option<u64>,
    /// Why.
    pub why: String,
    /// The ends of `keys` as text, if the options allow it.
    keys_text: Option<String>,
}

/// What kind of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// A part of the index. Which keys it had in the range is not known: their rows may be missing, older ones may
    /// show, and deleted ones may be back.
    Index,
    /// Rows of keys that are known. They are missing, or an older version shows.
    Rows,
    /// Deletions, perhaps: files are there that may be out of date, so that deleted rows may be back.
    Deletions,
    /// A part of the log. What was written there last may be missing, or an older version shows, of any key.
    Log,
    /// Batches of the log behind a damaged place, left out or taken.
    LogAfterDamage,
    /// A part of the manifest: tables made or dropped since are not known of.
    Manifest,
    /// A table whose name and columns are not known: all of it.
    Table,
    /// A file of which it is not known whose it is.
    File,
}

impl LossKind {
    fn words(self) -> &'static str {
        match self {
            LossKind::Index => {
                "a part of an index: rows may be missing, older ones may show, deleted ones may be back"
            }
            LossKind::Rows => "rows that cannot be read: they are missing, or older ones show",
            LossKind::Deletions => "perhaps deletions: deleted rows may be back",
            LossKind::Log => "a part of the log: the last writes of any key may be missing",
            LossKind::LogAfterDamage => "batches of the log behind a damaged place",
            LossKind::Manifest => "a part of the manifest: tables may have been made or dropped since",
            LossKind::Table => "a table of which neither name nor columns are known",
            LossKind::File => "a file of which it is not known whose it is",
        }
    }
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A range of encoded keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    fn bytes(&self) -> usize {
        [&self.lower, &self.upper]
            .map(|bound| match bound {
                Bound::Included(key) | Bound::Excluded(key) => key.len(),
                Bound::Unbounded => 0,
            })
            .iter()
            .sum()
    }

    /// Whether an encoded key lies in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.lower {
            Bound::Included(lower) => lower.as_slice() <= key,
            Bound::Excluded(lower) => lower.as_slice() < key,
            Bound::Unbounded => true,
        };
        let below = match &self.upper {
            Bound::Included(upper) => key <= upper.as_slice(),
            Bound::Excluded(upper) => key < upper.as_slice(),
            Bound::Unbounded => true,
        };
        above && below
    }
}

impl Loss {
    pub(super) fn new(kind: LossKind, why: impl Into<String>) -> Loss {
        Loss {
            kind,
            table: None,
            keys: KeyRange::all(),
            versions: None,
            file: None,
            offset: None,
            bytes: None,
            count: None,
            why: why.into(),
            keys_text: None,
        }
    }

    pub(super) fn of_table(self, table: &str) -> Loss {
        Loss { table: Some(table.to_owned()), ..self }
    }

    pub(super) fn in_file(self, file: String) -> Loss {
        Loss { file: Some(file), ..self }
    }

    /// Whether a key of a table may be concerned.
    #[must_use]
    pub fn concerns(&self, table: &str, encoded_key: &[u8]) -> bool {
        self.table.as_deref().is_none_or(|own| own == table) && self.keys.contains(encoded_key)
    }
}

/// So many losses of one kind are told one by one for each table; if there are twice as many, neighbours are told
/// together.
const LOSSES_KEPT: usize = 20_000;
/// And so many bytes of keys.
const KEY_BYTES_KEPT: usize = 32 << 20;

/// The losses of a table whose keys are known, in key order. There may be one for each key; what is kept of them has a
/// bound, at the price of ranges that are wider than they need be.
#[derive(Debug, Default)]
pub(super) struct Losses {
    kinds: BTreeMap<LossKind, Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    losses: Vec<Loss>,
    key_bytes: usize,
}

impl Losses {
    /// Adds a loss. Of its kind, it begins behind those before it, and its range is closed.
    pub(super) fn push(&mut self, loss: Loss) {
        let kept = self.kinds.entry(loss.kind).or_default();
        kept.key_bytes += loss.keys.bytes();
        kept.losses.push(loss);
        if kept.losses.len() >= 2 * LOSSES_KEPT || kept.key_bytes >= 2 * KEY_BYTES_KEPT {
            kept.fold();
        }
    }

    pub(super) fn into_list(self) -> impl Iterator<Item = Loss> {
        self.kinds.into_values().flat_map(|kept| kept.losses)
    }
}

impl Kept {
    /// Makes one of each two neighbours.
    fn fold(&mut self) {
        let mut losses = std::mem::take(&mut self.losses).into_iter();
        while let Some(mut loss) = losses.next() {
            if let Some(next) = losses.next() {
                loss.take_in(next);
            }
            self.losses.push(loss);
        }
        self.key_bytes = self.losses.iter().map(|loss| loss.keys.bytes()).sum();
    }
}

impl Loss {
    /// Becomes a loss of all that lies from its own beginning to the end of a later one.
    fn take_in(&mut self, later: Loss) {
        self.keys.upper = later.keys.upper;
        self.count = self.count.zip(later.count).map(|(a, b)| a + b);
        self.versions = self.versions.zip(later.versions).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        if self.file != later.file {
            self.file = None;
            "of several files; these are too many to be told one by one".clone_into(&mut self.why);
        }
    }
}

impl RepairReport {
    pub(super) fn new(show_keys: bool) -> RepairReport {
        RepairReport {
            is_written: false,
            source: RepairSource::default(),
            tables: Vec::new(),
            losses: Vec::new(),
            notes: Vec::new(),
            torn: None,
            log_segments: 0,
            log_batches: 0,
            log_operations: 0,
            show_keys,
        }
    }

    /// Whether nothing is lost, and nothing uncertain.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.losses.is_empty()
    }

    /// The losses that concern a key: if there are none, the new database has of it what the old one had.
    ///
    /// # Errors
    /// `NoSuchTable` if no table of this name was found; `InvalidArgument` if it is no key of the table.
    pub fn losses_of(&self, table: &str, key: impl Record) -> Result<Vec<&Loss>, Error> {
        let found = self.tables.iter().find(|found| found.name == table);
        let found = found
            .ok_or_else(|| Error::new(ErrorKind::NoSuchTable, format!("no table {table:?} was found")))?;
        let mut encoded = Vec::new();
        encode_key(&found.schema, &key, &mut encoded)?;
        Ok(self.losses.iter().filter(|loss| loss.concerns(table, &encoded)).collect())
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.losses.push(loss);
    }

    /// Like [`RepairReport::lose`], for a loss of which the table's columns are known.
    pub(super) fn lose_keys(&mut self, mut loss: Loss, schema: &Schema) {
        if self.show_keys {
            let text = |bound: &Bound<Vec<u8>>, open: &str| match bound {
                Bound::Included(key) => show_key(schema, key),
                Bound::Excluded(key) => format!("{} (excluded)", show_key(schema, key)),
                Bound::Unbounded => open.to_owned(),
            };
            let (lower, upper) = (text(&loss.keys.lower, "the first"), text(&loss.keys.upper, "the last"));
            loss.keys_text = Some(format!("{lower} to {upper}"));
        }
        self.losses.push(loss);
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(table) = &self.table {
            write!(f, "; table {table:?}")?;
        }
        match (&self.keys_text, &self.keys) {
            (Some(text), _) => write!(f, ", keys {text}")?,
            (None, keys) if *keys == KeyRange::all() => f.write_str(", any key")?,
            (None, _) => f.write_str(", a range of keys")?,
        }
        if let Some((first, last)) = self.versions {
            write!(f, ", versions {first} to {last}")?;
        }
        if let Some(count) = self.count {
            write!(f, ", {count} of them")?;
        }
        if let Some(file) = &self.file {
            write!(f, "; {file}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, ", {bytes} bytes")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl fmt::Display for RepairSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RepairSource::Manifest => "the manifest",
            RepairSource::PartOfManifest => "a part of the manifest, and the files themselves",
            RepairSource::OlderManifest => "an older manifest, and the files themselves",
            RepairSource::Files => "the files themselves, without a manifest",
        })
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tables and files are known from {}", self.source)?;
        for table in &self.tables {
            let RepairedTable { name, rows, older_rows, lost_rows, index_files, read_through, .. } = table;
            writeln!(
                f,
                "table {name:?}: {rows} rows from {index_files} index files and the log, {older_rows} of them older \
                 ones, {lost_rows} rows lost; read up to version {read_through}"
            )?;
        }
        writeln!(
            f,
            "log: {} operations in {} batches of {} segments",
            self.log_operations, self.log_batches, self.log_segments
        )?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        if let Some(torn) = &self.torn {
            let TornLog { file, offset, bytes, reason } = torn;
            writeln!(
                f,
                "the log ends at byte {offset} of {file}, in {bytes} bytes that look as if they were never wholly written \
                 ({reason})"
            )?;
        }
        for loss in &self.losses {
            writeln!(f, "lost: {loss}")?;
        }
        match (self.is_written, self.losses.len()) {
            (_, 0) => f.write_str("nothing is lost"),
            (true, count) => write!(f, "{count} losses; all else is in the new database"),
            (false, count) => write!(f, "{count} losses"),
        }
    }
}
