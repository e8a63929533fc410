//! Writes the new database: for each table rowsets and one index run, in key order, as a compaction of all would; then
//! a log, a manifest and `CURRENT`.
//!
//! Versions stay what they were, and new ones will lie above all that were found. `CURRENT` comes first, and says that
//! a repair has not ended; the last step has it name the manifest. In between the directory is no database.

use std::path::Path;
use std::sync::Arc;

use codec::{FileId, SchemaVersion, TableId, TabletId, Version, hash_key};
use pkindex::{Entry, RunOptions, RunWriter, WrittenFile};
use sstable::FileInfo;

use super::VERSION_MAX;
use super::root::Root;
use super::stock::{Stock, Table};
use crate::error::Error;
use crate::files::{FileKind, Files, Outputs};
use crate::manifest::{self, Edit, Owner, RunDesc, State, TableDesc, TabletEdit, Unfinished};
use crate::options::Options;
use crate::recovery;
use crate::rowset::{RowsetOptions, RowsetWriter, WrittenRowset};
use crate::tablet::files::{base_run_options, rowset_info, rowset_options};

/// The directory that is being written.
pub(super) struct Target {
    options: Options,
    files: Arc<Files>,
    state: State,
    _lock: Box<dyn vfs::Lock>,
}

impl Target {
    /// Makes the directory, and notes the tables.
    pub(super) fn create(dir: &Path, options: &Options, root: &Root, stock: &Stock) -> Result<Target, Error> {
        let fs = Arc::clone(&options.fs);
        recovery::make_directory(&*fs, dir)?;
        recovery::sync_way(&*fs, dir)?;
        let lock = recovery::lock(&*fs, dir)?;
        manifest::mark_unfinished(&*fs, dir, Unfinished::Repair)?;
        let mut state = State {
            // Whatever was forged, there are versions left to give out.
            version_ceiling: root.state.version_ceiling.min(VERSION_MAX),
            durable_through: root.state.durable_through.min(VERSION_MAX),
            next_table: root.state.next_table,
            next_tablet: root.state.next_tablet,
            ..State::default()
        };
        for table in &stock.tables {
            state.next_table = state.next_table.max(TableId(table.desc.id.0 + 1));
            state.next_tablet = state.next_tablet.max(TabletId(table.tablet.0 + 1));
            let desc = TableDesc { tablets: vec![table.tablet], ..table.desc.clone() };
            state.apply(&Edit { tables: vec![desc], ..Edit::default() })?;
        }
        let files = Arc::new(Files::new(fs, dir, FileId(1)));
        Ok(Target { options: options.clone(), files, state, _lock: lock })
    }

    /// Where the files of a table go.
    pub(super) fn outputs(&self, table: &Table) -> TableOutputs {
        let owner: Arc<[u8]> = Owner::of(&table.desc, table.tablet).encode().into();
        TableOutputs {
            index: Outputs::new(&self.files, FileKind::Index),
            rows: Outputs::new(&self.files, FileKind::Rows),
            run_options: base_run_options(&self.options, &owner),
            rowset_options: rowset_options(&self.options, &owner),
        }
    }

    /// Takes a table's files into the new database.
    pub(super) fn install(&mut self, table: &Table, written: Written, last: Version) -> Result<(), Error> {
        let through = last.max(self.state.version_ceiling);
        self.state.version_ceiling = through;
        self.state.durable_through = self.state.durable_through.max(last);
        let files: Vec<FileInfo> = written.index.into_iter().map(|file| file.info).collect();
        let run = (!files.is_empty()).then(|| RunDesc { id: self.files.next_id().0, files });
        let edit = TabletEdit {
            tablet: table.tablet,
            flushed_through: Some(through),
            added_runs: run.into_iter().collect(),
            added_rowsets: written.rowsets.iter().map(rowset_info).collect(),
            ..TabletEdit::default()
        };
        self.state.apply(&Edit { tablets: vec![edit], ..Edit::default() })
    }

    /// Makes it a database. The log held versions up to `log_last`.
    pub(super) fn finish(mut self, log_last: Version) -> Result<(), Error> {
        self.state.durable_through = self.state.durable_through.max(log_last);
        self.state.version_ceiling = self.state.version_ceiling.max(self.state.durable_through);
        recovery::found(&self.options, self.files, self.state)
    }
}

/// Where the files of a table go, and how they are written.
pub(super) struct TableOutputs {
    index: Outputs,
    rows: Outputs,
    run_options: RunOptions,
    rowset_options: RowsetOptions,
}

impl TableOutputs {
    pub(super) fn writer(&self) -> TableWriter<'_> {
        TableWriter {
            runs: RunWriter::new(&self.index, &self.run_options),
            rows: RowsetWriter::new(&self.rows, self.rowset_options.clone()),
        }
    }
}

/// Writes the rows of a table, in key order.
pub(super) struct TableWriter<'a> {
    runs: RunWriter<'a>,
    rows: RowsetWriter<&'a Outputs>,
}

/// What a table became.
pub(super) struct Written {
    index: Vec<WrittenFile>,
    rowsets: Vec<WrittenRowset>,
}

impl TableWriter<'_> {
    /// The only row of the next key.
    pub(super) fn push(
        &mut self,
        key: &[u8],
        version: Version,
        schema: SchemaVersion,
        row: &[u8],
    ) -> Result<(), Error> {
        let location = self.rows.push(key, version, schema, row)?;
        self.runs.add(key, Some(hash_key(key)), &[Entry::put(version, location)])?;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Written, Error> {
        let rowsets = self.rows.finish()?;
        Ok(Written { index: self.runs.finish()?, rowsets })
    }
}
