//! Scans: asked of the engine, and answered by the model.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use nyala::{Predicate, Scan, Snapshot, Table, Value, column};

use crate::random::Random;
use crate::shape::{Key, Part, Row, Shape, values};
use crate::state::TableState;

/// What narrows the keys of a scan.
#[derive(Clone, Debug)]
enum Narrow {
    Prefix(Key),
    StartsWith(Key, Part),
    Range(Bound<Key>, Bound<Key>),
}

impl Narrow {
    fn random(shape: Shape, random: &mut Random) -> Narrow {
        match random.below(4) {
            0 => Narrow::Prefix(part_of_key(shape, random)),
            1 => {
                let key = shape.random_key(random);
                let at = random.below(key.len());
                match key[at].cut(random) {
                    Some(text) => Narrow::StartsWith(key[..at].to_vec(), text),
                    None => Narrow::Prefix(key[..at].to_vec()),
                }
            }
            _ => {
                let (mut low, mut high) = (part_of_key(shape, random), part_of_key(shape, random));
                // Now and then the wrong way round: then it is empty.
                if low > high && !random.one_in(8) {
                    std::mem::swap(&mut low, &mut high);
                }
                Narrow::Range(bound(low, random), bound(high, random))
            }
        }
    }

    fn contains(&self, key: &Key) -> bool {
        match self {
            Narrow::Prefix(prefix) => key.starts_with(prefix),
            Narrow::StartsWith(prefix, text) => {
                let part = key[prefix.len()].text().expect("only text is asked for its start");
                key.starts_with(prefix) && part.starts_with(text.text().expect("a text"))
            }
            Narrow::Range(low, high) => {
                let compare = |bound: &Key| key[..bound.len()].cmp(bound);
                let above = match low {
                    Bound::Included(low) => compare(low) != Ordering::Less,
                    Bound::Excluded(low) => compare(low) == Ordering::Greater,
                    Bound::Unbounded => true,
                };
                above
                    && match high {
                        Bound::Included(high) => compare(high) != Ordering::Greater,
                        Bound::Excluded(high) => compare(high) == Ordering::Less,
                        Bound::Unbounded => true,
                    }
            }
        }
    }

    fn put(&self, scan: Scan) -> Scan {
        match self {
            Narrow::Prefix(prefix) => scan.prefix(values(prefix)),
            Narrow::StartsWith(prefix, text) => scan.starts_with(values(prefix), text.value()),
            Narrow::Range(low, high) => {
                let values = |bound: &'_ Bound<Key>| match bound {
                    Bound::Included(key) => Bound::Included(owned(key)),
                    Bound::Excluded(key) => Bound::Excluded(owned(key)),
                    Bound::Unbounded => Bound::Unbounded,
                };
                scan.range((values(low), values(high)))
            }
        }
    }
}

/// A record that owns its key.
struct Owned(Key);

fn owned(key: &Key) -> Owned {
    Owned(key.clone())
}

impl nyala::Record for Owned {
    fn columns(&self) -> usize {
        self.0.len()
    }

    fn value(&self, index: usize) -> nyala::Result<Value<'_>> {
        Ok(self.0[index].value())
    }
}

fn part_of_key(shape: Shape, random: &mut Random) -> Key {
    let mut key = shape.random_key(random);
    if random.one_in(2) {
        key.truncate(random.below(key.len() + 1));
    }
    key
}

fn bound(key: Key, random: &mut Random) -> Bound<Key> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    }
}

/// A predicate, in a form that the model can answer.
#[derive(Clone, Debug)]
enum Test {
    Compare(&'static str, Op, Option<Part>),
    IsNull(&'static str),
    Both(Box<Test>, Box<Test>),
    Either(Box<Test>, Box<Test>),
    Not(Box<Test>),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Test {
    fn random(table: &TableState, random: &mut Random, depth: usize) -> Test {
        let deeper = |random: &mut Random| Box::new(Test::random(table, random, depth + 1));
        match random.below(if depth < 2 { 7 } else { 4 }) {
            0 => Test::IsNull(random.pick::<&str>(&columns(table))),
            4 => Test::Both(deeper(random), deeper(random)),
            5 => Test::Either(deeper(random), deeper(random)),
            6 => Test::Not(deeper(random)),
            _ => {
                let columns = columns(table);
                let at = random.below(columns.len());
                let added = table.extra.iter().find(|extra| extra.name == columns[at]);
                let literal = match columns[at] {
                    _ if let Some(added) = added => added.literal(random),
                    "number" => Part::Int(random.within(0..3000)),
                    "note" => Part::Text(format!("note {}", random.below(5))),
                    "blob" => Part::Bytes(random.bytes(1)),
                    _ => table.shape.random_key(random).swap_remove(at),
                };
                let op = *random.pick(&[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge]);
                Test::Compare(columns[at], op, (!random.one_in(20)).then_some(literal))
            }
        }
    }

    fn predicate(&self) -> Predicate {
        match self {
            Test::Compare(name, op, literal) => {
                let (column, value) = (column(*name), literal.as_ref().map_or(Value::Null, Part::value));
                match op {
                    Op::Eq => column.eq(value),
                    Op::Ne => column.ne(value),
                    Op::Lt => column.lt(value),
                    Op::Le => column.le(value),
                    Op::Gt => column.gt(value),
                    Op::Ge => column.ge(value),
                }
            }
            Test::IsNull(name) => column(*name).is_null(),
            Test::Both(a, b) => a.predicate().and(b.predicate()),
            Test::Either(a, b) => a.predicate().or(b.predicate()),
            Test::Not(test) => test.predicate().not(),
        }
    }

    /// As in SQL: unknown if a null is compared.
    fn holds(&self, key: &Key, row: &Row) -> Option<bool> {
        match self {
            Test::Compare(name, op, literal) => {
                let order = compare(value(key, row, name), literal.as_ref()?.value())?;
                Some(match op {
                    Op::Eq => order.is_eq(),
                    Op::Ne => order.is_ne(),
                    Op::Lt => order.is_lt(),
                    Op::Le => order.is_le(),
                    Op::Gt => order.is_gt(),
                    Op::Ge => order.is_ge(),
                })
            }
            Test::IsNull(name) => Some(matches!(value(key, row, name), Value::Null)),
            Test::Both(a, b) => match (a.holds(key, row), b.holds(key, row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Test::Either(a, b) => match (a.holds(key, row), b.holds(key, row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Test::Not(test) => test.holds(key, row).map(|holds| !holds),
        }
    }
}

fn compare(a: Value<'_>, b: Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(&b)),
        (Value::UInt(a), Value::UInt(b)) => Some(a.cmp(&b)),
        (Value::String(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Binary(a), Value::Binary(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn value<'a>(key: &'a Key, row: &'a Row, name: &str) -> Value<'a> {
    match name {
        "k0" => key[0].value(),
        "k1" => key[1].value(),
        "k2" => key[2].value(),
        "number" => Value::Int(row.number),
        "note" => row.note_value(),
        "blob" => Value::Binary(&row.blob),
        _ => row.extra.iter().find(|(column, _)| *column == name).expect("a column of the table").1.value(),
    }
}

/// The names of all columns of a table.
fn columns(table: &TableState) -> Vec<&'static str> {
    table.shape.columns().into_iter().chain(table.extra.iter().map(|extra| extra.name)).collect()
}

/// A whole scan.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    narrow: Vec<Narrow>,
    test: Option<Test>,
    columns: Option<Vec<&'static str>>,
    limit: Option<usize>,
    reverse: bool,
}

impl Ask {
    pub(crate) fn random(table: &TableState, random: &mut Random) -> Ask {
        let shape = table.shape;
        let narrow = (0..random.below(3)).map(|_| Narrow::random(shape, random)).collect();
        let test = random.one_in(3).then(|| Test::random(table, random, 0));
        let columns = random.one_in(2).then(|| {
            // Any columns, in any order, or those of the key alone.
            let mut left = columns(table);
            let wanted = if random.one_in(3) { shape.key_columns() } else { random.below(left.len() + 1) };
            if wanted == shape.key_columns() {
                left.truncate(wanted);
            }
            (0..wanted).map(|_| left.swap_remove(random.below(left.len()))).collect()
        });
        let limit = random.one_in(4).then(|| random.below(12));
        Ask { narrow, test, columns, limit, reverse: random.one_in(2) }
    }

    pub(crate) fn all() -> Ask {
        Ask { narrow: Vec::new(), test: None, columns: None, limit: None, reverse: false }
    }

    pub(crate) fn without_limit(self) -> Ask {
        Ask { limit: None, ..self }
    }

    pub(crate) fn scan(&self, table: &Table, at: Option<&Snapshot>) -> Scan {
        let scan = self.put(table.scan());
        match at {
            Some(snapshot) => scan.at(snapshot),
            None => scan,
        }
    }

    pub(crate) fn is_reverse(&self) -> bool {
        self.reverse
    }

    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Asks this of a scan that was asked nothing yet.
    pub(crate) fn put(&self, scan: Scan) -> Scan {
        let mut scan = self.narrow.iter().fold(scan, |scan, narrow| narrow.put(scan));
        if let Some(test) = &self.test {
            scan = scan.filter(test.predicate());
        }
        if let Some(columns) = &self.columns {
            scan = scan.columns(columns);
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        if self.reverse {
            scan = scan.reverse();
        }
        scan
    }

    /// Whether a key lies where the scan looks.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.narrow.iter().all(|narrow| narrow.contains(key))
    }

    /// The rows that the scan should give, in order.
    pub(crate) fn answer(&self, state: &TableState) -> Answer {
        let columns = self.columns.clone().unwrap_or_else(|| columns(state));
        let wanted = |key: &Key, row: &Row| {
            self.narrow.iter().all(|narrow| narrow.contains(key))
                && self.test.as_ref().is_none_or(|test| test.holds(key, row) == Some(true))
        };
        let mut rows: Vec<(Key, Arc<Row>)> = state
            .rows
            .iter()
            .filter(|(key, row)| wanted(key, row))
            .map(|(key, row)| (key.clone(), Arc::clone(row)))
            .collect();
        if self.reverse {
            rows.reverse();
        }
        rows.truncate(self.limit.unwrap_or(usize::MAX));
        Answer { columns, rows }
    }
}

/// What a scan should give.
pub(crate) struct Answer {
    columns: Vec<&'static str>,
    pub(crate) rows: Vec<(Key, Arc<Row>)>,
}

impl Answer {
    /// Compares the row at `index` with what came.
    pub(crate) fn check(&self, index: usize, found: &[Value<'_>], ask: &Ask) {
        let Some((key, row)) = self.rows.get(index) else {
            panic!("{ask:?}: {} rows expected, and then came {found:?}", self.rows.len());
        };
        let expected: Vec<Value<'_>> = self.columns.iter().map(|name| value(key, row, name)).collect();
        assert_eq!(expected, found, "{ask:?}: row {index} of {}", self.rows.len());
    }
}
