//! Building a schema, column by column.

use super::{Column, Schema, change};
use crate::error::{Error, Result};
use crate::value::AsValue;
use codec::{ColumnId, SchemaVersion};
use encoded_key::ColumnType;
use std::sync::Arc;

/// Collects the columns of a [`Schema`]; see [`Schema::builder`].
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    columns: Vec<Pending>,
    key_columns: usize,
    /// The first thing that was wrong, to be told by `build`.
    error: Option<Error>,
}

/// A column that has no id yet.
#[derive(Clone, Debug)]
struct Pending {
    name: String,
    ty: ColumnType,
    default: Option<Arc<[u8]>>,
}

impl SchemaBuilder {
    /// Adds a column to the primary key. All key columns come before the first other column.
    #[must_use]
    pub fn key(mut self, name: impl Into<String>, ty: impl Into<ColumnType>) -> SchemaBuilder {
        let name = name.into();
        if self.columns.len() > self.key_columns {
            let text = format!("key column {name:?} comes after a column that is not in the key");
            self.error.get_or_insert(Error::invalid(text));
        }
        self.key_columns += 1;
        self.columns.push(Pending { name, ty: ty.into(), default: None });
        self
    }

    /// Adds a column that is not part of the key.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, ty: impl Into<ColumnType>) -> SchemaBuilder {
        self.columns.push(Pending { name: name.into(), ty: ty.into(), default: None });
        self
    }

    /// Adds a column that is not part of the key, and what it holds in a row that [`Schema::row`] gives no value for
    /// it. A value that does not fit is told by `build`.
    ///
    /// ```
    /// use nyala::{Schema, Type};
    /// let schema = Schema::builder().key("id", Type::U64).column_with_default("unit", Type::String, "none").build()?;
    /// assert_eq!(format!("{:?}", schema.row().set("id", 7)?), r#"(id: 7, unit: "none")"#);
    /// # Ok::<(), nyala::Error>(())
    /// ```
    #[must_use]
    pub fn column_with_default(
        mut self,
        name: impl Into<String>,
        ty: impl Into<ColumnType>,
        default: impl AsValue,
    ) -> SchemaBuilder {
        let (name, ty) = (name.into(), ty.into());
        let default = change::encode_default(&name, ty, default.as_value()).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            None
        });
        self.columns.push(Pending { name, ty, default });
        self
    }

    /// Checks the columns and makes the schema of them, in its version 1.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column: no key column or one
    /// behind other columns, a nullable key column, a descending value column, an empty, too long or second name, an
    /// impossible decimal, a default that does not fit, more than 1,000 columns.
    pub fn build(self) -> Result<Schema> {
        if let Some(error) = self.error {
            return Err(error);
        }
        super::check_counts(self.columns.len(), self.key_columns)?;
        let mut id = ColumnId(0);
        let added_in = SchemaVersion(1);
        let columns = self.columns.into_iter().map(|Pending { name, ty, default }| {
            id = ColumnId(id.0 + 1);
            let ColumnType { ty, nullable, descending } = ty;
            Column { id, name: Arc::from(name), ty, nullable, descending, added_in, default }
        });
        let columns: Vec<Column> = columns.collect();
        Schema::from_parts(added_in, ColumnId(id.0 + 1), columns, Vec::new(), self.key_columns)
    }
}
