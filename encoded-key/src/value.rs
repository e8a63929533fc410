//! A value of a column, borrowed, and which values fit which columns.
//!
//! Owns the one rule for what a column takes ([`Value::fit`]) and the one order of values ([`Value::compare`]), which
//! the encoded bytes follow. Knows nothing of bytes.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use crate::{Date, Decimal, Timestamp, Type};

/// One value, borrowed from the user or from an encoded key.
///
/// Two values are equal if they are of the same variant and have the same content: floats by their bits (so that a NaN
/// equals itself, and -0.0 is not +0.0), decimals as numbers.
///
/// ```
/// use nyala_encoded_key::Value;
/// assert_eq!(Value::from(7u8), Value::UInt(7));
/// assert_eq!(Value::F64(f64::NAN), Value::F64(f64::NAN));
/// assert_eq!(Value::from(&[0xff, b'a'][..]).to_string(), r#"b"\xffa""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// No value. A key column never takes it.
    Null,
    /// For bool columns.
    Bool(bool),
    /// For any integer column that it fits.
    Int(i64),
    /// For any integer column that it fits.
    UInt(u64),
    /// For f32 and f64 columns.
    F32(f32),
    /// For f64 columns.
    F64(f64),
    /// For decimal columns, if no digit is lost.
    Decimal(Decimal),
    /// For date columns.
    Date(Date),
    /// For timestamp columns.
    Timestamp(Timestamp),
    /// For string columns.
    String(&'a str),
    /// For binary columns.
    Binary(&'a [u8]),
}

/// Why a value does not fit a column. Never contains the value.
///
/// ```
/// use nyala_encoded_key::{Type, Value};
/// let misfit = Value::Int(300).fit(Type::U8).unwrap_err();
/// assert_eq!(misfit.to_string(), "a number out of range for u8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Misfit {
    /// Null.
    #[error("null where a value is needed")]
    Null,
    /// A value of another kind.
    #[error("{expected} expected, {found} found")]
    WrongType {
        /// The column's type.
        expected: Type,
        /// What was given.
        found: &'static str,
    },
    /// A number that the column's type cannot hold exactly.
    #[error("a number out of range for {expected}")]
    OutOfRange {
        /// The column's type.
        expected: Type,
    },
}

impl<'a> Value<'a> {
    /// The value in the form that a column of type `ty` gives back: signed columns [`Value::Int`], unsigned ones
    /// [`Value::UInt`], f64 columns [`Value::F64`], decimal columns a decimal of their scale.
    ///
    /// Any integer that fits is taken by an integer column, an `F32` by an f64 column, and a decimal that can be
    /// rescaled exactly by a decimal column. Nothing else is converted.
    ///
    /// # Errors
    /// [`Misfit`] says why the column cannot take the value.
    ///
    /// ```
    /// use nyala_encoded_key::{Misfit, Type, Value};
    /// assert_eq!(Value::Int(7).fit(Type::U8), Ok(Value::UInt(7)));
    /// assert_eq!(Value::Int(-7).fit(Type::U8), Err(Misfit::OutOfRange { expected: Type::U8 }));
    /// assert_eq!(Value::Null.fit(Type::U8), Err(Misfit::Null));
    /// ```
    #[inline]
    pub fn fit(self, ty: Type) -> Result<Value<'a>, Misfit> {
        match ty {
            Type::I8 => self.signed(ty, i8::MIN.into(), i8::MAX.into()).map(Value::Int),
            Type::I16 => self.signed(ty, i16::MIN.into(), i16::MAX.into()).map(Value::Int),
            Type::I32 => self.signed(ty, i32::MIN.into(), i32::MAX.into()).map(Value::Int),
            Type::I64 => self.signed(ty, i64::MIN, i64::MAX).map(Value::Int),
            Type::U8 => self.unsigned(ty, u8::MAX.into()).map(Value::UInt),
            Type::U16 => self.unsigned(ty, u16::MAX.into()).map(Value::UInt),
            Type::U32 => self.unsigned(ty, u32::MAX.into()).map(Value::UInt),
            Type::U64 => self.unsigned(ty, u64::MAX).map(Value::UInt),
            Type::Decimal { precision, scale } => match self {
                Value::Decimal(value) => match value.fitted(precision, scale) {
                    Some(value) => Ok(Value::Decimal(value)),
                    None => Err(Misfit::OutOfRange { expected: ty }),
                },
                other => Err(other.misfit(ty)),
            },
            Type::F64 => match self {
                Value::F64(_) => Ok(self),
                Value::F32(value) => Ok(Value::F64(widen(value))),
                other => Err(other.misfit(ty)),
            },
            Type::Bool => self.only(ty, matches!(self, Value::Bool(_))),
            Type::F32 => self.only(ty, matches!(self, Value::F32(_))),
            Type::Date => self.only(ty, matches!(self, Value::Date(_))),
            Type::Timestamp => self.only(ty, matches!(self, Value::Timestamp(_))),
            Type::String => self.only(ty, matches!(self, Value::String(_))),
            Type::Binary => self.only(ty, matches!(self, Value::Binary(_))),
        }
    }

    /// The order of values within a column, which is the order of their encodings in an ascending key column: integers
    /// and decimals as numbers, floats by their total order, strings and binaries by their bytes. `None` if the two are
    /// of kinds that no column holds together, or if one is null.
    ///
    /// ```
    /// use nyala_encoded_key::Value;
    /// use std::cmp::Ordering;
    /// assert_eq!(Value::Int(-1).compare(Value::UInt(u64::MAX)), Some(Ordering::Less));
    /// assert_eq!(Value::F64(-0.0).compare(Value::F64(0.0)), Some(Ordering::Less));
    /// assert_eq!(Value::Int(1).compare(Value::String("1")), None);
    /// ```
    #[must_use]
    pub fn compare(self, other: Value<'_>) -> Option<Ordering> {
        Some(match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
            (Value::Int(a), Value::Int(b)) => a.cmp(&b),
            (Value::UInt(a), Value::UInt(b)) => a.cmp(&b),
            (Value::Int(a), Value::UInt(b)) => i128::from(a).cmp(&i128::from(b)),
            (Value::UInt(a), Value::Int(b)) => i128::from(a).cmp(&i128::from(b)),
            (Value::F32(a), Value::F32(b)) => a.total_cmp(&b),
            (Value::F64(a), Value::F64(b)) => a.total_cmp(&b),
            (Value::F32(a), Value::F64(b)) => widen(a).total_cmp(&b),
            (Value::F64(a), Value::F32(b)) => a.total_cmp(&widen(b)),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(&b),
            (Value::Date(a), Value::Date(b)) => a.cmp(&b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
            (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Binary(a), Value::Binary(b)) => a.cmp(b),
            _ => return None,
        })
    }

    /// What kind of value this is, in a word for an error message.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::UInt(_) => "an integer",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Decimal(_) => "decimal",
            Value::Date(_) => "date",
            Value::Timestamp(_) => "timestamp",
            Value::String(_) => "string",
            Value::Binary(_) => "binary",
        }
    }

    /// The bytes for a column of type `ty`, which is string or binary.
    #[inline]
    pub(crate) fn text(&self, ty: Type) -> Result<&'a [u8], Misfit> {
        match (ty, self) {
            (Type::String, Value::String(text)) => Ok(text.as_bytes()),
            (Type::Binary, Value::Binary(bytes)) => Ok(bytes),
            _ => Err(self.misfit(ty)),
        }
    }

    /// An integer for a column of type `ty`, which holds `min` to `max`.
    #[inline]
    pub(crate) fn signed(&self, ty: Type, min: i64, max: i64) -> Result<i64, Misfit> {
        let value = match *self {
            Value::Int(value) => Some(value),
            Value::UInt(value) => i64::try_from(value).ok(),
            _ => return Err(self.misfit(ty)),
        };
        match value {
            Some(value) if min <= value && value <= max => Ok(value),
            _ => Err(Misfit::OutOfRange { expected: ty }),
        }
    }

    /// An integer for a column of type `ty`, which holds 0 to `max`.
    #[inline]
    pub(crate) fn unsigned(&self, ty: Type, max: u64) -> Result<u64, Misfit> {
        let value = match *self {
            Value::UInt(value) => Some(value),
            Value::Int(value) => u64::try_from(value).ok(),
            _ => return Err(self.misfit(ty)),
        };
        match value {
            Some(value) if value <= max => Ok(value),
            _ => Err(Misfit::OutOfRange { expected: ty }),
        }
    }

    #[inline]
    fn only(self, ty: Type, fits: bool) -> Result<Value<'a>, Misfit> {
        if fits { Ok(self) } else { Err(self.misfit(ty)) }
    }

    #[cold]
    pub(crate) fn misfit(&self, expected: Type) -> Misfit {
        match self {
            Value::Null => Misfit::Null,
            other => Misfit::WrongType { expected, found: other.kind() },
        }
    }
}

/// Exact, and for NaNs too: the sign and the payload stay, which `as` does not promise.
pub(crate) fn widen(value: f32) -> f64 {
    if value.is_nan() {
        let bits = u64::from(value.to_bits());
        f64::from_bits((bits >> 31) << 63 | 0x7ff0_0000_0000_0000 | (bits & 0x007f_ffff) << 29)
    } else {
        f64::from(value)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Value<'_>) -> bool {
        match (*self, *other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::UInt(a), Value::UInt(b)) => a == b,
            (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
            (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
            (Value::Decimal(a), Value::Decimal(b)) => a == b,
            (Value::Date(a), Value::Date(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Binary(a), Value::Binary(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value<'_> {}

impl fmt::Display for Value<'_> {
    /// Strings in quotes, binaries as a byte string with everything but printable ASCII escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::UInt(value) => value.fmt(f),
            Value::F32(value) => value.fmt(f),
            Value::F64(value) => value.fmt(f),
            Value::Decimal(value) => value.fmt(f),
            Value::Date(value) => value.fmt(f),
            Value::Timestamp(value) => value.fmt(f),
            Value::String(value) => write!(f, "{value:?}"),
            Value::Binary(value) => write!(f, "b\"{}\"", value.escape_ascii()),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident($into:ty)),+ $(,)?) => {$(
        impl From<$from> for Value<'_> {
            #[inline]
            fn from(value: $from) -> Self {
                Value::$variant(<$into>::from(value))
            }
        }
    )+};
}

from! {
    bool => Bool(bool),
    i8 => Int(i64), i16 => Int(i64), i32 => Int(i64), i64 => Int(i64),
    u8 => UInt(u64), u16 => UInt(u64), u32 => UInt(u64), u64 => UInt(u64),
    f32 => F32(f32), f64 => F64(f64),
    Decimal => Decimal(Decimal), Date => Date(Date), Timestamp => Timestamp(Timestamp),
}

impl<'a> From<&'a str> for Value<'a> {
    #[inline]
    fn from(value: &'a str) -> Value<'a> {
        Value::String(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    #[inline]
    fn from(value: &'a [u8]) -> Value<'a> {
        Value::Binary(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_fit_by_their_number() {
        for (ty, min, max) in [
            (Type::I8, -128i128, 127i128),
            (Type::I16, -32_768, 32_767),
            (Type::I32, i32::MIN.into(), i32::MAX.into()),
            (Type::I64, i64::MIN.into(), i64::MAX.into()),
            (Type::U8, 0, 255),
            (Type::U16, 0, 65_535),
            (Type::U32, 0, u32::MAX.into()),
            (Type::U64, 0, u64::MAX.into()),
        ] {
            for number in [min - 1, min, -1, 0, 1, max, max + 1, i64::MAX.into(), u64::MAX.into()] {
                let fits = (min..=max).contains(&number);
                let forms =
                    [i64::try_from(number).ok().map(Value::Int), u64::try_from(number).ok().map(Value::UInt)];
                for form in forms.into_iter().flatten() {
                    match form.fit(ty) {
                        Ok(Value::Int(value)) => assert!(fits && min < 0 && i128::from(value) == number),
                        Ok(Value::UInt(value)) => assert!(fits && min == 0 && i128::from(value) == number),
                        Ok(other) => panic!("{other} from an integer column"),
                        Err(misfit) => {
                            assert_eq!(misfit, Misfit::OutOfRange { expected: ty });
                            assert!(!fits, "{number} fits {ty}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn kinds_do_not_mix() {
        let values = [
            Value::Bool(true),
            Value::Int(1),
            Value::F32(1.0),
            Value::F64(1.0),
            Value::Decimal(Decimal::new(1, 0)),
            Value::Date(Date::from_days(1)),
            Value::Timestamp(Timestamp::from_micros(1)),
            Value::String("1"),
            Value::Binary(b"1"),
        ];
        let types = [
            Type::Bool,
            Type::I64,
            Type::F32,
            Type::F64,
            Type::Decimal { precision: 1, scale: 0 },
            Type::Date,
            Type::Timestamp,
            Type::String,
            Type::Binary,
        ];
        for (i, value) in values.iter().enumerate() {
            for (j, ty) in types.iter().enumerate() {
                let fits = i == j || (*value == Value::F32(1.0) && *ty == Type::F64);
                match value.fit(*ty) {
                    Ok(_) => assert!(fits, "{value} in {ty}"),
                    Err(misfit) => {
                        assert!(!fits, "{value} in {ty}");
                        assert_eq!(misfit, Misfit::WrongType { expected: *ty, found: value.kind() });
                    }
                }
                assert_eq!(Value::Null.fit(*ty), Err(Misfit::Null));
            }
        }
    }

    #[test]
    fn decimals_fit_if_no_digit_is_lost() {
        let ty = Type::Decimal { precision: 4, scale: 2 };
        let fitted = |unscaled, scale| match Value::Decimal(Decimal::new(unscaled, scale)).fit(ty) {
            Ok(Value::Decimal(value)) => Some((value.unscaled, value.scale)),
            Ok(other) => panic!("{other} from a decimal column"),
            Err(misfit) => {
                assert_eq!(misfit, Misfit::OutOfRange { expected: ty });
                None
            }
        };
        assert_eq!(fitted(9999, 2), Some((9999, 2)));
        assert_eq!(fitted(-9999, 2), Some((-9999, 2)));
        assert_eq!(fitted(10_000, 2), None);
        assert_eq!(fitted(7, 0), Some((700, 2)));
        assert_eq!(fitted(100, 0), None);
        assert_eq!(fitted(7000, 5), Some((7, 2)));
        assert_eq!(fitted(7001, 5), None);
        assert_eq!(fitted(i128::MIN, 0), None);
        let widest = Type::Decimal { precision: 38, scale: 0 };
        assert!(Value::Decimal(Decimal::new(i128::MAX, 0)).fit(widest).is_err());
        assert!(Value::Decimal(Decimal::new(10i128.pow(38) - 1, 0)).fit(widest).is_ok());
    }

    #[test]
    fn floats_widen_to_the_bit() {
        for bits in [0x7fc0_0000u32, 0xffc0_0001, 0x7f80_0001, 0xff80_0001, 0x7fff_ffff] {
            let wide = widen(f32::from_bits(bits)).to_bits();
            assert_eq!(wide >> 63, u64::from(bits >> 31));
            assert_eq!(wide & 0x000f_ffff_ffff_ffff, u64::from(bits & 0x007f_ffff) << 29);
        }
        for value in [0.0, -0.0, 1.5, f32::MIN_POSITIVE / 2.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            assert_eq!(widen(value).to_bits(), f64::from(value).to_bits());
        }
    }

    #[test]
    fn bytes_above_127_print_right() {
        assert_eq!(
            Value::Binary(&[0x00, 0x7f, 0x80, 0xff, b'"', b'a']).to_string(),
            r#"b"\x00\x7f\x80\xff\"a""#
        );
        assert_eq!(Value::String("é\0\"").to_string(), r#""é\0\"""#);
    }
}
