//! Every verb of a table, alone and in batches, and what the model says should come of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nyala::{Error, ErrorKind, Table, Transaction, Value, WriteBatch};

use crate::extra::Cell;
use crate::random::Random;
use crate::shape::{Key, Row, record, values};
use crate::state::{Change, State};

#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Upsert(Row),
    Insert(Row),
    InsertIgnore(Row),
    Update(Patch),
    Delete,
    /// As an `InsertIgnore`, and answers with what is there.
    InsertOrGet(Row),
    /// As a `Delete`, and answers with what was there.
    DeleteReturning,
    /// As an `Update`, by a closure that sees the row.
    UpdateWith(Patch),
    /// As an `Upsert`, if the row is still the one that was read before.
    CompareAndSet(Row),
}

/// The columns that an update names; maybe none.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    number: Option<i64>,
    note: Option<Option<String>>,
    blob: Option<Vec<u8>>,
    extra: Option<(&'static str, Cell)>,
}

impl Patch {
    fn columns(&self) -> Vec<(&'static str, Value<'_>)> {
        let number = self.number.map(|number| ("number", Value::Int(number)));
        let note =
            self.note.as_ref().map(|note| ("note", note.as_deref().map_or(Value::Null, Value::String)));
        let blob = self.blob.as_ref().map(|blob| ("blob", Value::Binary(blob)));
        let extra = self.extra.as_ref().map(|(name, cell)| (*name, cell.value()));
        number.into_iter().chain(note).chain(blob).chain(extra).collect()
    }

    fn apply(&self, row: &Row) -> Row {
        let mut extra = row.extra.clone();
        if let Some((name, cell)) = &self.extra {
            extra.iter_mut().find(|(column, _)| column == name).expect("it is there").1 = cell.clone();
        }
        Row {
            extra,
            number: self.number.unwrap_or(row.number),
            note: self.note.clone().unwrap_or_else(|| row.note.clone()),
            blob: self.blob.clone().unwrap_or_else(|| row.blob.clone()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) table: String,
    pub(crate) key: Key,
    pub(crate) verb: Verb,
}

/// What comes of a batch: its changes, or the operation that fails.
pub(crate) fn evaluate(state: &State, ops: &[Op]) -> Result<Vec<Change>, (usize, ErrorKind)> {
    let mut changes = Vec::new();
    let mut written: BTreeMap<(&str, &Key), Option<Arc<Row>>> = BTreeMap::new();
    for (position, op) in ops.iter().enumerate() {
        let before = match written.get(&(op.table.as_str(), &op.key)) {
            Some(row) => row.clone(),
            None => state.tables[&op.table].rows.get(&op.key).cloned(),
        };
        let row = match (&op.verb, before) {
            (Verb::Upsert(row) | Verb::CompareAndSet(row), _)
            | (Verb::Insert(row) | Verb::InsertIgnore(row) | Verb::InsertOrGet(row), None) => {
                Some(Arc::new(row.clone()))
            }
            (Verb::Insert(_), Some(_)) => return Err((position, ErrorKind::DuplicateKey)),
            (Verb::InsertIgnore(_) | Verb::InsertOrGet(_), Some(_)) => continue,
            (Verb::UpdateWith(patch), Some(_)) if patch.columns().is_empty() => continue,
            (Verb::Update(patch) | Verb::UpdateWith(patch), Some(row)) => Some(Arc::new(patch.apply(&row))),
            (Verb::Update(_) | Verb::UpdateWith(_), None) => return Err((position, ErrorKind::MissingRow)),
            (Verb::DeleteReturning, None) => continue,
            (Verb::Delete | Verb::DeleteReturning, _) => None,
        };
        written.insert((&op.table, &op.key), row.clone());
        changes.push(Change { table: op.table.clone(), key: op.key.clone(), row });
    }
    Ok(changes)
}

impl Op {
    /// An operation on a table of `state`. `number` tells its row from all others. An unchecked one cannot fail.
    pub(crate) fn random(random: &mut Random, state: &State, table: &str, number: i64, checked: bool) -> Op {
        let state = &state.tables[table];
        let key = match random.below(3) {
            // Keys that are there are of more use to deletions and updates.
            0 if !state.rows.is_empty() => {
                let index = random.below(state.rows.len());
                state.rows.keys().nth(index).expect("within").clone()
            }
            _ => state.shape.random_key(random),
        };
        let verb = match random.below(if checked { 10 } else { 6 }) {
            0..4 => Verb::Upsert(Row::random(random, number, &state.extra)),
            4..6 => Verb::Delete,
            6 => Verb::Insert(Row::random(random, number, &state.extra)),
            7 => Verb::InsertIgnore(Row::random(random, number, &state.extra)),
            _ => {
                let row = Row::random(random, number, &state.extra);
                let extra = if row.extra.is_empty() || random.one_in(2) {
                    None
                } else {
                    Some(random.pick(&row.extra).clone())
                };
                let patch = Patch {
                    extra,
                    number: random.one_in(2).then_some(row.number),
                    note: random.one_in(2).then_some(row.note),
                    blob: random.one_in(3).then_some(row.blob),
                };
                Verb::Update(patch)
            }
        };
        Op { table: table.to_owned(), key, verb }
    }

    /// Now and then the verb of a table's handle that does the same and says more.
    pub(crate) fn answering(mut self, random: &mut Random) -> Op {
        if random.one_in(3) {
            self.verb = match self.verb {
                Verb::Upsert(row) => Verb::CompareAndSet(row),
                Verb::InsertIgnore(row) => Verb::InsertOrGet(row),
                Verb::Update(patch) => Verb::UpdateWith(patch),
                Verb::Delete => Verb::DeleteReturning,
                verb => verb,
            };
        }
        self
    }

    /// Performs it by the verb of a table's handle. `writes` is whether the model says that it writes something.
    pub(crate) fn perform(&self, table: &Table, writes: bool) -> Result<(), Error> {
        match &self.verb {
            Verb::Upsert(row) => table.upsert(record(&self.key, row)),
            Verb::Insert(row) => table.insert(record(&self.key, row)),
            Verb::InsertIgnore(row) => table
                .insert_ignore(record(&self.key, row))
                .map(|written| assert_eq!(writes, written, "insert_ignore of {:?}", self.key)),
            Verb::Update(patch) => {
                let update = table.update(values(&self.key));
                patch
                    .columns()
                    .into_iter()
                    .fold(update, |update, (name, value)| update.set(name, value))
                    .apply()
            }
            Verb::Delete => table.delete(values(&self.key)),
            Verb::InsertOrGet(row) => {
                let there = table.insert_or_get(record(&self.key, row))?;
                assert_eq!(writes, there.is_none(), "insert_or_get of {:?}", self.key);
                let Some(there) = there else { return Ok(()) };
                let read = table.get(values(&self.key))?.expect("nobody else deletes");
                assert_eq!(read.to_values()?, there.to_values()?);
                Ok(())
            }
            Verb::DeleteReturning => {
                let before = table.get(values(&self.key))?;
                let deleted = table.delete_returning(values(&self.key))?;
                let shown = |row: &Option<nyala::Row>| row.as_ref().map(ToString::to_string);
                assert_eq!((writes, shown(&before)), (deleted.is_some(), shown(&deleted)));
                Ok(())
            }
            Verb::UpdateWith(patch) => table.update_with(values(&self.key), |_, change| {
                patch.columns().into_iter().try_for_each(|(name, value)| change.set(name, value))
            }),
            Verb::CompareAndSet(row) => {
                let version = table.get(values(&self.key))?.map(|row| row.version().expect("a get knows it"));
                let other = version.map_or(Some(nyala::Version(1)), |version| Some(version.next()));
                let written = table.compare_and_set(record(&self.key, row), other)?;
                assert_eq!(written, None, "another version than that of {:?}", self.key);
                let written = table.compare_and_set(record(&self.key, row), version)?;
                assert!(written > version, "{written:?} after {version:?}");
                Ok(())
            }
        }
    }

    /// Whether it asks what is there, and then whether for more than that there is something.
    pub(crate) fn looks(&self) -> Option<bool> {
        match self.verb {
            Verb::Insert(_) | Verb::InsertIgnore(_) => Some(false),
            Verb::Update(_) => Some(true),
            _ => None,
        }
    }

    /// Performs it in a transaction. `writes` is as for [`Op::perform`].
    pub(crate) fn perform_in(
        &self,
        transaction: &mut Transaction,
        table: &Table,
        writes: bool,
    ) -> Result<(), Error> {
        match &self.verb {
            Verb::Upsert(row) | Verb::CompareAndSet(row) => transaction.upsert(table, record(&self.key, row)),
            Verb::Insert(row) => transaction.insert(table, record(&self.key, row)),
            Verb::InsertIgnore(row) | Verb::InsertOrGet(row) => transaction
                .insert_ignore(table, record(&self.key, row))
                .map(|written| assert_eq!(writes, written, "insert_ignore of {:?}", self.key)),
            Verb::Update(patch) | Verb::UpdateWith(patch) => {
                transaction.update(table, values(&self.key), patch.columns())
            }
            Verb::Delete | Verb::DeleteReturning => transaction.delete(table, values(&self.key)),
        }
    }

    /// Adds it to a batch, where there is no answer to give.
    pub(crate) fn add_to(&self, batch: &mut WriteBatch, table: &Table) {
        let added = match &self.verb {
            Verb::Upsert(row) | Verb::CompareAndSet(row) => batch.upsert(table, record(&self.key, row)),
            Verb::Insert(row) => batch.insert(table, record(&self.key, row)),
            Verb::InsertIgnore(row) | Verb::InsertOrGet(row) => {
                batch.insert_ignore(table, record(&self.key, row))
            }
            Verb::Update(patch) | Verb::UpdateWith(patch) => {
                batch.update(table, values(&self.key), patch.columns())
            }
            Verb::Delete | Verb::DeleteReturning => batch.delete(table, values(&self.key)),
        };
        added.unwrap_or_else(|error| panic!("{self:?} is legal: {error}"));
    }
}
