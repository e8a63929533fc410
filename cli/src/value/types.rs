//! The types of columns as text: `u32`, `decimal(9, 2)`, `string?` for one that can be null, `timestamp:desc` for a key
//! that sorts from the greatest to the least.

use nyala::{ColumnType, Type};

/// A column as `--type NAME=TYPE` gives it.
#[derive(Clone, Debug)]
pub(crate) struct ColumnSpec {
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
}

impl std::str::FromStr for ColumnSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnSpec, String> {
        let (name, ty) = text.rsplit_once('=').ok_or("give it as NAME=TYPE, such as price=decimal(9,2)")?;
        Ok(ColumnSpec { name: name.to_owned(), ty: parse_column_type(ty)? })
    }
}

/// Reads a type.
pub(crate) fn parse_column_type(text: &str) -> Result<ColumnType, String> {
    let mut plain = text.trim();
    let mut nullable = false;
    let mut descending = false;
    loop {
        if let Some(rest) = plain.strip_suffix('?') {
            (plain, nullable) = (rest, true);
        } else if let Some(rest) = plain.strip_suffix(":desc") {
            (plain, descending) = (rest, true);
        } else {
            break;
        }
    }
    let ty = match plain.to_ascii_lowercase().as_str() {
        "bool" => Type::Bool,
        "i8" => Type::I8,
        "i16" => Type::I16,
        "i32" => Type::I32,
        "i64" => Type::I64,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "date" => Type::Date,
        "timestamp" => Type::Timestamp,
        "string" => Type::String,
        "binary" => Type::Binary,
        other => decimal(other).ok_or_else(|| {
            format!(
                "{text:?} is no type: there are bool, i8 to i64, u8 to u64, f32, f64, decimal(precision,scale), \
                 date, timestamp, string and binary, with ? behind those that can be null"
            )
        })?,
    };
    Ok(ColumnType { ty, nullable, descending })
}

fn decimal(text: &str) -> Option<Type> {
    let inner = text.strip_prefix("decimal(")?.strip_suffix(')')?;
    let (precision, scale) = inner.split_once(',')?;
    let ty = Type::Decimal { precision: precision.trim().parse().ok()?, scale: scale.trim().parse().ok()? };
    ty.is_valid().then_some(ty)
}
