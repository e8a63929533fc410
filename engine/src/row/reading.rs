//! Reads rows of any schema version as rows of one schema, the reader's.
//!
//! Owns the way from a stored row to the reader's layout. Rows of the reader's own version pass as they are, and cost
//! one comparison; so do those of versions that differ in names only, past that.
//!
//! Lock order: the translations' lock is a leaf, taken only for rows of other versions, and by a scan once for each
//! version that it meets.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::SchemaVersion;
use sync::RwLock;

use super::translation::Translation;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Schema, SchemaCell, unknown_version};

/// The schema that a reader sees rows in. Shared by all handles that were opened with it.
#[derive(Debug)]
pub(crate) struct ReadSchema {
    schema: Arc<Schema>,
    /// Tells of versions that came later.
    cell: Arc<SchemaCell>,
    /// From each version whose rows were read and are laid out otherwise.
    translations: RwLock<BTreeMap<SchemaVersion, Arc<Translation>>>,
}

impl ReadSchema {
    /// `schema` is the one in force, or was.
    pub(crate) fn new(schema: Arc<Schema>, cell: Arc<SchemaCell>) -> ReadSchema {
        ReadSchema { schema, cell, translations: RwLock::default() }
    }

    /// For a schema that is never changed.
    #[cfg(test)]
    pub(crate) fn of(schema: &Arc<Schema>) -> Arc<ReadSchema> {
        let cell = Arc::new(SchemaCell::new(Arc::clone(schema)));
        Arc::new(ReadSchema::new(Arc::clone(schema), cell))
    }

    /// The reader's schema.
    #[inline]
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Checks that every column for which `reads` answers yes is still there. Ask after the view was pinned: then every
    /// row in it was written with these columns, or before they came.
    ///
    /// # Errors
    /// `SchemaMismatch` that names the column.
    #[inline]
    pub(crate) fn check_columns(&self, reads: impl Fn(usize) -> bool) -> Result<()> {
        if self.cell.has_dropped_since(self.schema.version()) { self.find_dropped(reads) } else { Ok(()) }
    }

    #[cold]
    fn find_dropped(&self, reads: impl Fn(usize) -> bool) -> Result<()> {
        let newest = self.cell.newest();
        for dropped in newest.dropped_from(self.schema.version()) {
            let columns = self.schema.columns();
            let at = columns.iter().position(|column| column.id == dropped.column.id);
            if let Some(at) = at
                && reads(at)
            {
                return Err(column_is_gone(&columns[at].name));
            }
        }
        Ok(())
    }

    /// How rows of that version become the reader's; `None` if they are laid out the same.
    #[cold]
    fn translation(&self, written: SchemaVersion) -> Result<Option<Arc<Translation>>> {
        if self.schema.has_layout_of(written) {
            return Ok(None);
        }
        if let Some(known) = self.translations.read().get(&written) {
            return Ok(Some(Arc::clone(known)));
        }
        // The reader's own schema knows those before it.
        let newest = match written <= self.schema.version() {
            true => Arc::clone(&self.schema),
            false => self.cell.newest(),
        };
        let from = newest.value_columns_at(written);
        let from = from.ok_or_else(|| unknown_version(written, newest.version()))?;
        let to = &self.schema.columns()[self.schema.key_columns()..];
        let translation = Arc::new(Translation::new(&from, to));
        self.translations.write().insert(written, Arc::clone(&translation));
        Ok(Some(translation))
    }
}

/// A column that a handle knows was dropped.
#[cold]
pub(crate) fn column_is_gone(name: &str) -> Error {
    Error::new(
        ErrorKind::SchemaMismatch,
        format!("column {name:?} was dropped since the table was opened; open it again"),
    )
}

/// Translates the rows of one reader, one after the other.
#[derive(Debug)]
pub(crate) struct Translator {
    reads: Arc<ReadSchema>,
    /// The version met last that is not the reader's.
    last: Option<(SchemaVersion, Option<Arc<Translation>>)>,
    out: Vec<u8>,
}

impl Translator {
    pub(crate) fn new(reads: Arc<ReadSchema>) -> Translator {
        Translator { reads, last: None, out: Vec::new() }
    }

    /// The reader's schema.
    #[inline]
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.reads.schema
    }

    /// The row that was written with schema version `written`, in the reader's layout.
    ///
    /// # Errors
    /// `Corruption` for a version that the table has not had, or a row that is damaged.
    #[inline]
    pub(crate) fn translate<'a>(&'a mut self, written: SchemaVersion, row: &'a [u8]) -> Result<&'a [u8]> {
        if written == self.reads.schema.version() {
            return Ok(row);
        }
        self.translate_other(written, row)
    }

    #[cold]
    fn translate_other<'a>(&'a mut self, written: SchemaVersion, row: &'a [u8]) -> Result<&'a [u8]> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != written) {
            self.last = Some((written, self.reads.translation(written)?));
        }
        let Some((_, Some(translation))) = &self.last else { return Ok(row) };
        self.out.clear();
        translation.apply(row, &mut self.out)?;
        Ok(&self.out)
    }
}
