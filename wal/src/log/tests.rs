//! The writer on a simulated disk.

use proptest::prelude::*;
use vfs::sim::{OpKind, PowerCut};

use super::*;
use crate::record::OVERHEAD_BYTES;
use crate::segment::HEADER_BYTES;
use crate::testing::{
    FIRST, RECORD_BYTES_MAX, SEGMENT_BYTES, append, append_one, body, create, disk, file, new_log, next,
    numbers, options, read_all, scan_all,
};

mod failures;
mod segments;

fn bodies(count: u64, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| body(n, bytes)).collect()
}

#[test]
fn three_segments_without_a_flush_are_replayed_in_order() {
    let fs = disk(1);
    let log = new_log(&fs);
    let written = bodies(30, 300);
    for body in &written {
        assert!(append(&log, std::slice::from_ref(body)).error.is_none());
    }
    assert!(log.segments().len() >= 3);
    assert_eq!(read_all(&fs).unwrap(), written);
}

#[test]
fn a_group_is_written_with_one_call_for_each_segment() {
    let fs = disk(1);
    let log = new_log(&fs);
    let before = fs.log().iter().filter(|kind| **kind == OpKind::Write).count();
    let written = bodies(30, 300);
    let appended = append(&log, &written);
    assert_eq!((appended.complete, appended.end), (30, log.end()));
    let calls = fs.log().iter().filter(|kind| **kind == OpKind::Write).count() - before;
    assert_eq!(calls, log.segments().len());
    assert_eq!(read_all(&fs).unwrap(), written);
}

#[test]
fn a_record_above_the_size_of_a_segment_gets_one_of_its_own() {
    let fs = disk(1);
    let log = new_log(&fs);
    let written = vec![body(1, 10), body(2, 3 * SEGMENT_BYTES as usize), body(3, 10)];
    assert_eq!(append(&log, &written).complete, 3);
    assert_eq!(log.segments().len(), 3);
    assert_eq!(log.segments()[1].bytes, HEADER_BYTES as u64 + OVERHEAD_BYTES + 3 * SEGMENT_BYTES);
    assert_eq!(read_all(&fs).unwrap(), written);
}

#[test]
fn empty_bodies_are_records() {
    let fs = disk(1);
    let log = new_log(&fs);
    assert_eq!(append(&log, &[vec![], vec![], body(1, 5)]).complete, 3);
    assert_eq!(read_all(&fs).unwrap(), vec![vec![], vec![], body(1, 5)]);
}

#[test]
fn a_record_above_the_limit_is_refused_and_the_log_goes_on() {
    let fs = disk(1);
    let log = new_log(&fs);
    let longest = RECORD_BYTES_MAX as usize;
    let written = [body(0, 10), body(1, longest), body(2, longest + 1), body(3, 10)];
    let appended = append(&log, &written);
    assert_eq!(appended.complete, 2);
    assert!(matches!(appended.error, Some(Error::TooLong { bytes: 16_385, .. })), "{:?}", appended.error);
    append_one(&log, 4, 10);
    assert_eq!(read_all(&fs).unwrap(), [body(0, 10), body(1, longest), body(4, 10)]);
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let fs = disk(1);
    let log = new_log(&fs);
    assert_eq!(log.synced(), log.end());
    append(&log, &bodies(25, 300));
    let through = log.end();
    log.sync(through).unwrap();
    assert_eq!(log.synced(), through);
    append(&log, &bodies(3, 30));
    assert_eq!(read_all(&fs.power_cut(&PowerCut::lose_all())).unwrap(), bodies(25, 300));
}

#[test]
fn a_sync_of_what_is_synced_leaves_the_disk_alone() {
    let fs = disk(1);
    let log = new_log(&fs);
    let end = append_one(&log, 1, 10);
    log.sync(end).unwrap();
    let operations = fs.operations();
    log.sync(end).unwrap();
    log.sync(Position { segment: FIRST, offset: 64 }).unwrap();
    assert_eq!(fs.operations(), operations);
}

#[test]
fn a_sync_names_new_segments_and_syncs_the_older_ones_first() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(25, 300));
    let before = fs.operations();
    log.sync(log.end()).unwrap();
    let done: Vec<_> = (before..fs.operations()).map(|n| fs.operation(n).unwrap()).collect();
    let mut expected = vec![(OpKind::SyncDir, crate::testing::dir().to_owned())];
    expected.extend(log.segments().iter().map(|segment| (OpKind::Sync, file(segment.id))));
    assert_eq!(done, expected);
}

#[test]
fn attestations_are_written_only_for_news() {
    let fs = disk(1);
    let log = new_log(&fs);
    let empty = log.end();
    log.attest().unwrap();
    assert_eq!(log.end(), empty, "nothing to attest in an empty log");
    let end = append_one(&log, 0, 10);
    log.attest().unwrap();
    assert_eq!(log.end(), end, "nothing is synced");
    log.sync(end).unwrap();
    log.attest().unwrap();
    let attested = log.end();
    assert_eq!(attested.offset, end.offset + OVERHEAD_BYTES);
    log.attest().unwrap();
    log.sync(attested).unwrap();
    log.attest().unwrap();
    assert_eq!(log.end(), attested, "an attestation is not news");
    let scan = scan_all(&fs).unwrap();
    assert_eq!((scan.attested, scan.end, scan.torn), (end, attested, None));
    assert_eq!(read_all(&fs).unwrap(), bodies(1, 10), "an attestation is not data");
}

#[test]
fn an_attestation_does_not_open_a_segment_for_itself() {
    let fs = disk(1);
    let log = new_log(&fs);
    let fill = SEGMENT_BYTES - HEADER_BYTES as u64 - OVERHEAD_BYTES;
    append_one(&log, 0, fill as usize);
    assert_eq!(log.end().offset, SEGMENT_BYTES);
    log.sync(log.end()).unwrap();
    log.attest().unwrap();
    assert_eq!(log.end(), Position { segment: FIRST, offset: SEGMENT_BYTES + OVERHEAD_BYTES });
    assert_eq!(scan_all(&fs).unwrap().attested.offset, SEGMENT_BYTES);
}

#[test]
fn many_threads_append_and_sync() {
    let fs = disk(1);
    let numbers = numbers();
    let log = create(options(&fs), &numbers).unwrap();
    let synced = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (log, synced) = (&log, &synced);
            scope.spawn(move || {
                for n in 0..50 {
                    let body = body(thread * 1000 + n, 100);
                    let appended = append(log, std::slice::from_ref(&body));
                    log.sync(appended.end).unwrap();
                    assert!(log.synced() >= appended.end);
                    synced.lock().push(body);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                if log.needs_segment() {
                    log.prepare(next(&numbers)).unwrap();
                }
                log.attest().unwrap();
                std::thread::yield_now();
            }
        });
    });
    assert!(log.segments().len() > 3);
    let mut found = read_all(&fs.power_cut(&PowerCut::lose_all())).unwrap();
    let mut expected = synced.into_inner();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_buffer_shrinks_after_an_outlier() {
    let fs = disk(1);
    let mut large = options(&fs);
    large.record_bytes_max = 8 << 20;
    let log = create(large, &numbers()).unwrap();
    append_one(&log, 0, 6 << 20);
    for n in 0..2 {
        append_one(&log, n, 100);
    }
    assert!(log.tail.lock().group.bytes.capacity() <= 2 << 20);
}

#[test]
fn writeback_is_asked_for_in_whole_pages() {
    let fs = disk(1);
    let mut trickling = options(&fs);
    (trickling.segment_bytes, trickling.trickle_bytes) = (1 << 20, 8192);
    let log = create(trickling, &numbers()).unwrap();
    for n in 0..10 {
        append_one(&log, n, 4000);
    }
    assert_eq!(fs.log().iter().filter(|kind| **kind == OpKind::StartWriteback).count(), 4);
}

/// One thing done to a log.
#[derive(Clone, Debug)]
enum Step {
    Append { records: u64, bytes: usize },
    Sync,
    Attest,
    Rotate,
    Begin,
    Prepare,
    Reserve { bytes: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..6u64, 0..1500usize).prop_map(|(records, bytes)| Step::Append { records, bytes }),
        2 => Just(Step::Sync),
        1 => Just(Step::Attest),
        1 => Just(Step::Rotate),
        1 => Just(Step::Begin),
        1 => Just(Step::Prepare),
        2 => (0..3000u64).prop_map(|bytes| Step::Reserve { bytes }),
    ];
    proptest::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_power_cut_at_any_moment_leaves_a_prefix_with_all_that_was_synced(
        steps in steps(), seeds in proptest::array::uniform4(any::<u64>()), cut_at in 0..200u64,
    ) {
        let fs = disk(seeds[0]);
        let numbers = numbers();
        let log = create(options(&fs), &numbers).unwrap();
        fs.halt_at(fs.operations() + cut_at);
        let (mut written, mut synced, mut n) = (Vec::new(), 0, 0);
        for step in steps {
            match step {
                Step::Append { records, bytes } => {
                    let group: Vec<_> = (0..records).map(|i| body(n + i, bytes)).collect();
                    n += records;
                    append(&log, &group);
                    written.extend(group);
                }
                Step::Sync => {
                    if log.sync(log.end()).is_ok() {
                        synced = written.len();
                    }
                }
                Step::Attest => drop(log.attest()),
                Step::Rotate => drop(log.rotate()),
                Step::Begin => drop(log.begin_segment(0)),
                Step::Reserve { bytes } => drop(log.reserve(bytes)),
                Step::Prepare => drop(log.prepare(next(&numbers))),
            }
            if log.failure().is_some() {
                break;
            }
        }
        for seed in seeds {
            let after = fs.power_cut(&PowerCut::random(seed));
            let found = read_all(&after).unwrap();
            prop_assert!(found.len() >= synced, "{} of {synced} synced", found.len());
            prop_assert!(written.starts_with(&found));
        }
    }
}
