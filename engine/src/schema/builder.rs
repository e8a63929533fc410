//! Building a schema, column by column.

use super::{Column, Schema};
use crate::error::{Error, Result};
use codec::{ColumnId, SchemaVersion};
use encoded_key::ColumnType;
use std::sync::Arc;

/// Collects the columns of a [`Schema`]; see [`Schema::builder`].
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    columns: Vec<(String, ColumnType)>,
    key_columns: usize,
    /// A key column that came after a value column, to be told by `build`.
    late_key: Option<String>,
}

impl SchemaBuilder {
    /// Adds a column to the primary key. All key columns come before the first other column.
    #[must_use]
    pub fn key(mut self, name: impl Into<String>, ty: impl Into<ColumnType>) -> SchemaBuilder {
        let name = name.into();
        if self.columns.len() > self.key_columns && self.late_key.is_none() {
            self.late_key = Some(name.clone());
        }
        self.key_columns += 1;
        self.columns.push((name, ty.into()));
        self
    }

    /// Adds a column that is not part of the key.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, ty: impl Into<ColumnType>) -> SchemaBuilder {
        self.columns.push((name.into(), ty.into()));
        self
    }

    /// Checks the columns and makes the schema of them, in its version 1.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column: no key column or one
    /// behind other columns, a nullable key column, a descending value column, an empty, too long or second name, an
    /// impossible decimal, more than 1,000 columns.
    pub fn build(self) -> Result<Schema> {
        if let Some(name) = self.late_key {
            return Err(Error::invalid(format!(
                "key column {name:?} comes after a column that is not in the key"
            )));
        }
        super::check_counts(self.columns.len(), self.key_columns)?;
        let mut id = ColumnId(0);
        let columns = self.columns.into_iter().map(|(name, column)| {
            id = ColumnId(id.0 + 1);
            let ColumnType { ty, nullable, descending } = column;
            Column { id, name: Arc::from(name), ty, nullable, descending }
        });
        let columns: Vec<Column> = columns.collect();
        Schema::from_parts(SchemaVersion(1), ColumnId(id.0 + 1), columns, self.key_columns)
    }
}
