//! What is in one index file or rowset.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use codec::{Location, RowId, SchemaVersion, Version};
use pkindex::{Properties, wire};
use sstable::{Cache, KeyedReader, OrdinalReader};

use super::{InspectedTable, Place};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::manifest::Owner;
use crate::options::Options;
use crate::rowset::{rowset_id, stored_row};
use crate::schema::Schema;

/// Enough for the block index of a file.
const CACHE_BYTES: usize = 16 << 20;

/// An index file, `17.idx`: keys, and where their rows lie.
#[derive(Debug)]
#[non_exhaustive]
pub struct IndexFile {
    /// Whose it is, as it was when the file was written.
    pub table: InspectedTable,
    /// Its size, in bytes.
    pub bytes: u64,
    /// How many keys it has.
    pub keys: u64,
    /// How many entries: one a version of a key.
    pub entries: u64,
    /// How many of them are deletions.
    pub deletions: u64,
    /// The least and the greatest version.
    pub versions: (Version, Version),
    /// The rowsets that its entries lead to, and how many lead to each.
    pub rowsets: Vec<(u32, u64)>,
    reader: Arc<KeyedReader>,
}

/// An entry of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexEntry<'a> {
    /// The encoded key.
    pub key: &'a [u8],
    /// Its version.
    pub version: Version,
    /// The rowset and the ordinal of the row in it; `None` if the key was deleted.
    pub row: Option<(u32, u32)>,
}

/// A rowset, `17.row`: rows without their keys, in the order of these.
#[derive(Debug)]
#[non_exhaustive]
pub struct RowFile {
    /// Whose it is, as it was when the file was written.
    pub table: InspectedTable,
    /// Its size, in bytes.
    pub bytes: u64,
    /// How many rows it has.
    pub rows: u32,
    reader: Arc<OrdinalReader>,
}

/// A row of a rowset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRow<'a> {
    /// Its place in the file, from 0.
    pub ordinal: u32,
    /// The version that wrote it.
    pub version: Version,
    /// The version of the table's schema that it follows.
    pub schema_version: SchemaVersion,
    /// Its bytes, for [`decode_row`](super::decode_row).
    pub row: &'a [u8],
}

fn table(owner: &[u8]) -> Result<InspectedTable> {
    let owner = Owner::decode(owner)?;
    Ok(InspectedTable { id: owner.table.0, name: owner.name, schema: Schema::decode(&owner.schema)? })
}

impl IndexFile {
    /// Opens it: reads its footer, its block index and what it says of itself.
    ///
    /// # Errors
    /// `InvalidArgument` if the file is not named so; `Corruption`, `UnsupportedFormat`, `Io`.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<IndexFile> {
        let (path, id) = (path.as_ref(), Place::of(path.as_ref(), FileKind::Index)?.id);
        let reader = KeyedReader::open(&*options.fs, path, id, Cache::new(CACHE_BYTES), None)?;
        let properties = Properties::decode(id, reader.user_properties())?;
        Ok(IndexFile {
            table: table(&properties.owner)?,
            bytes: reader.file_len(),
            keys: properties.keys,
            entries: properties.entries,
            deletions: properties.deletions,
            versions: properties.versions,
            rowsets: properties.per_rowset.iter().map(|(id, entries)| (id.0, *entries)).collect(),
            reader,
        })
    }

    /// Gives its entries, keys ascending and versions of a key descending, until `visit` breaks off.
    ///
    /// # Errors
    /// `Corruption` names the block that cannot be read; what lies before it was given. `Io`.
    pub fn entries(&self, mut visit: impl FnMut(IndexEntry<'_>) -> ControlFlow<()>) -> Result<()> {
        let mut iter = self.reader.iter();
        let mut entries = Vec::new();
        iter.seek_to_first()?;
        while iter.valid() {
            entries.clear();
            wire::decode(iter.value(), &mut entries).map_err(|error| {
                Error::corruption(format!("file {}: the versions of a key: {error}", self.reader.id()))
            })?;
            for entry in &entries {
                let row = entry.location().map(|at| (at.rowset.0, at.rowid.0));
                if visit(IndexEntry { key: iter.key(), version: entry.version, row }).is_break() {
                    return Ok(());
                }
            }
            iter.next()?;
        }
        Ok(())
    }
}

impl RowFile {
    /// Opens it: reads its footer, its block index and what it says of itself.
    ///
    /// # Errors
    /// `InvalidArgument` if the file is not named so; `Corruption`, `UnsupportedFormat`, `Io`.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<RowFile> {
        let (path, id) = (path.as_ref(), Place::of(path.as_ref(), FileKind::Rows)?.id);
        let reader = OrdinalReader::open(&*options.fs, path, id, Cache::new(CACHE_BYTES), None)?;
        Ok(RowFile {
            table: table(reader.user_properties())?,
            bytes: reader.file_len(),
            rows: reader.rows(),
            reader,
        })
    }

    /// Gives its rows in their order, until `visit` breaks off.
    ///
    /// # Errors
    /// `Corruption` names the block that cannot be read; what lies before it was given. `Io`.
    pub fn rows(&self, mut visit: impl FnMut(StoredRow<'_>) -> ControlFlow<()>) -> Result<()> {
        let rowset = rowset_id(self.reader.id())?;
        for ordinal in 0..self.rows {
            let slice = self.reader.get(ordinal)?;
            let at = Location { rowset, rowid: RowId(ordinal) };
            let (version, schema, row) = stored_row(slice.bytes(), at)?;
            if visit(StoredRow { ordinal, version, schema_version: schema, row }).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}
