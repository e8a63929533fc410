//! Reads all of an engine in every way, and says what must agree.

use std::collections::BTreeMap;

use nyala::{Column, Engine, Error, RowRef, Scan, Schema, Table, Type, Value};

use crate::base;

/// A table that shows more rows than this is not compared row by row.
const ROWS_MAX: usize = 20_000;
/// Nor one that shows more bytes.
const BYTES_MAX: usize = 4 << 20;

/// A row: its encoded key, and all its values as text.
type ReadRow = (Vec<u8>, String);

/// What one way to read gave.
type Answer = Result<Rows, Error>;

/// The rows that a scan gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rows {
    rows: Vec<ReadRow>,
    /// Whether there were more than can be compared.
    is_cut: bool,
}

/// What all ways to read a table gave.
#[derive(Debug)]
struct TableContents {
    forward: Answer,
    reverse: Answer,
    partitions: Answer,
    count: Result<u64, Error>,
    /// For some of the rows of the forward scan: what a get gave.
    gets: Vec<(ReadRow, Result<Option<String>, Error>)>,
}

/// What an engine holds, by table.
#[derive(Debug)]
pub(super) struct Contents(BTreeMap<String, TableContents>);

/// Reads everything.
pub(super) fn all(engine: &Engine) -> Contents {
    let read = |name: String| {
        let table = engine.existing_table(&name).expect("a table that is listed");
        (name, read_table(&table))
    };
    Contents(engine.tables().into_iter().map(read).collect())
}

fn read_table(table: &Table) -> TableContents {
    let schema = table.schema();
    let forward = rows(schema, table.scan());
    let reverse = rows(schema, table.scan().reverse()).map(|mut rows| {
        rows.rows.reverse();
        rows
    });
    let partitions = table.scan().partitions(3).and_then(|scans| {
        let mut all = Rows::default();
        for scan in scans {
            let part = rows(schema, scan)?;
            all.rows.extend(part.rows);
            all.is_cut |= part.is_cut;
        }
        Ok(all)
    });
    let mut gets = Vec::new();
    let mut cursor = table.scan().limit(512).cursor();
    while let Ok(cursor) = &mut cursor
        && let Ok(Some(row)) = cursor.next()
    {
        let Ok(read) = read_row(schema, row) else { break };
        let Ok(values) = row.to_values() else { break };
        let got = table.get(&values[..schema.key_columns()]);
        let got = got.and_then(|got| got.map(|got| Ok(read_row(schema, got.as_ref())?.1)).transpose());
        gets.push((read, got));
    }
    TableContents { forward, reverse, partitions, count: table.count(), gets }
}

fn rows(schema: &Schema, scan: Scan) -> Answer {
    let mut rows = Rows::default();
    let mut bytes = 0;
    let mut cursor = scan.cursor()?;
    while let Some(row) = cursor.next()? {
        let row = read_row(schema, row)?;
        bytes += row.0.len() + row.1.len();
        if bytes > BYTES_MAX || rows.rows.len() == ROWS_MAX {
            rows.is_cut = true;
            break;
        }
        rows.rows.push(row);
    }
    Ok(rows)
}

fn read_row(schema: &Schema, row: RowRef<'_>) -> Result<ReadRow, Error> {
    let values = row.to_values()?;
    let key = nyala::inspect::encode_key(schema, &values[..schema.key_columns()])
        .expect("a key that was read can be encoded");
    Ok((key, format!("{row:?}")))
}

/// A value for a column that no base holds in a key.
pub(super) fn some_value(column: &Column) -> Value<'static> {
    match column.ty {
        Type::Bool => Value::Bool(true),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => Value::Int(77),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Value::UInt(77),
        Type::F32 => Value::F32(7.5),
        Type::F64 => Value::F64(7.5),
        Type::Decimal { scale, .. } => Value::Decimal(nyala::Decimal { unscaled: 7, scale }),
        Type::Date => Value::Date(nyala::Date::from_days(77)),
        Type::Timestamp => Value::Timestamp(nyala::Timestamp::from_micros(77)),
        Type::String => Value::String("new"),
        Type::Binary => Value::Binary(b"new"),
    }
}

impl Contents {
    /// All ways to read give the same.
    pub(super) fn expect_agreement(&self) {
        for (name, table) in &self.0 {
            let said =
                |answer: &Answer| answer.clone().unwrap_or_else(|error| panic!("table {name:?}: {error}"));
            let forward = said(&table.forward);
            assert!(forward.rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "table {name:?}: keys ascend");
            let (reverse, partitions) = (said(&table.reverse), said(&table.partitions));
            let count = table.count.clone().unwrap_or_else(|error| panic!("table {name:?}: {error}"));
            if !forward.is_cut {
                assert_eq!(reverse, forward, "table {name:?}: backwards as forwards");
                assert_eq!(partitions, forward, "table {name:?}: in parts as in one");
                assert_eq!(count, forward.rows.len() as u64, "table {name:?}: the count");
            }
            for ((_, row), got) in &table.gets {
                assert_eq!(got.as_ref().ok().and_then(Option::as_ref), Some(row), "table {name:?}: a get");
            }
        }
    }

    /// Every row is in `other` too.
    pub(super) fn expect_within(&self, other: &Contents) {
        for (name, table) in &self.0 {
            let (Ok(rows), Some(Ok(others))) =
                (&table.forward, other.0.get(name).map(|table| &table.forward))
            else {
                panic!("table {name:?} cannot be read any more");
            };
            if rows.is_cut || others.is_cut {
                continue;
            }
            let others: BTreeMap<&[u8], &str> =
                others.rows.iter().map(|(key, row)| (&key[..], &row[..])).collect();
            for (key, row) in &rows.rows {
                assert_eq!(others.get(&key[..]), Some(&&row[..]), "table {name:?}: a row has changed");
            }
        }
    }

    /// What was read is what some prefix of the commits of base `number` gives, or an error.
    pub(super) fn expect_true(&self, number: usize) {
        let history = &base::all()[number].history;
        for (name, table) in &self.0 {
            let known = |row: &String| history.get(name).is_some_and(|rows| rows.contains(row));
            for answer in [&table.forward, &table.reverse, &table.partitions] {
                let Ok(answer) = answer else { continue };
                for (_, row) in &answer.rows {
                    assert!(known(row), "table {name:?}: a row that never was: {row}");
                }
            }
            for (_, got) in &table.gets {
                if let Ok(Some(row)) = got {
                    assert!(known(row), "table {name:?}: a row that never was: {row}");
                }
            }
        }
    }
}
