//! Between Rust's types and column values.
//!
//! Owns which Rust types can be given as a value ([`AsValue`]), which can be read from one ([`FromValue`]), and which
//! column each makes ([`ValueType`]). Which value fits which column is the business of [`Value::fit`].

#[cfg(test)]
mod tests;
mod value_type;

use crate::error::{Error, Result};
use encoded_key::{Date, Decimal, Timestamp, Value};
use std::borrow::Cow;

pub use value_type::ValueType;

/// A Rust value that can be given as the value of a column.
///
/// Integers are taken by every integer column that they fit, an `f32` by `f64` columns too; nothing else is
/// converted. `None` is null.
///
/// ```
/// use nyala::{AsValue, Value};
/// assert_eq!(17.as_value(), Value::Int(17));
/// assert_eq!("cpu".to_string().as_value(), Value::String("cpu"));
/// assert_eq!(None::<&str>.as_value(), Value::Null);
/// ```
pub trait AsValue {
    /// The value, borrowed.
    fn as_value(&self) -> Value<'_>;
}

/// A Rust type that the value of a column can be read as.
///
/// Integers of any width are read from any integer column, as long as the number fits; `Option` for columns that can
/// be null; `&str` and `&[u8]` without a copy.
///
/// ```
/// use nyala::{FromValue, Value};
/// assert_eq!(u8::from_value(Value::Int(17)).unwrap(), 17);
/// assert!(u8::from_value(Value::Int(-17)).is_err());
/// assert_eq!(Option::<&str>::from_value(Value::Null).unwrap(), None);
/// ```
pub trait FromValue<'a>: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the value is of another type, is null, or
    /// does not fit.
    fn from_value(value: Value<'a>) -> Result<Self>;
}

#[cold]
fn mismatch(wanted: &str, found: Value<'_>) -> Error {
    Error::invalid(format!("{wanted} asked for, {} found", found.kind()))
}

macro_rules! integers {
    ($($number:ty => $variant:ident($wide:ty)),+ $(,)?) => {$(
        impl AsValue for $number {
            #[inline]
            fn as_value(&self) -> Value<'_> {
                Value::$variant(<$wide>::from(*self))
            }
        }

        impl FromValue<'_> for $number {
            #[inline]
            fn from_value(value: Value<'_>) -> Result<$number> {
                let number = match value {
                    Value::Int(number) => <$number>::try_from(number).ok(),
                    Value::UInt(number) => <$number>::try_from(number).ok(),
                    other => return Err(mismatch(stringify!($number), other)),
                };
                number.ok_or_else(|| {
                    Error::invalid(concat!(stringify!($number), " asked for, a number that does not fit found"))
                })
            }
        }
    )+};
}

integers! {
    i8 => Int(i64), i16 => Int(i64), i32 => Int(i64), i64 => Int(i64),
    u8 => UInt(u64), u16 => UInt(u64), u32 => UInt(u64), u64 => UInt(u64),
}

macro_rules! scalars {
    ($($scalar:ty => $variant:ident),+ $(,)?) => {$(
        impl AsValue for $scalar {
            #[inline]
            fn as_value(&self) -> Value<'_> {
                Value::$variant(*self)
            }
        }

        impl FromValue<'_> for $scalar {
            #[inline]
            fn from_value(value: Value<'_>) -> Result<$scalar> {
                match value {
                    Value::$variant(scalar) => Ok(scalar),
                    other => Err(mismatch(stringify!($scalar), other)),
                }
            }
        }
    )+};
}

scalars! { bool => Bool, f32 => F32, Decimal => Decimal, Date => Date, Timestamp => Timestamp }

impl AsValue for f64 {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::F64(*self)
    }
}

impl FromValue<'_> for f64 {
    /// An `f32` column can be read as `f64` too: that loses nothing.
    #[inline]
    fn from_value(value: Value<'_>) -> Result<f64> {
        match value {
            Value::F64(number) => Ok(number),
            Value::F32(number) => Ok(f64::from(number)),
            other => Err(mismatch("f64", other)),
        }
    }
}

impl AsValue for str {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::String(self)
    }
}

impl AsValue for String {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::String(self)
    }
}

impl AsValue for [u8] {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Binary(self)
    }
}

impl AsValue for Vec<u8> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Binary(self)
    }
}

impl<const N: usize> AsValue for [u8; N] {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Binary(self)
    }
}

impl AsValue for Value<'_> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        *self
    }
}

impl<T: AsValue + ?Sized> AsValue for &T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue + ?Sized> AsValue for Box<T> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue + ToOwned + ?Sized> AsValue for Cow<'_, T> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue> AsValue for Option<T> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        match self {
            Some(value) => value.as_value(),
            None => Value::Null,
        }
    }
}

impl<'a> FromValue<'a> for Value<'a> {
    #[inline]
    fn from_value(value: Value<'a>) -> Result<Value<'a>> {
        Ok(value)
    }
}

impl<'a> FromValue<'a> for &'a str {
    #[inline]
    fn from_value(value: Value<'a>) -> Result<&'a str> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(mismatch("a string", other)),
        }
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    #[inline]
    fn from_value(value: Value<'a>) -> Result<&'a [u8]> {
        match value {
            Value::Binary(bytes) => Ok(bytes),
            other => Err(mismatch("binary", other)),
        }
    }
}

impl<'a> FromValue<'a> for Cow<'a, str> {
    #[inline]
    fn from_value(value: Value<'a>) -> Result<Cow<'a, str>> {
        <&str>::from_value(value).map(Cow::Borrowed)
    }
}

impl<'a> FromValue<'a> for Cow<'a, [u8]> {
    #[inline]
    fn from_value(value: Value<'a>) -> Result<Cow<'a, [u8]>> {
        <&[u8]>::from_value(value).map(Cow::Borrowed)
    }
}

impl FromValue<'_> for String {
    fn from_value(value: Value<'_>) -> Result<String> {
        <&str>::from_value(value).map(str::to_owned)
    }
}

impl FromValue<'_> for Vec<u8> {
    fn from_value(value: Value<'_>) -> Result<Vec<u8>> {
        <&[u8]>::from_value(value).map(<[u8]>::to_vec)
    }
}

impl FromValue<'_> for Box<str> {
    fn from_value(value: Value<'_>) -> Result<Box<str>> {
        <&str>::from_value(value).map(Box::from)
    }
}

impl FromValue<'_> for Box<[u8]> {
    fn from_value(value: Value<'_>) -> Result<Box<[u8]>> {
        <&[u8]>::from_value(value).map(Box::from)
    }
}

impl<const N: usize> FromValue<'_> for [u8; N] {
    fn from_value(value: Value<'_>) -> Result<[u8; N]> {
        let bytes = <&[u8]>::from_value(value)?;
        let length = bytes.len();
        <[u8; N]>::try_from(bytes).map_err(|_| Error::invalid(format!("{N} bytes asked for, {length} found")))
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    #[inline]
    fn from_value(value: Value<'a>) -> Result<Option<T>> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}
