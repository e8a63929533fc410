//! Batches of rows and the handles into them.

use super::arbitrary::{record, schema, values};
use crate::error::ErrorKind;
use crate::record::encode_record;
use crate::row::{Projection, ReadSchema, Row, RowBatch, RowBatchBuilder, show_key};
use crate::schema::Schema;
use codec::{SchemaVersion, Version};
use encoded_key::{Type, Value};
use proptest::prelude::*;
use std::sync::Arc;

fn metrics() -> Arc<Schema> {
    let schema = Schema::builder()
        .key("host", Type::String)
        .key("time", Type::I64)
        .key("tag", Type::Binary.descending())
        .column("value", Type::F64)
        .column("note", Type::String.nullable())
        .build();
    Arc::new(schema.expect("a valid schema"))
}

type Metric = (&'static str, i64, &'static [u8], f64, Option<&'static str>);

const ROWS: [Metric; 3] = [
    ("a\0b", -1, b"\x00\xff", 0.5, Some("peak")),
    ("", 7, b"", -0.0, None),
    ("z", i64::MAX, b"t", 1e300, Some("")),
];

fn batch(schema: &Arc<Schema>, projection: Projection) -> Arc<RowBatch> {
    let mut builder = RowBatchBuilder::new(ReadSchema::of(schema), projection);
    let mut bytes = Vec::new();
    for row in &ROWS {
        let (key, row) = encode_record(schema, row, &mut bytes).expect("a row that fits");
        builder.push(&bytes[key], &bytes[row], schema.version(), Version(7)).expect("a row of this schema");
    }
    builder.finish()
}

#[test]
fn every_string_can_be_borrowed_escaped_or_not() {
    let schema = metrics();
    let batch = batch(&schema, Projection::all(&schema));
    for (index, &(host, time, tag, value, note)) in ROWS.iter().enumerate() {
        let row = Row::new(Arc::clone(&batch), index);
        assert_eq!(row.get::<&str>("host").expect("host"), host);
        assert_eq!(row.get::<i64>("time").expect("time"), time);
        assert_eq!(row.get::<&[u8]>("tag").expect("tag"), tag);
        assert_eq!(row.get::<f64>(3).expect("value").to_bits(), value.to_bits());
        assert_eq!(row.get::<Option<&str>>("note").expect("note"), note);
        // Made once, then lent again.
        assert!(std::ptr::eq(row.get::<&[u8]>("tag").expect("tag"), row.get::<&[u8]>("tag").expect("tag")));
    }
}

#[test]
fn rows_print_as_a_person_reads_them() {
    let schema = metrics();
    let batch = batch(&schema, Projection::all(&schema));
    let first = Row::new(Arc::clone(&batch), 0);
    let text = r#"(host: "a\0b", time: -1, tag: b"\x00\xff", value: 0.5, note: "peak")"#;
    assert_eq!(first.to_string(), text);
    assert_eq!(format!("{first:?}"), text);
    assert!(format!("{batch:?}").contains(r#"note: null"#));
}

#[test]
fn keys_with_bytes_above_127_print_right() {
    let schema = metrics();
    let mut bytes = Vec::new();
    let key = crate::record::encode_key(&schema, &("é", -5, &[0x80u8, 0xff]), &mut bytes).expect("a key");
    assert_eq!(show_key(&schema, &bytes[key]), r#"("é", -5, b"\x80\xff")"#);
    assert_eq!(show_key(&schema, b"\x80"), r#"b"\x80""#);
}

#[test]
fn a_projection_orders_columns_and_keeps_only_what_it_needs() {
    let schema = metrics();
    let keys_only = Projection::named(&schema, ["time", "host"]).expect("columns of the schema");
    assert!(keys_only.needs_key() && !keys_only.needs_row());
    let batch_of_keys = batch(&schema, keys_only);
    let row = batch_of_keys.get(2).expect("three rows");
    assert_eq!(row.columns().collect::<Vec<_>>(), ["time", "host"]);
    assert_eq!(row.to_values().expect("good bytes"), [Value::Int(i64::MAX), Value::String("z")]);
    assert_eq!(row.value(0).expect("time"), Value::Int(i64::MAX));
    let error = row.get::<f64>("value").expect_err("not asked for");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"value\" was not asked for"), "{error}");
    assert!(row.get::<f64>("valve").expect_err("no such column").to_string().contains("\"valve\""));
    assert!(row.get::<f64>(2).is_err());

    let values_only = Projection::named(&schema, ["note"]).expect("columns of the schema");
    assert!(!values_only.needs_key() && values_only.needs_row());
    let batch_of_values = batch(&schema, values_only);
    assert_eq!(
        batch_of_values.iter().map(|row| row.to_string()).collect::<Vec<_>>(),
        [r#"(note: "peak")"#, "(note: null)", r#"(note: "")"#]
    );
    assert_eq!(batch_of_values.len(), 3);
    assert!(Projection::named(&schema, ["nope"]).is_err());
}

#[test]
fn a_wrong_type_names_the_column_and_both_types() {
    let schema = metrics();
    let batch = batch(&schema, Projection::all(&schema));
    let error = batch.get(0).expect("three rows").get::<u32>("host").expect_err("a string");
    let text = r#"invalid argument: column "host" (string): u32 asked for, string found"#;
    assert_eq!(error.to_string(), text);
    let error = batch.get(1).expect("three rows").get::<&str>("note").expect_err("a null");
    assert!(error.to_string().contains("null found"), "{error}");
}

#[test]
fn a_row_of_an_unknown_schema_is_corruption_and_leaves_the_builder() {
    let schema = metrics();
    let mut builder = RowBatchBuilder::new(ReadSchema::of(&schema), Projection::all(&schema));
    let mut bytes = Vec::new();
    let (key, row) = encode_record(&schema, &ROWS[0], &mut bytes).expect("a row that fits");
    let good = |builder: &mut RowBatchBuilder| {
        builder.push(&bytes[key.clone()], &bytes[row.clone()], SchemaVersion(1), Version(7))
    };
    for _ in 0..2 {
        let before = builder.bytes();
        let error = builder.push(b"key", b"row", SchemaVersion(9), Version(7)).expect_err("no such schema");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(builder.bytes(), before);
        good(&mut builder).expect("a row of this schema");
    }
    let batch = builder.finish();
    assert_eq!(batch.len(), 2);
    for row in &*batch {
        assert_eq!(row.get::<&str>("note").expect("note"), "peak");
    }
}

#[test]
fn memory_of_a_batch_is_used_again_once_nobody_holds_it() {
    let schema = metrics();
    let mut builder = RowBatchBuilder::new(ReadSchema::of(&schema), Projection::all(&schema));
    builder.push(b"", &[0; 100], SchemaVersion(1), Version(7)).expect("bytes are not looked at");
    let held = builder.finish();
    let row = Row::new(Arc::clone(&held), 0);
    builder.recycle(held);
    assert!(builder.is_empty());
    assert_eq!(row.batch.rows.bytes.len(), 100, "a held batch stays as it is");

    let Row { batch, .. } = row;
    let memory = batch.rows.bytes.as_ptr();
    builder.recycle(batch);
    builder.push(b"", &[1; 50], SchemaVersion(1), Version(7)).expect("bytes are not looked at");
    let again = builder.finish();
    assert!(std::ptr::eq(again.rows.bytes.as_ptr(), memory));
    assert_eq!(again.rows.get(0), [1; 50]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn batches_give_back_what_was_pushed(
        (schema, records) in schema(3, 5).prop_flat_map(|schema| {
            let records = proptest::collection::vec(record(&schema), 0..6);
            (Just(schema), records)
        }),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let schema = Arc::new(schema);
        let columns: Arc<[usize]> = picks.iter().map(|pick| pick.index(schema.columns().len())).collect();
        let mut builder = RowBatchBuilder::new(ReadSchema::of(&schema), Projection::of(&schema, Arc::clone(&columns)));
        let mut bytes = Vec::new();
        for record in &records {
            let (key, row) = encode_record(&schema, &values(record), &mut bytes).expect("values that fit");
            builder.push(&bytes[key], &bytes[row], schema.version(), Version(7)).expect("a row of this schema");
        }
        let batch = builder.finish();
        prop_assert_eq!(batch.len(), records.len());
        for (row, record) in batch.iter().zip(&records) {
            let record = values(record);
            let expected: Vec<Value<'_>> = columns.iter().map(|&column| record[column]).collect();
            prop_assert_eq!(row.to_values().expect("good bytes"), expected);
        }
    }

    #[test]
    fn damaged_keys_and_rows_are_errors(
        schema in schema(3, 3),
        key in proptest::collection::vec(any::<u8>(), 0..30),
        row in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        let schema = Arc::new(schema);
        let mut builder = RowBatchBuilder::new(ReadSchema::of(&schema), Projection::all(&schema));
        builder.push(&key, &row, schema.version(), Version(7)).expect("bytes are not looked at");
        let batch = builder.finish();
        if let Err(error) = batch.get(0).expect("one row").to_values() {
            prop_assert_eq!(error.kind(), ErrorKind::Corruption);
        }
        let _ = format!("{batch:?}");
        let _ = show_key(&schema, &key);
    }
}
