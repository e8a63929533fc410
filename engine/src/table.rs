//! A table's handle: its verbs, and nothing below them.
//!
//! A single write is a batch of one; a get is a read at an implicit snapshot.

mod delete_range;
mod read_and_write;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use codec::Version;

use crate::alter::Alter;
use crate::batch::{self, Buffer, Changes, Check};
use crate::catalog::TableCore;
use crate::core::{Core, Handle};
use crate::error::{Error, ErrorKind};
use crate::options::Durability;
use crate::read::{self, ReadPoint, Scan, ScanSource};
use crate::record::{Record, encode_key, with_key};
use crate::row::{ReadSchema, Row};
use crate::schema::Schema;
use crate::snapshot::Snapshot;
use crate::stats::TableStats;
use crate::value::AsValue;
use crate::view::{Look, TabletView};

pub use read_and_write::RowChange;

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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The schema that this handle was opened with: what its rows and keys mean. If the table was [altered](Table::alter)
    /// since, [`Engine::existing_table`](crate::Engine::existing_table) gives a handle with the schema in force.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.core.schema
    }

    /// Starts a change of the table's columns: some are added, renamed or dropped. The rows that are there are not touched,
    /// and read right at once, in snapshots too.
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
    /// `InvalidArgument` names the column that does not fit. `NoSuchTable` if the table was dropped; `SchemaMismatch` if a
    /// column was dropped that the row has a value for; `NoSpace`, `Io`, `ReadOnly` or `Closed` if the engine takes no
    /// writes.
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

    /// Writes a row if its key is absent, and says whether it did. [`Table::insert_or_get`] answers with the row that is there.
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

    /// Starts a change of some columns of the row with this key.
    ///
    /// ```no_run
    /// # fn example(metrics: nyala::Table) -> Result<(), nyala::Error> {
    /// metrics.update((17, "cpu")).set("value", 0.5).set("note", None::<&str>).apply()?;
    /// # Ok(()) }
    /// ```
    #[must_use = "an update does nothing until it is applied"]
    pub fn update<K: Record>(&self, key: K) -> Update<'_, K> {
        Update { table: self, key, changes: Ok(Changes::default()) }
    }

    /// Deletes a key. An absent one is fine. Looks nothing up; [`Table::delete_returning`] does, and answers with the row.
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

    /// Commits a batch of what `fill` puts into it. Answers with its last version, and how many operations were written.
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

    fn pin(&self, snapshot: Option<&Snapshot>) -> Result<ReadPoint, Error> {
        pin(&self.handle.core, &self.core, snapshot)
    }

    /// What a single read sees that begins now.
    fn look(&self) -> Result<ReadPoint<Look>, Error> {
        let core = &self.handle.core;
        core.health.check_open()?;
        let point = core.look(&self.core.tablet);
        // Last, as in `pin`.
        self.core.tablet.check_not_dropped()?;
        Ok(point)
    }

    /// The row with this key, if there is one: a handle that owns its bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// people.upsert((1, "Ada"))?;
    /// let row = people.get((1,))?.expect("just written");
    /// assert_eq!(row.get::<&str>("name")?, "Ada");
    /// assert!(people.get((2,))?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the key does not fit the schema, `NoSuchTable`, `Closed`, `Corruption`, `Io`.
    pub fn get(&self, key: impl Record) -> Result<Option<Row>, Error> {
        self.get_from(&self.look()?, &key)
    }

    /// The row with this key as the snapshot sees it.
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn get_at(&self, key: impl Record, snapshot: &Snapshot) -> Result<Option<Row>, Error> {
        self.get_from(&self.pin(Some(snapshot))?, &key)
    }

    fn get_from<V: Deref<Target = TabletView>>(
        &self,
        point: &ReadPoint<V>,
        key: &impl Record,
    ) -> Result<Option<Row>, Error> {
        self.core.reads.check_columns(|_| true)?;
        with_key(&self.core.schema, key, |probe| {
            read::get(point, &self.core.reads, &self.core.all_columns, probe)
        })
    }

    /// The rows with these keys, in the order of the keys. All are read at one moment, and neighbours share the work.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// people.upsert((1, "Ada"))?;
    /// people.upsert((2, "Grace"))?;
    /// let rows = people.multi_get([(2,), (3,), (1,)])?;
    /// assert_eq!(rows[0].as_ref().expect("it is there").get::<&str>("name")?, "Grace");
    /// assert!(rows[1].is_none() && rows[2].is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn multi_get<K: Record>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Row>>, Error> {
        self.multi_get_from(&self.pin(None)?, keys)
    }

    /// [`Table::multi_get`] as a snapshot sees it.
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn multi_get_at<K: Record>(
        &self,
        keys: impl IntoIterator<Item = K>,
        snapshot: &Snapshot,
    ) -> Result<Vec<Option<Row>>, Error> {
        self.multi_get_from(&self.pin(Some(snapshot))?, keys)
    }

    fn multi_get_from<K: Record>(
        &self,
        point: &ReadPoint,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Row>>, Error> {
        let mut encoded = Vec::new();
        let ranges = keys
            .into_iter()
            .map(|key| encode_key(&self.core.schema, &key, &mut encoded))
            .collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<&[u8]> = ranges.into_iter().map(|range| &encoded[range]).collect();
        self.core.reads.check_columns(|_| true)?;
        read::multi_get(point, &self.core.reads, &self.core.all_columns, &keys)
    }

    /// Whether there is a row with this key. Reads no row.
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn exists(&self, key: impl Record) -> Result<bool, Error> {
        let point = self.look()?;
        with_key(&self.core.schema, &key, |probe| read::exists(&point, probe))
    }

    /// The number of rows. Reads the whole index of the table, but no rows. That of a range or a prefix is
    /// [`Scan::count`].
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn count(&self) -> Result<u64, Error> {
        self.scan().count()
    }

    /// The row with the least key. That of a range or a prefix is [`Scan::first`].
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// assert!(people.first()?.is_none());
    /// people.upsert((2, "Grace"))?;
    /// people.upsert((1, "Ada"))?;
    /// assert_eq!(people.first()?.expect("two were written").get::<u64>("id")?, 1);
    /// assert_eq!(people.last()?.expect("two were written").get::<u64>("id")?, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn first(&self) -> Result<Option<Row>, Error> {
        self.scan().first()
    }

    /// The row with the greatest key. That of a range or a prefix is [`Scan::last`].
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn last(&self) -> Result<Option<Row>, Error> {
        self.scan().last()
    }

    /// A scan of the table in key order; see [`Scan`] for what it can be narrowed to.
    pub fn scan(&self) -> Scan {
        Scan::new(Arc::new(Source { core: Arc::clone(&self.handle.core), table: Arc::clone(&self.core) }))
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
        let compacted = crate::compaction::compact_whole(&self.handle.core, &self.core.tablet);
        // Another caller may wait for the end of this one.
        self.handle.core.health.progress.notify();
        if compacted.is_err() {
            // It may have been given up for the drop of its table, and not for a close.
            self.core.tablet.check_not_dropped()?;
        }
        self.handle.core.tell_inline();
        compacted
    }

    /// How large the table is and how it lies on disk.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        TableStats::of(&self.core)
    }
}

pub(crate) fn pin(core: &Core, table: &TableCore, snapshot: Option<&Snapshot>) -> Result<ReadPoint, Error> {
    core.health.check_open()?;
    let point = match snapshot {
        None => core.read_point(&table.tablet),
        Some(snapshot) => core.read_point_at(&table.tablet, snapshot)?,
    };
    // Last: the view of a dropped table is empty, and must not be taken for that of a table without rows.
    table.tablet.check_not_dropped()?;
    Ok(point)
}

/// What scans hold: they keep neither the engine nor the table open.
struct Source {
    core: Arc<Core>,
    table: Arc<TableCore>,
}

impl ScanSource for Source {
    fn reads(&self) -> &Arc<ReadSchema> {
        &self.table.reads
    }

    fn pin(&self, snapshot: Option<&Snapshot>) -> Result<ReadPoint, Error> {
        pin(&self.core, &self.table, snapshot)
    }

    fn check(&self) -> Result<(), Error> {
        self.core.health.check_open()
    }
}

/// A change of some columns of one row, being put together.
#[must_use = "an update does nothing until it is applied"]
pub struct Update<'t, K> {
    table: &'t Table,
    key: K,
    changes: Result<Changes, Error>,
}

impl<K> fmt::Debug for Update<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl<K: Record> Update<'_, K> {
    /// Sets a column. A wrong name or type is told by [`Update::apply`].
    pub fn set(mut self, column: &str, value: impl AsValue) -> Self {
        if let Ok(changes) = &mut self.changes
            && let Err(error) = changes.set(&self.table.core.schema, column, value.as_value())
        {
            self.changes = Err(error);
        }
        self
    }

    /// Writes the change. Columns that were not set keep their values.
    ///
    /// # Errors
    /// `MissingRow` if the key is absent; `InvalidArgument` for a wrong column or value; else as for
    /// [`Table::upsert`].
    pub fn apply(self) -> Result<(), Error> {
        let changes = self.changes?;
        self.table
            .write(|core, table, buffer| buffer.update(core, table, &self.key, &changes, Check::Live))
            .map(|_| ())
    }
}
