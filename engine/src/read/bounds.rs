//! Which keys a scan covers: from what its builder was told, and from what its filter implies.

use std::ops::Bound;

use encoded_key::{KeyError, KeyRange, Value};

use super::literal::Literal;
use super::predicate::{Filter, Op};
use crate::error::{Error, Result};
use crate::record::Record;
use crate::schema::Schema;
use crate::value::AsValue;

/// Keys, and the values that the first columns of all of them have.
pub(super) struct Narrow {
    pub(super) range: KeyRange,
    pub(super) fixed: Vec<Literal>,
}

impl Narrow {
    fn new(range: KeyRange, values: &[Value<'_>]) -> Narrow {
        Narrow { range, fixed: values.iter().map(|value| Literal::new(*value)).collect() }
    }
}

/// The keys whose first columns are `record`.
pub(super) fn prefix(schema: &Schema, record: &impl Record) -> Result<Narrow> {
    let values = key_values(schema, record)?;
    let range = KeyRange::prefix(schema.key_layout(), &values).map_err(|error| key_error(schema, error))?;
    Ok(Narrow::new(range, &values))
}

/// The keys whose first columns are `record`, and whose next one starts with `text`.
pub(super) fn starts_with(schema: &Schema, record: &impl Record, text: &impl AsValue) -> Result<Narrow> {
    let values = key_values(schema, record)?;
    let range = KeyRange::starts_with(schema.key_layout(), &values, text.as_value())
        .map_err(|error| key_error(schema, error))?;
    Ok(Narrow::new(range, &values))
}

/// The keys between two records of as many columns as one likes.
pub(crate) fn range<R: Record>(schema: &Schema, start: Bound<&R>, end: Bound<&R>) -> Result<KeyRange> {
    let start = key_bound(schema, start)?;
    let end = key_bound(schema, end)?;
    KeyRange::range(schema.key_layout(), start, end).map_err(|error| key_error(schema, error))
}

fn key_bound<'a, R: Record>(schema: &Schema, bound: Bound<&'a R>) -> Result<Bound<Vec<Value<'a>>>> {
    Ok(match bound {
        Bound::Included(record) => Bound::Included(key_values(schema, record)?),
        Bound::Excluded(record) => Bound::Excluded(key_values(schema, record)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// The values of a record of no more columns than the key.
fn key_values<'a>(schema: &Schema, record: &'a impl Record) -> Result<Vec<Value<'a>>> {
    let (given, columns) = (record.columns(), schema.key_columns());
    if given > columns {
        return Err(Error::invalid(format!("a bound of {given} columns, the key has {columns}")));
    }
    if let (Some(shape), true) = (record.shape(), given > 0) {
        shape.check_prefix(schema)?;
    }
    if let Some(origin) = record.origin() {
        origin.check(schema)?;
    }
    (0..given).map(|column| record.value(column)).collect()
}

fn key_error(schema: &Schema, error: KeyError) -> Error {
    match error.column() {
        Some(column) => schema.key_error(column, error),
        None => Error::from(error),
    }
}

/// The keys that a filter can hold for, as far as comparisons of leading key columns tell: it may be wider than need
/// be, never narrower. The first columns of all keys that are asked about have the values `given`.
pub(super) fn implied(schema: &Schema, given: &[Literal], filter: &Filter) -> KeyRange {
    let layout = schema.key_layout();
    let mut fixed: Vec<Value<'_>> = Vec::new();
    let mut range = KeyRange::all();
    for (column, definition) in layout.columns().iter().enumerate() {
        let required = || filter.required().filter(move |&(of, ..)| of == column);
        // What does not fit the column as a key (300 for a u8, say) is left to the filter.
        for (_, op, value) in required() {
            if let Some(keys) = narrowed(schema, &fixed, op, value, definition.descending) {
                range = range.intersect(&keys);
            }
        }
        let equal = || {
            let equal = required().find(|&(_, op, value)| {
                op == Op::Eq && narrowed(schema, &fixed, op, value, definition.descending).is_some()
            });
            equal.map(|(_, _, value)| value)
        };
        let Some(value) = given.get(column).map(Literal::value).or_else(equal) else { break };
        fixed.push(value);
    }
    range
}

/// The keys that begin with the columns `fixed` and whose next column compares with `value` as asked.
fn narrowed(
    schema: &Schema,
    fixed: &[Value<'_>],
    op: Op,
    value: Value<'_>,
    descending: bool,
) -> Option<KeyRange> {
    let layout = schema.key_layout();
    let at = || fixed.iter().copied().chain([value]).collect::<Vec<_>>();
    let (start, end) = match op {
        Op::Eq => return KeyRange::prefix(layout, at()).ok(),
        Op::StartsWith => return KeyRange::starts_with(layout, fixed.iter().copied(), value).ok(),
        Op::Ne => return None,
        Op::Lt => (Bound::Unbounded, Bound::Excluded(at())),
        Op::Le => (Bound::Unbounded, Bound::Included(at())),
        Op::Gt => (Bound::Excluded(at()), Bound::Unbounded),
        Op::Ge => (Bound::Included(at()), Bound::Unbounded),
    };
    let (start, end) = if descending { (end, start) } else { (start, end) };
    KeyRange::range(layout, start, end).ok()
}
