//! Structs as rows: what `derive(Record)` and `derive(FromRow)` implement.

use super::Record;
use super::shape::{ColumnShape, Shape};
use crate::error::Result;
use crate::row::RowRef;
use encoded_key::Value;

/// A struct that is a row of a table: its columns have names and types. Derive it with
/// [`derive(Record)`](macro@crate::Record).
///
/// [`Schema::of`](crate::Schema::of) gives the schema to make or open a table with. Where such a record is written, its
/// columns are compared with the table's, by name too: one that is not the table's is refused with
/// [`ErrorKind::SchemaMismatch`](crate::ErrorKind::SchemaMismatch).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no struct with columns",
    note = "#[derive(nyala::Record)] on the struct makes it one"
)]
pub trait TypedRecord: Record {
    /// The columns, the key's first. [`Record::value`] gives the values in this order.
    const COLUMNS: &'static [ColumnShape];

    /// How many of the columns, from the first on, are the key.
    const KEY_COLUMNS: usize;

    /// The same, checked.
    const SHAPE: &'static Shape = &Shape::new(Self::COLUMNS, Self::KEY_COLUMNS);
}

/// The key of a record: its first columns, to give wherever a key is asked for.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, KeyOf, Options, Record, Schema};
///
/// #[derive(Record)]
/// struct Reading {
///     #[nyala(key)]
///     sensor: u32,
///     value: f64,
/// }
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let readings = engine.open_or_create_table("readings", Schema::of::<Reading>()?)?;
/// let reading = Reading { sensor: 7, value: 0.5 };
/// readings.upsert(&reading)?;
/// readings.delete(KeyOf(&reading))?;
/// assert!(!readings.exists(KeyOf(&reading))?);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyOf<'r, R>(pub &'r R);

impl<R: TypedRecord> KeyOf<'_, R> {
    const SHAPE: &'static Shape = &R::SHAPE.key();
}

impl<R: TypedRecord> Record for KeyOf<'_, R> {
    #[inline]
    fn columns(&self) -> usize {
        R::KEY_COLUMNS
    }

    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>> {
        assert!(index < R::KEY_COLUMNS, "column {index} of a key of {}", R::KEY_COLUMNS);
        self.0.value(index)
    }

    #[inline]
    fn shape(&self) -> Option<&'static Shape> {
        Some(Self::SHAPE)
    }
}

/// A type that rows can be read as. Derive it with [`derive(FromRow)`](macro@crate::FromRow), or
/// [`derive(Record)`](macro@crate::Record).
///
/// A type that borrows, such as a struct with a `&str`, borrows from the row; nothing is copied. One that does not can
/// be read from any row: `T: for<'r> FromRow<'r>`.
///
/// ```
/// use nyala::{FromRow, Result, Row, RowRef};
///
/// struct Hottest(f64);
///
/// impl FromRow<'_> for Hottest {
///     const FIELDS: &'static [&'static str] = &["max", "min"];
///
///     fn from_row(row: RowRef<'_>) -> Result<Hottest> {
///         Ok(Hottest(f64::max(row.get("max")?, row.get("min")?)))
///     }
/// }
/// # fn example(row: Row) -> Result<()> {
/// let Hottest(degrees) = row.to()?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "rows cannot be read as `{Self}`",
    note = "#[derive(nyala::FromRow)] or #[derive(nyala::Record)] on a struct makes it possible; a struct that borrows is \
            read with `row.to()`, and cannot outlive the row"
)]
pub trait FromRow<'r>: Sized {
    /// The names of the columns that it reads.
    const FIELDS: &'static [&'static str];

    /// Reads it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column if the row lacks one or
    /// its value is of another type; [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if its bytes are damaged.
    fn from_row(row: RowRef<'r>) -> Result<Self>;
}
