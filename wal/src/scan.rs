//! Learns, read-only, what a log holds and where it ends.
//!
//! The segments that are there are linked by their headers: each names the one before it and where that one ends.
//! The log is the chain from the start on. Of several segments that name the same predecessor the last one counts:
//! the writer gave the others up. A segment without a predecessor begins another log: a recovery that was interrupted
//! leaves one above the log that is in force, and neither it nor what follows it says anything about this one.
//!
//! One rule for the whole log. Every record says how far the log was known to be synced when it was written. Below the
//! greatest such position, wherever it was found, also past damage, everything must be whole: damage there, or a
//! segment that is missing, is corruption. Above it, damage that looks unwritten is a torn tail: the log ends there,
//! later segments included. Damage that looks written is corruption. It looks unwritten if the file ends within the
//! record, if some sector's part of the record is zeros, if everything from within the record to the end of the file is
//! zeros (a failed write may stop within a sector), or if the bytes evidently belong to another place.
//!
//! Never writes. Never looks into a body.

mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use codec::FileId;

pub use self::replay::{Replay, ReplayRecord};
use crate::read::{Beyond, Broken, SegmentReader, Step};
use crate::segment::{FEATURES_KNOWN, FORMAT_VERSION, HEADER_BYTES, HeaderFault, RECORDS_START};
use crate::{Damage, Error, Options, Position, Result, path};

/// What is cut off from a log, because a power cut or a kill interrupted the writing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where the log ends.
    pub at: Position,
    /// What stands there instead of a record.
    pub reason: String,
    /// How many bytes are cut off.
    pub bytes: u64,
    /// Where they lie, so that they can be saved aside.
    pub ranges: Vec<(FileId, Range<u64>)>,
}

/// What a log holds.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Where the log ends: after the last record.
    pub end: Position,
    /// The greatest position that is known to have been synced.
    pub attested: Position,
    /// What is cut off, if anything.
    pub torn: Option<Torn>,
    /// The segments of the log, oldest first. What else there is above the first holds nothing.
    pub segments: Vec<FileId>,
    options: Options,
    /// Where the records of each segment end.
    ends: Vec<u64>,
}

/// Reads the headers and records of the log that starts with segment `start`, and decides where it ends.
/// `segments_present` names the segments that are in the folder, in any order; those below `start` are left alone.
///
/// The segment `start` must be there with its header: who names a start has synced it.
///
/// # Errors
/// [`Error::Corruption`] by the rule of the log, [`Error::UnsupportedFormat`] for a segment of a newer version,
/// [`Error::Io`].
pub fn scan(options: &Options, start: FileId, segments_present: &[FileId]) -> Result<Scan> {
    scan_attested(options, start, segments_present, Position::default())
}

/// Like [`scan`], with a position that is known from elsewhere to have been synced: an edit of the manifest names one.
///
/// # Errors
/// Those of [`scan`].
pub fn scan_attested(
    options: &Options,
    start: FileId,
    segments_present: &[FileId],
    attested: Position,
) -> Result<Scan> {
    let mut present: Vec<FileId> = segments_present.iter().copied().filter(|id| *id >= start).collect();
    present.sort_unstable();
    present.dedup();
    let mut links = present.iter().map(|id| Link::read(options, *id)).collect::<Result<Vec<_>>>()?;
    leave_out_other_logs(start, &mut links);
    let attested = attested.max(Position { segment: start, offset: RECORDS_START });
    let chain = chain(options, start, &links, attested)?;
    let surveys = links
        .iter()
        .map(|link| {
            let limit = chain.iter().find(|member| member.id == link.id).and_then(|member| member.end);
            Survey::make(options, link, limit)
        })
        .collect::<Result<Vec<_>>>()?;
    let attested = surveys.iter().map(|survey| survey.attested).fold(attested, Position::max);
    Judge { options, links: &links, surveys: &surveys, chain: &chain, attested }.judge()
}

impl Scan {
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The segments with the ends of their records.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.segments.iter().copied().zip(self.ends.iter().copied())
    }

    /// The bytes of all records, what stands before them included.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        self.ends.iter().map(|end| end.saturating_sub(RECORDS_START)).sum()
    }

    /// The records of the log, from the first to the end.
    #[must_use]
    pub fn replay(&self) -> Replay {
        Replay::new(self.options.clone(), self.extents().collect(), self.attested)
    }
}

/// A segment that is there, and what its header says.
struct Link {
    id: FileId,
    header: LinkHeader,
}

enum LinkHeader {
    Linked { predecessor: Option<Position> },
    Unused,
    Damaged(Damage),
}

impl Link {
    fn read(options: &Options, id: FileId) -> Result<Link> {
        let mut reader = SegmentReader::open(options, id)?;
        let header = match reader.header()? {
            Ok(header) => LinkHeader::Linked { predecessor: header.predecessor },
            Err(HeaderFault::Unused) => LinkHeader::Unused,
            // A write that failed may stop within the header. Then nothing follows: it goes out first, or with the first
            // records in one write.
            Err(HeaderFault::Damaged(_)) if reader.beyond(0)?.written_end < HEADER_BYTES as u64 => {
                LinkHeader::Unused
            }
            Err(HeaderFault::Damaged(damage)) => LinkHeader::Damaged(damage),
            Err(HeaderFault::Unsupported { version, features }) => {
                return Err(Error::UnsupportedFormat {
                    file: file_of(options, id),
                    version,
                    version_known: FORMAT_VERSION,
                    features,
                    features_known: FEATURES_KNOWN,
                });
            }
        };
        Ok(Link { id, header })
    }
}

/// Takes out the segments of logs that were begun after this one. `links` ascend, as numbers do along a log.
fn leave_out_other_logs(start: FileId, links: &mut Vec<Link>) {
    let mut others = BTreeSet::new();
    links.retain(|link| {
        let is_other = match link.header {
            LinkHeader::Linked { predecessor: None } => link.id != start,
            LinkHeader::Linked { predecessor: Some(before) } => others.contains(&before.segment),
            LinkHeader::Unused | LinkHeader::Damaged(_) => false,
        };
        if is_other {
            others.insert(link.id);
        }
        !is_other
    });
}

/// A segment of the log, and where the next one says that it ends; the last one has no such end.
#[derive(Clone, Copy)]
struct Member {
    id: FileId,
    end: Option<u64>,
}

/// Follows the links from `start` on.
fn chain(options: &Options, start: FileId, links: &[Link], attested: Position) -> Result<Vec<Member>> {
    let corruption = |damage: Damage| Error::Corruption {
        file: file_of(options, start),
        offset: 0,
        damage,
        attested,
        segment: start,
    };
    match links.first() {
        Some(Link { id, header }) if *id == start => match header {
            LinkHeader::Linked { .. } => {}
            LinkHeader::Unused => return Err(corruption(Damage::HeaderMissing)),
            LinkHeader::Damaged(damage) => return Err(corruption(damage.clone())),
        },
        _ => return Err(corruption(Damage::Missing)),
    }
    let mut chain = vec![Member { id: start, end: None }];
    // Numbers grow along the chain (a header that names a greater predecessor is damaged), so this ends.
    loop {
        let last = chain.last_mut().expect("begins with the start");
        let next = links.iter().rev().find_map(|link| match link.header {
            LinkHeader::Linked { predecessor: Some(before) } if before.segment == last.id => {
                Some((link.id, before.offset))
            }
            _ => None,
        });
        let Some((next, end)) = next else { return Ok(chain) };
        last.end = Some(end);
        chain.push(Member { id: next, end: None });
    }
}

/// What the records of one segment say.
struct Survey {
    /// The end of the last record that can be read in order.
    records_end: u64,
    /// What stands there, unless it is the end that the next segment names.
    broken: Option<Broken>,
    /// What was found past it.
    beyond: Option<Beyond>,
    attested: Position,
}

impl Survey {
    fn make(options: &Options, link: &Link, limit: Option<u64>) -> Result<Survey> {
        let mut reader = SegmentReader::open(options, link.id)?;
        let mut survey = Survey {
            records_end: RECORDS_START.min(reader.len()),
            broken: None,
            beyond: None,
            attested: Position::default(),
        };
        if matches!(link.header, LinkHeader::Linked { .. }) {
            survey.walk(&mut reader, limit)?;
            if survey.broken.is_none() {
                return Ok(survey);
            }
        }
        let beyond = reader.beyond(survey.records_end)?;
        survey.attested = survey.attested.max(beyond.attested);
        survey.beyond = Some(beyond);
        Ok(survey)
    }

    fn walk(&mut self, reader: &mut SegmentReader, limit: Option<u64>) -> Result<()> {
        while limit != Some(self.records_end) {
            match reader.record(self.records_end)? {
                Step::Broken(broken) => {
                    self.broken = Some(broken);
                    break;
                }
                Step::Record { head, end } => {
                    self.attested = self.attested.max(head.attested);
                    if let Some(segment_end) = limit
                        && end > segment_end
                    {
                        let damage = Damage::PassesEnd { end, segment_end };
                        let bytes = end - self.records_end;
                        self.broken = Some(Broken { damage, unwritten: false, bytes });
                        break;
                    }
                    self.records_end = end;
                }
            }
        }
        Ok(())
    }

    /// Whether what stands at the end of the records may be an interrupted write: the file ends or a sector is zeros
    /// within the record; or a write was cut short within a sector, so that zeros follow up to the end of the file; or
    /// the bytes were written for another place, and nothing after them for this one.
    fn looks_unwritten(&self, broken: &Broken) -> bool {
        let may_be = |beyond: &Beyond| {
            let cut_short = beyond.written_end < self.records_end + broken.bytes;
            let stale = beyond.stale && !beyond.own;
            cut_short || stale
        };
        broken.unwritten || self.beyond.as_ref().is_some_and(may_be)
    }

    /// The bytes past `from` that are not zeros to the end.
    fn written_from(&self, from: u64) -> Range<u64> {
        let end = self.beyond.as_ref().map_or(self.records_end, |beyond| beyond.written_end);
        from..end.max(from)
    }
}

/// Applies the rule of the log.
struct Judge<'a> {
    options: &'a Options,
    links: &'a [Link],
    /// One for each link.
    surveys: &'a [Survey],
    chain: &'a [Member],
    attested: Position,
}

impl Judge<'_> {
    fn judge(&self) -> Result<Scan> {
        let mut segments = Vec::new();
        let mut ends = Vec::new();
        for member in self.chain {
            let survey = self.survey(member.id);
            segments.push(member.id);
            ends.push(survey.records_end);
            let Some(broken) = &survey.broken else { continue };
            let end = Position { segment: member.id, offset: survey.records_end };
            self.forgive(end, survey, broken)?;
            self.check_later_headers()?;
            let torn = self.torn(end, broken);
            return Ok(Scan {
                end,
                attested: self.attested,
                torn,
                segments,
                options: self.options.clone(),
                ends,
            });
        }
        unreachable!("the last segment of a chain is read to where no record stands")
    }

    /// Whether the log may end at `end`.
    fn forgive(&self, end: Position, survey: &Survey, broken: &Broken) -> Result<()> {
        let looks_unwritten = survey.looks_unwritten(broken);
        if end >= self.attested && looks_unwritten {
            return Ok(());
        }
        let is_last = self.chain.last().is_some_and(|last| last.id == end.segment);
        if looks_unwritten && is_last && self.attested.segment > end.segment {
            // The segment ends well; what should follow it does not.
            return Err(self.missing_after(end.segment));
        }
        Err(self.corruption(end.segment, end.offset, broken.damage.clone()))
    }

    /// A segment after `last` was synced and is not there, or has no header.
    fn missing_after(&self, last: FileId) -> Error {
        let missing = self.links.iter().filter(|link| link.id > last).find_map(|link| match &link.header {
            LinkHeader::Damaged(damage) => Some((link.id, damage.clone())),
            LinkHeader::Unused if link.id == self.attested.segment => Some((link.id, Damage::HeaderMissing)),
            LinkHeader::Unused => None,
            LinkHeader::Linked { predecessor } => predecessor.map(|before| (before.segment, Damage::Missing)),
        });
        let (segment, damage) = missing.unwrap_or((self.attested.segment, Damage::Missing));
        self.corruption(segment, 0, damage)
    }

    /// A header that was damaged may hide any segment after the last one that is linked.
    fn check_later_headers(&self) -> Result<()> {
        let last = self.chain.last().expect("begins with the start").id;
        for link in self.links.iter().filter(|link| link.id > last) {
            if let LinkHeader::Damaged(damage) = &link.header {
                return Err(self.corruption(link.id, 0, damage.clone()));
            }
        }
        Ok(())
    }

    fn torn(&self, end: Position, broken: &Broken) -> Option<Torn> {
        let mut ranges = Vec::new();
        for (link, survey) in self.links.iter().zip(self.surveys) {
            let from = match &link.header {
                _ if link.id < end.segment => continue,
                _ if link.id == end.segment => end.offset,
                LinkHeader::Linked { .. } | LinkHeader::Damaged(_) => 0,
                LinkHeader::Unused if survey.written_from(0).end > RECORDS_START => 0,
                LinkHeader::Unused => continue,
            };
            let range = survey.written_from(from);
            if !range.is_empty() {
                ranges.push((link.id, range));
            }
        }
        if ranges.is_empty() {
            return None;
        }
        let bytes = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        Some(Torn { at: end, reason: broken.damage.to_string(), bytes, ranges })
    }

    fn survey(&self, id: FileId) -> &Survey {
        let index = self.links.iter().position(|link| link.id == id).expect("a chain is made of links");
        &self.surveys[index]
    }

    fn corruption(&self, segment: FileId, offset: u64, damage: Damage) -> Error {
        let file = file_of(self.options, segment);
        Error::Corruption { file, offset, damage, attested: self.attested, segment }
    }
}

fn file_of(options: &Options, id: FileId) -> Arc<Path> {
    path(&options.dir, options.flavor, id).into()
}
