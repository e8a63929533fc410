//! The writer of a log.
//!
//! Appends are serialised by one lock, syncs by turns; a sync never holds the lock of the appends while the disk works,
//! so that one group is synced while the next is appended.
//!
//! Invariant: what a call reported as written lies whole and in order before `end`; what it reported as failed is never
//! read back. After a lack of space the segment is closed at its last whole record, the rest is cut off, and the next
//! append goes to a new segment whose header names that end.
//! Invariant: a failed sync, and a failed write other than for lack of space, is latched before anybody hears of it.
//! Every later append and sync answers with it; nothing is tried again.
//!
//! Lock order: a turn, then `tail`, then the state of the turns. Nobody waits for a turn while holding `tail`.

mod append;
mod tail;
#[cfg(test)]
mod tests;
mod turns;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::{FileId, Version};
use sync::Mutex;

use self::tail::{OpenSegment, SyncPlan, Tail};
use self::turns::{Reach, Turns};
use crate::error::is_no_space;
use crate::record::{OVERHEAD_BYTES, RecordKind};
use crate::segment::{Header, RECORDS_START};
use crate::{Error, Options, Position, Result, Scan, path};

/// So often in a row the disk may take a part of a record, each time in another segment, before that is a lack of space.
const MISSES_MAX: u32 = 2;

/// Gives out file numbers, each greater than all before. Called while the log is locked: it must not call the log.
pub type NextId = Box<dyn Fn() -> FileId + Send + Sync>;

/// One record to append.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The first version that the record holds.
    pub first_version: Version,
    /// The last one. It is not written: [`Log::synced_version`] tells it back.
    pub last_version: Version,
    /// The bytes. The log does not look into them.
    pub body: &'a [u8],
}

/// What became of a group of records.
#[derive(Clone, Debug)]
pub struct Appended {
    /// How many of them, from the first on, are wholly written. The others are not, and never come back, unless the
    /// log has failed: then it shows at the next scan whether they are there, each whole or not at all.
    pub complete: usize,
    /// The end of the log: after the last complete record.
    pub end: Position,
    /// Why not all are complete.
    pub error: Option<Error>,
}

/// A segment of the log that is still kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub id: FileId,
    /// Its length up to the end of the last record, in bytes; not what is preallocated.
    pub bytes: u64,
    /// The first version of its first data record; `None` if it has none yet.
    pub first_version: Option<Version>,
}

impl SegmentInfo {
    /// Where its first record begins. A log may be read from this segment on only once it is synced through here:
    /// call [`Log::sync`] with it before naming the segment as the start of the log.
    #[must_use]
    pub fn start(&self) -> Position {
        Position { segment: self.id, offset: RECORDS_START }
    }
}

/// A log that is being written. Shared between threads.
pub struct Log {
    options: Options,
    dir: Arc<Path>,
    next_id: NextId,
    tail: Mutex<Tail>,
    turns: Turns,
    /// The bytes of all segments that are kept, so that nobody waits for a write to learn them.
    bytes: AtomicU64,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("dir", &self.dir)
            .field("flavor", &self.options.flavor)
            .field("bytes", &self.total_bytes())
            .field("failure", &self.failure())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Creates a log whose first segment is `first`. The segment is on disk, with its header and its name, when this
    /// returns. `next_id` numbers the segments that no call of [`Log::prepare`] made ahead.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Failed`] if a sync failed; the file may then be there, and holds no record.
    pub fn create(options: Options, first: FileId, next_id: NextId) -> Result<Log> {
        let dir: Arc<Path> = options.dir.as_path().into();
        let mut segment = create_segment(&options, first)?;
        let mut reserved_bytes = options.segment_bytes;
        if let Err(error) = segment.file.preallocate(options.segment_bytes) {
            reserved_bytes = 0;
            // Going on without is slower, and no worse: space may come back.
            if !is_no_space(&error) {
                return Err(Error::from_io("preallocate", &segment.path, 0, error));
            }
            let cut = segment.file.truncate(0);
            cut.map_err(|error| Error::from_io("truncate", &segment.path, 0, error))?;
        }
        let header = Header { id: first, predecessor: None }.encode(options.flavor);
        segment
            .file
            .write_all_at(&header, 0)
            .map_err(|error| Error::from_io("write", &segment.path, 0, error))?;
        // A failed sync is no matter of space, whatever the disk says: of the folder it leaves open what else is in it.
        segment.file.sync().map_err(|error| Error::from_io("sync", &segment.path, 0, error).for_good())?;
        let synced = options.fs.sync_dir(&dir);
        synced.map_err(|error| Error::from_io("sync the folder", &dir, 0, error).for_good())?;
        segment.end = RECORDS_START;
        segment.named = true;
        segment.reserved_bytes = reserved_bytes;
        let tail = Tail::new(segment);
        Ok(Log {
            turns: Turns::new(dir.clone(), tail.end()),
            bytes: AtomicU64::new(tail.bytes()),
            tail: Mutex::new(tail),
            options,
            dir,
            next_id,
        })
    }

    /// A log that was read and is not written to: it knows its segments and its end, and refuses everything else with
    /// [`Error::ReadOnly`]. So whoever has a log to write to can as well have one to look at.
    ///
    /// # Errors
    /// [`Error::Io`] if its last segment cannot be opened.
    pub fn read_only(scan: &Scan) -> Result<Log> {
        let options = scan.options().clone();
        let dir: Arc<Path> = options.dir.as_path().into();
        let infos = scan.extents().map(|(id, bytes)| SegmentInfo { id, bytes, first_version: None });
        let mut before: Vec<SegmentInfo> = infos.collect();
        let last = before.pop().expect("a log has a segment");
        let path: Arc<Path> = path(&options.dir, options.flavor, last.id).into();
        let file = options.fs.open(&path).map_err(|error| Error::from_io("open", &path, 0, error))?;
        let current = OpenSegment {
            end: last.bytes,
            named: true,
            closed: true,
            ..OpenSegment::new(last.id, file, path)
        };
        let tail = Tail::after(before, current);
        let turns = Turns::new(dir.clone(), tail.end());
        turns.latch_read_only();
        let bytes = AtomicU64::new(tail.bytes());
        Ok(Log { turns, bytes, tail: Mutex::new(tail), options, dir, next_id: Box::new(|| FileId(0)) })
    }

    /// The end of the log: where the next record would begin, if the segment takes it.
    #[must_use]
    pub fn end(&self) -> Position {
        self.tail.lock().end()
    }

    /// Everything before this is on disk.
    #[must_use]
    pub fn synced(&self) -> Position {
        self.turns.synced().position
    }

    /// The last version of the last data record that is on disk with all before it; 0 if there is none.
    #[must_use]
    pub fn synced_version(&self) -> Version {
        self.turns.synced().version
    }

    /// Appends records, in order; they are readable at once, and on disk after a sync. One write call for each segment
    /// that is touched.
    ///
    /// The error, if there is one, is [`Error::TooLong`] for a record above the limit, [`Error::Io`] for a lack of space or
    /// of descriptors ([`Error::is_no_space`], [`Error::is_out_of_descriptors`]; the log goes on), or the latched failure.
    pub fn append(&self, records: &[Record<'_>]) -> Appended {
        self.append_kind(RecordKind::Data, records, MISSES_MAX)
    }

    /// Appends one record to the segment that is written, or to none: for a log that nothing names yet, and that is to go
    /// with one file if it fails.
    ///
    /// The errors are those of [`Log::append`].
    pub fn append_in_place(&self, record: Record<'_>) -> Appended {
        self.append_kind(RecordKind::Data, &[record], 0)
    }

    /// Returns when everything before `through` is on disk. Returns at once if it is already; of several callers at a
    /// time one syncs for all. Older segments are synced first.
    ///
    /// # Errors
    /// The latched failure. A failed sync is latched for good, since nobody knows what it left on disk.
    pub fn sync(&self, through: Position) -> Result<()> {
        self.sync_after(through, || {})
    }

    /// Like [`Log::sync`], and calls `before` when it is this caller's turn to sync, before it settles how far: what is
    /// appended meanwhile comes along.
    ///
    /// # Errors
    /// Like [`Log::sync`].
    pub fn sync_after(&self, through: Position, before: impl FnOnce()) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let Some(turn) = self.turns.take(through)? else { return Ok(()) };
        before();
        let plan = self.tail.lock().sync_plan();
        debug_assert!(through <= plan.reaches.position, "nobody can know a position that is not written");
        match self.carry_out(&plan) {
            Ok(()) => {
                turn.done(plan.reaches);
                Ok(())
            }
            Err(error) => Err(turn.fail(error)),
        }
    }

    fn carry_out(&self, plan: &SyncPlan) -> Result<()> {
        if plan.unnamed {
            self.sync_dir()?;
        }
        for (file, path) in &plan.files {
            file.sync().map_err(|error| Error::from_io("sync", path, 0, error))?;
        }
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        let synced = self.options.fs.sync_dir(&self.dir);
        synced.map_err(|error| Error::from_io("sync the folder", &self.dir, 0, error))
    }

    /// Appends a record that says how far the log is synced, so that damage below is told from a torn tail. Does not
    /// sync. Writes nothing if the last record says as much already.
    ///
    /// # Errors
    /// Like [`Log::append`].
    pub fn attest(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        // Two at a time would write one record too many, which is harmless.
        if !self.tail.lock().has_news(self.synced()) {
            return Ok(());
        }
        let record = Record { first_version: Version(0), last_version: Version(0), body: &[] };
        self.append_kind(RecordKind::Attestation, &[record], MISSES_MAX).error.map_or(Ok(()), Err)
    }

    /// Whether it is time to call [`Log::prepare`]: the segment is half full, or grows after it was idle, and there is
    /// no other. After a call that failed it is time when the log has grown by a sixteenth of a segment.
    #[must_use]
    pub fn needs_segment(&self) -> bool {
        self.failure().is_none() && self.tail.lock().needs_segment(self.options.segment_bytes)
    }

    /// Makes the next segment ahead, preallocated and synced, so that no append has to wait for that. For a background
    /// thread; does nothing if there is one already.
    ///
    /// # Errors
    /// [`Error::Io`] if the segment could not be made, which harms nobody: an append then makes one. The latched
    /// failure, also for a failed sync of the folder.
    pub fn prepare(&self, id: FileId) -> Result<()> {
        let bytes = self.tail.lock().bytes_of_next(self.options.segment_bytes);
        self.prepare_with(|| id, bytes)
    }

    fn prepare_with(&self, id: impl FnOnce() -> FileId, reserve_bytes: u64) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if !self.tail.lock().begin_preparing() {
            return Ok(());
        }
        let preparing = Preparing { log: self };
        let segment = self.make_ahead(id(), reserve_bytes).inspect_err(|_| {
            // Trying again at once would take the last space from others for as long as it takes to fail.
            let current = &mut self.tail.lock().current;
            current.next_from = current.end + self.options.segment_bytes / 16;
        })?;
        let unwanted = self.tail.lock().offer(segment);
        drop(preparing);
        // An append was faster, and made one with a greater number.
        unwanted.map_or(Ok(()), |segment| self.remove(&segment.path))
    }

    fn make_ahead(&self, id: FileId, reserve_bytes: u64) -> Result<OpenSegment> {
        let mut segment = create_segment(&self.options, id)?;
        let file = &segment.file;
        if let Err(error) = file.preallocate(reserve_bytes).and_then(|()| file.sync()) {
            // No record depends on the file, so that even its failed sync is of no consequence. What matters is why
            // it could not be made, not whether it could be removed: an empty segment is no harm.
            let _ = self.remove(&segment.path);
            return Err(Error::from_io("preallocate", &segment.path, 0, error));
        }
        let turn = self.turns.take_any()?;
        match self.sync_dir() {
            Ok(()) => turn.done(Reach::default()),
            Err(error) => return Err(turn.fail(error)),
        }
        segment.named = true;
        segment.reserved_bytes = reserve_bytes;
        if reserve_bytes < self.options.segment_bytes {
            segment.fall_idle(reserve_bytes);
        }
        Ok(segment)
    }

    fn remove(&self, file: &Arc<Path>) -> Result<()> {
        self.options.fs.remove(file).map_err(|error| Error::from_io("remove", file, 0, error))
    }

    /// Begins a segment now, unless the one that is written holds no data: all before it can then go as soon as nobody needs
    /// it. The new one has so much space taken ahead, if none was prepared, and begins with an attestation, which is not
    /// synced.
    ///
    /// # Errors
    /// [`Error::Io`] if the segment could not be made: appends go on where they were. Else like [`Log::append`].
    pub fn begin_segment(&self, reserve_bytes: u64) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if self.tail.lock().current.first_version.is_none() {
            return Ok(());
        }
        // With room for all that follows here, before the last one takes no more.
        let least_bytes = RECORDS_START + OVERHEAD_BYTES;
        self.prepare_with(|| (self.next_id)(), reserve_bytes.max(least_bytes))?;
        self.tail.lock().close_current();
        let record = Record { first_version: Version(0), last_version: Version(0), body: &[] };
        let appended = self.append_kind(RecordKind::Attestation, &[record], MISSES_MAX);
        {
            let current = &mut self.tail.lock().current;
            if current.idle.is_some() {
                // What it begins with is no reason to prepare another.
                current.fall_idle(reserve_bytes);
            }
        }
        appended.error.map_or(Ok(()), Err)
    }

    /// Closes the segment, unless it is empty: the next append goes to a new one.
    #[cfg(test)]
    pub(crate) fn rotate(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.tail.lock().close_current();
        Ok(())
    }

    /// Leaves so much space taken ahead of the end, or at least half of it, and gives back the rest: for a log that nobody
    /// writes to. Appends wait meanwhile. When the log has grown by a quarter of it, [`Log::needs_segment`] asks for a segment
    /// to go on in.
    ///
    /// # Errors
    /// [`Error::Io`], which harms nobody: the space stays as it was. The latched failure.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let spare = {
            // Held while the disk works: an append that got ahead of it would be cut off, or overwritten with zeros.
            let mut tail = self.tail.lock();
            reserve(&mut tail.current, bytes)?;
            tail.prepared.take()
        };
        spare.map_or(Ok(()), |segment| self.remove(&segment.path))
    }

    /// The bytes of all segments that are kept, each up to the end of its last record.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The segments that are kept, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.tail.lock().segments()
    }

    /// The segments that are kept and up to where each is known to be on disk, oldest first.
    #[must_use]
    pub fn synced_segments(&self) -> Vec<(FileId, u64)> {
        let synced = self.synced();
        let mut segments: Vec<(FileId, u64)> =
            self.segments().into_iter().map(|segment| (segment.id, segment.bytes)).collect();
        segments.retain(|(id, _)| *id <= synced.segment);
        if let Some((_, end)) = segments.iter_mut().find(|(id, _)| *id == synced.segment) {
            *end = synced.offset.min(*end);
        }
        segments
    }

    /// Forgets the segments below `segment`, which the caller has deleted or is about to delete. The segment that is
    /// being written is always kept.
    pub fn forget_below(&self, segment: FileId) {
        let mut tail = self.tail.lock();
        tail.forget_below(segment);
        self.bytes.store(tail.bytes(), Relaxed);
    }

    /// The latched failure: the log is closed for good, and this is why.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.turns.failure()
    }
}

/// Says, when it is dropped, that no segment is being prepared any more.
struct Preparing<'a> {
    log: &'a Log,
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        self.log.tail.lock().end_preparing();
    }
}

/// Takes `bytes` ahead of the segment's end, unless it has at least half of that and not more.
fn reserve(segment: &mut OpenSegment, bytes: u64) -> Result<()> {
    let (file, reserved_bytes) = (&segment.file, segment.end + bytes);
    let ahead = segment.reserved_bytes.saturating_sub(segment.end);
    // Not topped up for each record: the next sync would have to write the new length every time.
    if ahead > bytes || ahead < bytes / 2 {
        let changed =
            if ahead > bytes { file.truncate(reserved_bytes) } else { file.preallocate(reserved_bytes) };
        if let Err(error) = changed {
            // A disk that became full on the way keeps what it took.
            let _ = file.truncate(segment.reserved_bytes.max(segment.end));
            return Err(Error::from_io("reserve", &segment.path, reserved_bytes, error));
        }
        segment.reserved_bytes = reserved_bytes;
    }
    segment.fall_idle(bytes);
    Ok(())
}

fn create_segment(options: &Options, id: FileId) -> Result<OpenSegment> {
    let path: Arc<Path> = path(&options.dir, options.flavor, id).into();
    let file = options.fs.create(&path).map_err(|error| Error::from_io("create", &path, 0, error))?;
    Ok(OpenSegment::new(id, file, path))
}
