//! Appending: from records to bytes in segments, and what happens when the disk is full.
//!
//! Invariant: a record is written by one call, and nothing is written behind a call that failed or took a part only. Of a
//! record out of two calls a power cut could keep the second part without the first, in one sector: such a record is
//! neither whole nor evidently unwritten. So when the disk takes a part of a group, the segment ends with the last
//! record that is whole, and the others go to the next one, whose header excludes the rest of this.
//!
//! After a write that failed for lack of space, what follows the last whole record is cut off and the cut is synced, so
//! that nothing of the failed records is left after a kill or a power cut either.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vfs::File;

use super::tail::{Group, OpenSegment, Tail};
use super::turns::{Reach, Turns};
use super::{Appended, Log, Record, create_segment};
use crate::error::is_no_space;
use crate::record::{self, OVERHEAD_BYTES, RecordKind};
use crate::segment::{HEADER_BYTES, Header, RECORDS_START};
use crate::{Error, Position, Result};

/// Writeback is asked for in whole pages, so that none is written while it still fills.
const PAGE_BYTES: u64 = 4096;

/// Why an append stopped, and what is left to clean up.
struct Stop {
    error: Error,
    leftover: Option<Leftover>,
}

/// Bytes past the last whole record.
struct Leftover {
    file: Arc<dyn File>,
    path: Arc<Path>,
    /// What stays.
    keep_bytes: u64,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop { error, leftover: None }
    }
}

impl Log {
    /// `misses_max`: how often in a row the disk may take a part of a record, each time in another segment, before that is
    /// a lack of space.
    pub(super) fn append_kind(&self, kind: RecordKind, records: &[Record<'_>], misses_max: u32) -> Appended {
        let mut tail = self.tail.lock();
        let (complete, stop) = self.append_locked(&mut tail, kind, records, misses_max);
        let end = tail.end();
        self.bytes.store(tail.bytes(), Ordering::Relaxed);
        drop(tail);
        Appended { complete, end, error: stop.map(|stop| self.clean_up(stop)) }
    }

    fn append_locked(
        &self,
        tail: &mut Tail,
        kind: RecordKind,
        records: &[Record<'_>],
        misses_max: u32,
    ) -> (usize, Option<Stop>) {
        if let Some(error) = self.failure() {
            return (0, Some(error.into()));
        }
        let latch = LatchPanic { turns: &self.turns };
        let attested = self.synced();
        let (mut complete, mut stop, mut misses) = (0, None, 0);
        while complete < records.len() && stop.is_none() {
            let written;
            let is_last_try = misses == misses_max;
            (written, stop) = self.append_to_one(tail, kind, &records[complete..], attested, is_last_try);
            complete += written;
            misses = if written > 0 { 0 } else { misses + 1 };
        }
        latch.disarm();
        (complete, stop)
    }

    /// Appends as many of `records` as lie in one segment: at least one, unless the disk takes a part of it only, and this
    /// is not the last try.
    fn append_to_one(
        &self,
        tail: &mut Tail,
        kind: RecordKind,
        records: &[Record<'_>],
        attested: Position,
        is_last_try: bool,
    ) -> (usize, Option<Stop>) {
        let first_bytes = match self.record_bytes(&records[0]) {
            Ok(bytes) => bytes,
            Err(error) => return (0, Some(error.into())),
        };
        let mut fresh = None;
        if !tail.current.takes(kind, first_bytes, self.options.segment_bytes) {
            match self.next_segment(tail) {
                Ok(segment) => fresh = Some(segment),
                Err(error) => return (0, Some(error.into())),
            }
        }
        let mut group = std::mem::take(&mut tail.group);
        self.assemble(&mut group, &tail.current, fresh.as_ref(), kind, records, attested);
        let target = fresh.as_ref().unwrap_or(&tail.current);
        let (start, file, path) = (target.end, target.file.clone(), target.path.clone());
        let headers = usize::from(fresh.is_some());
        let (pieces, cut) = write(&*file, &group, start);
        let kept = pieces.checked_sub(1).map_or(0, |last| group.ends[last] as u64);
        tail.group = group;

        let keep_bytes = start + kept;
        let written = pieces.saturating_sub(headers);
        if pieces >= headers {
            if let Some(segment) = fresh {
                tail.enter(segment);
            }
            tail.current.end = keep_bytes;
        }
        // Also if the next segment got no header: should its bytes survive after all, a greater one supersedes it.
        tail.current.closed |= cut.is_some();
        if written > 0 {
            tail.note_written(kind, &records[..written], attested);
        }
        let error = match cut {
            None => {
                self.trickle(&mut tail.current);
                return (written, None);
            }
            Some(Cut::Short(_)) if written > 0 || !is_last_try => {
                if pieces < headers {
                    // Without a header it is no part of the log, there or not.
                    let _ = self.remove(&path);
                }
                return (written, None);
            }
            // One new segment after another does not take a single record. Only space, or a limit, makes a disk take
            // less than all.
            Some(Cut::Short(taken)) => {
                let text = format!("the disk took {taken} bytes and no whole record");
                io::Error::new(io::ErrorKind::StorageFull, text)
            }
            Some(Cut::Failed(error)) => error,
        };
        let no_space = is_no_space(&error);
        let error = Error::from_io("write", &path, keep_bytes, error);
        if no_space {
            let leftover = Some(Leftover { file, path, keep_bytes });
            return (written, Some(Stop { error, leftover }));
        }
        (written, Some(self.turns.latch(error).into()))
    }

    fn record_bytes(&self, record: &Record<'_>) -> Result<u64> {
        let (bytes, bytes_max) = (record.body.len() as u64, u64::from(self.options.record_bytes_max));
        if bytes > bytes_max { Err(Error::TooLong { bytes, bytes_max }) } else { Ok(OVERHEAD_BYTES + bytes) }
    }

    /// The segment after the current one. Its header is not written yet. A lack of space or of descriptors leaves all as it
    /// was.
    fn next_segment(&self, tail: &mut Tail) -> Result<OpenSegment> {
        if let Some(segment) = tail.prepared.take() {
            return Ok(segment);
        }
        create_segment(&self.options, (self.next_id)()).map_err(|error| {
            if error.is_no_space() || error.is_out_of_descriptors() { error } else { self.turns.latch(error) }
        })
    }

    /// Puts the records that lie in one segment together: in `fresh`, after its header, or else in `current`.
    fn assemble(
        &self,
        group: &mut Group,
        current: &OpenSegment,
        fresh: Option<&OpenSegment>,
        kind: RecordKind,
        records: &[Record<'_>],
        attested: Position,
    ) {
        let (flavor, segment_bytes) = (self.options.flavor, self.options.segment_bytes);
        let start = fresh.unwrap_or(current).position();
        group.clear();
        if let Some(fresh) = fresh {
            let header = Header { id: fresh.id, predecessor: Some(current.position()) };
            group.bytes.extend_from_slice(&header.encode(flavor));
            group.ends.push(HEADER_BYTES);
        }
        for (index, record) in records.iter().enumerate() {
            let at = Position { segment: start.segment, offset: start.offset + group.bytes.len() as u64 };
            // One that is too long is reported when it is the first.
            let fits = self.record_bytes(record).is_ok_and(|bytes| at.offset + bytes <= segment_bytes);
            if index > 0 && !fits {
                break;
            }
            record::encode(&mut group.bytes, flavor, kind, at, attested, record.first_version, record.body);
            group.ends.push(group.bytes.len());
        }
    }

    fn trickle(&self, segment: &mut OpenSegment) {
        let trickle_bytes = self.options.trickle_bytes;
        let end = segment.end - segment.end % PAGE_BYTES;
        if trickle_bytes > 0 && end >= segment.trickled + trickle_bytes {
            // A hint. If the disk is ill, the sync will say so.
            let _ = segment.file.start_writeback(segment.trickled, end - segment.trickled);
            segment.trickled = end;
        }
    }

    /// Cuts off what a failed write left, and gives the error to report.
    fn clean_up(&self, stop: Stop) -> Error {
        let Some(leftover) = stop.leftover else { return stop.error };
        let turn = match self.turns.take_any() {
            Ok(turn) => turn,
            Err(error) => return error,
        };
        let Leftover { file, path, keep_bytes } = leftover;
        match file.truncate(keep_bytes).and_then(|()| file.sync()) {
            Ok(()) => turn.done(Reach::default()),
            Err(error) => return turn.fail(Error::from_io("cut off", &path, keep_bytes, error)),
        }
        if keep_bytes < RECORDS_START {
            // Without a header it is no part of the log, there or not.
            let _ = self.remove(&path);
        }
        stop.error
    }
}

/// Why a group is not written whole.
enum Cut {
    /// The disk took so many bytes and no more.
    Short(usize),
    Failed(io::Error),
}

/// Writes a group at `start`. Gives the number of its pieces that are whole, and why not all are.
fn write(file: &dyn File, group: &Group, start: u64) -> (usize, Option<Cut>) {
    match file.write_at(&group.bytes, start) {
        Ok(taken) if taken == group.bytes.len() => (group.ends.len(), None),
        Ok(taken) => (group.ends.partition_point(|end| *end <= taken), Some(Cut::Short(taken))),
        Err(error) => (0, Some(Cut::Failed(error))),
    }
}

/// Latches a panic, after which nobody knows what was written.
struct LatchPanic<'a> {
    turns: &'a Turns,
}

impl LatchPanic<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for LatchPanic<'_> {
    fn drop(&mut self) {
        self.turns.latch_panic();
    }
}
