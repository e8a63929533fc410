//! Transactions: reads and writes that take effect together, at one moment, or not at all.
//!
//! Owns what a transaction has written and read so far. They are optimistic: nothing is locked, reads see a snapshot,
//! and the commit checks that all that was read is as it was ([`commit`]). So the transactions of an engine are
//! serialisable: what they do is what they would do one after the other, in the order of their commits.
//!
//! Invariant: own writes are whole puts and deletions, in the order of their calls: in the buffer that will be
//! committed, and in a memtable of each table, with their numbers in the place of versions. A scan reads it at the
//! number of its start, so it sees no later write.
//! Invariant: whatever was looked up or scanned in the store is in the read set before the caller knows of it.
//!
//! Never waits for another transaction, and holds nothing that others wait for.

mod commit;
mod reads;
mod retry;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use codec::{TableId, Version};
use encoded_key::KeyProbe;
use sync::Mutex;

use crate::batch::ops::{Op, Ops};
use crate::batch::{Buffer, Changes, changes};
use crate::catalog::TableCore;
use crate::commit::{Saw, mem_op};
use crate::core::{Core, Handle};
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::read::{self, OwnWrites, ReadPoint, Scan};
use crate::record::{Record, encode_key, with_key};
use crate::row::{Row, Translator, show_key};
use crate::snapshot::Snapshot;
use crate::table::{Table, pin};
use crate::value::AsValue;
pub(crate) use reads::ScanReads;
use reads::{Limits, ReadSet};
pub(crate) use retry::{ATTEMPTS, transact};
use source::Source;

/// Pushes a whole row. There must be a place for all that its handle's schema has.
fn whole_row(record: &impl Record) -> impl FnOnce(&mut Buffer, &Core, &Arc<TableCore>) -> Result<()> {
    move |buffer, core, table| {
        table.check_row_schema(table.schema.version())?;
        buffer.put(core, table, record, None)
    }
}

/// Reads and writes over any tables of one engine that take effect together, or not at all.
///
/// Reads see the engine as of [`Engine::transaction`](crate::Engine::transaction), with the writes of the transaction
/// itself, whatever others write meanwhile. Writes are kept in memory until [`commit`](Transaction::commit), which
/// writes all of them if everything that was read is still as it was: rows, keys that were absent, and ranges from
/// where a scan began to the last row that it gave, whatever was filtered out. Of a key of which it was only asked
/// whether it is there ([`exists`](Transaction::exists), [`insert`](Transaction::insert),
/// [`insert_ignore`](Transaction::insert_ignore)), only that must still be so. Else it fails with
/// [`ErrorKind::Conflict`], and nothing is written. So transactions are *serialisable*: two that each count the rows of
/// a range, find none, and insert one cannot both commit. Writes that looked nothing up (`upsert`, `delete`) conflict
/// with nothing by themselves.
///
/// Dropping a transaction takes everything back. One that has written nothing always commits, and free of charge. A
/// failed verb leaves the transaction as it was before.
///
/// [`Engine::transact`](crate::Engine::transact) tries again after conflicts. Keep transactions short: the longer they
/// take and the more they read, the more likely is a conflict, and what they see is held back from compaction. To read
/// alone, take a [`Snapshot`].
///
/// A scan sees what was written before the call of [`scan`](Transaction::scan). It may be read to its end after the
/// transaction is over, but only what came before the commit is checked.
///
/// What was read is kept in memory, once however often it is read: at most
/// [`Options::batch_operations_max`](crate::Options::batch_operations_max) keys and ranges, and
/// [`Options::batch_bytes_max`](crate::Options::batch_bytes_max) bytes of them. A read beyond that is refused, and
/// nothing else is lost by it. Ranges that touch count as one once their scans are dropped: read pages from
/// `Bound::Excluded(the last key)` on.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Durability, Engine, ErrorKind, Options, Schema, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("cents", Type::I64).build()?;
/// let accounts = engine.open_or_create_table("accounts", schema)?;
/// accounts.upsert((1, 900))?;
/// accounts.upsert((2, 100))?;
///
/// let mut transfer = engine.transaction();
/// let cents: i64 = transfer.get(&accounts, (1,))?.expect("it is there").get("cents")?;
/// transfer.update(&accounts, (1,), [("cents", cents - 250)])?;
/// transfer.upsert(&accounts, (3, 250))?;
/// assert_eq!((transfer.count(&accounts)?, accounts.count()?), (3, 2));
/// accounts.upsert((1, 0))?; // Meanwhile somebody else takes all of it.
/// assert_eq!(transfer.commit(Durability::Sync).unwrap_err().kind(), ErrorKind::Conflict);
/// assert!(!accounts.exists((3,))?);
/// # Ok(()) }
/// ```
#[must_use = "a transaction writes nothing until it is committed"]
pub struct Transaction {
    // Before the handle: if that is the last one, the flush of the close keeps nothing for a snapshot that nobody
    // reads.
    snapshot: Snapshot,
    handle: Arc<Handle>,
    buffer: Buffer,
    /// What of the buffer each table was given.
    own: Vec<(TableId, Arc<Memtable>)>,
    reads: Arc<Mutex<ReadSet>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("snapshot", &self.snapshot)
            .field("operations", &self.len())
            .finish_non_exhaustive()
    }
}

impl Transaction {
    pub(crate) fn new(handle: Arc<Handle>) -> Transaction {
        let options = &handle.core.options;
        let limits = Limits { reads_max: options.batch_operations_max, bytes_max: options.batch_bytes_max };
        Transaction {
            snapshot: handle.core.registry.take(),
            handle,
            buffer: Buffer::default(),
            own: Vec::new(),
            reads: Arc::new(Mutex::new(ReadSet::new(limits))),
        }
    }

    fn core(&self) -> &Core {
        &self.handle.core
    }

    fn own(&self, table: &TableCore) -> Option<&Arc<Memtable>> {
        self.own.iter().find(|(id, _)| *id == table.id).map(|(_, memtable)| memtable)
    }

    fn own_now(&self, table: &TableCore) -> Option<OwnWrites> {
        let at = Version(u64::from(self.buffer.operations));
        self.own(table).map(|memtable| OwnWrites { memtable: Arc::clone(memtable), at })
    }

    fn pin(&self, table: &TableCore) -> Result<ReadPoint> {
        let point = pin(self.core(), table, Some(&self.snapshot))?;
        Ok(ReadPoint { own: self.own_now(table), ..point })
    }

    /// Notes what was seen of a key in the store. What the transaction has written itself was not seen there.
    fn note(&self, table: &Arc<TableCore>, probe: &KeyProbe<'_>, saw: Saw) -> Result<()> {
        if self.own(table).is_some_and(|own| own.newest(probe.key()).is_some()) {
            return Ok(());
        }
        self.reads.lock().note_key(table, probe, saw)
    }

    /// Reads the row of a key, and notes what was seen.
    fn look<T>(
        &self,
        table: &Arc<TableCore>,
        probe: &KeyProbe<'_>,
        read: impl FnOnce(&ReadPoint) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let found = read(&self.pin(table)?)?;
        self.note(table, probe, Saw::row(found.as_ref()))?;
        Ok(found)
    }

    /// Whether a key has a row; notes that, and nothing of what is in it.
    fn is_there(&self, table: &Arc<TableCore>, probe: &KeyProbe<'_>) -> Result<bool> {
        let is_there = read::exists(&self.pin(table)?, probe)?;
        self.note(table, probe, Saw::existence(is_there))?;
        Ok(is_there)
    }

    /// What it reads, but for its own writes. What is read at the snapshot by other ways, as with [`Table::get_at`], is
    /// not checked by the commit.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The row with this key, if there is one.
    ///
    /// # Errors
    /// As for [`Table::get`]; `InvalidArgument` also if more was read than a transaction may, see [`Transaction`].
    pub fn get(&self, table: &Table, key: impl Record) -> Result<Option<Row>> {
        let table = table.core_of(&self.handle)?;
        with_key(&table.schema, &key, |probe| {
            self.look(table, probe, |point| {
                table.reads.check_columns(|_| true)?;
                read::get(point, &table.reads, &table.all_columns, probe)
            })
        })
    }

    /// The rows with these keys, in the order of the keys.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn multi_get<K: Record>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Row>>> {
        let table = table.core_of(&self.handle)?;
        let mut encoded = Vec::new();
        let ranges = keys
            .into_iter()
            .map(|key| encode_key(&table.schema, &key, &mut encoded))
            .collect::<Result<Vec<_>>>()?;
        let keys: Vec<&[u8]> = ranges.into_iter().map(|range| &encoded[range]).collect();
        let point = self.pin(table)?;
        table.reads.check_columns(|_| true)?;
        let rows = read::multi_get(&point, &table.reads, &table.all_columns, &keys)?;
        for (key, row) in keys.iter().zip(&rows) {
            self.note(table, &KeyProbe::new(key), Saw::row(row.as_ref()))?;
        }
        Ok(rows)
    }

    /// Whether there is a row with this key. Reads no row, and only whether there is one is checked by the commit: that
    /// it is overwritten is no conflict.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn exists(&self, table: &Table, key: impl Record) -> Result<bool> {
        let table = table.core_of(&self.handle)?;
        with_key(&table.schema, &key, |probe| self.is_there(table, probe))
    }

    /// The number of rows. Reads the whole index of the table, but no rows; any later write to the table is a conflict.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn count(&self, table: &Table) -> Result<u64> {
        self.scan(table).count()
    }

    /// The row with the least key. That of a range or a prefix is [`Scan::first`].
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn first(&self, table: &Table) -> Result<Option<Row>> {
        self.scan(table).first()
    }

    /// The row with the greatest key. That of a range or a prefix is [`Scan::last`].
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn last(&self, table: &Table) -> Result<Option<Row>> {
        self.scan(table).last()
    }

    /// A scan of a table, with what the transaction has written there so far; see [`Scan`] for what it can be narrowed
    /// to. What it reads is checked by the commit: the keys from where it begins to the last row that was taken from
    /// it, or to its end if it said that there are no more. So narrow bounds make for fewer conflicts, and so does
    /// stopping early, by a limit or by taking no more rows; filters do not. It cannot be moved to another snapshot.
    pub fn scan(&self, table: &Table) -> Scan {
        let (table, error) = match table.core_of(&self.handle) {
            Ok(table) => (table, None),
            Err(error) => (table.core(), Some(error)),
        };
        let source = Arc::new(Source {
            core: Arc::clone(&self.handle.core),
            table: Arc::clone(table),
            snapshot: self.snapshot.clone(),
            own: self.own_now(table),
            reads: Arc::clone(&self.reads),
        });
        match error {
            None => Scan::new(source),
            Some(error) => Scan::failed(source, error),
        }
    }

    /// Takes an operation that `push` adds to the buffer, if `check` agrees with it.
    fn write(
        &mut self,
        table: &Table,
        push: impl FnOnce(&mut Buffer, &Core, &Arc<TableCore>) -> Result<()>,
        check: impl FnOnce(&Transaction, &Arc<TableCore>, &Op<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let handle = Arc::clone(&self.handle);
        let table = table.core_of(&handle)?;
        handle.core.health.check_open()?;
        table.tablet.check_not_dropped()?;
        let mark = self.buffer.mark();
        push(&mut self.buffer, &handle.core, table)?;
        let written = Ops::new(&self.buffer.body[mark.bytes()..]).next();
        let op = written.expect("it was just pushed").expect("a batch's bytes are written by the batch");
        match check(self, table, &op) {
            Ok(true) => {}
            refused => {
                self.buffer.back_to(&mark);
                return refused;
            }
        }
        let number = Version(u64::from(self.buffer.operations));
        if self.own(table).is_none() {
            self.own.push((table.id, Arc::new(Memtable::new(0))));
        }
        let op = Ops::new(&self.buffer.body[mark.bytes()..]).next().expect("as above").expect("as above");
        let own = self.own(table).expect("it was just made");
        own.apply(|tree| tree.insert(op.key, number, mem_op(&op)));
        Ok(true)
    }

    /// Writes a row, whether its key is there or not. Looks nothing up.
    ///
    /// # Errors
    /// As for [`WriteBatch::upsert`](crate::WriteBatch::upsert).
    pub fn upsert(&mut self, table: &Table, record: impl Record) -> Result<()> {
        self.write(table, whole_row(&record), |_, _, _| Ok(true)).map(drop)
    }

    /// Writes a row whose key must be absent, also among what the transaction has written.
    ///
    /// # Errors
    /// `DuplicateKey` if it is not; else as for [`Transaction::get`] and [`Transaction::upsert`].
    pub fn insert(&mut self, table: &Table, record: impl Record) -> Result<()> {
        let check = |transaction: &Transaction, table: &Arc<TableCore>, op: &Op<'_>| {
            if transaction.is_there(table, &KeyProbe::new(op.key))? {
                let error = Error::new(ErrorKind::DuplicateKey, "the key is there already");
                return Err(transaction.named(error, table, op.key));
            }
            Ok(true)
        };
        self.write(table, whole_row(&record), check).map(drop)
    }

    /// Writes a row if its key is absent, and says whether it did.
    ///
    /// # Errors
    /// As for [`Transaction::get`] and [`Transaction::upsert`].
    pub fn insert_ignore(&mut self, table: &Table, record: impl Record) -> Result<bool> {
        let check = |transaction: &Transaction, table: &Arc<TableCore>, op: &Op<'_>| {
            Ok(!transaction.is_there(table, &KeyProbe::new(op.key))?)
        };
        self.write(table, whole_row(&record), check)
    }

    /// Changes some columns of a row that must be there. The others keep what the transaction sees in them.
    ///
    /// # Errors
    /// `MissingRow` if the key is absent; `InvalidArgument` if a column is unknown or part of the key; else as for
    /// [`Transaction::get`] and [`Transaction::upsert`].
    pub fn update<'c, V: AsValue + 'c>(
        &mut self,
        table: &Table,
        key: impl Record,
        columns: impl IntoIterator<Item = (&'c str, V)>,
    ) -> Result<()> {
        let core = table.core_of(&self.handle)?;
        let mut changed = Changes::default();
        for (name, value) in columns {
            changed.set(&core.schema, name, value.as_value())?;
        }
        let mut encoded = Vec::new();
        let key = encode_key(&core.schema, &key, &mut encoded)?;
        let key = &encoded[key];
        let mut old = Vec::new();
        let probe = KeyProbe::new(key);
        let found = self.look(core, &probe, |point| read::row_bytes(point, &probe, &mut old))?;
        let Some((_, written)) = found else {
            let error = Error::new(ErrorKind::MissingRow, "there is no row of this key");
            return Err(self.named(error, core, key));
        };
        // Columns that the handle does not know of must not be lost. That one of them is dropped from here on is a
        // conflict.
        let newest = self.core().in_force(core)?;
        let mut changes = changes::read(changed.bytes());
        if newest.schema.version() != core.schema.version() {
            changes::carry_over(&mut changes, core.schema.version(), &newest.schema)?;
        }
        let mut translator = Translator::new(Arc::clone(&newest.reads));
        let old = translator.translate(written, &old)?;
        let mut new = Vec::with_capacity(old.len());
        newest.schema.row_layout().patch(old, &changes, &mut new)?;
        self.write(table, |buffer, core, _| buffer.put_encoded(core, &newest, key, &new), |_, _, _| Ok(true))
            .map(drop)
    }

    /// Deletes a key. An absent one is fine. Looks nothing up.
    ///
    /// # Errors
    /// As for [`Transaction::upsert`].
    pub fn delete(&mut self, table: &Table, key: impl Record) -> Result<()> {
        self.write(table, |buffer, core, table| buffer.delete(core, table, &key, None), |_, _, _| Ok(true))
            .map(drop)
    }

    #[cold]
    fn named(&self, error: Error, table: &TableCore, key: &[u8]) -> Error {
        if self.core().options.keys_in_errors {
            return error.with_key(show_key(&table.schema, key));
        }
        error
    }

    /// The number of operations that it will write. One without commits free of charge, whatever it has read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.operations as usize
    }

    /// Whether it has written nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of the encoded operations, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.body.len()
    }

    /// Takes back what it has written. What it has read stays read.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.own.clear();
    }

    /// Ends it without a write. So does dropping it.
    pub fn rollback(self) {}

    /// Writes everything, if what was read is as it was, and ends the transaction. On return its writes are visible,
    /// and as durable as asked for. Returns the commit's [`Version`], that of its last operation; of a transaction that
    /// has written nothing it is that of the last commit before it.
    ///
    /// After an error the transaction is over too. What it did rests on what it has read, so it is not tried again but
    /// done again, from the start, in another one: at once after a `Conflict`, after
    /// [`Engine::resume`](crate::Engine::resume) if it was `NoSpace`. Keep what it does in a function for that;
    /// [`Engine::transact`](crate::Engine::transact) takes one, and runs it again after conflicts. What rests on
    /// nothing that was read is better kept in a [`WriteBatch`](crate::WriteBatch), which has its operations still
    /// after an error.
    ///
    /// # Errors
    /// `Conflict` if something that was read was written meanwhile, or if a column was dropped meanwhile of which a row
    /// has a value that was written: nothing is written then, and another transaction sees what moved. `NoSuchTable`,
    /// `NoSpace`, `Io` or `Closed` as for [`WriteBatch::commit`](crate::WriteBatch::commit), and `Corruption`, since
    /// what was read may have to be looked at again.
    pub fn commit(mut self, durability: Durability) -> Result<Version> {
        if self.is_empty() {
            self.core().health.check_open()?;
            // What it has read was all there at one moment, that of its snapshot.
            return Ok(self.core().last_committed());
        }
        let reads = self.reads.lock().take();
        let Transaction { handle, buffer, snapshot, .. } = &mut self;
        commit::commit(&handle.core, buffer, reads, snapshot, durability)
    }
}
