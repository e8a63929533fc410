//! Opens an engine.
//!
//! Owns the order: what is on disk is recovered, the parts are put together, and then threads start. An engine that
//! reads only has neither threads nor a lock.

use std::path::Path;
use std::sync::Arc;

use codec::Version;
use sync::{Mutex, RwLock};

use super::Engine;
use crate::background;
use crate::batch::BufferPool;
use crate::commit::Commit;
use crate::compaction::{self, Backoff, Permits};
use crate::core::{Core, Handle, Signals};
use crate::error::Error;
use crate::events::Events;
use crate::health::HealthCell;
use crate::manifest;
use crate::metrics::Published;
use crate::options::{Options, RuntimeMode};
use crate::recovery::{self, Recovered, RecoveryReport};
use crate::runtime::{Chance, Clock, Workers};
use crate::snapshot::Registry;
use crate::stall::Stall;
use crate::stats::Counters;

impl Engine {
    /// Opens the database in `dir`, or makes one there if [`Options::create_if_missing`] says so.
    ///
    /// Recovers what the last process left: every acknowledged batch is there, whole. Takes as long as it takes to
    /// replay at most [`Options::log_bytes_max`] of log, usually far less. [`Engine::recovery_report`] says what was
    /// found.
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
    /// `InvalidArgument` for options that contradict themselves, and for a directory without a database, or no
    /// directory at all, if none is to be made; `Locked` if the database is open already, here or in another process,
    /// `UnsupportedFormat` if a newer version wrote it, `Corruption` if it is damaged or is not a database, `ReadOnly`,
    /// `NoSpace`, `Io`. The directory is as before then, but for `LOCK` and for files that nothing names; those that
    /// the open wrote are removed again, so that one which is repeated on a full disk takes no more.
    pub fn open(dir: impl AsRef<Path>, mut options: Options) -> Result<Engine, Error> {
        let dir = dir.as_ref();
        options.validate()?;
        let _span = tracing::info_span!("recovery", dir = %dir.display(), read_only = false).entered();
        if options.create_if_missing {
            recovery::make_directory(&*options.fs, dir)?;
        } else {
            recovery::find_directory(&*options.fs, dir)?;
        }
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
    /// It takes no lock, so that a writer beside it, in this process or another, notices nothing. It sees one state,
    /// for as long as it is open: what had been committed at some moment during this call, with every commit that
    /// returned before it. For later ones open again. A database that was not closed is read as its next open would
    /// recover it.
    ///
    /// What the log holds is kept in memory, since nothing can be flushed: about as much as
    /// [`log_bytes_max`](Options::log_bytes_max) of who writes it, on top of [`memory_bytes`](Options::memory_bytes),
    /// half of which is for blocks. Each table has it in one memtable, however little memory there is. The files that
    /// it reads stay open, and on the disk, until it is closed, also if the writer deletes them meanwhile.
    ///
    /// Every write answers `ReadOnly`. Of the options [`fs`](Options::fs), [`memory_bytes`](Options::memory_bytes),
    /// [`runtime`](Options::runtime) (its clock), [`keys_in_errors`](Options::keys_in_errors) and the bounds of batches
    /// are used, and no other. All of them must be valid.
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
    /// `InvalidArgument` if there is no database, or no such directory, `UnsupportedFormat` if a newer version wrote
    /// it, `Corruption`, `Io`. Beside a writer that is so quick that no state could be had in a hundred tries, the last
    /// try's.
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
        recovered_to: report.recovered_to,
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
