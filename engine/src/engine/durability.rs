//! What is durable, and from when on.
//!
//! Owns the questions and the way to the one log that answers them.

use std::sync::Arc;

use codec::Version;

use super::Engine;
use crate::core::Core;
use crate::error::Error;
use crate::flush;

impl Engine {
    /// Makes every write that was acknowledged so far survive a loss of power. Of several threads that call it, one
    /// syncs for all.
    ///
    /// # Errors
    /// `Io`, which also means that the engine takes no more writes; `NoSpace` and `Io` of an earlier failure;
    /// `ReadOnly`, `Closed`.
    pub fn sync(&self) -> Result<(), Error> {
        let core = self.core();
        core.health.check_writable()?;
        core.door(|| core.sync_visible())
    }

    /// Returns when a commit and all before it survive a loss of power. Syncs the log if need be; of several threads
    /// that wait, one syncs for all.
    ///
    /// A version is of one database: one that a [checkpoint](Engine::checkpoint) was made of gives the same numbers to
    /// other commits from then on, see [`Version`]. That something is durable is answered also when the engine is
    /// closed.
    ///
    /// # Errors
    /// `InvalidArgument` for a version of no commit, or of one that the last open did not find again, as far as the
    /// number tells; `Io`, which also means that the engine takes no more writes; `ReadOnly` for what only its writer
    /// can sync; `Closed`.
    pub fn wait_durable(&self, version: Version) -> Result<(), Error> {
        let core = self.core();
        core.door(|| core.wait_durable(version))
    }

    /// The version of the last commit that survives a loss of power, as do all before it. It grows with each sync:
    /// those of [`Durability::Sync`](crate::Durability::Sync), [`Engine::sync`] and [`Engine::wait_durable`], of
    /// flushes, and of the background. Compare it with versions of this life of the database; of earlier ones, those up
    /// to [`Engine::recovered_to`] are durable, and the others are lost.
    #[must_use]
    pub fn last_durable(&self) -> Version {
        self.core().last_durable()
    }

    /// The version of the last commit that readers see: every write that has returned has this version or an earlier
    /// one. So it also serves for writes that give none themselves, such as [`Table::upsert`](crate::Table::upsert).
    #[must_use]
    pub fn last_committed(&self) -> Version {
        self.core().last_committed()
    }

    /// The version of the last commit that this open found: it and all before it have survived, those of earlier lives
    /// that are above it have not. It stays the same until the next open. 0 for a new database.
    ///
    /// After a [`repair`](crate::repair()) it is the last commit of which anything was found; what of it and of those
    /// before is lost is told by the repair's report. In a checkpoint it is the last commit that is in it
    /// ([`CheckpointReport::version`](crate::CheckpointReport::version)), until it is written to.
    #[must_use]
    pub fn recovered_to(&self) -> Version {
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
