//! Rows and keys as a person reads them.

use crate::error::Result;
use crate::schema::Schema;
use encoded_key::Value;
use std::fmt::{self, Write as _};

/// Writes `(name: value, ...)`; a value that cannot be read shows why, since a dump must not stop at it.
pub(crate) fn write_row<'a>(
    f: &mut fmt::Formatter<'_>,
    names: impl Iterator<Item = &'a str>,
    value: impl Fn(usize) -> Result<Value<'a>>,
) -> fmt::Result {
    f.write_str("(")?;
    for (position, name) in names.enumerate() {
        let comma = if position > 0 { ", " } else { "" };
        write!(f, "{comma}{name}: ")?;
        match value(position) {
            Ok(value) => write!(f, "{value}")?,
            Err(error) => write!(f, "<{error}>")?,
        }
    }
    f.write_str(")")
}

/// An encoded key as text, for errors if the options allow it: `(17, "cpu")`. Bytes that are no key of this schema
/// are shown as they are.
pub(crate) fn show_key(schema: &Schema, key: &[u8]) -> String {
    let mut text = String::from("(");
    let mut scratch = Vec::new();
    for column in 0..schema.key_columns() {
        match encoded_key::decode_column(schema.key_layout(), key, column, &mut scratch) {
            Ok(value) => {
                let comma = if column > 0 { ", " } else { "" };
                write!(text, "{comma}{value}").expect("writing to a string cannot fail");
            }
            Err(_) => return format!("{}", Value::Binary(key)),
        }
    }
    text.push(')');
    text
}
