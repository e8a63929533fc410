//! Values as text: what a person types becomes the exact value of a column, and back.
//!
//! Owns [`Owned`], a value that borrows nothing. Never rounds, cuts or guesses: what does not fit is refused.
//! Invariant: what `show` writes, `parse` reads as the same value.

mod float;
mod json;
mod parse;
mod show;
mod time;
mod types;

use nyala::{AsValue, Value};

pub(crate) use json::{from_json, write_json};
pub(crate) use parse::{parse, parse_hex};
pub(crate) use show::{BinaryText, escape_controls, hex, show};
pub(crate) use time::{parse_date, parse_timestamp};
pub(crate) use types::{ColumnSpec, parse_column_type};

/// A value that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    /// Whatever has no bytes of its own.
    Fixed(Value<'static>),
    /// Text.
    String(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl Owned {
    pub(crate) const NULL: Owned = Owned::Fixed(Value::Null);
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Owned {
        match value {
            Value::String(text) => Owned::String(text.to_owned()),
            Value::Binary(bytes) => Owned::Binary(bytes.to_owned()),
            Value::Null => Owned::Fixed(Value::Null),
            Value::Bool(value) => Owned::Fixed(Value::Bool(value)),
            Value::Int(value) => Owned::Fixed(Value::Int(value)),
            Value::UInt(value) => Owned::Fixed(Value::UInt(value)),
            Value::F32(value) => Owned::Fixed(Value::F32(value)),
            Value::F64(value) => Owned::Fixed(Value::F64(value)),
            Value::Decimal(value) => Owned::Fixed(Value::Decimal(value)),
            Value::Date(value) => Owned::Fixed(Value::Date(value)),
            Value::Timestamp(value) => Owned::Fixed(Value::Timestamp(value)),
        }
    }
}

impl AsValue for Owned {
    fn as_value(&self) -> Value<'_> {
        match self {
            Owned::Fixed(value) => *value,
            Owned::String(text) => Value::String(text),
            Owned::Binary(bytes) => Value::Binary(bytes),
        }
    }
}

/// The values of a record, borrowed.
pub(crate) fn borrow(values: &[Owned]) -> Vec<Value<'_>> {
    values.iter().map(Owned::as_value).collect()
}

#[cfg(test)]
mod tests;
