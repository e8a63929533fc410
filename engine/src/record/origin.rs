//! The columns that a record's values are of, known when it is made: those of a schema, or some of them.
//!
//! Owns the comparison of such a record with the table that it is given to. It is by name, since positions lie: rows of
//! chosen columns stand in the order that was asked for, and columns come and go.

use crate::error::{Error, ErrorKind, Result};
use crate::row::Projection;
use crate::schema::Schema;

/// Where the columns of a [`Record`](crate::Record) come from, if it knows: of a [`RowBuilder`](crate::RowBuilder) the
/// schema that it was made with, of a row that was read the table, and the columns that were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'r> {
    schema: &'r Schema,
    columns: Columns<'r>,
}

/// Which columns of the schema.
#[derive(Clone, Copy, Debug)]
enum Columns<'r> {
    /// So many, from the first on.
    First(usize),
    /// Those at these positions.
    At(&'r [usize]),
}

impl<'r> Origin<'r> {
    /// A record of the first columns of a schema.
    #[inline]
    pub(super) fn first(schema: &'r Schema, columns: usize) -> Origin<'r> {
        Origin { schema, columns: Columns::First(columns) }
    }

    /// A record of these columns of a schema.
    #[inline]
    pub(super) fn projected(schema: &'r Schema, projection: &'r Projection) -> Origin<'r> {
        let columns = projection.columns();
        let columns =
            if projection.is_in_order() { Columns::First(columns.len()) } else { Columns::At(columns) };
        Origin { schema, columns }
    }

    /// Checks that the values of a record are those of the first columns of `table`, as many as there are of both.
    ///
    /// # Errors
    /// `SchemaMismatch` that names the column.
    #[inline]
    pub(crate) fn check(&self, table: &Schema) -> Result<()> {
        // Names, types and order in one number: nearly always it is the table's own schema, or one like it.
        match self.columns {
            Columns::First(_) if self.schema.fingerprint() == table.fingerprint() => Ok(()),
            _ => self.check_names(table),
        }
    }

    /// Types are left to the values: one that doesn't fit is refused where it is written.
    #[cold]
    fn check_names(&self, table: &Schema) -> Result<()> {
        let columns = self.schema.columns();
        let (len, positions) = match self.columns {
            Columns::First(len) => (len, None),
            Columns::At(positions) => (positions.len(), Some(positions)),
        };
        for (place, column) in table.columns().iter().enumerate().take(len) {
            let given = &columns[positions.map_or(place, |positions| positions[place])].name;
            if *given != column.name {
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!(
                        "column {place} of the table is {:?}, where the record, which knows its columns, has {given:?}",
                        column.name
                    ),
                ));
            }
        }
        Ok(())
    }
}
