//! Puts together what all sources say of each key, in key order, and takes the newest version whose row can be read.
//!
//! Invariant: a key is written at most once, with a row that was committed for it. Whatever newer version could not be
//! read lies in a range that is reported.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use codec::{FileId, Location, SchemaVersion, Version};
use pkindex::{Entry, Place, Properties, wire};
use sstable::{FileInfo, KeyedReader, KeyedSalvage, LostEntries};

use super::log::{LogOp, is_key, is_row};
use super::report::{KeyRange, Loss, LossKind, Losses, RepairReport, RepairedTable};
use super::rows::{FoundRow, RowSources};
use super::stock::{IndexSource, Table};
use super::write::{TableOutputs, TableWriter, Target};
use super::{Patient, VERSION_MAX, fails_repair};
use crate::error::Error;
use crate::files::{FileKind, file_name, path};
use crate::manifest::Owner;

/// Repairs one table.
///
/// # Errors
/// Those of writing. What cannot be read is a loss.
pub(super) fn table(
    patient: &Patient<'_>,
    table: &Table,
    ops: BTreeMap<Vec<u8>, LogOp>,
    rows: &mut RowSources<'_>,
    target: Option<&mut Target>,
    report: &mut RepairReport,
) -> Result<(), Error> {
    let outputs = target.as_ref().map(|target| target.outputs(table));
    let mut merge = Merge {
        table,
        repaired: RepairedTable {
            name: table.desc.name.clone(),
            schema: Arc::clone(&table.schema),
            read_through: Version(0),
            rows: 0,
            deleted_keys: 0,
            older_rows: 0,
            lost_rows: 0,
            index_files: 0,
        },
        files: Vec::new(),
        heap: BinaryHeap::new(),
        log: ops.into_iter().peekable(),
        rows,
        unread: None,
        losses: Losses::default(),
        report,
        writer: outputs.as_ref().map(TableOutputs::writer),
        last_version: Version(0),
    };
    for source in &table.index {
        merge.open(patient, source)?;
    }
    while merge.next_key()? {}
    merge.end_unread();
    merge.tell_lost_entries();
    let Merge { repaired, rows, report, writer, last_version, losses, .. } = merge;
    rows.close();
    for loss in losses.into_list() {
        report.lose_keys(loss, &table.schema);
    }
    report.tables.push(repaired);
    if let (Some(target), Some(writer)) = (target, writer) {
        target.install(table, writer.finish()?, last_version)?;
    }
    Ok(())
}

/// An index file that is being read.
struct OpenFile {
    id: FileId,
    salvage: KeyedSalvage,
    expected: Option<FileInfo>,
    versions: Option<(Version, Version)>,
}

/// What one source says of a key.
enum Candidate {
    Row(SchemaVersion, Vec<u8>),
    At(Location),
    Deleted,
}

/// Neighbouring keys of which something could not be read, for the same reason.
struct Unread {
    loss: Loss,
    first: Vec<u8>,
    last: Vec<u8>,
    keys: u64,
    versions: Option<(Version, Version)>,
}

struct Merge<'a, 'r> {
    table: &'a Table,
    repaired: RepairedTable,
    files: Vec<OpenFile>,
    /// The key that each file stands at.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    log: Peekable<std::collections::btree_map::IntoIter<Vec<u8>, LogOp>>,
    rows: &'a mut RowSources<'r>,
    unread: Option<Unread>,
    losses: Losses,
    report: &'a mut RepairReport,
    writer: Option<TableWriter<'a>>,
    last_version: Version,
}

impl Merge<'_, '_> {
    fn open(&mut self, patient: &Patient<'_>, source: &IndexSource) -> Result<(), Error> {
        let file = path(patient.dir, source.id, FileKind::Index);
        let opened = match KeyedSalvage::open(&**patient.fs(), &file, source.id) {
            Err(error) if error.is_unsupported() || fails_repair(error.io()) => return Err(error.into()),
            opened => opened.map_err(|error| error.to_string()),
        };
        let opened = opened.and_then(|salvage| {
            let properties =
                salvage.user_properties().and_then(|bytes| Properties::decode(source.id, bytes).ok());
            let owner = properties.and_then(|properties| Owner::decode(&properties.owner).ok());
            if owner.is_some_and(|owner| owner.table != self.table.desc.id) {
                return Err("the file says that it is another table's".to_owned());
            }
            let Some(expected) = &source.expected else { return Ok(salvage) };
            let cache = sstable::Cache::new(1 << 20);
            match KeyedReader::open(&**patient.fs(), &file, source.id, cache, None) {
                Ok(reader) => {
                    let info = reader.info();
                    let is_same =
                        (info.len, info.footer_checksum) == (expected.len, expected.footer_checksum);
                    if is_same {
                        Ok(salvage)
                    } else {
                        Err("the file is another one than the manifest names".to_owned())
                    }
                }
                // Its end cannot be read; its blocks may be.
                Err(_) => Ok(salvage),
            }
        });
        match opened {
            Ok(salvage) => {
                let properties =
                    salvage.user_properties().and_then(|bytes| Properties::decode(source.id, bytes).ok());
                let versions = source.versions.or(properties.map(|properties| properties.versions));
                if let Some(key) = salvage.key() {
                    self.heap.push(Reverse((key.to_vec(), self.files.len())));
                }
                self.repaired.index_files += 1;
                let expected = source.expected.clone();
                self.files.push(OpenFile { id: source.id, salvage, expected, versions });
            }
            Err(why) => {
                let mut loss = self.index_loss(source.id, why);
                if let Some(expected) = &source.expected {
                    loss.keys.lower = Bound::Included(expected.first_key.clone());
                    loss.keys.upper = Bound::Included(expected.last_key.clone());
                    loss.count = Some(expected.entries);
                    loss.bytes = Some(expected.len);
                }
                loss.versions = source.versions;
                self.report.lose_keys(loss, &self.table.schema);
            }
        }
        Ok(())
    }

    fn index_loss(&self, id: FileId, why: String) -> Loss {
        Loss::new(LossKind::Index, why)
            .of_table(&self.table.desc.name)
            .in_file(file_name(id, FileKind::Index))
    }

    /// Takes the next key. False at the end.
    fn next_key(&mut self) -> Result<bool, Error> {
        let of_files = self.heap.peek().map(|Reverse((key, _))| key.as_slice());
        let of_log = self.log.peek().map(|(key, _)| key.as_slice());
        let key = match (of_files, of_log) {
            (None, None) => return Ok(false),
            (Some(key), None) | (None, Some(key)) => key.to_vec(),
            (Some(a), Some(b)) => a.min(b).to_vec(),
        };
        let mut candidates: Vec<(Version, Candidate)> = Vec::new();
        while let Some(Reverse((at, file))) = self.heap.peek()
            && *at == key
        {
            let file = *file;
            self.heap.pop();
            self.entries_of(file, &key, &mut candidates);
            let salvage = &mut self.files[file].salvage;
            salvage.advance();
            if let Some(next) = salvage.key() {
                self.heap.push(Reverse((next.to_vec(), file)));
            }
        }
        if self.log.peek().is_some_and(|(at, _)| *at == key)
            && let Some((_, op)) = self.log.next()
        {
            let candidate = match op.row {
                Some((schema, row)) => Candidate::Row(schema, row),
                None => Candidate::Deleted,
            };
            candidates.push((op.version, candidate));
        }
        if candidates.is_empty() {
            // Its list of versions cannot be read, and nobody else has the key.
            self.repaired.lost_rows += 1;
            return Ok(true);
        }
        // Newest first; a row that is at hand before one that has to be read.
        candidates
            .sort_by_key(|(version, candidate)| (Reverse(*version), matches!(candidate, Candidate::At(_))));
        self.choose(&key, candidates)?;
        Ok(true)
    }

    fn entries_of(&mut self, file: usize, key: &[u8], candidates: &mut Vec<(Version, Candidate)>) {
        let OpenFile { id, salvage, .. } = &self.files[file];
        let id = *id;
        let mut entries: Vec<Entry> = Vec::new();
        let decoded = wire::decode(salvage.value(), &mut entries)
            .map_err(|error| error.to_string())
            .and_then(|()| is_key(self.table, key))
            .and_then(|()| match entries.first() {
                Some(first) if first.version > VERSION_MAX => Err(format!("version {}", first.version)),
                _ => Ok(()),
            });
        if let Err(why) = decoded {
            self.note_unread(LossKind::Index, key, None, file_name(id, FileKind::Index), why);
            return;
        }
        candidates.extend(entries.iter().map(|entry| match entry.place {
            Place::At(location) => (entry.version, Candidate::At(location)),
            Place::Deleted => (entry.version, Candidate::Deleted),
        }));
    }

    /// Takes the newest version that can be had.
    fn choose(&mut self, key: &[u8], candidates: Vec<(Version, Candidate)>) -> Result<(), Error> {
        let mut failed: Option<(Version, String, String)> = None;
        let mut taken = None;
        let mut candidates = candidates.into_iter().peekable();
        while let Some((version, candidate)) = candidates.next() {
            self.last_version = self.last_version.max(version);
            let (file, row) = match candidate {
                Candidate::Deleted => break,
                Candidate::Row(schema, row) => ("the log".to_owned(), Ok(FoundRow { schema, row })),
                Candidate::At(location) => {
                    (file_name(location.rowset.into(), FileKind::Rows), self.rows.get(location, version)?)
                }
            };
            let row = row.and_then(|row| is_row(self.table, row.schema, &row.row).map(|()| row));
            match row {
                Ok(row) => {
                    taken = Some((version, row));
                    break;
                }
                // The same version may lie elsewhere too, moved.
                Err(_) if candidates.peek().is_some_and(|next| next.0 == version) => {}
                Err(why) => {
                    failed.get_or_insert((version, file, why));
                }
            }
        }
        match &taken {
            Some(_) => self.repaired.rows += 1,
            None if failed.is_some() => self.repaired.lost_rows += 1,
            None => self.repaired.deleted_keys += 1,
        }
        match failed {
            Some((version, file, why)) => {
                self.repaired.older_rows += u64::from(taken.is_some());
                self.note_unread(LossKind::Rows, key, Some(version), file, why);
            }
            // What of its index entries cannot be read is told already.
            None if self.unread.as_ref().is_some_and(|unread| unread.last == key) => {}
            None => self.end_unread(),
        }
        if let (Some((version, found)), Some(writer)) = (taken, &mut self.writer) {
            writer.push(key, version, found.schema, &found.row)?;
        }
        Ok(())
    }

    fn note_unread(
        &mut self,
        kind: LossKind,
        key: &[u8],
        version: Option<Version>,
        file: String,
        why: String,
    ) {
        let versions = version.map(|version| (version, version));
        if let Some(unread) = &mut self.unread
            && (unread.loss.kind, unread.loss.file.as_ref()) == (kind, Some(&file))
        {
            unread.last.clear();
            unread.last.extend_from_slice(key);
            unread.keys += 1;
            unread.versions = unread.versions.zip(versions).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
            return;
        }
        self.end_unread();
        let loss = Loss::new(kind, why).of_table(&self.table.desc.name).in_file(file);
        let (first, last) = (key.to_vec(), key.to_vec());
        self.unread = Some(Unread { loss, first, last, keys: 1, versions });
    }

    fn end_unread(&mut self) {
        let Some(Unread { mut loss, first, last, keys, versions }) = self.unread.take() else { return };
        loss.keys = KeyRange { lower: Bound::Included(first), upper: Bound::Included(last) };
        loss.count = Some(keys);
        loss.versions = versions;
        self.losses.push(loss);
    }

    /// What was missing in the index files, between which keys.
    fn tell_lost_entries(&mut self) {
        for file in &self.files {
            for lost in file.salvage.lost() {
                let LostEntries { offset, bytes, after, before, why } = lost.clone();
                let mut loss = self.index_loss(file.id, why);
                (loss.offset, loss.bytes) = (Some(offset), Some(bytes));
                loss.versions = file.versions;
                let known = file.expected.as_ref();
                loss.keys = KeyRange {
                    lower: after.map(Bound::Excluded).unwrap_or_else(|| {
                        known.map_or(Bound::Unbounded, |info| Bound::Included(info.first_key.clone()))
                    }),
                    upper: before.map(Bound::Excluded).unwrap_or_else(|| {
                        known.map_or(Bound::Unbounded, |info| Bound::Included(info.last_key.clone()))
                    }),
                };
                self.report.lose_keys(loss, &self.table.schema);
            }
        }
    }
}
