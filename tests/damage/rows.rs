//! The tables of the database that is damaged, and their rows, which follow from a seed.
//!
//! Between them the tables have every type of column, keys of one and of several columns, ascending and descending,
//! rows that compress and rows that do not, empty rows, and rows of equal length, so that blocks can be exchanged.

use nyala::{AsValue, Date, Decimal, RowRef, Schema, Timestamp, Type, Value};

use crate::random::Random;

/// A value that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Plain(Value<'static>),
    Text(String),
    Bytes(Vec<u8>),
}

impl AsValue for Owned {
    fn as_value(&self) -> Value<'_> {
        match self {
            Owned::Plain(value) => *value,
            Owned::Text(text) => Value::String(text),
            Owned::Bytes(bytes) => Value::Binary(bytes),
        }
    }
}

/// The values of a key, or of a whole row.
pub(crate) type Values = Vec<Owned>;

pub(crate) fn values(owned: &[Owned]) -> Vec<Value<'_>> {
    owned.iter().map(AsValue::as_value).collect()
}

/// Whether a row that was read is the one that was written.
pub(crate) fn is_row(row: RowRef<'_>, written: &[Owned]) -> bool {
    row.len() == written.len()
        && written
            .iter()
            .enumerate()
            .all(|(column, value)| row.value(column).is_ok_and(|found| found == value.as_value()))
}

/// The tables, by their places.
pub(crate) const TABLES: [&str; 4] = ["bytes", "everything", "keys alone", "texts"];
/// Their places.
pub(crate) const BYTES: usize = 0;
pub(crate) const EVERYTHING: usize = 1;
pub(crate) const KEYS: usize = 2;
pub(crate) const TEXTS: usize = 3;

pub(crate) fn schema(table: usize) -> Schema {
    let builder = match table {
        BYTES => Schema::builder().key("k", Type::Binary).column("v", Type::Binary),
        EVERYTHING => {
            let decimal = |precision, scale| Type::Decimal { precision, scale };
            Schema::builder()
                .key("group", Type::I32)
                .key("name", Type::String.descending())
                .key("day", Type::Date)
                .column("bool", Type::Bool)
                .column("i8", Type::I8)
                .column("i16", Type::I16.nullable())
                .column("i32", Type::I32)
                .column("i64", Type::I64)
                .column("u8", Type::U8)
                .column("u16", Type::U16)
                .column("u32", Type::U32)
                .column("u64", Type::U64.nullable())
                .column("f32", Type::F32)
                .column("f64", Type::F64)
                .column("short", decimal(9, 2))
                .column("middle", decimal(18, 4))
                .column("long", decimal(38, 10))
                .column("date", Type::Date)
                .column("time", Type::Timestamp)
                .column("text", Type::String.nullable())
                .column("blob", Type::Binary)
        }
        KEYS => Schema::builder().key("n", Type::U64),
        TEXTS => Schema::builder().key("title", Type::String).column("text", Type::String),
        _ => panic!("there is no table {table}"),
    };
    builder.build().expect("a good schema")
}

/// The key of a number; greater numbers have greater keys.
pub(crate) fn key(table: usize, number: u32) -> Values {
    let n = u64::from(number);
    match table {
        BYTES => vec![Owned::Bytes([&number.to_be_bytes()[..], &[0xff, 0, number as u8]].concat())],
        EVERYTHING => vec![
            Owned::Plain(Value::Int(i64::from(number / 6) - 10)),
            // Descending.
            Owned::Text(["b\0a", "b", ""][(number % 6 / 2) as usize].to_owned()),
            Owned::Plain(Value::Date(Date::from_days((number % 2) as i32 - 1))),
        ],
        KEYS => vec![Owned::Plain(Value::UInt(n * 1_000_003 * n))],
        TEXTS => vec![Owned::Text(format!("title é {number:05}"))],
        _ => panic!("there is no table {table}"),
    }
}

/// A row of this key.
pub(crate) fn row(table: usize, number: u32, random: &mut Random) -> Values {
    let mut row = key(table, number);
    match table {
        BYTES => row.push(Owned::Bytes(random.bytes(440))),
        EVERYTHING => row.extend(everything(random)),
        KEYS => {}
        TEXTS => {
            // Each text comes twice, so that it compresses to about a half.
            let count = 100 + random.below(200);
            let letters = random.bytes(count);
            let text: String = letters.iter().map(|byte| char::from(b' ' + byte % 90)).collect();
            row.push(Owned::Text(text.repeat(2)));
        }
        _ => panic!("there is no table {table}"),
    }
    row
}

/// The value columns of the table that has all types. The forms are those in which columns give values back.
fn everything(random: &mut Random) -> Values {
    let plain = Owned::Plain;
    let decimal = |unscaled: i128, scale| Owned::Plain(Value::Decimal(Decimal { unscaled, scale }));
    let is_null = random.number(4) == 0;
    let text = "every type ".repeat(1 + random.number(4) as usize) + &random.number(1000).to_string();
    let bytes = random.below(40);
    vec![
        plain(Value::Bool(random.number(2) == 1)),
        plain(Value::Int(i64::from(random.next() as i8))),
        if is_null { plain(Value::Null) } else { plain(Value::Int(i64::from(random.next() as i16))) },
        plain(Value::Int(i64::from(random.next() as i32))),
        plain(Value::Int(random.next() as i64)),
        plain(Value::UInt(u64::from(random.next() as u8))),
        plain(Value::UInt(u64::from(random.next() as u16))),
        plain(Value::UInt(u64::from(random.next() as u32))),
        if is_null { plain(Value::UInt(random.next())) } else { plain(Value::Null) },
        plain(Value::F32(f32::from_bits(random.next() as u32))),
        plain(Value::F64(f64::from_bits(random.next()))),
        decimal(i128::from(random.number(999_999_999)), 2),
        decimal(-i128::from(random.number(1 << 59)), 4),
        decimal(i128::from(random.next()) * i128::from(random.number(1 << 50)), 10),
        plain(Value::Date(Date::from_days(random.next() as i32))),
        plain(Value::Timestamp(Timestamp::from_micros(random.next() as i64))),
        if random.number(5) == 0 { plain(Value::Null) } else { Owned::Text(text) },
        Owned::Bytes(random.bytes(bytes)),
    ]
}
