//! Numbers of fixed width in a row, little-endian.
//!
//! | type | bytes |
//! |---|---|
//! | bool | 1: 0 or 1 |
//! | i8 to i64, u8 to u64, f32, f64 | their own 1 to 8 |
//! | decimal | the unscaled integer in 4, 8 or 16 bytes, for a precision up to 9, 18 or 38 |
//! | date | 4: days since 1970-01-01 |
//! | timestamp | 8: microseconds since 1970-01-01 00:00 UTC |
//!
//! Which value fits which column is the business of [`Value::fit`].

use encoded_key::{Date, Decimal, Misfit, Timestamp, Type, Value};

/// Writes a value, not null, to the `ty.fixed_width()` bytes of `out`.
#[inline]
pub(super) fn encode(ty: Type, value: Value<'_>, out: &mut [u8]) -> Result<(), Misfit> {
    // A number that fits its type loses nothing when its upper bytes are cut off: they repeat the sign.
    let width = out.len();
    match value.fit(ty)? {
        Value::Bool(truth) => out.copy_from_slice(&[u8::from(truth)]),
        Value::Int(number) => out.copy_from_slice(&number.to_le_bytes()[..width]),
        Value::UInt(number) => out.copy_from_slice(&number.to_le_bytes()[..width]),
        Value::F32(number) => out.copy_from_slice(&number.to_le_bytes()),
        Value::F64(number) => out.copy_from_slice(&number.to_le_bytes()),
        Value::Decimal(decimal) => out.copy_from_slice(&decimal.unscaled.to_le_bytes()[..width]),
        Value::Date(date) => out.copy_from_slice(&date.days().to_le_bytes()),
        Value::Timestamp(time) => out.copy_from_slice(&time.micros().to_le_bytes()),
        Value::Null | Value::String(_) | Value::Binary(_) => {
            unreachable!("no value of a column of fixed width")
        }
    }
    Ok(())
}

/// Reads the `ty.fixed_width()` bytes that [`encode`] wrote; `None` if it can't have written them.
#[inline]
pub(super) fn decode(ty: Type, bytes: &[u8]) -> Option<Value<'static>> {
    macro_rules! number {
        ($number:ty) => {
            <$number>::from_le_bytes(bytes.try_into().ok()?)
        };
    }
    Some(match ty {
        Type::Bool => Value::Bool(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        Type::I8 => Value::Int(number!(i8).into()),
        Type::I16 => Value::Int(number!(i16).into()),
        Type::I32 => Value::Int(number!(i32).into()),
        Type::I64 => Value::Int(number!(i64)),
        Type::U8 => Value::UInt(number!(u8).into()),
        Type::U16 => Value::UInt(number!(u16).into()),
        Type::U32 => Value::UInt(number!(u32).into()),
        Type::U64 => Value::UInt(number!(u64)),
        Type::F32 => Value::F32(number!(f32)),
        Type::F64 => Value::F64(number!(f64)),
        Type::Decimal { scale, .. } => {
            let unscaled = match bytes.len() {
                4 => number!(i32).into(),
                8 => number!(i64).into(),
                _ => number!(i128),
            };
            // Checks the precision too.
            Value::Decimal(Decimal { unscaled, scale }).fit(ty).ok()?
        }
        Type::Date => Value::Date(Date::from_days(number!(i32))),
        Type::Timestamp => Value::Timestamp(Timestamp::from_micros(number!(i64))),
        Type::String | Type::Binary => return None,
    })
}

/// Reads a value, not null, from the bytes that it has in a row, whatever its type; `None` if no value has these bytes.
pub(crate) fn decode_value(ty: Type, bytes: &[u8]) -> Option<Value<'_>> {
    match ty {
        Type::String => std::str::from_utf8(bytes).ok().map(Value::String),
        Type::Binary => Some(Value::Binary(bytes)),
        _ if ty.fixed_width() == Some(bytes.len()) => decode(ty, bytes),
        _ => None,
    }
}
