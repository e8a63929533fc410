//! Records: everything that can be given as a row, and everything that cannot.

use super::{Record, encode_key, encode_record};
use crate::error::ErrorKind;
use crate::row::tests::arbitrary::{schema_and_record, values};
use crate::row::{Projection, ROW_BYTES_MAX, ReadSchema, Row, RowBatchBuilder};
use crate::schema::Schema;
use codec::Version;
use encoded_key::{Date, Decimal, KEY_BYTES_MAX, KeyDecoder, Timestamp, Type, Value};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

fn metrics() -> Schema {
    let schema = Schema::builder()
        .key("host", Type::U32)
        .key("metric", Type::String)
        .column("value", Type::F64)
        .column("count", Type::I64)
        .column("note", Type::String.nullable());
    schema.build().expect("a valid schema")
}

fn read(schema: &Schema, key: &[u8], row: &[u8]) -> Vec<String> {
    let mut key = KeyDecoder::new(schema.key_layout(), key);
    let mut scratch = Vec::new();
    let mut values = Vec::new();
    for _ in 0..schema.key_columns() {
        values.push(key.next_column(&mut scratch).expect("a key of ours").to_string());
    }
    key.finish().expect("a key of ours");
    schema.row_layout().verify(row).expect("a row of ours");
    for column in 0..schema.row_layout().columns() {
        values.push(schema.row_layout().get(row, column).expect("a row of ours").to_string());
    }
    values
}

fn stored(schema: &Schema, record: &impl Record) -> Vec<String> {
    let mut out = b"before".to_vec();
    let (key, row) = encode_record(schema, record, &mut out).expect("a record that fits");
    assert_eq!((key.start, key.end, row.end), (6, row.start, out.len()));
    read(schema, &out[key], &out[row])
}

fn refused(schema: &Schema, record: &impl Record, text: &str) {
    let mut out = b"before".to_vec();
    let error = encode_record(schema, record, &mut out).expect_err(text);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(out, b"before");
}

#[test]
fn plain_literals_fit_their_columns() {
    let schema = metrics();
    let expected = ["17", "\"cpu\"", "0.5", "-3", "\"peak\""];
    assert_eq!(stored(&schema, &(17, "cpu", 0.5, -3, "peak")), expected);
    assert_eq!(stored(&schema, &(17u8, "cpu".to_string(), 0.5f32, -3i16, Some("peak"))), expected);
    assert_eq!(stored(&schema, &&(17u64, Cow::from("cpu"), &0.5, -3i64, Some("peak".to_string()))), expected);
    assert_eq!(stored(&schema, &(17, "cpu", 0.5, -3, None::<&str>))[4], "null");
    let values =
        [Value::UInt(17), Value::String("cpu"), Value::F64(0.5), Value::Int(-3), Value::String("peak")];
    assert_eq!(stored(&schema, &values), expected);
    assert_eq!(stored(&schema, &&values[..]), expected);
    assert_eq!(stored(&schema, &values.to_vec()), expected);
}

#[test]
fn every_type_takes_its_rust_type() {
    let decimal = Type::Decimal { precision: 9, scale: 2 };
    let types = [
        Type::Bool,
        Type::I8,
        Type::I16,
        Type::I32,
        Type::I64,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::F32,
        Type::F64,
        decimal,
        Type::Date,
        Type::Timestamp,
        Type::String,
        Type::Binary,
    ];
    let schema =
        types.iter().enumerate().fold(Schema::builder().key("k", Type::Binary), |builder, (i, &ty)| {
            builder.column(format!("c{i}"), ty)
        });
    let schema = schema.build().expect("a valid schema");
    let day = Date::from_ymd(1969, 7, 20).expect("a day");
    let record = (
        b"k",
        true,
        -1i8,
        -1i16,
        -1i32,
        -1i64,
        1u8,
        1u16,
        1u32,
        u64::MAX,
        0.5f32,
        0.25f64,
        Decimal { unscaled: 15, scale: 1 },
        day,
        Timestamp::from_micros(-1),
        "text",
        vec![0u8, 0x80],
    );
    let stored = stored(&schema, &record);
    assert_eq!(stored[0..13].join(" "), r#"b"k" true -1 -1 -1 -1 1 1 1 18446744073709551615 0.5 0.25 1.50"#);
    assert_eq!(stored[15..], ["\"text\"", r#"b"\x00\x80""#]);
}

#[test]
fn the_longest_tuple_is_a_record() {
    let schema = (1..24)
        .fold(Schema::builder().key("c0", Type::U8), |builder, i| builder.column(format!("c{i}"), Type::U8));
    let schema = schema.build().expect("a valid schema");
    let record = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    assert_eq!(stored(&schema, &record), (0..24).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[test]
fn wrong_values_name_their_column() {
    let schema = metrics();
    refused(&schema, &(-1, "cpu", 0.5, 1, "x"), "\"host\": a number out of range for u32");
    refused(&schema, &("17", "cpu", 0.5, 1, "x"), "\"host\": u32 expected, string found");
    refused(&schema, &(None::<u32>, "cpu", 0.5, 1, "x"), "\"host\": null in a key");
    refused(&schema, &(17, b"cpu", 0.5, 1, "x"), "\"metric\": string expected, binary found");
    refused(&schema, &(17, "cpu", 1, 1, "x"), "\"value\": f64 expected, an integer found");
    refused(&schema, &(17, "cpu", None::<f64>, 1, "x"), "\"value\" (f64) cannot be null");
    refused(&schema, &(17, "cpu", 0.5, u64::MAX, "x"), "\"count\": a number out of range for i64");
    refused(&schema, &(17, "cpu", 0.5), "column \"count\" has none");
    refused(&schema, &(17, "cpu", 0.5, 1, "x", 1), "a row of 5 columns expected, 6 values given");
}

#[test]
fn keys_are_checked_like_rows() {
    let schema = metrics();
    let mut out = b"before".to_vec();
    let key = encode_key(&schema, &(17, "cpu"), &mut out).expect("a key");
    assert_eq!(&out[key], b"\0\0\0\x11cpu");
    out.truncate(6);
    let short = encode_key(&schema, &(17,), &mut out).expect_err("half a key").to_string();
    assert!(
        short.contains("a key of 2 columns expected, 1 values given: column \"metric\" has none"),
        "{short}"
    );
    assert!(encode_key(&schema, &(17, "cpu", 0.5), &mut out).is_err());
    assert!(encode_key(&schema, &(17, 5), &mut out).is_err());
    assert_eq!(out, b"before");
}

#[test]
fn a_key_at_the_limit_works_and_one_above_names_the_column() {
    let schema = metrics();
    let largest = "x".repeat(KEY_BYTES_MAX - 4);
    assert_eq!(stored(&schema, &(17, &largest, 0.5, 1, None::<&str>))[1].len(), KEY_BYTES_MAX - 4 + 2);
    refused(&schema, &(17, largest + "x", 0.5, 1, None::<&str>), "key column \"metric\"");
    assert_eq!(stored(&schema, &(17, "cpu", 0.5, 1, "next"))[4], "\"next\"");
}

#[test]
fn a_row_above_the_limit_names_the_column() {
    let schema = metrics();
    let head = 1 + 8 + 8;
    let largest = "x".repeat(ROW_BYTES_MAX - head);
    assert_eq!(stored(&schema, &(17, "cpu", 0.5, 1, &largest))[4].len(), largest.len() + 2);
    refused(&schema, &(17, "cpu", 0.5, 1, largest + "x"), "column \"note\"");
}

#[test]
fn empty_keys_and_values_are_ordinary() {
    let schema = Schema::builder().key("k", Type::Binary).column("v", Type::Binary).build().expect("valid");
    assert_eq!(stored(&schema, &(b"", b"")), [r#"b"""#, r#"b"""#]);
    let mut out = Vec::new();
    assert_eq!(encode_record(&schema, &(&b"\0\xff"[..], vec![7u8]), &mut out).expect("fits"), (0..2, 2..3));
    assert_eq!(out, b"\0\xff\x07", "the encoding adds nothing");
    assert_eq!(
        encode_key(&schema, &"k".as_bytes(), &mut out).expect("a bare value is a key of one column"),
        3..4
    );
}

#[test]
fn a_builder_takes_columns_in_any_order() {
    let schema = metrics();
    let row = schema.row();
    let row =
        row.set("count", 3).and_then(|row| row.set("metric", "cpu")).and_then(|row| row.set("host", 17));
    let mut row = row.and_then(|row| row.set("value", 0.5f32)).expect("columns of the schema");
    assert_eq!(stored(&schema, &row), ["17", "\"cpu\"", "0.5", "3", "null"]);
    row.assign("note", "first").expect("a column");
    row.assign("note", "second").expect("a column");
    assert_eq!(stored(&schema, &row)[4], "\"second\"");
    row.assign("note", None::<&str>).expect("a column");
    assert_eq!(stored(&schema, &row)[4], "null");

    for (error, text) in [
        (row.assign("nope", 1), "there is no column \"nope\""),
        (row.assign("host", "x"), "column \"host\": u32 expected, string found"),
        (row.assign("count", None::<i64>), "column \"count\": null"),
    ] {
        let error = error.expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(stored(&schema, &row)[0], "17", "a refused value changes nothing");
    row.clear();
    refused(&schema, &row, "no value for column \"host\"");

    let key =
        schema.key().set("metric", "cpu").and_then(|key| key.set("host", 17)).expect("columns of the key");
    let mut out = Vec::new();
    let range = encode_key(&schema, &key, &mut out).expect("a whole key");
    assert_eq!(&out[range], b"\0\0\0\x11cpu");
    assert!(
        schema.key().set("value", 0.5).expect_err("no key column").to_string().contains("not in the key")
    );
}

#[test]
fn a_row_that_was_read_is_a_record() {
    let schema = Arc::new(metrics());
    let mut out = Vec::new();
    let (key, row) = encode_record(&schema, &(17, "cpu", 0.5, -3, "peak"), &mut out).expect("fits");
    let mut builder = RowBatchBuilder::new(ReadSchema::of(&schema), Projection::all(&schema));
    builder.push(&out[key], &out[row], schema.version(), Version(7)).expect("a row of this schema");
    let row = Row::new(builder.finish(), 0);
    let mut again = Vec::new();
    encode_record(&schema, &row, &mut again).expect("the same row");
    assert_eq!(again, out);
}

#[test]
fn a_record_of_the_same_kind_needs_no_memory_of_its_own() {
    let schema = metrics();
    let mut out = Vec::with_capacity(1 << 16);
    let memory = out.as_ptr();
    for i in 0..500 {
        encode_record(&schema, &(i, "cpu", 0.5, i, "peak"), &mut out).expect("fits");
    }
    assert!(std::ptr::eq(memory, out.as_ptr()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn records_round_trip((schema, record) in schema_and_record()) {
        let values = values(&record);
        let expected: Vec<String> = values.iter().map(|value| value.to_string()).collect();
        prop_assert_eq!(stored(&schema, &values), expected);
        let mut builder = schema.row();
        for (column, value) in schema.columns().iter().zip(&values) {
            builder.assign(&column.name, value).expect("a value of the column's type");
        }
        let (mut a, mut b) = (Vec::new(), Vec::new());
        encode_record(&schema, &values, &mut a).expect("fits");
        encode_record(&schema, &builder, &mut b).expect("fits");
        prop_assert_eq!(a, b);
    }
}
