//! The writer on a simulated disk.

use proptest::prelude::*;
use vfs::Fs;
use vfs::sim::{Fault, OpKind, OpSet, PowerCut};

use super::*;
use crate::record::OVERHEAD_BYTES;
use crate::segment::HEADER_BYTES;
use crate::testing::{
    FIRST, SEGMENT_BYTES, append, append_one, body, create, disk, file, new_log, next, numbers, options,
    present, read_all, scan_all,
};

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
    let written = [body(0, 10), body(1, 20_000), body(2, 10)];
    let appended = append(&log, &written);
    assert_eq!(appended.complete, 1);
    assert!(matches!(appended.error, Some(Error::TooLong { bytes: 20_000, .. })), "{:?}", appended.error);
    append_one(&log, 3, 10);
    assert_eq!(read_all(&fs).unwrap(), [body(0, 10), body(3, 10)]);
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
fn segments_are_counted_and_forgotten() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(25, 300));
    let segments = log.segments();
    assert!(segments.iter().all(|segment| segment.first_version == Some(Version(9))));
    assert_eq!(log.total_bytes(), segments.iter().map(|segment| segment.bytes).sum::<u64>());
    log.forget_below(segments[1].id);
    assert_eq!(log.segments(), segments[1..]);
    assert_eq!(log.total_bytes(), segments[1..].iter().map(|segment| segment.bytes).sum::<u64>());
    log.forget_below(FileId(1000));
    assert_eq!(log.segments().len(), 1);
    log.sync(log.end()).unwrap();
}

#[test]
fn a_log_can_be_read_from_a_later_segment_once_its_start_is_synced() {
    let fs = disk(1);
    let log = new_log(&fs);
    append(&log, &bodies(25, 300));
    let last = *log.segments().last().unwrap();
    log.sync(last.start()).unwrap();
    fs.remove(&file(FIRST)).unwrap();
    log.forget_below(last.id);
    append_one(&log, 50, 10);
    let fs = fs.power_cut(&PowerCut::lose_all());
    let scan = crate::scan(&options(&fs), last.id, &present(&fs)).unwrap();
    assert_eq!(scan.segments, [last.id]);
    let whole = bodies(25, 300);
    assert!(whole.ends_with(&crate::testing::replay(&scan).unwrap()));
}

#[test]
fn a_rotated_log_goes_on_in_a_new_segment() {
    let fs = disk(1);
    let log = new_log(&fs);
    log.rotate().unwrap();
    append_one(&log, 0, 10);
    assert_eq!(log.segments().len(), 1, "an empty segment is not closed");
    log.rotate().unwrap();
    log.rotate().unwrap();
    append_one(&log, 1, 10);
    assert_eq!(log.segments().len(), 2);
    assert_eq!(read_all(&fs).unwrap(), bodies(2, 10));
}

#[test]
fn a_log_can_be_created_where_a_whole_segment_has_no_space() {
    let fs = disk(1);
    fs.set_capacity(Some(1000));
    let log = new_log(&fs);
    append_one(&log, 0, 500);
    log.sync(log.end()).unwrap();
    assert_eq!(read_all(&fs.power_cut(&PowerCut::lose_all())).unwrap(), bodies(1, 500));
}

#[test]
fn a_failure_at_any_call_of_the_creation_is_reported() {
    let calls = {
        let fs = disk(1);
        let before = fs.operations();
        new_log(&fs);
        fs.operations() - before
    };
    for n in 0..calls {
        let fs = disk(1);
        fs.fail_at(fs.operations() + n, Fault::eio());
        let error = create(options(&fs), &numbers()).unwrap_err();
        assert!(matches!(error, Error::Io { .. } | Error::Failed { .. }), "{error}");
        assert!(error.to_string().contains("/log"), "{error}");
    }
    // A sync that failed is no lack of space, whatever the disk says: nobody knows what it left.
    for kind in [OpKind::Sync, OpKind::SyncDir] {
        let fs = disk(1);
        fs.fail_at(fs.operations(), Fault::enospc().on(OpSet::of(kind)));
        assert!(!create(options(&fs), &numbers()).unwrap_err().is_no_space());
    }
    let fs = disk(1);
    new_log(&fs);
    assert!(create(options(&fs), &numbers()).is_err(), "an old segment is never written");
}

#[test]
fn a_prepared_segment_is_taken_and_needs_no_other_work() {
    let fs = disk(1);
    let log = new_log(&fs);
    assert!(!log.needs_segment());
    append_one(&log, 0, 3000);
    assert!(log.needs_segment());
    log.prepare(FileId(10)).unwrap();
    assert!(!log.needs_segment());
    log.prepare(FileId(11)).unwrap();
    assert!(!present(&fs).contains(&FileId(11)), "one is enough");
    assert_eq!(read_all(&fs).unwrap().len(), 1, "an unused segment is no part of the log");

    let before = fs.operations();
    append_one(&log, 1, 3000);
    log.sync(log.end()).unwrap();
    let kinds: Vec<_> = (before..fs.operations()).map(|n| fs.operation(n).unwrap().0).collect();
    assert_eq!(kinds, [OpKind::Write, OpKind::Sync, OpKind::Sync]);
    assert_eq!(log.end().segment, FileId(10));
    assert_eq!(read_all(&fs.power_cut(&PowerCut::lose_all())).unwrap(), bodies(2, 3000));
}

#[test]
fn a_segment_is_begun_only_when_the_last_one_holds_data() {
    let fs = disk(1);
    let log = new_log(&fs);
    log.begin_segment().unwrap();
    assert_eq!((log.segments().len(), log.end().offset), (1, HEADER_BYTES as u64));
    append_one(&log, 0, 10);
    // Nothing is left to attest, as after a sync in the background.
    log.sync(log.end()).unwrap();
    log.attest().unwrap();
    log.begin_segment().unwrap();
    assert_eq!(log.segments().len(), 2);
    let begun = log.end();
    log.begin_segment().unwrap();
    assert_eq!(log.end(), begun, "it holds no data yet");
    log.sync(begun).unwrap();
    assert!(log.synced() == begun && log.segments()[1].start() < begun);
    let fs = fs.power_cut(&PowerCut::lose_all());
    let scan = crate::scan(&options(&fs), begun.segment, &present(&fs)).unwrap();
    assert_eq!((scan.end, scan.segments.len(), &scan.torn), (begun, 1, &None));
    assert_eq!(read_all(&fs).unwrap(), bodies(1, 10));
}

fn length(fs: &vfs::SimFs, id: FileId) -> u64 {
    fs.open(&file(id)).unwrap().len().unwrap()
}

#[test]
fn an_idle_log_gives_back_its_space_and_nothing_else() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 2500);
    log.prepare(FileId(11)).unwrap();
    log.sync(log.end()).unwrap();
    assert_eq!((length(&fs, FIRST), length(&fs, FileId(11))), (SEGMENT_BYTES, SEGMENT_BYTES));
    log.reserve(100).unwrap();
    assert_eq!((length(&fs, FIRST), present(&fs)), (log.end().offset + 100, vec![FIRST]));
    assert!(!log.needs_segment(), "nobody writes");
    // Within what was kept, and past it.
    append_one(&log, 1, 30);
    append_one(&log, 2, 300);
    log.reserve(0).unwrap();
    assert_eq!(length(&fs, FIRST), log.end().offset);
    log.sync(log.end()).unwrap();
    let all = [body(0, 2500), body(1, 30), body(2, 300)];
    assert_eq!(read_all(&fs).unwrap(), all);
    assert_eq!(read_all(&fs.power_cut(&PowerCut::lose_all())).unwrap(), all);
}

#[test]
fn an_idle_log_that_is_written_to_again_goes_on_in_a_segment_with_space() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 10);
    log.reserve(0).unwrap();
    assert!(!log.needs_segment());
    append_one(&log, 1, 10);
    assert!(log.needs_segment(), "although the segment is far from half full");
    log.prepare(FileId(11)).unwrap();
    append_one(&log, 2, 10);
    assert_eq!((log.end().segment, length(&fs, FileId(11))), (FileId(11), SEGMENT_BYTES));
    assert!(!log.needs_segment());
    assert_eq!(read_all(&fs).unwrap(), bodies(3, 10));
}

#[test]
fn an_append_while_space_is_given_back_is_not_cut_off() {
    for round in 0..500 {
        let fs = disk(round);
        let log = new_log(&fs);
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                for n in 0..8 {
                    append_one(&log, n, 20);
                }
            });
            start.wait();
            log.reserve(0).unwrap();
        });
        assert_eq!(read_all(&fs).unwrap(), bodies(8, 20), "round {round}");
    }
}

#[test]
fn a_failure_to_give_back_space_harms_nothing() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 10);
    for fault in [Fault::eio(), Fault::enospc()] {
        fs.fail_at(fs.operations(), fault.on(OpSet::of(OpKind::Truncate)));
        assert!(matches!(log.reserve(0), Err(Error::Io { .. })));
    }
    append_one(&log, 1, 10);
    log.reserve(0).unwrap();
    log.sync(log.end()).unwrap();
    assert_eq!(read_all(&fs).unwrap(), bodies(2, 10));
}

#[test]
fn a_segment_prepared_too_late_is_removed() {
    let fs = disk(1);
    let log = create(options(&fs), &Arc::new(20.into())).unwrap();
    log.rotate().unwrap();
    append_one(&log, 0, 3000);
    append_one(&log, 1, 3000);
    assert_eq!(log.end().segment, FileId(20));
    log.prepare(FileId(19)).unwrap();
    assert_eq!(present(&fs), [FileId(20), FIRST]);
    assert!(log.needs_segment());
}

#[test]
fn a_segment_that_cannot_be_prepared_harms_nobody() {
    for kind in [OpKind::Create, OpKind::Preallocate, OpKind::Sync] {
        let fs = disk(1);
        let log = create(options(&fs), &Arc::new(12.into())).unwrap();
        fs.fail_at(fs.operations(), Fault::eio().on(OpSet::of(kind)));
        let error = log.prepare(FileId(10)).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(present(&fs), [FIRST]);
        assert!(log.failure().is_none());
        log.prepare(FileId(11)).unwrap();
        append(&log, &bodies(25, 300));
        assert_eq!(read_all(&fs).unwrap(), bodies(25, 300));
    }
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
fn a_failed_sync_is_latched_for_ever() {
    let fs = disk(1);
    let log = new_log(&fs);
    let synced = append_one(&log, 0, 10);
    log.sync(synced).unwrap();
    let end = append_one(&log, 1, 10);
    fs.fail_at(fs.operations(), Fault::enospc().on(OpSet::SYNCS));
    let first = log.sync(end).unwrap_err();
    assert!(matches!(first, Error::Failed { .. }) && !first.is_no_space(), "{first}");
    let text = first.to_string();
    assert!(text.contains("/log/3.wal"), "{text}");
    for error in [
        log.sync(end).unwrap_err(),
        log.sync(synced).unwrap_err(),
        append(&log, &bodies(1, 10)).error.unwrap(),
        log.attest().unwrap_err(),
        log.rotate().unwrap_err(),
        log.prepare(FileId(10)).unwrap_err(),
        log.failure().unwrap(),
    ] {
        assert_eq!(error.to_string(), text);
    }
    assert!(!log.needs_segment());
    assert_eq!(log.synced(), synced);
    assert_eq!(log.end(), end, "nothing was appended after");
    assert_eq!(read_all(&fs.power_cut(&PowerCut::lose_all())).unwrap(), bodies(1, 10));
}

#[test]
fn a_failed_sync_of_the_folder_is_latched_too() {
    let fs = disk(1);
    let log = new_log(&fs);
    fs.fail_at(fs.operations(), Fault::eio().on(OpSet::of(OpKind::SyncDir)));
    assert!(matches!(log.prepare(FileId(10)), Err(Error::Failed { .. })));
    assert!(matches!(append(&log, &bodies(1, 10)).error, Some(Error::Failed { .. })));
}

/// A segment that an append made gets its name by the next sync. That the segment itself can be synced is not enough.
#[test]
fn a_sync_that_fails_to_name_a_new_segment_is_latched_too() {
    let fs = disk(1);
    let log = new_log(&fs);
    let synced = log.synced();
    append(&log, &bodies(25, 300));
    assert!(log.segments().len() > 1);
    fs.fail_at(fs.operations(), Fault::eio().on(OpSet::of(OpKind::SyncDir)));
    let first = log.sync(log.end()).unwrap_err();
    assert!(matches!(first, Error::Failed { .. }), "{first}");
    assert_eq!(log.sync(log.end()).unwrap_err().to_string(), first.to_string());
    assert_eq!(log.synced(), synced);
}

/// On a full disk, what a failed append left is cut off. Should the cut not reach the disk, a loss of power undoes it.
#[test]
fn a_cut_whose_sync_fails_closes_the_log() {
    let fs = disk(1);
    let log = new_log(&fs);
    let end = append_one(&log, 0, 10);
    fs.fail_at(fs.operations(), Fault::enospc().on(OpSet::of(OpKind::Write)).forever());
    fs.fail_at(fs.operations(), Fault::eio().on(OpSet::of(OpKind::Sync)));
    let appended = append(&log, &bodies(3, 100));
    assert_eq!((appended.complete, appended.end), (0, end));
    let first = appended.error.unwrap();
    assert!(matches!(first, Error::Failed { .. }), "{first}");
    fs.clear_faults();
    assert_eq!(append(&log, &bodies(3, 100)).error.unwrap().to_string(), first.to_string());
    assert_eq!(log.sync(end).unwrap_err().to_string(), first.to_string());
}

#[test]
fn a_failed_write_is_latched_and_each_record_is_whole_or_absent_afterwards() {
    for seed in 0..60 {
        let fs = disk(seed);
        let log = new_log(&fs);
        let mut written = bodies(2, 100);
        assert_eq!(append(&log, &written).complete, 2);
        fs.fail_at(fs.operations(), Fault::eio().on(OpSet::of(OpKind::Write)));
        let failed: Vec<_> = (2..12).map(|n| body(n, 90)).collect();
        let appended = append(&log, &failed);
        assert_eq!(appended.complete, 0);
        assert!(matches!(appended.error, Some(Error::Failed { .. })));
        assert!(matches!(append(&log, &failed).error, Some(Error::Failed { .. })));
        written.extend(failed);
        let found = read_all(&fs).unwrap();
        assert!(found.len() >= 2 && written.starts_with(&found), "seed {seed}: {}", found.len());
    }
}

/// What was reported as whole is there, after a kill and after any power cut if it was synced; what was reported as
/// failed is not.
fn check_kept(fs: &vfs::SimFs, complete: &[Vec<u8>], synced: usize, context: &str) {
    assert_eq!(read_all(fs).unwrap(), complete, "{context}: after a kill");
    for seed in 0..6 {
        let found = read_all(&fs.power_cut(&PowerCut::random(seed)))
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(found.len() >= synced, "{context}, cut {seed}: {} of {synced} synced", found.len());
        assert!(complete.starts_with(&found), "{context}, cut {seed}: something came back");
    }
}

#[test]
fn a_batch_after_a_failed_append_is_refused_or_durable() {
    // A full disk at every number of bytes, within a segment and at the start of one.
    for capacity in (SEGMENT_BYTES + 10..SEGMENT_BYTES + 2700).step_by(53) {
        for first in [3000, 4032] {
            let context = format!("capacity {capacity}, first {first}");
            let fs = disk(capacity);
            let log = new_log(&fs);
            let mut complete = vec![body(100, first - OVERHEAD_BYTES as usize)];
            append_one(&log, 100, first - OVERHEAD_BYTES as usize);
            log.sync(log.end()).unwrap();
            fs.set_capacity(Some(capacity));

            let group: Vec<_> = (0..8).map(|n| body(n, 400)).collect();
            let appended = append(&log, &group);
            let error = appended.error.expect("it cannot fit");
            assert!(error.is_no_space(), "{context}: {error}");
            complete.extend_from_slice(&group[..appended.complete]);
            assert!(log.failure().is_none());
            check_kept(&fs, &complete, 1, &context);

            // Space again: the log goes on by itself, and the failed records stay away.
            fs.set_capacity(None);
            complete.push(body(200, 50));
            append_one(&log, 200, 50);
            check_kept(&fs, &complete, 1, &context);
            log.sync(log.end()).unwrap();
            check_kept(&fs, &complete, complete.len(), &context);
        }
    }
}

#[test]
fn a_full_disk_at_every_call_loses_nothing_and_brings_nothing_back() {
    for fault in [Fault::enospc().on(OpSet::SPACE), Fault::eio()] {
        for at in 0..40 {
            let fs = disk(at);
            let numbers = numbers();
            let log = create(options(&fs), &numbers).unwrap();
            fs.fail_at(fs.operations() + at, fault);
            let (mut complete, mut synced) = (Vec::new(), 0);
            let mut undecided = Vec::new();
            for round in 0..12 {
                let group: Vec<_> = (0..5).map(|n| body(round * 10 + n, 150)).collect();
                if log.needs_segment() {
                    let _ = log.prepare(next(&numbers));
                }
                let appended = append(&log, &group);
                complete.extend_from_slice(&group[..appended.complete]);
                if log.failure().is_some() {
                    undecided = group[appended.complete..].to_vec();
                    break;
                }
                if log.sync(log.end()).is_err() {
                    break;
                }
                synced = complete.len();
            }
            let found = read_all(&fs).unwrap();
            let mut possible = complete.clone();
            possible.extend(undecided);
            assert!(found.len() >= complete.len() && possible.starts_with(&found), "{fault:?} at {at}");
            for seed in 0..10 {
                let found = read_all(&fs.power_cut(&PowerCut::random(seed))).unwrap();
                assert!(
                    found.len() >= synced && possible.starts_with(&found),
                    "{fault:?} at {at}, cut {seed}"
                );
            }
        }
    }
}

#[test]
fn a_write_that_is_short_leaves_nothing_that_a_power_cut_could_make_damage_of() {
    for at in 0..12 {
        for seed in 0..20 {
            let fs = disk(at * 100 + seed);
            let log = new_log(&fs);
            let mut complete = vec![body(0, 100)];
            append_one(&log, 0, 100);
            log.sync(log.end()).unwrap();
            fs.fail_at(fs.operations() + at, Fault::short().on(OpSet::of(OpKind::Write)));
            for round in 1..6 {
                // Over several sectors and pages.
                let group: Vec<_> = (0..3).map(|n| body(round * 10 + n, 700)).collect();
                let appended = append(&log, &group);
                assert!(appended.error.is_none(), "{at}: {:?}", appended.error);
                complete.extend(group);
                check_kept(&fs, &complete, 1, &format!("short at {at}, {seed}"));
            }
        }
    }
}

#[test]
fn a_disk_that_takes_no_record_whole_has_no_space_and_takes_what_comes_later() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 100);
    fs.fail_at(fs.operations(), Fault::short().forever());
    for round in 1..4 {
        let appended = append(&log, &[body(round, 3000)]);
        let error = appended.error.expect("nothing is taken whole");
        assert!(error.is_no_space() && appended.complete == 0, "{error}");
    }
    fs.clear_faults();
    append_one(&log, 9, 100);
    check_kept(&fs, &[body(0, 100), body(9, 100)], 0, "space again");
}

#[test]
fn a_panic_while_appending_closes_the_log() {
    let fs = disk(1);
    let log = Log::create(options(&fs), FIRST, Box::new(|| panic!("no number"))).unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append(&log, &bodies(40, 300))));
    assert!(caught.is_err());
    assert!(matches!(log.sync(log.end()), Err(Error::Interrupted { .. })));
    assert!(matches!(append(&log, &bodies(1, 1)).error, Some(Error::Interrupted { .. })));
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
                Step::Begin => drop(log.begin_segment()),
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
