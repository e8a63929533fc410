//! Owned values: what predicates hold.

use encoded_key::{Date, Decimal, Timestamp, Value};

/// An owned value.
#[derive(Clone, Debug)]
pub(super) enum Literal {
    Null,
    Int(i64),
    UInt(u64),
    Bool(bool),
    F32(f32),
    F64(f64),
    Decimal(Decimal),
    Date(Date),
    Timestamp(Timestamp),
    String(Box<str>),
    Binary(Box<[u8]>),
}

impl Literal {
    pub(super) fn new(value: Value<'_>) -> Literal {
        match value {
            Value::Null => Literal::Null,
            Value::Bool(value) => Literal::Bool(value),
            Value::Int(value) => Literal::Int(value),
            Value::UInt(value) => Literal::UInt(value),
            Value::F32(value) => Literal::F32(value),
            Value::F64(value) => Literal::F64(value),
            Value::Decimal(value) => Literal::Decimal(value),
            Value::Date(value) => Literal::Date(value),
            Value::Timestamp(value) => Literal::Timestamp(value),
            Value::String(value) => Literal::String(value.into()),
            Value::Binary(value) => Literal::Binary(value.into()),
        }
    }

    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::UInt(value) => Value::UInt(*value),
            Literal::F32(value) => Value::F32(*value),
            Literal::F64(value) => Value::F64(*value),
            Literal::Decimal(value) => Value::Decimal(*value),
            Literal::Date(value) => Value::Date(*value),
            Literal::Timestamp(value) => Value::Timestamp(*value),
            Literal::String(value) => Value::String(value),
            Literal::Binary(value) => Value::Binary(value),
        }
    }
}
