//! Reads: points, scans, snapshots; each compared with the model.

use std::sync::Arc;

use nyala::{ErrorKind, Snapshot, Table};

use crate::rows::check_row;
use crate::scans::Ask;
use crate::shape::{Key, values};
use crate::state::{State, TableState};
use crate::world::{OpenScan, Step, World};

/// What a live snapshot may hold back, at most.
const SNAPSHOTS_MAX: usize = 6;
const SCANS_MAX: usize = 4;

/// A scan that outlives its engine gives the rows that it has, and then says that the engine is closed.
pub(crate) fn finish_scan_after_close(mut scan: OpenScan) {
    loop {
        match scan.rows.next() {
            None => break assert_eq!(scan.answer.rows.len(), scan.next, "rows of {:?}", scan.ask),
            Some(Ok(row)) => {
                scan.answer.check(scan.next, &row.to_values().expect("whole bytes"), &scan.ask);
                scan.next += 1;
            }
            Some(Err(error)) => break assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
        }
    }
}

impl World {
    /// A moment to read at: now, or one of the snapshots.
    fn moment(&mut self) -> (Option<Snapshot>, State) {
        let now = self.history.now();
        if self.snapshots.is_empty() || !self.random.one_in(3) {
            return (None, now.clone());
        }
        let (snapshot, state) = self.random.pick(&self.snapshots);
        let mut state = state.clone();
        // A table that was made later is empty for the snapshot.
        for (name, table) in &now.tables {
            let empty = || TableState { rows: Arc::default(), ..table.clone() };
            state.tables.entry(name.clone()).or_insert_with(empty);
        }
        (Some(snapshot.clone()), state)
    }

    pub(crate) fn read_points(&mut self) -> Step {
        let (snapshot, state) = self.moment();
        let Some(name) = self.table_name() else { return Ok(()) };
        let (table, state) = (self.tables[&name].clone(), &state.tables[&name]);
        match self.random.below(4) {
            0 => {
                let keys: Vec<Key> =
                    (0..self.random.below(30)).map(|_| state.shape.random_key(&mut self.random)).collect();
                let asked = keys.iter().map(|key| values(key));
                let found = match &snapshot {
                    None => table.multi_get(asked),
                    Some(snapshot) => table.multi_get_at(asked, snapshot),
                };
                let found = self.done("multi_get", found)?;
                assert_eq!(keys.len(), found.len());
                for (key, found) in keys.iter().zip(&found) {
                    check_row(key, state.rows.get(key), found.as_ref());
                }
            }
            1 if snapshot.is_none() => {
                for _ in 0..4 {
                    let key = state.shape.random_key(&mut self.random);
                    let found = self.done("exists", table.exists(values(&key)))?;
                    assert_eq!(state.rows.contains_key(&key), found, "exists {key:?}");
                }
                let found = self.done("count", table.count())?;
                assert_eq!(state.rows.len() as u64, found, "count");
            }
            _ => {
                for _ in 0..8 {
                    let key = state.shape.random_key(&mut self.random);
                    let found = match &snapshot {
                        None => table.get(values(&key)),
                        Some(snapshot) => table.get_at(values(&key), snapshot),
                    };
                    let found = self.done("get", found)?;
                    check_row(&key, state.rows.get(&key), found.as_ref());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn read_scan(&mut self) -> Step {
        let (snapshot, state) = self.moment();
        let Some(name) = self.table_name() else { return Ok(()) };
        let (table, state) = (self.tables[&name].clone(), &state.tables[&name]);
        let ask = Ask::random(state, &mut self.random);
        match self.random.below(6) {
            0 => self.start_scan(&table, snapshot.as_ref(), state, ask),
            1 => {
                let found = ask.scan(&table, snapshot.as_ref()).count();
                let found = self.done("count of a scan", found)?;
                assert_eq!(ask.answer(state).rows.len() as u64, found, "count of {ask:?}");
                Ok(())
            }
            2 => self.scan_in_parts(&table, snapshot.as_ref(), state, &ask.without_limit()),
            3 => self.scan_with_cursor(&table, snapshot.as_ref(), state, &ask),
            _ => self.scan_rows(&table, snapshot.as_ref(), state, &ask),
        }
    }

    fn scan_rows(&self, table: &Table, at: Option<&Snapshot>, state: &TableState, ask: &Ask) -> Step {
        let answer = ask.answer(state);
        let mut rows = self.done("start a scan", ask.scan(table, at).rows())?;
        let mut count = 0;
        for row in rows.by_ref() {
            let row = self.done("scan", row)?;
            answer.check(count, &row.to_values().expect("whole bytes"), ask);
            count += 1;
        }
        assert_eq!(answer.rows.len(), count, "rows of {ask:?}");
        assert!(rows.next().is_none() && rows.next().is_none(), "after the end comes the end");
        Ok(())
    }

    fn scan_with_cursor(&self, table: &Table, at: Option<&Snapshot>, state: &TableState, ask: &Ask) -> Step {
        let answer = ask.answer(state);
        let mut cursor = self.done("start a scan", ask.scan(table, at).cursor())?;
        let mut count = 0;
        while let Some(row) = self.done("scan", cursor.next())? {
            answer.check(count, &row.to_values().expect("whole bytes"), ask);
            count += 1;
        }
        assert_eq!(answer.rows.len(), count, "rows of {ask:?}");
        assert!(self.done("scan", cursor.next())?.is_none(), "after the end comes the end");
        Ok(())
    }

    fn scan_in_parts(&mut self, table: &Table, at: Option<&Snapshot>, state: &TableState, ask: &Ask) -> Step {
        let answer = ask.answer(state);
        let parts = 1 + self.random.below(6);
        let scans = self.done("cut a scan", ask.scan(table, at).partitions(parts))?;
        assert!((1..=parts).contains(&scans.len()), "{} parts of {parts}", scans.len());
        let mut count = 0;
        for scan in scans {
            for batch in self.done("start a part", scan.batches())? {
                let batch = self.done("scan a part", batch)?;
                for index in 0..batch.len() {
                    let row = batch.get(index).expect("a row of the batch");
                    answer.check(count, &row.to_values().expect("whole bytes"), ask);
                    count += 1;
                }
            }
        }
        assert_eq!(answer.rows.len(), count, "rows of the parts of {ask:?}");
        Ok(())
    }

    fn start_scan(&mut self, table: &Table, at: Option<&Snapshot>, state: &TableState, ask: Ask) -> Step {
        let answer = ask.answer(state);
        let rows = self.done("start a scan", ask.scan(table, at).rows())?;
        if self.scans.len() == SCANS_MAX {
            self.scans.remove(0);
        }
        self.scans.push(OpenScan { rows, ask, answer, next: 0 });
        Ok(())
    }

    /// Reads some more of a scan that was started before: it sees what it saw then.
    pub(crate) fn continue_scan(&mut self) -> Step {
        if self.scans.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.scans.len());
        let mut scan = self.scans.swap_remove(index);
        for _ in 0..1 + self.random.below(40) {
            match scan.rows.next() {
                None => {
                    assert_eq!(scan.answer.rows.len(), scan.next, "rows of {:?}, read slowly", scan.ask);
                    return Ok(());
                }
                Some(row) => {
                    let row = self.done("go on with a scan", row)?;
                    scan.answer.check(scan.next, &row.to_values().expect("whole bytes"), &scan.ask);
                    scan.next += 1;
                }
            }
        }
        self.scans.push(scan);
        Ok(())
    }

    pub(crate) fn keep_snapshot(&mut self) -> Step {
        if self.snapshots.len() < SNAPSHOTS_MAX {
            let snapshot = self.engine().snapshot();
            let state = self.history.now().clone();
            self.snapshots.push((snapshot, state));
        }
        Ok(())
    }

    pub(crate) fn drop_snapshot(&mut self) -> Step {
        if !self.snapshots.is_empty() {
            let index = self.random.below(self.snapshots.len());
            self.snapshots.remove(index);
        }
        Ok(())
    }

    pub(crate) fn read_snapshot(&mut self) -> Step {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.snapshots.len());
        self.compare_snapshot(index)
    }

    pub(crate) fn compare_snapshot(&self, index: usize) -> Step {
        let (snapshot, state) = &self.snapshots[index];
        for (name, state) in &state.tables {
            self.scan_rows(&self.tables[name], Some(snapshot), state, &Ask::all())?;
        }
        Ok(())
    }
}
