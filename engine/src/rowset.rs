//! A rowset: one immutable file of rows in key order, addressed by ordinal.
//!
//! Owns the bytes of a stored row and the checks on them. Knows no key of its rows but the first and the last; what a
//! row's columns are is the business of `row`.
//!
//! Invariant: a row is handed out only if the version stored with it is the one that the index entry names. An entry
//! that leads to another row is corruption, never a wrong row.
//!
//! A stored row, one ordinal of an ordinal sstable:
//!
//! | bytes | what |
//! |---|---|
//! | varint | version of the operation that wrote the row |
//! | varint | schema version that the row bytes follow |
//! | the rest | row bytes (`row`), possibly none |

mod cursor;
mod set;
mod writer;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use codec::{FileId, Location, Reader, RowId, RowsetId, SchemaVersion, Version, put_varint};
use sstable::{BlockSlice, Cache, Compression, FileInfo, OrdinalReader};

use crate::error::{Error, Result};

pub(crate) use cursor::RowsetCursor;
pub(crate) use set::Rowsets;
pub(crate) use writer::{RowsetOptions, RowsetWriter, WrittenRowset};

/// An open rowset.
#[derive(Debug)]
pub(crate) struct Rowset {
    id: RowsetId,
    info: FileInfo,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    reader: Arc<OrdinalReader>,
}

impl Rowset {
    /// Opens the file at `path`, which must have the length and the footer that `info` names. `first_key` and
    /// `last_key` are the keys of its first and last row.
    ///
    /// # Errors
    /// `Corruption` if the file is not the one that `info` describes, `Io`.
    pub(crate) fn open(
        fs: &dyn vfs::Fs,
        path: &Path,
        info: FileInfo,
        first_key: Vec<u8>,
        last_key: Vec<u8>,
        cache: Arc<Cache>,
    ) -> Result<Arc<Rowset>> {
        let id = rowset_id(info.id)?;
        let reader = OrdinalReader::open(fs, path, info.id, cache, Some((info.len, info.footer_checksum)))?;
        if u64::from(reader.rows()) != info.entries {
            let found = reader.rows();
            return Err(Error::corruption(format!(
                "rowset {id}: {} rows expected, {found} found",
                info.entries
            )));
        }
        Ok(Arc::new(Rowset { id, info, first_key, last_key, reader }))
    }

    pub(crate) fn id(&self) -> RowsetId {
        self.id
    }

    /// Length, footer checksum and number of rows.
    pub(crate) fn info(&self) -> &FileInfo {
        &self.info
    }

    /// How its rows were to be compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.reader.compression()
    }

    /// The key of its first row.
    pub(crate) fn first_key(&self) -> &[u8] {
        &self.first_key
    }

    /// The key of its last row.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The file below.
    pub(crate) fn reader(&self) -> &Arc<OrdinalReader> {
        &self.reader
    }

    /// The row at `rowid`, which an index entry says was written as `expected`.
    ///
    /// # Errors
    /// `Corruption` if there is no such row or it has another version, `Io`.
    pub(crate) fn get(&self, rowid: RowId, expected: Version) -> Result<RowHandle> {
        self.check_rowid(rowid)?;
        let slice = self.reader.get(rowid.0)?;
        let at = Location { rowset: self.id, rowid };
        let StoredRow { schema, row } = StoredRow::decode(slice.bytes(), at, expected)?;
        Ok(RowHandle { slice, schema, row })
    }

    fn check_rowid(&self, rowid: RowId) -> Result<()> {
        if u64::from(rowid.0) < self.info.entries {
            return Ok(());
        }
        let at = Location { rowset: self.id, rowid };
        Err(Error::corruption(format!("an index entry names {at}, which has {} rows", self.info.entries)))
    }
}

/// A row in a cached block, which it keeps alive.
#[derive(Debug)]
pub(crate) struct RowHandle {
    slice: BlockSlice,
    schema: SchemaVersion,
    row: Range<usize>,
}

impl RowHandle {
    /// Which schema the bytes follow.
    pub(crate) fn schema(&self) -> SchemaVersion {
        self.schema
    }

    /// The row bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.slice.bytes()[self.row.clone()]
    }
}

/// What stands before the row bytes, taken apart.
#[derive(Debug)]
struct StoredRow {
    schema: SchemaVersion,
    /// Where the row bytes stand in the stored ones.
    row: Range<usize>,
}

impl StoredRow {
    /// Writes what stands before the row bytes to the end of `out`.
    fn encode_head(version: Version, schema: SchemaVersion, out: &mut Vec<u8>) {
        put_varint(out, version.0);
        put_varint(out, u64::from(schema.0));
    }

    fn decode(bytes: &[u8], at: Location, expected: Version) -> Result<StoredRow> {
        let (version, schema, row) = StoredRow::parts(bytes, at)?;
        if version != expected {
            return Err(corrupt(at, &format_args!("version {expected} expected, {version} found")));
        }
        Ok(StoredRow { schema, row })
    }

    /// The version and the schema version of a stored row, and where its row bytes stand.
    fn parts(bytes: &[u8], at: Location) -> Result<(Version, SchemaVersion, Range<usize>)> {
        let mut reader = Reader::new(bytes);
        let head = reader.varint().and_then(|version| Ok((version, reader.varint()?)));
        let (version, schema) = head.map_err(|error| corrupt(at, &error))?;
        let schema = u32::try_from(schema)
            .map_err(|_| corrupt(at, &format_args!("schema version {schema} is above the greatest")))?;
        Ok((Version(version), SchemaVersion(schema), reader.position()..bytes.len()))
    }
}

/// The version, the schema version and the row bytes of a stored row, whatever row it is.
pub(crate) fn stored_row(bytes: &[u8], at: Location) -> Result<(Version, SchemaVersion, &[u8])> {
    let (version, schema, row) = StoredRow::parts(bytes, at)?;
    Ok((version, schema, &bytes[row]))
}

#[cold]
fn corrupt(at: Location, what: &dyn std::fmt::Display) -> Error {
    Error::corruption(format!("{at}: {what}"))
}

/// The rowset's name for a file: its number, which must be below 2^32.
pub(crate) fn rowset_id(file: FileId) -> Result<RowsetId> {
    u32::try_from(file.0).map(RowsetId).map_err(|_| {
        Error::corruption(format!("file number {file} is too large for a rowset (2^32 - 1 is the greatest)"))
    })
}

#[cfg(test)]
mod tests;
