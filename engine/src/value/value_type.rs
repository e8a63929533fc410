//! Which column a type of Rust makes.

use std::borrow::Cow;

use encoded_key::{Date, Timestamp, Type};

use super::AsValue;

/// A type of Rust that says by itself what its column is, for [`derive(Record)`](macro@crate::Record).
///
/// A decimal does not: how many digits it has is said at the field. A type of one's own becomes the type of a field by
/// this trait, [`AsValue`] and [`FromValue`](crate::FromValue):
///
/// ```
/// use nyala::{AsValue, FromValue, Record, Result, Schema, Type, Value, ValueType};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Host(u32);
///
/// impl ValueType for Host {
///     const TYPE: Type = Type::U32;
/// }
///
/// impl AsValue for Host {
///     fn as_value(&self) -> Value<'_> {
///         self.0.as_value()
///     }
/// }
///
/// impl FromValue<'_> for Host {
///     fn from_value(value: Value<'_>) -> Result<Host> {
///         u32::from_value(value).map(Host)
///     }
/// }
///
/// #[derive(Record)]
/// struct Reading {
///     #[nyala(key)]
///     host: Host,
///     value: Option<f64>,
/// }
/// assert_eq!(format!("{:?}", Schema::of::<Reading>()?), r#"Schema v1 (key "host": u32, "value": f64, nullable)"#);
/// # Ok::<(), nyala::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a column by itself",
    note = "bool, i8 to i64, u8 to u64, f32, f64, Date, Timestamp, String, &str, Cow<str>, Vec<u8>, &[u8], [u8; N], and \
            Options of them can",
    note = "a Decimal says its digits: #[nyala(decimal(precision, scale))]",
    note = "a type of your own implements ValueType, AsValue and FromValue; a field that is no column is marked #[nyala(skip)]"
)]
pub trait ValueType: AsValue {
    /// The type of the column. [`AsValue::as_value`] gives values that fit it.
    const TYPE: Type;

    /// Whether the column can be null.
    const NULLABLE: bool = false;
}

macro_rules! value_types {
    ($([$($parameters:tt)*] $value:ty => $variant:ident),+ $(,)?) => {$(
        impl<$($parameters)*> ValueType for $value {
            const TYPE: Type = Type::$variant;
        }
    )+};
}

value_types! {
    [] bool => Bool,
    [] i8 => I8, [] i16 => I16, [] i32 => I32, [] i64 => I64,
    [] u8 => U8, [] u16 => U16, [] u32 => U32, [] u64 => U64,
    [] f32 => F32, [] f64 => F64,
    [] Date => Date, [] Timestamp => Timestamp,
    [] str => String, [] String => String,
    [] [u8] => Binary, [] Vec<u8> => Binary, [const N: usize] [u8; N] => Binary,
}

macro_rules! pointers {
    ($([$($bounds:tt)*] $pointer:ty),+ $(,)?) => {$(
        impl<T: ValueType + ?Sized $($bounds)*> ValueType for $pointer {
            const TYPE: Type = T::TYPE;
            const NULLABLE: bool = T::NULLABLE;
        }
    )+};
}

pointers! { [] &T, [] Box<T>, [+ ToOwned] Cow<'_, T> }

impl<T: ValueType> ValueType for Option<T> {
    const TYPE: Type = {
        assert!(!T::NULLABLE, "an Option of an Option is no column: a null is one of the two");
        T::TYPE
    };
    const NULLABLE: bool = true;
}
