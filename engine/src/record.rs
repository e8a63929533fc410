//! Records: what a user gives as a row or a key.
//!
//! Owns the one door from Rust values to key and row bytes ([`encode_record`], [`encode_key`]): every check of types,
//! nulls, sizes and counts happens here or below, and its errors name the column.
//!
//! Invariant: encoding writes straight to the tail of the buffer that it is given, allocates nothing else, and leaves
//! that buffer as it was if anything fails.

mod builder;
#[doc(hidden)]
pub mod generated;
mod impls;
mod origin;
#[cfg(all(doctest, feature = "derive"))]
mod refused;
mod shape;
#[cfg(test)]
mod tests;
mod typed;

#[cfg(doc)]
use crate::Row;
use crate::error::{Error, Result};
use crate::row::RowWriter;
use crate::schema::Schema;
pub use builder::RowBuilder;
use encoded_key::{KeyBuilder, KeyProbe, Value};
pub use origin::Origin;
pub(crate) use shape::Fingerprint;
pub use shape::{ColumnShape, Shape};
use std::cell::Cell;
use std::ops::Range;
pub use typed::{FromRow, KeyOf, TypedRecord};

/// Values in the order of a schema's columns: a whole row, or the columns of a key.
///
/// A record that knows the names of its columns, as structs, a [`RowBuilder`] and rows that were read do, is refused
/// with [`ErrorKind::SchemaMismatch`](crate::ErrorKind::SchemaMismatch) where the table has others at their places: a
/// row of columns that were asked for in another order, say, or one from before a column was dropped. To write it
/// nevertheless, position by position, give its [values](Row::to_values).
///
/// Structs become records by [`derive(Record)`](macro@crate::Record). Tuples of up to 24 values are records, as are
/// slices and vectors of [`Value`], [`RowBuilder`], rows that were read, references to records, and a bare value, which
/// stands for a record of one column.
///
/// ```
/// use nyala::{Record, Value};
///
/// fn values(record: &impl Record) -> Vec<Value<'_>> {
///     (0..record.columns()).map(|column| record.value(column).unwrap()).collect()
/// }
/// assert_eq!(values(&(17, "cpu", None::<f64>)), [Value::Int(17), Value::String("cpu"), Value::Null]);
/// assert_eq!(values(&"cpu"), [Value::String("cpu")]);
/// ```
pub trait Record {
    /// How many values there are.
    fn columns(&self) -> usize;

    /// The value of the column at `index`, counted from 0.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column if it has no value.
    ///
    /// # Panics
    /// If `index` is not below [`Record::columns`].
    fn value(&self, index: usize) -> Result<Value<'_>>;

    /// Calls `f` with each value, in order, until one fails.
    ///
    /// # Errors
    /// The first of `f`, or of [`Record::value`].
    fn for_each(&self, f: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        (0..self.columns()).try_for_each(|index| f(self.value(index)?))
    }

    /// The columns that the record was made for, if it knows them: where it is written they are compared with the
    /// table's. A tuple does not know.
    #[inline]
    fn shape(&self) -> Option<&'static Shape> {
        None
    }

    /// The columns that the values are of, if the record knows them since it was made: a [`RowBuilder`] and rows that
    /// were read do. Where it is written their names are compared with the table's, one by one.
    #[inline]
    fn origin(&self) -> Option<Origin<'_>> {
        None
    }
}

/// Writes a whole row, its key and then its row bytes, to the tail of `out`, and tells where they lie.
///
/// # Errors
/// `InvalidArgument` that names the column: a value of another type or that doesn't fit, a null where none can be, too
/// few or too many values, a key or a row that is too long. `SchemaMismatch` if the record was made for other columns.
/// `out` is as before then.
#[inline]
pub(crate) fn encode_record<R: Record + ?Sized>(
    schema: &Schema,
    record: &R,
    out: &mut Vec<u8>,
) -> Result<(Range<usize>, Range<usize>)> {
    if let Some(shape) = record.shape() {
        shape.check_row(schema)?;
    }
    if let Some(origin) = record.origin() {
        origin.check(schema)?;
    }
    let columns = schema.columns().len();
    if record.columns() != columns {
        return Err(wrong_count(schema, columns, record.columns()));
    }
    let start = out.len();
    let key = put_key(schema, record, out)?;
    match put_row(schema, record, out) {
        Ok(row) => Ok((key, row)),
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// Calls `read` with the encoded key, which lies in memory of this thread's: readers share nothing for it.
///
/// # Errors
/// As [`encode_key`], and those of `read`.
pub(crate) fn with_key<T>(
    schema: &Schema,
    key: &impl Record,
    read: impl FnOnce(&KeyProbe<'_>) -> Result<T>,
) -> Result<T> {
    thread_local! {
        static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // A thread that is ending has it no more, and may read nevertheless.
    let mut bytes = KEY.try_with(Cell::take).unwrap_or_default();
    bytes.clear();
    let result = encode_key(schema, key, &mut bytes).and_then(|range| read(&KeyProbe::new(&bytes[range])));
    if bytes.capacity() <= KEY_BYTES_KEPT {
        let _ = KEY.try_with(|kept| kept.set(bytes));
    }
    result
}

/// A buffer of keys that grew beyond this is not kept.
const KEY_BYTES_KEPT: usize = 1 << 17;

/// Writes a key to the tail of `out`, and tells where it lies. The record has the key columns only.
///
/// # Errors
/// Those of [`encode_record`].
#[inline]
pub(crate) fn encode_key<R: Record + ?Sized>(
    schema: &Schema,
    record: &R,
    out: &mut Vec<u8>,
) -> Result<Range<usize>> {
    if let Some(shape) = record.shape() {
        shape.check_key(schema)?;
    }
    if let Some(origin) = record.origin() {
        origin.check(schema)?;
    }
    if record.columns() != schema.key_columns() {
        return Err(wrong_count(schema, schema.key_columns(), record.columns()));
    }
    put_key(schema, record, out)
}

#[inline]
fn put_key<R: Record + ?Sized>(schema: &Schema, record: &R, out: &mut Vec<u8>) -> Result<Range<usize>> {
    let mut key = KeyBuilder::new(schema.key_layout(), out);
    for column in 0..schema.key_columns() {
        key.push(record.value(column)?).map_err(|error| schema.key_error(column, error))?;
    }
    Ok(key.finish().expect("every key column was given a value"))
}

#[inline]
fn put_row<R: Record + ?Sized>(schema: &Schema, record: &R, out: &mut Vec<u8>) -> Result<Range<usize>> {
    let mut row = RowWriter::new(schema.row_layout(), out);
    for column in schema.key_columns()..schema.columns().len() {
        row.push(record.value(column)?)?;
    }
    row.finish()
}

#[cold]
fn wrong_count(schema: &Schema, expected: usize, found: usize) -> Error {
    let what = if expected == schema.columns().len() { "row" } else { "key" };
    let text = format!("a {what} of {expected} columns expected, {found} values given");
    Error::invalid(match schema.columns().get(found) {
        Some(column) if found < expected => format!("{text}: column {:?} has none", column.name),
        _ => text,
    })
}
