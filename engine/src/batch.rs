//! Batches: operations on any tables that are committed together or not at all.
//!
//! Owns the batch that a program builds. What it is built in lies in `batch/buffer.rs`, how it is committed in
//! `batch/commit.rs`, how its checked operations are judged before that in `batch/evaluate.rs`, and its bytes in
//! `batch/ops.rs`.

mod buffer;
pub(crate) mod changes;
mod commit;
mod evaluate;
pub(crate) mod ops;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use codec::Version;

use crate::catalog::TableCore;
use crate::core::Handle;
use crate::error::Error;
use crate::options::Durability;
use crate::record::Record;
use crate::table::Table;
use crate::value::AsValue;

pub(crate) use buffer::{Buffer, BufferPool, Check};
pub(crate) use changes::Changes;
pub(crate) use commit::{commit, delete_seen};

/// Operations on any tables of one engine that become visible and durable together, or not at all.
///
/// The last operation on a key wins, and a checked one (`insert`, `update`) sees those before it. Building a batch
/// writes nothing; dropping it undoes nothing. After a commit the batch is empty and keeps its memory, so a batch in a
/// loop allocates nothing in the long run. After a failed commit it still holds its operations. How large a batch may
/// be is said by [`Options::batch_bytes_max`](crate::Options::batch_bytes_max) and
/// [`Options::batch_operations_max`](crate::Options::batch_operations_max).
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Durability, Engine, ErrorKind, Options, Schema, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("cents", Type::I64).build()?;
/// let accounts = engine.open_or_create_table("accounts", schema)?;
/// let mut batch = engine.batch();
/// batch.upsert(&accounts, (1, 900))?;
/// batch.upsert(&accounts, (2, 100))?;
/// batch.commit(Durability::Sync)?;
/// assert_eq!(accounts.count()?, 2);
///
/// // All or nothing: the third operation fails, so the first two are not done either.
/// batch.update(&accounts, (1,), [("cents", 800)])?;
/// batch.delete(&accounts, (2,))?;
/// batch.insert(&accounts, (1, 0))?;
/// let error = batch.commit(Durability::Buffered).unwrap_err();
/// assert_eq!((error.kind(), error.operation()), (ErrorKind::DuplicateKey, Some(2)));
/// assert_eq!(accounts.count()?, 2);
/// # Ok(()) }
/// ```
#[must_use = "a batch writes nothing until it is committed"]
pub struct WriteBatch {
    handle: Arc<Handle>,
    buffer: Buffer,
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch").field("operations", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

impl WriteBatch {
    pub(crate) fn new(handle: Arc<Handle>) -> WriteBatch {
        WriteBatch { handle, buffer: Buffer::default() }
    }

    fn table<'a>(&self, table: &'a Table) -> Result<&'a Arc<TableCore>, Error> {
        table.core_of(&self.handle)
    }

    /// Writes a row, whether its key is there or not.
    ///
    /// # Errors
    /// `InvalidArgument` names the column that does not fit, or the limit that the batch would pass. The batch stays
    /// as it was.
    pub fn upsert(&mut self, table: &Table, record: impl Record) -> Result<(), Error> {
        let core = self.table(table)?;
        self.buffer.put(&self.handle.core, core, &record, None)
    }

    /// Writes a row whose key must be absent; else the commit fails with `DuplicateKey`.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn insert(&mut self, table: &Table, record: impl Record) -> Result<(), Error> {
        let core = self.table(table)?;
        self.buffer.put(&self.handle.core, core, &record, Some(Check::Absent))
    }

    /// Writes a row if its key is absent when the batch is committed.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn insert_ignore(&mut self, table: &Table, record: impl Record) -> Result<(), Error> {
        let core = self.table(table)?;
        self.buffer.put(&self.handle.core, core, &record, Some(Check::AbsentOrSkip))
    }

    /// Changes some columns of a row that must be there; else the commit fails with `MissingRow`.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`]; also if a column is unknown or part of the key.
    pub fn update<'c, V: AsValue + 'c>(
        &mut self,
        table: &Table,
        key: impl Record,
        columns: impl IntoIterator<Item = (&'c str, V)>,
    ) -> Result<(), Error> {
        let core = self.table(table)?;
        let mut changes = Changes::default();
        for (name, value) in columns {
            changes.set(&core.schema, name, value.as_value())?;
        }
        self.buffer.update(&self.handle.core, core, &key, &changes, Check::Live)
    }

    /// Deletes a key. An absent one is fine.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn delete(&mut self, table: &Table, key: impl Record) -> Result<(), Error> {
        let core = self.table(table)?;
        self.buffer.delete(&self.handle.core, core, &key, None)
    }

    /// Writes a row if the one that is there has this [version](crate::Row::version), or, for `None`, if there is none;
    /// else the commit fails with `Conflict`. What the batch itself writes has no version yet.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn compare_and_set(
        &mut self,
        table: &Table,
        record: impl Record,
        version: Option<Version>,
    ) -> Result<(), Error> {
        let core = self.table(table)?;
        let check = Check::Version(version);
        self.buffer.put(&self.handle.core, core, &record, Some(check))
    }

    /// Deletes a key if its row has this [version](crate::Row::version); else the commit fails with `Conflict`.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn compare_and_delete(
        &mut self,
        table: &Table,
        key: impl Record,
        version: Version,
    ) -> Result<(), Error> {
        let core = self.table(table)?;
        let check = Check::Version(Some(version));
        self.buffer.delete(&self.handle.core, core, &key, Some(check))
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.operations as usize
    }

    /// Whether it holds no operation. Committing an empty batch does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of the encoded operations, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.body.len()
    }

    /// Removes all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
    }

    /// Commits the operations, all or none, and empties the batch. On return they are visible, and as durable as
    /// asked for. Returns the commit's [`Version`], that of its last operation; of a batch that wrote nothing
    /// it is that of the last commit before it.
    ///
    /// # Errors
    /// `DuplicateKey`, `MissingRow` or `Conflict` with the [operation](Error::operation) that failed its check;
    /// `NoSuchTable` if a table was dropped; `SchemaMismatch` if a column was dropped that the batch has a value for;
    /// `NoSpace`, `Io`, `ReadOnly` or `Closed` if the engine takes no writes. Nothing is written then, except that an
    /// `Io` error from a log that failed under this very batch leaves open whether it is found after the next open. The
    /// batch keeps its operations.
    pub fn commit(&mut self, durability: Durability) -> Result<Version, Error> {
        commit(&self.handle.core, &mut self.buffer, durability).map(|(last, _)| last)
    }
}
