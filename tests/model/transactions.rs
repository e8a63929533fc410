//! Transactions that are under way beside everything else: what they see of their own writes and of others', and
//! whether they commit. The model knows which must be a conflict and which must not be.
//!
//! A key that was looked up is exact: any write of it is a conflict, unless it was absent and its last write deletes
//! it, or nobody has seen more than that it is there and it still is. Of a scan the model says that it is a conflict if
//! its answer would be another one now, and none if no key was written between where it began and the last row that it
//! gave; in between it may be either, since the engine does not know what a filter would have said of a row.

use std::sync::Arc;

use nyala::{Durability, ErrorKind, Transaction};

use crate::rows::check_row;
use crate::scans::Ask;
use crate::shape::{Key, Row, values};
use crate::state::{Change, Event, State, TableState};
use crate::verbs::{Op, evaluate};
use crate::world::{Step, World};

/// How many are under way at most.
const OPEN_MAX: usize = 3;

/// A transaction, and what the model knows of it.
pub(crate) struct OpenTransaction {
    transaction: Transaction,
    /// What was there when it began.
    base: State,
    own: Vec<Change>,
    looks: Vec<Look>,
    /// What others have written since.
    since: Vec<Change>,
}

/// What it was told of the store.
enum Look {
    Key {
        table: String,
        key: Key,
        was_there: bool,
        /// Or only that there is one.
        saw_row: bool,
    },
    /// With so many of its own changes.
    Scan { table: String, ask: Ask, own: usize, rows: Vec<(Key, Arc<Row>)>, is_whole: bool, reach: Reach },
}

/// How far a scan has told what there is.
enum Reach {
    Nothing,
    Through(Key),
    All,
}

impl Reach {
    /// Of a scan of which these rows were seen, and its end if it `has_ended` other than by its limit.
    fn of(rows: &[(Key, Arc<Row>)], has_ended: bool) -> Reach {
        match rows.last() {
            _ if has_ended => Reach::All,
            Some((key, _)) => Reach::Through(key.clone()),
            None => Reach::Nothing,
        }
    }

    fn contains(&self, key: &Key, ask: &Ask) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Through(last) if ask.is_reverse() => key >= last,
            Reach::Through(last) => key <= last,
            Reach::All => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Commits,
    Conflicts,
    Either,
}

impl OpenTransaction {
    fn new(transaction: Transaction, base: State) -> OpenTransaction {
        OpenTransaction { transaction, base, own: Vec::new(), looks: Vec::new(), since: Vec::new() }
    }

    /// Something was committed.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::Batch(changes) = event {
            self.since.extend(changes.iter().cloned());
        }
    }

    /// `state`, with the first of its own changes.
    fn seen(&self, state: &State, tables: &State, own: usize) -> State {
        let mut state = state.clone();
        // A table that was made later is empty for it.
        for (name, table) in &tables.tables {
            let empty = || TableState { rows: Arc::default(), ..table.clone() };
            state.tables.entry(name.clone()).or_insert_with(empty);
        }
        state.apply(&Event::Batch(self.own[..own].to_vec()));
        state
    }

    fn has_written(&self, table: &str, key: &Key) -> bool {
        self.own.iter().any(|change| change.table == table && change.key == *key)
    }

    /// Notes that a key was looked up: what it has written itself, it was not told by the store.
    fn look(&mut self, table: &str, key: &Key, saw_row: bool) {
        if !self.has_written(table, key) {
            let was_there = self.base.tables.get(table).is_some_and(|table| table.rows.contains_key(key));
            self.looks.push(Look::Key { table: table.to_owned(), key: key.clone(), was_there, saw_row });
        }
    }

    fn verdict(&self, now: &State) -> Verdict {
        if self.own.is_empty() {
            return Verdict::Commits;
        }
        let verdicts: Vec<Verdict> = self.looks.iter().map(|look| self.verdict_on(look, now)).collect();
        let worst = |verdict| verdicts.contains(&verdict).then_some(verdict);
        worst(Verdict::Conflicts).or_else(|| worst(Verdict::Either)).unwrap_or(Verdict::Commits)
    }

    fn verdict_on(&self, look: &Look, now: &State) -> Verdict {
        match look {
            Look::Key { table, key, was_there, saw_row } => {
                let last = self.since.iter().rfind(|change| change.table == *table && change.key == *key);
                match last {
                    None => Verdict::Commits,
                    Some(change) if change.row.is_none() && !was_there => Verdict::Commits,
                    Some(change) if change.row.is_some() && *was_there && !saw_row => Verdict::Commits,
                    Some(_) => Verdict::Conflicts,
                }
            }
            Look::Scan { table, ask, own, rows, is_whole, reach } => {
                let state = self.seen(now, now, *own);
                let again = ask.answer(&state.tables[table]).rows;
                let is_same = if *is_whole { again == *rows } else { again.starts_with(rows) };
                let touches = |change: &Change| {
                    change.table == *table && ask.covers(&change.key) && reach.contains(&change.key, ask)
                };
                match (is_same, self.since.iter().any(touches)) {
                    (false, _) => Verdict::Conflicts,
                    (true, true) => Verdict::Either,
                    (true, false) => Verdict::Commits,
                }
            }
        }
    }
}

impl World {
    /// Begins one, or does something in one that is under way, or ends it.
    pub(crate) fn go_on_with_transaction(&mut self) -> Step {
        if self.transactions.len() < OPEN_MAX && (self.transactions.is_empty() || self.random.one_in(6)) {
            let transaction = self.engine().transaction();
            let base = self.history.now().clone();
            self.transactions.push(OpenTransaction::new(transaction, base));
            return Ok(());
        }
        for _ in 0..1 + self.random.below(10) {
            self.go_on()?;
        }
        Ok(())
    }

    fn go_on(&mut self) -> Step {
        let Some(table) = self.table_name().filter(|_| !self.transactions.is_empty()) else { return Ok(()) };
        let index = self.random.below(self.transactions.len());
        let mut open = self.transactions.swap_remove(index);
        let done = match self.random.below(20) {
            0..6 => self.write_in(&mut open, &table),
            6..9 => self.look_in(&mut open, &table),
            9..14 => self.scan_in(&mut open, &table),
            14 => {
                open.transaction.clear();
                open.own.clear();
                // Nobody can say any more what a scan of what was taken back would give now; only whether it may be in
                // the way.
                for look in &mut open.looks {
                    if let Look::Scan { rows, is_whole, own, .. } = look
                        && *own > 0
                    {
                        (*own, *is_whole) = (0, false);
                        rows.clear();
                    }
                }
                Ok(())
            }
            15 => return Ok(()),
            _ => return self.commit_transaction(open),
        };
        self.transactions.push(open);
        done
    }

    fn write_in(&mut self, open: &mut OpenTransaction, table: &str) -> Step {
        for _ in 0..1 + self.random.below(6) {
            let state = open.seen(&open.base, self.history.now(), open.own.len());
            self.next_number += 1;
            let op = Op::random(&mut self.random, &state, table, self.next_number, true);
            let expected = evaluate(&state, std::slice::from_ref(&op));
            let writes = expected.as_ref().is_ok_and(|changes| !changes.is_empty());
            let result = op.perform_in(&mut open.transaction, &self.tables[table], writes);
            if let Some(saw_row) = op.looks() {
                open.look(table, &op.key, saw_row);
            }
            match (expected, result) {
                (Err((_, kind)), Err(error)) if error.kind() == kind => {
                    assert_eq!(error.operation(), None, "{error}");
                }
                (Err((_, kind)), result) => {
                    self.done("a write in a transaction", result)?;
                    panic!("{op:?} should have failed: {kind:?}");
                }
                (Ok(changes), result) => {
                    self.done("a write in a transaction", result)?;
                    open.own.extend(changes);
                }
            }
        }
        assert_eq!(open.transaction.is_empty(), open.own.is_empty());
        Ok(())
    }

    fn look_in(&mut self, open: &mut OpenTransaction, table: &str) -> Step {
        let state = open.seen(&open.base, self.history.now(), open.own.len());
        let state = &state.tables[table];
        let keys: Vec<Key> =
            (0..1 + self.random.below(4)).map(|_| state.shape.random_key(&mut self.random)).collect();
        let handle = &self.tables[table];
        let check = |key: &Key, found: Option<&nyala::Row>| check_row(key, state.rows.get(key), found);
        let kind = self.random.below(3);
        match kind {
            0 => {
                let found = open.transaction.multi_get(handle, keys.iter().map(|key| values(key)));
                let found = self.done("multi_get in a transaction", found)?;
                keys.iter().zip(&found).for_each(|(key, found)| check(key, found.as_ref()));
            }
            1 => {
                for key in &keys {
                    let found = open.transaction.exists(handle, values(key));
                    let found = self.done("exists in a transaction", found)?;
                    assert_eq!(state.rows.contains_key(key), found, "exists {key:?}");
                }
            }
            _ => {
                for key in &keys {
                    let found = open.transaction.get(handle, values(key));
                    check(key, self.done("get in a transaction", found)?.as_ref());
                }
            }
        }
        keys.iter().for_each(|key| open.look(table, key, kind != 1));
        Ok(())
    }

    fn scan_in(&mut self, open: &mut OpenTransaction, table: &str) -> Step {
        let state = open.seen(&open.base, self.history.now(), open.own.len());
        let ask = Ask::random(&state.tables[table], &mut self.random);
        let answer = ask.answer(&state.tables[table]);
        let scan = || ask.put(open.transaction.scan(&self.tables[table]));
        // Of one that is stopped just at its last row, nobody has said that it was the last.
        let (mut seen, mut is_whole) = (answer.rows.len(), true);
        match self.random.below(4) {
            0 => {
                let found = self.done("count in a transaction", scan().count())?;
                assert_eq!(answer.rows.len() as u64, found, "count of {ask:?}");
            }
            kind => {
                let wanted = if kind == 1 { self.random.below(4) } else { usize::MAX };
                let rows = self.done("start a scan in a transaction", scan().rows())?;
                let mut count = 0;
                for row in rows.take(wanted) {
                    let row = self.done("scan in a transaction", row)?;
                    answer.check(count, &row.to_values().expect("whole bytes"), &ask);
                    count += 1;
                }
                assert_eq!(count, answer.rows.len().min(wanted), "rows of {ask:?} in a transaction");
                (seen, is_whole) = (count, wanted > count);
            }
        }
        let rows = answer.rows[..seen].to_vec();
        let own = open.own.len();
        let reach = Reach::of(&rows, is_whole && ask.limit() != Some(seen));
        open.looks.push(Look::Scan { table: table.to_owned(), ask, own, rows, is_whole, reach });
        Ok(())
    }

    fn commit_transaction(&mut self, open: OpenTransaction) -> Step {
        let verdict = open.verdict(self.history.now());
        let durability = *self.random.pick(&[Durability::Buffered, Durability::Buffered, Durability::Sync]);
        let OpenTransaction { transaction, own, .. } = open;
        let before = self.engine().last_committed();
        let result = transaction.commit(durability);
        if let Err(error) = &result
            && error.kind() == ErrorKind::Conflict
        {
            assert_ne!(verdict, Verdict::Commits, "nothing that it has read has moved: {error}");
            assert_eq!(self.engine().last_committed(), before, "nothing is written");
            self.tally.conflicts += 1;
            return Ok(());
        }
        if own.is_empty() {
            assert_eq!(self.done("commit of nothing", result)?, before);
            return Ok(());
        }
        let ticket = self.decide(Event::Batch(own), "commit a transaction", result)?;
        assert_eq!(ticket, self.engine().last_committed());
        assert_ne!(verdict, Verdict::Conflicts, "something that it has read has moved");
        if durability == Durability::Sync {
            self.history.all_durable();
        }
        self.tally.transactions += 1;
        Ok(())
    }
}
