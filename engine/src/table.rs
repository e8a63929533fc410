//! A table's handle: its verbs, and nothing below them.
//!
//! A single write is a batch of one; a get is a read at an implicit snapshot.
//!
//! | what | where |
//! |---|---|
//! | single writes, flush, compact | here |
//! | reads, and what they see | `table/read.rs` |
//! | an update of some columns | `table/update.rs` |
//! | reading and writing in one step | `table/read_and_write.rs` |
//! | deleting a range | `table/delete_range.rs` |

mod delete_range;
mod read;
mod read_and_write;
mod update;

use std::fmt;
use std::sync::Arc;

use codec::Version;

use crate::alter::Alter;
use crate::batch::{self, Buffer, Check};
use crate::catalog::TableCore;
use crate::core::{Core, Handle};
use crate::error::{Error, ErrorKind};
use crate::options::Durability;
use crate::record::Record;
use crate::schema::Schema;
use crate::stats::TableStats;

pub(crate) use read::pin;
pub use read_and_write::RowChange;
pub use update::Update;

/// A handle of a table: cheap to clone, for any number of threads. It keeps the engine open.
///
/// Single writes are as durable as [`Options::default_durability`](crate::Options::default_durability) says; use a
/// [`WriteBatch`](crate::WriteBatch) to write many rows at once, which is much faster, or with another durability.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, ErrorKind, Options, Schema, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder()
///     .key("host", Type::U32).key("metric", Type::String)
///     .column("value", Type::F64).column("note", Type::String.nullable())
///     .build()?;
/// let metrics = engine.open_or_create_table("metrics", schema)?;
///
/// metrics.upsert((17, "cpu", 0.93, None::<&str>))?;
/// metrics.update((17, "cpu")).set("note", "peak").apply()?;
/// assert_eq!(metrics.insert((17, "cpu", 0.5, "again")).unwrap_err().kind(), ErrorKind::DuplicateKey);
///
/// let row = metrics.get((17, "cpu"))?.expect("just written");
/// assert_eq!((row.get::<f64>("value")?, row.get::<&str>("note")?), (0.93, "peak"));
/// metrics.delete((17, "cpu"))?;
/// assert!(!metrics.exists((17, "cpu"))?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Table {
    handle: Arc<Handle>,
    core: Arc<TableCore>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.core.name).finish_non_exhaustive()
    }
}

impl Table {
    pub(crate) fn new(handle: Arc<Handle>, core: Arc<TableCore>) -> Table {
        Table { handle, core }
    }

    /// The table's core, if it belongs to the engine of `handle`.
    pub(crate) fn core_of(&self, handle: &Arc<Handle>) -> Result<&Arc<TableCore>, Error> {
        if !Arc::ptr_eq(&self.handle.core, &handle.core) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("table {:?} belongs to another engine", self.core.name),
            ));
        }
        Ok(&self.core)
    }

    pub(crate) fn core(&self) -> &Arc<TableCore> {
        &self.core
    }

    /// The name that this handle was opened with. If the table was [renamed](crate::Engine::rename_table) since, the
    /// handle goes on working, and [`Engine::tables`](crate::Engine::tables) has the new name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The schema that this handle was opened with: what its rows and keys mean. If the table was
    /// [altered](Table::alter) since, [`Engine::existing_table`](crate::Engine::existing_table) gives a handle with the
    /// schema in force.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.core.schema
    }

    /// Starts a change of the table's columns: some are added, renamed or dropped. The rows that are there are not
    /// touched, and read right at once, in snapshots too.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("value", Type::F64)
    /// #     .column("note", Type::String.nullable()).build()?;
    /// # let readings = engine.open_or_create_table("readings", schema)?;
    /// readings.upsert((7, 0.5, "first"))?;
    /// let readings = readings
    ///     .alter()
    ///     .add_column("unit", Type::String, "none")
    ///     .rename_column("value", "reading")
    ///     .drop_column("note")
    ///     .apply()?;
    /// let row = readings.get((7,))?.expect("just written");
    /// assert_eq!(format!("{row}"), r#"(id: 7, reading: 0.5, unit: "none")"#);
    /// # Ok(()) }
    /// ```
    pub fn alter(&self) -> Alter {
        Alter::new(Arc::clone(&self.handle), Arc::clone(&self.core))
    }

    /// Writes a row, whether its key is there or not. Looks nothing up.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// people.upsert((1, "Ada"))?;
    /// people.upsert((1, "Ada Lovelace"))?; // In its place.
    /// assert_eq!(people.count()?, 1);
    /// assert_eq!(people.upsert((2,)).unwrap_err().kind(), ErrorKind::InvalidArgument, "a column is missing");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` names the column that does not fit. `NoSuchTable` if the table was dropped; `SchemaMismatch`
    /// if a column was dropped that the row has a value for; `NoSpace`, `Io`, `ReadOnly` or `Closed` if the engine
    /// takes no writes.
    pub fn upsert(&self, record: impl Record) -> Result<(), Error> {
        self.write(|core, table, buffer| buffer.put(core, table, &record, None)).map(|_| ())
    }

    /// Writes a row whose key must be absent.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// people.insert((1, "Ada"))?;
    /// let error = people.insert((1, "Grace")).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `DuplicateKey` if it is not; else as for [`Table::upsert`].
    pub fn insert(&self, record: impl Record) -> Result<(), Error> {
        self.write(|core, table, buffer| buffer.put(core, table, &record, Some(Check::Absent))).map(|_| ())
    }

    /// Writes a row if its key is absent, and says whether it did. [`Table::insert_or_get`] answers with the row that
    /// is there.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// assert!(people.insert_ignore((1, "Ada"))?);
    /// assert!(!people.insert_ignore((1, "Grace"))?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::upsert`].
    pub fn insert_ignore(&self, record: impl Record) -> Result<bool, Error> {
        let check = Some(Check::AbsentOrSkip);
        self.write(|core, table, buffer| buffer.put(core, table, &record, check))
            .map(|(_, written)| written == 1)
    }

    /// Starts a change of some columns of the row with this key. If there is none, [`Update::apply`] answers `MissingRow`.
    ///
    /// ```no_run
    /// # fn example(metrics: nyala::Table) -> Result<(), nyala::Error> {
    /// metrics.update((17, "cpu")).set("value", 0.5).set("note", None::<&str>).apply()?;
    /// # Ok(()) }
    /// ```
    #[must_use = "an update does nothing until it is applied"]
    pub fn update<K: Record>(&self, key: K) -> Update<'_, K> {
        Update::new(self, key)
    }

    /// Deletes a key. An absent one is fine. Looks nothing up; [`Table::delete_returning`] does, and answers with the
    /// row.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// people.upsert((1, "Ada"))?;
    /// people.delete((1,))?;
    /// people.delete((1,))?;
    /// assert!(people.get((1,))?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::upsert`].
    pub fn delete(&self, key: impl Record) -> Result<(), Error> {
        self.write(|core, table, buffer| buffer.delete(core, table, &key, None)).map(|_| ())
    }

    /// Commits a batch of what `fill` puts into it. Answers with its last version, and how many operations were
    /// written.
    fn write(
        &self,
        fill: impl FnOnce(&Core, &Arc<TableCore>, &mut Buffer) -> Result<(), Error>,
    ) -> Result<(Version, u32), Error> {
        self.write_with(self.handle.core.options.default_durability, fill)
    }

    fn write_with(
        &self,
        durability: Durability,
        fill: impl FnOnce(&Core, &Arc<TableCore>, &mut Buffer) -> Result<(), Error>,
    ) -> Result<(Version, u32), Error> {
        let core = &*self.handle.core;
        let mut buffer = core.buffers.take();
        let written =
            fill(core, &self.core, &mut buffer).and_then(|()| batch::commit(core, &mut buffer, durability));
        core.buffers.give_back(buffer);
        written
    }

    /// Writes everything that is in memory for this table to disk, and waits for it. Not needed for durability: the
    /// log has that.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `ReadOnly`, `Closed`, `NoSuchTable`.
    pub fn flush(&self) -> Result<(), Error> {
        self.handle.core.health.check_writable()?;
        self.core.tablet.check_not_dropped()?;
        crate::flush::flush_and_wait(&self.handle.core, &[Arc::clone(&self.core.tablet)])
    }

    /// Merges all index runs of this table into one, and waits for it. The engine compacts by itself; this is for
    /// before a long time of reading only. It is about what was written before the call: what is written meanwhile is
    /// left to the background.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `ReadOnly`, `Closed`, `NoSuchTable`, `Corruption`.
    pub fn compact(&self) -> Result<(), Error> {
        self.flush()?;
        let core = &*self.handle.core;
        let compacted = core.door(|| crate::compaction::compact_whole(core, &self.core.tablet));
        // Another caller may wait for the end of this one.
        core.health.progress.notify();
        if compacted.is_err() {
            // It may have been given up for the drop of its table, and not for a close.
            self.core.tablet.check_not_dropped()?;
        }
        compacted
    }

    /// How large the table is and how it lies on disk.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        TableStats::of(&self.core)
    }
}
