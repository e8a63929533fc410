//! Reads: everything that was acknowledged is read, by every way of reading. One that meets the failure says so, and
//! works when it is tried again.

use std::collections::BTreeMap;
use std::sync::Arc;

use nyala::{Engine, Error, Rows as Scanned, Snapshot, Table};

use super::{Flow, World};
use crate::kinds::Kind;
use crate::model::{Row, Rows, State};

/// A scan that outlives other steps.
pub(crate) struct OpenScan {
    rows: Scanned,
    expected: Vec<(u32, Row)>,
    next: usize,
    is_broken: bool,
}

fn split(row: &nyala::Row) -> Result<(u32, Row), Error> {
    Ok((row.get("id")?, Row { number: row.get("number")?, text: row.get("text")? }))
}

fn read_table(table: &Table, at: Option<&Snapshot>) -> Result<Rows, Error> {
    let mut scan = table.scan().columns(["id", "number", "text"]);
    if let Some(snapshot) = at {
        scan = scan.at(snapshot);
    }
    let mut rows = BTreeMap::new();
    let mut last = None;
    for row in scan.rows()? {
        let (id, row) = split(&row?)?;
        assert!(last.is_none_or(|last| last < id), "id {id} is out of order");
        last = Some(id);
        rows.insert(id, row);
    }
    Ok(rows)
}

/// All rows of all tables, by a scan of each.
pub(super) fn read_all(engine: &Engine) -> Result<State, Error> {
    let mut state = State::default();
    for name in engine.tables() {
        let table = engine.existing_table(&name)?;
        state.tables.insert(name, Arc::new(read_table(&table, None)?));
    }
    Ok(state)
}

impl World<'_> {
    /// Reads; again if it meets the failure. `None` if reads go on failing.
    pub(super) fn read<T>(&mut self, what: &str, read: impl Fn(&World<'_>) -> Result<T, Error>) -> Option<T> {
        match read(self) {
            Ok(value) => Some(value),
            Err(error) => {
                self.explained(what, &error);
                self.seen.failed_reads += 1;
                if self.kind().fails_all_reads() && !self.is_mended {
                    return None;
                }
                Some(read(self).unwrap_or_else(|error| panic!("{what}, for the second time: {error}")))
            }
        }
    }

    pub(super) fn compare_all(&mut self) -> Flow {
        if let Some(found) = self.read("read everything", |world| read_all(world.engine()))
            && !self.history.is_legal_now(&found)
        {
            panic!("other rows are read: {}", self.history.now().difference(&found));
        }
        Ok(())
    }

    pub(super) fn get(&mut self, table: &str, id: u32) -> Flow {
        let Some(table) = self.tables.get(table).cloned() else { return Ok(()) };
        let expected = self.history.now().tables[table.name()].get(&id).cloned();
        let found = self.read("get", |_| {
            let row = table.get((id,))?.map(|row| split(&row)).transpose()?.map(|(_, row)| row);
            let exists = table.exists((id,))?;
            let many = table.multi_get([id, id + 1, id])?;
            Ok((row, exists, many[0].is_some(), many[2].is_some(), table.count()?))
        });
        let Some((row, exists, first, third, count)) = found else { return Ok(()) };
        if self.seen.undecided {
            // Whether that is seen is open; the comparison of whole tables says what may be.
            return self.compare_all();
        }
        let is_there = expected.is_some();
        assert_eq!(expected, row, "get of id {id} of table {}", table.name());
        assert_eq!(
            (is_there, is_there, is_there),
            (exists, first, third),
            "id {id} of table {}",
            table.name()
        );
        assert_eq!(self.history.now().tables[table.name()].len() as u64, count, "count of {}", table.name());
        Ok(())
    }

    pub(super) fn compare_snapshots(&mut self) -> Flow {
        let snapshots = std::mem::take(&mut self.snapshots);
        for (snapshot, state) in &snapshots {
            for (name, rows) in &state.tables {
                let table = self.tables[name].clone();
                let found = self.read("read at a snapshot", |_| read_table(&table, Some(snapshot)));
                if let Some(found) = found {
                    assert!(found == **rows, "a snapshot sees other rows of {name}: {found:?}, not {rows:?}");
                }
            }
        }
        self.snapshots = snapshots;
        Ok(())
    }

    pub(super) fn start_scan(&mut self, name: &str, reverse: bool) -> Flow {
        if self.seen.undecided {
            return Ok(());
        }
        let Some(table) = self.tables.get(name).cloned() else { return Ok(()) };
        let scan = || {
            let scan = table.scan().columns(["id", "number", "text"]);
            if reverse { scan.reverse().rows() } else { scan.rows() }
        };
        let Some(rows) = self.read("start a scan", |_| scan()) else { return Ok(()) };
        let expected = self.history.now().tables[name].iter().map(|(id, row)| (*id, row.clone()));
        let mut expected: Vec<_> = expected.collect();
        if reverse {
            expected.reverse();
        }
        self.scans.push(OpenScan { rows, expected, next: 0, is_broken: false });
        Ok(())
    }

    /// Goes on with each scan. One that fails says so once and has ended then; none ends early otherwise.
    pub(super) fn continue_scans(&mut self, count: usize) -> Flow {
        let mut scans = std::mem::take(&mut self.scans);
        for scan in &mut scans {
            for _ in 0..count {
                match scan.rows.next() {
                    Some(Ok(row)) => {
                        assert!(!scan.is_broken, "a scan goes on after a failure");
                        let row = split(&row).expect("it was read");
                        assert_eq!(Some(&row), scan.expected.get(scan.next), "row {} of a scan", scan.next);
                        scan.next += 1;
                    }
                    Some(Err(error)) => {
                        self.explained("go on with a scan", &error);
                        scan.is_broken = true;
                        self.seen.failed_reads += 1;
                        assert!(scan.rows.next().is_none(), "a failed scan has ended");
                        break;
                    }
                    None => {
                        assert!(scan.is_broken || scan.expected.len() == scan.next, "a scan ends early");
                        break;
                    }
                }
            }
        }
        self.scans = scans;
        Ok(())
    }

    /// The engine's own check. A call that fails is no damage.
    pub(super) fn check(&mut self) -> Flow {
        let mut problems = Vec::new();
        for _ in 0..2 {
            let Some(report) = self.read("check", |world| world.engine().check()) else { return Ok(()) };
            problems = report.problems;
            // A read that gave nothing looks like a file that is too short.
            let is_explained = self.is_struck() && self.kind() == Kind::NothingOnce;
            if !is_explained {
                break;
            }
        }
        assert!(problems.is_empty(), "check: {problems:#?}");
        Ok(())
    }

    pub(super) fn forget_table(&mut self, name: &str) {
        self.tables.remove(name);
        for (_, state) in &mut self.snapshots {
            state.tables.remove(name);
        }
    }
}
