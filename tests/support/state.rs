//! What tables should hold, as ordered maps, and the events that change them. Never asks the engine anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::extra::{Alteration, Extra};
use crate::shape::{Key, Row, Shape};

pub(crate) type Rows = BTreeMap<Key, Arc<Row>>;

/// One table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableState {
    pub(crate) shape: Shape,
    /// The columns that were added, in their order.
    pub(crate) extra: Vec<Extra>,
    pub(crate) rows: Arc<Rows>,
}

impl TableState {
    pub(crate) fn alter(&mut self, alteration: &Alteration) {
        let rows = Arc::make_mut(&mut self.rows).values_mut().map(|row| &mut Arc::make_mut(row).extra);
        let at = |name| self.extra.iter().position(|extra| extra.name == name).expect("it is there");
        match alteration {
            Alteration::Add(extra) => {
                rows.for_each(|row| row.push((extra.name, extra.default.clone())));
                self.extra.push(extra.clone());
            }
            Alteration::Rename(from, to) => {
                let at = at(*from);
                rows.for_each(|row| row[at].0 = to);
                self.extra[at].name = to;
            }
            Alteration::Drop(name) => {
                let at = at(*name);
                rows.for_each(|row| drop(row.remove(at)));
                self.extra.remove(at);
            }
        }
    }
}

/// All tables at one moment, by name. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<String, TableState>,
}

/// One write of a batch: the row, or none for a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) table: String,
    pub(crate) key: Key,
    pub(crate) row: Option<Arc<Row>>,
}

/// What is committed in one step, whole or not at all.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Batch(Vec<Change>),
    Create(String, Shape),
    Alter(String, Alteration),
    Rename(String, String),
    Drop(String),
}

impl Event {
    /// Whether it changes this table.
    pub(crate) fn concerns(&self, table: &str) -> bool {
        match self {
            Event::Batch(changes) => changes.iter().any(|change| change.table == table),
            Event::Create(name, _) | Event::Alter(name, _) | Event::Drop(name) => name == table,
            Event::Rename(from, to) => from == table || to == table,
        }
    }
}

impl State {
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if let Some(table) = self.tables.remove(from) {
            assert!(self.tables.insert(to.to_owned(), table).is_none(), "two tables of one name: {to}");
        }
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Batch(changes) => {
                for Change { table, key, row } in changes {
                    let table =
                        self.tables.get_mut(table).expect("the model writes to tables that are there");
                    let rows = Arc::make_mut(&mut table.rows);
                    match row {
                        Some(row) => rows.insert(key.clone(), Arc::clone(row)),
                        None => rows.remove(key),
                    };
                }
            }
            Event::Create(name, shape) => {
                let fresh = TableState { shape: *shape, extra: Vec::new(), rows: Arc::default() };
                assert!(self.tables.insert(name.clone(), fresh).is_none(), "made twice: {name}");
            }
            Event::Alter(name, alteration) => {
                self.tables.get_mut(name).expect("the model alters tables that are there").alter(alteration);
            }
            Event::Rename(from, to) => {
                assert!(self.tables.contains_key(from), "the model renames tables that are there");
                self.rename(from, to);
            }
            Event::Drop(name) => {
                self.tables.remove(name).expect("the model drops tables that are there");
            }
        }
    }

    /// In a few words, how two states differ. For failures.
    pub(crate) fn difference(&self, found: &State) -> String {
        let mut words = Vec::new();
        for name in self.tables.keys().chain(found.tables.keys()) {
            match (self.tables.get(name), found.tables.get(name)) {
                (Some(ours), Some(theirs)) if ours == theirs => {}
                (Some(ours), Some(theirs)) => {
                    let keys = ours.rows.keys().chain(theirs.rows.keys());
                    let mut keys: Vec<&Key> =
                        keys.filter(|key| ours.rows.get(*key) != theirs.rows.get(*key)).collect();
                    keys.sort();
                    keys.dedup();
                    words.push(format!("table {name} ({:?}): {} keys differ:", ours.shape, keys.len()));
                    if ours.extra != theirs.extra {
                        words.push(format!("  expected {:?}, found {:?}", ours.extra, theirs.extra));
                    }
                    for key in keys.iter().take(8) {
                        let (ours, theirs) = (ours.rows.get(*key), theirs.rows.get(*key));
                        words.push(format!("  {key:?}: expected {ours:?}, found {theirs:?}"));
                    }
                }
                (ours, theirs) => words.push(format!(
                    "table {name}: expected {}, found {}",
                    if ours.is_some() { "it" } else { "none" },
                    if theirs.is_some() { "it" } else { "none" }
                )),
            }
        }
        words.dedup();
        words.join("\n")
    }
}
