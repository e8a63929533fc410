//! Reads the segments of a log whose ends are known, and checks that they are one log.
//!
//! A scan decides where a log ends; here the writer says so, and everything up to there must be whole: headers that
//! name the segment before and its end, records that touch one another, attestations that never go back. What lies past
//! the ends is not looked at, so that a log can be verified while it is written.

use codec::FileId;

use crate::read::{SegmentReader, Step};
use crate::record::RecordKind;
use crate::scan::ReplayRecord;
use crate::segment::{HeaderFault, RECORDS_START};
use crate::{Damage, Error, Options, Position, Result};

/// Takes what a verification reads, and what it finds wrong.
pub trait Verifier {
    /// A data record, in the order of the log.
    fn record(&mut self, record: ReplayRecord<'_>);

    /// Something is wrong. The error names the place. The rest of that segment is not read.
    fn found(&mut self, segment: FileId, error: Error);
}

/// Reads the segments, each up to its end, oldest first. Gives how many bytes were found right.
///
/// # Errors
/// Those of the disk, but for a segment that is missing, which is told as damage.
pub fn verify(options: &Options, segments: &[(FileId, u64)], verifier: &mut dyn Verifier) -> Result<u64> {
    let mut bytes = 0;
    let mut attested = Position::default();
    let mut before: Option<Position> = None;
    for &(id, end) in segments {
        let walked = walk(options, id, end, before, &mut attested, verifier);
        bytes += match walked {
            Ok(()) => end,
            Err(error) if is_missing(&error) => {
                verifier.found(id, missing(options, id, attested));
                0
            }
            Err(error) if error.io().is_some() => return Err(error),
            Err(error) => {
                verifier.found(id, error);
                0
            }
        };
        before = Some(Position { segment: id, offset: end });
    }
    Ok(bytes)
}

fn is_missing(error: &Error) -> bool {
    error.io().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn missing(options: &Options, segment: FileId, attested: Position) -> Error {
    let file = crate::path(&options.dir, options.flavor, segment).into();
    Error::Corruption { file, offset: 0, damage: Damage::Missing, attested, segment }
}

fn walk(
    options: &Options,
    id: FileId,
    end: u64,
    before: Option<Position>,
    attested: &mut Position,
    verifier: &mut dyn Verifier,
) -> Result<()> {
    let mut reader = SegmentReader::open(options, id)?;
    let header = match reader.header()? {
        Ok(header) => header,
        Err(HeaderFault::Damaged(damage)) => return Err(reader.corruption(0, damage, *attested)),
        Err(HeaderFault::Unused | HeaderFault::Unsupported { .. }) => {
            return Err(reader.corruption(0, Damage::HeaderMissing, *attested));
        }
    };
    // What the first segment names is not needed any more.
    if let Some(before) = before
        && header.predecessor != Some(before)
    {
        let found = header.predecessor.unwrap_or_default();
        verifier.found(id, reader.corruption(0, Damage::Predecessor { found }, *attested));
    }
    let mut at = RECORDS_START;
    while at < end {
        if at > reader.len() {
            let damage = Damage::EndOfFile { wanted: end - at, left: 0 };
            return Err(reader.corruption(at, damage, *attested));
        }
        let (head, next) = match reader.record(at)? {
            Step::Record { head, end } => (head, end),
            Step::Broken(broken) => return Err(reader.corruption(at, broken.damage, *attested)),
        };
        if next > end {
            let damage = Damage::PassesEnd { end: next, segment_end: end };
            return Err(reader.corruption(at, damage, *attested));
        }
        if head.attested < *attested {
            let damage = Damage::Attested { found: head.attested };
            verifier.found(id, reader.corruption(at, damage, *attested));
        }
        *attested = head.attested.max(*attested);
        if head.kind == RecordKind::Data {
            verifier.record(ReplayRecord {
                position: head.at,
                end: Position { segment: id, offset: next },
                first_version: head.first_version,
                body: reader.body(&head),
            });
        }
        at = next;
    }
    Ok(())
}
