//! Batches: operations on any tables that are committed together or not at all.
//!
//! Owns the buffer that keys and rows are encoded into, once, where they stay until they are in the log and in the
//! memtables. Encoding checks types and limits at the door, so a batch that could be built can be written.
//!
//! Invariant: the buffer holds whole operations; one that fails to encode leaves no trace.

pub(crate) mod changes;
mod evaluate;
pub(crate) mod ops;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use codec::Version;
use sync::Mutex;

use crate::background::take_memory_back;
use crate::catalog::TableCore;
use crate::commit::{Expectation, Refusal, Saw, Submission, Ticket};
use crate::core::{Core, Handle};
use crate::error::{Error, ErrorKind};
use crate::options::Durability;
use crate::read::LiveKeys;
use crate::record::{Record, encode_key, encode_record};
use crate::table::Table;
use crate::value::AsValue;
use ops::OpKind;

pub(crate) use changes::Changes;

/// What has to hold for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The key is absent, or the batch fails.
    Absent,
    /// The key is absent, or the operation is left out.
    AbsentOrSkip,
    /// The key is live, or the batch fails; the row is made from it.
    Live,
    /// The live row of the key has this version, or the key is absent, or the batch fails.
    Version(Option<Version>),
}

/// A batch's operations and where they go. Kept and reused.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) body: Vec<u8>,
    pub(crate) operations: u32,
    pub(crate) targets: Vec<Arc<TableCore>>,
    /// The checked operations, by position.
    pub(crate) checks: Vec<(u32, Check)>,
}

/// A place in a buffer, between two operations.
#[derive(Debug)]
pub(crate) struct Mark {
    bytes: usize,
    operations: u32,
    targets: usize,
}

impl Mark {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A buffer that outgrew this is not kept.
const KEEP_BYTES: usize = 1 << 20;

impl Buffer {
    /// Empties it and keeps its memory, unless that is an outlier's.
    pub(crate) fn clear(&mut self) {
        if self.body.capacity() > KEEP_BYTES {
            self.body = Vec::new();
        }
        self.body.clear();
        self.operations = 0;
        self.targets.clear();
        self.checks.clear();
    }

    /// Where the next operation goes.
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.body.len(), operations: self.operations, targets: self.targets.len() }
    }

    /// Takes back the operations pushed since. None of them may be a checked one.
    pub(crate) fn back_to(&mut self, mark: &Mark) {
        self.body.truncate(mark.bytes);
        self.operations = mark.operations;
        self.targets.truncate(mark.targets);
    }

    fn push(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        kind: OpKind,
        check: Option<Check>,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(Range<usize>, Range<usize>), Error>,
    ) -> Result<(), Error> {
        if self.operations as usize >= core.options.batch_operations_max {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("a batch holds at most {} operations", core.options.batch_operations_max),
            ));
        }
        let start = ops::begin(&mut self.body, kind, table.id, table.schema.version());
        let encoded = encode(&mut self.body).and_then(|ranges| {
            if self.body.len() > core.options.batch_bytes_max {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("a batch holds at most {} bytes", core.options.batch_bytes_max),
                ));
            }
            Ok(ranges)
        });
        match encoded {
            Ok((key, row)) => ops::end(&mut self.body, start, &key, &row),
            Err(error) => {
                self.body.truncate(start);
                return Err(error);
            }
        }
        if let Some(check) = check {
            self.checks.push((self.operations, check));
        }
        self.operations += 1;
        // A table that was altered between two operations stands there as each of its handles shows it.
        if !self.targets.iter().any(|target| Arc::ptr_eq(target, table)) {
            self.targets.push(Arc::clone(table));
        }
        Ok(())
    }

    /// A row that is encoded already.
    pub(crate) fn put_encoded(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        key: &[u8],
        row: &[u8],
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Put, None, |body| {
            let start = body.len();
            body.extend_from_slice(key);
            let end = body.len();
            body.extend_from_slice(row);
            Ok((start..end, end..body.len()))
        })
    }

    pub(crate) fn put(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        record: &impl Record,
        check: Option<Check>,
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Put, check, |body| encode_record(&table.schema, record, body))
    }

    pub(crate) fn delete(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        key: &impl Record,
        check: Option<Check>,
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Delete, check, |body| {
            let key = encode_key(&table.schema, key, body)?;
            let end = key.end;
            Ok((key, end..end))
        })
    }

    pub(crate) fn update(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        key: &impl Record,
        changes: &Changes,
        check: Check,
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Update, Some(check), |body| {
            let key = encode_key(&table.schema, key, body)?;
            let start = key.end;
            body.extend_from_slice(changes.bytes());
            Ok((key, start..body.len()))
        })
    }
}

/// Buffers of single writes and of keys that are looked up, for the next ones.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<Vec<Buffer>>);

/// More than as many threads as a machine has are rarely at it at once.
const POOL_MAX: usize = 64;

impl BufferPool {
    pub(crate) fn take(&self) -> Buffer {
        self.0.lock().pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut buffer: Buffer) {
        buffer.clear();
        let mut pool = self.0.lock();
        if pool.len() < POOL_MAX {
            pool.push(buffer);
        }
    }
}

/// Commits a buffer and empties it. Returns the last version, and how many operations were written: those that
/// `insert_ignore` left out are not.
pub(crate) fn commit(
    core: &Core,
    buffer: &mut Buffer,
    durability: Durability,
) -> Result<(Version, u32), Error> {
    core.health.check_writable()?;
    if buffer.operations == 0 {
        return Ok((core.last_committed(), 0));
    }
    core.stall.admit(buffer.body.len(), &core.clock, &core.health, || core.wake_flush())?;
    let committed = if buffer.checks.is_empty() {
        commit_blind(core, buffer, durability)
    } else {
        commit_checked(core, buffer, durability)
    };
    take_memory_back(core);
    core.run_inline_work();
    core.tell_inline();
    committed
}

fn commit_blind(core: &Core, buffer: &mut Buffer, durability: Durability) -> Result<(Version, u32), Error> {
    let operations = buffer.operations;
    let submission = Box::new(Submission {
        body: std::mem::take(&mut buffer.body),
        operations,
        targets: std::mem::take(&mut buffer.targets),
        expectations: Vec::new(),
        ranges: Vec::new(),
        seen_keys: Vec::new(),
        wants_sync: durability == Durability::Sync,
    });
    let (result, submission) = core.commit.submit(core, submission);
    if let Some(submission) = submission {
        buffer.body = submission.body;
        buffer.targets = submission.targets;
    }
    match result {
        Ok(version) => {
            buffer.clear();
            Ok((version, operations))
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(Refusal::Stale(_)) => unreachable!("only a checked batch can be stale"),
    }
}

fn commit_checked(core: &Core, buffer: &mut Buffer, durability: Durability) -> Result<(Version, u32), Error> {
    loop {
        let resolved = evaluate::evaluate(core, buffer)?;
        if resolved.operations == 0 {
            buffer.clear();
            return Ok((core.last_committed(), 0));
        }
        let operations = resolved.operations;
        let submission = Box::new(Submission {
            body: resolved.body,
            operations,
            targets: buffer.targets.clone(),
            expectations: resolved.expectations,
            ranges: Vec::new(),
            seen_keys: resolved.seen_keys,
            wants_sync: durability == Durability::Sync,
        });
        let (result, _) = core.commit.submit(core, submission);
        match result {
            Ok(version) => {
                buffer.clear();
                return Ok((version, operations));
            }
            // A column was dropped since the evaluation. The next one says whether the batch needs it.
            Err(Refusal::Failed(error)) if error.kind() == ErrorKind::SchemaMismatch => {}
            Err(Refusal::Failed(error)) => return Err(error),
            Err(Refusal::Stale(version)) => core.wait_visible(version)?,
        }
    }
}

/// Deletes keys as they were seen by a read at `at`, all or none. If one of them was written since, answers with a version to
/// wait for before looking again.
pub(crate) fn delete_seen(
    core: &Core,
    table: &Arc<TableCore>,
    seen: LiveKeys,
    at: Version,
    durability: Durability,
) -> Result<Result<(), Version>, Error> {
    core.health.check_writable()?;
    let mut body = Vec::with_capacity(seen.bytes.len() + seen.len() * ops::HEAD_BYTES);
    let mut expectations = Vec::with_capacity(seen.len());
    let mut start = 0;
    for &end in &seen.ends {
        let (kind, schema, key) = (OpKind::Delete, table.schema.version(), &seen.bytes[start..end]);
        ops::put(&mut body, &ops::Op { kind, table: table.id, schema, key, row: &[] });
        expectations.push(Expectation { target: 0, key: start..end, saw: Saw::Row, at });
        start = end;
    }
    core.stall.admit(body.len(), &core.clock, &core.health, || core.wake_flush())?;
    let submission = Box::new(Submission {
        body,
        operations: u32::try_from(seen.len()).expect("a batch has fewer operations"),
        targets: vec![Arc::clone(table)],
        expectations,
        ranges: Vec::new(),
        seen_keys: seen.bytes,
        wants_sync: durability == Durability::Sync,
    });
    let (result, _) = core.commit.submit(core, submission);
    core.run_inline_work();
    match result {
        Ok(_) => Ok(Ok(())),
        Err(Refusal::Stale(version)) => Ok(Err(version)),
        Err(Refusal::Failed(error)) => Err(error),
    }
}

/// Operations on any tables of one engine that become visible and durable together, or not at all.
///
/// The last operation on a key wins, and a checked one (`insert`, `update`) sees those before it. Building a batch
/// writes nothing; dropping it undoes nothing. After a commit the batch is empty and keeps its memory, so a batch in
/// a loop allocates nothing in the long run. After a failed commit it still holds its operations. How large a batch may be
/// is said by [`Options::batch_bytes_max`](crate::Options::batch_bytes_max) and
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

    /// Writes a row if the one that is there has this [version](crate::Row::version), or, for `None`, if there is none; else
    /// the commit fails with `Conflict`. What the batch itself writes has no version yet.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn compare_and_set(
        &mut self,
        table: &Table,
        record: impl Record,
        version: Option<u64>,
    ) -> Result<(), Error> {
        let core = self.table(table)?;
        let check = Check::Version(version.map(Version));
        self.buffer.put(&self.handle.core, core, &record, Some(check))
    }

    /// Deletes a key if its row has this [version](crate::Row::version); else the commit fails with `Conflict`.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`].
    pub fn compare_and_delete(&mut self, table: &Table, key: impl Record, version: u64) -> Result<(), Error> {
        let core = self.table(table)?;
        let check = Check::Version(Some(Version(version)));
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
    /// asked for. Returns the commit's [`Ticket`]; that of a batch that wrote nothing is the last one before it.
    ///
    /// # Errors
    /// `DuplicateKey`, `MissingRow` or `Conflict` with the [operation](Error::operation) that failed its check; `NoSuchTable` if
    /// a table was dropped; `SchemaMismatch` if a column was dropped that the batch has a value for; `NoSpace`, `Io`,
    /// `ReadOnly` or `Closed` if the engine takes no writes. Nothing is written then, except that an `Io` error from a log
    /// that failed under this very batch leaves open whether it is found after the next open. The batch keeps its operations.
    pub fn commit(&mut self, durability: Durability) -> Result<Ticket, Error> {
        commit(&self.handle.core, &mut self.buffer, durability).map(|(last, _)| Ticket::new(last))
    }
}
