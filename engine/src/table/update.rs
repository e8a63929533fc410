//! An update of one row, column by column.

use std::fmt;

use super::Table;
use crate::batch::{Changes, Check};
use crate::error::Error;
use crate::record::Record;
use crate::value::AsValue;

/// A change of some columns of one row, being put together.
#[must_use = "an update does nothing until it is applied"]
pub struct Update<'t, K> {
    table: &'t Table,
    key: K,
    changes: Result<Changes, Error>,
}

impl<K> fmt::Debug for Update<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl<'t, K> Update<'t, K> {
    pub(super) fn new(table: &'t Table, key: K) -> Update<'t, K> {
        Update { table, key, changes: Ok(Changes::default()) }
    }
}

impl<K: Record> Update<'_, K> {
    /// Sets a column. A wrong name or type is told by [`Update::apply`].
    pub fn set(mut self, column: &str, value: impl AsValue) -> Self {
        if let Ok(changes) = &mut self.changes
            && let Err(error) = changes.set(&self.table.core.schema, column, value.as_value())
        {
            self.changes = Err(error);
        }
        self
    }

    /// Writes the change. Columns that were not set keep their values.
    ///
    /// # Errors
    /// `MissingRow` if the key is absent; `InvalidArgument` for a wrong column or value; else as for
    /// [`Table::upsert`].
    pub fn apply(self) -> Result<(), Error> {
        let changes = self.changes?;
        self.table
            .write(|core, table, buffer| buffer.update(core, table, &self.key, &changes, Check::Live))
            .map(|_| ())
    }
}
