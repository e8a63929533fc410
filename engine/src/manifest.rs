//! The manifest: the log of edits, and the only root of what is on disk.
//!
//! Owns the manifest's log, the state that its edits add up to, and `CURRENT`. Decides nothing: flush, compaction and
//! the tables bring the edits.
//!
//! Invariant: an edit is durable before what it says is published, and published before anything is deleted.
//! Invariant: edits are published in the order in which they stand in the log.
//! Invariant: after a failed append a manifest is never appended to again; the next one starts from the state that
//! was acknowledged.
//!
//! Lock order: the manifest's lock is taken before a tablet's view cell and before the registry's lock. It is held
//! across the manifest's own writes and syncs, which only background work and the making of tables wait for: never a
//! reader, never the leader of a commit. The log is synced before it is taken.

mod current;
mod edit;
mod owner;
#[expect(unreachable_pub, reason = "generated from proto/manifest.proto")]
mod pb;
mod state;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::{FileId, Version};
use sync::Mutex;
use vfs::Fs;
use wal::{Appended, Flavor, Log, Position, Record, Scan};

pub(crate) use current::{Unfinished, mark_unfinished, read as read_current};
#[cfg(feature = "fuzzing")]
pub(crate) use current::{line as current_line, parse as parse_current};
pub(crate) use edit::{Edit, RunDesc, TableDesc, TabletEdit};
pub(crate) use owner::Owner;
pub(crate) use state::{State, TabletState, VERSION_MAX};

use crate::error::{Error, ErrorKind};
use crate::files::{FileKind, Files};

/// A manifest of fewer bytes is never rolled. Most manifests stay within one segment.
const ROLL_BYTES_MIN: u64 = 48 << 10;
const SEGMENT_BYTES: u64 = 64 << 10;
/// The largest record: the whole state of many thousand tables.
const EDIT_BYTES_MAX: u32 = 1 << 30;

/// The options of the manifest's log.
pub(crate) fn log_options(fs: &Arc<dyn Fs>, dir: &Path) -> wal::Options {
    wal::Options {
        fs: Arc::clone(fs),
        dir: dir.to_owned(),
        flavor: Flavor::Manifest,
        segment_bytes: SEGMENT_BYTES,
        record_bytes_max: EDIT_BYTES_MAX,
        trickle_bytes: 0,
    }
}

pub(crate) struct Manifest {
    files: Arc<Files>,
    /// What `Inner::bytes` is, so that nobody waits for an edit to learn it.
    bytes: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    log: Log,
    state: State,
    /// Bytes of edits in this manifest.
    bytes: u64,
    roll_at: u64,
    /// An append failed, or may have: the next edit goes to a new manifest.
    is_torn: bool,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest").finish_non_exhaustive()
    }
}

/// Reads the manifest that starts with segment `id` and adds up its edits. `present` are the manifest segments in the
/// directory. Changes nothing.
pub(crate) fn load(fs: &Arc<dyn Fs>, dir: &Path, id: FileId, present: &[FileId]) -> Result<State, Error> {
    Ok(load_scanned(fs, dir, id, present)?.0)
}

/// Like [`load`], with where the manifest lies.
pub(crate) fn load_scanned(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    id: FileId,
    present: &[FileId],
) -> Result<(State, Scan), Error> {
    if !present.contains(&id) {
        return Err(Error::corruption(format!("{id}.manifest, which CURRENT names, is missing")));
    }
    let options = log_options(fs, dir);
    let scan = wal::scan(&options, id, present)?;
    let mut state = State::default();
    let mut edits = 0;
    let mut replay = scan.replay();
    while let Some(record) = replay.next()? {
        let applied = Edit::decode(record.body).and_then(|edit| state.apply(&edit));
        let Position { segment, offset } = record.position;
        applied.map_err(|error| error.context(format_args!("{segment}.manifest, byte {offset}")))?;
        edits += 1;
    }
    if edits == 0 {
        return Err(Error::corruption(format!("{id}.manifest holds no edit")));
    }
    state.check_whole()?;
    Ok((state, scan))
}

/// What stands at the beginning of a manifest segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The first edit of a manifest, which says all there is.
    Complete,
    /// Nothing: it was prepared, or its making was interrupted.
    Empty,
    /// An edit that another segment goes before.
    Later,
}

/// What stands at the beginning of segment `id`.
///
/// # Errors
/// `Corruption` if that cannot be read.
pub(crate) fn begins_at(fs: &Arc<dyn Fs>, dir: &Path, id: FileId) -> Result<Beginning, Error> {
    let bytes = fs.read(&crate::files::path(dir, id, FileKind::Manifest), u64::from(EDIT_BYTES_MAX) * 2);
    let bytes = bytes.map_err(|error| Error::io("reading a manifest", error))?;
    const HEADER_BYTES: usize = 64;
    if bytes.get(HEADER_BYTES..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0)) {
        return Ok(Beginning::Empty);
    }
    let scan = wal::scan(&log_options(fs, dir), id, &[id])?;
    let mut replay = scan.replay();
    match replay.next()? {
        Some(record) if Edit::decode(record.body)?.is_complete() => Ok(Beginning::Complete),
        Some(_) => Ok(Beginning::Later),
        None => Ok(Beginning::Empty),
    }
}

/// Whether a manifest that no `CURRENT` names speaks of a table: then the directory held data once.
///
/// # Errors
/// `Corruption` if it cannot be read, perhaps because it was never finished.
pub(crate) fn names_a_table(fs: &Arc<dyn Fs>, dir: &Path, id: FileId) -> Result<bool, Error> {
    let scan = wal::scan(&log_options(fs, dir), id, &[id])?;
    let mut replay = scan.replay();
    while let Some(record) = replay.next()? {
        let edit = Edit::decode(record.body)?;
        if !edit.tables.is_empty() || !edit.tablets.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes `state` as a new manifest, with a `CURRENT` that names it, beside what is in force.
fn write_beside(files: &Arc<Files>, state: &mut State) -> Result<(Log, u64), Error> {
    let mut write_one = || {
        let id = files.next_id();
        write_new(files, id, state).inspect_err(|_| {
            // Nothing names it yet: on a full disk, attempts must not pile up.
            files.remove_unfinished([(id, FileKind::Manifest)]);
        })
    };
    // A disk that took a part of it may take all of another one: what is removed makes room.
    match write_one() {
        Err(error) if error.kind() == ErrorKind::NoSpace => write_one(),
        result => result,
    }
}

/// Writes `state` as manifest `id`, and a `CURRENT` that names it.
fn write_new(files: &Arc<Files>, id: FileId, state: &mut State) -> Result<(Log, u64), Error> {
    state.next_file = files.next_unused().max(state.next_file);
    let numbers = Arc::clone(files);
    let log = Log::create(log_options(&files.fs, &files.dir), id, Box::new(move || numbers.next_id()))?;
    let body = state.to_edit().encode();
    // In one file, so that what fails leaves one to remove: of several a power cut could bring some back.
    sync_appended(&log, log.append_in_place(edit_record(&body)))?;
    current::prepare(files, id)?;
    Ok((log, body.len() as u64))
}

fn edit_record(body: &[u8]) -> Record<'_> {
    Record { first_version: Version(0), last_version: Version(0), body }
}

fn sync_appended(log: &Log, appended: Appended) -> Result<(), Error> {
    if let Some(error) = appended.error {
        return Err(error.into());
    }
    log.sync(appended.end)?;
    Ok(())
}

impl Manifest {
    /// Writes `state` as the first edit of a new manifest, which is in force once
    /// [`put_in_force`](Manifest::put_in_force) is called. If it fails, nothing on disk names the new one.
    pub(crate) fn prepare(files: &Arc<Files>, mut state: State) -> Result<Manifest, Error> {
        let (log, bytes) = write_beside(files, &mut state)?;
        let inner = Inner { log, state, bytes, roll_at: roll_at(bytes), is_torn: false };
        Ok(Manifest { files: Arc::clone(files), bytes: AtomicU64::new(bytes), inner: Mutex::new(inner) })
    }

    /// Has `CURRENT` name it, durably. After a failure it may or may not.
    pub(crate) fn put_in_force(&self) -> Result<(), Error> {
        current::put(&self.files)
    }

    /// The manifest as it was read, for whoever writes nothing.
    pub(crate) fn read_only(files: &Arc<Files>, state: State, scan: &Scan) -> Result<Manifest, Error> {
        let (log, bytes) = (Log::read_only(scan)?, scan.record_bytes());
        let inner = Inner { log, state, bytes, roll_at: u64::MAX, is_torn: false };
        Ok(Manifest { files: Arc::clone(files), bytes: AtomicU64::new(bytes), inner: Mutex::new(inner) })
    }

    /// Makes an edit durable, then calls `publish`, before any other edit is published.
    ///
    /// `make` builds the edit from the state in force, or says that there is nothing to do any more. The log must
    /// have been synced through all that the edit makes durable before.
    ///
    /// # Errors
    /// `NoSpace`, and a lack of descriptors that may pass, leave the state as it was. Any other error means that the
    /// edit may or may not be on disk: the caller poisons the engine and deletes nothing.
    pub(crate) fn install<R>(
        &self,
        make: impl FnOnce(&State) -> Result<Option<Edit>, Error>,
        publish: impl FnOnce(&State) -> R,
    ) -> Result<Option<R>, Error> {
        let mut inner = self.inner.lock();
        let Some(mut edit) = make(&inner.state)? else { return Ok(None) };
        edit.next_file = Some(self.files.next_unused());
        // What cannot be read back must never be written.
        inner.state.check(&edit)?;
        if inner.is_torn || inner.bytes >= inner.roll_at {
            self.roll(&mut inner)?;
        }
        let body = edit.encode();
        if let Err(error) = sync_appended(&inner.log, inner.log.append(&[edit_record(&body)])) {
            inner.is_torn = true;
            return Err(error);
        }
        inner.bytes += body.len() as u64;
        self.bytes.store(inner.bytes, Ordering::Relaxed);
        inner.state.apply(&edit)?;
        Ok(Some(publish(&inner.state)))
    }

    fn roll(&self, inner: &mut Inner) -> Result<(), Error> {
        let mut state = inner.state.clone();
        let (log, bytes) = write_beside(&self.files, &mut state)?;
        current::put(&self.files)?;
        let old = std::mem::replace(&mut inner.log, log);
        inner.state = state;
        inner.bytes = bytes;
        inner.roll_at = roll_at(bytes);
        inner.is_torn = false;
        for segment in old.segments() {
            self.files.retire_unnamed(segment.id, FileKind::Manifest);
        }
        Ok(())
    }

    /// Reads the state in force.
    pub(crate) fn with_state<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&self.inner.lock().state)
    }

    /// Lends the state in force, with the segments that say so and up to where each is synced. No edit is made
    /// meanwhile, and one that failed may lie behind these ends.
    pub(crate) fn inspect<R>(&self, look: impl FnOnce(&State, &wal::Options, &[(FileId, u64)]) -> R) -> R {
        let inner = self.inner.lock();
        let segments: Vec<(FileId, u64)> = inner.log.synced_segments();
        look(&inner.state, &log_options(&self.files.fs, &self.files.dir), &segments)
    }

    /// The segments of the manifest in force.
    pub(crate) fn segments(&self) -> Vec<FileId> {
        self.inner.lock().log.segments().into_iter().map(|segment| segment.id).collect()
    }

    /// The size of the manifest's edits, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A manifest is rolled when its edits outgrow the state that they started from by far.
fn roll_at(first_edit_bytes: u64) -> u64 {
    ROLL_BYTES_MIN.max(first_edit_bytes.saturating_mul(4))
}
