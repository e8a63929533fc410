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
