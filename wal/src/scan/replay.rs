//! Gives the records of a scanned log, in order. Streams: holds one window of one segment.

use std::collections::VecDeque;

use codec::{FileId, Version};

use crate::read::{SegmentReader, Step};
use crate::record::{Head, RecordKind};
use crate::segment::{HeaderFault, RECORDS_START};
use crate::{Damage, Options, Position, Result};

/// One record, as replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRecord<'a> {
    /// Where it begins.
    pub position: Position,
    /// Where it ends.
    pub end: Position,
    /// The first version that it holds.
    pub first_version: Version,
    /// The bytes that were appended.
    pub body: &'a [u8],
}

/// The records of a log.
#[derive(Debug)]
pub struct Replay {
    options: Options,
    /// The segments to come, with the ends of their records.
    segments: VecDeque<(FileId, u64)>,
    current: Option<Current>,
    attested: Position,
}

#[derive(Debug)]
struct Current {
    reader: SegmentReader,
    at: u64,
    end: u64,
}

impl Replay {
    pub(super) fn new(options: Options, segments: VecDeque<(FileId, u64)>, attested: Position) -> Replay {
        Replay { options, segments, current: None, attested }
    }

    /// The next record, or `None` at the end of the log. Checksums are verified again, since the bytes come from the
    /// disk again.
    ///
    /// # Errors
    /// [`crate::Error::Io`]; [`crate::Error::Corruption`] if the log is not what the scan saw. A second call then
    /// answers the same.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<ReplayRecord<'_>>> {
        let head = loop {
            match &mut self.current {
                Some(current) if current.at < current.end => {
                    let head = current.advance(self.attested)?;
                    if head.kind == RecordKind::Data {
                        break head;
                    }
                }
                _ => match self.segments.front().copied() {
                    Some((id, end)) => {
                        self.current = Some(Current::enter(&self.options, id, end, self.attested)?);
                        self.segments.pop_front();
                    }
                    None => return Ok(None),
                },
            }
        };
        let current = self.current.as_ref().expect("it gave the head");
        Ok(Some(ReplayRecord {
            position: head.at,
            end: Position { segment: head.at.segment, offset: current.at },
            first_version: head.first_version,
            body: current.reader.body(&head),
        }))
    }
}

impl Current {
    fn enter(options: &Options, id: FileId, end: u64, attested: Position) -> Result<Current> {
        let mut reader = SegmentReader::open(options, id)?;
        match reader.header()? {
            Ok(_) => Ok(Current { reader, at: RECORDS_START, end }),
            Err(HeaderFault::Damaged(damage)) => Err(reader.corruption(0, damage, attested)),
            Err(HeaderFault::Unused | HeaderFault::Unsupported { .. }) => {
                Err(reader.corruption(0, Damage::HeaderMissing, attested))
            }
        }
    }

    /// Reads one record and goes past it.
    fn advance(&mut self, attested: Position) -> Result<Head> {
        match self.reader.record(self.at)? {
            Step::Record { head, end } => {
                self.at = end;
                Ok(head)
            }
            Step::Broken(broken) => Err(self.reader.corruption(self.at, broken.damage, attested)),
        }
    }
}
