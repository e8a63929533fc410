//! Encoded keys: decoded, encoded, compared and bounded.
//!
//! Input: a byte for the number of columns, the columns as in [`crate::columns`], a byte of flags, then two keys. A key
//! is bytes with their length before (flags 1 and 2 for the first and the second), or values that are encoded.
//!
//! Asked: a key that decodes is, to the byte, what encoding its values gives; every way to read a column gives the
//! same; two keys compare like their values; and each key lies in every range that its values say it lies in.

use std::cmp::Ordering;
use std::ops::Bound;

use encoded_key::{
    KeyBuilder, KeyColumn, KeyDecoder, KeyError, KeyLayout, KeyRange, Type, Value, borrow_column,
    decode_column,
};

use crate::input::Input;
use crate::{Verdict, columns};

const COLUMNS_MAX: usize = 6;

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let mut input = Input::new(data);
    let count = usize::from(input.u8()) % COLUMNS_MAX + 1;
    let types: Vec<_> = (0..count).map(|_| columns::column(&mut input)).collect();
    let key_columns = types.iter().map(|column| KeyColumn { ty: column.ty, descending: column.descending });
    let layout = KeyLayout::new(key_columns.collect()).expect("columns of valid types");
    let flags = input.u8();
    let mut keys = Vec::new();
    for flag in [1, 2] {
        let key = if flags & flag != 0 {
            input.short_bytes().to_vec()
        } else {
            let values: Vec<Value<'_>> = types
                .iter()
                .map(|column| {
                    columns::value(&mut input, encoded_key::ColumnType { nullable: false, ..*column })
                })
                .collect();
            let Ok(key) = encode(&layout, &values) else { return Verdict::Refused };
            let read = decode(&layout, &key).expect("what was encoded");
            assert!(
                read.iter().zip(&values).all(|(read, value)| read.as_value() == *value),
                "values come back"
            );
            key
        };
        keys.push(key);
    }
    let decoded: Vec<_> = keys.iter().map(|key| decode(&layout, key)).collect();
    for (key, decoded) in keys.iter().zip(&decoded) {
        match decoded {
            Ok(values) => check_key(&layout, key, values),
            Err(_) => check_damaged(&layout, key),
        }
    }
    let [Ok(first), Ok(second)] = &decoded[..] else { return Verdict::Refused };
    check_order(&layout, (&keys[0], first), (&keys[1], second));
    Verdict::Accepted
}

/// A value with its text.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Fixed(Value<'static>),
    String(String),
    Binary(Vec<u8>),
}

impl Owned {
    fn new(value: Value<'_>) -> Owned {
        match value {
            Value::String(text) => Owned::String(text.to_owned()),
            Value::Binary(bytes) => Owned::Binary(bytes.to_owned()),
            Value::Null => Owned::Fixed(Value::Null),
            Value::Bool(value) => Owned::Fixed(Value::Bool(value)),
            Value::Int(value) => Owned::Fixed(Value::Int(value)),
            Value::UInt(value) => Owned::Fixed(Value::UInt(value)),
            Value::F32(value) => Owned::Fixed(Value::F32(value)),
            Value::F64(value) => Owned::Fixed(Value::F64(value)),
            Value::Decimal(value) => Owned::Fixed(Value::Decimal(value)),
            Value::Date(value) => Owned::Fixed(Value::Date(value)),
            Value::Timestamp(value) => Owned::Fixed(Value::Timestamp(value)),
        }
    }

    fn as_value(&self) -> Value<'_> {
        match self {
            Owned::Fixed(value) => *value,
            Owned::String(text) => Value::String(text),
            Owned::Binary(bytes) => Value::Binary(bytes),
        }
    }
}

fn as_values(values: &[Owned]) -> Vec<Value<'_>> {
    values.iter().map(Owned::as_value).collect()
}

fn encode(layout: &KeyLayout, values: &[Value<'_>]) -> Result<Vec<u8>, KeyError> {
    let mut out = b"before".to_vec();
    let mut builder = KeyBuilder::new(layout, &mut out);
    for value in values {
        builder.push(*value)?;
    }
    let range = builder.finish()?;
    Ok(out[range].to_vec())
}

fn decode(layout: &KeyLayout, key: &[u8]) -> Result<Vec<Owned>, KeyError> {
    let mut decoder = KeyDecoder::new(layout, key);
    let mut scratch = Vec::new();
    let mut values = Vec::new();
    for _ in layout.columns() {
        values.push(Owned::new(decoder.next_column(&mut scratch)?));
    }
    decoder.finish()?;
    Ok(values)
}

fn check_key(layout: &KeyLayout, key: &[u8], owned: &[Owned]) {
    let values = as_values(owned);
    assert_eq!(encode(layout, &values).expect("what was decoded"), key, "there is one form for a key");
    assert!(key.len() >= layout.bytes_min());
    let mut skipper = KeyDecoder::new(layout, key);
    let mut end = 0;
    let mut scratch = Vec::new();
    for (column, value) in values.iter().enumerate() {
        let range = skipper.skip_column().expect("a sound key");
        assert_eq!(range.start, end, "columns touch");
        end = range.end;
        assert_eq!(decode_column(layout, key, column, &mut scratch).expect("a sound key"), *value);
        if let Some(borrowed) = borrow_column(layout, key, column).expect("a sound key") {
            assert_eq!(borrowed, *value);
        }
    }
    skipper.finish().expect("a sound key");
    check_bounds(layout, key, &values);
}

fn check_bounds(layout: &KeyLayout, key: &[u8], values: &[Value<'_>]) {
    for count in 0..=values.len() {
        let front = &values[..count];
        let prefix = KeyRange::prefix(layout, front).expect("they fit");
        assert!(prefix.contains(key) && !prefix.is_empty(), "a key starts with its columns");
        let bounds = |lower, upper| KeyRange::range(layout, lower, upper).expect("they fit");
        assert!(bounds(Bound::Included(front), Bound::Included(front)).contains(key));
        assert!(bounds(Bound::Included(front), Bound::Unbounded).contains(key));
        assert!(bounds(Bound::Unbounded, Bound::Included(front)).contains(key));
        assert!(!bounds(Bound::Excluded(front), Bound::Unbounded).contains(key));
        assert!(!bounds(Bound::Unbounded, Bound::Excluded(front)).contains(key));
        assert!(bounds(Bound::Included(front), Bound::Excluded(front)).is_empty());
        assert_eq!(prefix.intersect(&KeyRange::all()), prefix);
        assert!(prefix.intersect(&KeyRange::point(key)).contains(key));
        let starts = match values.get(count) {
            Some(Value::String(text)) => {
                let end = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
                KeyRange::starts_with(layout, front, Value::String(&text[..end]))
            }
            Some(Value::Binary(bytes)) => {
                KeyRange::starts_with(layout, front, Value::Binary(&bytes[..bytes.len() / 2]))
            }
            _ => continue,
        };
        assert!(starts.expect("it fits").contains(key), "a text starts with its front");
    }
}

/// What does not decode whole, column by column: errors, and no column that reads in one way and not in the other.
fn check_damaged(layout: &KeyLayout, key: &[u8]) {
    let mut scratch = Vec::new();
    for column in 0..=layout.columns().len() {
        let decoded = decode_column(layout, key, column, &mut scratch).map(Owned::new);
        match (borrow_column(layout, key, column), decoded) {
            (Ok(Some(borrowed)), decoded) => {
                assert_eq!(decoded.map(|value| value.as_value() == borrowed), Ok(true))
            }
            (Ok(None), _) => {}
            (Err(_), decoded) => assert!(decoded.is_err(), "borrowed with an error, decoded without"),
        }
    }
    let mut skipper = KeyDecoder::new(layout, key);
    while skipper.skip_column().is_ok() {}
}

fn check_order(layout: &KeyLayout, first: (&[u8], &[Owned]), second: (&[u8], &[Owned])) {
    let columns = layout.columns().iter().zip(first.1.iter().zip(second.1));
    let by_values = columns
        .map(|(column, (a, b))| {
            let order = compare(column.ty, a, b);
            if column.descending { order.reverse() } else { order }
        })
        .fold(Ordering::Equal, Ordering::then);
    assert_eq!(first.0.cmp(second.0), by_values, "keys compare like their values");
    let (low, high) = if by_values.is_le() { (first, second) } else { (second, first) };
    let range = |lower, upper| KeyRange::range(layout, lower, upper).expect("they fit");
    let (low_values, high_values) = (as_values(low.1), as_values(high.1));
    let between = range(Bound::Included(&low_values[..]), Bound::Included(&high_values[..]));
    assert!(between.contains(low.0) && between.contains(high.0));
    let inside = range(Bound::Excluded(&low_values[..]), Bound::Excluded(&high_values[..]));
    assert!(!inside.contains(low.0) && !inside.contains(high.0));
    assert!(range(Bound::Excluded(&high_values[..]), Bound::Included(&low_values[..])).is_empty());
}

/// The order that the documents promise, not through the code under test.
fn compare(ty: Type, a: &Owned, b: &Owned) -> Ordering {
    match (a, b) {
        (Owned::String(a), Owned::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Owned::Binary(a), Owned::Binary(b)) => a.cmp(b),
        (Owned::Fixed(a), Owned::Fixed(b)) => match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::UInt(a), Value::UInt(b)) => a.cmp(b),
            (Value::F32(a), Value::F32(b)) => a.total_cmp(b),
            (Value::F64(a), Value::F64(b)) => a.total_cmp(b),
            (Value::Decimal(a), Value::Decimal(b)) => a.unscaled.cmp(&b.unscaled),
            (Value::Date(a), Value::Date(b)) => a.days().cmp(&b.days()),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.micros().cmp(&b.micros()),
            _ => panic!("two values of one {ty} column are of two kinds"),
        },
        _ => panic!("two values of one {ty} column are of two kinds"),
    }
}
