//! Schemas: what is valid, how they differ, and their bytes.

use super::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, Schema, SchemaBuilder, pb};
use crate::error::ErrorKind;
use crate::row::tests::arbitrary;
use codec::{ColumnId, SchemaVersion};
use encoded_key::Type;
use proptest::prelude::*;
use prost::Message as _;

fn metrics() -> SchemaBuilder {
    Schema::builder()
        .key("host", Type::U32)
        .key("time", Type::Timestamp.descending())
        .column("value", Type::F64)
        .column("price", Type::Decimal { precision: 9, scale: 2 })
        .column("note", Type::String.nullable())
}

#[test]
fn columns_are_found_by_name_and_have_ids() {
    let schema = metrics().build().expect("a valid schema");
    for (index, column) in schema.columns().iter().enumerate() {
        assert_eq!(schema.column_index(&column.name), Some(index));
        assert_eq!(column.id, ColumnId(u32::try_from(index).expect("few columns") + 1));
    }
    assert_eq!(schema.column_index("nope"), None);
    assert_eq!(schema.version(), SchemaVersion(1));
    assert_eq!(schema.key_layout().columns().len(), 2);
    let text = r#"Schema v1 (key "host": u32, key "time": timestamp, descending, "value": f64, "price": decimal(9, 2), "note": string, nullable)"#;
    assert_eq!(format!("{schema:?}"), text);
}

#[test]
fn what_is_wrong_with_a_schema_is_told_with_the_column() {
    let key = || Schema::builder().key("id", Type::U64);
    let cases = [
        (Schema::builder(), "at least one key column"),
        (Schema::builder().column("a", Type::U8), "at least one key column"),
        (key().column("a", Type::U8).key("late", Type::U8), "key column \"late\" comes after"),
        (Schema::builder().key("id", Type::U64.nullable()), "\"id\": a key column cannot be nullable"),
        (key().column("a", Type::U64.descending()), "\"a\": only a key column can be descending"),
        (key().column("", Type::U8), "needs a name"),
        (key().column("id", Type::U8), "two columns are called \"id\""),
        (key().column("x".repeat(256), Type::U8), "a name of 256 bytes"),
        (key().column("d", Type::Decimal { precision: 0, scale: 0 }), "\"d\": a decimal(0, 0)"),
        (key().column("d", Type::Decimal { precision: 39, scale: 0 }), "\"d\": a decimal(39, 0)"),
        (key().column("d", Type::Decimal { precision: 5, scale: 6 }), "\"d\": a decimal(5, 6)"),
    ];
    for (builder, text) in cases {
        let error = builder.build().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn names_and_columns_at_the_limit_work_and_one_above_does_not() {
    let longest = "é".repeat(COLUMN_NAME_BYTES_MAX / 2) + "x";
    assert_eq!(longest.len(), COLUMN_NAME_BYTES_MAX);
    assert!(Schema::builder().key(longest, Type::U8).build().is_ok());

    let wide = |columns: usize| {
        (1..columns).fold(Schema::builder().key("c0", Type::U8), |builder, i| {
            builder.column(format!("c{i}"), Type::U8)
        })
    };
    let widest = wide(COLUMNS_MAX).build().expect("as many columns as can be");
    assert_eq!(widest.column_index("c999"), Some(999));
    let error = wide(COLUMNS_MAX + 1).build().expect_err("one too many");
    assert!(error.to_string().contains("1001 columns"), "{error}");
}

#[test]
fn other_column_types_are_a_mismatch_that_names_both() {
    let stored = metrics().build().expect("a valid schema");
    stored.matches(&metrics().build().expect("a valid schema")).expect("the same schema");
    let base = || Schema::builder().key("host", Type::U32);
    let asked = [
        (
            base().key("time", Type::Timestamp),
            r#"column "time" is timestamp, descending, timestamp asked for; column "value" (f64) is in the table, but not asked for"#,
        ),
        (base().column("time", Type::Timestamp), "the table has 2 key columns, 1 asked for"),
        (
            metrics().column("extra", Type::Bool),
            r#"column "extra" (bool) is asked for, but not in the table"#,
        ),
        (
            base().key("time", Type::Timestamp.descending()).column("value", Type::I64),
            r#"column "value" is f64, i64 asked for"#,
        ),
        (
            base().key("when", Type::Timestamp.descending()),
            r#"column 1 is "time" (timestamp, descending), "when" (timestamp, descending) asked for"#,
        ),
    ];
    for (builder, text) in asked {
        let error = stored.matches(&builder.build().expect("a valid schema")).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn many_differences_are_counted_not_listed() {
    let key = || Schema::builder().key("id", Type::U8);
    let wide = (0..100).fold(key(), |builder, i| builder.column(format!("c{i}"), Type::U8));
    let error =
        key().build().expect("valid").matches(&wide.build().expect("valid")).expect_err("100 columns more");
    assert!(error.to_string().ends_with("; and 92 more"), "{error}");
}

fn message() -> pb::Schema {
    pb::Schema::decode(&*metrics().build().expect("a valid schema").encode_to_vec()).expect("bytes of ours")
}

#[test]
fn bytes_that_are_no_valid_schema_are_refused() {
    type Change = fn(&mut pb::Schema);
    let corruptions: [(Change, &str); 14] = [
        (|m| m.version = 0, "version 0"),
        (|m| m.key_codec_version = 0, "no version of the key codec"),
        (|m| m.key_columns = 0, "at least one key column"),
        (|m| m.key_columns = 6, "6 key columns of 5"),
        (|m| m.key_columns = u32::MAX, "key columns of 5"),
        (|m| m.columns.clear(), "2 key columns of 0"),
        (|m| m.columns[1].id = 1, "two columns have the id 1"),
        (|m| m.columns[1].id = 0, "column ids must lie from 1"),
        (|m| m.next_column_id = 5, "column ids must lie from 1 to below 5"),
        (|m| m.columns[2].name = "host".into(), "two columns are called \"host\""),
        (|m| m.columns[2].r#type = 0, "column \"value\" has no type"),
        (|m| m.columns[2].precision = 3, "column \"value\" is no decimal, but has digits"),
        (|m| m.columns[3].precision = 300, "column \"price\" is a decimal(300, 2)"),
        (|m| m.columns[0].nullable = true, "column \"host\": a key column cannot be nullable"),
    ];
    for (change, text) in corruptions {
        let mut message = message();
        change(&mut message);
        let error = Schema::decode(&message.encode_to_vec()).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let newer: [(Change, &str); 2] = [
        (|m| m.key_codec_version = 2, "keys of codec version 2"),
        (|m| m.columns[2].r#type = 99, "column \"value\" has the unknown type 99"),
    ];
    for (change, text) in newer {
        let mut message = message();
        change(&mut message);
        let error = Schema::decode(&message.encode_to_vec()).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let mut bytes = message().encode_to_vec();
    bytes.extend([0x30, 1]);
    let error = Schema::decode(&bytes).expect_err("a field that nobody knows");
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat);
    assert_eq!(Schema::decode(b"").expect_err("nothing").kind(), ErrorKind::Corruption);
}

#[test]
fn the_bytes_are_frozen() {
    let schema =
        Schema::builder().key("k", Type::I8.descending()).column("v", Type::Binary.nullable()).build();
    let expected = b"\x08\x01\x10\x01\x18\x01\x20\x03\x2a\x09\x08\x01\x12\x01k\x18\x02\x38\x01\x2a\x09\x08\x02\x12\x01v\x18\x10\x30\x01";
    assert_eq!(schema.expect("a valid schema").encode_to_vec(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn schemas_round_trip(schema in arbitrary::schema(4, 8)) {
        let bytes = schema.encode_to_vec();
        let read = Schema::decode(&bytes).expect("bytes of ours");
        prop_assert_eq!(&read, &schema);
        prop_assert!(schema.matches(&read).is_ok());
        prop_assert_eq!(read.encode_to_vec(), bytes);
    }

    #[test]
    fn damaged_bytes_never_panic(
        schema in arbitrary::schema(2, 4),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = schema.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Schema::decode(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = Schema::decode(&bytes);
    }
}
