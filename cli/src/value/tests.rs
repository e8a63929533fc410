//! What is written is read as the same value; what does not fit is refused.

use nyala::{AsValue, Date, Decimal, Timestamp, Type, Value};
use serde_json::value::RawValue;

use super::{BinaryText, Owned, from_json, parse, parse_column_type, show, write_json};

/// Through text and through JSON, in both forms of binaries.
fn goes_round(value: Value<'_>, ty: Type) {
    let same = |back: &Owned| {
        let bits = |value: Value<'_>| match value {
            Value::F64(number) => format!("{:x}", number.to_bits()),
            Value::F32(number) => format!("{:x}", number.to_bits()),
            other => format!("{other:?}"),
        };
        assert_eq!(bits(back.as_value()), bits(value));
    };
    for binary in [BinaryText::Hex, BinaryText::Base64] {
        same(&parse(&show(value, binary), ty).expect("what was written"));
        let mut json = Vec::new();
        write_json(&mut json, value, binary).expect("to memory");
        let raw: Box<RawValue> = serde_json::from_slice(&json).expect("it is JSON");
        same(&from_json(&raw, ty).expect("what was written").expect("no null"));
    }
}

#[test]
fn every_type_goes_through_text_and_json_unchanged() {
    for number in [i64::MIN, -1, 0, 1, (1 << 53) + 1, i64::MAX] {
        goes_round(Value::Int(number), Type::I64);
        goes_round(Value::Timestamp(Timestamp::from_micros(number)), Type::Timestamp);
    }
    goes_round(Value::UInt(u64::MAX), Type::U64);
    goes_round(Value::Bool(true), Type::Bool);
    for number in [0.0, -0.0, 0.1, 1e300, 5e-324, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN]
    {
        goes_round(Value::F64(number), Type::F64);
    }
    goes_round(Value::F64(f64::from_bits(0x7ff0_0000_0000_0001)), Type::F64);
    for number in [0.1f32, f32::MIN_POSITIVE, f32::MAX, f32::NAN, -f32::NAN, f32::INFINITY] {
        goes_round(Value::F32(number), Type::F32);
    }
    let decimal = |unscaled, precision, scale| {
        goes_round(Value::Decimal(Decimal::new(unscaled, scale)), Type::Decimal { precision, scale });
    };
    decimal(-12_345, 9, 2);
    decimal(0, 9, 2);
    decimal(10i128.pow(38) - 1, 38, 38);
    decimal(1 - 10i128.pow(38), 38, 0);
    for days in [i32::MIN, -719_529, -1, 0, 18_452, i32::MAX] {
        goes_round(Value::Date(Date::from_days(days)), Type::Date);
    }
    for text in ["", "null", "\0\n\"", "ä€𝄞", "0x00", "2020-07-09"] {
        goes_round(Value::String(text), Type::String);
        goes_round(Value::Binary(text.as_bytes()), Type::Binary);
    }
    goes_round(Value::Binary(&[0, 255, 128]), Type::Binary);
}

#[test]
fn what_does_not_fit_is_refused() {
    let cases: &[(&str, Type)] = &[
        ("128", Type::I8),
        ("-1", Type::U8),
        ("1.0", Type::I32),
        (" 1", Type::I32),
        ("", Type::I32),
        ("1e400", Type::F64),
        ("1e40", Type::F32),
        ("yes", Type::Bool),
        ("123.456", Type::Decimal { precision: 9, scale: 2 }),
        ("1e2", Type::Decimal { precision: 9, scale: 2 }),
        ("12345678.90", Type::Decimal { precision: 9, scale: 2 }),
        ("2021-02-29", Type::Date),
        ("2021-2-1", Type::Date),
        ("12021-02-01", Type::Date),
        ("2021-02-01T24:00:00Z", Type::Timestamp),
        ("2021-02-01T00:00:00.1234567Z", Type::Timestamp),
        ("+300000-01-01", Type::Timestamp),
        ("abc", Type::Binary),
        ("0xabc", Type::Binary),
        ("base64:a", Type::Binary),
    ];
    for (text, ty) in cases {
        let error = parse(text, *ty).expect_err(text);
        assert!(error.contains("is no"), "{error}");
    }
}

#[test]
fn timestamps_are_understood_as_people_write_them() {
    let at = |text: &str| match parse(text, Type::Timestamp).expect(text).as_value() {
        Value::Timestamp(time) => time.to_string(),
        other => panic!("{other}"),
    };
    assert_eq!(at("2013-01-01T10:00:00Z"), "2013-01-01T10:00:00.000000Z");
    assert_eq!(at("2013-01-01 10:00"), "2013-01-01T10:00:00.000000Z");
    assert_eq!(at("2013-01-01"), "2013-01-01T00:00:00.000000Z");
    assert_eq!(at("2013-01-01T00:30:00.5+01:00"), "2012-12-31T23:30:00.500000Z");
    assert_eq!(at("2013-01-01T00:30:00-0130"), "2013-01-01T02:00:00.000000Z");
    assert_eq!(at("2013-01-01T00:00:00.123456000Z"), "2013-01-01T00:00:00.123456Z");
    assert_eq!(at("@-1"), "1969-12-31T23:59:59.999999Z");
}

#[test]
fn a_number_in_json_is_read_by_its_digits() {
    let raw: Box<RawValue> = serde_json::from_str("1234567890123456789.01").expect("JSON");
    let value =
        from_json(&raw, Type::Decimal { precision: 38, scale: 2 }).expect("a decimal").expect("no null");
    assert_eq!(value.as_value(), Value::Decimal(Decimal::new(123_456_789_012_345_678_901, 2)));
}

#[test]
fn types_are_read_as_they_are_shown() {
    for text in ["bool", "i8", "u64", "f32", "decimal(9, 2)", "date", "timestamp", "string", "binary"] {
        assert_eq!(parse_column_type(text).expect("a type").ty.to_string(), text);
    }
    let ty = parse_column_type("string?:desc").expect("a type");
    assert!(ty.nullable && ty.descending);
    for text in ["", "int", "decimal(0,0)", "decimal(39,0)", "decimal(5,6)"] {
        parse_column_type(text).expect_err(text);
    }
}
