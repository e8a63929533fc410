//! The engine: opens, makes and drops tables, closes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use codec::{TableId, TabletId, Version};
use sync::{Mutex, RwLock};

use crate::background::{self, idle_log};
use crate::batch::{BufferPool, WriteBatch};
use crate::catalog::{TableCore, check_name};
use crate::check::{self, CheckReport};
use crate::checkpoint::{self, CheckpointReport};
use crate::commit::{Commit, Ticket};
use crate::compaction::{self, Backoff, Permits};
use crate::core::{Core, Handle, Signals};
use crate::error::{Error, ErrorKind};
use crate::events::Events;
use crate::flush;
use crate::health::{Health, HealthCell};
use crate::manifest::{self, Edit, Owner, TableDesc};
use crate::metrics::{self, Published};
use crate::options::{Durability, Options, RuntimeMode};
use crate::recovery::{self, Recovered, RecoveryReport};
use crate::runtime::{Chance, Clock, Workers};
use crate::schema::Schema;
use crate::snapshot::{Registry, Snapshot};
use crate::stall::Stall;
use crate::stats::{Counters, Stats};
use crate::table::Table;
use crate::tablet::Tablet;
use crate::transaction::{self, Transaction};
use crate::view::TabletView;

/// An open storage engine: tables in a directory.
///
/// A handle: cheap to clone, for any number of threads. When the last handle of the engine and of its tables is
/// dropped, the engine closes: it flushes what is in memory, syncs, and lets go of the directory. [`Engine::close`]
/// does so at once and says whether it worked. A program that ends without either loses nothing that was
/// acknowledged: the next open replays the log.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, Options, Schema, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
/// let people = engine.open_or_create_table("people", schema)?;
/// people.upsert((1, "Ada"))?;
/// engine.close()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
    report: Arc<RecoveryReport>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("dir", &self.core().files.dir).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the database in `dir`, or makes one there if [`Options::create_if_missing`] says so.
    ///
    /// Recovers what the last process left: every acknowledged batch is there, whole. Takes as long as it takes to
    /// replay at most [`Options::log_bytes_max`] of log, usually far less. [`Engine::recovery_report`] says what was found.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// use nyala::{Durability, Engine, ErrorKind, Options};
    /// let options = Options { memory_bytes: 64 << 20, default_durability: Durability::Sync, ..Options::default() };
    /// let engine = Engine::open(&path, options)?; // Makes it.
    /// assert_eq!(Engine::open(&path, Options::default()).unwrap_err().kind(), ErrorKind::Locked);
    /// engine.close()?;
    ///
    /// let must_be_there = Options { create_if_missing: false, ..Options::default() };
    /// let engine = Engine::open(&path, must_be_there)?;
    /// assert_eq!(engine.recovery_report().replayed_operations, 0, "it was closed");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for options that contradict themselves, and for a directory without a database, or no directory
    /// at all, if none is to be made; `Locked` if the database is open already, here or in another process,
    /// `UnsupportedFormat` if a newer version wrote it, `Corruption` if it is damaged or is not a database, `ReadOnly`,
    /// `NoSpace`, `Io`. The directory is as before then, but for `LOCK` and for files that nothing names; those that the
    /// open wrote are removed again, so that one which is repeated on a full disk takes no more.
    pub fn open(dir: impl AsRef<Path>, mut options: Options) -> Result<Engine, Error> {
        let dir = dir.as_ref();
        options.validate()?;
        let _span = tracing::info_span!("recovery", dir = %dir.display(), read_only = false).entered();
        recovery::prepare_directory(&*options.fs, dir, options.create_if_missing)?;
        // A newer format is refused before even the lock is taken.
        let current = manifest::read_current(&*options.fs, dir)?;
        if current.is_none() && !options.create_if_missing {
            recovery::check_creatable(&options, dir)?;
        }
        let lock = recovery::lock(&*options.fs, dir)?;
        let cache = sstable::Cache::new(options.cache_bytes());
        let recovered = recovery::recover(&options, dir, &cache)?;
        let events = Arc::new(Events::new(dir, options.listener.take()));
        let health = HealthCell::new(Arc::clone(&events));
        let (core, report) = assemble(options, recovered, cache, health, events, lock);
        compaction::note_debt(&core, core.catalog.all().iter().map(|table| &table.tablet));
        let handle = Arc::new(Handle { core: Arc::clone(&core) });
        background::start(&core)?;
        // Debt from before is worked off without a new flush.
        core.signals.compaction.set();
        Ok(Engine { handle, report })
    }

    /// Opens the database in `dir` for reading only, whoever else has it open, and changes not a byte of the directory.
    ///
    /// It takes no lock, so that a writer beside it, in this process or another, notices nothing. It sees one state, for as
    /// long as it is open: what had been committed at some moment during this call, with every commit that returned before
    /// it. For later ones open again. A database that was not closed is read as its next open would recover it.
    ///
    /// What the log holds is kept in memory, since nothing can be flushed: about as much as
    /// [`log_bytes_max`](Options::log_bytes_max) of who writes it, on top of [`memory_bytes`](Options::memory_bytes),
    /// half of which is for blocks. Each table has it in one memtable, however little memory there is. The files that
    /// it reads stay open, and on the disk, until it is closed, also if the writer deletes them meanwhile.
    ///
    /// Every write answers `ReadOnly`. Of the options [`fs`](Options::fs), [`memory_bytes`](Options::memory_bytes),
    /// [`runtime`](Options::runtime) (its clock), [`keys_in_errors`](Options::keys_in_errors) and the bounds of batches are
    /// used, and no other. All of them must be valid.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path();
    /// use nyala::{Engine, ErrorKind, Options, Schema, Type};
    /// let writer = Engine::open(dir, Options::default())?;
    /// let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// writer.create_table("people", schema)?.upsert((1, "Ada"))?;
    ///
    /// let reader = Engine::open_read_only(dir, Options::default())?;
    /// let people = reader.existing_table("people")?;
    /// writer.existing_table("people")?.upsert((2, "Grace"))?;
    /// assert_eq!(people.count()?, 1);
    /// assert_eq!(people.upsert((3, "Edsger")).unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if there is no database, or no such directory, `UnsupportedFormat` if a newer version wrote it,
    /// `Corruption`, `Io`. Beside a writer that is so quick that no state could be had in a hundred tries, the last try's.
    pub fn open_read_only(dir: impl AsRef<Path>, mut options: Options) -> Result<Engine, Error> {
        let dir = dir.as_ref();
        options.validate()?;
        let _span = tracing::info_span!("recovery", dir = %dir.display(), read_only = true).entered();
        let cache = sstable::Cache::new(options.cache_bytes());
        let recovered = recovery::open_read_only(&options, dir, &cache)?;
        // From here on the directory stands still.
        options.fs = Arc::clone(&recovered.parts.files.fs);
        options.listener = None;
        let health = HealthCell::read_only();
        let (core, report) = assemble(options, recovered, cache, health, Arc::default(), Box::new(NoLock));
        let replayed = core.catalog.all().iter().map(|table| table.tablet.memory().bytes).sum();
        core.stall.grow(replayed);
        compaction::note_debt(&core, core.catalog.all().iter().map(|table| &table.tablet));
        Ok(Engine { handle: Arc::new(Handle { core }), report })
    }

    /// Whether it was opened by [`Engine::open_read_only`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.core().health.is_read_only()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// What the open found and did.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

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
        let made = std::cell::OnceCell::new();
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

    /// An empty batch.
    #[must_use]
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(Arc::clone(&self.handle))
    }

    /// A transaction that begins now, see [`Transaction`]. [`Engine::transact`] tries again after conflicts.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.handle))
    }

    /// Runs a transaction and commits it, with
    /// [`Options::default_durability`](crate::Options::default_durability). After a conflict it is run again, from the
    /// start, in a new transaction: up to 100 times, with short pauses, so that of several that want the same rows one
    /// gets through each time. Returns what the last run returned.
    ///
    /// `run` should do nothing that must not be done twice. If it returns an error nothing is written, and the error is
    /// returned. To give up without one, [clear](Transaction::clear) the transaction and return whatever says so.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use nyala::{Engine, Options, Schema, Type};
    /// let engine = Engine::open(dir.path(), Options::default())?;
    /// let schema = Schema::builder().key("name", Type::String).column("value", Type::U64).build()?;
    /// let counters = engine.open_or_create_table("counters", schema)?;
    /// let next = engine.transact(|transaction| {
    ///     let row = transaction.get(&counters, ("orders",))?;
    ///     let next: u64 = row.map_or(Ok(0), |row| row.get("value"))? + 1;
    ///     transaction.upsert(&counters, ("orders", next))?;
    ///     Ok(next)
    /// })?;
    /// assert_eq!(next, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `run`; `Conflict` if all attempts met one; else as for [`Transaction::commit`]. Nothing is written then, and
    /// the call can be repeated: after `NoSpace`, for one, once there is space and after [`Engine::resume`].
    pub fn transact<T>(&self, run: impl FnMut(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        self.transact_with(self.core().options.default_durability, transaction::ATTEMPTS, run)
    }

    /// [`Engine::transact`] with another durability, and at most so many attempts.
    ///
    /// # Errors
    /// As for [`Engine::transact`]; `InvalidArgument` for 0 attempts.
    pub fn transact_with<T>(
        &self,
        durability: Durability,
        attempts: u32,
        run: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        transaction::transact(&self.handle, durability, attempts, run)
    }

    /// A snapshot of all tables: what is visible now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.core().registry.take()
    }

    /// Makes every write that was acknowledged so far survive a loss of power. Of several threads that call it, one syncs for
    /// all.
    ///
    /// # Errors
    /// `Io`, which also means that the engine takes no more writes; `NoSpace` and `Io` of an earlier failure; `ReadOnly`,
    /// `Closed`.
    pub fn sync(&self) -> Result<(), Error> {
        self.core().health.check_writable()?;
        self.core().sync_visible()
    }

    /// Returns when a commit and all before it survive a loss of power. Syncs the log if need be; of several threads that
    /// wait, one syncs for all.
    ///
    /// A ticket is of one database: one that a [checkpoint](Engine::checkpoint) was made of gives the same numbers to other
    /// commits from then on, see [`Ticket`].
    ///
    /// # Errors
    /// `InvalidArgument` for a ticket of no commit, or of one that the last open did not find again, as far as the number
    /// tells; `Io`, which also means that the engine takes no more writes; `ReadOnly` for what only its writer can sync;
    /// `Closed`.
    pub fn wait_durable(&self, ticket: Ticket) -> Result<(), Error> {
        self.core().wait_durable(ticket.version())
    }

    /// The ticket of the last commit that survives a loss of power, as do all before it. It grows with each sync: those of
    /// [`Durability::Sync`](crate::Durability::Sync), [`Engine::sync`] and [`Engine::wait_durable`], of flushes, and of
    /// the background. Compare it with tickets of this life of the database; of earlier ones, those up to
    /// [`Engine::recovered_to`] are durable, and the others are lost.
    #[must_use]
    pub fn last_durable(&self) -> Ticket {
        Ticket::new(self.core().last_durable())
    }

    /// The ticket of the last commit that readers see: every write that has returned has this ticket or an earlier one. So
    /// it also serves for writes that give none themselves, such as [`Table::upsert`].
    #[must_use]
    pub fn last_committed(&self) -> Ticket {
        Ticket::new(self.core().last_committed())
    }

    /// The ticket of the last commit that this open found: it and all before it have survived, those of earlier lives
    /// that are above it have not. It stays the same until the next open. [`Ticket::default`] for a new database.
    ///
    /// After a [`repair`](crate::repair()) it is the last commit of which anything was found; what of it and of those
    /// before is lost is told by the repair's report. In a checkpoint it is the last commit that is in it
    /// ([`CheckpointReport::version`]), until it is written to.
    #[must_use]
    pub fn recovered_to(&self) -> Ticket {
        self.report.recovered_to
    }

    /// Writes everything that is in memory to rowsets and index runs, and waits for it. Not needed for durability:
    /// the log has that. Afterwards an open has nothing to replay of it.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn flush(&self) -> Result<(), Error> {
        let core = self.core();
        core.health.check_writable()?;
        let tablets: Vec<_> = core.catalog.all().iter().map(|table| Arc::clone(&table.tablet)).collect();
        flush::flush_and_wait(core, &tablets)
    }

    /// How big, how far behind, why slow, and whether healthy: numbers about the engine and its tables. Lists the directory,
    /// so it is for now and then and not for each request.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("id", Type::U64).build()?;
    /// # engine.open_or_create_table("people", schema)?.upsert((1,))?;
    /// let stats = engine.stats();
    /// assert_eq!((stats.operations, stats.tables[0].name.as_str()), (1, "people"));
    /// println!("{stats}"); // Some lines for people.
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self.core())
    }

    /// Whether the engine takes writes, and the first cause if not.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
    /// use nyala::Health;
    /// match engine.health() {
    ///     Health::Healthy => {}
    ///     Health::NoSpace(_) => engine.resume()?, // Once there is space again.
    ///     Health::Poisoned(cause) => panic!("close and open again: {cause}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        self.core().health.report()
    }

    /// Takes writes again after `NoSpace`. If the disk is still full, the next write says so again. Does nothing to an engine
    /// that is healthy.
    ///
    /// # Errors
    /// The cause, if the engine is poisoned; `ReadOnly`, `Closed`.
    pub fn resume(&self) -> Result<(), Error> {
        self.core().health.resume()?;
        self.core().signals.flush.set();
        self.core().signals.compaction.set();
        self.core().run_inline_flushes();
        self.core().tell_inline();
        Ok(())
    }

    /// Reads everything on disk and checks it: every checksum, the order of every file, that every index entry leads
    /// to its row and version, and that the counts are right. Takes as long as reading it all; writes go on.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
    /// let report = engine.check()?;
    /// for problem in &report.problems {
    ///     println!("{problem}");
    /// }
    /// assert!(report.is_clean());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Closed`, `Io`. Damage is no error of the check: it is in the report.
    pub fn check(&self) -> Result<CheckReport, Error> {
        check::check(self.core())
    }

    /// Copies the database to another directory, as of now, while writers go on: a backup that opens like any other
    /// database.
    ///
    /// Every commit that returned before this call is in it, and of those under way a prefix in the order of commits: what
    /// it holds is what the database held at one moment. It is durable when this returns, buffered commits included. What
    /// is written later to either never shows in the other. The directory must be missing or empty, and may lie on another
    /// disk. Index files and rowsets are hard-linked where that is possible, so that a checkpoint on the same file system
    /// takes little time and space; the report says which. Obsolete files are not deleted meanwhile.
    ///
    /// A checkpoint that fails leaves an empty directory; one that is interrupted, or whose rest cannot be removed, a
    /// directory that does not open. Neither concerns this engine, which goes on either way. It works without space for
    /// writes as well ([`Health::NoSpace`]), but not after a failure that leaves open what is on disk.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let backup = dir.path().join("monday");
    /// # let dir = dir.path().join("data");
    /// use nyala::{Engine, Options, Schema, Type};
    /// let engine = Engine::open(&dir, Options::default())?;
    /// let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
    /// let people = engine.open_or_create_table("people", schema)?;
    /// people.upsert((1, "Ada"))?;
    /// let report = engine.checkpoint(&backup)?;
    /// people.upsert((2, "Grace"))?;
    ///
    /// println!("{} files linked, {} copied", report.linked_files, report.copied_files);
    /// let copy = Engine::open(&backup, Options::default())?;
    /// assert_eq!(copy.existing_table("people")?.count()?, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the directory is not empty; `NoSpace`, `ReadOnly`, `Io` for what its disk says, and `Io` for
    /// what cannot be read here; `Locked`; `Closed`, also if the engine is closed meanwhile.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport, Error> {
        checkpoint::checkpoint(self.core(), dir.as_ref())
    }

    /// Flushes, syncs, ends the threads and lets go of the directory. Calls on other handles answer `Closed` from
    /// then on. Closing twice is fine.
    ///
    /// # Errors
    /// `NoSpace` or `Io` if what is in memory could not be written out. It is in the log then, as far as the log took
    /// it, and the engine is closed nevertheless.
    pub fn close(&self) -> Result<(), Error> {
        close(self.core())
    }
}

/// What holds an engine open that takes no lock.
#[derive(Debug)]
struct NoLock;

impl vfs::Lock for NoLock {}

/// An engine of its parts, without threads.
fn assemble(
    options: Options,
    recovered: Recovered,
    cache: Arc<sstable::Cache>,
    health: HealthCell,
    events: Arc<Events>,
    lock: Box<dyn vfs::Lock>,
) -> (Arc<Core>, Arc<RecoveryReport>) {
    let Recovered { parts, report } = recovered;
    let visible = Version(parts.first_version.0 - 1);
    let clock = Clock::of(options.runtime);
    let seed = match options.runtime {
        RuntimeMode::Threads => 0,
        RuntimeMode::Inline { seed } => seed,
    };
    // Of an engine that reads only, memory slows nobody.
    let memtable_bytes_max = if health.is_read_only() { usize::MAX } else { options.memtable_bytes_max() };
    let core = Core {
        stall: Stall::new(memtable_bytes_max).telling(Arc::clone(&events)),
        options,
        files: parts.files,
        cache,
        log: parts.log,
        manifest: parts.manifest,
        registry: Arc::new(Registry::new(visible)),
        recovered_to: report.recovered_to.version(),
        found_durable: parts.durable,
        first_version: parts.first_version,
        catalog: parts.catalog,
        commit: Commit::new(parts.first_version, parts.ceiling),
        health,
        events,
        published: Published::default(),
        clock,
        chance: Chance::new(seed),
        workers: Workers::default(),
        teller: Workers::default(),
        signals: Signals::default(),
        backoff: Backoff::default(),
        compaction_permits: Permits::default(),
        counters: Counters::default(),
        buffers: BufferPool::default(),
        memory_turn: Mutex::default(),
        inline_turn: Mutex::default(),
        callers: RwLock::default(),
        lock: Mutex::new(Some(lock)),
    };
    (Arc::new(core), Arc::new(report))
}

/// Closes: no more writes, then everything out, then the lock.
pub(crate) fn close(core: &Core) -> Result<(), Error> {
    // Who holds the lock's cell closes; a second caller waits for the first.
    let mut lock = core.lock.lock();
    if lock.is_none() {
        return Ok(());
    }
    let is_read_only = core.health.is_read_only();
    let refused = core.health.check_writable().err();
    core.health.close();
    if is_read_only {
        *lock = None;
        return Ok(());
    }
    core.workers.stop();
    for table in core.catalog.all() {
        table.tablet.compacting.end();
    }
    core.signals.end();
    core.workers.join();
    core.stall.end();
    let callers = core.callers.write();
    // A worker that failed on its way out leaves nothing that could be gone on with.
    let refused = refused.or_else(|| core.health.is_poisoned().then(|| core.health.cause()).flatten());
    // A leader that was in the stage is through; whoever comes later is refused.
    let stage = core.commit.stage();
    let tablets: Vec<_> = core.catalog.all().iter().map(|table| Arc::clone(&table.tablet)).collect();
    for tablet in &tablets {
        tablet.seal();
    }
    drop(stage);
    let result = match refused {
        None => write_rest(core),
        Some(cause) if tablets.iter().any(|tablet| tablet.last_unflushed().is_some()) => Err(cause),
        Some(_) => Ok(()),
    };
    drop(callers);
    *lock = None;
    drop(lock);
    // With nothing held: a listener that closes as well finds it done.
    core.events.end();
    core.teller.stop();
    core.teller.join();
    core.events.deliver();
    metrics::publish(core, &core.published);
    result
}

/// Flushes what is left, and leaves a log that says that it is whole.
fn write_rest(core: &Core) -> Result<(), Error> {
    // The next open has nothing to read of what is flushed.
    let end_log = || idle_log::leave_behind(core);
    let flushed = flush::flush_rest(core).and_then(|()| flush::patiently(core, end_log));
    if flushed.is_ok()
        && let Err(error) = core.log.reserve(0)
    {
        tracing::debug!(%error, "space that the log had taken ahead stays taken");
    }
    core.files.delete_obsolete(&core.cache, &core.events);
    flushed
}

impl Core {
    /// Syncs the log through everything that is visible, or will be before a later commit.
    pub(crate) fn sync_visible(&self) -> Result<(), Error> {
        self.log.sync(self.log.end()).map_err(|error| {
            let error = Error::from(error);
            self.health.poison(&error);
            error
        })
    }
}
