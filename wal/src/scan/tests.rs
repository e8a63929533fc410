//! Logs that were cut, torn and damaged.

mod segments;

use codec::Version;
use proptest::prelude::*;
use vfs::sim::{Fault, OpKind, OpSet, PowerCut};
use vfs::{Fs, SimFs};

use super::*;
use crate::record::{self, RecordKind};
use crate::segment::HEADER_BYTES;
use crate::testing::{
    FIRST, RECORD_BYTES_MAX, SEGMENT_BYTES, append, append_one, body, damage, disk, file, new_log, options,
    present, read_all, replay, scan_all,
};
use crate::{Flavor, Log};

const FIRST_AT: Position = Position { segment: FIRST, offset: HEADER_BYTES as u64 };

/// How much of a log is attested in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// All but the last record, which attests it.
    AllBefore,
}

/// A log with records of these lengths in one segment, and where each ends. The last record attests those before, or
/// nothing is attested.
fn log_of(fs: &SimFs, lengths: &[usize], known: Known) -> (Log, Vec<Position>) {
    let log = new_log(fs);
    let mut ends = vec![log.end()];
    for (n, length) in lengths.iter().enumerate() {
        if known == Known::AllBefore && n + 1 == lengths.len() {
            log.sync(log.end()).unwrap();
        }
        ends.push(append_one(&log, n as u64, *length));
    }
    (log, ends)
}

fn bodies(lengths: &[usize]) -> Vec<Vec<u8>> {
    lengths.iter().enumerate().map(|(n, length)| body(n as u64, *length)).collect()
}

/// Whether damage lies above everything that is known to have been synced.
fn is_above_attested(error: &Error) -> bool {
    match error {
        Error::Corruption { segment, offset, attested, .. } => {
            Position { segment: *segment, offset: *offset } >= *attested
        }
        _ => false,
    }
}

/// The copy of a disk on which one segment is changed.
fn damaged(fs: &SimFs, id: FileId, edit: impl FnOnce(&mut Vec<u8>)) -> SimFs {
    let fs = fs.power_cut(&PowerCut::keep_all());
    damage(&fs, id, edit);
    fs
}

fn offset(position: Position) -> usize {
    usize::try_from(position.offset).unwrap()
}

#[test]
fn one_flipped_bit_is_an_error_that_names_file_and_offset() {
    let lengths = [40, 70, 600, 30];
    for known in [Known::Nothing, Known::AllBefore] {
        let fs = disk(1);
        let (log, ends) = log_of(&fs, &lengths, known);
        for bit in 0..offset(log.end()) * 8 {
            let fs = damaged(&fs, FIRST, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let error = scan_all(&fs).expect_err(&format!("bit {bit}, {known:?}"));
            let Error::Corruption { file: found, offset, segment, attested, .. } = &error else {
                panic!("bit {bit}: {error}")
            };
            let record_start = ends.iter().rev().find(|end| end.offset <= bit as u64 / 8);
            assert_eq!(**found, *file(FIRST));
            assert_eq!((*segment, *offset), (FIRST, record_start.map_or(0, |end| end.offset)), "bit {bit}");
            let text = error.to_string();
            assert!(text.contains("/log/3.wal") && text.contains(&format!("byte {offset}")), "{text}");
            // The last record attests those before it: once it is damaged itself, its head may still be whole.
            if known == Known::AllBefore && (ends[0].offset..ends[3].offset).contains(&(bit as u64 / 8)) {
                assert_eq!(*attested, ends[3]);
                assert!(!is_above_attested(&error));
            }
        }
    }
}

#[test]
fn one_flipped_bit_is_no_torn_tail_wherever_in_a_sector_a_record_begins() {
    // The fewer of its bytes lie in its first sector or its last, the less has to change for zeros to stand there.
    for begin in 504..520 {
        let lengths = [begin - HEADER_BYTES - record::OVERHEAD_BYTES as usize, 430, 40];
        let fs = disk(1);
        let (log, ends) = log_of(&fs, &lengths, Known::Nothing);
        assert_eq!(offset(ends[1]), begin);
        for bit in begin * 8..offset(log.end()) * 8 {
            let fs = damaged(&fs, FIRST, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let error = scan_all(&fs).expect_err(&format!("bit {bit} of a record that begins at {begin}"));
            assert!(error.is_corruption(), "{error}");
        }
    }
}

#[test]
fn a_flipped_bit_where_nothing_was_written_costs_no_record() {
    let fs = disk(1);
    let (log, _) = log_of(&fs, &[40, 70], Known::AllBefore);
    for at in offset(log.end())..SEGMENT_BYTES as usize {
        let fs = damaged(&fs, FIRST, |bytes| bytes[at] ^= 0x10);
        if at == offset(log.end()) + record::HEAD_BYTES - 1 {
            // The end of a head, without its front: no interrupted write leaves that.
            assert!(is_above_attested(&scan_all(&fs).unwrap_err()));
            continue;
        }
        let scan = scan_all(&fs).unwrap();
        let range = log.end().offset..at as u64 + 1;
        assert_eq!(scan.torn.as_ref().map(|torn| &torn.ranges[..]), Some(&[(FIRST, range)][..]));
        assert_eq!(replay(&scan).unwrap(), bodies(&[40, 70]));
    }
}

#[test]
fn a_tail_cut_at_every_byte_of_the_last_record_keeps_those_before() {
    let lengths = [40, 70, 600];
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &lengths, Known::AllBefore);
    for cut in offset(ends[2])..=offset(ends[3]) {
        let fs = damaged(&fs, FIRST, |bytes| bytes.truncate(cut));
        let scan = scan_all(&fs).unwrap();
        let whole = if cut == offset(ends[3]) { 3 } else { 2 };
        assert_eq!(scan.end, ends[whole]);
        assert_eq!(replay(&scan).unwrap(), bodies(&lengths[..whole]));
        // Up to the last byte that is not zero.
        let left = body(2, 600)[..cut.saturating_sub(offset(ends[2]) + record::HEAD_BYTES).min(600)].to_vec();
        let zeros = left.iter().rev().take_while(|byte| **byte == 0).count();
        match scan.torn {
            None => assert!(cut == offset(ends[2]) || whole == 3),
            Some(torn) if left.len() == zeros => assert!(torn.bytes > 0),
            Some(torn) => assert_eq!(torn.bytes, (cut - zeros) as u64 - ends[2].offset),
        }
    }
    drop(log);
}

#[test]
fn a_tail_cut_below_what_is_attested_is_corruption() {
    let lengths = [40, 70, 600];
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &lengths, Known::AllBefore);
    log.sync(log.end()).unwrap();
    log.attest().unwrap();
    let attested = ends[3];
    for cut in HEADER_BYTES..offset(attested) {
        let fs = damaged(&fs, FIRST, |bytes| bytes.truncate(cut));
        let known = scan_attested(&options(&fs), FIRST, &present(&fs), attested);
        assert!(known.unwrap_err().is_corruption(), "cut at {cut}, attested from outside");
        // Nothing of what is left says more than its own records: the cut cannot be told from a torn tail.
        let found = read_all(&fs).unwrap();
        assert!(bodies(&lengths).starts_with(&found));
    }
    for cut in offset(ends[0])..offset(attested) {
        let zeros = damaged(&fs, FIRST, |bytes| bytes[cut..offset(attested)].fill(0));
        let error = scan_all(&zeros).expect_err("the attestation behind the zeros is found");
        assert!(error.is_corruption() && !is_above_attested(&error), "{error}");
    }
}

#[test]
fn what_is_written_after_a_cut_survives_the_next_crash() {
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40, 70], Known::AllBefore);
    drop(log);
    let fs = damaged(&fs, FIRST, |bytes| bytes.truncate(offset(ends[2]) - 1));
    assert_eq!(read_all(&fs).unwrap(), bodies(&[40]));
    let next = FileId(20);
    let log = Log::create(options(&fs), next, Box::new(|| FileId(21))).unwrap();
    let end = append_one(&log, 7, 100);
    log.sync(end).unwrap();
    let fs = fs.power_cut(&PowerCut::lose_all());
    let scan = scan(&options(&fs), next, &present(&fs)).unwrap();
    assert_eq!((scan.end, replay(&scan).unwrap()), (end, vec![body(7, 100)]));
}

#[test]
fn a_tail_of_zeros_is_torn_and_never_replayed() {
    let lengths = [40, 1500, 600];
    for known in [Known::Nothing, Known::AllBefore] {
        let fs = disk(1);
        let (log, ends) = log_of(&fs, &lengths, known);
        for from in offset(ends[2])..offset(log.end()) {
            let fs = damaged(&fs, FIRST, |bytes| bytes[from..].fill(0));
            let scan = scan_all(&fs).unwrap();
            assert_eq!((scan.end, replay(&scan).unwrap()), (ends[2], bodies(&lengths[..2])));
            assert_eq!(scan.torn.is_some(), from > offset(ends[2]), "from {from}");
        }
    }
}

#[test]
fn a_tail_of_stale_bytes_is_torn_and_never_replayed() {
    // The disk gives the space of a log that was deleted, without zeroing it.
    let old_fs = disk(2);
    let old = Log::create(options(&old_fs), FileId(1), Box::new(|| FileId(2))).unwrap();
    for n in 0..30 {
        append_one(&old, 500 + n, 60);
    }
    let old_bytes = old_fs.read(&file(FileId(1)), SEGMENT_BYTES).unwrap();
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40, 70], Known::AllBefore);
    let end = offset(log.end());
    for shift in 0..200 {
        let fs = damaged(&fs, FIRST, |bytes| {
            bytes.truncate(end);
            bytes.extend_from_slice(&old_bytes[end - shift.min(end)..3000]);
        });
        let scan = scan_all(&fs).unwrap_or_else(|error| panic!("shift {shift}: {error}"));
        assert_eq!((scan.end, replay(&scan).unwrap()), (ends[2], bodies(&[40, 70])));
        assert!(scan.torn.is_some());
    }
    // Below what is attested such bytes are corruption.
    let fs = damaged(&fs, FIRST, |bytes| bytes[HEADER_BYTES..].fill(0));
    damage(&fs, FIRST, |bytes| bytes[HEADER_BYTES..3000].copy_from_slice(&old_bytes[HEADER_BYTES..3000]));
    assert!(scan_attested(&options(&fs), FIRST, &present(&fs), ends[1]).unwrap_err().is_corruption());
    assert_eq!(read_all(&fs).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_batch_torn_anywhere_is_there_whole_or_not_at_all() {
    // A hundred operations are one record; any of its sectors may be missing.
    let lengths = [40, 3000];
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &lengths, Known::AllBefore);
    let (start, end) = (offset(ends[1]), offset(ends[2]));
    let sectors = start / 512..end.div_ceil(512);
    assert!(sectors.len() == 6 || sectors.len() == 7);
    for missing in 1..1usize << sectors.len() {
        let fs = damaged(&fs, FIRST, |bytes| {
            for (index, sector) in sectors.clone().enumerate() {
                if missing & 1 << index != 0 {
                    bytes[start.max(sector * 512)..end.min(sector * 512 + 512)].fill(0);
                }
            }
        });
        let scan = scan_all(&fs).unwrap();
        assert_eq!((scan.end, replay(&scan).unwrap()), (ends[1], bodies(&lengths[..1])), "{missing:b}");
    }
    for cut in start..end {
        let fs = damaged(&fs, FIRST, |bytes| bytes.truncate(cut));
        assert_eq!(read_all(&fs).unwrap(), bodies(&lengths[..1]));
    }
    drop(log);
}

#[test]
fn a_damaged_record_does_not_spoil_the_one_after_it() {
    let lengths = [200, 300, 100];
    let fs = disk(1);
    let (_, ends) = log_of(&fs, &lengths, Known::Nothing);
    let fs = damaged(&fs, FIRST, |bytes| bytes[offset(ends[1]) + 100] ^= 1);
    let mut reader = SegmentReader::open(&options(&fs), FIRST).unwrap();
    for _ in 0..2 {
        assert!(matches!(reader.record(ends[0].offset).unwrap(), Step::Record { .. }));
        assert!(matches!(reader.record(ends[1].offset).unwrap(), Step::Broken(_)));
        let Step::Record { head, end } = reader.record(ends[2].offset).unwrap() else {
            panic!("it is whole")
        };
        assert_eq!((end, reader.body(&head)), (ends[3].offset, &body(2, 100)[..]));
    }
}

#[test]
fn a_read_that_fails_is_never_taken_for_the_end() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(&[600; 20]));
    let fs = fs.power_cut(&PowerCut::keep_all());
    let before = fs.operations();
    let scan = scan_all(&fs).unwrap();
    replay(&scan).unwrap();
    for n in before..fs.operations() {
        let fs = fs.fork();
        fs.fail_at(n - before, Fault::eio().on(OpSet::READS));
        let result = scan_all(&fs).and_then(|scan| replay(&scan));
        assert!(matches!(result, Err(Error::Io { .. })), "operation {n}: {result:?}");
    }
}

#[test]
fn a_claimed_length_takes_no_memory() {
    for (claimed, limit) in [(u32::MAX, RECORD_BYTES_MAX), (u32::MAX, u32::MAX)] {
        let fs = disk(1);
        let (log, ends) = log_of(&fs, &[40], Known::Nothing);
        let mut bytes = Vec::new();
        record::encode(&mut bytes, Flavor::Wal, RecordKind::Data, ends[1], FIRST_AT, Version(1), b"");
        bytes[5..9].copy_from_slice(&claimed.to_le_bytes());
        let seed = (codec::Kind::LogRecord, ends[1].segment, ends[1].offset);
        let sum = codec::checksum(seed.0, seed.1, seed.2, &[&bytes[..1], &bytes[5..54]]);
        bytes[1..5].copy_from_slice(&sum.0.to_le_bytes());
        let fs = damaged(&fs, FIRST, |file| {
            file[offset(ends[1])..offset(ends[1]) + bytes.len()].copy_from_slice(&bytes);
        });
        let limited = Options { record_bytes_max: limit, ..options(&fs) };
        let result = scan(&limited, FIRST, &present(&fs));
        if limit == RECORD_BYTES_MAX {
            assert!(matches!(result, Err(Error::Corruption { damage: Damage::TooLong { .. }, .. })));
        } else {
            // Four gigabytes may be legal; the file does not hold them.
            assert_eq!(result.unwrap().end, ends[1]);
        }
        drop(log);
    }
}

#[test]
fn damage_that_looks_unwritten_is_corruption_when_a_later_record_attests_it() {
    // The proof lies behind the damage, in the same segment or in a later one.
    for later in [1, 30] {
        let fs = disk(1);
        let (log, ends) = log_of(&fs, &[100, 1500, 50], Known::Nothing);
        log.sync(log.end()).unwrap();
        let torn = |fs: &SimFs| damaged(fs, FIRST, |bytes| bytes[512..1024].fill(0));
        let scan = scan_all(&torn(&fs)).unwrap();
        assert_eq!((scan.end, scan.torn.is_some()), (ends[1], true), "nothing says that it was synced");
        for n in 0..later {
            append_one(&log, 10 + n, 600);
        }
        let error = scan_all(&torn(&fs)).unwrap_err();
        assert!(!is_above_attested(&error), "{error}");
        assert!(matches!(&error, Error::Corruption { offset, .. } if *offset == ends[1].offset), "{error}");
    }
}

#[test]
fn replay_tells_places_and_versions() {
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40, 70, 600], Known::AllBefore);
    log.sync(log.end()).unwrap();
    log.attest().unwrap();
    let mut replay = scan_all(&fs).unwrap().replay();
    for n in 0..3 {
        let record = replay.next().unwrap().unwrap();
        assert_eq!((record.position, record.end, record.first_version), (ends[n], ends[n + 1], Version(9)));
    }
    assert!(replay.next().unwrap().is_none());
    assert!(replay.next().unwrap().is_none());
}

#[test]
fn a_log_that_changes_between_scan_and_replay_is_an_error() {
    let fs = disk(1);
    let (log, ends) = log_of(&fs, &[40, 70, 600], Known::Nothing);
    let scan = scan_all(&fs).unwrap();
    damage(&fs, FIRST, |bytes| bytes[offset(ends[1]) + 60] ^= 1);
    let mut replay = scan.replay();
    assert!(replay.next().unwrap().is_some());
    for _ in 0..2 {
        assert!(replay.next().unwrap_err().is_corruption());
    }
    drop(log);
}

#[test]
fn a_scan_only_looks() {
    let fs = disk(1);
    let (log, _) = log_of(&fs, &[40, 70, 600], Known::Nothing);
    let before = fs.operations();
    read_all(&fs).unwrap();
    for n in before..fs.operations() {
        let kind = fs.operation(n).unwrap().0;
        assert!([OpKind::Open, OpKind::Len, OpKind::Read].contains(&kind), "{kind:?}");
    }
    drop(log);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn damage_gives_an_error_or_a_prefix_with_all_that_is_attested(
        lengths in proptest::collection::vec(0..900usize, 1..20),
        synced in 0..20usize,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8, 1..1200usize), 1..4),
    ) {
        let fs = disk(1);
        let log = new_log(&fs);
        let mut ends = Vec::new();
        for (n, length) in lengths.iter().enumerate() {
            ends.push(append_one(&log, n as u64, *length));
            if n == synced {
                log.sync(log.end()).unwrap();
            }
        }
        let attested = log.synced();
        for (segment, at, what, count) in &edits {
            let ids = present(&fs);
            damage(&fs, ids[segment.index(ids.len())], |bytes| {
                if bytes.is_empty() {
                    return;
                }
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + count);
                match what {
                    0 => bytes.truncate(at),
                    1 => bytes[at..end].fill(0),
                    2 => bytes[at] ^= 1 << (count % 8),
                    _ => bytes[at..end].fill(0x5a),
                }
            });
        }
        match scan_attested(&options(&fs), FIRST, &present(&fs), attested) {
            Err(error) => prop_assert!(error.is_corruption(), "{error}"),
            Ok(scan) => {
                let found = replay(&scan).unwrap();
                prop_assert!(bodies(&lengths).starts_with(&found));
                let needed = ends.iter().filter(|end| **end <= attested).count();
                prop_assert!(found.len() >= needed, "{} of {needed} attested", found.len());
                prop_assert!(scan.end >= attested);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000), header in any::<bool>()) {
        let fs = disk(1);
        let log = new_log(&fs);
        damage(&fs, FIRST, |file| {
            file.truncate(if header { HEADER_BYTES } else { 0 });
            file.extend_from_slice(&bytes);
        });
        if let Ok(scan) = scan_all(&fs) {
            prop_assert!(replay(&scan).unwrap().is_empty());
        }
        drop(log);
    }
}
