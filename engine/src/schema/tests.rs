//! Schemas: what is valid, how they differ, and their bytes.

use super::{COLUMN_NAME_BYTES_MAX, COLUMNS_EVER_MAX, COLUMNS_MAX, Change, Schema, SchemaBuilder, pb};
use crate::error::ErrorKind;
use crate::row::tests::arbitrary;
use codec::{ColumnId, SchemaVersion};
use encoded_key::{ColumnType, Type, Value};
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
            r#"column "time" (timestamp, descending) is in the table, but not asked for"#,
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
    bytes.extend([0x38, 1]);
    let error = Schema::decode(&bytes).expect_err("a field that nobody knows");
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat);
    assert_eq!(Schema::decode(b"").expect_err("nothing").kind(), ErrorKind::Corruption);
}

fn altered() -> Schema {
    let schema = metrics().build().expect("a valid schema");
    let add = |name: &str, ty: ColumnType, default: Value<'_>| {
        Change::add(name.to_owned(), ty, default).expect("a default that fits")
    };
    let schema = schema.changed(&[
        add("unit", Type::String.into(), Value::String("none")),
        Change::Rename { from: "host".to_owned(), to: "machine".to_owned() },
        Change::Drop { name: "price".to_owned() },
    ]);
    let schema = schema.expect("legal changes").changed(&[add("price", Type::I16.nullable(), Value::Null)]);
    schema.expect("legal changes")
}

#[test]
fn an_altered_schema_knows_the_columns_of_each_version_and_gives_no_id_twice() {
    let schema = altered();
    let text = r#"Schema v3 (key "machine": u32, key "time": timestamp, descending, "value": f64, "note": string, nullable, "unit": string, "price": i16, nullable)"#;
    assert_eq!(format!("{schema:?}"), text);
    let at = |version| {
        let columns = schema.value_columns_at(SchemaVersion(version));
        columns.map(|columns| columns.iter().map(|column| column.id.0).collect::<Vec<_>>())
    };
    assert_eq!(at(0), None);
    assert_eq!(at(1), Some(vec![3, 4, 5]));
    assert_eq!(at(2), Some(vec![3, 5, 6]));
    assert_eq!(at(3), Some(vec![3, 5, 6, 7]), "another column of an old name");
    assert_eq!(at(4), None);
    assert_eq!(schema.last_drop(), SchemaVersion(2));
    assert!(!schema.has_layout_of(SchemaVersion(2)));
    let renamed = schema.changed(&[Change::Rename { from: "note".into(), to: "remark".into() }]);
    let renamed = renamed.expect("a legal change");
    assert!(renamed.has_layout_of(SchemaVersion(3)) && renamed.has_layout_of(SchemaVersion(4)));
    assert!(!renamed.has_layout_of(SchemaVersion(2)) && !renamed.has_layout_of(SchemaVersion(5)));

    let first = metrics().build().expect("a valid schema");
    assert!(schema.comes_of(&first) && renamed.comes_of(&schema) && schema.comes_of(&schema));
    assert!(!first.comes_of(&schema) && !schema.comes_of(&renamed));
    let other = metrics().column("other", Type::U8).build().expect("a valid schema");
    assert!(!schema.comes_of(&other), "it never had such a column");
}

#[test]
fn what_cannot_become_of_a_schema_is_told_with_the_column() {
    let schema = metrics().build().expect("a valid schema");
    let add = |ty: ColumnType, default: Value<'_>| Change::add("x".to_owned(), ty, default);
    let drop = |name: &str| Change::Drop { name: name.to_owned() };
    let rename = |from: &str, to: &str| Change::Rename { from: from.to_owned(), to: to.to_owned() };
    let added = add(Type::U8.into(), Value::Int(1)).expect("it fits");
    let cases = [
        (vec![drop("time")], "\"time\" is part of the key"),
        (vec![drop("nobody")], "no column \"nobody\""),
        (vec![drop("note"), drop("note")], "no column \"note\""),
        (vec![rename("nobody", "x")], "no column \"nobody\""),
        (vec![rename("note", "host")], "two columns are called \"host\""),
        (vec![rename("note", "")], "needs a name"),
        (vec![added.clone(), added], "two columns are called \"x\""),
        (
            vec![Change::Add { name: "x".into(), ty: Type::U8.into(), default: None }],
            "\"x\" (u8) needs a default",
        ),
        (
            vec![add(Type::U8.descending(), Value::Int(1)).expect("it fits")],
            "only a key column can be descending",
        ),
        (
            vec![add(Type::Binary.into(), Value::Binary(&[0; 4097])).expect("it fits")],
            "a default of 4097 bytes",
        ),
        (
            vec![add(Type::Decimal { precision: 0, scale: 0 }.into(), Value::Null).expect("checked later")],
            "decimal(0, 0)",
        ),
    ];
    for (changes, text) in cases {
        let error = schema.changed(&changes).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
    for (ty, default, text) in [
        (ColumnType::from(Type::U8), Value::Null, "\"x\" (u8) cannot be null"),
        (Type::U8.nullable(), Value::Int(256), "column \"x\""),
        (Type::String.into(), Value::Binary(b"x"), "string expected, binary found"),
    ] {
        let error = add(ty, default).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(schema.changed(&[add(Type::Binary.into(), Value::Binary(&[0; 4096])).expect("it fits")]).is_ok());
}

#[test]
fn a_table_remembers_a_bounded_number_of_columns() {
    let mut schema = metrics().build().expect("a valid schema");
    let add = Change::add("x".to_owned(), Type::U8.into(), Value::Int(1)).expect("it fits");
    let gone = [Change::Drop { name: "x".to_owned() }];
    for _ in schema.columns().len()..COLUMNS_EVER_MAX {
        schema = schema.changed(std::slice::from_ref(&add)).expect("room for one more");
        schema = schema.changed(&gone).expect("it is there");
    }
    let error = schema.changed(&[add]).expect_err("one too many");
    assert!(error.to_string().contains("4001 columns with those that were dropped"), "{error}");
    schema.changed(&[Change::Drop { name: "note".to_owned() }]).expect("it goes on otherwise");
}

#[test]
fn a_mismatch_says_which_column_was_dropped() {
    let error = altered().matches(&metrics().build().expect("a valid schema")).expect_err("altered since");
    let text = error.to_string();
    for words in [
        r#"column "machine" (u32) is in the table, but not asked for"#,
        r#"column "price" is i16, nullable, decimal(9, 2) asked for"#,
        r#"column "unit" (string) is in the table, but not asked for"#,
        r#"column "host" (u32) is asked for, but not in the table"#,
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let gone = altered().changed(&[Change::Drop { name: "note".to_owned() }]).expect("legal");
    let error = gone.matches(&altered()).expect_err("dropped");
    assert!(
        error
            .to_string()
            .ends_with(r#""note" (string, nullable) is asked for, but not in the table any more"#),
        "{error}"
    );
    let swapped = Schema::builder().key("a", Type::U8).column("b", Type::U8).column("c", Type::U8);
    let other = Schema::builder().key("a", Type::U8).column("c", Type::U8).column("b", Type::U8);
    let error =
        swapped.build().expect("valid").matches(&other.build().expect("valid")).expect_err("another order");
    assert!(error.to_string().contains(r#"in another order: column 1 is "b", "c" asked for"#), "{error}");
}

#[test]
fn bytes_of_an_altered_schema_come_back_and_wrong_ones_are_refused() {
    let schema = altered();
    let bytes = schema.encode_to_vec();
    let read = Schema::decode(&bytes).expect("bytes of ours");
    assert_eq!(read, schema);
    assert_eq!(read.encode_to_vec(), bytes);
    type Break = fn(&mut pb::Schema);
    let corruptions: [(Break, &str); 12] = [
        (|m| m.dropped[0].column = None, "a dropped column without a column"),
        (|m| m.dropped[0].dropped_in = 1, "came with version 1 and went with 1"),
        (|m| m.dropped[0].dropped_in = 4, "went with 4 of a schema that has 3"),
        (|m| m.dropped[0].column.as_mut().expect("it is there").id = 3, "two columns have the id 3"),
        (|m| m.dropped[0].column.as_mut().expect("it is there").id = 8, "from 1 to below 8"),
        (|m| m.columns.swap(2, 3), "in the order of their ids"),
        (|m| m.columns[4].added_in = 4, "came with version 4 of a schema that has 3"),
        (|m| m.columns[0].added_in = 2, "a key column cannot be added"),
        (|m| m.columns[0].default = Some(vec![0; 4]), "a key column cannot be added or have a default"),
        (|m| m.columns[4].default = None, "\"unit\" (string) needs a default"),
        (|m| m.columns[4].default = Some(vec![0xff]), "its default is no string"),
        (|m| m.columns[5].default = Some(vec![0]), "its default is no i16"),
    ];
    for (change, text) in corruptions {
        let mut message = pb::Schema::decode(&*bytes).expect("bytes of ours");
        change(&mut message);
        let error = Schema::decode(&message.encode_to_vec()).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(text), "{text} is not in {error}");
    }
}

#[test]
fn the_bytes_are_frozen() {
    let schema =
        Schema::builder().key("k", Type::I8.descending()).column("v", Type::Binary.nullable()).build();
    let expected = b"\x08\x01\x10\x01\x18\x01\x20\x03\x2a\x09\x08\x01\x12\x01k\x18\x02\x38\x01\x2a\x09\x08\x02\x12\x01v\x18\x10\x30\x01";
    let schema = schema.expect("a valid schema");
    assert_eq!(schema.encode_to_vec(), expected);
    let altered = schema.changed(&[
        Change::Drop { name: "v".to_owned() },
        Change::add("w".to_owned(), Type::U16.into(), Value::Int(258)).expect("it fits"),
    ]);
    let expected = b"\x08\x02\x10\x01\x18\x01\x20\x04\x2a\x09\x08\x01\x12\x01k\x18\x02\x38\x01\x2a\x0d\x08\x03\x12\x01w\x18\x07\x40\x02\x4a\x02\x02\x01\x32\x0d\x0a\x09\x08\x02\x12\x01v\x18\x10\x30\x01\x10\x02";
    assert_eq!(altered.expect("legal changes").encode_to_vec(), expected);
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
