//! Writes rows that come in key order into rowsets that share no key.
//!
//! A flush and a compaction write through it. It never syncs the directory, and never removes a file: when it fails,
//! the job that gave it the numbers removes what it made.

use std::ops::Deref;
use std::sync::Arc;

use codec::{Location, RowId, RowsetId, SchemaVersion, Version};
use pkindex::Output;
use sstable::{FileInfo, OrdinalWriter, WriterOptions};

use super::{StoredRow, rowset_id};
use crate::error::{Error, Result};

/// How rowsets are written.
#[derive(Clone, Debug)]
pub(crate) struct RowsetOptions {
    /// A rowset is ended at the first new key after it has grown to this many bytes.
    pub(crate) rowset_bytes: u64,
    /// Blocks and compression of the file.
    pub(crate) file: WriterOptions,
    /// Whose file it is (`manifest::Owner`), for whoever has no manifest.
    pub(crate) owner: Arc<[u8]>,
}

/// A rowset on disk, its file synced but not the directory.
#[derive(Clone, Debug)]
pub(crate) struct WrittenRowset {
    /// Its number is the rowset's.
    pub(crate) info: FileInfo,
    /// The key of its first row.
    pub(crate) first_key: Vec<u8>,
    /// The key of its last row.
    pub(crate) last_key: Vec<u8>,
}

/// Writes zero or more rowsets, cut only between different keys.
pub(crate) struct RowsetWriter<O> {
    /// Gives numbers and paths: borrowed or shared.
    output: O,
    options: RowsetOptions,
    current: Option<Current>,
    /// Scratch for what stands before the row bytes.
    head: Vec<u8>,
    written: Vec<WrittenRowset>,
}

/// The rowset that is being written; it has a row.
struct Current {
    id: RowsetId,
    writer: OrdinalWriter,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_version: Version,
}

impl<O: Deref<Target: Output>> RowsetWriter<O> {
    /// A writer that takes file numbers and paths from `output`. It touches nothing until the first row comes.
    pub(crate) fn new(output: O, options: RowsetOptions) -> RowsetWriter<O> {
        RowsetWriter { output, options, current: None, head: Vec::new(), written: Vec::new() }
    }

    /// Appends a row and says where it now lies.
    ///
    /// # Errors
    /// `Corruption` if the rows do not come by key ascending and, within a key, by version descending: a compaction
    /// takes them in the order of index files, which may be damaged. `Io` or `NoSpace`. The writer must not be used
    /// again then.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        version: Version,
        schema: SchemaVersion,
        row: &[u8],
    ) -> Result<Location> {
        let mut new_key = true;
        if let Some(current) = &self.current {
            new_key = current.last_key != key;
            let is_in_order =
                if new_key { current.last_key.as_slice() < key } else { version < current.last_version };
            if !is_in_order {
                return Err(Error::corruption(
                    "rows to write do not come by key ascending, version descending: the index that they were found by is \
                     damaged",
                ));
            }
            if new_key && current.writer.written_bytes() >= self.options.rowset_bytes {
                self.end_rowset()?;
            }
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => self.current.insert(Current::create(&*self.output, &self.options, key)?),
        };
        self.head.clear();
        StoredRow::encode_head(version, schema, &mut self.head);
        let ordinal = current.writer.push(&[&self.head, row])?;
        if new_key {
            current.last_key.clear();
            current.last_key.extend_from_slice(key);
        }
        current.last_version = version;
        Ok(Location { rowset: current.id, rowid: RowId(ordinal) })
    }

    /// Ends the rowset that is being written: the next row begins another one. The next row must have a new key.
    ///
    /// # Errors
    /// `Io` or `NoSpace`.
    pub(crate) fn cut(&mut self) -> Result<()> {
        self.end_rowset()
    }

    /// Ends and syncs the last rowset, and tells of all of them, in key order. No rows, no rowsets.
    ///
    /// # Errors
    /// `Io` or `NoSpace`.
    pub(crate) fn finish(mut self) -> Result<Vec<WrittenRowset>> {
        self.end_rowset()?;
        Ok(self.written)
    }

    fn end_rowset(&mut self) -> Result<()> {
        if let Some(Current { writer, first_key, last_key, .. }) = self.current.take() {
            let info = writer.finish(&self.options.owner)?;
            self.written.push(WrittenRowset { info, first_key, last_key });
        }
        Ok(())
    }
}

impl Current {
    fn create<T: Output + ?Sized>(output: &T, options: &RowsetOptions, key: &[u8]) -> Result<Current> {
        let (file, path) =
            output.next_file().map_err(|error| Error::io_write("cannot make a rowset", error))?;
        let id = rowset_id(file)?;
        let writer = OrdinalWriter::create(output.fs(), &path, file, &options.file)?;
        Ok(Current {
            id,
            writer,
            first_key: key.to_vec(),
            last_key: key.to_vec(),
            last_version: Version::MAX,
        })
    }
}
