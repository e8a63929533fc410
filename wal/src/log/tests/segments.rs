//! Segments that are begun, made ahead, given back and forgotten.

use vfs::Fs;
use vfs::sim::{Fault, OpKind, OpSet, PowerCut};

use super::bodies;
use crate::log::*;
use crate::segment::HEADER_BYTES;
use crate::testing::{
    FIRST, SEGMENT_BYTES, append, append_one, body, create, disk, file, new_log, options, present, read_all,
};

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
    log.begin_segment(0).unwrap();
    assert_eq!((log.segments().len(), log.end().offset), (1, HEADER_BYTES as u64));
    append_one(&log, 0, 10);
    // Nothing is left to attest, as after a sync in the background.
    log.sync(log.end()).unwrap();
    log.attest().unwrap();
    log.begin_segment(0).unwrap();
    assert_eq!(log.segments().len(), 2);
    let begun = log.end();
    log.begin_segment(0).unwrap();
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
fn a_record_now_and_then_changes_no_length() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 10);
    log.reserve(400).unwrap();
    let reserved = length(&fs, FIRST);
    append_one(&log, 1, 10);
    log.reserve(400).unwrap();
    assert!(length(&fs, FIRST) == reserved && !log.needs_segment());
    append_one(&log, 2, 150);
    log.reserve(400).unwrap();
    assert_eq!(length(&fs, FIRST), log.end().offset + 400, "more than half was used");
}

#[test]
fn a_segment_is_begun_whole_or_the_last_one_goes_on() {
    let fs = disk(1);
    let log = create(options(&fs), &Arc::new(12.into())).unwrap();
    append_one(&log, 0, 10);
    fs.set_capacity(Some(SEGMENT_BYTES));
    assert!(log.begin_segment(100).unwrap_err().is_no_space());
    assert_eq!(present(&fs), [FIRST]);
    append_one(&log, 1, 10);
    assert_eq!(log.end().segment, FIRST, "it has space");
    log.reserve(100).unwrap();
    log.begin_segment(100).unwrap();
    assert!(length(&fs, log.end().segment) == log.end().offset && !log.needs_segment());
    append_one(&log, 2, 10);
    log.begin_segment(500).unwrap();
    assert_eq!(length(&fs, log.end().segment), 500);
    append_one(&log, 3, 10);
    assert_eq!(read_all(&fs).unwrap(), bodies(4, 10));
}

#[test]
fn a_log_that_is_idle_at_once_again_has_little_prepared() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 10);
    log.reserve(100).unwrap();
    append_one(&log, 1, 300);
    assert!(log.needs_segment());
    log.prepare(FileId(11)).unwrap();
    log.reserve(100).unwrap();
    assert_eq!(present(&fs), [FIRST]);
    assert!(log.needs_segment(), "the last one takes no more");
    log.prepare(FileId(12)).unwrap();
    assert!(!log.needs_segment() && length(&fs, FileId(12)) == 100);
    append_one(&log, 2, 10);
    assert!(log.end().segment == FileId(12) && log.needs_segment());
    assert_eq!(read_all(&fs).unwrap(), [body(0, 10), body(1, 300), body(2, 10)]);
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
fn a_segment_that_cannot_be_prepared_is_not_tried_again_at_once() {
    let fs = disk(1);
    let log = new_log(&fs);
    append_one(&log, 0, 2500);
    fs.set_capacity(Some(SEGMENT_BYTES));
    assert!(log.needs_segment());
    assert!(log.prepare(FileId(10)).unwrap_err().is_no_space());
    assert!(!log.needs_segment());
    append_one(&log, 1, 300);
    assert!(log.needs_segment(), "a sixteenth later");
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
