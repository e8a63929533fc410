//! Makes, finds, renames and drops tables.
//!
//! Each change is one edit of the manifest, so that after a crash it is there or it never was.
//!
//! Invariant: the log is synced before the edit: what survives a loss of power is a prefix of the commits over all
//! tables.

use std::cell::OnceCell;
use std::sync::Arc;

use codec::{TableId, TabletId};

use super::Engine;
use crate::catalog::{TableCore, check_name};
use crate::compaction;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::manifest::{Edit, Owner, State, TableDesc};
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
        let core = self.core();
        let made = core.door(|| create(core, name, &Arc::new(schema)))?;
        Ok(self.table(made))
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
        Ok(self.table(find(self.core(), name)?))
    }

    /// Opens a table, or makes it if there is none of this name: what a program does with its own tables when it
    /// starts.
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

    /// Gives a table another name, and answers with a handle of that name. Its rows are not touched. It survives a loss
    /// of power, and so does everything that was visible before it. The old name is free at once.
    ///
    /// Handles, snapshots, scans, batches and transactions from before go on working; a handle [tells](Table::name) the
    /// name that it was opened with. A name for itself does nothing.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
    /// use nyala::{Schema, Type};
    /// let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// let next = engine.create_table("people.next", schema)?;
    /// next.upsert((1, "Ada"))?;
    ///
    /// let people = engine.rename_table("people.next", "people")?;
    /// next.upsert((2, "Grace"))?; // An older handle is one of the same table.
    /// assert_eq!((engine.tables(), people.count()?), (vec!["people".to_owned()], 2));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTable` if there is none of the old name; `TableExists` if another has the new one; `InvalidArgument` for
    /// a name as in [`Engine::create_table`]; `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<Table, Error> {
        let core = self.core();
        let renamed = core.door(|| rename(core, from, to))?;
        Ok(self.table(renamed))
    }

    /// Drops a table with all its rows, for ever. Handles of it answer `NoSuchTable` from then on; iterators that run
    /// finish. Another table may have its name at once. It deletes files and looks at no row.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
    /// use nyala::{ErrorKind, Schema, Type};
    /// let schema = Schema::builder().key("id", Type::U64).build()?;
    /// let visits = engine.create_table("visits.november", schema)?;
    /// visits.upsert((1,))?;
    ///
    /// engine.drop_table("visits.november")?;
    /// assert_eq!(visits.count().unwrap_err().kind(), ErrorKind::NoSuchTable);
    /// assert!(engine.tables().is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTable`, `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        let core = self.core();
        core.door(|| drop_table(core, name))
    }

    /// The names of all tables, in order.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        self.core().catalog.all().iter().map(|table| table.name.clone()).collect()
    }
}

fn find(core: &Core, name: &str) -> Result<Arc<TableCore>, Error> {
    core.catalog.get(name).ok_or_else(|| no_table(name))
}

/// Refuses a name that a table has.
fn check_free(state: &State, name: &str) -> Result<(), Error> {
    if state.tables.values().any(|table| table.name == name) {
        return Err(Error::new(ErrorKind::TableExists, format!("there is a table {name:?} already")));
    }
    Ok(())
}

/// What an edit of the tables came to. A refusal is the caller's; anything else is the engine's failure, too.
fn installed<T>(core: &Core, result: Result<Option<T>, Error>) -> Result<T, Error> {
    use ErrorKind::{InvalidArgument, NoSuchTable, TableExists};
    result.map(|made| made.expect("the edit is always made")).inspect_err(|error| {
        if !matches!(error.kind(), InvalidArgument | NoSuchTable | TableExists) {
            core.health.fail(error);
        }
    })
}

fn create(core: &Core, name: &str, schema: &Arc<Schema>) -> Result<Arc<TableCore>, Error> {
    let _caller = core.callers.read();
    core.health.check_writable()?;
    check_name(name)?;
    core.sync_visible()?;
    let made = OnceCell::new();
    let result = core.manifest.install(
        |state| {
            check_free(state, name)?;
            let (id, tablet) = (state.next_table, state.next_tablet);
            let (Some(next_table), Some(next_tablet)) = (id.0.checked_add(1), tablet.0.checked_add(1)) else {
                return Err(Error::invalid(format!("no more tables can be made: {id} was the last id")));
            };
            let (name, schema) = (name.to_owned(), schema.encode_to_vec());
            let table = TableDesc { id, name, schema, tablets: vec![tablet] };
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
            let table = Arc::new(TableCore::new(id, name.to_owned(), Arc::clone(schema), tablet));
            core.catalog.put(Arc::clone(&table));
            table
        },
    );
    installed(core, result)
}

fn no_table(name: &str) -> Error {
    Error::new(ErrorKind::NoSuchTable, format!("there is no table {name:?}"))
}

fn rename(core: &Core, from: &str, to: &str) -> Result<Arc<TableCore>, Error> {
    let _caller = core.callers.read();
    core.health.check_writable()?;
    check_name(to)?;
    let table = find(core, from)?;
    if from == to {
        return Ok(table);
    }
    core.sync_visible()?;
    let owner = OnceCell::new();
    let result = core.manifest.install(
        |state| {
            let described = state.tables.get(&table.id).filter(|described| described.name == from);
            // One that is about to be dropped by its name keeps it.
            let described = described.filter(|_| !table.tablet.is_dropped()).ok_or_else(|| no_table(from))?;
            check_free(state, to)?;
            let renamed = TableDesc { name: to.to_owned(), ..described.clone() };
            let _ = owner.set(Owner::of(&renamed, table.tablet.id).encode());
            Ok(Some(Edit { tables: vec![renamed], ..Edit::default() }))
        },
        |_| {
            // With the schema in force: it changes under the same lock.
            let renamed = Arc::new(table.next(to, table.newest.newest()));
            table.tablet.set_owner(owner.get().expect("the edit was made").clone());
            core.catalog.put(Arc::clone(&renamed));
            renamed
        },
    );
    installed(core, result)
}

fn drop_table(core: &Core, name: &str) -> Result<(), Error> {
    let _caller = core.callers.read();
    core.health.check_writable()?;
    // With the manifest held the name stays that of this table; afterwards it is not renamed any more.
    let table = core.manifest.with_state(|_| {
        let table = find(core, name)?;
        let _stage = core.commit.stage();
        table.tablet.check_not_dropped()?;
        table.tablet.begin_drop();
        Ok::<_, Error>(table)
    })?;
    let drop = || {
        core.sync_visible()?;
        let edit = Edit { dropped_tables: vec![table.id], ..Edit::default() };
        core.manifest.install(
            |_| Ok(Some(edit)),
            |_| {
                core.catalog.remove(table.id);
                table.tablet.end_drop();
            },
        )
    };
    if let Err(error) = installed(core, drop()) {
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
