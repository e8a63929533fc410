//! Values in JSON.
//!
//! | type | in JSON |
//! |---|---|
//! | bool | `true`, `false` |
//! | integers | a number, of all its digits |
//! | f32, f64 | a number; `"NaN"`, `"inf"`, `"-inf"` as strings |
//! | decimal, date, timestamp, binary | a string, as text elsewhere |
//! | string | a string |
//! | null | `null` |
//!
//! Numbers are read from their digits, never through a float, so a decimal may be a number too.

use std::io::{self, Write};

use nyala::{Type, Value};
use serde_json::value::RawValue;

use super::{BinaryText, Owned, parse, show};

/// Writes the value.
pub(crate) fn write_json(out: &mut dyn Write, value: Value<'_>, binary: BinaryText) -> io::Result<()> {
    match value {
        Value::Null => out.write_all(b"null"),
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) => write!(out, "{value}"),
        Value::F32(number) if number.is_finite() => out.write_all(show(value, binary).as_bytes()),
        Value::F64(number) if number.is_finite() => out.write_all(show(value, binary).as_bytes()),
        _ => Ok(serde_json::to_writer(out, &*show(value, binary))?),
    }
}

/// Reads a field of JSON as a value of type `ty`; `None` if it is null.
pub(crate) fn from_json(raw: &RawValue, ty: Type) -> Result<Option<Owned>, String> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => {
            let text: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
            match ty {
                Type::Bool => Err(format!("{text:?} is a string, and no {ty}")),
                _ => parse(&text, ty).map(Some),
            }
        }
        Some(b'{' | b'[') => Err(format!("an object or a list is no {ty}")),
        _ => match ty {
            Type::String | Type::Binary | Type::Date | Type::Timestamp => {
                Err(format!("{text} is no {ty}: give it as a string"))
            }
            Type::Decimal { .. } if text.contains(['e', 'E']) => {
                Err(format!("{text} is no {ty}: give its digits, without an exponent"))
            }
            _ => parse(text, ty).map(Some),
        },
    }
}
