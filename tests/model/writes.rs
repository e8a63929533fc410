//! Writes: every verb, alone and in batches, with what the model says should come of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use nyala::{Durability, Error, ErrorKind, Value};

use crate::oracle::{Change, Event, State};
use crate::shape::{Key, Row, record, values};
use crate::world::{Step, World};

#[derive(Clone, Debug)]
enum Verb {
    Upsert(Row),
    Insert(Row),
    InsertIgnore(Row),
    Update(Patch),
    Delete,
}

/// The columns that an update names; maybe none.
#[derive(Clone, Debug)]
struct Patch {
    number: Option<i64>,
    note: Option<Option<String>>,
    blob: Option<Vec<u8>>,
}

impl Patch {
    fn columns(&self) -> Vec<(&'static str, Value<'_>)> {
        let number = self.number.map(|number| ("number", Value::Int(number)));
        let note =
            self.note.as_ref().map(|note| ("note", note.as_deref().map_or(Value::Null, Value::String)));
        let blob = self.blob.as_ref().map(|blob| ("blob", Value::Binary(blob)));
        number.into_iter().chain(note).chain(blob).collect()
    }

    fn apply(&self, row: &Row) -> Row {
        Row {
            number: self.number.unwrap_or(row.number),
            note: self.note.clone().unwrap_or_else(|| row.note.clone()),
            blob: self.blob.clone().unwrap_or_else(|| row.blob.clone()),
        }
    }
}

#[derive(Clone, Debug)]
struct Op {
    table: String,
    key: Key,
    verb: Verb,
}

/// What comes of a batch: its changes, or the operation that fails.
fn evaluate(state: &State, ops: &[Op]) -> Result<Vec<Change>, (usize, ErrorKind)> {
    let mut changes = Vec::new();
    let mut written: BTreeMap<(&str, &Key), Option<Arc<Row>>> = BTreeMap::new();
    for (position, op) in ops.iter().enumerate() {
        let before = match written.get(&(op.table.as_str(), &op.key)) {
            Some(row) => row.clone(),
            None => state.tables[&op.table].rows.get(&op.key).cloned(),
        };
        let row = match (&op.verb, before) {
            (Verb::Upsert(row), _) | (Verb::Insert(row) | Verb::InsertIgnore(row), None) => {
                Some(Arc::new(row.clone()))
            }
            (Verb::Insert(_), Some(_)) => return Err((position, ErrorKind::DuplicateKey)),
            (Verb::InsertIgnore(_), Some(_)) => continue,
            (Verb::Update(patch), Some(row)) => Some(Arc::new(patch.apply(&row))),
            (Verb::Update(_), None) => return Err((position, ErrorKind::MissingRow)),
            (Verb::Delete, _) => None,
        };
        written.insert((&op.table, &op.key), row.clone());
        changes.push(Change { table: op.table.clone(), key: op.key.clone(), row });
    }
    Ok(changes)
}

impl World {
    fn random_op(&mut self, table: &str, checked: bool) -> Op {
        let state = &self.history.now().tables[table];
        let shape = state.shape;
        let key = match self.random.below(3) {
            // Keys that are there are of more use to deletions and updates.
            0 if !state.rows.is_empty() => {
                let index = self.random.below(state.rows.len());
                state.rows.keys().nth(index).expect("within").clone()
            }
            _ => shape.random_key(&mut self.random),
        };
        self.next_number += 1;
        let number = self.next_number;
        let random = &mut self.random;
        let verb = match random.below(if checked { 10 } else { 6 }) {
            0..4 => Verb::Upsert(Row::random(random, number)),
            4..6 => Verb::Delete,
            6 => Verb::Insert(Row::random(random, number)),
            7 => Verb::InsertIgnore(Row::random(random, number)),
            _ => {
                let row = Row::random(random, number);
                Verb::Update(Patch {
                    number: random.one_in(2).then_some(row.number),
                    note: random.one_in(2).then_some(row.note),
                    blob: random.one_in(3).then_some(row.blob),
                })
            }
        };
        Op { table: table.to_owned(), key, verb }
    }

    /// One verb of a table's handle.
    pub(crate) fn write_one(&mut self) -> Step {
        let Some(name) = self.table_name() else { return self.first_table() };
        let op = self.random_op(&name, true);
        let expected = evaluate(self.history.now(), std::slice::from_ref(&op));
        let table = &self.tables[&name];
        let result = match &op.verb {
            Verb::Upsert(row) => table.upsert(record(&op.key, row)),
            Verb::Insert(row) => table.insert(record(&op.key, row)),
            Verb::InsertIgnore(row) => table.insert_ignore(record(&op.key, row)).map(|written| {
                let is_written = expected.as_ref().is_ok_and(|changes| !changes.is_empty());
                assert_eq!(is_written, written, "insert_ignore of {:?}", op.key);
            }),
            Verb::Update(patch) => {
                let update = table.update(values(&op.key));
                patch
                    .columns()
                    .into_iter()
                    .fold(update, |update, (name, value)| update.set(name, value))
                    .apply()
            }
            Verb::Delete => table.delete(values(&op.key)),
        };
        self.settle(&[op], expected, self.default_durability(), result)
    }

    /// A batch over any tables.
    pub(crate) fn write_batch(&mut self) -> Step {
        let Some(first) = self.table_name() else { return self.first_table() };
        let many = if self.random.one_in(12) { 120 } else { 12 };
        let count = 1 + self.random.below(many);
        // A batch of many checked operations would nearly always fail.
        let checked = self.random.one_in(3);
        let mut ops = Vec::new();
        for _ in 0..count {
            let table = if self.random.one_in(2) {
                first.clone()
            } else {
                self.table_name().expect("there are some")
            };
            let checked = checked && self.random.one_in(4);
            ops.push(self.random_op(&table, checked));
        }
        let expected = evaluate(self.history.now(), &ops);
        let durability = *self.random.pick(&[Durability::Buffered, Durability::Buffered, Durability::Sync]);
        let mut batch = self.engine().batch();
        for op in &ops {
            let table = &self.tables[&op.table];
            let added = match &op.verb {
                Verb::Upsert(row) => batch.upsert(table, record(&op.key, row)),
                Verb::Insert(row) => batch.insert(table, record(&op.key, row)),
                Verb::InsertIgnore(row) => batch.insert_ignore(table, record(&op.key, row)),
                Verb::Update(patch) => batch.update(table, values(&op.key), patch.columns()),
                Verb::Delete => batch.delete(table, values(&op.key)),
            };
            added.unwrap_or_else(|error| panic!("{op:?} is legal: {error}"));
        }
        assert_eq!(ops.len(), batch.len());
        let result = batch.commit(durability);
        let left = if result.is_ok() { 0 } else { ops.len() };
        assert_eq!(left, batch.len(), "a batch is empty after a commit, and as it was after a failure");
        self.settle(&ops, expected, durability, result)
    }

    /// Compares what came of a write with what should have, and commits it to the model.
    fn settle(
        &mut self,
        ops: &[Op],
        expected: Result<Vec<Change>, (usize, ErrorKind)>,
        durability: Durability,
        result: Result<(), Error>,
    ) -> Step {
        match (expected, result) {
            (Err((position, kind)), Err(error)) if error.kind() == kind => {
                assert_eq!(Some(position), error.operation(), "{error}");
                Ok(())
            }
            (Err((position, kind)), result) => {
                self.done("a write", result)?;
                panic!("operation {position} of {ops:?} should have failed: {kind:?}");
            }
            (Ok(changes), result) => {
                let is_durable = durability == Durability::Sync && !changes.is_empty();
                self.decide(Event::Batch(changes), "a write", result)?;
                if is_durable {
                    self.history.all_durable();
                }
                Ok(())
            }
        }
    }

    /// Without a table there is nothing to write to.
    fn first_table(&mut self) -> Step {
        self.create_table()
    }
}
