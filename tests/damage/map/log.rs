//! The segments and records of a log, and what they attest.

use std::ops::Range;

use super::{Region, number, number_of};
use crate::image::Files;

const HEADER_BYTES: usize = 64;
const HEAD_BYTES: usize = 54;

/// A place in a log: segment, byte.
pub(crate) type Position = (u64, u64);

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) range: Range<usize>,
    pub(crate) is_data: bool,
    pub(crate) first_version: u64,
    /// Up to where the log was known to be synced when it was written.
    pub(crate) attested: Position,
}

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) records: Vec<Record>,
}

/// A log: its segments, in order.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) segments: Vec<Segment>,
}

impl Log {
    /// Reads the segments of this extension. Those that were prepared and never used have no records.
    pub(crate) fn read(files: &Files, extension: &str) -> Log {
        let mut log = Log { segments: Vec::new() };
        let names =
            files.keys().filter(|name| name.rsplit_once('.').is_some_and(|(_, found)| found == extension));
        for name in names {
            let bytes = &files[name];
            let number = number_of(name).expect("a number");
            let mut segment = Segment { number, name: name.clone(), records: Vec::new() };
            let mut at = HEADER_BYTES;
            while let Some(record) = record(bytes, at) {
                at = record.range.end;
                segment.records.push(record);
            }
            log.segments.push(segment);
        }
        log.segments.sort_by_key(|segment| segment.number);
        log
    }

    /// The bodies of all records.
    pub(crate) fn bodies<'a>(&'a self, files: &'a Files) -> impl Iterator<Item = &'a [u8]> {
        self.segments.iter().flat_map(move |segment| {
            let bytes = &files[&segment.name];
            let body = |record: &Record| record.range.start + HEAD_BYTES..record.range.end - 1;
            segment.records.iter().map(move |record| &bytes[body(record)])
        })
    }

    pub(crate) fn regions(&self, name: &str, bytes: &[u8]) -> Vec<Region> {
        let segment = self.segments.iter().find(|segment| segment.name == name).expect("it was read");
        let mut regions = Vec::new();
        let mut region = |range: Range<usize>, what| {
            if !range.is_empty() {
                regions.push(Region { range, what });
            }
        };
        let mut end = HEADER_BYTES;
        let is_used = bytes[..HEADER_BYTES].iter().any(|byte| *byte != 0);
        region(0..HEADER_BYTES, if is_used { "header" } else { "header of an unused segment" });
        for record in &segment.records {
            let (start, body) = (record.range.start, record.range.start + HEAD_BYTES);
            region(start..body, "record head");
            region(body..record.range.end - 1, "record body");
            region(record.range.end - 1..record.range.end, "end mark of a record");
            end = record.range.end;
        }
        assert!(bytes[end..].iter().all(|byte| *byte == 0), "{name}: more than records and zeros");
        // Where the next record would have its head.
        let next = bytes.len().min(end + HEAD_BYTES);
        region(end..next, "zeros right after the last record");
        region(next..bytes.len(), "zeros after the last record");
        regions
    }
}

/// The record at `at`, if there is one.
fn record(bytes: &[u8], at: usize) -> Option<Record> {
    let head = bytes.get(at..at + HEAD_BYTES)?;
    if head[HEAD_BYTES - 1] != 0xa6 {
        return None;
    }
    let body_bytes = number::<4>(head, 5) as usize;
    Some(Record {
        range: at..at + HEAD_BYTES + body_bytes + 1,
        is_data: head[0] == 0xd1,
        first_version: number::<8>(head, 29),
        attested: (number::<8>(head, 37), number::<8>(head, 45)),
    })
}
