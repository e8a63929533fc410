//! Calls that fail, and full disks: what was reported as whole is there, and nothing that was refused comes back.

use vfs::sim::{Fault, OpKind, OpSet, PowerCut};

use super::bodies;
use crate::log::*;
use crate::record::OVERHEAD_BYTES;
use crate::testing::{
    FIRST, SEGMENT_BYTES, append, append_one, body, create, disk, new_log, next, numbers, options, read_all,
};

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
fn without_space_for_another_segment_the_log_goes_on_once_there_is() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 3900);
    fs.fail_at(fs.operations(), Fault::enospc().on(OpSet::of(OpKind::Create)));
    let appended = append(&log, &[body(1, 300)]);
    let error = appended.error.expect("there is no segment for it");
    assert!(error.is_no_space() && appended.complete == 0 && log.failure().is_none(), "{error}");
    append_one(&log, 2, 300);
    check_kept(&fs, &[body(0, 3900), body(2, 300)], 0, "space again");
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
