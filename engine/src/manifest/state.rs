//! What the edits of a manifest add up to.
//!
//! Owns the rules by which an edit applies: it is refused, as corruption, if it names what is not there.

use std::collections::{BTreeMap, BTreeSet};

use codec::{FileId, RowsetId, TableId, TabletId, Version};
use sstable::FileInfo;
use wal::Position;

use super::edit::{Edit, RunDesc, TableDesc, TabletEdit};
use crate::error::Error;
use crate::files::{FileKind, NUMBER_MAX, file_name};
use crate::rowset::rowset_id;

/// No version above this is ever given out: at a billion a second it takes a century to get there. What claims to be
/// above it is damage, and nothing that is counted from a version overflows.
pub(crate) const VERSION_MAX: Version = Version(1 << 62);

/// All that is on disk, as of the last edit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) log_start: FileId,
    pub(crate) next_file: FileId,
    pub(crate) version_ceiling: Version,
    pub(crate) attested: Option<Position>,
    /// The last commit that is known to be durable; what an earlier open did not find again lies above it.
    pub(crate) durable_through: Version,
    pub(crate) next_table: TableId,
    pub(crate) next_tablet: TabletId,
    pub(crate) tables: BTreeMap<TableId, TableDesc>,
    pub(crate) tablets: BTreeMap<TabletId, TabletState>,
}

/// A tablet's files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TabletState {
    pub(crate) flushed_through: Version,
    /// Newest first.
    pub(crate) runs: Vec<RunDesc>,
    pub(crate) rowsets: BTreeMap<RowsetId, FileInfo>,
}

fn misfit(what: impl std::fmt::Display) -> Error {
    Error::corruption(format!("the edits of the manifest contradict one another: {what}"))
}

impl State {
    /// Applies one edit.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), Error> {
        self.log_start = edit.log_start.unwrap_or(self.log_start).max(self.log_start);
        self.next_file = edit.next_file.unwrap_or(self.next_file).max(self.next_file);
        self.version_ceiling = edit.version_ceiling.unwrap_or(self.version_ceiling).max(self.version_ceiling);
        self.attested = self.attested.max(edit.attested);
        self.durable_through = edit.durable_through.unwrap_or(self.durable_through).max(self.durable_through);
        self.next_table = edit.next_table.unwrap_or(self.next_table).max(self.next_table);
        self.next_tablet = edit.next_tablet.unwrap_or(self.next_tablet).max(self.next_tablet);
        for table in &edit.tables {
            for &tablet in &table.tablets {
                self.tablets.entry(tablet).or_default();
            }
            self.tables.insert(table.id, table.clone());
        }
        for tablet in &edit.tablets {
            self.tablets
                .get_mut(&tablet.tablet)
                .ok_or_else(|| misfit(format_args!("there is no tablet {}", tablet.tablet)))?
                .apply(tablet)?;
        }
        for id in &edit.dropped_tables {
            let table =
                self.tables.remove(id).ok_or_else(|| misfit(format_args!("there is no table {id}")))?;
            for tablet in &table.tablets {
                self.tablets.remove(tablet);
            }
        }
        Ok(())
    }

    /// Checks what holds for all of it together once the last edit of a manifest is applied, whatever the edits are
    /// that were written: numbers that are in use lie below those that are given out next, a tablet belongs to one
    /// table, and a file is named once.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        self.contradictions().first().map_or(Ok(()), |what| Err(misfit(what)))
    }

    /// Whether [`State::apply`] would take this edit.
    pub(crate) fn check(&self, edit: &Edit) -> Result<(), Error> {
        // What the edit touches, and no more.
        let named = |id: &TabletId| edit.tablets.iter().any(|tablet| tablet.tablet == *id);
        let mut touched = State {
            tables: self
                .tables
                .iter()
                .filter(|(id, _)| edit.dropped_tables.contains(id))
                .map(|(id, table)| (*id, table.clone()))
                .collect(),
            tablets: self
                .tablets
                .iter()
                .filter(|(id, _)| named(id))
                .map(|(id, tablet)| (*id, tablet.clone()))
                .collect(),
            ..State::default()
        };
        touched.apply(edit)
    }

    /// All that [`State::check_whole`] checks for.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.version_ceiling > VERSION_MAX || self.next_file.0 > NUMBER_MAX {
            let (version, file) = (self.version_ceiling, self.next_file);
            found.push(format!("version {version} or file number {file} was never given out"));
        }
        if self.durable_through > self.version_ceiling {
            let (durable, ceiling) = (self.durable_through, self.version_ceiling);
            found.push(format!("version {durable} is durable, above the ceiling {ceiling}"));
        }
        let mut names = BTreeSet::new();
        let mut owned = BTreeSet::new();
        for (id, table) in &self.tables {
            if *id >= self.next_table {
                found.push(format!("table {id} has the id that the next one gets, or a greater one"));
            }
            if !names.insert(&table.name) {
                found.push(format!("two tables are called {:?}", table.name));
            }
            for tablet in &table.tablets {
                if *tablet >= self.next_tablet {
                    found
                        .push(format!("tablet {tablet} has the id that the next one gets, or a greater one"));
                }
                if !self.tablets.contains_key(tablet) {
                    found.push(format!("tablet {tablet} of table {id} is not there"));
                }
                if !owned.insert(*tablet) {
                    found.push(format!("tablet {tablet} belongs to two tables"));
                }
            }
        }
        found.extend(
            self.tablets
                .keys()
                .filter(|id| !owned.contains(id))
                .map(|id| format!("tablet {id} has no table")),
        );
        let mut runs = BTreeSet::new();
        for (tablet, state) in &self.tablets {
            for run in &state.runs {
                if run.id >= self.next_file.0 {
                    found.push(format!("run {} is named, but numbers end below {}", run.id, self.next_file));
                }
                if !runs.insert(run.id) {
                    found.push(format!("run {} is named twice", run.id));
                }
            }
            if state.flushed_through > self.version_ceiling {
                let (flushed, ceiling) = (state.flushed_through, self.version_ceiling);
                found.push(format!(
                    "tablet {tablet} is flushed through {flushed}, above the ceiling {ceiling}"
                ));
            }
        }
        let mut files = BTreeSet::new();
        for (kind, info) in self.files() {
            if info.id >= self.next_file {
                let next = self.next_file;
                found.push(format!("{} is named, but numbers end below {next}", file_name(info.id, kind)));
            }
            if !files.insert(info.id) {
                found.push(format!("file {} is named twice", info.id));
            }
        }
        found
    }

    /// One edit that says all of this: the first of a new manifest.
    pub(crate) fn to_edit(&self) -> Edit {
        Edit {
            log_start: Some(self.log_start),
            next_file: Some(self.next_file),
            version_ceiling: Some(self.version_ceiling),
            attested: self.attested,
            durable_through: Some(self.durable_through),
            next_table: Some(self.next_table),
            next_tablet: Some(self.next_tablet),
            tables: self.tables.values().cloned().collect(),
            dropped_tables: Vec::new(),
            tablets: self.tablets.iter().map(|(&id, tablet)| tablet.to_edit(id)).collect(),
        }
    }

    /// Every index and row file that is named, with its description.
    pub(crate) fn files(&self) -> impl Iterator<Item = (FileKind, &FileInfo)> {
        self.tablets.values().flat_map(|tablet| {
            let index = tablet.runs.iter().flat_map(|run| &run.files).map(|info| (FileKind::Index, info));
            index.chain(tablet.rowsets.values().map(|info| (FileKind::Rows, info)))
        })
    }
}

impl TabletState {
    fn apply(&mut self, edit: &TabletEdit) -> Result<(), Error> {
        if let Some(version) = edit.flushed_through {
            if version < self.flushed_through {
                return Err(misfit("a tablet's flushed version goes back"));
            }
            self.flushed_through = version;
        }
        let at = match edit.removed_runs.first() {
            None => 0,
            Some(first) => {
                let at = self
                    .runs
                    .iter()
                    .position(|run| run.id == *first)
                    .ok_or_else(|| misfit(format_args!("there is no run {first}")))?;
                let end = at + edit.removed_runs.len();
                let is_whole = self
                    .runs
                    .get(at..end)
                    .is_some_and(|runs| runs.iter().map(|run| run.id).eq(edit.removed_runs.iter().copied()));
                if !is_whole {
                    return Err(misfit(format_args!("the runs from {first} on are not neighbours")));
                }
                self.runs.drain(at..end);
                at
            }
        };
        self.runs.splice(at..at, edit.added_runs.iter().cloned());
        for info in &edit.added_rowsets {
            if self.rowsets.insert(rowset_id(info.id)?, info.clone()).is_some() {
                return Err(misfit(format_args!("rowset {} is added twice", info.id)));
            }
        }
        for id in &edit.removed_rowsets {
            if self.rowsets.remove(id).is_none() {
                return Err(misfit(format_args!("there is no rowset {id}")));
            }
        }
        Ok(())
    }

    fn to_edit(&self, tablet: TabletId) -> TabletEdit {
        TabletEdit {
            tablet,
            flushed_through: Some(self.flushed_through),
            removed_runs: Vec::new(),
            added_runs: self.runs.clone(),
            added_rowsets: self.rowsets.values().cloned().collect(),
            removed_rowsets: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn info(id: u64) -> FileInfo {
        FileInfo {
            id: FileId(id),
            len: 10 * id,
            footer_checksum: 7,
            entries: id,
            first_key: vec![1],
            last_key: vec![2],
        }
    }

    fn run(id: u64) -> RunDesc {
        RunDesc { id, files: vec![info(id)] }
    }

    fn flushed(version: u64, id: u64) -> Edit {
        Edit {
            tablets: vec![TabletEdit {
                tablet: TabletId(1),
                flushed_through: Some(Version(version)),
                added_runs: vec![run(id)],
                added_rowsets: vec![info(id + 1)],
                ..TabletEdit::default()
            }],
            ..Edit::default()
        }
    }

    fn with_three_runs() -> State {
        let mut state = State::default();
        let table =
            TableDesc { id: TableId(1), name: "t".into(), schema: vec![1], tablets: vec![TabletId(1)] };
        state.apply(&Edit { tables: vec![table], ..Edit::default() }).expect("a new table");
        for (version, id) in [(10, 1), (20, 3), (30, 5)] {
            state.apply(&flushed(version, id)).expect("a flush");
        }
        state
    }

    fn replacing(removed: Vec<u64>, added: Vec<RunDesc>) -> Edit {
        let edit = TabletEdit {
            tablet: TabletId(1),
            removed_runs: removed,
            added_runs: added,
            ..TabletEdit::default()
        };
        Edit { tablets: vec![edit], ..Edit::default() }
    }

    fn ids(state: &State) -> Vec<u64> {
        state.tablets[&TabletId(1)].runs.iter().map(|run| run.id).collect()
    }

    #[test]
    fn a_compaction_takes_the_place_of_its_inputs() {
        let mut state = with_three_runs();
        assert_eq!(ids(&state), [5, 3, 1]);
        state.apply(&replacing(vec![3, 1], vec![run(9)])).expect("neighbours");
        assert_eq!(ids(&state), [5, 9]);
    }

    #[test]
    fn one_edit_says_it_all_and_survives_its_encoding() {
        let state = with_three_runs();
        let edit = state.to_edit();
        assert_eq!(Edit::decode(&edit.encode()).expect("just encoded"), edit);
        let mut again = State::default();
        again.apply(&edit).expect("complete");
        assert_eq!(again, state);
    }

    #[test]
    fn what_no_edits_of_ours_add_up_to_is_corruption() {
        let mut sound = with_three_runs();
        sound.next_file = FileId(7);
        sound.version_ceiling = Version(30);
        (sound.next_table, sound.next_tablet) = (TableId(2), TabletId(2));
        sound.check_whole().expect("as after three flushes");
        let second = |name: &str, tablet: u32| TableDesc {
            id: TableId(0),
            name: name.into(),
            schema: vec![1],
            tablets: vec![TabletId(tablet)],
        };
        let changes: [&dyn Fn(&mut State); 12] = [
            &|state| state.durable_through = Version(31),
            &|state| state.version_ceiling = Version(u64::MAX),
            &|state| state.version_ceiling = Version(29),
            &|state| state.next_file = FileId(6),
            &|state| state.next_file = FileId(u64::MAX),
            &|state| state.next_table = TableId(1),
            &|state| state.next_tablet = TabletId(1),
            &|state| drop(state.tables.insert(TableId(0), second("other", 1))),
            &|state| drop(state.tables.insert(TableId(0), second("other", 0))),
            &|state| drop(state.tables.insert(TableId(0), TableDesc { tablets: vec![], ..second("t", 0) })),
            &|state| state.tables.clear(),
            &|state| state.tablets.get_mut(&TabletId(1)).expect("it is there").runs[0].id = 3,
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut state = sound.clone();
            change(&mut state);
            let error = state.check_whole().expect_err("it contradicts");
            assert_eq!(error.kind(), ErrorKind::Corruption, "change {index}");
        }
    }

    #[test]
    fn an_edit_that_names_what_is_not_there_is_corruption() {
        let state = with_three_runs();
        let bad = [
            replacing(vec![7], vec![]),
            replacing(vec![5, 1], vec![]),
            replacing(vec![1, 3], vec![]),
            Edit { dropped_tables: vec![TableId(9)], ..Edit::default() },
            Edit {
                tablets: vec![TabletEdit { tablet: TabletId(9), ..TabletEdit::default() }],
                ..Edit::default()
            },
            flushed(29, 11),
        ];
        for edit in bad {
            state.check(&edit).expect_err("it contradicts");
            let error = state.clone().apply(&edit).expect_err("it contradicts");
            assert_eq!(error.kind(), ErrorKind::Corruption);
        }
    }
}
