//! Makes, finds and drops tables.
//!
//! Each change is one edit of the manifest, so that after a crash it is there or it never was.
//!
//! Invariant: the log is synced before the edit: what survives a loss of power is a prefix of the commits over all tables.

use std::cell::OnceCell;
use std::sync::Arc;

use codec::{TableId, TabletId};

use super::Engine;
use crate::catalog::{TableCore, check_name};
use crate::compaction;
use crate::error::{Error, ErrorKind};
use crate::manifest::{Edit, Owner, TableDesc};
use crate::schema::Schema;
use crate::table::Table;
use crate::tablet::Tablet;
use crate::view::TabletView;

impl Engine {
    /// Makes a table. It survives a loss of power, and so does everything that was visible before it.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
    /// use nyala::{ErrorKind, Schema, Type};
    /// let schema = Schema::builder()
    ///     .key("sensor", Type::U32)
    ///     .key("time", Type::Timestamp.descending())
    ///     .column("celsius", Type::F64)
    ///     .column("note", Type::String.nullable())
    ///     .build()?;
    /// let readings = engine.create_table("readings", schema.clone())?;
    /// assert_eq!(engine.tables(), ["readings"]);
    /// assert_eq!(engine.create_table("readings", schema).unwrap_err().kind(), ErrorKind::TableExists);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `TableExists`; `InvalidArgument` for a name that is empty, longer than 255 bytes, or has control characters or
    /// slashes; `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn create_table(&self, name: &str, schema: Schema) -> Result<Table, Error> {
        check_name(name)?;
        let core = self.core();
        let _caller = core.callers.read();
        core.health.check_writable()?;
        // What survives a loss of power is a prefix of the commits over all tables: the table must not be there
        // without what was visible before it.
        core.sync_visible()?;
        let schema = Arc::new(schema);
        let made = OnceCell::new();
        let installed = core.manifest.install(
            |state| {
                if state.tables.values().any(|table| table.name == name) {
                    return Err(Error::new(
                        ErrorKind::TableExists,
                        format!("there is a table {name:?} already"),
                    ));
                }
                let (id, tablet) = (state.next_table, state.next_tablet);
                let (Some(next_table), Some(next_tablet)) = (id.0.checked_add(1), tablet.0.checked_add(1))
                else {
                    return Err(Error::invalid(format!("no more tables can be made: {id} was the last id")));
                };
                let table = TableDesc {
                    id,
                    name: name.to_owned(),
                    schema: schema.encode_to_vec(),
                    tablets: vec![tablet],
                };
                let _ = made.set((id, tablet, Owner::of(&table, tablet).encode()));
                Ok(Some(Edit {
                    next_table: Some(TableId(next_table)),
                    next_tablet: Some(TabletId(next_tablet)),
                    tables: vec![table],
                    ..Edit::default()
                }))
            },
            |_| {
                let (id, tablet, owner) = made.get().expect("the edit was made").clone();
                let tablet = Arc::new(Tablet::new(tablet, owner, TabletView::empty));
                let table = Arc::new(TableCore::new(id, name.to_owned(), Arc::clone(&schema), tablet));
                core.catalog.insert(Arc::clone(&table));
                table
            },
        );
        match installed {
            Ok(table) => Ok(self.table(table.expect("the edit is always made"))),
            Err(error) if matches!(error.kind(), ErrorKind::TableExists | ErrorKind::InvalidArgument) => {
                Err(error)
            }
            Err(error) => {
                core.health.fail(&error);
                Err(error)
            }
        }
    }

    /// Opens a table, which must have this schema.
    ///
    /// # Errors
    /// `NoSuchTable`; `SchemaMismatch` says which column differs and how; `Closed`.
    pub fn open_table(&self, name: &str, schema: &Schema) -> Result<Table, Error> {
        let table = self.existing_table(name)?;
        table.schema().matches(schema).map_err(|error| error.context(format!("table {name:?}")))?;
        Ok(table)
    }

    /// Opens a table with whatever schema it has.
    ///
    /// # Errors
    /// `NoSuchTable`, `Closed`.
    pub fn existing_table(&self, name: &str) -> Result<Table, Error> {
        self.core().health.check_open()?;
        let table = self.core().catalog.get(name);
        let table =
            table.ok_or_else(|| Error::new(ErrorKind::NoSuchTable, format!("there is no table {name:?}")))?;
        Ok(self.table(table))
    }

    /// Opens a table, or makes it if there is none of this name: what a program does with its own tables when it starts.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
    /// use nyala::{ErrorKind, Record, Schema};
    ///
    /// #[derive(Record)]
    /// struct Person {
    ///     #[nyala(key)]
    ///     id: u64,
    ///     name: String,
    /// }
    /// let people = engine.open_or_create_table("people", Schema::of::<Person>()?)?;
    /// people.upsert(Person { id: 1, name: "Ada".into() })?;
    ///
    /// #[derive(Record)]
    /// struct Another {
    ///     #[nyala(key)]
    ///     id: u64,
    ///     born: u16,
    /// }
    /// let error = engine.open_or_create_table("people", Schema::of::<Another>()?).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::SchemaMismatch); // Its text names "name" and "born".
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Engine::open_table`] and [`Engine::create_table`].
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a schema is built for this call; taking it reads best"
    )]
    pub fn open_or_create_table(&self, name: &str, schema: Schema) -> Result<Table, Error> {
        if self.core().catalog.get(name).is_none() {
            match self.create_table(name, schema.clone()) {
                Err(error) if error.kind() == ErrorKind::TableExists => {}
                made => return made,
            }
        }
        self.open_table(name, &schema)
    }

    fn table(&self, core: Arc<TableCore>) -> Table {
        Table::new(Arc::clone(&self.handle), core)
    }

    /// Drops a table with all its rows, for ever. Handles of it answer `NoSuchTable` from then on; iterators that run finish.
    /// Another table may have its name at once.
    ///
    /// # Errors
    /// `NoSuchTable`, `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        let dropped = self.drop_table_as_caller(name);
        self.core().tell_inline();
        dropped
    }

    fn drop_table_as_caller(&self, name: &str) -> Result<(), Error> {
        let core = self.core();
        let _caller = core.callers.read();
        core.health.check_writable()?;
        let table = self.existing_table(name)?.core_of(&self.handle)?.clone();
        {
            let _stage = core.commit.stage();
            table.tablet.check_not_dropped()?;
            table.tablet.begin_drop();
        }
        let drop = || {
            core.sync_visible()?;
            let edit = Edit { dropped_tables: vec![table.id], ..Edit::default() };
            core.manifest.install(
                |_| Ok(Some(edit)),
                |_| {
                    core.catalog.remove(&table);
                    table.tablet.end_drop();
                },
            )
        };
        if let Err(error) = drop() {
            core.health.fail(&error);
            table.tablet.take_back_drop();
            return Err(error);
        }
        core.stall.shrink(table.tablet.uncount());
        let view = table.tablet.view.pin();
        for file in view.runs.iter().flat_map(|run| run.files()) {
            core.files.retire_index(Arc::clone(file));
        }
        for rowset in view.rowsets.iter() {
            core.files.retire_rows(Arc::clone(rowset));
        }
        table.tablet.view.replace(|view| TabletView::empty(Arc::clone(view.active())));
        compaction::note_debt(core, []);
        core.health.progress.notify();
        core.signals.housekeeping.set();
        core.run_inline_work();
        Ok(())
    }

    /// The names of all tables, in order.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        self.core().catalog.all().iter().map(|table| table.name.clone()).collect()
    }
}
