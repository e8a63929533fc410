//! Rows, scans and filters as plain Rust values, and what must come out. Written without a look at the engine's own
//! code: keys are compared as tuples, filters evaluated on values.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::ops::Bound;

use encoded_key::{Type, Value};
use proptest::prelude::*;
use proptest::sample::select;

use crate::Error;
use crate::read::{Predicate, Scan, column};
use crate::schema::Schema;

/// The columns of the tests' table: an escaped string and a descending number in the key, a null and a text outside.
pub(super) const COLUMNS: [&str; 5] = ["a", "b", "c", "v", "s"];

pub(super) fn schema() -> Schema {
    Schema::builder()
        .key("a", Type::U8)
        .key("b", Type::String)
        .key("c", Type::I16.descending())
        .column("v", Type::I64.nullable())
        .column("s", Type::String)
        .build()
        .expect("a valid schema")
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TestRow {
    pub(super) a: u8,
    pub(super) b: &'static str,
    pub(super) c: i16,
    pub(super) v: Option<i64>,
    pub(super) s: &'static str,
}

pub(super) type Key = (u8, &'static str, Reverse<i16>);

impl TestRow {
    pub(super) fn key(&self) -> Key {
        (self.a, self.b, Reverse(self.c))
    }

    pub(super) fn values(&self) -> [Value<'_>; 5] {
        let v = self.v.map_or(Value::Null, Value::Int);
        [
            Value::UInt(self.a.into()),
            Value::String(self.b),
            Value::Int(self.c.into()),
            v,
            Value::String(self.s),
        ]
    }
}

/// Every key with its versions, ascending.
pub(super) type Model = BTreeMap<Key, Vec<(u64, Option<TestRow>)>>;

/// One step of a table's life.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(TestRow),
    Delete(TestRow),
    Seal,
    FlushOne,
}

/// Some first columns of a key.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    columns: usize,
    key: Key,
}

impl Partial {
    fn values(&self) -> Vec<Value<'static>> {
        let (a, b, Reverse(c)) = self.key;
        let all = [Value::UInt(a.into()), Value::String(b), Value::Int(c.into())];
        all[..self.columns].to_vec()
    }

    /// How a key stands to it, by as many columns as it has.
    fn compare(&self, key: &Key) -> Ordering {
        match self.columns {
            1 => key.0.cmp(&self.key.0),
            2 => (key.0, key.1).cmp(&(self.key.0, self.key.1)),
            _ => key.cmp(&self.key),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Keys {
    All,
    Prefix(Partial),
    StartsWith(u8, &'static str),
    Range(Bound<Partial>, Bound<Partial>),
}

impl Keys {
    fn contains(&self, key: &Key) -> bool {
        match self {
            Keys::All => true,
            Keys::Prefix(partial) => partial.compare(key).is_eq(),
            Keys::StartsWith(a, text) => key.0 == *a && key.1.starts_with(text),
            Keys::Range(start, end) => {
                let above = match start {
                    Bound::Included(start) => start.compare(key).is_ge(),
                    Bound::Excluded(start) => start.compare(key).is_gt(),
                    Bound::Unbounded => true,
                };
                let below = match end {
                    Bound::Included(end) => end.compare(key).is_le(),
                    Bound::Excluded(end) => end.compare(key).is_lt(),
                    Bound::Unbounded => true,
                };
                above && below
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    StartsWith,
}

#[derive(Clone, Debug)]
pub(super) enum Filter {
    Number(&'static str, Op, Option<i64>),
    Text(&'static str, Op, &'static str),
    IsNull(&'static str),
    IsNotNull(&'static str),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Not(Box<Filter>),
}

impl Filter {
    fn predicate(&self) -> Predicate {
        match self {
            Filter::Number(name, op, value) => {
                let column = column(*name);
                match op {
                    Op::Eq | Op::StartsWith => column.eq(*value),
                    Op::Ne => column.ne(*value),
                    Op::Lt => column.lt(*value),
                    Op::Le => column.le(*value),
                    Op::Gt => column.gt(*value),
                    Op::Ge => column.ge(*value),
                }
            }
            Filter::Text(name, op, value) => {
                let column = column(*name);
                match op {
                    Op::Eq => column.eq(*value),
                    Op::Ne => column.ne(*value),
                    Op::Lt => column.lt(*value),
                    Op::Le => column.le(*value),
                    Op::Gt => column.gt(*value),
                    Op::Ge => column.ge(*value),
                    Op::StartsWith => column.starts_with(*value),
                }
            }
            Filter::IsNull(name) => column(*name).is_null(),
            Filter::IsNotNull(name) => column(*name).is_not_null(),
            Filter::And(a, b) => a.predicate().and(b.predicate()),
            Filter::Or(a, b) => a.predicate().or(b.predicate()),
            Filter::Not(a) => !a.predicate(),
        }
    }

    /// SQL's truth: `None` is unknown.
    fn holds(&self, row: &TestRow) -> Option<bool> {
        match self {
            Filter::Number(name, op, value) => {
                let mine = match *name {
                    "a" => Some(row.a.into()),
                    "c" => Some(row.c.into()),
                    _ => row.v,
                };
                Some(ordered(*op, mine?.cmp(&(*value)?)))
            }
            Filter::Text(name, op, value) => {
                let mine = if *name == "b" { row.b } else { row.s };
                Some(match op {
                    Op::StartsWith => mine.starts_with(value),
                    op => ordered(*op, mine.cmp(value)),
                })
            }
            Filter::IsNull(name) => Some(*name == "v" && row.v.is_none()),
            Filter::IsNotNull(name) => Some(*name != "v" || row.v.is_some()),
            Filter::And(a, b) => match (a.holds(row), b.holds(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Filter::Or(a, b) => match (a.holds(row), b.holds(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Filter::Not(a) => a.holds(row).map(|holds| !holds),
        }
    }
}

fn ordered(op: Op, order: Ordering) -> bool {
    match op {
        Op::Eq | Op::StartsWith => order.is_eq(),
        Op::Ne => order.is_ne(),
        Op::Lt => order.is_lt(),
        Op::Le => order.is_le(),
        Op::Gt => order.is_gt(),
        Op::Ge => order.is_ge(),
    }
}

/// A scan.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) keys: Keys,
    pub(super) filter: Option<Filter>,
    /// Columns asked for, by position.
    pub(super) columns: Option<Vec<usize>>,
    pub(super) limit: Option<usize>,
    pub(super) reverse: bool,
    /// Which version it sees, counted back from the last.
    pub(super) age: u64,
    pub(super) parts: usize,
}

impl Spec {
    /// Tells a scan of the engine what it is to do; the snapshot is the caller's.
    pub(super) fn tell(&self, mut scan: Scan) -> Scan {
        scan = match &self.keys {
            Keys::All => scan,
            Keys::Prefix(partial) => scan.prefix(partial.values()),
            Keys::StartsWith(a, text) => scan.starts_with((*a,), *text),
            Keys::Range(start, end) => {
                let values = |bound: &Bound<Partial>| bound.as_ref().map(Partial::values);
                scan.range((values(start), values(end)))
            }
        };
        if let Some(filter) = &self.filter {
            scan = scan.filter(filter.predicate());
        }
        if let Some(columns) = &self.columns {
            scan = scan.columns(columns.iter().map(|&column| COLUMNS[column]));
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        if self.reverse { scan.reverse() } else { scan }
    }

    /// What must come out of it at a version, printed.
    pub(super) fn expected(&self, model: &Model, at: u64) -> Vec<Vec<String>> {
        let visible = model.iter().filter_map(|(key, versions)| {
            let (_, row) = versions.iter().rev().find(|(version, _)| *version <= at)?;
            self.keys.contains(key).then_some(row.as_ref()?)
        });
        let mut rows: Vec<&TestRow> = visible
            .filter(|row| self.filter.as_ref().is_none_or(|filter| filter.holds(row) == Some(true)))
            .collect();
        if self.reverse {
            rows.reverse();
        }
        rows.truncate(self.limit.unwrap_or(usize::MAX));
        let all: Vec<usize> = (0..COLUMNS.len()).collect();
        let columns = self.columns.as_ref().unwrap_or(&all);
        let print = |row: &TestRow| columns.iter().map(|&column| row.values()[column].to_string()).collect();
        rows.into_iter().map(print).collect()
    }
}

const TEXTS: [&str; 9] = ["", "a", "a\0", "a\0b", "ab", "b", "\u{7f}", "é", "\u{10ffff}"];
const NUMBERS: [i64; 7] = [-32768, -1, 0, 1, 2, 255, 32767];

pub(super) fn row() -> impl Strategy<Value = TestRow> {
    let c = select(vec![i16::MIN, -1, 0, 1, i16::MAX]);
    let v = prop::option::of(select(NUMBERS.to_vec()));
    let s =
        select(vec!["", "x", "xy", "a text that is longer than all the others, so that blocks fill at once"]);
    (select(vec![0, 1, 2, 255]), select(TEXTS.to_vec()), c, v, s).prop_map(|(a, b, c, v, s)| TestRow {
        a,
        b,
        c,
        v,
        s,
    })
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => row().prop_map(Step::Put),
        4 => row().prop_map(Step::Delete),
        1 => Just(Step::Seal),
        1 => Just(Step::FlushOne),
    ]
}

fn partial() -> impl Strategy<Value = Partial> {
    (1..=3usize, row()).prop_map(|(columns, row)| Partial { columns, key: row.key() })
}

fn bound() -> impl Strategy<Value = Bound<Partial>> {
    prop_oneof![
        Just(Bound::Unbounded),
        partial().prop_map(Bound::Included),
        partial().prop_map(Bound::Excluded),
    ]
}

fn keys() -> impl Strategy<Value = Keys> {
    prop_oneof![
        2 => Just(Keys::All),
        2 => partial().prop_map(Keys::Prefix),
        2 => (select(vec![0, 1, 255]), select(TEXTS.to_vec())).prop_map(|(a, text)| Keys::StartsWith(a, text)),
        4 => (bound(), bound()).prop_map(|(start, end)| Keys::Range(start, end)),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let op = || select(vec![Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::StartsWith]);
    let number = prop_oneof![6 => select(NUMBERS.to_vec()).prop_map(Some), 1 => Just(None)];
    let leaf = prop_oneof![
        4 => (select(vec!["a", "c", "v"]), op(), number).prop_map(|(name, op, value)| Filter::Number(name, op, value)),
        3 => (select(vec!["b", "s"]), op(), select(TEXTS.to_vec()))
            .prop_map(|(name, op, value)| Filter::Text(name, op, value)),
        1 => select(COLUMNS.to_vec()).prop_map(Filter::IsNull),
        1 => select(COLUMNS.to_vec()).prop_map(Filter::IsNotNull),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = || (inner.clone(), inner.clone()).prop_map(|(a, b)| (Box::new(a), Box::new(b)));
        prop_oneof![
            pair().prop_map(|(a, b)| Filter::And(a, b)),
            pair().prop_map(|(a, b)| Filter::Or(a, b)),
            inner.clone().prop_map(|a| Filter::Not(Box::new(a))),
        ]
    })
}

pub(super) fn spec() -> impl Strategy<Value = Spec> {
    (
        keys(),
        prop::option::of(filter()),
        prop::option::of(prop::collection::vec(0..COLUMNS.len(), 0..4)),
        prop::option::weighted(0.3, 0..12usize),
        any::<bool>(),
        prop_oneof![Just(0), 0..40u64],
        1..6usize,
    )
        .prop_map(|(keys, filter, columns, limit, reverse, age, parts)| Spec {
            keys,
            filter,
            columns,
            limit,
            reverse,
            age,
            parts,
        })
}

/// The error's kind, for tests that expect one.
pub(super) fn kind<T>(result: Result<T, Error>) -> crate::ErrorKind {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.kind(),
    }
}
