//! The tables that are open, by name.
//!
//! Owns the map of names. The manifest says which tables there are; this is what handles find them by.
//!
//! Lock order: a leaf; held to look up or to change the map only.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::TableId;
use sync::RwLock;

use crate::error::{Error, ErrorKind};
use crate::row::Projection;
use crate::schema::Schema;
use crate::tablet::Tablet;

/// The longest name of a table, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A table: its name, schema and tablet.
#[derive(Debug)]
pub(crate) struct TableCore {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
    /// All columns of the schema.
    pub(crate) all_columns: Projection,
    pub(crate) tablet: Arc<Tablet>,
}

impl TableCore {
    pub(crate) fn new(id: TableId, name: String, schema: Arc<Schema>, tablet: Arc<Tablet>) -> TableCore {
        let all_columns = Projection::all(&schema);
        TableCore { id, name, schema, all_columns, tablet }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tables: RwLock<BTreeMap<String, Arc<TableCore>>>,
}

impl Catalog {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<TableCore>> {
        self.tables.read().get(name).cloned()
    }

    pub(crate) fn insert(&self, table: Arc<TableCore>) {
        self.tables.write().insert(table.name.clone(), table);
    }

    /// Removes this very table. One of the same name that was made later stays.
    pub(crate) fn remove(&self, table: &TableCore) {
        let mut tables = self.tables.write();
        if tables.get(&table.name).is_some_and(|found| found.id == table.id) {
            tables.remove(&table.name);
        }
    }

    /// All tables, by name.
    pub(crate) fn all(&self) -> Vec<Arc<TableCore>> {
        self.tables.read().values().cloned().collect()
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
