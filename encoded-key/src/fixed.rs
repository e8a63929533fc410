//! The columns of a fixed width: their bytes, written and read.
//!
//! | type | bytes, ascending |
//! |---|---|
//! | bool | 1: `00` false, `01` true |
//! | u8, u16, u32, u64 | 1, 2, 4, 8: big-endian |
//! | i8, i16, i32, i64 | the same, with the sign bit flipped |
//! | f32, f64 | 4, 8: the bits big-endian; positive: the sign bit flipped; negative: all bits flipped |
//! | decimal(p, s) | the unscaled number like an i32 if p <= 9, like an i64 if p <= 18, else like an i128 |
//! | date | days since 1970-01-01, like an i32 |
//! | timestamp | microseconds since 1970-01-01T00:00:00Z, like an i64 |
//!
//! In a descending column every bit of that is flipped.
//!
//! The order of floats is IEEE 754's totalOrder, that of [`f64::total_cmp`]:
//! -NaN < -infinity < negative numbers < -0.0 < +0.0 < positive numbers < +infinity < +NaN, and NaNs among themselves
//! by their payload. Every bit pattern is a value of its own and comes back as it was, so two keys are equal exactly if
//! their floats have the same bits.
//!
//! Invariant: bytes that decode are the bytes that encoding the value gives.

use crate::sink::Sink;
use crate::value::widen;
use crate::{Date, Decimal, Misfit, Timestamp, Type, Value};

/// Appends a value that is neither string nor binary, by the rule of [`Value::fit`]. Nothing is appended on an error.
// By reference all the way: a value is large, and copies of it cost more than the encoding.
#[inline]
pub(crate) fn encode<S: Sink>(
    out: &mut S,
    ty: Type,
    descending: bool,
    value: &Value<'_>,
) -> Result<(), Misfit> {
    let flip = if descending { u64::MAX } else { 0 };
    match (ty, value) {
        (Type::I8, _) => {
            put::<1, S>(out, flip ^ flip_sign(value.signed(ty, i8::MIN.into(), i8::MAX.into())?, 1))
        }
        (Type::I16, _) => {
            put::<2, S>(out, flip ^ flip_sign(value.signed(ty, i16::MIN.into(), i16::MAX.into())?, 2))
        }
        (Type::I32, _) => {
            put::<4, S>(out, flip ^ flip_sign(value.signed(ty, i32::MIN.into(), i32::MAX.into())?, 4))
        }
        (Type::I64, _) => put::<8, S>(out, flip ^ flip_sign(value.signed(ty, i64::MIN, i64::MAX)?, 8)),
        (Type::U8, _) => put::<1, S>(out, flip ^ value.unsigned(ty, u8::MAX.into())?),
        (Type::U16, _) => put::<2, S>(out, flip ^ value.unsigned(ty, u16::MAX.into())?),
        (Type::U32, _) => put::<4, S>(out, flip ^ value.unsigned(ty, u32::MAX.into())?),
        (Type::U64, _) => put::<8, S>(out, flip ^ value.unsigned(ty, u64::MAX)?),
        (Type::Bool, Value::Bool(value)) => put::<1, S>(out, flip ^ u64::from(*value)),
        (Type::F32, Value::F32(value)) => put::<4, S>(out, flip ^ u64::from(sortable_f32(value.to_bits()))),
        (Type::F64, Value::F64(value)) => put::<8, S>(out, flip ^ sortable_f64(value.to_bits())),
        (Type::F64, Value::F32(value)) => put::<8, S>(out, flip ^ sortable_f64(widen(*value).to_bits())),
        (Type::Date, Value::Date(value)) => put::<4, S>(out, flip ^ flip_sign(value.days().into(), 4)),
        (Type::Timestamp, Value::Timestamp(value)) => put::<8, S>(out, flip ^ flip_sign(value.micros(), 8)),
        (Type::Decimal { precision, scale }, Value::Decimal(value)) => {
            let fitted = value.fitted(precision, scale).ok_or(Misfit::OutOfRange { expected: ty })?;
            match (ty.fixed_width(), i64::try_from(fitted.unscaled)) {
                (Some(4), Ok(unscaled)) => put::<4, S>(out, flip ^ flip_sign(unscaled, 4)),
                (Some(8), Ok(unscaled)) => put::<8, S>(out, flip ^ flip_sign(unscaled, 8)),
                _ => {
                    let word = fitted.unscaled.cast_unsigned() ^ SIGN_128;
                    out.extend(&(if descending { !word } else { word }).to_be_bytes());
                }
            }
        }
        _ => return Err(value.misfit(ty)),
    }
    Ok(())
}

/// Appends the low `N` bytes of `word`, big-endian.
#[inline]
fn put<const N: usize, S: Sink>(out: &mut S, word: u64) {
    out.extend(&word.to_be_bytes()[8 - N..]);
}

/// Reads a value of `ty` from exactly its bytes. What is wrong with them is given to `foreign`, which makes the error.
#[inline]
pub(crate) fn decode<E>(
    ty: Type,
    descending: bool,
    bytes: &[u8],
    foreign: impl FnOnce(&'static str) -> E,
) -> Result<Value<'static>, E> {
    let width = bytes.len();
    debug_assert_eq!(Some(width), ty.fixed_width());
    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        let word = u128::from_be_bytes(bytes);
        let unscaled = (if descending { !word } else { word } ^ SIGN_128).cast_signed();
        return decimal(ty, unscaled).ok_or_else(|| foreign(BEYOND_PRECISION)).map(Value::Decimal);
    }
    let word = read_word(bytes);
    let word = if descending { !word & (u64::MAX >> (64 - 8 * width)) } else { word };
    Ok(match ty {
        Type::Bool if word <= 1 => Value::Bool(word == 1),
        Type::Bool => return Err(foreign("a bool that is neither 0 nor 1")),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Value::UInt(word),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => Value::Int(unflip_sign(word, width)),
        Type::F32 => {
            let word = u32::try_from(word).expect("an f32 is 4 bytes wide");
            Value::F32(f32::from_bits(unsortable_f32(word)))
        }
        Type::F64 => Value::F64(f64::from_bits(unsortable_f64(word))),
        Type::Date => {
            let days = i32::try_from(unflip_sign(word, width)).expect("a date is 4 bytes wide");
            Value::Date(Date::from_days(days))
        }
        Type::Timestamp => Value::Timestamp(Timestamp::from_micros(unflip_sign(word, width))),
        Type::Decimal { .. } => match decimal(ty, unflip_sign(word, width).into()) {
            Some(value) => Value::Decimal(value),
            None => return Err(foreign(BEYOND_PRECISION)),
        },
        Type::String | Type::Binary => unreachable!("a fixed-width column is none of text"),
    })
}

const BEYOND_PRECISION: &str = "a decimal beyond its precision";

/// `None` if the digits are too many.
fn decimal(ty: Type, unscaled: i128) -> Option<Decimal> {
    let Type::Decimal { precision, scale } = ty else { unreachable!("only decimals come here") };
    let value = Decimal { unscaled, scale };
    value.fits_precision(precision).then_some(value)
}

const SIGN_128: u128 = 1 << 127;

/// The low `8 * width` bits count; those above are left over from the sign.
#[inline]
fn flip_sign(value: i64, width: usize) -> u64 {
    value.cast_unsigned() ^ (1 << (8 * width - 1))
}

/// Undoes [`flip_sign`] on a word of `width` bytes, and extends the sign.
#[inline]
fn unflip_sign(word: u64, width: usize) -> i64 {
    let unused = 64 - 8 * width;
    ((word ^ (1 << (8 * width - 1))) << unused).cast_signed() >> unused
}

#[inline]
fn sortable_f32(bits: u32) -> u32 {
    if bits >> 31 == 1 { !bits } else { bits ^ (1 << 31) }
}

#[inline]
fn unsortable_f32(word: u32) -> u32 {
    if word >> 31 == 1 { word ^ (1 << 31) } else { !word }
}

#[inline]
fn sortable_f64(bits: u64) -> u64 {
    if bits >> 63 == 1 { !bits } else { bits ^ (1 << 63) }
}

#[inline]
fn unsortable_f64(word: u64) -> u64 {
    if word >> 63 == 1 { word ^ (1 << 63) } else { !word }
}

/// 1, 2, 4 or 8 bytes, big-endian.
#[inline]
fn read_word(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
        _ => u64::from_be_bytes(bytes.try_into().expect("a fixed width is 1, 2, 4, 8 or 16")),
    }
}
