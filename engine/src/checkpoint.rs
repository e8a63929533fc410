//! Checkpoints: the database as of one commit, in another directory, while writers go on.
//!
//! Owns the barrier between what is in a checkpoint and what is not, and the order in which the target becomes a
//! database. Files that never change, index files and rowsets, are linked, or copied where no link can be; the log is
//! copied up to the barrier, and manifest and `CURRENT` are written anew.
//!
//! | step | why there |
//! |---|---|
//! | directory, `LOCK`, a `CURRENT` that says that it is not finished, all of it synced | whatever stops the rest leaves no database |
//! | deletions are held back | what the barrier names must stay until it is linked |
//! | the barrier: the state of the manifest and the end of the log in one moment | no edit says what the log's copy does not |
//! | links and copies, each copy synced; the directory synced | what the manifest names is on disk before it |
//! | manifest and `CURRENT.tmp` synced, renamed, the directory synced | as at every open |
//!
//! Invariant: the source is not written to, and its health does not depend on the target's disk.
//! Invariant: until the last rename the target does not open.
//!
//! Lock order: callers, for all of it, so that closing waits; then manifest and commit's stage, for the barrier alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codec::{FileId, Version};
use vfs::{Advice, Fs};
use wal::SegmentInfo;

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::files::{CURRENT, CURRENT_TEMPORARY, FileKind, Files, LOCK, file_name, parse_name, path};
use crate::manifest::{self, Manifest, State, Unfinished};
use crate::recovery::{self, Listing};

/// What is copied in one call.
const COPY_BYTES: usize = 1 << 20;

/// What a checkpoint took, and how. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The version of the last commit in it: what [`Engine::recovered_to`](crate::Engine::recovered_to) says of it,
    /// until it is written to. Every commit up to it is in it, no later one.
    pub version: Version,
    /// Index files and rowsets that are the source's own, under a second name: they take no space until the source
    /// drops them.
    pub linked_files: u64,
    /// Their size.
    pub linked_bytes: u64,
    /// Index files and rowsets that were copied, since the target lies on another file system, or on one without links.
    pub copied_files: u64,
    /// Their size.
    pub copied_bytes: u64,
    /// Segments of the log, which are always copied.
    pub log_segments: u64,
    /// Their size.
    pub log_bytes: u64,
    /// How long it took.
    pub duration: Duration,
}

/// Makes a checkpoint in `target`.
pub(crate) fn checkpoint(core: &Core, target: &Path) -> Result<CheckpointReport, Error> {
    let start = core.clock.now();
    let _caller = core.callers.read();
    check_source(core)?;
    let about = |error: Error| error.context(format_args!("a checkpoint in {}", target.display()));
    let target = Target::begin(&core.options.fs, target).map_err(about)?;
    let made = {
        let _hold = core.files.hold_deletions();
        fill(core, &target, &Barrier::set(core))
    };
    // What was held back can go.
    core.signals.housekeeping.set();
    let mut report = made.map_err(|error| {
        target.abandon();
        about(error)
    })?;
    report.duration = core.clock.now().saturating_sub(start);
    Ok(report)
}

/// What of a poisoned engine's log would survive is for its next open to find out.
fn check_source(core: &Core) -> Result<(), Error> {
    core.health.check_open()?;
    if core.health.is_poisoned() { core.health.check_writable() } else { Ok(()) }
}

/// What is in a checkpoint.
struct Barrier {
    state: State,
    segments: Vec<SegmentInfo>,
    version: Version,
    /// Above every number in the source.
    next_file: FileId,
}

impl Barrier {
    /// With the manifest held there is no edit, and with the stage no commit under way: the state holds nothing that is
    /// not in the log up to here or was before it, and the log speaks of no table that the state does not know.
    fn set(core: &Core) -> Barrier {
        core.manifest.with_state(|state| {
            // Before writers have to wait: without an edit it stays the same.
            let mut state = state.clone();
            let stage = core.commit.stage();
            let end = core.log.end();
            let mut segments = core.log.segments();
            segments.retain(|segment| segment.id >= state.log_start);
            // The copy is synced, all of it: damage in it is never taken for a torn tail.
            state.attested = Some(end);
            let version = stage.last_commit().unwrap_or(core.recovered_to);
            Barrier { state, segments, version, next_file: core.files.next_unused() }
        })
    }
}

/// Brings everything to the target and makes it a database.
fn fill(core: &Core, target: &Target<'_>, barrier: &Barrier) -> Result<CheckpointReport, Error> {
    let mut report = CheckpointReport { version: barrier.version, ..CheckpointReport::default() };
    for (kind, info) in barrier.state.files() {
        let is_linked = target.link(core, info.id, kind)?;
        if is_linked {
            report.linked_files += 1;
            report.linked_bytes += info.len;
        } else {
            target.copy(core, info.id, kind, info.len)?;
            report.copied_files += 1;
            report.copied_bytes += info.len;
        }
    }
    for segment in &barrier.segments {
        target.copy(core, segment.id, FileKind::Log, segment.bytes)?;
        report.log_segments += 1;
        report.log_bytes += segment.bytes;
    }
    target.sync_dir()?;
    // A sync of the log that failed meanwhile leaves open what of the copy was ever committed.
    check_source(core)?;
    target.put_in_force(barrier)?;
    Ok(report)
}

/// The directory that becomes a database.
struct Target<'a> {
    fs: &'a Arc<dyn Fs>,
    dir: &'a Path,
    _lock: Box<dyn vfs::Lock>,
}

impl<'a> Target<'a> {
    /// Makes the directory, which must be missing or empty, and has it say that it is not finished.
    fn begin(fs: &'a Arc<dyn Fs>, dir: &'a Path) -> Result<Target<'a>, Error> {
        check_empty(&**fs, dir, &[])?;
        recovery::make_directory(&**fs, dir)?;
        recovery::sync_way(&**fs, dir)?;
        let lock = recovery::lock(&**fs, dir)?;
        let target = Target { fs, dir, _lock: lock };
        // Somebody else may have been faster.
        if let Err(error) = check_empty(&**fs, dir, &[LOCK]) {
            target.leave();
            return Err(error);
        }
        match manifest::mark_unfinished(&**fs, dir, Unfinished::Checkpoint) {
            Ok(()) => Ok(target),
            Err(error) => {
                target.abandon();
                Err(error)
            }
        }
    }

    /// Leaves the directory as it is, but for `LOCK` if nothing of a database is beside it: else it is that one's.
    fn leave(&self) {
        let is_ours = |name: &str| parse_name(name).is_some() || [CURRENT, CURRENT_TEMPORARY].contains(&name);
        let removed = match self.fs.list(self.dir) {
            Ok(entries) if entries.iter().any(|entry| entry.name.to_str().is_some_and(is_ours)) => Ok(()),
            Ok(_) => self.remove(LOCK),
            Err(error) => Err(Error::io("listing the directory", error)),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, dir = %self.dir.display(), "LOCK may be left of a checkpoint that failed");
        }
    }

    /// Gives a file of the source a name here. False if there can be none.
    fn link(&self, core: &Core, id: FileId, kind: FileKind) -> Result<bool, Error> {
        check_not_closing(core)?;
        match self.fs.hard_link(&core.files.path(id, kind), &path(self.dir, id, kind)) {
            Ok(()) => Ok(true),
            Err(error) if vfs::is_not_linkable(&error) => Ok(false),
            Err(error) => Err(Error::io_write(format_args!("linking {}", file_name(id, kind)), error)),
        }
    }

    /// Copies the first `len` bytes of a file of the source, and syncs the copy.
    fn copy(&self, core: &Core, id: FileId, kind: FileKind, len: u64) -> Result<(), Error> {
        let name = file_name(id, kind);
        let reading = |error| Error::io(format_args!("reading {name}"), error);
        let writing = |error| Error::io_write(format_args!("copying {name}"), error);
        let from = self.fs.open(&core.files.path(id, kind)).map_err(reading)?;
        let to = self.fs.create(&path(self.dir, id, kind)).map_err(writing)?;
        from.advise(Advice::Sequential, 0, len);
        let mut buffer = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(COPY_BYTES)];
        let mut at = 0;
        while at < len {
            check_not_closing(core)?;
            let part = usize::try_from(len - at).unwrap_or(usize::MAX).min(COPY_BYTES);
            from.read_exact_at(&mut buffer[..part], at).map_err(reading)?;
            to.write_all_at(&buffer[..part], at).map_err(writing)?;
            // A hint, so that the sync at the end, which others wait behind, has little to do.
            let _ = to.start_writeback(at, part as u64);
            at += part as u64;
        }
        to.sync().map_err(|error| Error::sync(format_args!("syncing the copy of {name}"), error))
    }

    fn sync_dir(&self) -> Result<(), Error> {
        self.fs.sync_dir(self.dir).map_err(|error| Error::sync("syncing the directory", error))
    }

    /// The manifest, then `CURRENT`.
    fn put_in_force(&self, barrier: &Barrier) -> Result<(), Error> {
        let files = Arc::new(Files::new(Arc::clone(self.fs), self.dir, barrier.next_file));
        Manifest::prepare(&files, barrier.state.clone())?.put_in_force()
    }

    /// Removes what was begun, but for the directory itself, so that it can be tried again there. `CURRENT` goes last:
    /// whatever it says, what is left of the rest does not open.
    fn abandon(&self) {
        let clear = || -> Result<(), Error> {
            let listing = Listing::read(&**self.fs, self.dir)?;
            for &(id, kind) in &listing.numbered {
                self.remove(&file_name(id, kind))?;
            }
            self.remove(CURRENT_TEMPORARY)?;
            self.sync_dir()?;
            self.remove(CURRENT)?;
            self.remove(LOCK)
        };
        if let Err(error) = clear() {
            tracing::warn!(%error, dir = %self.dir.display(), "what is left of a checkpoint that failed could not be removed");
        }
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        match self.fs.remove(&self.dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io_write(format_args!("removing {name}"), error))
            }
            _ => Ok(()),
        }
    }
}

/// Closing does not wait for a copy of gigabytes.
fn check_not_closing(core: &Core) -> Result<(), Error> {
    if core.workers.stopping().load(Ordering::Acquire) {
        return Err(Error::new(ErrorKind::Closed, "the engine is being closed"));
    }
    Ok(())
}

/// Nothing lies in the directory but what is `allowed`, if there is one at all.
fn check_empty(fs: &dyn Fs, dir: &Path, allowed: &[&str]) -> Result<(), Error> {
    match fs.list(dir) {
        Ok(entries) => match entries.iter().find(|entry| !allowed.iter().any(|name| entry.name == **name)) {
            None => Ok(()),
            Some(entry) => {
                Err(Error::invalid(format!("the directory is not empty: it holds {:?}", entry.name)))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("listing the directory", error)),
    }
}
