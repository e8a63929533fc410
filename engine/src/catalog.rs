//! The tables that are open, by name.
//!
//! Owns the map of names. The manifest says which tables there are; this is what handles find them by.
//!
//! Lock order: a leaf; held to look up or to change the map only.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{SchemaVersion, TableId};
use sync::RwLock;

use crate::error::{Error, ErrorKind};
use crate::row::{Projection, ReadSchema, column_is_gone};
use crate::schema::{Schema, SchemaCell};
use crate::tablet::Tablet;

/// The longest name of a table, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A table as it was at a moment: its name, its schema, and its tablet. When the table is altered or renamed, the map
/// gets another one; handles keep theirs.
#[derive(Debug)]
pub(crate) struct TableCore {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
    /// The schema that is in force: this one, or a later one.
    pub(crate) newest: Arc<SchemaCell>,
    /// Rows of all versions, as this schema shows them.
    pub(crate) reads: Arc<ReadSchema>,
    /// All columns of the schema.
    pub(crate) all_columns: Projection,
    pub(crate) tablet: Arc<Tablet>,
}

impl TableCore {
    pub(crate) fn new(id: TableId, name: String, schema: Arc<Schema>, tablet: Arc<Tablet>) -> TableCore {
        let newest = Arc::new(SchemaCell::new(Arc::clone(&schema)));
        TableCore::with_cell(id, name, schema, newest, tablet)
    }

    /// The same table with this name and this schema.
    pub(crate) fn next(&self, name: &str, schema: Arc<Schema>) -> TableCore {
        let (newest, tablet) = (Arc::clone(&self.newest), Arc::clone(&self.tablet));
        TableCore::with_cell(self.id, name.to_owned(), schema, newest, tablet)
    }

    fn with_cell(
        id: TableId,
        name: String,
        schema: Arc<Schema>,
        newest: Arc<SchemaCell>,
        tablet: Arc<Tablet>,
    ) -> TableCore {
        let all_columns = Projection::all(&schema);
        let reads = Arc::new(ReadSchema::new(Arc::clone(&schema), Arc::clone(&newest)));
        TableCore { id, name, schema, newest, reads, all_columns, tablet }
    }

    /// Checks that a row of that schema version can be written: that all its columns are still there. With the commit's
    /// stage it holds until the row is logged.
    ///
    /// # Errors
    /// `SchemaMismatch` that names the column.
    pub(crate) fn check_row_schema(&self, written: SchemaVersion) -> Result<(), Error> {
        if self.newest.has_dropped_since(written)
            && let Some(dropped) = self.newest.newest().dropped_from(written).next()
        {
            let error = column_is_gone(&dropped.column.name);
            return Err(error.context(format_args!("table {:?}", self.name)));
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    ids: BTreeMap<String, TableId>,
    by_id: BTreeMap<TableId, Arc<TableCore>>,
}

impl Catalog {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<TableCore>> {
        let tables = self.tables.read();
        tables.by_id.get(tables.ids.get(name)?).cloned()
    }

    /// The table as it is now, whatever its name.
    pub(crate) fn find(&self, id: TableId) -> Option<Arc<TableCore>> {
        self.tables.read().by_id.get(&id).cloned()
    }

    /// Puts a table in force: a new one, or what has become of one that is there, perhaps under another name.
    pub(crate) fn put(&self, table: Arc<TableCore>) {
        let tables = &mut *self.tables.write();
        if let Some(before) = tables.by_id.get(&table.id) {
            tables.ids.remove(&before.name);
        }
        tables.ids.insert(table.name.clone(), table.id);
        tables.by_id.insert(table.id, table);
    }

    pub(crate) fn remove(&self, id: TableId) {
        let tables = &mut *self.tables.write();
        if let Some(table) = tables.by_id.remove(&id) {
            tables.ids.remove(&table.name);
        }
    }

    /// The names of the tables of these tablets, for people: `(dropped)` for one that is no more.
    pub(crate) fn names_of<'a>(&self, tablets: impl IntoIterator<Item = &'a Arc<Tablet>>) -> Vec<String> {
        let tables = self.tables.read();
        let names: BTreeMap<_, _> =
            tables.by_id.values().map(|table| (table.tablet.id, table.name.as_str())).collect();
        let name = |tablet: &Arc<Tablet>| names.get(&tablet.id).copied().unwrap_or("(dropped)").to_owned();
        tablets.into_iter().map(name).collect()
    }

    /// All tables, by name.
    pub(crate) fn all(&self) -> Vec<Arc<TableCore>> {
        let tables = self.tables.read();
        tables.ids.values().map(|id| Arc::clone(&tables.by_id[id])).collect()
    }
}

/// Checks the name of a table.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let refuse =
        |why: String| Err(Error::new(ErrorKind::InvalidArgument, format!("the name of a table {why}")));
    if name.is_empty() {
        return refuse("must not be empty".into());
    }
    if name.len() > NAME_BYTES_MAX {
        return refuse(format!("has {} bytes; at most {NAME_BYTES_MAX} are allowed", name.len()));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control() || matches!(c, '/' | '\\')) {
        return refuse(format!("must not contain {bad:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "Flüge 2013", "a.b-c_d", &"x".repeat(255)] {
            check_name(good).expect(good);
        }
        for bad in ["", "a/b", "a\\b", "a\0b", "line\nbreak", &"x".repeat(256)] {
            assert_eq!(check_name(bad).expect_err(bad).kind(), ErrorKind::InvalidArgument);
        }
    }
}
