//! Segments of logs, the write-ahead log's and the manifest's.

use codec::{FileId, Kind, checksum};

use crate::input::Input;

/// How long the header of a segment is.
pub const HEADER_BYTES: usize = 64;
/// How long the head of a record is.
pub const HEAD_BYTES: usize = 54;
/// What a record takes beyond its body.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + 1;
/// The kind of a record that holds data.
pub const DATA: u8 = 0xd1;
/// The kind of one that only says how far the log is synced.
pub const ATTESTATION: u8 = 0x8e;
const HEAD_MARK: u8 = 0xa6;
const END_MARK: u8 = 0xe9;

/// Which of the two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// `N.wal`.
    Wal,
    /// `N.manifest`.
    Manifest,
}

impl Flavor {
    fn magic(self) -> [u8; 8] {
        match self {
            Flavor::Wal => *b"NYALAWAL",
            Flavor::Manifest => *b"NYALAMAN",
        }
    }

    fn header(self) -> Kind {
        match self {
            Flavor::Wal => Kind::SegmentHeader,
            Flavor::Manifest => Kind::ManifestHeader,
        }
    }

    fn record(self) -> Kind {
        match self {
            Flavor::Wal => Kind::LogRecord,
            Flavor::Manifest => Kind::ManifestRecord,
        }
    }
}

/// What is put right, beside the checksums of header, heads and bodies.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// The numbers that say where a header or a record stands, and the marks.
    pub places: bool,
    /// Lengths that reach beyond the segment.
    pub lengths: bool,
}

/// Puts a segment right, in place. Goes from record to record as their lengths say.
pub fn fix(bytes: &mut [u8], flavor: Flavor, id: u64, wishes: Wishes) {
    let Some(header) = bytes.first_chunk_mut::<HEADER_BYTES>() else { return };
    if wishes.places {
        header[..8].copy_from_slice(&flavor.magic());
        header[8..16].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
        header[16..24].copy_from_slice(&id.to_le_bytes());
    }
    let own = u64_at(header, 16);
    let sum = checksum(flavor.header(), FileId(own), 0, &[&header[..60]]).0;
    header[60..].copy_from_slice(&sum.to_le_bytes());
    let mut at = HEADER_BYTES;
    while let Some(record) = bytes.get_mut(at..)
        && record.len() >= OVERHEAD_BYTES
        && record[..HEAD_BYTES].iter().any(|byte| *byte != 0)
    {
        at += fix_record(record, flavor, id, at as u64, wishes);
    }
}

/// Puts the record at the front of `bytes` right, and tells how long it is.
fn fix_record(bytes: &mut [u8], flavor: Flavor, id: u64, at: u64, wishes: Wishes) -> usize {
    let room = bytes.len() - OVERHEAD_BYTES;
    let mut length = u32_at(bytes, 5) as usize;
    if wishes.lengths && length > room {
        length = room;
        bytes[5..9].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    if wishes.places {
        bytes[13..21].copy_from_slice(&id.to_le_bytes());
        bytes[21..29].copy_from_slice(&at.to_le_bytes());
        bytes[53] = HEAD_MARK;
    }
    let (segment, offset) = (FileId(u64_at(bytes, 13)), u64_at(bytes, 21));
    let end = HEAD_BYTES.saturating_add(length);
    if end < bytes.len() {
        if wishes.places {
            bytes[end] = END_MARK;
        }
        let sum = checksum(flavor.record(), segment, offset, &[&bytes[HEAD_BYTES..=end]]).0;
        bytes[9..13].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = checksum(flavor.record(), segment, offset, &[&bytes[..1], &bytes[5..HEAD_BYTES]]).0;
    bytes[1..5].copy_from_slice(&sum.to_le_bytes());
    end.saturating_add(1)
}

/// What stands in a record, as the page on formats says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// [`DATA`] or [`ATTESTATION`].
    pub kind: u8,
    /// Where it begins.
    pub at: u64,
    /// Where it ends.
    pub end: u64,
    /// The first version in it.
    pub first_version: u64,
    /// The attested position: segment and byte.
    pub attested: (u64, u64),
    /// Its body.
    pub body: &'a [u8],
}

/// The record at `at` of segment `id`, if a whole one stands there.
#[must_use]
pub fn record(bytes: &[u8], flavor: Flavor, id: u64, at: u64) -> Option<Record<'_>> {
    let start = usize::try_from(at).ok()?;
    let bytes = bytes.get(start..)?;
    let head = bytes.get(..HEAD_BYTES)?;
    let length = u32_at(head, 5) as usize;
    let rest = bytes.get(HEAD_BYTES..HEAD_BYTES.checked_add(length)?.checked_add(1)?)?;
    let sum = |parts: &[&[u8]]| checksum(flavor.record(), FileId(id), at, parts).0;
    let is_whole = matches!(head[0], DATA | ATTESTATION)
        && (u64_at(head, 13), u64_at(head, 21)) == (id, at)
        && head[53] == HEAD_MARK
        && rest[length] == END_MARK
        && u32_at(head, 1) == sum(&[&head[..1], &head[5..]])
        && u32_at(head, 9) == sum(&[rest]);
    is_whole.then(|| Record {
        kind: head[0],
        at,
        end: at + (OVERHEAD_BYTES + length) as u64,
        first_version: u64_at(head, 29),
        attested: (u64_at(head, 37), u64_at(head, 45)),
        body: &rest[..length],
    })
}

/// Whether a whole header of segment `id` stands at the front, and its predecessor: segment and end.
#[must_use]
pub fn header(bytes: &[u8], flavor: Flavor, id: u64) -> Option<(u64, u64)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let is_whole = header[..8] == flavor.magic()
        && header[8..16] == [1, 0, 0, 0, 0, 0, 0, 0]
        && u64_at(header, 16) == id
        && u32_at(header, 60) == checksum(flavor.header(), FileId(id), 0, &[&header[..60]]).0;
    is_whole.then(|| (u64_at(header, 24), u64_at(header, 32)))
}

/// A segment taken apart, to be changed and put together again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The segment before it, and where that one ends.
    pub predecessor: (u64, u64),
    /// Its records, in order.
    pub records: Vec<OwnedRecord>,
    /// What follows them.
    pub tail: Vec<u8>,
}

/// What can be said of a record that is not told by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// [`DATA`] or [`ATTESTATION`].
    pub kind: u8,
    /// The first version in it.
    pub first_version: u64,
    /// The attested position: segment and byte.
    pub attested: (u64, u64),
    /// Its body.
    pub body: Vec<u8>,
}

impl Segment {
    /// Takes a segment apart, if it has a header.
    #[must_use]
    pub fn take_apart(bytes: &[u8], flavor: Flavor, id: u64) -> Option<Segment> {
        let predecessor = header(bytes, flavor, id)?;
        let mut records = Vec::new();
        let mut at = HEADER_BYTES as u64;
        while let Some(record) = record(bytes, flavor, id, at) {
            let (kind, first_version, attested) = (record.kind, record.first_version, record.attested);
            records.push(OwnedRecord { kind, first_version, attested, body: record.body.to_vec() });
            at = record.end;
        }
        let tail = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default().to_vec();
        Some(Segment { predecessor, records, tail })
    }

    /// The bytes of it, every checksum right.
    #[must_use]
    pub fn put_together(&self, flavor: Flavor, id: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[24..32].copy_from_slice(&self.predecessor.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.predecessor.1.to_le_bytes());
        let wishes = Wishes { places: true, lengths: false };
        fix(&mut bytes, flavor, id, wishes);
        for record in &self.records {
            let start = bytes.len();
            bytes.resize(start + HEAD_BYTES, 0);
            let head = &mut bytes[start..];
            head[0] = record.kind;
            head[5..9].copy_from_slice(&u32::try_from(record.body.len()).unwrap_or(u32::MAX).to_le_bytes());
            head[29..37].copy_from_slice(&record.first_version.to_le_bytes());
            head[37..45].copy_from_slice(&record.attested.0.to_le_bytes());
            head[45..53].copy_from_slice(&record.attested.1.to_le_bytes());
            bytes.extend_from_slice(&record.body);
            bytes.push(0);
            fix_record(&mut bytes[start..], flavor, id, start as u64, wishes);
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }
}

/// The files in an input: for each, a number from 1 to 16, a length of four bytes, the bytes.
#[must_use]
pub fn files(mut input: Input<'_>) -> Vec<(u64, Vec<u8>)> {
    let mut files: Vec<(u64, Vec<u8>)> = Vec::new();
    while !input.is_empty() && files.len() < 16 {
        let id = u64::from(input.u8() & 0x0f) + 1;
        let length = input.u32() as usize;
        let bytes = input.bytes(length).to_vec();
        if files.iter().all(|(known, _)| *known != id) {
            files.push((id, bytes));
        }
    }
    files
}

/// The input that [`files`] makes these files of.
#[must_use]
pub fn to_input(files: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut input = Vec::new();
    for (id, bytes) in files {
        input.push(u8::try_from(id - 1).expect("at most 16 files"));
        input.extend_from_slice(&u32::try_from(bytes.len()).expect("small files").to_le_bytes());
        input.extend_from_slice(bytes);
    }
    input
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
