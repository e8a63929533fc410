//! Damage at every place of a log: no record is made up, all others are found, and each gap is told.

use vfs::{Fs, SimFs};

use super::*;
use crate::testing::{FIRST, append_one, body, damage, disk, file, new_log, options, present};

/// Three segments with twelve records.
fn log() -> SimFs {
    let fs = disk(1);
    let log = new_log(&fs);
    for n in 0..12 {
        append_one(&log, n, 900);
    }
    assert_eq!(present(&fs).len(), 3);
    fs
}

fn salvaged(fs: &SimFs) -> (Vec<Vec<u8>>, Vec<Gap>) {
    let (mut bodies, mut gaps) = (Vec::new(), Vec::new());
    salvage(&options(fs), &present(fs), &mut |piece| match piece {
        Piece::Record(record) => bodies.push(record.body.to_vec()),
        Piece::Gap(gap) => gaps.push(gap),
    })
    .expect("no newer version");
    (bodies, gaps)
}

fn all() -> Vec<Vec<u8>> {
    (0..12).map(|n| body(n, 900)).collect()
}

#[test]
fn a_sound_log_has_no_gaps() {
    let (bodies, gaps) = salvaged(&log());
    assert_eq!((bodies, gaps), (all(), Vec::new()));
}

#[test]
fn a_flipped_byte_costs_one_record_at_most_and_is_told() {
    let fs = log();
    for id in present(&fs) {
        let len = fs.read(&file(id), 1 << 20).expect("it is there").len();
        // Up to the zeros behind the last record.
        for at in (0..len.min(3900)).step_by(13) {
            damage(&fs, id, |bytes| bytes[at] ^= 0x11);
            let (bodies, gaps) = salvaged(&fs);
            let context = format!("byte {at} of {id}");
            assert!(bodies.len() >= 11, "{context}: {} records", bodies.len());
            assert!(bodies.iter().all(|body| all().contains(body)), "{context}: made up");
            assert!(bodies.len() == 12 || gaps.iter().any(|gap| gap.hides_records), "{context}: {gaps:?}");
            if (at as u64) < RECORDS_START {
                assert_eq!((bodies.len(), gaps.len()), (12, 1), "{context}: {gaps:?}");
                assert!(!gaps[0].hides_records, "{context}");
            }
            damage(&fs, id, |bytes| bytes[at] ^= 0x11);
        }
    }
}

#[test]
fn a_missing_segment_is_a_gap_before_the_next() {
    let fs = log();
    let middle = present(&fs)[1];
    fs.remove(&file(middle)).expect("it is there");
    let (bodies, gaps) = salvaged(&fs);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((gaps[0].at.segment, gaps[0].is_tail), (middle, false));
    assert_eq!(bodies.len(), 8);
    assert_eq!(bodies[..4], all()[..4]);
    assert_eq!(bodies[4..], all()[8..]);
}

#[test]
fn a_segment_cut_short_ends_in_a_gap_unless_it_is_the_last_and_cut_between_records() {
    let fs = log();
    let first = present(&fs)[0];
    damage(&fs, first, |bytes| bytes.truncate(2000));
    let (bodies, gaps) = salvaged(&fs);
    assert_eq!(bodies.len(), 10, "{gaps:?}");
    assert!(gaps.iter().all(|gap| gap.at.segment == FIRST && !gap.is_tail && gap.hides_records), "{gaps:?}");
    assert!(!gaps.is_empty());
}

#[test]
fn bytes_past_the_end_that_the_next_segment_names_belong_to_nothing() {
    let fs = log();
    let first = present(&fs)[0];
    // A record that was refused: it stands where it says, behind the end of the segment.
    let bytes = fs.read(&file(first), 1 << 20).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") + 1;
    let at = Position { segment: first, offset: end as u64 };
    let mut refused = Vec::new();
    crate::record::encode(
        &mut refused,
        crate::Flavor::Wal,
        RecordKind::Data,
        at,
        Position::default(),
        codec::Version(9),
        b"refused",
    );
    damage(&fs, first, |bytes| {
        bytes.resize(bytes.len().max(end + refused.len()), 0);
        bytes[end..end + refused.len()].copy_from_slice(&refused);
    });
    let (bodies, gaps) = salvaged(&fs);
    assert_eq!((bodies, gaps), (all(), Vec::new()));
}

/// Heads that are whole, and all promise the same bytes up to the end: none of them has the body that it promises.
#[test]
fn heads_that_promise_the_same_bytes_over_and_over_cost_little() {
    const BYTES: usize = 24 << 20;
    let fs = log();
    let last = *present(&fs).last().expect("three segments");
    damage(&fs, last, |bytes| {
        bytes.truncate(RECORDS_START as usize);
        while bytes.len() < BYTES - 200 {
            let offset = bytes.len() as u64;
            let at = Position { segment: last, offset };
            let mut record = Vec::new();
            let (flavor, version) = (options(&fs).flavor, codec::Version(1));
            crate::record::encode(
                &mut record,
                flavor,
                RecordKind::Data,
                at,
                Position::default(),
                version,
                &[7],
            );
            // A body up to the end of the file, which nobody has to have written.
            let body_bytes = u32::try_from(BYTES - bytes.len() - 55).expect("it is short");
            record[5..9].copy_from_slice(&body_bytes.to_le_bytes());
            let parts = [&record[..1], &record[5..54]];
            let sum = codec::checksum(codec::Kind::LogRecord, last, offset, &parts).0;
            record[1..5].copy_from_slice(&sum.to_le_bytes());
            bytes.extend_from_slice(&record[..54]);
        }
        bytes.resize(BYTES, 7);
    });
    let start = std::time::Instant::now();
    let (bodies, gaps) = salvaged(&fs);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert!(gaps.iter().any(|gap| gap.at.segment == last && gap.hides_records), "{gaps:?}");
    assert!(bodies.iter().all(|body| all().contains(body)), "made up");
}

/// A read that fails once is tried again in pieces; what the disk then gives is taken.
#[test]
fn a_read_that_fails_costs_what_the_disk_does_not_give() {
    use vfs::sim::{Fault, OpSet};
    let fs = log();
    let start = fs.operations();
    salvaged(&fs);
    let calls = fs.operations() - start;
    let mut tried = 0;
    for n in 0..calls {
        fs.fail_at(fs.operations() + n, Fault::eio().on(OpSet::READS));
        let (bodies, gaps) = salvaged(&fs);
        fs.clear_faults();
        // Opening a file or asking for its length may fail too: then all of the segment is missing.
        let is_whole = bodies == all() && gaps.is_empty();
        let is_told = gaps.iter().any(|gap| gap.hides_records || gap.why.contains("header"));
        assert!(is_whole || is_told || bodies == all(), "call {n}: {} records, {gaps:?}", bodies.len());
        tried += usize::from(is_whole);
    }
    assert!(tried > 3, "{tried} of {calls}");
}
