//! What the engine should hold, and what it may hold after a failure.
//!
//! Owns the rows of every table after every commit since the last one that must survive a loss of power. Never asks the
//! engine anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use nyala::ErrorKind;

/// The columns beside the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: i64,
    pub(crate) text: Option<String>,
}

pub(crate) type Rows = BTreeMap<u32, Row>;

/// All tables at one moment, by name. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<String, Arc<Rows>>,
}

/// What an operation does to its key.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Upsert(Row),
    Insert(Row),
    InsertIgnore(Row),
    /// Changes the number and leaves the text.
    Update(i64),
    Delete,
}

/// An operation of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) table: String,
    pub(crate) id: u32,
    pub(crate) verb: Verb,
}

/// What comes of an operation: the row of a key, or none.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    table: String,
    id: u32,
    row: Option<Row>,
}

/// What is committed in one step, whole or not at all.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Batch(Vec<Change>),
    Create(String),
    Drop(String),
}

impl State {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Batch(changes) => {
                for Change { table, id, row } in changes {
                    let rows = Arc::make_mut(self.tables.get_mut(table).expect("the model has the table"));
                    match row {
                        Some(row) => rows.insert(*id, row.clone()),
                        None => rows.remove(id),
                    };
                }
            }
            Event::Create(name) => {
                assert!(self.tables.insert(name.clone(), Arc::default()).is_none(), "made twice: {name}");
            }
            Event::Drop(name) => {
                self.tables.remove(name).expect("the model has the table");
            }
        }
    }

    /// The changes that a batch makes, or which operation fails its check.
    pub(crate) fn evaluate(&self, ops: &[Op]) -> Result<Vec<Change>, (usize, ErrorKind)> {
        let mut changes: Vec<Change> = Vec::new();
        for (position, Op { table, id, verb }) in ops.iter().enumerate() {
            let written = changes.iter().rev().find(|change| change.table == *table && change.id == *id);
            let before = match written {
                Some(change) => change.row.as_ref(),
                None => self.tables[table].get(id),
            };
            let row = match (verb, before) {
                (Verb::Upsert(row), _) | (Verb::Insert(row) | Verb::InsertIgnore(row), None) => {
                    Some(row.clone())
                }
                (Verb::Insert(_), Some(_)) => return Err((position, ErrorKind::DuplicateKey)),
                (Verb::InsertIgnore(_), Some(_)) => continue,
                (Verb::Update(number), Some(row)) => Some(Row { number: *number, ..row.clone() }),
                (Verb::Update(_), None) => return Err((position, ErrorKind::MissingRow)),
                (Verb::Delete, _) => None,
            };
            changes.push(Change { table: table.clone(), id: *id, row });
        }
        Ok(changes)
    }

    /// In a few words, how two states differ. For failures.
    pub(crate) fn difference(&self, found: &State) -> String {
        let mut words = Vec::new();
        let names =
            self.tables.keys().chain(found.tables.keys().filter(|name| !self.tables.contains_key(*name)));
        for name in names {
            match (self.tables.get(name), found.tables.get(name)) {
                (Some(ours), Some(theirs)) => {
                    let mut ids: Vec<u32> = ours.keys().chain(theirs.keys()).copied().collect();
                    ids.sort_unstable();
                    ids.dedup();
                    ids.retain(|id| ours.get(id) != theirs.get(id));
                    for id in ids.iter().take(5) {
                        let short = |rows: &Rows| rows.get(id).map(|row| row.number);
                        words.push(format!(
                            "table {name}, id {id}: expected number {:?}, found {:?}",
                            short(ours),
                            short(theirs)
                        ));
                    }
                    if ids.len() > 5 {
                        words.push(format!("table {name}: {} ids differ", ids.len()));
                    }
                }
                (Some(_), None) => words.push(format!("table {name} is missing")),
                (None, _) => words.push(format!("table {name} should not be there")),
            }
        }
        words.join("\n")
    }
}

/// The commits, and what must survive of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The state after the last commit that must survive a loss of power.
    durable: State,
    /// The commits since, in order.
    since: Vec<Event>,
    now: State,
    /// In flight when the engine failed: there whole, or absent.
    undecided: Option<Event>,
}

impl History {
    /// What was acknowledged.
    pub(crate) fn now(&self) -> &State {
        &self.now
    }

    pub(crate) fn commit(&mut self, event: Event) {
        assert!(self.undecided.is_none(), "a commit behind one that is undecided");
        self.now.apply(&event);
        self.since.push(event);
    }

    /// Nobody can know before the next open whether this happened. Nothing is committed any more until then.
    pub(crate) fn leave_undecided(&mut self, event: Event) {
        assert!(self.undecided.is_none(), "one call at a time");
        self.undecided = Some(event);
    }

    /// Everything so far survives a loss of power from now on.
    pub(crate) fn all_durable(&mut self) {
        self.durable = self.now.clone();
        self.since.clear();
    }

    /// The engine was closed, and says that all is well. (A poisoned one says so too if nothing was left to write; what
    /// was undecided still is.)
    pub(crate) fn close(&mut self) {
        if self.undecided.is_none() {
            self.all_durable();
        }
    }

    /// Everything up to the last commit that concerns this table does.
    pub(crate) fn durable_through(&mut self, table: &str) {
        let concerns = |event: &Event| match event {
            Event::Batch(changes) => changes.iter().any(|change| change.table == table),
            Event::Create(name) | Event::Drop(name) => name == table,
        };
        let count = self.since.iter().rposition(concerns).map_or(0, |last| last + 1);
        for event in self.since.drain(..count) {
            self.durable.apply(&event);
        }
    }

    /// What is there without a loss of power: everything, and perhaps what is undecided.
    pub(crate) fn is_legal_now(&self, found: &State) -> bool {
        if *found == self.now {
            return true;
        }
        self.undecided.as_ref().is_some_and(|event| {
            let mut state = self.now.clone();
            state.apply(event);
            state == *found
        })
    }

    /// Takes over what an open found. If power was lost, that is what some prefix of the commits gives, from the last
    /// durable one on; otherwise all of them count. What was undecided may have come after all of them.
    ///
    /// # Errors
    /// It is nothing that was allowed. Says how it differs.
    pub(crate) fn recover(&mut self, found: &State, power_was_lost: bool) -> Result<(), String> {
        if power_was_lost {
            let mut state = self.durable.clone();
            let mut events = self.since.iter().chain(&self.undecided);
            while state != *found {
                let Some(event) = events.next() else {
                    return Err(format!(
                        "no prefix of the {} commits since the last durable one gives what was found.\n\
                         Against the oldest allowed:\n{}\nAgainst the newest:\n{}",
                        self.since.len(),
                        self.durable.difference(found),
                        state.difference(found)
                    ));
                };
                state.apply(event);
            }
        } else if !self.is_legal_now(found) {
            return Err(format!(
                "what was acknowledged is not what was found:\n{}",
                self.now.difference(found)
            ));
        }
        // An open has written anew and synced whatever it found.
        *self = History { durable: found.clone(), since: Vec::new(), now: found.clone(), undecided: None };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(id: u32, number: i64) -> Event {
        let row = Some(Row { number, text: None });
        Event::Batch(vec![Change { table: "t".into(), id, row }])
    }

    fn after(events: &[Event]) -> State {
        let mut state = State::default();
        events.iter().for_each(|event| state.apply(event));
        state
    }

    #[test]
    fn without_a_loss_of_power_only_what_is_undecided_is_open() {
        let create = Event::Create("t".into());
        let mut history = History::default();
        history.commit(create.clone());
        history.commit(put(1, 1));
        history.leave_undecided(put(2, 2));
        let all = after(&[create.clone(), put(1, 1), put(2, 2)]);
        history.clone().recover(&all, false).expect("whole");
        history.clone().recover(&after(&[create.clone(), put(1, 1)]), false).expect("absent");
        history.clone().recover(&after(&[create]), false).expect_err("an acknowledged row is gone");
    }

    #[test]
    fn with_a_loss_of_power_a_prefix_is_left_and_never_less_than_was_durable() {
        let create = Event::Create("t".into());
        let mut history = History::default();
        history.commit(create.clone());
        history.commit(put(1, 1));
        history.all_durable();
        history.commit(put(1, 2));
        history.commit(put(2, 2));
        history.clone().recover(&after(&[create.clone(), put(1, 2)]), true).expect("a prefix");
        history.clone().recover(&after(&[create.clone(), put(1, 1), put(2, 2)]), true).expect_err("a gap");
        history.clone().recover(&after(&[create]), true).expect_err("what was durable is gone");
    }
}
