//! What the writer knows of its segments: the one that is written, the next one if it is prepared, and those before.
//!
//! Does no disk work.

use std::mem;
use std::path::Path;
use std::sync::Arc;

use codec::{FileId, Version};
use vfs::File;

use super::turns::Reach;
use super::{Record, SegmentInfo};
use crate::Position;
use crate::record::RecordKind;
use crate::segment::RECORDS_START;

/// What the buffer may keep when small groups follow a large one.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A segment that can be written.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) id: FileId,
    pub(super) file: Arc<dyn File>,
    pub(super) path: Arc<Path>,
    /// After the last whole record; 0 before the header is written.
    pub(super) end: u64,
    /// Whether its name is on disk.
    pub(super) named: bool,
    /// Whether it takes no more records.
    pub(super) closed: bool,
    /// Up to where space was taken ahead.
    pub(super) reserved_bytes: u64,
    /// How it was when it was last found idle. It ends as soon as the next one is prepared.
    pub(super) idle: Option<Idle>,
    /// Before which end no other is prepared, since one could not be.
    pub(super) next_from: u64,
    pub(super) first_version: Option<Version>,
    /// Up to where the operating system was asked to write.
    pub(super) trickled: u64,
}

impl OpenSegment {
    pub(super) fn new(id: FileId, file: Arc<dyn File>, path: Arc<Path>) -> OpenSegment {
        OpenSegment {
            id,
            file,
            path,
            end: 0,
            named: false,
            closed: false,
            reserved_bytes: 0,
            idle: None,
            next_from: 0,
            first_version: None,
            trickled: 0,
        }
    }

    /// Whether the next record, of so many bytes, goes here. An empty segment takes any, and an attestation is not
    /// worth a new one.
    pub(super) fn takes(&self, kind: RecordKind, record_bytes: u64, segment_bytes: u64) -> bool {
        !self.closed
            && (kind == RecordKind::Attestation
                || self.end == RECORDS_START
                || self.end + record_bytes <= segment_bytes)
    }

    pub(super) fn position(&self) -> Position {
        Position { segment: self.id, offset: self.end }
    }

    /// Nobody writes to it, and so much space ahead is enough.
    pub(super) fn fall_idle(&mut self, reserve_bytes: u64) {
        self.idle = Some(Idle { end: self.end, reserve_bytes });
    }

    fn info(&self) -> SegmentInfo {
        SegmentInfo { id: self.id, bytes: self.end, first_version: self.first_version }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    end: u64,
    reserve_bytes: u64,
}

/// A group of records as it will lie in one segment. Its memory is used again.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) bytes: Vec<u8>,
    /// Where the pieces that are of use by themselves end in `bytes`: the header, if there is one, and each record.
    pub(super) ends: Vec<usize>,
}

impl Group {
    pub(super) fn clear(&mut self) {
        let used = self.bytes.len();
        self.bytes.clear();
        self.ends.clear();
        if self.bytes.capacity() > BUFFER_BYTES_KEPT && self.bytes.capacity() / 4 > used {
            self.bytes.shrink_to(BUFFER_BYTES_KEPT.max(used));
            self.ends.shrink_to(self.bytes.capacity() / 64);
        }
    }
}

/// What a sync has to sync, in this order, and how far the log is then on disk.
#[derive(Debug)]
pub(super) struct SyncPlan {
    pub(super) unnamed: bool,
    pub(super) files: Vec<(Arc<dyn File>, Arc<Path>)>,
    pub(super) reaches: Reach,
}

#[derive(Debug)]
pub(super) struct Tail {
    pub(super) current: OpenSegment,
    pub(super) prepared: Option<OpenSegment>,
    preparing: bool,
    /// The segments before the current one that are kept.
    before: Vec<SegmentInfo>,
    /// Those of them that were not synced since their last record.
    unsynced: Vec<(FileId, Arc<dyn File>, Arc<Path>)>,
    /// Whether some segment's name may not be on disk.
    unnamed: bool,
    /// The greatest position that a record attests.
    attested: Position,
    /// The end of the last data record.
    data_end: Position,
    /// Its last version; 0 before the first.
    last_version: Version,
    pub(super) group: Group,
}

impl Tail {
    /// The tail of a new log. Its header is durable, so that there is nothing to attest yet.
    pub(super) fn new(first: OpenSegment) -> Tail {
        let end = first.position();
        Tail {
            current: first,
            prepared: None,
            preparing: false,
            before: Vec::new(),
            unsynced: Vec::new(),
            unnamed: false,
            attested: end,
            data_end: end,
            last_version: Version(0),
            group: Group::default(),
        }
    }

    /// The tail of a log that was read.
    pub(super) fn after(before: Vec<SegmentInfo>, current: OpenSegment) -> Tail {
        Tail { before, ..Tail::new(current) }
    }

    pub(super) fn end(&self) -> Position {
        self.current.position()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.before.iter().map(|segment| segment.bytes).sum::<u64>() + self.current.end
    }

    pub(super) fn segments(&self) -> Vec<SegmentInfo> {
        self.before.iter().copied().chain([self.current.info()]).collect()
    }

    pub(super) fn forget_below(&mut self, segment: FileId) {
        self.before.retain(|before| before.id >= segment);
        self.unsynced.retain(|(id, ..)| *id >= segment);
    }

    /// Makes `next`, whose header is written, the segment that is written.
    pub(super) fn enter(&mut self, next: OpenSegment) {
        assert!(next.id > self.current.id, "segment numbers grow along the log");
        self.unnamed |= !next.named;
        let last = mem::replace(&mut self.current, next);
        self.before.push(last.info());
        self.unsynced.push((last.id, last.file, last.path));
    }

    /// Notes that the current segment has grown by `records`, which attest `attested`.
    pub(super) fn note_written(&mut self, kind: RecordKind, records: &[Record<'_>], attested: Position) {
        self.attested = self.attested.max(attested);
        if let (RecordKind::Data, [first, ..], [.., last]) = (kind, records, records) {
            self.data_end = self.current.position();
            self.current.first_version.get_or_insert(first.first_version);
            self.last_version = last.last_version;
        }
    }

    /// Whether a record that attests `synced` would say more of the data than the records that there are.
    pub(super) fn has_news(&self, synced: Position) -> bool {
        synced.min(self.data_end) > self.attested
    }

    pub(super) fn close_current(&mut self) {
        self.current.closed |= self.current.end > RECORDS_START;
    }

    pub(super) fn sync_plan(&mut self) -> SyncPlan {
        let mut files: Vec<_> = self.unsynced.drain(..).map(|(_, file, path)| (file, path)).collect();
        files.push((self.current.file.clone(), self.current.path.clone()));
        // Taken for good: if the sync fails, so does every later one.
        let reaches = Reach { position: self.end(), version: self.last_version };
        SyncPlan { unnamed: mem::take(&mut self.unnamed), files, reaches }
    }

    pub(super) fn needs_segment(&self, segment_bytes: u64) -> bool {
        let OpenSegment { end, closed, idle, next_from, .. } = self.current;
        let wanted_at = match idle {
            // Written to in earnest again: 256 KiB of 64 MiB.
            Some(idle) => idle.end + (idle.reserve_bytes / 4).max(1),
            None => segment_bytes / 2,
        };
        let is_wanted = (closed || end >= wanted_at) && end >= next_from;
        is_wanted && self.prepared.is_none() && !self.preparing
    }

    /// How much space the next segment should have ahead.
    pub(super) fn bytes_of_next(&self, segment_bytes: u64) -> u64 {
        match self.current.idle {
            // Nobody has written since.
            Some(idle) if idle.end == self.current.end => idle.reserve_bytes,
            _ => segment_bytes,
        }
    }

    /// Whether the caller should make a segment ahead; [`Tail::end_preparing`] must follow.
    pub(super) fn begin_preparing(&mut self) -> bool {
        let wanted = self.prepared.is_none() && !self.preparing;
        self.preparing |= wanted;
        wanted
    }

    pub(super) fn end_preparing(&mut self) {
        self.preparing = false;
    }

    /// Keeps `segment` as the next one; gives it back if its number has been passed. One that was idle ends with
    /// that: the next one has its space.
    pub(super) fn offer(&mut self, segment: OpenSegment) -> Option<OpenSegment> {
        if segment.id > self.current.id {
            self.current.closed |= self.current.idle.is_some();
            self.prepared = Some(segment);
            return None;
        }
        Some(segment)
    }
}
