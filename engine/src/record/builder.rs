//! Building a record by column names.

use super::{Origin, Record};
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::value::AsValue;
use encoded_key::Value;
use std::fmt;
use std::ops::Range;

/// A row or a key that is filled column by column, in any order; see [`Schema::row`] and [`Schema::key`].
///
/// Columns that get no value have their default, or are null if they can be; else the record is refused. It owns its
/// values, and can be cleared and filled again without new memory.
///
/// ```
/// use nyala::{Schema, Type};
///
/// let schema = Schema::builder()
///     .key("id", Type::U64)
///     .column("name", Type::String)
///     .column("note", Type::String.nullable())
///     .build()
///     .unwrap();
/// let row = schema.row().set("name", "Ada").unwrap().set("id", 7).unwrap();
/// assert_eq!(format!("{row:?}"), r#"(id: 7, name: "Ada", note: null)"#);
/// assert!(schema.row().set("nmae", "Ada").is_err());
/// ```
#[derive(Clone)]
pub struct RowBuilder<'s> {
    schema: &'s Schema,
    slots: Vec<Slot>,
    /// The bytes of strings and binaries, one after the other.
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Slot {
    Missing,
    Scalar(Value<'static>),
    String(Range<usize>),
    Binary(Range<usize>),
}

impl<'s> RowBuilder<'s> {
    /// A record of the first `columns` columns.
    pub(crate) fn new(schema: &'s Schema, columns: usize) -> RowBuilder<'s> {
        RowBuilder { schema, slots: vec![Slot::Missing; columns], bytes: Vec::new() }
    }

    /// Gives a column its value and returns the builder, for chains.
    ///
    /// # Errors
    /// Those of [`RowBuilder::assign`].
    pub fn set(mut self, name: &str, value: impl AsValue) -> Result<RowBuilder<'s>> {
        self.assign(name, value)?;
        Ok(self)
    }

    /// Gives a column its value; a second value replaces the first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column: there is none of that
    /// name, it is not of the key if this is a key, or the value doesn't fit it.
    pub fn assign(&mut self, name: &str, value: impl AsValue) -> Result<()> {
        let index = self.schema.find_column(name)?;
        if index >= self.slots.len() {
            return Err(Error::invalid(format!("column {name:?} is not in the key")));
        }
        let column = &self.schema.columns()[index];
        let slot = match value.as_value() {
            Value::Null if column.nullable => Slot::Scalar(Value::Null),
            value => match value.fit(column.ty) {
                Ok(Value::String(text)) => Slot::String(self.put(text.as_bytes())),
                Ok(Value::Binary(bytes)) => Slot::Binary(self.put(bytes)),
                Ok(Value::Null) => Slot::Scalar(Value::Null),
                Ok(Value::Bool(value)) => Slot::Scalar(Value::Bool(value)),
                Ok(Value::Int(value)) => Slot::Scalar(Value::Int(value)),
                Ok(Value::UInt(value)) => Slot::Scalar(Value::UInt(value)),
                Ok(Value::F32(value)) => Slot::Scalar(Value::F32(value)),
                Ok(Value::F64(value)) => Slot::Scalar(Value::F64(value)),
                Ok(Value::Decimal(value)) => Slot::Scalar(Value::Decimal(value)),
                Ok(Value::Date(value)) => Slot::Scalar(Value::Date(value)),
                Ok(Value::Timestamp(value)) => Slot::Scalar(Value::Timestamp(value)),
                Err(misfit) => return Err(Error::invalid(format!("column {name:?}: {misfit}"))),
            },
        };
        self.slots[index] = slot;
        Ok(())
    }

    /// Forgets all values, and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::Missing);
        self.bytes.clear();
    }

    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

impl Record for RowBuilder<'_> {
    fn columns(&self) -> usize {
        self.slots.len()
    }

    fn value(&self, index: usize) -> Result<Value<'_>> {
        Ok(match &self.slots[index] {
            Slot::Scalar(value) => *value,
            Slot::String(range) => {
                let text = std::str::from_utf8(&self.bytes[range.clone()]);
                Value::String(text.expect("the range of a string that was put here whole"))
            }
            Slot::Binary(range) => Value::Binary(&self.bytes[range.clone()]),
            Slot::Missing => {
                let column = &self.schema.columns()[index];
                match column.default_value() {
                    Some(value) => value,
                    None if column.nullable => Value::Null,
                    None => return Err(Error::invalid(format!("no value for column {:?}", column.name))),
                }
            }
        })
    }

    #[inline]
    fn origin(&self) -> Option<Origin<'_>> {
        Some(Origin::first(self.schema, self.slots.len()))
    }
}

impl fmt::Debug for RowBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.schema.columns().iter().take(self.slots.len()).map(|column| &*column.name);
        crate::row::write_row(f, names, |position| self.value(position))
    }
}
