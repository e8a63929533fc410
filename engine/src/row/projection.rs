//! Which columns of a table a reader gets, and in which order.

use crate::error::Result;
use crate::schema::Schema;
use std::sync::Arc;

/// Columns of a schema, chosen and ordered by a reader. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Positions in the schema.
    columns: Arc<[usize]>,
    needs_key: bool,
    needs_row: bool,
    is_in_order: bool,
}

impl Projection {
    /// All columns, in schema order.
    #[must_use]
    pub fn all(schema: &Schema) -> Projection {
        Projection::of(schema, (0..schema.columns().len()).collect())
    }

    /// The columns of these names, in this order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names a column which the schema lacks.
    pub fn named<S: AsRef<str>>(schema: &Schema, names: impl IntoIterator<Item = S>) -> Result<Projection> {
        let columns = names.into_iter().map(|name| schema.find_column(name.as_ref()));
        Ok(Projection::of(schema, columns.collect::<Result<Arc<[usize]>>>()?))
    }

    /// The columns at these positions of the schema, in this order.
    ///
    /// # Panics
    /// If the schema has no such column.
    pub(crate) fn of(schema: &Schema, columns: Arc<[usize]>) -> Projection {
        let key_columns = schema.key_columns();
        assert!(columns.iter().all(|&column| column < schema.columns().len()), "columns of the schema");
        let needs_key = columns.iter().any(|&column| column < key_columns);
        let needs_row = columns.iter().any(|&column| column >= key_columns);
        let is_in_order = columns.iter().enumerate().all(|(position, &column)| position == column);
        Projection { columns, needs_key, needs_row, is_in_order }
    }

    /// Positions in the schema.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether they are the first columns of the schema, in its order.
    #[inline]
    pub(crate) fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// Whether a key column is among them.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.needs_key
    }

    /// Whether another column is among them: if not, no row has to be fetched.
    #[must_use]
    pub fn needs_row(&self) -> bool {
        self.needs_row
    }
}
