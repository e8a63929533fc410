//! Reads what can be read of a damaged log, and tells where something is missing.
//!
//! Segments come in the order of their numbers, records in the order of their bytes. After damage the next record is
//! looked for by its head, which names its own place, so that none is taken for another. Bytes past the end that the next
//! segment names belong to no record here either.
//!
//! Decides nothing: whether what comes after a gap is of use is for whoever asked to say.

#[cfg(test)]
mod tests;

use codec::FileId;

use crate::read::{SegmentReader, Step};
use crate::record::RecordKind;
use crate::scan::ReplayRecord;
use crate::segment::{HeaderFault, RECORDS_START};
use crate::{Options, Position, Result};

/// A part of a log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins.
    pub at: Position,
    /// How many bytes it has. All of a segment that is missing counts as none.
    pub bytes: u64,
    /// Whether nothing that can be read follows in the segment, and no segment follows: an interrupted write looks so.
    pub is_tail: bool,
    /// Whether records are missing, as far as one can know: a damaged header hides none.
    pub hides_records: bool,
    /// What stands there instead.
    pub why: String,
}

/// What a salvage comes to.
#[derive(Clone, Debug)]
pub enum Piece<'a> {
    /// A data record that is whole.
    Record(ReplayRecord<'a>),
    /// Something that is not.
    Gap(Gap),
}

/// Visits the records of `segments` in order, and the gaps between them.
///
/// # Errors
/// [`crate::Error::UnsupportedFormat`]: a segment of a newer version is not looked into. [`crate::Error::Io`] if a file
/// that is there cannot be opened for a reason that is none of the disk's: a permission, or too many open files. A disk that
/// refuses to read is a gap.
pub fn salvage(options: &Options, segments: &[FileId], visit: &mut dyn FnMut(Piece<'_>)) -> Result<()> {
    let mut ids: Vec<FileId> = segments.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let heads: Vec<Head> = ids.iter().map(|id| Head::read(options, *id)).collect::<Result<_>>()?;
    for (number, (&id, head)) in ids.iter().zip(&heads).enumerate() {
        let later = &heads[number + 1..];
        // Of several segments that name the same one before them the last one counts, as for a scan.
        let limit = later
            .iter()
            .rev()
            .filter_map(|later| later.predecessor)
            .find(|before| before.segment == id)
            .map(|before| before.offset);
        if let Some(before) = head.predecessor
            && before.segment > ids[0]
            && !ids.contains(&before.segment)
        {
            let at = Position { segment: before.segment, offset: 0 };
            let why = "the segment is missing".to_owned();
            visit(Piece::Gap(Gap { at, bytes: 0, is_tail: false, hides_records: true, why }));
        }
        let is_last = later.iter().all(|later| later.is_unused);
        match &head.reader {
            Err(why) => visit(Piece::Gap(Gap {
                at: Position { segment: id, offset: 0 },
                bytes: 0,
                is_tail: false,
                hides_records: true,
                why: why.clone(),
            })),
            Ok(_) if head.is_unused => {}
            Ok(()) => segment(options, id, head, limit, is_last, visit)?,
        }
    }
    Ok(())
}

/// What the beginning of a segment says.
struct Head {
    /// Whether it can be read at all.
    reader: std::result::Result<(), String>,
    predecessor: Option<Position>,
    is_unused: bool,
    damage: Option<String>,
}

impl Head {
    fn read(options: &Options, id: FileId) -> Result<Head> {
        let mut head = Head { reader: Ok(()), predecessor: None, is_unused: false, damage: None };
        let read = SegmentReader::open_patient(options, id).and_then(|mut reader| reader.header());
        match read {
            Ok(Ok(header)) => head.predecessor = header.predecessor,
            Ok(Err(HeaderFault::Unused)) => head.is_unused = true,
            Ok(Err(HeaderFault::Damaged(damage))) => head.damage = Some(damage.to_string()),
            Ok(Err(HeaderFault::Unsupported { version, features })) => {
                return Err(crate::Error::UnsupportedFormat {
                    file: crate::path(&options.dir, options.flavor, id).into(),
                    version,
                    version_known: crate::segment::FORMAT_VERSION,
                    features,
                    features_known: crate::segment::FEATURES_KNOWN,
                });
            }
            Err(error) if is_about_us(&error) => return Err(error),
            Err(error) => head.reader = Err(error.to_string()),
        }
        Ok(head)
    }
}

/// Whether an error says nothing of the file.
fn is_about_us(error: &crate::Error) -> bool {
    let is_denied = error.io().is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    is_denied || error.is_out_of_descriptors()
}

/// How much of a segment may be looked at more than once: so much, and for each byte so many.
const AGAIN_BYTES: u64 = 64 << 20;
const AGAIN_PER_BYTE: u64 = 4;

fn segment(
    options: &Options,
    id: FileId,
    head: &Head,
    limit: Option<u64>,
    is_last: bool,
    visit: &mut dyn FnMut(Piece<'_>),
) -> Result<()> {
    if let Some(why) = &head.damage {
        let (at, why) = (Position { segment: id, offset: 0 }, why.clone());
        visit(Piece::Gap(Gap { at, bytes: RECORDS_START, is_tail: false, hides_records: false, why }));
    }
    let mut reader = match SegmentReader::open_patient(options, id) {
        Ok(reader) => reader,
        Err(error) if is_about_us(&error) => return Err(error),
        Err(error) => {
            let (at, why) = (Position { segment: id, offset: 0 }, error.to_string());
            visit(Piece::Gap(Gap { at, bytes: 0, is_tail: false, hides_records: true, why }));
            return Ok(());
        }
    };
    let mut again = reader.len().saturating_mul(AGAIN_PER_BYTE).saturating_add(AGAIN_BYTES);
    let end = limit.unwrap_or(reader.len()).min(reader.len());
    let mut at = RECORDS_START;
    while at < end {
        let why = match reader.record(at) {
            Ok(Step::Record { head, end: next }) if next <= end => {
                if head.kind == RecordKind::Data {
                    visit(Piece::Record(ReplayRecord {
                        position: head.at,
                        end: Position { segment: id, offset: next },
                        first_version: head.first_version,
                        body: reader.body(&head),
                    }));
                }
                at = next;
                continue;
            }
            Ok(Step::Record { end: next, .. }) => format!("a record ends at byte {next}, after byte {end}"),
            Ok(Step::Broken(broken)) => {
                again = again.saturating_sub(broken.bytes);
                broken.damage.to_string()
            }
            Err(error) => error.to_string(),
        };
        let next = match again {
            0 => None,
            _ => reader.next_record(at + 1, end, &mut again).unwrap_or(None),
        };
        // Zeros to the end were never written, if nobody says that something was.
        let written = if next.is_none() && limit.is_none() {
            reader.beyond(at).map_or(end, |beyond| beyond.written_end)
        } else {
            next.unwrap_or(end)
        };
        if written > at {
            let gap = Gap {
                at: Position { segment: id, offset: at },
                bytes: written - at,
                is_tail: next.is_none() && is_last,
                hides_records: true,
                why,
            };
            visit(Piece::Gap(gap));
        }
        at = next.unwrap_or(end);
    }
    if limit.is_some_and(|limit| limit > reader.len().max(at)) {
        let (at, bytes) = (Position { segment: id, offset: at.min(reader.len()) }, limit.unwrap_or(0) - at);
        let why = "the file ends before the segment does".to_owned();
        visit(Piece::Gap(Gap { at, bytes, is_tail: false, hides_records: true, why }));
    }
    Ok(())
}
