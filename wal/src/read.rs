//! Reads one segment: record by record, and past damage.
//!
//! Owns the window through which a segment is read, and the judgement whether damaged bytes look as if they were never
//! written. Knows one segment only: whether damage may be forgiven is for `scan` to say, which sees the whole log.
//!
//! Invariant: memory is bounded by `record_bytes_max`, and taken only for a record whose head is whole and which the
//! file is long enough to hold. Nothing is carried over from one record to the next but the window.

use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use vfs::{Advice, File};

use crate::record::{HEAD_BYTES, Head};
use crate::segment::{HEADER_BYTES, Header, HeaderFault};
use crate::{Damage, Error, Flavor, Options, Position, Result, path};

/// The disk writes a sector whole or not at all.
const SECTOR_BYTES: u64 = 512;
/// How much is read in one call.
const WINDOW_BYTES: usize = 256 << 10;

/// What stands at a place where a record may begin.
#[derive(Debug)]
pub(crate) enum Step {
    /// A whole record; [`SegmentReader::body`] gives its body.
    Record {
        head: Head,
        end: u64,
    },
    Broken(Broken),
}

/// Why no record stands there.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) damage: Damage,
    /// Whether it looks as if it was never written, or not all of it: the file ends within the record, or a sector's
    /// part of the record is zeros.
    pub(crate) unwritten: bool,
    /// How long a record there is at least.
    pub(crate) bytes: u64,
}

/// What stands past the last record that can be read in order.
#[derive(Clone, Debug)]
pub(crate) struct Beyond {
    /// The greatest position that a head found there attests.
    pub(crate) attested: Position,
    /// Whether a head was found that belongs where it stands.
    pub(crate) own: bool,
    /// Whether a head was found that belongs elsewhere: the bytes are stale.
    pub(crate) stale: bool,
    /// The end of the last byte that is not zero; where the search began if there is none.
    pub(crate) written_end: u64,
}

/// A segment that is being read.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    file: Arc<dyn File>,
    path: Arc<Path>,
    id: FileId,
    flavor: Flavor,
    len: u64,
    record_bytes_max: u32,
    window: Vec<u8>,
    window_at: u64,
    /// Whether what the disk does not give is read as bytes that are no record.
    is_patient: bool,
}

/// Stands for a byte that the disk does not give: no zero, since zeros look as if they were never written, and nothing that
/// a record or its head begins with.
const NOT_GIVEN: u8 = 0xee;
/// What the disk reads or refuses in one piece.
const PAGE_BYTES: usize = 4096;

impl SegmentReader {
    pub(crate) fn open(options: &Options, id: FileId) -> Result<SegmentReader> {
        let path: Arc<Path> = path(&options.dir, options.flavor, id).into();
        let file = options.fs.open(&path).map_err(|error| Error::from_io("open", &path, 0, error))?;
        let len = file.len().map_err(|error| Error::from_io("read the length of", &path, 0, error))?;
        file.advise(Advice::Sequential, 0, 0);
        let (flavor, record_bytes_max) = (options.flavor, options.record_bytes_max);
        let (window, window_at, is_patient) = (Vec::new(), 0, false);
        Ok(SegmentReader { file, path, id, flavor, len, record_bytes_max, window, window_at, is_patient })
    }

    /// Like [`SegmentReader::open`], and goes on where the disk gives nothing.
    pub(crate) fn open_patient(options: &Options, id: FileId) -> Result<SegmentReader> {
        Ok(SegmentReader { is_patient: true, ..SegmentReader::open(options, id)? })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes `at .. at + count`, which the file has.
    fn load(&mut self, at: u64, count: usize) -> Result<&[u8]> {
        let inside = at >= self.window_at && at + count as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            let left = usize::try_from(self.len - at).unwrap_or(usize::MAX);
            let wanted = count.max(WINDOW_BYTES).min(left);
            self.window.clear();
            if wanted <= WINDOW_BYTES {
                // One long record must not hold its memory until the end of the log.
                self.window.shrink_to(WINDOW_BYTES);
            }
            self.window.resize(wanted, 0);
            self.window_at = at;
            match self.file.read_exact_at(&mut self.window, at) {
                Ok(()) => {}
                Err(error) => match self.load_what_is_left(error) {
                    Ok(()) => {}
                    Err(_) if self.is_patient => self.load_in_pieces(),
                    Err(error) => {
                        self.window.clear();
                        return Err(Error::from_io("read", &self.path, at, error));
                    }
                },
            }
        }
        Ok(self.loaded(at, count))
    }

    /// A writer may have given back what it had taken ahead, since the length was read: those were zeros.
    fn load_what_is_left(&mut self, error: std::io::Error) -> std::io::Result<()> {
        let at = self.window_at;
        let len = self.file.len().unwrap_or(self.len);
        let left = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
        match self.window.get_mut(..left) {
            Some(window) if error.kind() == std::io::ErrorKind::UnexpectedEof && len < self.len => {
                let read = self.file.read_exact_at(window, at);
                self.window[left..].fill(0);
                read
            }
            _ => Err(error),
        }
    }

    /// Fills the window piece by piece.
    fn load_in_pieces(&mut self) {
        let mut from = 0;
        while from < self.window.len() {
            let at = self.window_at + from as u64;
            let to_boundary = PAGE_BYTES - (at % PAGE_BYTES as u64) as usize;
            let to = self.window.len().min(from + to_boundary);
            let piece = &mut self.window[from..to];
            if self.file.read_exact_at(piece, at).is_err() {
                piece.fill(NOT_GIVEN);
            }
            from = to;
        }
    }

    fn loaded(&self, at: u64, count: usize) -> &[u8] {
        let start = usize::try_from(at - self.window_at).expect("within the window");
        &self.window[start..start + count]
    }

    pub(crate) fn header(&mut self) -> Result<Result<Header, HeaderFault>> {
        let count = HEADER_BYTES.min(usize::try_from(self.len).unwrap_or(usize::MAX));
        let (flavor, id) = (self.flavor, self.id);
        Ok(Header::decode(self.load(0, count)?, flavor, id))
    }

    /// The record at `at`, which is at most the length of the file.
    pub(crate) fn record(&mut self, at: u64) -> Result<Step> {
        let left = self.len - at;
        let head_bytes = HEAD_BYTES as u64;
        let broken = |damage, unwritten, bytes| Ok(Step::Broken(Broken { damage, unwritten, bytes }));
        if left < head_bytes {
            return broken(Damage::EndOfFile { wanted: head_bytes, left }, true, head_bytes);
        }
        let (flavor, here) = (self.flavor, Position { segment: self.id, offset: at });
        let bytes = self.load(at, HEAD_BYTES)?;
        let head = match Head::decode(bytes, flavor, here) {
            Ok(head) => head,
            Err(_) if bytes.iter().all(|byte| *byte == 0) => {
                return broken(Damage::Zeros, true, head_bytes);
            }
            Err(damage) => return broken(damage, has_zero_sector(bytes, at), head_bytes),
        };
        let record_bytes = head.record_bytes();
        if head.body_bytes > self.record_bytes_max {
            let (bytes, bytes_max) = (u64::from(head.body_bytes), u64::from(self.record_bytes_max));
            // The head is whole, so that no write was cut short within it.
            return broken(Damage::TooLong { bytes, bytes_max }, false, head_bytes);
        }
        if left < record_bytes {
            return broken(Damage::EndOfFile { wanted: record_bytes, left }, true, record_bytes);
        }
        let count = usize::try_from(record_bytes).expect("record_bytes_max fits the memory");
        let bytes = self.load(at, count)?;
        if let Err(damage) = head.body(bytes, flavor) {
            return broken(damage, has_zero_sector(bytes, at), record_bytes);
        }
        Ok(Step::Record { head, end: at + record_bytes })
    }

    /// The body of the record that was read last.
    pub(crate) fn body(&self, head: &Head) -> &[u8] {
        self.loaded(head.at.offset + HEAD_BYTES as u64, head.body_bytes as usize)
    }

    /// Looks at everything from `from` on for heads of records, wherever they begin. Reads zeros fast: the rest of a
    /// preallocated segment is zeros.
    pub(crate) fn beyond(&mut self, from: u64) -> Result<Beyond> {
        let (flavor, id) = (self.flavor, self.id);
        let mut beyond =
            Beyond { attested: Position::default(), own: false, stale: false, written_end: from };
        let mut at = from;
        while at < self.len {
            let count = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            let bytes = self.load(at, count)?;
            for block_start in (0..count).step_by(SECTOR_BYTES as usize) {
                let block = &bytes[block_start..count.min(block_start + SECTOR_BYTES as usize)];
                let Some(last) = last_written(block) else { continue };
                beyond.written_end = beyond.written_end.max(at + (block_start + last + 1) as u64);
                for start in block_start..=block_start + last {
                    let Some(head) = Head::find(&bytes[start..], flavor) else { continue };
                    let here = Position { segment: id, offset: at + start as u64 };
                    if head.at == here && head.attested <= here {
                        beyond.own = true;
                        beyond.attested = beyond.attested.max(head.attested);
                    } else {
                        beyond.stale = true;
                    }
                }
            }
            // A head may lie across the end of the window: the next one begins where it could.
            let step = if at + count as u64 == self.len { count } else { count - (HEAD_BYTES - 1) };
            at += step as u64;
        }
        Ok(beyond)
    }

    /// The first record that is whole and stands where it says, from `from` up to `end`. Each look at a body is counted
    /// against `again`, by its bytes: heads that are whole can promise bodies that are not, all of them the same bytes.
    pub(crate) fn next_record(&mut self, from: u64, end: u64, again: &mut u64) -> Result<Option<u64>> {
        let (flavor, segment) = (self.flavor, self.id);
        let mut at = from;
        while at + HEAD_BYTES as u64 <= end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            let bytes = self.load(at, count)?;
            let candidates: Vec<(u64, u64)> = (0..count.saturating_sub(HEAD_BYTES - 1))
                .filter_map(|start| Some((at + start as u64, Head::find(&bytes[start..], flavor)?)))
                .filter(|(offset, head)| head.at == Position { segment, offset: *offset })
                .map(|(offset, head)| (offset, head.record_bytes()))
                .filter(|(offset, record_bytes)| offset.saturating_add(*record_bytes) <= end)
                .collect();
            for (candidate, record_bytes) in candidates {
                let Some(left) = again.checked_sub(record_bytes) else { return Ok(None) };
                *again = left;
                if let Step::Record { end: ends, .. } = self.record(candidate)?
                    && ends <= end
                {
                    return Ok(Some(candidate));
                }
            }
            // A head may lie across the end of the window.
            at += (count - (HEAD_BYTES - 1)) as u64;
        }
        Ok(None)
    }

    pub(crate) fn corruption(&self, offset: u64, damage: Damage, attested: Position) -> Error {
        Error::Corruption { file: self.path.clone(), offset, damage, attested, segment: self.id }
    }
}

/// The index of the last byte that is not zero.
fn last_written(block: &[u8]) -> Option<usize> {
    // The whole block first, in a form that the compiler turns into wide compares.
    if block.iter().fold(0, |all, byte| all | byte) == 0 {
        return None;
    }
    block.iter().rposition(|byte| *byte != 0)
}

/// Whether the part of some sector that lies within `bytes`, which begin at `at`, is zeros.
fn has_zero_sector(bytes: &[u8], at: u64) -> bool {
    let first = usize::try_from(SECTOR_BYTES - at % SECTOR_BYTES).expect("at most a sector").min(bytes.len());
    let (head, rest) = bytes.split_at(first);
    std::iter::once(head)
        .chain(rest.chunks(SECTOR_BYTES as usize))
        .any(|part| part.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FIRST, SEGMENT_BYTES, append_one, disk, new_log, options};

    #[test]
    fn what_a_writer_gives_back_meanwhile_reads_as_zeros() {
        let fs = disk(1);
        let log = new_log(&fs);
        let end = append_one(&log, 1, 100).offset;
        let mut reader = SegmentReader::open(&options(&fs), FIRST).expect("it is there");
        assert_eq!(reader.len(), SEGMENT_BYTES);
        let mut patient = SegmentReader::open_patient(&options(&fs), FIRST).expect("it is there");
        log.reserve(0).expect("a good disk");
        assert_eq!(patient.beyond(end).expect("a good disk").written_end, end);
        let Step::Record { end: read_to, .. } = reader.record(64).expect("a good disk") else {
            panic!("the record is as it was")
        };
        assert_eq!(read_to, end);
        assert!(matches!(reader.record(end), Ok(Step::Broken(Broken { damage: Damage::Zeros, .. }))));
        assert_eq!(reader.beyond(end).expect("a good disk").written_end, end);

        let mut reader = SegmentReader::open(&options(&fs), FIRST).expect("it is there");
        fs.fail_at(fs.operations(), vfs::sim::Fault::eio());
        assert!(reader.record(64).is_err(), "a disk that does not read is something else");
    }

    #[test]
    fn a_sector_counts_by_its_part_within_the_record() {
        let mut bytes = vec![1; 1200];
        assert!(!has_zero_sector(&bytes, 500));
        bytes[..12].fill(0);
        assert!(has_zero_sector(&bytes, 500));
        bytes[11] = 1;
        assert!(!has_zero_sector(&bytes, 500));
        bytes[12..524].fill(0);
        assert!(has_zero_sector(&bytes, 500));
        assert!(!has_zero_sector(&bytes, 499));
        bytes[523] = 1;
        assert!(!has_zero_sector(&bytes, 500));
        bytes[524 + 512..].fill(0);
        assert!(has_zero_sector(&bytes, 500));
    }
}
