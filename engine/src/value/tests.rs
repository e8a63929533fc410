//! Conversions between Rust's types and values.

use super::{AsValue, FromValue};
use crate::error::ErrorKind;
use encoded_key::{Date, Decimal, Timestamp, Value};
use proptest::prelude::*;
use std::borrow::Cow;

#[test]
fn values_come_back_as_their_type() {
    fn same<'a, T: AsValue + FromValue<'a> + PartialEq + std::fmt::Debug>(value: &'a T) {
        assert_eq!(&T::from_value(value.as_value()).expect("the same type"), value);
        assert!(T::from_value(Value::Null).is_err() || value.as_value() == Value::Null);
    }
    same(&true);
    same(&-1i8);
    same(&u64::MAX);
    same(&i64::MIN);
    same(&0.1f32);
    same(&0.1f64);
    same(&Decimal { unscaled: -5, scale: 1 });
    same(&Date::from_days(-1));
    same(&Timestamp::from_micros(-1));
    same(&"é");
    same(&String::from("\0"));
    same(&&b"\x80"[..]);
    same(&vec![0u8, 0xff]);
    same(&[1u8, 2, 3]);
    same(&Cow::Borrowed("x"));
}

#[test]
fn null_is_none_and_only_none() {
    assert_eq!(None::<u8>.as_value(), Value::Null);
    assert_eq!(Some(1u8).as_value(), Value::UInt(1));
    assert_eq!(Option::<u8>::from_value(Value::Null).expect("a null"), None);
    assert_eq!(Option::<u8>::from_value(Value::Int(1)).expect("a number"), Some(1));
    assert_eq!(Option::<&str>::from_value(Value::String("")).expect("a string"), Some(""));
    assert!(Option::<u8>::from_value(Value::Int(256)).is_err());
    let error = u8::from_value(Value::Null).expect_err("a null");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.to_string(), "invalid argument: u8 asked for, null found");
}

#[test]
fn nothing_is_converted_that_would_lose_something() {
    assert!(f32::from_value(Value::F64(0.5)).is_err());
    assert_eq!(f64::from_value(Value::F32(0.5)).expect("exact"), 0.5);
    assert!(f64::from_value(Value::Int(1)).is_err());
    assert!(i64::from_value(Value::F64(1.0)).is_err());
    assert!(<&str>::from_value(Value::Binary(b"x")).is_err());
    assert!(<&[u8]>::from_value(Value::String("x")).is_err());
    assert!(Timestamp::from_value(Value::Int(1)).is_err());
    assert!(
        <[u8; 2]>::from_value(Value::Binary(b"xyz")).expect_err("3 bytes").to_string().contains("3 found")
    );
}

#[test]
fn texts_of_errors_hold_no_values() {
    let error = u8::from_value(Value::Int(123_456)).expect_err("too large");
    assert!(!error.to_string().contains("123"), "{error}");
    let error = u8::from_value(Value::String("secret")).expect_err("a string");
    assert!(!error.to_string().contains("secret"), "{error}");
}

proptest! {
    #[test]
    fn integers_convert_exactly_or_not_at_all(number in any::<i64>(), small in -300i64..300) {
        for number in [number, small] {
            for value in [Some(Value::Int(number)), u64::try_from(number).ok().map(Value::UInt)].into_iter().flatten() {
                prop_assert_eq!(u8::from_value(value).ok(), u8::try_from(number).ok());
                prop_assert_eq!(i8::from_value(value).ok(), i8::try_from(number).ok());
                prop_assert_eq!(u32::from_value(value).ok(), u32::try_from(number).ok());
                prop_assert_eq!(u64::from_value(value).ok(), u64::try_from(number).ok());
                prop_assert_eq!(i64::from_value(value).ok(), Some(number));
            }
        }
    }
}
