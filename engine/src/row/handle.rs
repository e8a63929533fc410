//! Handles of rows: owned ones that keep their batch alive, and borrowed ones.

use super::{Projection, RowBatch, display};
use crate::error::{Error, Result};
use crate::record::FromRow;
use crate::schema::Schema;
use crate::value::FromValue;
use codec::Version;
use encoded_key::Value;
use std::fmt;
use std::sync::Arc;

/// Names a column of a row: by its name, or by its position among the columns asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRef<'n> {
    /// By name.
    Name(&'n str),
    /// By position, counted from 0.
    Position(usize),
}

impl<'n> From<&'n str> for ColumnRef<'n> {
    fn from(name: &'n str) -> ColumnRef<'n> {
        ColumnRef::Name(name)
    }
}

impl<'n> From<&'n String> for ColumnRef<'n> {
    fn from(name: &'n String) -> ColumnRef<'n> {
        ColumnRef::Name(name)
    }
}

impl From<usize> for ColumnRef<'_> {
    fn from(position: usize) -> Self {
        ColumnRef::Position(position)
    }
}

/// A row, lent by a batch.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    batch: &'a RowBatch,
    index: usize,
}

impl<'a> RowRef<'a> {
    #[inline]
    pub(super) fn new(batch: &'a RowBatch, index: usize) -> RowRef<'a> {
        RowRef { batch, index }
    }

    /// How many columns it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batch.projection().columns().len()
    }

    /// Whether it has no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The schema that it was read in, and which columns of it the row has.
    #[inline]
    pub(crate) fn made_of(&self) -> (&'a Schema, &'a Projection) {
        (self.batch.schema(), self.batch.projection())
    }

    /// The names of its columns, in order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        let schema = self.batch.schema();
        self.batch.projection().columns().iter().map(|&column| &*schema.columns()[column].name)
    }

    /// The value of a column, as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the row has no such column,
    /// [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if its bytes are damaged.
    #[inline]
    pub fn value<'n>(&self, column: impl Into<ColumnRef<'n>>) -> Result<Value<'a>> {
        self.batch.value(self.index, self.find(column.into())?)
    }

    /// The value of a column, as the type asked for. Nothing is copied for `&str` and `&[u8]`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column if the row has none of
    /// that name or its value is not of that type; [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if its
    /// bytes are damaged.
    #[inline]
    pub fn get<'n, T: FromValue<'a>>(&self, column: impl Into<ColumnRef<'n>>) -> Result<T> {
        self.value_as(self.find(column.into())?)
    }

    /// Reads the row as a type: a struct with [`derive(Record)`](macro@crate::Record) or
    /// [`derive(FromRow)`](macro@crate::FromRow). Fields that borrow, such as a `&str`, are not copied.
    ///
    /// # Errors
    /// Those of [`FromRow::from_row`].
    #[inline]
    pub fn to<T: FromRow<'a>>(&self) -> Result<T> {
        T::from_row(*self)
    }

    /// The schema's column at `column`, which the row has.
    #[inline]
    pub(crate) fn value_as<T: FromValue<'a>>(&self, column: usize) -> Result<T> {
        T::from_value(self.batch.value(self.index, column)?).map_err(|error| {
            let column = &self.batch.schema().columns()[column];
            error.context(format_args!("column {:?} ({column})", column.name))
        })
    }

    /// The version that the row was written as: that of the operation that wrote it, which no other operation ever has.
    /// `None` for a row that a [transaction](crate::Transaction) reads and has written itself, and for nothing else: it
    /// has no version before the commit. Versions grow, with gaps; see [`Table::compare_and_set`].
    ///
    /// [`Table::compare_and_set`]: crate::Table::compare_and_set
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.batch.version(self.index)
    }

    /// All values, in the order of the columns.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if the bytes are damaged.
    pub fn to_values(&self) -> Result<Vec<Value<'a>>> {
        self.batch.projection().columns().iter().map(|&column| self.batch.value(self.index, column)).collect()
    }

    /// The position in the schema of the row's column called `name`, which is probably the row's column at `likely`.
    #[inline]
    pub(crate) fn column_called(&self, name: &str, likely: usize) -> Option<usize> {
        let columns = self.batch.projection().columns();
        match columns.get(likely) {
            Some(&column) if *self.batch.schema().columns()[column].name == *name => Some(column),
            _ => self.find(ColumnRef::Name(name)).ok(),
        }
    }

    /// The position in the schema of a column of the row.
    #[inline]
    fn find(&self, column: ColumnRef<'_>) -> Result<usize> {
        let columns = self.batch.projection().columns();
        match column {
            ColumnRef::Position(position) => match columns.get(position) {
                Some(&column) => Ok(column),
                None => Err(Error::invalid(format!("column {position} of a row of {}", columns.len()))),
            },
            ColumnRef::Name(name) => {
                let column = self.batch.schema().find_column(name)?;
                // Rows of all columns, the usual case, have each at its own position.
                let is_there = columns.get(column) == Some(&column) || columns.contains(&column);
                if is_there {
                    Ok(column)
                } else {
                    Err(Error::invalid(format!("column {name:?} was not asked for")))
                }
            }
        }
    }
}

/// A row that keeps its batch alive. Cheap to clone.
///
/// Rows that live long keep the other rows of their batch in memory; copy what is kept for long. Whether a row from
/// before an engine was closed is read afterwards makes no difference: it owns its bytes.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, Options, Schema, Type, Value};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("note", Type::String.nullable()).build()?;
/// let notes = engine.open_or_create_table("notes", schema)?;
/// notes.upsert((1, "peak"))?;
/// let row = notes.get((1,))?.expect("just written");
///
/// let note: Option<&str> = row.get("note")?; // By name; nothing is copied.
/// assert_eq!((note, row.get::<u64>(0)?), (Some("peak"), 1)); // By position.
/// assert_eq!(row.value("note")?, Value::String("peak"));
/// assert_eq!(row.to_string(), r#"(id: 1, note: "peak")"#);
/// assert!(row.get::<bool>("note").is_err() && row.get::<u64>("size").is_err());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Row {
    pub(super) batch: Arc<RowBatch>,
    index: usize,
}

impl Row {
    /// The row at `index` of `batch`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn new(batch: Arc<RowBatch>, index: usize) -> Row {
        assert!(index < batch.len(), "row {index} of a batch of {}", batch.len());
        Row { batch, index }
    }

    /// The same row, borrowed.
    #[must_use]
    #[inline]
    pub fn as_ref(&self) -> RowRef<'_> {
        RowRef { batch: &self.batch, index: self.index }
    }

    /// How many columns it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Whether it has no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_ref().is_empty()
    }

    /// The names of its columns, in order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &str> {
        self.as_ref().columns()
    }

    /// The value of a column, as it is.
    ///
    /// # Errors
    /// Those of [`RowRef::value`].
    #[inline]
    pub fn value<'n>(&self, column: impl Into<ColumnRef<'n>>) -> Result<Value<'_>> {
        self.as_ref().value(column)
    }

    /// The value of a column, as the type asked for.
    ///
    /// # Errors
    /// Those of [`RowRef::get`].
    #[inline]
    pub fn get<'a, 'n, T: FromValue<'a>>(&'a self, column: impl Into<ColumnRef<'n>>) -> Result<T> {
        self.as_ref().get(column)
    }

    /// Reads the row as a type: a struct with [`derive(Record)`](macro@crate::Record) or
    /// [`derive(FromRow)`](macro@crate::FromRow). Fields that borrow, such as a `&str`, borrow from this row.
    ///
    /// # Errors
    /// Those of [`FromRow::from_row`].
    #[inline]
    pub fn to<'a, T: FromRow<'a>>(&'a self) -> Result<T> {
        T::from_row(self.as_ref())
    }

    /// The version that the row was written as, if it has one yet; see [`RowRef::version`].
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.as_ref().version()
    }

    /// All values, in the order of the columns.
    ///
    /// # Errors
    /// Those of [`RowRef::to_values`].
    pub fn to_values(&self) -> Result<Vec<Value<'_>>> {
        self.as_ref().to_values()
    }
}

impl fmt::Display for RowRef<'_> {
    /// `(host: 17, note: "peak")`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display::write_row(f, self.columns(), |position| self.value(position))
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
