//! The shapes of tables that the model works with: keys and rows, as plain Rust values that sort by themselves.
//!
//! Invariant: the order of [`Part`]s is written down here and not taken from the engine, so that the order of its
//! encoded keys is tested too.

use std::cmp::Reverse;

use nyala::{Schema, Type, Value};

use crate::extra::{Cell, Extra};
use crate::random::Random;

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Int(i64),
    IntDown(Reverse<i64>),
    UInt(u32),
    Text(String),
    TextDown(Reverse<String>),
    Bytes(Vec<u8>),
}

impl Part {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Part::Int(value) | Part::IntDown(Reverse(value)) => Value::Int(*value),
            Part::UInt(value) => Value::UInt(u64::from(*value)),
            Part::Text(value) | Part::TextDown(Reverse(value)) => Value::String(value),
            Part::Bytes(value) => Value::Binary(value),
        }
    }

    /// The text or bytes of a column that can be tested for a prefix.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        match self {
            Part::Text(value) | Part::TextDown(Reverse(value)) => Some(value.as_bytes()),
            Part::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// A prefix of a text column, as a column of the same kind.
    pub(crate) fn cut(&self, random: &mut Random) -> Option<Part> {
        let cut_text = |text: &str, random: &mut Random| {
            let chars = text.chars().count();
            text.chars().take(random.below(chars + 1)).collect::<String>()
        };
        match self {
            Part::Text(value) => Some(Part::Text(cut_text(value, random))),
            Part::TextDown(Reverse(value)) => Some(Part::TextDown(Reverse(cut_text(value, random)))),
            Part::Bytes(value) => Some(Part::Bytes(value[..random.below(value.len() + 1)].to_vec())),
            _ => None,
        }
    }
}

/// A key, or the first columns of one.
pub(crate) type Key = Vec<Part>;

pub(crate) fn values(parts: &[Part]) -> Vec<Value<'_>> {
    parts.iter().map(Part::value).collect()
}

/// The columns of a row that are not in its key: the same in every shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) number: i64,
    pub(crate) note: Option<String>,
    pub(crate) blob: Vec<u8>,
    /// The columns that were added to the table, in their order.
    pub(crate) extra: Vec<(&'static str, Cell)>,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (start, len) = (&self.blob[..self.blob.len().min(6)], self.blob.len());
        write!(f, "({}, {:?}, {start:?} of {len} bytes, {:?})", self.number, self.note, self.extra)
    }
}

impl Row {
    /// A row of a table with these columns beyond its shape.
    pub(crate) fn random(random: &mut Random, number: i64, extra: &[Extra]) -> Row {
        let note = match random.below(4) {
            0 => None,
            1 => Some(String::new()),
            _ => Some(format!("note {}", random.below(5))),
        };
        let len = if random.one_in(60) { 600 + random.below(4000) } else { random.below(60) };
        let blob = random.bytes(len);
        let extra = extra.iter().map(|extra| (extra.name, extra.cell(random))).collect();
        Row { number, note, blob, extra }
    }

    /// A row without a note, with the defaults of these columns.
    pub(crate) fn plain(number: i64, blob: Vec<u8>, extra: &[Extra]) -> Row {
        let extra = extra.iter().map(|extra| (extra.name, extra.default.clone())).collect();
        Row { number, note: None, blob, extra }
    }

    fn values(&self) -> impl Iterator<Item = Value<'_>> {
        let base = [Value::Int(self.number), self.note_value(), Value::Binary(&self.blob)];
        base.into_iter().chain(self.extra.iter().map(|(_, cell)| cell.value()))
    }

    pub(crate) fn note_value(&self) -> Value<'_> {
        self.note.as_deref().map_or(Value::Null, Value::String)
    }
}

/// The values of a whole row.
pub(crate) fn record<'a>(key: &'a Key, row: &'a Row) -> Vec<Value<'a>> {
    values(key).into_iter().chain(row.values()).collect()
}

/// The schema of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    Int,
    TextTimeDown,
    Bytes,
    Triple,
    TextDown,
}

pub(crate) const SHAPES: [Shape; 5] =
    [Shape::Int, Shape::TextTimeDown, Shape::Bytes, Shape::Triple, Shape::TextDown];

impl Shape {
    pub(crate) fn schema(self) -> Schema {
        let schema = match self {
            Shape::Int => Schema::builder().key("k0", Type::I64),
            Shape::TextTimeDown => {
                Schema::builder().key("k0", Type::String).key("k1", Type::I64.descending())
            }
            Shape::Bytes => Schema::builder().key("k0", Type::Binary),
            Shape::Triple => {
                Schema::builder().key("k0", Type::U32).key("k1", Type::String).key("k2", Type::I64)
            }
            Shape::TextDown => Schema::builder().key("k0", Type::String.descending()).key("k1", Type::U32),
        };
        schema
            .column("number", Type::I64)
            .column("note", Type::String.nullable())
            .column("blob", Type::Binary)
            .build()
            .expect("a legal schema")
    }

    pub(crate) fn key_columns(self) -> usize {
        match self {
            Shape::Int | Shape::Bytes => 1,
            Shape::TextTimeDown | Shape::TextDown => 2,
            Shape::Triple => 3,
        }
    }

    /// The shape of a table with this schema, whatever columns were added to it.
    pub(crate) fn of(schema: &Schema) -> Option<Shape> {
        let same = |shape: &Shape| {
            let wanted = shape.schema();
            schema.key_columns() == wanted.key_columns()
                && schema.columns().get(..wanted.columns().len()) == Some(wanted.columns())
        };
        SHAPES.into_iter().find(same)
    }

    /// The names of all its columns.
    pub(crate) fn columns(self) -> Vec<&'static str> {
        let keys = &["k0", "k1", "k2"][..self.key_columns()];
        keys.iter().copied().chain(["number", "note", "blob"]).collect()
    }

    /// A key from a small universe, so that keys are met again; extreme ones included.
    pub(crate) fn random_key(self, random: &mut Random) -> Key {
        match self {
            Shape::Int => vec![Part::Int(int(random, 120))],
            Shape::TextTimeDown => vec![Part::Text(text(random)), Part::IntDown(Reverse(int(random, 12)))],
            Shape::Bytes => vec![Part::Bytes(binary(random))],
            Shape::Triple => {
                vec![Part::UInt(uint(random)), Part::Text(text(random)), Part::Int(int(random, 5))]
            }
            Shape::TextDown => vec![Part::TextDown(Reverse(text(random))), Part::UInt(uint(random))],
        }
    }
}

fn int(random: &mut Random, spread: i64) -> i64 {
    if random.one_in(30) {
        return *random.pick(&[i64::MIN, i64::MIN + 1, -1, 0, i64::MAX]);
    }
    random.within(-spread / 3..spread)
}

fn uint(random: &mut Random) -> u32 {
    *random.pick(&[0, 1, 2, 3, 255, 256, u32::MAX])
}

fn text(random: &mut Random) -> String {
    if random.one_in(40) {
        return "long ".repeat(60 + random.below(3));
    }
    let pool =
        ["", "\0", "a", "a\0", "a\0b", "a\u{1}", "aa", "ab", "b", "ba", "ü", "\u{10ffff}", "\u{10ffff}a"];
    (*random.pick(&pool)).to_owned()
}

fn binary(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => random.pick(&[&[][..], &[0], &[0, 0xff], &[0xff], &[0xff, 0xff], &[0xff, 0xff, 0xff]]).to_vec(),
        1 => {
            let mut long = vec![7; 300];
            long.push(random.below(4) as u8);
            long
        }
        2..5 => vec![0xff, 0xff, random.below(8) as u8],
        _ => vec![random.below(8) as u8, random.below(12) as u8],
    }
}
