//! The engine's handle: what a program opens, and what it asks the whole database for.
//!
//! Owns nothing but the way to the [`Core`]: each part keeps its own invariants.
//!
//! | what | where |
//! |---|---|
//! | opening, for writing and for reading only | `engine/open.rs` |
//! | making, finding and dropping tables | `engine/tables.rs` |
//! | what is durable, and from when on | `engine/durability.rs` |
//! | closing | `engine/close.rs` |

mod close;
mod durability;
mod open;
mod tables;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::check::{self, CheckReport};
use crate::checkpoint::{self, CheckpointReport};
use crate::core::{Core, Handle};
use crate::error::Error;
use crate::health::Health;
use crate::options::Durability;
use crate::recovery::RecoveryReport;
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::transaction::{self, Transaction};

pub(crate) use close::close;

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
    /// Whether it was opened by [`Engine::open_read_only`]; also once it is closed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.core().health.is_read_only()
    }

    /// The directory that it was opened in, as it was given.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.core().files.dir
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// What the open found and did.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// An empty batch.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(Arc::clone(&self.handle))
    }

    /// A transaction that begins now, see [`Transaction`]. [`Engine::transact`] tries again after conflicts.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.handle))
    }

    /// Runs a transaction and commits it, with
    /// [`Options::default_durability`](crate::Options::default_durability). If the commit
    /// fails for a reason that [may pass](Error::is_transient), a conflict above all, it is run again, from the start,
    /// in a new transaction: up to 100 times, with short pauses, so that of several that want the same rows one gets
    /// through each time. Returns what the last run returned.
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
    /// Those of `run`; that of the last commit, `Conflict` as a rule, if none of the attempts got through; else as for
    /// [`Transaction::commit`]. Nothing is written then, and the call can be repeated: after `NoSpace`, for one, once
    /// there is space and after [`Engine::resume`].
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

    /// How big, how far behind, why slow, and whether healthy: numbers about the engine and its tables. Lists the
    /// directory, so it is for now and then and not for each request.
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
    pub fn health(&self) -> Health {
        self.core().health.report()
    }

    /// Takes writes again after `NoSpace`. If the disk is still full, the next write says so again. Does nothing to an
    /// engine that is healthy.
    ///
    /// # Errors
    /// The cause, if the engine is poisoned; `ReadOnly`, `Closed`.
    pub fn resume(&self) -> Result<(), Error> {
        let core = self.core();
        core.door(|| {
            core.health.resume()?;
            core.signals.flush.set();
            core.signals.compaction.set();
            core.run_inline_flushes();
            Ok(())
        })
    }

    /// Reads everything on disk and checks it: every checksum, the order of every file, that every index entry leads to
    /// its row and version, and that the counts are right. Takes as long as reading it all; writes go on. An engine
    /// that is open for reading only checks what it sees, and tells of [files](CheckReport::extra_files) that nothing
    /// names there.
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
    /// Every commit that returned before this call is in it, and of those under way a prefix in the order of commits:
    /// what it holds is what the database held at one moment. It is durable when this returns, buffered commits
    /// included. What is written later to either never shows in the other. The directory must be missing or empty, and
    /// may lie on another disk. Index files and rowsets are hard-linked where that is possible, so that a checkpoint on
    /// the same file system takes little time and space; the report says which. Obsolete files are not deleted
    /// meanwhile.
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
    /// `InvalidArgument` if the directory is not empty; `NoSpace`, `ReadOnly`, `Io` for what its disk says, and `Io`
    /// for what cannot be read here; `Locked`; `ReadOnly` also of an engine that is open for reading only; `Closed`,
    /// also if the engine is closed meanwhile.
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
