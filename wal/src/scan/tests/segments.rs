//! Whole segments: missing, exchanged, unused, of another log or of a newer format.

use codec::Version;
use vfs::Fs;
use vfs::sim::PowerCut;

use super::{FIRST_AT, Known, bodies, damaged, log_of, offset};
use crate::record::{self, RecordKind};
use crate::scan::*;
use crate::segment::{HEADER_BYTES, Header};
use crate::testing::{
    FIRST, SEGMENT_BYTES, append, append_one, body, damage, dir, disk, file, new_log, options, present,
    read_all, replay, scan_all,
};
use crate::{Flavor, Log};

#[test]
fn a_missing_segment_is_corruption_below_what_is_attested_and_the_end_above() {
    for known in [Known::Nothing, Known::AllBefore] {
        let fs = disk(1);
        let log = new_log(&fs);
        append(&log, &bodies(&[600; 20]));
        if known == Known::AllBefore {
            log.sync(log.end()).unwrap();
            append_one(&log, 99, 10);
        }
        let ids = present(&fs);
        assert!(ids.len() >= 4);
        for missing in 1..ids.len() {
            let fs = fs.power_cut(&PowerCut::keep_all());
            fs.remove(&file(ids[missing])).unwrap();
            let result = scan_all(&fs);
            // When the last is gone, nobody is left to tell.
            if known == Known::AllBefore && missing + 1 < ids.len() {
                let error = result.unwrap_err();
                let Error::Corruption { file: found, damage: Damage::Missing, .. } = &error else {
                    panic!("{error}")
                };
                assert_eq!(**found, *file(ids[missing]));
                continue;
            }
            let scan = result.unwrap();
            assert_eq!(scan.segments, ids[..missing]);
            assert_eq!(scan.torn.is_some(), missing + 1 < ids.len(), "later segments are cut off");
            assert!(bodies(&[600; 20]).starts_with(&replay(&scan).unwrap()));
            let attested = log.synced();
            if known == Known::AllBefore {
                let error = scan_attested(&options(&fs), FIRST, &present(&fs), attested).unwrap_err();
                assert!(error.to_string().contains(&format!("{}.wal", ids[missing])), "{error}");
            }
        }
        let fs = fs.power_cut(&PowerCut::keep_all());
        fs.remove(&file(FIRST)).unwrap();
        assert!(matches!(scan_all(&fs), Err(Error::Corruption { damage: Damage::Missing, .. })));
    }
}

#[test]
fn a_header_of_zeros_ends_the_log_unless_the_segment_was_synced() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(&[600; 9]));
    let ids = present(&fs);
    let unsynced = damaged(&fs, ids[1], |bytes| bytes[..512].fill(0));
    let scan = scan_all(&unsynced).unwrap();
    assert_eq!(scan.segments, [FIRST]);
    assert!(scan.torn.unwrap().ranges.iter().any(|(id, _)| *id == ids[1]));
    log.sync(log.end()).unwrap();
    append_one(&log, 50, 10);
    let synced = damaged(&fs, ids[1], |bytes| bytes[..512].fill(0));
    assert!(scan_all(&synced).unwrap_err().is_corruption());
}

#[test]
fn every_flipped_bit_of_a_later_header_is_corruption() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(&[600; 9]));
    let second = present(&fs)[1];
    for bit in 0..HEADER_BYTES * 8 {
        let fs = damaged(&fs, second, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let error = scan_all(&fs).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("/log/4.wal"), "bit {bit}: {error}");
    }
}

#[test]
fn a_header_that_a_failed_write_cut_short_begins_no_segment() {
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40], Known::Nothing);
    let next = FileId(8);
    let header = Header { id: next, predecessor: Some(ends[1]) }.encode(Flavor::Wal);
    fs.create(&file(next)).unwrap().preallocate(SEGMENT_BYTES).unwrap();
    for length in 1..HEADER_BYTES {
        let fs = damaged(&fs, next, |bytes| bytes[..length].copy_from_slice(&header[..length]));
        let scan = scan_all(&fs).unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        assert_eq!((scan.end, scan.torn, scan.segments), (ends[1], None, vec![FIRST]), "{length} bytes");
        // With something behind it, it was whole once.
        damage(&fs, next, |bytes| bytes[100] = 1);
        assert!(scan_all(&fs).unwrap_err().is_corruption(), "{length} bytes");
    }
    drop(log);
}

#[test]
fn exchanged_segments_are_noticed() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(&[600; 14]));
    let ids = present(&fs);
    let fs = fs.power_cut(&PowerCut::keep_all());
    let other = dir().join("other");
    fs.rename(&file(ids[1]), &other).unwrap();
    fs.rename(&file(ids[2]), &file(ids[1])).unwrap();
    fs.rename(&other, &file(ids[2])).unwrap();
    assert!(matches!(scan_all(&fs), Err(Error::Corruption { damage: Damage::Elsewhere { .. }, .. })));
}

#[test]
fn segments_that_were_never_used_are_no_part_of_the_log() {
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40], Known::Nothing);
    fs.create(&file(FileId(8))).unwrap();
    let prepared = fs.create(&file(FileId(9))).unwrap();
    prepared.preallocate(SEGMENT_BYTES).unwrap();
    fs.create(&file(FileId(10))).unwrap().write_all_at(b"NYALA", 0).unwrap();
    let scan = scan_all(&fs).unwrap();
    assert_eq!((scan.end, scan.torn, scan.segments), (ends[1], None, vec![FIRST]));
    drop(log);
}

#[test]
fn a_segment_that_the_writer_gave_up_is_passed_over() {
    let fs = disk(1);
    let log = new_log(&fs);
    let end = append_one(&log, 0, 10);
    // The same predecessor as the next segment's, and a record that must not come back.
    let given_up = FileId(4);
    let mut bytes = Header { id: given_up, predecessor: Some(end) }.encode(Flavor::Wal).to_vec();
    let at = Position { segment: given_up, offset: HEADER_BYTES as u64 };
    record::encode(&mut bytes, Flavor::Wal, RecordKind::Data, at, FIRST_AT, Version(1), b"failed");
    fs.create(&file(given_up)).unwrap().write_all_at(&bytes, 0).unwrap();
    assert_eq!(read_all(&fs).unwrap(), [body(0, 10), b"failed".to_vec()]);
    log.rotate().unwrap();
    log.prepare(FileId(5)).unwrap();
    append_one(&log, 1, 20);
    assert_eq!(read_all(&fs).unwrap(), [body(0, 10), body(1, 20)]);
}

#[test]
fn a_log_that_was_begun_above_this_one_says_nothing_about_it() {
    let fs = disk(1);
    let lengths = [40, 70];
    let (log, ends) = log_of(&fs, &lengths, Known::Nothing);
    log.sync(log.end()).unwrap();
    // As a recovery does that is interrupted before anything names its log: two segments, synced and attested.
    let numbers = std::sync::atomic::AtomicU64::new(11);
    let other =
        Log::create(options(&fs), FileId(10), Box::new(move || crate::testing::next(&numbers))).unwrap();
    append_one(&other, 0, 2000);
    other.sync(other.end()).unwrap();
    append_one(&other, 1, 2000);
    append_one(&other, 2, 2000);
    other.sync(other.end()).unwrap();
    other.attest().unwrap();
    assert!(present(&fs).len() > 2, "{:?}", present(&fs));

    let scan = scan_all(&fs).unwrap();
    assert_eq!((scan.end, &*scan.segments, &scan.torn), (ends[2], &[FIRST][..], &None));
    assert_eq!(replay(&scan).unwrap(), bodies(&lengths));
    let scan = super::scan(&options(&fs), FileId(10), &present(&fs)).unwrap();
    assert_eq!(replay(&scan).unwrap().len(), 3);
}

#[test]
fn bytes_past_the_end_that_the_next_segment_names_are_never_read() {
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40], Known::Nothing);
    log.rotate().unwrap();
    append_one(&log, 1, 20);
    let mut torn = Vec::new();
    record::encode(&mut torn, Flavor::Wal, RecordKind::Data, ends[1], FIRST_AT, Version(1), b"failed");
    let fs = damaged(&fs, FIRST, |bytes| {
        bytes[offset(ends[1])..offset(ends[1]) + torn.len()].copy_from_slice(&torn);
    });
    let scan = scan_all(&fs).unwrap();
    assert_eq!((replay(&scan).unwrap(), scan.torn), (vec![body(0, 40), body(1, 20)], None));
}

#[test]
fn a_newer_format_is_refused_and_older_segments_are_left_alone() {
    let fs = disk(1);
    let (log, _) = log_of(&fs, &[40], Known::Nothing);
    let mut bytes = Header { id: FileId(9), predecessor: None }.encode(Flavor::Wal);
    bytes[8] = 2;
    let sum = codec::checksum(codec::Kind::SegmentHeader, FileId(9), 0, &[&bytes[..60]]);
    bytes[60..].copy_from_slice(&sum.0.to_le_bytes());
    fs.create(&file(FileId(9))).unwrap().write_all_at(&bytes, 0).unwrap();
    let error = scan_all(&fs).unwrap_err();
    assert!(error.is_unsupported_format() && error.to_string().contains("/log/9.wal"), "{error}");
    // A segment below the start belongs to a log that is over.
    let other = Log::create(options(&fs), FileId(20), Box::new(|| FileId(21))).unwrap();
    assert_eq!(scan(&options(&fs), FileId(20), &present(&fs)).unwrap().end, other.end());
    drop(log);
}

#[test]
fn the_logs_of_two_flavors_share_a_folder() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 10);
    let manifest = Options { flavor: Flavor::Manifest, ..options(&fs) };
    let log = Log::create(manifest.clone(), FileId(7), Box::new(|| FileId(8))).unwrap();
    append_one(&log, 1, 10);
    assert!(fs.paths().contains(&dir().join("7.manifest")));
    assert_eq!(read_all(&fs).unwrap(), [body(0, 10)]);
    assert_eq!(replay(&scan(&manifest, FileId(7), &[FileId(7)]).unwrap()).unwrap(), [body(1, 10)]);
}
