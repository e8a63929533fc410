//! Segments of the write-ahead log, scanned and replayed.
//!
//! Input: a byte of flags, then files as in [`fix::log::files`]. Flags: 1 checksums are put right; 2 also the places
//! and marks; 4 also lengths that reach too far; 8 the last segment may be read by a reader that knows a limit for
//! records; 16 a position is attested from elsewhere (4 and 4 bytes, before the files).
//!
//! Asked: a log that is accepted replays to its end, in order, twice the same; each record that comes out stands in the
//! file as the page on formats says, so that nothing is accepted that the format does not know; a log that is written
//! from what came out gives the same. Nothing is written by reading.

use std::path::Path;
use std::sync::Arc;

use codec::{FileId, Version};
use wal::{Log, Options, Position, Record, Scan};

use crate::Verdict;
use crate::disk::Disk;
use crate::fix;
use crate::fix::log::{DATA, Flavor, HEADER_BYTES, Wishes};
use crate::input::Input;

const DIR: &str = "/log";

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let mut input = Input::new(data);
    let flags = input.u8();
    let attested = if flags & 16 != 0 {
        Position { segment: FileId(input.u32().into()), offset: input.u32().into() }
    } else {
        Position::default()
    };
    let mut files = fix::log::files(input);
    if flags & 1 != 0 {
        let wishes = Wishes { places: flags & 2 != 0, lengths: flags & 4 != 0 };
        for (id, bytes) in &mut files {
            fix::log::fix(bytes, Flavor::Wal, *id, wishes);
        }
    }
    let Some(start) = files.iter().map(|(id, _)| *id).min() else { return Verdict::Refused };
    let disk = Disk::with(files.iter().map(|(id, bytes)| (path(*id, wal::Flavor::Wal), bytes.clone())));
    let record_bytes_max = if flags & 8 != 0 { 4096 } else { (1 << 30) + (1 << 20) };
    let options = options(&disk, record_bytes_max);
    let present: Vec<FileId> = files.iter().map(|(id, _)| FileId(*id)).collect();
    let scan = wal::scan_attested(&options, FileId(start), &present, attested);
    let verdict = Verdict::of(&scan);
    if let Ok(scan) = scan {
        let read = replay(&scan);
        assert_eq!(read, replay(&scan), "a second replay gives the same");
        for record in &read {
            compare(record, &files);
        }
        assert!(scan.attested >= attested && scan.end >= scan.attested, "what is attested is kept");
        check_segments(&scan, &files);
        rewrite(&read);
    }
    for (id, bytes) in &files {
        let after = disk.files();
        assert_eq!(after.get(&path(*id, wal::Flavor::Wal)), Some(bytes), "reading writes nothing");
    }
    verdict
}

fn path(id: u64, flavor: wal::Flavor) -> std::path::PathBuf {
    wal::path(Path::new(DIR), flavor, FileId(id))
}

fn options(disk: &Disk, record_bytes_max: u32) -> Options {
    Options {
        fs: Arc::new(disk.clone()),
        dir: DIR.into(),
        flavor: wal::Flavor::Wal,
        segment_bytes: 4096,
        record_bytes_max,
        trickle_bytes: 0,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Replayed {
    position: Position,
    end: Position,
    first_version: Version,
    body: Vec<u8>,
}

fn replay(scan: &Scan) -> Vec<Replayed> {
    let mut records = Vec::new();
    let mut replay = scan.replay();
    while let Some(record) = replay.next().expect("what was scanned can be replayed") {
        let (position, end, first_version) = (record.position, record.end, record.first_version);
        records.push(Replayed { position, end, first_version, body: record.body.to_vec() });
    }
    assert!(records.windows(2).all(|pair| pair[0].end <= pair[1].position), "records come in order");
    assert!(records.last().is_none_or(|last| last.end <= scan.end), "no record lies beyond the end");
    records
}

/// Whether the record stands in its file, by the page on formats.
fn compare(replayed: &Replayed, files: &[(u64, Vec<u8>)]) {
    let at = replayed.position;
    let (_, bytes) = files
        .iter()
        .find(|(id, _)| *id == at.segment.0)
        .expect("a record comes out of a segment that is there");
    let record = fix::log::record(bytes, Flavor::Wal, at.segment.0, at.offset)
        .expect("what is replayed stands in the file as the format says");
    assert_eq!(record.kind, DATA, "only data is replayed");
    assert_eq!(record.end, replayed.end.offset);
    assert_eq!(record.first_version, replayed.first_version.0);
    assert_eq!(record.body, replayed.body);
    assert!(record.attested <= (at.segment.0, at.offset), "no record attests itself");
}

/// Whether the segments of an accepted log are linked as the page on formats says, and full of whole records up to
/// where the next one says that they end.
fn check_segments(scan: &Scan, files: &[(u64, Vec<u8>)]) {
    let mut next = None;
    for &FileId(id) in scan.segments.iter().rev() {
        let (_, bytes) = files.iter().find(|(known, _)| *known == id).expect("a segment that is there");
        let predecessor = fix::log::header(bytes, Flavor::Wal, id).expect("a segment has a header");
        let end = match next {
            None => scan.end.offset,
            Some((segment, offset)) => {
                assert_eq!(segment, id, "segments name the one before");
                offset
            }
        };
        let mut at = HEADER_BYTES as u64;
        while at < end {
            at = fix::log::record(bytes, Flavor::Wal, id, at).expect("whole records up to the end").end;
        }
        assert_eq!(at, end, "a record ends where the segment does");
        next = Some(predecessor);
    }
}

/// What came out, written and read again.
fn rewrite(read: &[Replayed]) {
    let disk = Disk::new();
    let options = options(&disk, 1 << 30);
    let next = std::sync::atomic::AtomicU64::new(2);
    let next_id = move || FileId(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let log = Log::create(options.clone(), FileId(1), Box::new(next_id)).expect("a good disk");
    for record in read {
        let version = record.first_version;
        let appended =
            log.append(&[Record { first_version: version, last_version: version, body: &record.body }]);
        assert!(appended.error.is_none() && appended.complete == 1, "{appended:?}");
    }
    let present: Vec<FileId> = log.segments().iter().map(|segment| segment.id).collect();
    let scan = wal::scan(&options, FileId(1), &present).expect("what was just written");
    let again = replay(&scan);
    assert_eq!(again.len(), read.len());
    for (a, b) in again.iter().zip(read) {
        assert_eq!((a.first_version, &a.body), (b.first_version, &b.body));
    }
}
