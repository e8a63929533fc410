//! The verbs that read, and what a read sees of a table.
//!
//! Invariant: that the table was not dropped is checked after its view was pinned.

use std::ops::Deref;
use std::sync::Arc;

use super::Table;
use crate::catalog::TableCore;
use crate::core::Core;
use crate::error::Error;
use crate::read::{self, ReadPoint, Scan, ScanSource};
use crate::record::{Record, encode_key, with_key};
use crate::row::{ReadSchema, Row};
use crate::snapshot::Snapshot;
use crate::view::{Look, TabletView};

impl Table {
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
    /// As for [`Table::get`]; `InvalidArgument` also for a snapshot of another engine.
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
    /// As for [`Table::get_at`].
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

    /// [`Table::exists`] as a snapshot sees it.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// # let people = engine.open_or_create_table("people", schema)?;
    /// people.upsert((1, "Ada"))?;
    /// let before = engine.snapshot();
    /// people.delete((1,))?;
    /// assert!(people.exists_at((1,), &before)? && !people.exists((1,))?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::get_at`].
    pub fn exists_at(&self, key: impl Record, snapshot: &Snapshot) -> Result<bool, Error> {
        let point = self.pin(Some(snapshot))?;
        with_key(&self.core.schema, &key, |probe| read::exists(&point, probe))
    }

    /// The number of rows. Reads the whole index of the table, but no rows. That of a range, a prefix or a snapshot is
    /// [`Scan::count`].
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub fn count(&self) -> Result<u64, Error> {
        self.scan().count()
    }

    /// The row with the least key. That of a range, a prefix or a snapshot is [`Scan::first`].
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

    /// The row with the greatest key. That of a range, a prefix or a snapshot is [`Scan::last`].
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
