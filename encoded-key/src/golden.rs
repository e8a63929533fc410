//! Golden vectors: the bytes of keys, written out. A change here is a change of the format.
//!
//! The composites without bools, floats or descending columns are also what Kudu writes.

use crate::Type::{self, *};
use crate::{KeyBuilder, KeyColumn, KeyDecoder, KeyLayout, Value};

fn hex(bytes: &[u8]) -> std::string::String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Encodes `values` and compares, decodes `expected` and compares.
fn check(columns: &[KeyColumn], values: &[Value<'_>], expected: &str) {
    let layout = KeyLayout::new(columns.to_vec()).unwrap();
    let expected = bytes_of(expected);
    let mut out = b"before".to_vec();
    let mut builder = KeyBuilder::new(&layout, &mut out);
    for value in values {
        builder.push(*value).unwrap();
    }
    let range = builder.finish().unwrap();
    assert_eq!(hex(&out[range]), hex(&expected), "{columns:?} {values:?}");
    assert!(out.starts_with(b"before"));

    let mut scratch = Vec::new();
    let mut decoder = KeyDecoder::new(&layout, &expected);
    for (column, value) in columns.iter().zip(values) {
        let canonical = value.fit(column.ty).unwrap();
        let decoded = decoder.next_column(&mut scratch).unwrap();
        assert_eq!(decoded, canonical, "{columns:?} {values:?}");
        if let (Value::Decimal(decoded), Value::Decimal(canonical)) = (decoded, canonical) {
            assert_eq!(decoded.scale, canonical.scale);
        }
    }
    decoder.finish().unwrap();
}

fn decimal(unscaled: i128, scale: u8) -> Value<'static> {
    Value::Decimal(crate::Decimal::new(unscaled, scale))
}

fn date(days: i32) -> Value<'static> {
    Value::Date(crate::Date::from_days(days))
}

fn time(micros: i64) -> Value<'static> {
    Value::Timestamp(crate::Timestamp::from_micros(micros))
}

const fn dec(precision: u8, scale: u8) -> Type {
    Type::Decimal { precision, scale }
}

#[test]
fn fixed_width_columns() {
    let day = crate::Date::from_ymd(2020, 7, 9).unwrap();
    for (ty, value, ascending) in [
        (Bool, Value::Bool(false), "00"),
        (Bool, Value::Bool(true), "01"),
        (I8, Value::Int(-128), "00"),
        (I8, Value::Int(-5), "7b"),
        (I8, Value::Int(-1), "7f"),
        (I8, Value::Int(0), "80"),
        (I8, Value::UInt(1), "81"),
        (I8, Value::Int(127), "ff"),
        (I16, Value::Int(-32_768), "0000"),
        (I16, Value::Int(-2), "7ffe"),
        (I16, Value::Int(0), "8000"),
        (I16, Value::UInt(258), "8102"),
        (I16, Value::Int(32_767), "ffff"),
        (I32, Value::Int(i32::MIN.into()), "00000000"),
        (I32, Value::Int(-1), "7fffffff"),
        (I32, Value::Int(0), "80000000"),
        (I32, Value::Int(7), "80000007"),
        (I32, Value::Int(0x0102_0304), "81020304"),
        (I32, Value::UInt(0x7fff_ffff), "ffffffff"),
        (I64, Value::Int(i64::MIN), "0000000000000000"),
        (I64, Value::Int(-1), "7fffffffffffffff"),
        (I64, Value::Int(0), "8000000000000000"),
        (I64, Value::UInt(1), "8000000000000001"),
        (I64, Value::Int(0x0102_0304_0506_0708), "8102030405060708"),
        (I64, Value::Int(i64::MAX), "ffffffffffffffff"),
        (U8, Value::UInt(0), "00"),
        (U8, Value::Int(128), "80"),
        (U8, Value::UInt(255), "ff"),
        (U16, Value::UInt(0), "0000"),
        (U16, Value::Int(0x1234), "1234"),
        (U16, Value::UInt(65_535), "ffff"),
        (U32, Value::UInt(0), "00000000"),
        (U32, Value::UInt(0x1234_5678), "12345678"),
        (U32, Value::Int(0xffff_ffff), "ffffffff"),
        (U64, Value::Int(0), "0000000000000000"),
        (U64, Value::UInt(0x0123_4567_89ab_cdef), "0123456789abcdef"),
        (U64, Value::UInt(u64::MAX), "ffffffffffffffff"),
        (F32, Value::F32(f32::from_bits(0xffff_ffff)), "00000000"),
        (F32, Value::F32(f32::from_bits(0xffc0_0000)), "003fffff"),
        (F32, Value::F32(f32::NEG_INFINITY), "007fffff"),
        (F32, Value::F32(f32::MIN), "00800000"),
        (F32, Value::F32(-1.0), "407fffff"),
        (F32, Value::F32(f32::from_bits(0x8000_0001)), "7ffffffe"),
        (F32, Value::F32(-0.0), "7fffffff"),
        (F32, Value::F32(0.0), "80000000"),
        (F32, Value::F32(f32::from_bits(1)), "80000001"),
        (F32, Value::F32(1.0), "bf800000"),
        (F32, Value::F32(f32::INFINITY), "ff800000"),
        (F32, Value::F32(f32::from_bits(0x7fc0_0000)), "ffc00000"),
        (F32, Value::F32(f32::from_bits(0x7fff_ffff)), "ffffffff"),
        (F64, Value::F64(f64::from_bits(u64::MAX)), "0000000000000000"),
        (F64, Value::F64(f64::NEG_INFINITY), "000fffffffffffff"),
        (F64, Value::F64(-1.5), "4007ffffffffffff"),
        (F64, Value::F64(-0.0), "7fffffffffffffff"),
        (F64, Value::F64(0.0), "8000000000000000"),
        (F64, Value::F64(f64::from_bits(1)), "8000000000000001"),
        (F64, Value::F32(1.5), "bff8000000000000"),
        (F64, Value::F64(f64::INFINITY), "fff0000000000000"),
        (F64, Value::F64(f64::from_bits(0x7ff8_0000_0000_0000)), "fff8000000000000"),
        (F64, Value::F32(f32::from_bits(0xff80_0001)), "000fffffdfffffff"),
        (dec(9, 2), decimal(-12_345, 2), "7fffcfc7"),
        (dec(9, 2), decimal(0, 0), "80000000"),
        (dec(9, 2), decimal(15, 1), "80000096"),
        (dec(9, 0), decimal(999_999_999, 0), "bb9ac9ff"),
        (dec(9, 0), decimal(-999_999_999, 0), "44653601"),
        (dec(1, 1), decimal(-9, 1), "7ffffff7"),
        (dec(10, 2), decimal(-12_345, 2), "7fffffffffffcfc7"),
        (dec(18, 0), decimal(999_999_999_999_999_999, 0), "8de0b6b3a763ffff"),
        (dec(19, 2), decimal(-12_345, 2), "7fffffffffffffffffffffffffffcfc7"),
        (dec(38, 2), decimal(12_345, 2), "80000000000000000000000000003039"),
        (dec(38, 38), decimal(10i128.pow(38) - 1, 38), "cb3b4ca85a86c47a098a223fffffffff"),
        (dec(38, 0), decimal(1 - 10i128.pow(38), 0), "34c4b357a5793b85f675ddc000000001"),
        (Date, Value::Date(day), "80004814"),
        (Date, date(0), "80000000"),
        (Date, date(-1), "7fffffff"),
        (Date, Value::Date(crate::Date::MIN), "00000000"),
        (Date, Value::Date(crate::Date::MAX), "ffffffff"),
        (Timestamp, time(0), "8000000000000000"),
        (Timestamp, time(-1), "7fffffffffffffff"),
        (Timestamp, time(1_594_252_800_000_001), "8005a9f6e7d38001"),
        (Timestamp, time(i64::MIN), "0000000000000000"),
        (Timestamp, time(i64::MAX), "ffffffffffffffff"),
    ] {
        check(&[KeyColumn::ascending(ty)], &[value], ascending);
        let descending: Vec<u8> = bytes_of(ascending).iter().map(|byte| !byte).collect();
        check(&[KeyColumn::descending(ty)], &[value], &hex(&descending));
    }
}

#[test]
fn a_text_alone_is_raw_if_ascending_and_escaped_if_descending() {
    for (text, ascending, descending) in [
        ("", "", "ffff"),
        ("a", "61", "9effff"),
        ("\0", "00", "fffeffff"),
        ("a\0", "6100", "9efffeffff"),
        ("ab\0c", "61620063", "9e9dfffe9cffff"),
        ("\0\0", "0000", "fffefffeffff"),
        ("\u{1}", "01", "feffff"),
        ("é", "c3a9", "3c56ffff"),
    ] {
        check(&[KeyColumn::ascending(String)], &[Value::String(text)], ascending);
        check(&[KeyColumn::descending(String)], &[Value::String(text)], descending);
        check(&[KeyColumn::ascending(Binary)], &[Value::Binary(text.as_bytes())], ascending);
        check(&[KeyColumn::descending(Binary)], &[Value::Binary(text.as_bytes())], descending);
    }
    check(&[KeyColumn::ascending(Binary)], &[Value::Binary(&[0xff, 0, 0xff])], "ff00ff");
    check(&[KeyColumn::descending(Binary)], &[Value::Binary(&[0xff, 0, 0xff])], "00fffe00ffff");
}

#[test]
fn composites() {
    let up = KeyColumn::ascending;
    let down = KeyColumn::descending;
    let (int, string, binary) = (Value::Int, Value::String, Value::Binary);
    let cases: &[(&[KeyColumn], &[Value<'_>], &str)] = &[
        (&[up(I8), up(String), up(I32)], &[int(-5), string("ab\0c"), int(7)], "7b 61620001630000 80000007"),
        (&[up(String), up(I64)], &[string(""), int(0)], "0000 8000000000000000"),
        (&[up(String), up(String)], &[string("a"), string("b\0c")], "61 0000 620063"),
        (&[up(String), up(String)], &[string(""), string("")], "0000"),
        (
            &[up(String), up(String), up(String)],
            &[string("\0"), string("\0"), string("\0")],
            "00010000 00010000 00",
        ),
        (&[up(Binary), up(Binary)], &[binary(&[0, 0xff]), binary(&[0, 0xff])], "0001ff0000 00ff"),
        (&[up(String), down(String)], &[string("a"), string("a")], "610000 9effff"),
        (&[down(String), up(String)], &[string("a\0"), string("a\0")], "9efffeffff 6100"),
        (&[down(Binary), down(Binary)], &[binary(&[0xff]), binary(&[])], "00ffff ffff"),
        (&[down(I8), up(U16), down(Bool)], &[int(-5), int(1), Value::Bool(true)], "84 0001 fe"),
        (
            &[up(U32), up(Timestamp), up(String)],
            &[int(17), time(1), string("cpu")],
            "00000011 8000000000000001 637075",
        ),
        (
            &[up(F64), down(dec(9, 2)), down(Date)],
            &[Value::F64(-0.0), decimal(-12_345, 2), date(18_452)],
            "7fffffffffffffff 80003038 7fffb7eb",
        ),
    ];
    for (columns, values, expected) in cases {
        check(columns, values, expected);
    }
}
