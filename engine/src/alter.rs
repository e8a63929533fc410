//! Alters a table: its columns change, its rows do not.
//!
//! The next schema is one edit of the manifest, so that after a crash it is in force or it never was. Rows keep the
//! schema version that they were written with, and readers translate.
//!
//! Invariant: the manifest names a schema before a row is logged with it, and before a file tells of it.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use encoded_key::ColumnType;

use crate::catalog::TableCore;
use crate::core::{Core, Handle};
use crate::error::{Error, ErrorKind};
use crate::manifest::{Edit, Owner, State, TableDesc};
use crate::schema::{Change, Schema};
use crate::table::Table;
use crate::value::AsValue;

/// A change of a table's columns, being put together; from [`Table::alter`].
///
/// The changes happen in their order, all or none, and become durable together. No row is rewritten: rows keep the
/// columns that they were written with, and an added column reads as its default in all rows from before, in snapshots
/// too. What a dropped column held stays on disk until its row is written or deleted. Key columns can be renamed, but
/// neither added nor dropped. Columns are never used again: one that is added under the name of a dropped one is
/// another column.
///
/// **Handles from before** go on working, with the schema that they were opened with: rows read through them have its
/// columns under its names, and rows written through them get the default of every column that they do not know of. An
/// update through them changes the columns that it names and no others. Only what needs a column that was dropped
/// answers [`SchemaMismatch`](ErrorKind::SchemaMismatch): reading it, or writing a whole row, for which there is no
/// place any more. Batches that were built before are judged when they are committed, in the same way; scans that run
/// finish as they began.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, ErrorKind, Options, Schema, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("value", Type::F64).column("note", Type::String);
/// let old = engine.create_table("readings", schema.build()?)?;
/// old.upsert((1, 0.5, "first"))?;
///
/// let new = old.alter().add_column("unit", Type::String, "none").apply()?;
/// old.upsert((2, 0.7, "second"))?;
/// new.upsert((3, 0.9, "third", "volt"))?;
/// assert_eq!(new.get((2,))?.unwrap().get::<&str>("unit")?, "none");
/// old.update((3,)).set("value", 1.1).apply()?;
/// assert_eq!(new.get((3,))?.unwrap().get::<&str>("unit")?, "volt");
///
/// new.alter().drop_column("note").apply()?;
/// assert_eq!(old.upsert((4, 0.1, "fourth")).unwrap_err().kind(), ErrorKind::SchemaMismatch);
/// assert_eq!(old.scan().columns(["id", "value"]).rows()?.count(), 3);
/// # Ok(()) }
/// ```
#[must_use = "an alteration does nothing until it is applied"]
pub struct Alter {
    handle: Arc<Handle>,
    table: Arc<TableCore>,
    changes: Result<Vec<Change>, Error>,
}

impl fmt::Debug for Alter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alter").field("table", &self.table.name).field("changes", &self.changes).finish()
    }
}

impl Alter {
    pub(crate) fn new(handle: Arc<Handle>, table: Arc<TableCore>) -> Alter {
        Alter { handle, table, changes: Ok(Vec::new()) }
    }

    /// Adds a last column. Rows that are there have `default` in it; `None::<&str>`, of any type, is null, for a column
    /// that can be null. A default has at most [`DEFAULT_BYTES_MAX`](crate::DEFAULT_BYTES_MAX) bytes.
    pub fn add_column(
        self,
        name: impl Into<String>,
        ty: impl Into<ColumnType>,
        default: impl AsValue,
    ) -> Alter {
        let (name, ty) = (name.into(), ty.into());
        self.push(|| Change::add(name, ty, default.as_value()))
    }

    /// Gives a column another name.
    pub fn rename_column(self, from: impl Into<String>, to: impl Into<String>) -> Alter {
        self.push(|| Ok(Change::Rename { from: from.into(), to: to.into() }))
    }

    /// Takes a column away, for ever. Not one of the key.
    pub fn drop_column(self, name: impl Into<String>) -> Alter {
        self.push(|| Ok(Change::Drop { name: name.into() }))
    }

    fn push(mut self, change: impl FnOnce() -> Result<Change, Error>) -> Alter {
        if let Ok(changes) = &mut self.changes {
            match change() {
                Ok(change) => changes.push(change),
                Err(error) => self.changes = Err(error),
            }
        }
        self
    }

    /// Makes the changes, and answers with a handle of the table that has them. Without any it does nothing. Survives a
    /// loss of power, and so does everything that was visible before. Writers go on meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument` names what cannot be: a column that is not there or is there already, one of the key, a
    /// default that does not fit or is missing, more than 1,000 columns, or more than
    /// [`COLUMNS_EVER_MAX`](crate::COLUMNS_EVER_MAX) with those that were dropped. `SchemaMismatch` if the table was
    /// altered since this handle was opened; `NoSuchTable` if it was dropped; `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn apply(self) -> Result<Table, Error> {
        let Alter { handle, table, changes } = self;
        let core = &*handle.core;
        let altered = core.door(|| apply(core, &table, changes))?;
        Ok(Table::new(handle, altered))
    }
}

fn apply(
    core: &Core,
    table: &Arc<TableCore>,
    changes: Result<Vec<Change>, Error>,
) -> Result<Arc<TableCore>, Error> {
    let _caller = core.callers.read();
    core.health.check_writable()?;
    table.tablet.check_not_dropped()?;
    let in_table = |error: Error| error.context(format_args!("table {:?}", table.name));
    let changes = changes.map_err(in_table)?;
    if changes.is_empty() {
        return check_newest(table).map(|()| Arc::clone(table));
    }
    let schema = table.schema.changed(&changes).map_err(in_table)?;
    install(core, table, &Arc::new(schema))
}

/// Puts the next schema in force.
fn install(core: &Core, table: &TableCore, schema: &Arc<Schema>) -> Result<Arc<TableCore>, Error> {
    // What survives a loss of power is a prefix of the commits over all tables: the change must not be there without
    // what was visible before it.
    core.sync_visible()?;
    let owner = OnceCell::new();
    let installed = core.manifest.install(
        |state| {
            let described = next_description(state, table, schema)?;
            let _ = owner.set(Owner::of(&described, table.tablet.id).encode());
            Ok(Some(Edit { tables: vec![described], ..Edit::default() }))
        },
        |state| {
            // It may have been renamed since the handle was opened.
            let altered = Arc::new(table.next(&state.tables[&table.id].name, Arc::clone(schema)));
            // A leader sees one schema for the whole of its group.
            let _stage = core.commit.stage();
            table.tablet.set_owner(owner.get().expect("the edit was made").clone());
            table.newest.replace(Arc::clone(schema));
            core.catalog.put(Arc::clone(&altered));
            altered
        },
    );
    match installed {
        Ok(altered) => Ok(altered.expect("the edit is always made")),
        Err(error) if matches!(error.kind(), ErrorKind::SchemaMismatch | ErrorKind::NoSuchTable) => {
            Err(error)
        }
        Err(error) => {
            core.health.fail(&error);
            Err(error)
        }
    }
}

/// The table as the manifest will describe it.
fn next_description(state: &State, table: &TableCore, schema: &Schema) -> Result<TableDesc, Error> {
    let Some(described) = state.tables.get(&table.id) else {
        return Err(Error::new(ErrorKind::NoSuchTable, "the table was dropped"));
    };
    check_newest(table)?;
    Ok(TableDesc { schema: schema.encode_to_vec(), ..described.clone() })
}

/// A handle alters the table that it knows.
fn check_newest(table: &TableCore) -> Result<(), Error> {
    let (ours, newest) = (table.schema.version(), table.newest.version());
    if ours == newest {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::SchemaMismatch,
        format!(
            "table {:?} was altered since it was opened: its schema has version {newest} by now, the handle's has {ours}; \
             open it again",
            table.name
        ),
    ))
}
