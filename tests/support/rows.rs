//! From the engine's rows to the model's.

use std::cmp::Reverse;
use std::sync::Arc;

use nyala::{Engine, Error, Scan, Table, Value};

use crate::extra::{Cell, Extra};
use crate::shape::{Key, Part, Row, Shape, record};
use crate::state::{Rows, State, TableState};

/// All rows of all tables, by a scan of each.
pub(crate) fn read_all(engine: &Engine) -> Result<State, Error> {
    let mut state = State::default();
    for name in engine.tables() {
        let table = engine.existing_table(&name)?;
        let (shape, extra) = described(&table);
        let rows = Arc::new(read_rows(shape, &extra, table.scan())?);
        state.tables.insert(name, TableState { shape, extra, rows });
    }
    Ok(state)
}

/// What a table's schema says of it.
pub(crate) fn described(table: &Table) -> (Shape, Vec<Extra>) {
    let schema = table.schema();
    let shape = Shape::of(schema).unwrap_or_else(|| panic!("a schema that nobody made: {schema:?}"));
    (shape, Extra::all_of(schema, shape.columns().len()))
}

/// All rows of a scan from front to back.
pub(crate) fn read_rows(shape: Shape, extra: &[Extra], scan: Scan) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    for row in scan.rows()? {
        let (key, row) = split(shape, extra, &row?.to_values()?);
        let last = rows.last_key_value();
        assert!(last.is_none_or(|(last, _)| *last < key), "{key:?} is out of order");
        rows.insert(key, Arc::new(row));
    }
    Ok(rows)
}

/// The key and the rest of a row.
pub(crate) fn split(shape: Shape, extra: &[Extra], values: &[Value<'_>]) -> (Key, Row) {
    let part = |column: usize, value: &Value<'_>| match (shape, column, *value) {
        (Shape::TextTimeDown, 1, Value::Int(value)) => Part::IntDown(Reverse(value)),
        (Shape::TextDown, 0, Value::String(value)) => Part::TextDown(Reverse(value.to_owned())),
        (_, _, Value::Int(value)) => Part::Int(value),
        (_, _, Value::UInt(value)) => Part::UInt(u32::try_from(value).expect("a u32 column")),
        (_, _, Value::String(value)) => Part::Text(value.to_owned()),
        (_, _, Value::Binary(value)) => Part::Bytes(value.to_owned()),
        other => panic!("no key column: {other:?}"),
    };
    let (key, rest) = values.split_at(shape.key_columns());
    let key = key.iter().enumerate().map(|(column, value)| part(column, value)).collect();
    let [Value::Int(number), note, Value::Binary(blob), ref rest @ ..] = *rest else {
        panic!("not a row: {rest:?}")
    };
    assert_eq!(extra.len(), rest.len(), "as many columns as the schema says");
    let extra = extra.iter().zip(rest).map(|(extra, value)| (extra.name, Cell::of(*value))).collect();
    let note = match note {
        Value::Null => None,
        Value::String(note) => Some(note.to_owned()),
        other => panic!("not a note: {other:?}"),
    };
    (key, Row { number, note, blob: blob.to_owned(), extra })
}

/// What a get gave is what the model has.
pub(crate) fn check_row(key: &Key, expected: Option<&Arc<Row>>, found: Option<&nyala::Row>) {
    match (expected, found) {
        (None, None) => {}
        (Some(row), Some(found)) => {
            assert_eq!(record(key, row), found.to_values().expect("whole bytes"), "get of {key:?}");
        }
        (Some(row), None) => panic!("get of {key:?}: expected {row:?}, found nothing"),
        (None, Some(found)) => panic!("get of {key:?}: expected nothing, found {found:?}"),
    }
}
