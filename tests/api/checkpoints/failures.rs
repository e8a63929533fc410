//! What stops a checkpoint, and what is left then: nothing that opens, or all of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nyala::vfs::sim::{FailedSync, Fault, OpKind, OpSet, PowerCut};
use nyala::vfs::{Fs, SimFs};
use nyala::{Durability, Engine, ErrorKind, Health, Options};

use super::{expected, filled, inline, read_strictly};
use crate::gate::{Call, GateFs};
use crate::support::{
    assert_clean, effort, eventually, lazy, on, plain_table, refused, rows, scratch, simulated,
};

/// What an interrupted or failed checkpoint may leave: nothing that opens, or all of it.
fn check_rest(dir: &Path, disk: &SimFs, may_be_whole: bool, what: &dyn std::fmt::Debug) {
    match Engine::open(dir, inline(disk)) {
        Ok(engine) => {
            assert!(may_be_whole, "{what:?}: it opens");
            assert_eq!(engine.tables(), ["t"], "{what:?}");
            assert_eq!(rows(&plain_table(&engine)), expected(0..60), "{what:?}");
            assert_clean(&engine);
        }
        Err(error) => {
            let kinds = [ErrorKind::Corruption, ErrorKind::InvalidArgument, ErrorKind::Io];
            assert!(kinds.contains(&error.kind()), "{what:?}: {error}");
        }
    }
    // Somebody who makes databases where there are none gets an empty one at most where nothing is left.
    let holds_files = disk.paths().iter().any(|path| {
        path.starts_with(dir) && !["LOCK", "CURRENT.tmp"].iter().any(|name| path.ends_with(name))
    });
    if holds_files && !may_be_whole {
        let creating = Options { create_if_missing: true, ..inline(disk) };
        assert!(
            Engine::open(dir, creating).is_err(),
            "{what:?}: an empty database in place of {:?}",
            disk.paths()
        );
    }
}

#[test]
fn a_power_cut_in_the_middle_leaves_the_source_and_no_half_target() {
    for links in [true, false] {
        let disk = SimFs::new(1);
        let (engine, _table) = filled("/db".as_ref(), inline(&disk));
        engine.sync().expect("a good disk");
        if !links {
            disk.fail_at(disk.operations(), Fault::exdev().forever());
        }
        disk.record();
        engine.checkpoint("/way/target").expect("a checkpoint");
        let moments = disk.take_recording();
        assert!(moments.len() > 20, "{} moments", moments.len());
        // Before the rename of CURRENT it is not there.
        let renamed =
            (0..disk.operations()).rev().find(|n| matches!(disk.operation(*n), Some((OpKind::Rename, _))));
        let renamed = renamed.expect("CURRENT is renamed");
        let mut wholes = 0;
        for (number, moment) in &moments {
            for seed in 0..6 * effort() as u64 {
                let policy = match seed {
                    0 => PowerCut::lose_all(),
                    1 => PowerCut::keep_all(),
                    seed => PowerCut::random(seed * 1000 + number),
                };
                let cut = moment.power_cut(&policy);
                check_rest("/way/target".as_ref(), &cut, *number > renamed, &(number, policy));
                wholes += u32::from(*number > renamed);
                assert_eq!(read_strictly("/db".as_ref(), inline(&cut)), expected(0..60));
            }
        }
        assert!(wholes > 0);
    }
}

#[test]
fn a_call_that_fails_fails_the_checkpoint_and_nothing_else() {
    let kinds = [
        ("eio", Fault::eio()),
        ("eio for ever", Fault::eio().forever()),
        ("dropped", Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesDropped)),
        ("mixed", Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesMixed)),
        ("full", Fault::enospc()),
        ("full for ever", Fault::enospc().forever()),
    ];
    for links in [true, false] {
        let start = |n: Option<(u64, Fault)>| {
            let disk = SimFs::new(1);
            let (engine, table) = filled("/db".as_ref(), inline(&disk));
            let first = disk.operations();
            if let Some((n, fault)) = n {
                disk.fail_at(first + n, fault);
            }
            if !links {
                disk.fail_at(first, Fault::exdev().forever());
            }
            let made = engine.checkpoint("/way/target");
            (disk, engine, table, made, first)
        };
        let (disk, _engine, _table, made, first) = start(None);
        made.expect("a good disk");
        let calls = disk.operations() - first;
        let (mut failed, mut refused_to_open) = (0, 0);
        for n in 0..calls {
            for (name, fault) in kinds {
                let (disk, engine, table, made, _) = start(Some((n, fault)));
                disk.clear_faults();
                let what = (n, name, made.as_ref().err().map(ToString::to_string));
                assert!(matches!(engine.health(), Health::Healthy), "{what:?}: {:?}", engine.health());
                match made {
                    // Hints and what is only looked at may fail, and a second manifest may do.
                    Ok(_) => check_rest("/way/target".as_ref(), &disk.fork(), true, &what),
                    Err(error) => {
                        failed += 1;
                        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace), "{what:?}");
                        assert!(error.to_string().contains("/way/target"), "{what:?}");
                        // A disk that does nothing any more at the last sync leaves what is whole as it is.
                        let may_be_whole = name == "eio for ever";
                        for seed in 0..3 {
                            let policy =
                                [PowerCut::lose_all(), PowerCut::keep_all(), PowerCut::random(n)][seed];
                            check_rest(
                                "/way/target".as_ref(),
                                &disk.power_cut(&policy),
                                may_be_whole,
                                &(&what, policy),
                            );
                        }
                        let is_left = disk.list("/way/target".as_ref()).is_ok_and(|left| !left.is_empty());
                        assert!(!is_left || name != "eio", "what fails once is cleared: {what:?}");
                        refused_to_open += u32::from(is_left);
                        check_rest("/way/target".as_ref(), &disk.fork(), may_be_whole, &what);
                        // Unless it could not be cleared either, it can be tried again at once in the same place.
                        let again = match disk.list("/way/target".as_ref()) {
                            Ok(left) if !left.is_empty() => "/way/other",
                            _ => "/way/target",
                        };
                        engine.checkpoint(again).expect("the disk is good again");
                        assert_eq!(
                            read_strictly(again.as_ref(), inline(&disk.fork())),
                            expected(0..60),
                            "{what:?}"
                        );
                    }
                }
                table.upsert((60, 60, "after")).expect("the source is unharmed");
                engine.flush().expect("the source is unharmed");
                assert_eq!(rows(&table), expected(0..61), "{what:?}");
            }
        }
        assert!(failed > 60, "{failed} of {calls} calls in {} ways failed it", kinds.len());
        println!("{failed} failures of {calls} calls; {refused_to_open} left something that does not open");
    }
}

#[test]
fn what_the_manifest_names_is_synced_before_it_and_the_manifest_before_current() {
    for links in [true, false] {
        let disk = SimFs::new(1);
        let (engine, _table) = filled("/db".as_ref(), inline(&disk));
        if !links {
            disk.fail_at(disk.operations(), Fault::exdev().forever());
        }
        let first = disk.operations();
        engine.checkpoint("/target").expect("a checkpoint");
        let calls: Vec<(OpKind, PathBuf)> =
            (first..disk.operations()).filter_map(|n| disk.operation(n)).collect();
        let is = |path: &Path, extension: &str| path.extension().is_some_and(|found| found == extension);
        let last = |wanted: &dyn Fn(&(OpKind, PathBuf)) -> bool| {
            calls.iter().rposition(wanted).expect("it is called")
        };
        let next = |wanted: &dyn Fn(&(OpKind, PathBuf)) -> bool| {
            calls.iter().position(wanted).expect("it is called")
        };
        let manifest = next(&|(op, path)| *op == OpKind::Create && is(path, "manifest"));
        let manifest_synced = last(&|(op, path)| *op == OpKind::Sync && is(path, "manifest"));
        let renamed = last(&|(op, _)| *op == OpKind::Rename);
        let data_last = last(&|(op, path)| match links {
            true => *op == OpKind::HardLink || (*op == OpKind::Sync && is(path, "wal")),
            false => *op == OpKind::Sync && (is(path, "idx") || is(path, "row") || is(path, "wal")),
        });
        let dir_synced = calls[data_last..]
            .iter()
            .position(|(op, path)| *op == OpKind::SyncDir && path == Path::new("/target"));
        let dir_synced = data_last + dir_synced.expect("the directory is synced");
        assert!(data_last < dir_synced && dir_synced < manifest, "{calls:?}");
        assert!(manifest < manifest_synced && manifest_synced < renamed, "{calls:?}");
        assert_eq!(
            calls[renamed + 1..].iter().filter(|(op, _)| *op == OpKind::SyncDir).count(),
            1,
            "{calls:?}"
        );
        let marked = next(&|(op, path)| *op == OpKind::Create && path.ends_with("CURRENT"));
        assert!(
            calls[..data_last]
                .iter()
                .filter(|(op, path)| *op == OpKind::Create
                    && !is(path, "wal")
                    && links
                    && !path.ends_with("CURRENT"))
                .count()
                == 0,
            "{calls:?}"
        );
        assert!(marked < next(&|(op, _)| *op == OpKind::HardLink), "it says first that it is not finished");
    }
}

#[test]
fn a_full_source_can_be_saved_elsewhere_and_a_poisoned_one_cannot() {
    let disk = SimFs::new(1);
    let (engine, table) = filled("/db".as_ref(), inline(&disk));
    disk.fail_at(disk.operations(), Fault::enospc().on(OpSet::of(OpKind::Write)));
    refused(table.upsert((60, 60, "no space")), ErrorKind::NoSpace, &[]);
    assert!(matches!(engine.health(), Health::NoSpace(_)));
    engine.checkpoint("/saved").expect("the disk of the target has space");
    assert!(matches!(engine.health(), Health::NoSpace(_)), "that is for the source to say");
    assert_eq!(read_strictly("/saved".as_ref(), inline(&disk.fork())), expected(0..60));
    engine.resume().expect("there is space");

    disk.fail_at(disk.operations(), Fault::eio().on(OpSet::of(OpKind::Sync)));
    refused(engine.sync(), ErrorKind::Io, &[]);
    refused(engine.checkpoint("/undecided"), ErrorKind::Io, &["earlier failure"]);
    assert!(disk.list("/undecided".as_ref()).is_err(), "nothing is begun");
}

/// A batch whose sync fails is undecided, so that no copy may have it either.
#[test]
fn a_log_that_fails_meanwhile_fails_the_checkpoint() {
    let dir = scratch();
    let disk = SimFs::new(1);
    let fs = GateFs::new(disk.clone());
    let (engine, table) = filled("/db".as_ref(), on(Arc::new(fs.clone()), lazy()));
    let held = fs.hold(Call::Link, "", "");
    std::thread::scope(|scope| {
        // Opened by a panic too, or the scope would wait for ever.
        let held = held;
        let made = scope.spawn(|| engine.checkpoint("/target"));
        held.wait_reached();
        disk.fail_at(disk.operations(), Fault::eio().on(OpSet::of(OpKind::Sync)));
        let mut batch = engine.batch();
        batch.upsert(&table, (60, 60, "undecided")).expect("fits");
        refused(batch.commit(Durability::Sync), ErrorKind::Io, &[]);
        held.open();
        refused(made.join().expect("no panic"), ErrorKind::Io, &["earlier failure"]);
    });
    assert!(disk.list("/target".as_ref()).expect("it was made").is_empty());
    drop(dir);
}

#[test]
fn closing_gives_a_checkpoint_up() {
    let disk = SimFs::new(1);
    let fs = GateFs::new(disk.clone());
    let (engine, table) = filled("/db".as_ref(), on(Arc::new(fs.clone()), lazy()));
    let held = fs.hold(Call::Link, "", "");
    std::thread::scope(|scope| {
        // Opened by a panic too, or the scope would wait for ever.
        let held = held;
        let made = scope.spawn(|| engine.checkpoint("/target"));
        held.wait_reached();
        let closed = scope.spawn(|| engine.close());
        eventually("closing begins", || engine.sync().is_err_and(|error| error.kind() == ErrorKind::Closed));
        std::thread::sleep(Duration::from_millis(50));
        held.open();
        refused(made.join().expect("no panic"), ErrorKind::Closed, &[]);
        closed.join().expect("no panic").expect("a clean end");
    });
    let links = disk.log().into_iter().filter(|call| *call == OpKind::HardLink).count();
    assert_eq!(links, 1, "the one link that had begun is the last");
    assert!(disk.list("/target".as_ref()).expect("it was made").is_empty());
    refused(engine.checkpoint("/late"), ErrorKind::Closed, &[]);
    drop((engine, table));
    assert_eq!(read_strictly("/db".as_ref(), simulated(&disk, lazy())), expected(0..60));
}
