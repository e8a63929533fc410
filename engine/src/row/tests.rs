//! The row format, and the batches that hold rows.

pub(crate) mod arbitrary;
mod batch;

use super::{ROW_BYTES_MAX, RowLayout, RowWriter};
use crate::error::{ErrorKind, Result};
use crate::schema::Schema;
use arbitrary::{schema_and_record, value_of, values};
use encoded_key::ColumnType;
use encoded_key::{Date, Decimal, Type, Value};
use proptest::prelude::*;
use std::ops::Range;

fn layout(columns: &[ColumnType]) -> RowLayout {
    let mut builder = Schema::builder().key("k", Type::U8);
    for (index, &column) in columns.iter().enumerate() {
        builder = builder.column(format!("v{index}"), column);
    }
    builder.build().expect("a valid schema").row_layout().clone()
}

fn write(layout: &RowLayout, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<Range<usize>> {
    let mut writer = RowWriter::new(layout, out);
    for &value in values {
        writer.push(value)?;
    }
    writer.finish()
}

fn row(layout: &RowLayout, values: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    write(layout, values, &mut out).expect("values that fit");
    out
}

fn read<'a>(layout: &RowLayout, row: &'a [u8]) -> Result<Vec<Value<'a>>> {
    (0..layout.columns()).map(|column| layout.get(row, column)).collect()
}

#[test]
fn the_bytes_are_those_of_the_table() {
    let layout = layout(&[
        Type::I16.into(),
        Type::String.nullable(),
        Type::Decimal { precision: 9, scale: 2 }.nullable(),
        Type::Binary.into(),
        Type::Bool.into(),
        Type::String.into(),
    ]);
    let values = [
        Value::Int(-2),
        Value::Null,
        Value::Decimal(Decimal { unscaled: -12_345, scale: 2 }),
        Value::Binary(&[0, 0xff]),
        Value::Bool(true),
        Value::String("é"),
    ];
    let mut expected = vec![0b01, 0xfe, 0xff, 0xc7, 0xcf, 0xff, 0xff, 1];
    expected.extend([0, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend([0, 0xff, 0xc3, 0xa9]);
    let row = row(&layout, &values);
    assert_eq!(row, expected);
    layout.verify(&row).expect("a row of ours");
    assert_eq!(read(&layout, &row).expect("a row of ours"), values);
}

#[test]
fn one_binary_column_is_its_bytes() {
    let layout = layout(&[Type::Binary.into()]);
    for bytes in [&b""[..], b"\0", b"value"] {
        assert_eq!(row(&layout, &[Value::Binary(bytes)]), bytes);
        assert_eq!(layout.get(bytes, 0).expect("any bytes"), Value::Binary(bytes));
    }
}

#[test]
fn an_empty_value_is_not_a_null() {
    let layout = layout(&[Type::String.nullable(), Type::Binary.nullable()]);
    let empty = row(&layout, &[Value::String(""), Value::Binary(b"")]);
    let null = row(&layout, &[Value::Null, Value::Null]);
    assert_eq!(read(&layout, &empty).expect("a row"), [Value::String(""), Value::Binary(b"")]);
    assert_eq!(read(&layout, &null).expect("a row"), [Value::Null, Value::Null]);
}

#[test]
fn a_row_without_columns_is_empty() {
    let layout = layout(&[]);
    assert!(row(&layout, &[]).is_empty());
    layout.verify(b"").expect("the only row");
    assert_eq!(layout.verify(b"x").expect_err("a byte too many").kind(), ErrorKind::Corruption);
}

#[test]
fn values_that_do_not_fit_name_the_column_and_leave_the_buffer() {
    let layout =
        layout(&[Type::U8.into(), Type::String.into(), Type::Decimal { precision: 3, scale: 1 }.nullable()]);
    let decimal = |unscaled, scale| Value::Decimal(Decimal { unscaled, scale });
    let fits = [Value::Int(255), Value::String("x"), decimal(700, 2)];
    let cases: [(&[Value<'_>], &str); 9] = [
        (&[Value::Int(256), fits[1], fits[2]], "v0"),
        (&[Value::Int(-1), fits[1], fits[2]], "v0"),
        (&[Value::String("1"), fits[1], fits[2]], "\"v0\": u8 expected, string found"),
        (&[Value::Null, fits[1], fits[2]], "\"v0\" (u8) cannot be null"),
        (&[fits[0], Value::Binary(b"x"), fits[2]], "\"v1\": string expected, binary found"),
        (&[fits[0], fits[1], decimal(701, 2)], "v2"),
        (&[fits[0], fits[1], decimal(1000, 1)], "v2"),
        (&[fits[0], fits[1]], "no value for column \"v2\""),
        (&[fits[0], fits[1], fits[2], fits[0]], "more values than the 3 columns"),
    ];
    for (values, text) in cases {
        let mut out = b"before".to_vec();
        let error = write(&layout, values, &mut out).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(out, b"before");
    }
    let mut out = b"before".to_vec();
    assert_eq!(write(&layout, &fits, &mut out).expect("these fit"), 6..out.len());
    drop(RowWriter::new(&layout, &mut out));
    layout.verify(&out[6..]).expect("the abandoned row has left nothing");
}

#[test]
fn a_row_at_the_limit_works_and_one_above_does_not() {
    let layout = layout(&[Type::U32.into(), Type::Binary.into()]);
    let largest = vec![7; ROW_BYTES_MAX - 4];
    let mut out = Vec::new();
    let range = write(&layout, &[Value::Int(1), Value::Binary(&largest)], &mut out).expect("the largest row");
    assert_eq!(range.len(), ROW_BYTES_MAX);
    assert_eq!(layout.get(&out, 1).expect("the largest row"), Value::Binary(&largest));
    out.clear();
    let mut longer = vec![7; ROW_BYTES_MAX + 1];
    longer[..4].copy_from_slice(&[0; 4]);
    assert!(layout.verify(&longer[..ROW_BYTES_MAX]).is_ok());
    assert!(layout.verify(&longer).is_err_and(|error| error.kind() == crate::ErrorKind::Corruption));
    let above = vec![7; ROW_BYTES_MAX - 3];
    let error =
        write(&layout, &[Value::Int(1), Value::Binary(&above)], &mut out).expect_err("a byte too many");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"v1\""), "{error}");
    assert!(out.is_empty());
}

#[test]
fn damage_names_the_column() {
    let layout = layout(&[Type::Bool.nullable(), Type::String.into(), Type::String.into()]);
    let good = row(&layout, &[Value::Bool(true), Value::String("ab"), Value::String("c")]);
    assert_eq!(good, [0, 1, 2, 0, 0, 0, b'a', b'b', b'c']);
    let damages: [(usize, u8, &str); 6] = [
        (0, 0b10, "padding"),
        (0, 0b01, "\"v0\" (bool): a null with a value"),
        (1, 2, "\"v0\" (bool): impossible number"),
        (2, 4, "\"v1\" (string): impossible length"),
        (5, 0xff, "\"v1\" (string): impossible length"),
        (8, 0xff, "\"v2\" (string): invalid utf-8"),
    ];
    for (at, byte, text) in damages {
        let mut damaged = good.clone();
        damaged[at] = byte;
        let error = layout.verify(&damaged).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn decimals_beyond_their_precision_are_damage() {
    let layout = layout(&[Type::Decimal { precision: 9, scale: 0 }.into()]);
    assert!(layout.verify(&999_999_999i32.to_le_bytes()).is_ok());
    assert!(layout.verify(&1_000_000_000i32.to_le_bytes()).is_err());
    assert!(layout.verify(&i32::MIN.to_le_bytes()).is_err());
}

#[test]
fn dates_before_1970_come_back() {
    let layout = layout(&[Type::Date.into()]);
    let date = Date::from_ymd(1969, 12, 31).expect("a day");
    let row = row(&layout, &[Value::Date(date)]);
    assert_eq!(row, [0xff; 4]);
    assert_eq!(layout.get(&row, 0).expect("a row"), Value::Date(date));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn rows_round_trip((schema, record) in schema_and_record()) {
        let layout = schema.row_layout();
        let values = &values(&record)[schema.key_columns()..];
        let row = row(layout, values);
        layout.verify(&row).expect("a row of ours");
        let read = read(layout, &row).expect("a row of ours");
        prop_assert_eq!(&*read, values);
    }

    #[test]
    fn a_truncated_row_is_an_error_or_another_valid_row((schema, record) in schema_and_record()) {
        let layout = schema.row_layout();
        let whole = row(layout, &values(&record)[schema.key_columns()..]);
        let has_texts = schema.columns()[schema.key_columns()..].iter().any(|column| column.ty.is_text());
        for length in 0..whole.len() {
            match layout.verify(&whole[..length]) {
                // Only the end of the last text can be cut off unseen; the checksum below sees that.
                Ok(()) => prop_assert!(has_texts),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corruption),
            }
        }
        let mut longer = whole;
        longer.push(0);
        prop_assert!(has_texts || layout.verify(&longer).is_err());
    }

    #[test]
    fn damaged_rows_never_panic_and_what_passes_is_canonical(
        (schema, record) in schema_and_record(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let layout = schema.row_layout();
        let mut damaged = row(layout, &values(&record)[schema.key_columns()..]);
        for (at, byte) in flips {
            if !damaged.is_empty() {
                let at = at.index(damaged.len());
                damaged[at] = byte;
            }
        }
        let values = read(layout, &damaged);
        if layout.verify(&damaged).is_ok() {
            prop_assert_eq!(row(layout, &values.expect("it was verified")), damaged);
        }
    }

    #[test]
    fn random_bytes_never_panic(
        (schema, _) in schema_and_record(),
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let layout = schema.row_layout();
        for column in 0..layout.columns() {
            let _ = layout.get(&bytes, column);
        }
        if layout.verify(&bytes).is_ok() {
            let values = read(layout, &bytes).expect("it was verified");
            prop_assert_eq!(row(layout, &values), bytes);
        }
    }

    #[test]
    fn a_patched_row_is_the_row_of_the_new_values(
        (schema, record) in schema_and_record(),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        seed in any::<u64>(),
    ) {
        let layout = schema.row_layout();
        let mut expected = values(&record)[schema.key_columns()..].to_vec();
        prop_assume!(!expected.is_empty());
        let old = row(layout, &expected);
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let changes: Vec<_> = picks.iter().map(|pick| {
            let column = pick.index(expected.len());
            let ty = schema.columns()[schema.key_columns() + column].ty;
            let tree = value_of(ty).new_tree(&mut runner).expect("a value");
            (column, proptest::strategy::ValueTree::current(&tree))
        }).collect();
        let changes: Vec<_> =
            changes.iter().map(|(column, owned)| (*column, crate::value::AsValue::as_value(owned))).collect();
        for &(column, value) in &changes {
            expected[column] = value;
        }
        let mut out = seed.to_le_bytes().to_vec();
        let range = layout.patch(&old, &changes, &mut out).expect("values that fit");
        prop_assert_eq!(&out[..8], seed.to_le_bytes());
        prop_assert_eq!(&out[range], row(layout, &expected));
    }
}
