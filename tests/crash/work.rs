//! The work of a child, which its parent can work out again: each step follows from the seed, the thread, the step's
//! number, and what the thread has written before. No two threads write the same row, so that each knows exactly what
//! must be there.

mod attempt;

use std::collections::BTreeMap;

use nyala::{Engine, Error, Row, Schema, Table, Type, Value};

use crate::random::Random;
pub(crate) use attempt::{Tables, attempt, found_rows, look};

/// Threads of a child.
pub(crate) const THREADS: u8 = 3;
/// The tables that always exist. Each thread has one more of its own, which it makes and drops.
pub(crate) const TABLES: [&str; 3] = ["accounts", "events", "tags"];
/// The place of a thread's own table.
pub(crate) const OWN: usize = 3;
/// Keys of a thread and table.
const KEYS: u64 = 120;

/// The value columns of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) count: i64,
    pub(crate) text: Option<String>,
}

/// The rows of one thread in one table.
pub(crate) type Rows = BTreeMap<u32, Content>;

/// All that one thread has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) tables: [Rows; 3],
    /// `None` while its own table does not exist.
    pub(crate) own: Option<Rows>,
}

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Upsert,
    Insert,
    InsertIgnore,
    UpdateCount,
    UpdateText,
    Delete,
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) table: usize,
    pub(crate) verb: Verb,
    pub(crate) key: u32,
    pub(crate) content: Content,
}

/// One call of the engine, or a few that change nothing.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Single(Operation),
    /// A transaction, if the number of its operations is even.
    Batch {
        operations: Vec<Operation>,
        is_synced: bool,
    },
    MakeOwn,
    DropOwn,
    /// A column comes, or goes again.
    AlterOwn,
    FlushTable(usize),
    FlushAll,
    Compact(usize),
    Sync,
    Look(usize, Vec<u32>),
    Scan(usize),
}

/// How a step ends, as one byte.
pub(crate) const DONE: u8 = 0;
pub(crate) const DUPLICATE: u8 = 1;
pub(crate) const MISSING: u8 = 2;

impl Owned {
    pub(crate) fn rows(&self, table: usize) -> Option<&Rows> {
        if table == OWN { self.own.as_ref() } else { Some(&self.tables[table]) }
    }

    fn rows_mut(&mut self, table: usize) -> &mut Rows {
        if table == OWN {
            self.own.as_mut().expect("steps name tables that are there")
        } else {
            &mut self.tables[table]
        }
    }

    /// Does what the engine must do, and tells the outcome that it must tell.
    pub(crate) fn apply(&mut self, step: &Step) -> u8 {
        match step {
            Step::Single(operation) => self.apply_all(std::slice::from_ref(operation)),
            Step::Batch { operations, .. } => self.apply_all(operations),
            Step::MakeOwn => {
                self.own = Some(Rows::new());
                DONE
            }
            Step::DropOwn => {
                self.own = None;
                DONE
            }
            _ => DONE,
        }
    }

    /// All or nothing.
    fn apply_all(&mut self, operations: &[Operation]) -> u8 {
        let mut before = Vec::new();
        for operation in operations {
            let rows = self.rows_mut(operation.table);
            let old = rows.get(&operation.key).cloned();
            let new = match (operation.verb, &old) {
                (Verb::Upsert, _) | (Verb::Insert | Verb::InsertIgnore, None) => {
                    Some(operation.content.clone())
                }
                (Verb::InsertIgnore, Some(_)) => old.clone(),
                (Verb::UpdateCount, Some(old)) => {
                    Some(Content { count: operation.content.count, ..old.clone() })
                }
                (Verb::UpdateText, Some(old)) => {
                    Some(Content { text: operation.content.text.clone(), ..old.clone() })
                }
                (Verb::Delete, _) => None,
                (Verb::Insert, Some(_)) | (Verb::UpdateCount | Verb::UpdateText, None) => {
                    for (table, key, old) in before.into_iter().rev() {
                        put(self.rows_mut(table), key, old);
                    }
                    return if operation.verb == Verb::Insert { DUPLICATE } else { MISSING };
                }
            };
            put(rows, operation.key, new);
            before.push((operation.table, operation.key, old));
        }
        DONE
    }
}

fn put(rows: &mut Rows, key: u32, content: Option<Content>) {
    match content {
        Some(content) => rows.insert(key, content),
        None => rows.remove(&key),
    };
}

/// The step of this number. It depends on what the thread has written so far only to be likely to succeed.
pub(crate) fn step(seed: u64, cycle: u64, thread: u8, number: u32, owned: &Owned) -> Step {
    let mut random = Random::of(&[seed, cycle, u64::from(thread), u64::from(number)]);
    let table = |random: &mut Random| {
        let tables = if owned.own.is_some() { 4 } else { 3 };
        random.number(tables) as usize
    };
    match random.number(100) {
        0..=44 => {
            let table = table(&mut random);
            Step::Single(operation(&mut random, table, owned))
        }
        45..=79 => {
            let count = match random.number(20) {
                0 => 100 + random.number(60),
                1..=4 => 20 + random.number(30),
                _ => 1 + random.number(8),
            };
            let operations = (0..count).map(|_| {
                let table = table(&mut random);
                operation(&mut random, table, owned)
            });
            let operations = operations.collect();
            Step::Batch { operations, is_synced: random.one_in(3) }
        }
        80..=84 if owned.own.is_some() => Step::DropOwn,
        80..=84 => Step::MakeOwn,
        85 => Step::FlushAll,
        86 | 87 => Step::FlushTable(table(&mut random)),
        88 => Step::Compact(table(&mut random)),
        89 => Step::Sync,
        96 if owned.own.is_some() => Step::AlterOwn,
        90..=96 => {
            let table = table(&mut random);
            Step::Look(table, (0..5).map(|_| random.number(KEYS) as u32).collect())
        }
        _ => Step::Scan(table(&mut random)),
    }
}

fn operation(random: &mut Random, table: usize, owned: &Owned) -> Operation {
    let key = random.number(KEYS) as u32;
    let is_there = owned.rows(table).is_some_and(|rows| rows.contains_key(&key));
    let verb = match random.number(20) {
        0..=7 => Verb::Upsert,
        8 | 9 => Verb::Delete,
        10 => Verb::InsertIgnore,
        // Once in a while one that must fail.
        11 => Verb::Insert,
        12 => Verb::UpdateCount,
        13..=16 if is_there => Verb::UpdateCount,
        17.. if is_there => Verb::UpdateText,
        _ => Verb::Insert,
    };
    let bytes = match random.number(200) {
        0 => 6000 + random.number(6000),
        1..=5 => 600,
        _ => random.number(40),
    };
    let text = (!random.one_in(8)).then(|| {
        let letter = char::from(b'a' + (random.number(26) as u8));
        let mut text: String = std::iter::repeat_n(letter, bytes as usize).collect();
        text.push_str(&random.number(1 << 30).to_string());
        text
    });
    Operation { table, verb, key, content: Content { count: random.next() as i64, text } }
}

/// The name of a thread's own table.
pub(crate) fn own_name(thread: u8) -> String {
    format!("own-{thread}")
}

/// The column that a thread's own table has at times.
const ADDED: &str = "added";

/// Opens a table, a thread's own one with whatever columns it has.
pub(crate) fn open(engine: &Engine, name: &str, place: usize) -> Result<Table, Error> {
    if place == OWN { engine.existing_table(name) } else { engine.open_table(name, &schema(place)) }
}

/// The schemas differ in their keys, so that every kind of key goes through every path.
pub(crate) fn schema(table: usize) -> Schema {
    let builder = match table {
        0 => Schema::builder().key("owner", Type::U8).key("id", Type::I32),
        1 => Schema::builder()
            .key("group", Type::String)
            .key("owner", Type::U8)
            .key("id", Type::U32.descending()),
        2 => Schema::builder().key("name", Type::Binary),
        _ => Schema::builder().key("id", Type::I64),
    };
    builder.column("count", Type::I64).column("text", Type::String.nullable()).build().expect("a good schema")
}

/// The parts of a key that need memory.
pub(crate) struct Key {
    table: usize,
    owner: u8,
    id: u32,
    group: String,
    name: [u8; 5],
}

pub(crate) fn key(table: usize, owner: u8, id: u32) -> Key {
    let mut name = [0; 5];
    name[0] = owner;
    name[1..].copy_from_slice(&id.to_be_bytes());
    Key { table, owner, id, group: format!("g{}\0x", id % 5), name }
}

impl Key {
    pub(crate) fn values(&self) -> Vec<Value<'_>> {
        let owner = Value::UInt(u64::from(self.owner));
        match self.table {
            0 => vec![owner, Value::Int(i64::from(self.id) - 60)],
            1 => vec![Value::String(&self.group), owner, Value::UInt(u64::from(self.id))],
            2 => vec![Value::Binary(&self.name)],
            _ => vec![Value::Int(i64::from(self.id))],
        }
    }

    /// A row as the table has it now: in a column that was added the count stands again.
    pub(crate) fn row<'a>(&'a self, table: &Table, content: &'a Content) -> Vec<Value<'a>> {
        let mut values = self.values();
        values.push(Value::Int(content.count));
        values.push(content.text.as_deref().map_or(Value::Null, Value::String));
        values.resize(table.schema().columns().len(), Value::Int(content.count));
        values
    }
}

/// Reads a row of any of the tables: owner (0 for a thread's own table), id and content.
pub(crate) fn read(table: usize, row: &Row) -> Result<(u8, u32, Content), Error> {
    let (owner, id) = match table {
        0 => (row.get("owner")?, u32::try_from(row.get::<i64>("id")? + 60).expect("an id that was written")),
        1 => (row.get("owner")?, row.get("id")?),
        2 => {
            let name: &[u8] = row.get("name")?;
            (name[0], u32::from_be_bytes(name[1..].try_into().expect("five bytes")))
        }
        _ => (0, row.get("id")?),
    };
    let text = row.get::<Option<&str>>("text")?.map(str::to_owned);
    if row.columns().any(|name| name == ADDED) {
        // An update changes the count alone.
        row.get::<i64>(ADDED)?;
    }
    Ok((owner, id, Content { count: row.get("count")?, text }))
}

/// The first difference between what must be there and what is, in words.
pub(crate) fn differ(expected: Option<&Rows>, found: Option<&Rows>) -> Option<String> {
    let (expected, found) = match (expected, found) {
        (Some(expected), Some(found)) => (expected, found),
        (None, None) => return None,
        (expected, found) => {
            let is = |rows: Option<&Rows>| if rows.is_some() { "there" } else { "absent" };
            return Some(format!("the table must be {}, and is {}", is(expected), is(found)));
        }
    };
    let keys: std::collections::BTreeSet<u32> = expected.keys().chain(found.keys()).copied().collect();
    let different = |id: &u32| expected.get(id) != found.get(id);
    let id = keys.iter().copied().find(different)?;
    let count = keys.iter().filter(|id| different(id)).count();
    Some(format!(
        "{count} rows differ, the first is {id}: must be {:.200?}, is {:.200?}",
        expected.get(&id),
        found.get(&id)
    ))
}
