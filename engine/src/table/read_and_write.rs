//! Verbs that read a row and write it in one step, and those that compare its version.
//!
//! Each reads at a moment of its own and writes on the condition that the key still holds what was read; if it does
//! not, it begins again. So what it answers is what was there right before its write, and nobody's write is lost
//! between the two.

use std::fmt;
use std::sync::Arc;

use codec::Version;
use encoded_key::Value;

use super::Table;
use crate::batch::{Changes, Check};
use crate::error::{Error, ErrorKind};
use crate::record::{Record, with_key};
use crate::row::{Row, show_key};
use crate::schema::Schema;
use crate::value::AsValue;

impl Table {
    /// Writes a row if its key is absent; else answers with the row that is there. `None` if it was written.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("name", Type::String).column("id", Type::U64).build()?;
    /// # let ids = engine.open_or_create_table("ids", schema)?;
    /// assert!(ids.insert_or_get(("Ada", 1))?.is_none());
    /// let there = ids.insert_or_get(("Ada", 2))?.expect("she has one already");
    /// assert_eq!(there.get::<u64>("id")?, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::upsert`] and [`Table::get`].
    pub fn insert_or_get(&self, record: impl Record) -> Result<Option<Row>, Error> {
        loop {
            match self.insert(&record) {
                Err(error) if error.kind() == ErrorKind::DuplicateKey => {}
                inserted => return inserted.map(|()| None),
            }
            let key = KeyOfRecord { record: &record, columns: self.schema().key_columns() };
            if let Some(row) = self.get(key)? {
                return Ok(Some(row));
            }
            // It was deleted since.
        }
    }

    /// Deletes a key, and answers with the row that it had; `None` if it was absent.
    ///
    /// # Errors
    /// As for [`Table::upsert`] and [`Table::get`].
    pub fn delete_returning(&self, key: impl Record) -> Result<Option<Row>, Error> {
        self.handle.core.health.check_writable()?;
        loop {
            let Some(row) = self.get(&key)? else { return Ok(None) };
            if self.compare_and_delete(&key, version_of(&row))? {
                return Ok(Some(row));
            }
        }
    }

    /// Changes columns of the row with this key to what follows from the row itself.
    ///
    /// `change` gets the row and sets columns; it is called again if somebody else has written the row meanwhile, so
    /// that no write is lost. It should do nothing else. If it sets nothing, nothing is written; if it fails, its error
    /// is answered.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("page", Type::String).column("hits", Type::U64).build()?;
    /// # let pages = engine.open_or_create_table("pages", schema)?;
    /// pages.insert_ignore(("/", 0))?;
    /// pages.update_with(("/",), |row, change| change.set("hits", row.get::<u64>("hits")? + 1))?;
    /// assert_eq!(pages.get(("/",))?.expect("it is there").get::<u64>("hits")?, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `MissingRow` if the key is absent; what `change` answers; else as for [`Table::upsert`] and [`Table::get`].
    pub fn update_with(
        &self,
        key: impl Record,
        mut change: impl FnMut(&Row, &mut RowChange<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.handle.core.health.check_writable()?;
        loop {
            let Some(row) = self.get(&key)? else { return Err(self.missing(&key)) };
            let mut changes = RowChange { schema: self.schema(), changes: Changes::default() };
            change(&row, &mut changes)?;
            if changes.changes.bytes().is_empty() {
                return Ok(());
            }
            let check = Check::Version(Some(version_of(&row)));
            let written =
                self.write(|core, table, buffer| buffer.update(core, table, &key, &changes.changes, check));
            if was_written(written)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Writes a row if the one that is there has this [version](Row::version), or, for `None`, if there is none.
    /// Answers with the version of the new row, or `None` if nothing was written.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("page", Type::String).column("text", Type::String).build()?;
    /// # let pages = engine.open_or_create_table("pages", schema)?;
    /// let first = pages.compare_and_set(("home", "draft"), None)?;
    /// let row = pages.get(("home",))?.expect("just written");
    /// assert_eq!(row.version(), first);
    /// // Somebody edits what both have seen, and is first.
    /// assert!(pages.compare_and_set(("home", "better"), row.version())?.is_some());
    /// assert!(pages.compare_and_set(("home", "worse"), row.version())?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Table::upsert`].
    pub fn compare_and_set(
        &self,
        record: impl Record,
        version: Option<Version>,
    ) -> Result<Option<Version>, Error> {
        let check = Some(Check::Version(version));
        was_written(self.write(|core, table, buffer| buffer.put(core, table, &record, check)))
    }

    /// Deletes a key if its row has this [version](Row::version), and says whether it did.
    ///
    /// # Errors
    /// As for [`Table::upsert`].
    pub fn compare_and_delete(&self, key: impl Record, version: Version) -> Result<bool, Error> {
        let check = Some(Check::Version(Some(version)));
        let written = self.write(|core, table, buffer| buffer.delete(core, table, &key, check));
        was_written(written).map(|written| written.is_some())
    }
}

impl Table {
    /// As an update says it.
    fn missing(&self, key: &impl Record) -> Error {
        let error = Error::new(ErrorKind::MissingRow, "there is no row of this key").with_operation(0);
        if !self.handle.core.options.keys_in_errors {
            return error;
        }
        with_key(self.schema(), key, |probe| Ok(show_key(self.schema(), probe.key())))
            .map_or_else(|error| error, |key| error.with_key(key))
    }
}

/// The version of a write of one operation; `None` if the row had another version than the one compared with.
fn was_written(written: Result<(Version, u32), Error>) -> Result<Option<Version>, Error> {
    match written {
        Ok((version, _)) => Ok(Some(version)),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

fn version_of(row: &Row) -> Version {
    row.version().expect("a row that was read by its key knows its version")
}

/// The columns that [`Table::update_with`] is to change.
pub struct RowChange<'t> {
    schema: &'t Arc<Schema>,
    changes: Changes,
}

impl RowChange<'_> {
    /// Sets a column; a second value replaces the first.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such column, if it is part of the key, or if the value does not fit it.
    pub fn set(&mut self, column: &str, value: impl AsValue) -> Result<(), Error> {
        self.changes.set(self.schema, column, value.as_value())
    }
}

impl fmt::Debug for RowChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowChange").finish_non_exhaustive()
    }
}

/// The key of a whole row.
struct KeyOfRecord<'r, R> {
    record: &'r R,
    columns: usize,
}

impl<R: Record> Record for KeyOfRecord<'_, R> {
    fn columns(&self) -> usize {
        self.columns
    }

    fn value(&self, index: usize) -> Result<Value<'_>, Error> {
        self.record.value(index)
    }
}
