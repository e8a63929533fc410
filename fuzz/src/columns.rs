//! Columns and values that an input chooses.

use encoded_key::{ColumnType, DECIMAL_PRECISION_MAX, Date, Decimal, Timestamp, Type, Value};

use crate::input::Input;

/// A column: its type (1 byte), flags (1: nullable, 2: descending), and for a decimal precision and scale (1 each).
pub fn column(input: &mut Input<'_>) -> ColumnType {
    let (number, flags) = (input.u8(), input.u8());
    let ty = match number % 16 {
        0 => Type::Bool,
        1 => Type::I8,
        2 => Type::I16,
        3 => Type::I32,
        4 => Type::I64,
        5 => Type::U8,
        6 => Type::U16,
        7 => Type::U32,
        8 => Type::U64,
        9 => Type::F32,
        10 => Type::F64,
        11 => {
            let precision = input.u8() % DECIMAL_PRECISION_MAX + 1;
            Type::Decimal { precision, scale: input.u8() % (precision + 1) }
        }
        12 => Type::Date,
        13 => Type::Timestamp,
        14 => Type::String,
        _ => Type::Binary,
    };
    ColumnType { ty, nullable: flags & 1 != 0, descending: flags & 2 != 0 }
}

/// A value for a column of this type, most often one that fits.
pub fn value<'a>(input: &mut Input<'a>, column: ColumnType) -> Value<'a> {
    if column.nullable && input.u8() & 1 != 0 {
        return Value::Null;
    }
    match column.ty {
        Type::Bool => Value::Bool(input.u8() & 1 != 0),
        Type::I8 => Value::Int(i64::from(input.u8().cast_signed())),
        Type::I16 => Value::Int(i64::from(input.u16().cast_signed())),
        Type::I32 => Value::Int(i64::from(input.u32().cast_signed())),
        Type::I64 => Value::Int(input.u64().cast_signed()),
        Type::U8 => Value::UInt(input.u8().into()),
        Type::U16 => Value::UInt(input.u16().into()),
        Type::U32 => Value::UInt(input.u32().into()),
        Type::U64 => Value::UInt(input.u64()),
        Type::F32 => Value::F32(f32::from_bits(input.u32())),
        Type::F64 => Value::F64(f64::from_bits(input.u64())),
        Type::Decimal { precision, scale } => {
            let unscaled = i128::from_le_bytes(input.array());
            let bound = 10i128.pow(u32::from(precision));
            Value::Decimal(Decimal { unscaled: unscaled % bound, scale })
        }
        Type::Date => Value::Date(Date::from_days(input.u32().cast_signed())),
        Type::Timestamp => Value::Timestamp(Timestamp::from_micros(input.u64().cast_signed())),
        Type::String => Value::String(text(input.short_bytes())),
        Type::Binary => Value::Binary(input.short_bytes()),
    }
}

/// The longest front of `bytes` that is text.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("valid up to here"),
    }
}
