//! Changes files as a later version, or a wrong one, would have written them: with every checksum right.
//!
//! Follows `docs/file-formats.md` and shares no code with the engine but the checksum itself.

use codec::{FileId, Kind, checksum};

/// The line of `CURRENT` with this text before the checksum.
pub(crate) fn current(text: &str) -> Vec<u8> {
    let sum = checksum(Kind::Current, FileId(0), 0, &[text.as_bytes()]).0;
    format!("{text}{sum:08x}\n").into_bytes()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    Wal,
    Manifest,
}

impl Log {
    fn header_kind(self) -> Kind {
        match self {
            Log::Wal => Kind::SegmentHeader,
            Log::Manifest => Kind::ManifestHeader,
        }
    }

    fn record_kind(self) -> Kind {
        match self {
            Log::Wal => Kind::LogRecord,
            Log::Manifest => Kind::ManifestRecord,
        }
    }
}

/// Puts the checksum of a segment's header right.
pub(crate) fn seal_segment_header(log: Log, file: FileId, bytes: &mut [u8]) {
    let sum = checksum(log.header_kind(), file, 0, &[&bytes[..60]]).0;
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
}

/// Puts the checksum of an sstable's header right.
pub(crate) fn seal_sstable_header(file: FileId, bytes: &mut [u8]) {
    let sum = checksum(Kind::SstableHeader, file, 0, &[&bytes[..24]]).0;
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
}

/// Puts the checksum of an sstable's footer right.
pub(crate) fn seal_footer(file: FileId, bytes: &mut [u8]) {
    let footer = bytes.len() - 64;
    let sum = checksum(Kind::Footer, file, footer as u64, &[&bytes[footer..footer + 52]]).0;
    bytes[footer + 52..footer + 56].copy_from_slice(&sum.to_le_bytes());
}

/// A record of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) offset: usize,
    pub(crate) body: usize,
    /// After the end mark.
    pub(crate) end: usize,
}

/// The records of a segment, attestations included.
pub(crate) fn records(bytes: &[u8]) -> Vec<Record> {
    let mut found = Vec::new();
    let mut offset = 64;
    while bytes.get(offset).is_some_and(|kind| [0xd1, 0x8e].contains(kind)) {
        let body = offset + 54;
        let length = u32::from_le_bytes(bytes[offset + 5..offset + 9].try_into().expect("four bytes"));
        let end = body + length as usize + 1;
        found.push(Record { offset, body, end });
        offset = end;
    }
    found
}

/// Puts the checksums of a record right.
pub(crate) fn seal_record(log: Log, file: FileId, bytes: &mut [u8], record: Record) {
    let (kind, at) = (log.record_kind(), record.offset as u64);
    let sum = checksum(kind, file, at, &[&bytes[record.body..record.end]]).0;
    bytes[record.offset + 9..record.offset + 13].copy_from_slice(&sum.to_le_bytes());
    let head = &bytes[record.offset..record.body];
    let sum = checksum(kind, file, at, &[&head[..1], &head[5..]]).0;
    bytes[record.offset + 1..record.offset + 5].copy_from_slice(&sum.to_le_bytes());
}

/// Writes a record after the last, over what was prepared there.
pub(crate) fn append_record(log: Log, file: FileId, bytes: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let last = *records(bytes).last().expect("a log with a record");
    let mut head = bytes[last.offset..last.body].to_vec();
    head[0] = kind;
    head[5..9].copy_from_slice(&u32::try_from(body.len()).expect("short").to_le_bytes());
    head[21..29].copy_from_slice(&(last.end as u64).to_le_bytes());
    let whole = [&head[..], body, &[0xe9]].concat();
    let record = Record { offset: last.end, body: last.end + 54, end: last.end + whole.len() };
    bytes.resize(bytes.len().max(record.end), 0);
    bytes[record.offset..record.end].copy_from_slice(&whole);
    seal_record(log, file, bytes, record);
}
