//! Faults, halts and the full disk.

use nyala_vfs::sim::{FailedSync, Fault, OpKind, OpSet, PowerCut};
use nyala_vfs::{File, Fs, SimFs};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn disk() -> SimFs {
    let disk = SimFs::new(3);
    disk.create_dir_all("/db".as_ref()).unwrap();
    disk.sync_dir("/".as_ref()).unwrap();
    disk
}

/// One operation of each kind, none of which stops at an error; each outcome with its kind.
fn one_of_each(disk: &SimFs) -> Vec<(OpKind, io::Result<()>)> {
    let mut outcomes = Vec::new();
    let mut note = |kind, outcome: io::Result<()>| outcomes.push((kind, outcome));
    note(OpKind::CreateDir, disk.create_dir_all(&path("sub")));
    let made = disk.create(&path("1.wal"));
    let file = made.as_ref().ok().cloned();
    note(OpKind::Create, made.map(drop));
    if let Some(file) = file {
        note(OpKind::Write, file.write_all_at(&[1; 6000], 0));
        note(OpKind::Preallocate, file.preallocate(9000));
        note(OpKind::StartWriteback, file.start_writeback(0, 4096));
        note(OpKind::Sync, file.sync());
        note(OpKind::Truncate, file.truncate(100));
        note(OpKind::Len, file.len().map(drop));
        note(OpKind::Read, file.read_exact_at(&mut [0; 0], 0));
    }
    note(OpKind::Open, disk.open(&path("0.wal")).map(drop));
    note(OpKind::List, disk.list("/db".as_ref()).map(drop));
    note(OpKind::SyncDir, disk.sync_dir("/db".as_ref()));
    note(OpKind::Lock, disk.lock(&path("LOCK")).map(drop));
    note(OpKind::Rename, disk.rename(&path("0.wal"), &path("2.wal")));
    note(OpKind::HardLink, disk.hard_link(&path("3.wal"), &path("4.wal")));
    note(OpKind::Remove, disk.remove(&path("3.wal")));
    outcomes
}

fn prepared() -> SimFs {
    let disk = disk();
    disk.create(&path("0.wal")).unwrap();
    disk.create(&path("3.wal")).unwrap();
    disk.fork()
}

#[test]
fn every_operation_is_counted_with_its_kind_and_path() {
    let disk = prepared();
    assert_eq!(disk.operations(), 0);
    let outcomes = one_of_each(&disk);
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
    let kinds: Vec<OpKind> = outcomes.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(disk.log(), kinds);
    let mut sorted = kinds.clone();
    sorted.sort();
    assert_eq!(sorted, OpKind::ALL);
    assert_eq!(disk.operation(2), Some((OpKind::Write, path("1.wal"))));
    assert_eq!(disk.operation(16), None);
    assert!(OpKind::Rename.changes_disk() && !OpKind::Read.changes_disk());
}

#[test]
fn a_link_between_file_systems_is_told_from_other_failures() {
    let disk = prepared();
    disk.fail_at(0, Fault::exdev().on(OpSet::ALL));
    disk.rename(&path("0.wal"), &path("1.wal")).unwrap();
    let error = disk.hard_link(&path("3.wal"), &path("4.wal")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossesDevices, "{error}");
    assert!(nyala_vfs::is_not_linkable(&error));
    disk.hard_link(&path("3.wal"), &path("4.wal")).unwrap();
    disk.fail_at(0, Fault::enospc());
    let error = disk.hard_link(&path("3.wal"), &path("5.wal")).unwrap_err();
    assert!(!nyala_vfs::is_not_linkable(&error), "{error}");
}

#[test]
fn the_nth_operation_fails_once() {
    for n in 0..16 {
        let disk = prepared();
        disk.fail_at(n, Fault::eio());
        let outcomes = one_of_each(&disk);
        let failed: Vec<OpKind> =
            outcomes.iter().filter(|(_, outcome)| outcome.is_err()).map(|(kind, _)| *kind).collect();
        assert_eq!(failed, [disk.operation(n).unwrap().0]);
    }
}

#[test]
fn from_the_nth_operation_on_all_fail_until_the_fault_is_cleared() {
    for n in 0..16 {
        let disk = prepared();
        disk.fail_at(n, Fault::eio().forever());
        let outcomes = one_of_each(&disk);
        let worked = outcomes.iter().take_while(|(_, outcome)| outcome.is_ok()).count();
        assert_eq!(worked as u64, n);
        assert!(outcomes[worked..].iter().all(|(_, outcome)| outcome.is_err()));
        disk.clear_faults();
        disk.list("/db".as_ref()).unwrap();
    }
}

#[test]
fn a_fault_waits_for_an_operation_of_its_kinds() {
    let disk = prepared();
    disk.fail_at(3, Fault::enospc().on(OpSet::SYNCS));
    let outcomes = one_of_each(&disk);
    let mut failed = outcomes.into_iter().filter_map(|(kind, outcome)| Some((kind, outcome.err()?)));
    let (kind, error) = failed.next().unwrap();
    assert_eq!((kind, error.kind()), (OpKind::Sync, ErrorKind::StorageFull));
    assert!(failed.next().is_none());
}

#[test]
fn errors_look_like_those_of_a_real_disk() {
    let disk = prepared();
    disk.fail_at(0, Fault::eio());
    let error = disk.open(&path("0.wal")).unwrap_err();
    assert!(error.to_string().starts_with("open /db/0.wal: "), "{error}");
    let cause = std::error::Error::source(error.get_ref().unwrap()).unwrap();
    let cause = cause.downcast_ref::<io::Error>().unwrap();
    assert_eq!(cause.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
}

#[test]
fn a_failed_write_leaves_some_prefix() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let disk = SimFs::new(seed);
        let file = disk.create("/x".as_ref()).unwrap();
        file.write_all_at(&[1; 1000], 0).unwrap();
        disk.fail_at(0, Fault::eio());
        file.write_all_at(&[2; 1000], 500).unwrap_err();
        let bytes = disk.read("/x".as_ref(), 2000).unwrap();
        let written = bytes.iter().filter(|byte| **byte == 2).count();
        assert!(written < 1000);
        assert!(bytes[..500].iter().all(|byte| *byte == 1));
        assert!(bytes[500..500 + written].iter().all(|byte| *byte == 2));
        assert!(bytes[500 + written..].iter().all(|byte| *byte == 1));
        lengths.insert(written);
    }
    assert!(lengths.len() > 20, "{lengths:?}");
}

#[test]
fn a_failed_operation_on_names_leaves_nothing() {
    let disk = prepared();
    let before = disk.fingerprint();
    disk.fail_at(0, Fault::eio().forever());
    disk.create(&path("9")).unwrap_err();
    disk.create_dir_all(&path("d")).unwrap_err();
    disk.remove(&path("0.wal")).unwrap_err();
    disk.rename(&path("0.wal"), &path("3.wal")).unwrap_err();
    disk.lock(&path("LOCK")).unwrap_err();
    assert_eq!(disk.fingerprint(), before);
}

fn failed_sync(kind: FailedSync) -> (SimFs, Arc<dyn File>) {
    let disk = disk();
    let file = disk.create(&path("1.wal")).unwrap();
    file.write_all_at(b"durable", 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    file.write_all_at(b"WRITTEN and more", 0).unwrap();
    disk.fail_at(0, Fault::eio().on(OpSet::SYNCS).sync(kind));
    file.sync().unwrap_err();
    (disk, file)
}

fn contents(disk: &SimFs, name: &str) -> Vec<u8> {
    disk.read(&path(name), 1 << 20).unwrap()
}

#[test]
fn after_a_failed_sync_clean_pages_are_read_but_never_durable() {
    let (disk, file) = failed_sync(FailedSync::PagesClean);
    assert_eq!(contents(&disk, "1.wal"), b"WRITTEN and more");
    file.sync().unwrap();
    for policy in [PowerCut::lose_all(), PowerCut::keep_all()] {
        let bytes = contents(&disk.power_cut(&policy), "1.wal");
        assert_eq!(bytes, b"durable\0\0\0\0\0\0\0\0\0", "a sync that succeeds later does not heal it");
    }
    // Only writing to the page again does, for the page as it is in the cache.
    file.write_all_at(b"!", 16).unwrap();
    let kept = contents(&disk.power_cut(&PowerCut::keep_all()), "1.wal");
    file.sync().unwrap();
    let synced = contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal");
    assert_eq!((kept.as_slice(), synced.as_slice()), (&b"WRITTEN and more!"[..], &b"WRITTEN and more!"[..]));
}

#[test]
fn after_a_failed_sync_dropped_pages_read_as_they_were_durable() {
    let (disk, file) = failed_sync(FailedSync::PagesDropped);
    assert_eq!(contents(&disk, "1.wal"), b"durable\0\0\0\0\0\0\0\0\0");
    file.sync().unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal"), b"durable\0\0\0\0\0\0\0\0\0");
}

/// What power cuts that lose all leave of pages 0 to 3, and what is read before them, over many seeds.
fn mixed_outcomes() -> std::collections::BTreeSet<(Vec<u8>, Vec<u8>)> {
    let outcome = |seed| {
        let disk = SimFs::new(seed);
        let file = disk.create("/x".as_ref()).unwrap();
        file.write_all_at(&[1; 2 * 4096], 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir("/".as_ref()).unwrap();
        file.write_all_at(&[2; 3 * 4096], 0).unwrap();
        disk.fail_at(0, Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesMixed));
        file.sync().unwrap_err();
        let pages = |disk: &SimFs| {
            let bytes = disk.read("/x".as_ref(), 1 << 20).unwrap();
            bytes.chunks(4096).for_each(|page| assert!(page.iter().all(|byte| *byte == page[0])));
            bytes.chunks(4096).map(|page| page[0]).collect::<Vec<u8>>()
        };
        let durable = pages(&disk.power_cut(&PowerCut::lose_all()));
        file.sync().unwrap();
        let healed = pages(&disk.power_cut(&PowerCut::lose_all()));
        assert!(healed[..durable.len()] == durable && healed[durable.len()..].iter().all(|byte| *byte == 0));
        (pages(&disk), durable)
    };
    (0..400).map(outcome).collect()
}

#[test]
fn after_a_failed_sync_pages_may_differ_in_what_became_of_them() {
    let outcomes = mixed_outcomes();
    let each = [(1, 1), (2, 1), (2, 2)];
    for (seen, durable) in &outcomes {
        assert_eq!(seen.len(), 3, "what was written stays as long as it was");
        assert!((0..2).all(|page| each.contains(&(seen[page], durable[page]))), "{seen:?} {durable:?}");
        assert!(
            matches!((seen[2], durable.get(2)), (0 | 2, None | Some(0)) | (2, Some(2))),
            "{seen:?} {durable:?}"
        );
    }
    let firsts: std::collections::BTreeSet<_> =
        outcomes.iter().map(|(seen, durable)| [0, 1].map(|page| (seen[page], durable[page]))).collect();
    assert_eq!(firsts.len(), 9, "each page has each fate beside each of the other's: {firsts:?}");
    assert!(outcomes.iter().any(|(_, durable)| durable.len() == 2));
    assert!(outcomes.iter().any(|(_, durable)| durable.get(2) == Some(&2)));
}

#[test]
fn after_a_failed_directory_sync_some_names_may_be_durable() {
    let outcome = |seed| {
        let disk = SimFs::new(seed);
        disk.create("/a".as_ref()).unwrap();
        disk.create("/b".as_ref()).unwrap();
        disk.rename("/b".as_ref(), "/c".as_ref()).unwrap();
        disk.fail_at(0, Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesMixed));
        disk.sync_dir("/".as_ref()).unwrap_err();
        disk.sync_dir("/".as_ref()).unwrap();
        assert_eq!(disk.paths(), [PathBuf::from("/a"), PathBuf::from("/c")]);
        disk.power_cut(&PowerCut::keep_all()).paths()
    };
    let outcomes: std::collections::BTreeSet<Vec<PathBuf>> = (0..200).map(outcome).collect();
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    let all = [&[][..], &["/a"], &["/b"], &["/c"], &["/a", "/b"], &["/a", "/c"]];
    assert_eq!(outcomes, all.into_iter().map(paths).collect());
}

#[test]
fn after_a_failed_directory_sync_names_are_seen_but_never_durable() {
    let disk = disk();
    disk.create(&path("1.wal")).unwrap();
    disk.fail_at(0, Fault::eio().on(OpSet::SYNCS));
    disk.sync_dir("/db".as_ref()).unwrap_err();
    disk.create(&path("2.wal")).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(disk.paths(), [path("1.wal"), path("2.wal")]);
    assert_eq!(disk.power_cut(&PowerCut::keep_all()).paths(), [path("2.wal")]);
    // The file lives on for those who see its name.
    assert_eq!(contents(&disk, "1.wal"), b"");
    disk.remove(&path("1.wal")).unwrap();
}

#[test]
fn a_name_that_a_failed_sync_left_behind_does_not_come_twice() {
    let disk = disk();
    disk.create(&path("a")).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    disk.fail_at(0, Fault::eio().on(OpSet::SYNCS));
    disk.sync_dir("/db".as_ref()).unwrap_err();
    assert_eq!(disk.power_cut(&PowerCut::keep_all()).paths(), [path("a")]);
    disk.rename(&path("b"), &path("c")).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(disk.power_cut(&PowerCut::keep_all()).paths(), [path("c")]);
}

#[test]
fn from_the_halt_on_nothing_works_and_nothing_changes() {
    for n in 0..16 {
        let disk = prepared();
        disk.halt_at(n);
        let outcomes = one_of_each(&disk);
        assert!(disk.is_halted());
        assert_eq!(outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count() as u64, n);
        assert_eq!(disk.operations(), n, "what the dead process asks is not counted");
        let print = disk.fingerprint();
        one_of_each(&disk);
        assert_eq!(disk.fingerprint(), print);
        // The next process finds a working disk.
        let after = disk.power_cut(&PowerCut::keep_all());
        assert_eq!(after.fingerprint(), print);
        assert!(!after.is_halted());
        after.list("/db".as_ref()).unwrap();
    }
}

#[test]
fn a_full_disk_takes_what_fits_and_is_freed_by_removal() {
    let disk = disk();
    disk.set_capacity(Some(10_000));
    let first = disk.create(&path("1.wal")).unwrap();
    first.write_all_at(&[1; 6000], 0).unwrap();
    let second = disk.create(&path("2.wal")).unwrap();
    let error = second.write_all_at(&[2; 6000], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!((second.len().unwrap(), disk.used_bytes()), (4000, 10_000));
    // Overwriting takes no space.
    first.write_all_at(&[3; 6000], 0).unwrap();
    assert_eq!(second.preallocate(4001).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(second.len().unwrap(), 4000);

    disk.remove(&path("1.wal")).unwrap();
    assert_eq!(second.write_all_at(&[2; 6000], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    drop(first);
    second.write_all_at(&[2; 6000], 0).unwrap();
    disk.set_capacity(None);
    second.preallocate(1 << 40).unwrap();
}

#[test]
fn a_rename_frees_what_it_replaces() {
    let disk = disk();
    disk.set_capacity(Some(100));
    disk.create(&path("a")).unwrap().write_all_at(&[1; 50], 0).unwrap();
    disk.create(&path("b")).unwrap().write_all_at(&[2; 50], 0).unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    assert_eq!(disk.used_bytes(), 50);
    // A power cut may bring the replaced one back, space or no space.
    disk.create(&path("c")).unwrap().write_all_at(&[3; 50], 0).unwrap();
    assert_eq!(disk.power_cut(&PowerCut::keep_all()).used_bytes(), 100);
}

#[test]
fn offsets_beyond_the_longest_file_are_refused() {
    let disk = disk();
    let file = disk.create(&path("1.wal")).unwrap();
    for offset in [u64::MAX, i64::MAX as u64] {
        assert_eq!(file.write_all_at(&[1; 2], offset).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(file.read_exact_at(&mut [0; 2], offset).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
    assert_eq!(file.truncate(u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.len().unwrap(), 0);
}

/// A disk with a file of 1,000 bytes, and that file.
fn thousand(seed: u64) -> (SimFs, Arc<dyn File>) {
    let disk = SimFs::new(seed);
    let file = disk.create("/x".as_ref()).unwrap();
    let bytes: Vec<u8> = (0..1000).map(|at| at as u8).collect();
    file.write_all_at(&bytes, 0).unwrap();
    (disk, file)
}

#[test]
fn a_short_read_is_gone_on_with_by_further_operations() {
    let mut counts = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (disk, file) = thousand(seed);
        let mut buf = [0; 900];
        for (fault, least, most) in [(Fault::short(), 2, 2), (Fault::short().forever(), 2, 900)] {
            let before = disk.operations();
            disk.fail_at(before, fault);
            buf.fill(0);
            file.read_exact_at(&mut buf, 50).unwrap();
            disk.clear_faults();
            assert!(buf.iter().zip(50..950).all(|(byte, at)| *byte == at as u8));
            let calls = disk.operations() - before;
            assert!((least..=most).contains(&calls), "{calls} calls");
            counts.insert(calls);
        }
    }
    assert!(counts.len() > 3, "{counts:?}");
    let (disk, file) = thousand(1);
    disk.fail_at(0, Fault::short().forever());
    file.read_exact_at(&mut [0; 1], 999).unwrap();
    assert_eq!(file.read_exact_at(&mut [0; 10], 995).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_short_write_is_gone_on_with_and_can_be_cut_in_between() {
    let mut cuts = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (disk, file) = thousand(seed);
        disk.fail_at(0, Fault::short());
        let first = disk.operations();
        disk.record();
        file.write_all_at(&[7; 800], 100).unwrap();
        assert_eq!(disk.operations(), first + 2);
        let bytes = disk.read("/x".as_ref(), 2000).unwrap();
        assert!(bytes[100..900].iter().all(|byte| *byte == 7));
        // The power may go between the two.
        let between = &disk.take_recording()[1].1;
        let bytes = between.power_cut(&PowerCut::keep_all()).read("/x".as_ref(), 2000).unwrap();
        let written = bytes[100..900].iter().take_while(|byte| **byte == 7).count();
        assert!((1..800).contains(&written));
        cuts.insert(written);
    }
    assert!(cuts.len() > 20, "{cuts:?}");
}

#[test]
fn an_interrupted_call_has_moved_nothing_and_is_made_again() {
    let (disk, file) = thousand(1);
    disk.fail_at(0, Fault::interrupted().forever());
    let before = disk.operations();
    file.write_all_at(&[7; 10], 0).unwrap();
    file.read_exact_at(&mut [0; 10], 0).unwrap();
    assert_eq!(disk.operations(), before + 4, "each is interrupted once");
    disk.clear_faults();
    disk.fail_at(0, Fault::interrupted());
    file.read_exact_at(&mut [0; 10], 0).unwrap();
    file.read_exact_at(&mut [0; 10], 0).unwrap();
    assert_eq!(disk.operations(), before + 7);
}

#[test]
fn a_call_that_moves_nothing_is_an_error_and_leaves_everything() {
    let (disk, file) = thousand(1);
    let print = disk.fingerprint();
    disk.fail_at(0, Fault::nothing().forever());
    assert_eq!(file.read_exact_at(&mut [0; 10], 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(file.write_all_at(&[7; 10], 0).unwrap_err().kind(), ErrorKind::WriteZero);
    assert_eq!(disk.fingerprint(), print);
}

#[test]
fn faults_of_transfers_leave_all_else_alone() {
    for fault in [Fault::short(), Fault::interrupted()] {
        let disk = prepared();
        disk.fail_at(0, fault.on(OpSet::ALL).forever());
        let outcomes = one_of_each(&disk);
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
    }
    let disk = prepared();
    disk.fail_at(0, Fault::nothing().on(OpSet::ALL).forever());
    for (kind, outcome) in one_of_each(&disk) {
        // The read there asks for nothing, and gets it.
        assert_eq!(outcome.is_err(), kind == OpKind::Write, "{kind:?}: {outcome:?}");
    }
}
