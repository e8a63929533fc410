//! What a database holds, as lines of JSON: of each table its columns, then its rows.

use std::collections::BTreeMap;
use std::fmt::Write;

use nyala::{Engine, Type, Value};
use serde_json::json;

/// The tables of a database, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) tables: BTreeMap<String, TableContents>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TableContents {
    /// Each column in words: "id: u32, key".
    pub(crate) columns: Vec<String>,
    /// The cells of each row in words, by those of its key.
    pub(crate) rows: BTreeMap<Vec<String>, Vec<String>>,
}

impl Contents {
    /// One line a table and one a row.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, table) in &self.tables {
            lines.push(json!({ "table": name, "columns": table.columns }).to_string());
            lines.extend(table.rows.values().map(|row| json!({ "table": name, "row": row }).to_string()));
        }
        lines
    }

    /// Reads all of a database.
    pub(crate) fn read(engine: &Engine) -> Contents {
        let mut contents = Contents::default();
        for name in engine.tables() {
            let table = engine.existing_table(&name).expect("a table of the list");
            let schema = table.schema();
            let keys = schema.key_columns();
            let column_words = |(index, column): (usize, &nyala::Column)| {
                let kind = match (index < keys, column.descending, column.nullable) {
                    (true, true, false) => Kind::KeyDescending,
                    (true, false, false) => Kind::Key,
                    (false, false, true) => Kind::Nullable,
                    (false, false, false) => Kind::Plain,
                    other => panic!("column {:?} cannot be {other:?}", column.name),
                };
                Column { name: column.name.to_string(), ty: column.ty, kind, default: None }
                    .words_with(column.default_value())
            };
            let columns = schema.columns().iter().enumerate().map(column_words).collect();
            let mut read = TableContents { columns, rows: BTreeMap::new() };
            for row in table.scan().rows().expect("a healthy table") {
                let row = row.expect("a healthy row");
                let cells: Vec<String> =
                    row.to_values().expect("a healthy row").iter().map(|value| words(*value)).collect();
                let key = cells[..keys].to_vec();
                assert!(read.rows.insert(key, cells).is_none(), "a key comes twice in {name:?}");
            }
            assert_eq!(table.count().expect("a healthy table"), read.rows.len() as u64);
            contents.tables.insert(name, read);
        }
        contents
    }
}

/// A column, as the tables of the fixtures have them.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) kind: Kind,
    pub(crate) default: Option<Value<'static>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Key,
    KeyDescending,
    Plain,
    Nullable,
}

impl Column {
    pub(crate) fn words(&self) -> String {
        self.words_with(self.default)
    }

    fn words_with(&self, default: Option<Value<'_>>) -> String {
        let kind = match self.kind {
            Kind::Key => ", key",
            Kind::KeyDescending => ", key, descending",
            Kind::Plain => "",
            Kind::Nullable => ", nullable",
        };
        let default = default.map_or(String::new(), |value| format!(", default {}", words(value)));
        format!("{}: {}{kind}{default}", self.name, self.ty)
    }
}

/// Texts and bytes beyond this are told by their length and a hash.
const SHOWN_BYTES_MAX: usize = 300;

/// A value in words, the same for equal values only. Floats by their bits.
pub(crate) fn words(value: Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("bool {value}"),
        Value::Int(value) => format!("integer {value}"),
        Value::UInt(value) => format!("integer {value}"),
        Value::F32(value) => format!("f32 {:08x}", value.to_bits()),
        Value::F64(value) => format!("f64 {:016x}", value.to_bits()),
        Value::Decimal(value) => format!("decimal {} / 10^{}", value.unscaled, value.scale),
        Value::Date(value) => format!("date {}", value.days()),
        Value::Timestamp(value) => format!("timestamp {}", value.micros()),
        Value::String(text) if text.len() > SHOWN_BYTES_MAX => long("string", text.as_bytes()),
        Value::String(text) => format!("string {text}"),
        Value::Binary(bytes) if bytes.len() > SHOWN_BYTES_MAX => long("binary", bytes),
        Value::Binary(bytes) => bytes.iter().fold("binary ".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes everything");
            text
        }),
    }
}

/// Length and FNV-1a.
fn long(what: &str, bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{what} of {} bytes, fnv {hash:016x}", bytes.len())
}
