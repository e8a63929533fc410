//! The columns that an update changes, as bytes in a batch until the row is known that they change.
//!
//! For each: the index of the value column (varint), then the value: a tag and its bytes. Only in memory, never in
//! the log.

use codec::{Reader, SchemaVersion, put_varint};
use encoded_key::{Date, Decimal, Timestamp, Value};

use crate::error::{Error, ErrorKind};
use crate::row::column_is_gone;
use crate::schema::Schema;

#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    bytes: Vec<u8>,
}

impl Changes {
    /// Adds a change. Whether the value fits its column is checked here, at the door.
    pub(crate) fn set(&mut self, schema: &Schema, name: &str, value: Value<'_>) -> Result<(), Error> {
        let column = schema.find_column(name)?;
        let Some(value_column) = column.checked_sub(schema.key_columns()) else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("column {name:?} is part of the key, which an update cannot change"),
            ));
        };
        let described = &schema.columns()[column];
        let is_legal_null = described.nullable && matches!(value, Value::Null);
        if let (false, Err(misfit)) = (is_legal_null, value.fit(described.ty)) {
            return Err(Error::invalid(format!("column {name:?}: {misfit}")));
        }
        put_varint(&mut self.bytes, value_column as u64);
        put_value(&mut self.bytes, value);
        Ok(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the changes back; a later one for a column comes later.
pub(crate) fn read(bytes: &[u8]) -> Vec<(usize, Value<'_>)> {
    let mut reader = Reader::new(bytes);
    let mut changes = Vec::new();
    while reader.left() > 0 {
        let column = reader.varint().expect("written by `set`");
        changes.push((column as usize, take_value(&mut reader)));
    }
    changes
}

/// Names the changed columns as `newest` counts them; they were counted as in version `from`.
///
/// # Errors
/// `SchemaMismatch` if one of them was dropped since.
pub(crate) fn carry_over(
    changes: &mut [(usize, Value<'_>)],
    from: SchemaVersion,
    newest: &Schema,
) -> Result<(), Error> {
    let known = newest.value_columns_at(from).expect("a handle has a schema that the table has had");
    let values = &newest.columns()[newest.key_columns()..];
    for (column, _) in changes {
        let changed = known[*column];
        let now = values.iter().position(|column| column.id == changed.id);
        *column = now.ok_or_else(|| column_is_gone(&changed.name))?;
    }
    Ok(())
}

fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(value) => out.extend_from_slice(&[1, u8::from(value)]),
        Value::Int(value) => put_tagged(out, 2, &value.to_le_bytes()),
        Value::UInt(value) => put_tagged(out, 3, &value.to_le_bytes()),
        Value::F32(value) => put_tagged(out, 4, &value.to_bits().to_le_bytes()),
        Value::F64(value) => put_tagged(out, 5, &value.to_bits().to_le_bytes()),
        Value::Decimal(value) => {
            put_tagged(out, 6, &value.unscaled.to_le_bytes());
            out.push(value.scale);
        }
        Value::Date(value) => put_tagged(out, 7, &value.days().to_le_bytes()),
        Value::Timestamp(value) => put_tagged(out, 8, &value.micros().to_le_bytes()),
        Value::String(value) => put_sized(out, 9, value.as_bytes()),
        Value::Binary(value) => put_sized(out, 10, value),
    }
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn put_sized(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_value<'a>(reader: &mut Reader<'a>) -> Value<'a> {
    let mut take = || -> Result<Value<'a>, codec::ReadError> {
        Ok(match reader.u8()? {
            0 => Value::Null,
            1 => Value::Bool(reader.u8()? == 1),
            2 => Value::Int(i64::from_le_bytes(reader.array()?)),
            3 => Value::UInt(reader.u64()?),
            4 => Value::F32(f32::from_bits(reader.u32()?)),
            5 => Value::F64(f64::from_bits(reader.u64()?)),
            6 => {
                let unscaled = i128::from_le_bytes(reader.array()?);
                Value::Decimal(Decimal { unscaled, scale: reader.u8()? })
            }
            7 => Value::Date(Date::from_days(i32::from_le_bytes(reader.array()?))),
            8 => Value::Timestamp(Timestamp::from_micros(i64::from_le_bytes(reader.array()?))),
            9 => Value::String(std::str::from_utf8(reader.prefixed()?).expect("written from a str")),
            10 => Value::Binary(reader.prefixed()?),
            tag => unreachable!("`put_value` writes no tag {tag}"),
        })
    };
    take().expect("written by `put_value`")
}
