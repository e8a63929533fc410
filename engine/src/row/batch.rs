//! Rows of one answer, side by side in a few buffers.
//!
//! Owns the memory that row handles read from. Keeps only what the projection needs: no keys if no key column is asked
//! for, no row bytes if nothing else is.
//!
//! Invariant: nothing is allocated per row. The exception is a key column whose bytes are not its value (a NUL in a
//! string that is not the key's last, any descending string): its value is made when it is first asked for.

use super::{Projection, ReadSchema, RowRef, Translator};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use codec::{SchemaVersion, Version};
use encoded_key::{Type, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Rows in the order in which a scan found them, all of one projection.
pub struct RowBatch {
    schema: Arc<Schema>,
    projection: Projection,
    pub(super) keys: Packed,
    pub(super) rows: Packed,
    versions: Versions,
    len: usize,
    unescaped: Unescaped,
}

impl RowBatch {
    /// The schema of the table that the rows are of.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Which columns the rows have.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row at `index`, if there are so many.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<RowRef<'_>> {
        (index < self.len).then(|| RowRef::new(self, index))
    }

    /// All rows, in order.
    pub fn iter(&self) -> RowRefs<'_> {
        RowRefs { batch: self, range: 0..self.len }
    }

    /// The version of row `index`, if it has one.
    #[inline]
    pub(super) fn version(&self, index: usize) -> Option<Version> {
        Some(self.versions.get(index)).filter(|version| *version > Version(0))
    }

    /// The key of row `index`, of a batch that keeps keys.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.keys.get(index)
    }

    /// The bytes of memory that the rows take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.bytes.len() + self.rows.bytes.len()
    }

    /// The value of the schema's column `column`, which the projection has, in row `index`.
    #[inline]
    pub(super) fn value(&self, index: usize, column: usize) -> Result<Value<'_>> {
        match column.checked_sub(self.schema.key_columns()) {
            Some(column) => self.schema.row_layout().get(self.rows.get(index), column),
            None => self.key_value(index, column),
        }
    }

    #[inline]
    fn key_value(&self, index: usize, column: usize) -> Result<Value<'_>> {
        match encoded_key::borrow_column(self.schema.key_layout(), self.keys.get(index), column) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => self.unescaped_value(index, column),
            Err(error) => Err(self.damaged_key(column, error)),
        }
    }

    #[cold]
    fn unescaped_value(&self, index: usize, column: usize) -> Result<Value<'_>> {
        let key_columns = self.schema.key_columns();
        let cells = self.unescaped.get_or_init(|| {
            let cells = self.len * key_columns;
            std::iter::repeat_with(OnceLock::new).take(cells).collect()
        });
        let cell = &cells[index * key_columns + column];
        let bytes = match cell.get() {
            Some(bytes) => bytes,
            None => {
                let mut scratch = Vec::new();
                let layout = self.schema.key_layout();
                let bytes =
                    match encoded_key::decode_column(layout, self.keys.get(index), column, &mut scratch) {
                        Ok(Value::String(text)) => Box::from(text.as_bytes()),
                        Ok(Value::Binary(bytes)) => Box::from(bytes),
                        Ok(_) => unreachable!("only strings and binaries are escaped"),
                        Err(error) => return Err(self.damaged_key(column, error)),
                    };
                cell.get_or_init(|| bytes)
            }
        };
        match self.schema.columns()[column].ty {
            Type::String => {
                Ok(Value::String(std::str::from_utf8(bytes).expect("the key decoder has checked the text")))
            }
            _ => Ok(Value::Binary(bytes)),
        }
    }

    #[cold]
    fn damaged_key(&self, column: usize, error: encoded_key::KeyError) -> Error {
        self.schema.key_error(column, error).with_kind(ErrorKind::Corruption)
    }
}

/// Values of key columns that are not in the key as they are: a cell for each row and key column, made when the first
/// is needed.
type Unescaped = OnceLock<Box<[OnceLock<Box<[u8]>>]>>;

impl fmt::Debug for RowBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a RowBatch {
    type Item = RowRef<'a>;
    type IntoIter = RowRefs<'a>;

    fn into_iter(self) -> RowRefs<'a> {
        self.iter()
    }
}

/// The rows of a batch, in order; see [`RowBatch::iter`].
#[derive(Clone, Debug)]
pub struct RowRefs<'a> {
    batch: &'a RowBatch,
    range: std::ops::Range<usize>,
}

impl<'a> Iterator for RowRefs<'a> {
    type Item = RowRef<'a>;

    fn next(&mut self) -> Option<RowRef<'a>> {
        self.range.next().map(|index| RowRef::new(self.batch, index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for RowRefs<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(|index| RowRef::new(self.batch, index))
    }
}

impl ExactSizeIterator for RowRefs<'_> {}

/// Byte strings, one after the other.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// Where each but the last ends, so that one alone, as a get has it, needs no memory here.
    ends: Vec<usize>,
}

impl Packed {
    /// Starts the next byte string: what is added to `bytes` from now on is of it.
    #[inline]
    fn start(&mut self, is_first: bool) -> &mut Vec<u8> {
        if !is_first {
            self.ends.push(self.bytes.len());
        }
        &mut self.bytes
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        let end = self.ends.get(index).copied().unwrap_or(self.bytes.len());
        &self.bytes[start..end]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// The versions of rows. The first stands apart, so that a get needs no memory for it.
#[derive(Debug, Default)]
struct Versions {
    first: Version,
    others: Vec<Version>,
}

impl Versions {
    #[inline]
    fn push(&mut self, version: Version, is_first: bool) {
        if is_first {
            self.first = version;
        } else {
            self.others.push(version);
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Version {
        match index.checked_sub(1) {
            None => self.first,
            Some(other) => self.others[other],
        }
    }
}

/// Collects rows for a [`RowBatch`], in memory that it gets back from batches that nobody holds any more.
#[derive(Debug)]
pub(crate) struct RowBatchBuilder {
    translator: Translator,
    projection: Projection,
    keeps_keys: bool,
    keys: Packed,
    rows: Packed,
    versions: Versions,
    len: usize,
}

/// Buffers that grew beyond this many bytes are given back to the allocator instead of being used again.
const KEPT_BYTES_MAX: usize = 4 << 20;

impl RowBatchBuilder {
    /// For rows as `reads` shows them, of which readers see `projection`.
    pub(crate) fn new(reads: Arc<ReadSchema>, projection: Projection) -> RowBatchBuilder {
        let translator = Translator::new(reads);
        let keeps_keys = projection.needs_key();
        let (keys, rows, versions) = (Packed::default(), Packed::default(), Versions::default());
        RowBatchBuilder { translator, projection, keeps_keys, keys, rows, versions, len: 0 }
    }

    /// The same, of batches that know the keys of their rows although no reader may ask for them.
    pub(crate) fn keeping_keys(self) -> RowBatchBuilder {
        RowBatchBuilder { keeps_keys: true, ..self }
    }

    /// How many rows it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes the rows take.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes.len() + self.rows.bytes.len()
    }

    /// Adds a row that was written with the schema `schema` and as `version`; 0 if it has none yet. Its bytes are
    /// copied if the projection needs them; pass an empty slice if it doesn't.
    ///
    /// # Errors
    /// `Corruption` for a schema version that the table never had, or for a row of another version that is damaged; the
    /// builder is as before.
    #[inline]
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        row: &[u8],
        schema: SchemaVersion,
        version: Version,
    ) -> Result<()> {
        let is_first = self.len == 0;
        if self.projection.needs_row() {
            let row = self.translator.translate(schema, row)?;
            self.rows.start(is_first).extend_from_slice(row);
        }
        if self.keeps_keys {
            self.keys.start(is_first).extend_from_slice(key);
        }
        self.versions.push(version, is_first);
        self.len += 1;
        Ok(())
    }

    /// The rows so far, as a batch; the builder is empty then.
    pub(crate) fn finish(&mut self) -> Arc<RowBatch> {
        Arc::new(RowBatch {
            schema: Arc::clone(self.translator.schema()),
            projection: self.projection.clone(),
            keys: std::mem::take(&mut self.keys),
            rows: std::mem::take(&mut self.rows),
            versions: std::mem::take(&mut self.versions),
            len: std::mem::take(&mut self.len),
            unescaped: OnceLock::new(),
        })
    }

    /// Takes back the memory of a batch, if nobody else holds it and the builder is empty.
    pub(crate) fn recycle(&mut self, batch: Arc<RowBatch>) {
        if self.len > 0 {
            return;
        }
        if let Some(RowBatch { mut keys, mut rows, mut versions, .. }) = Arc::into_inner(batch)
            && keys.bytes.capacity() + rows.bytes.capacity() <= KEPT_BYTES_MAX
        {
            keys.clear();
            rows.clear();
            versions.others.clear();
            (self.keys, self.rows, self.versions) = (keys, rows, versions);
        }
    }
}
