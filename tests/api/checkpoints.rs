//! Checkpoints: what is in one, what stops one, and what is left then.

mod failures;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, PowerCut};
use nyala::{CheckpointReport, Engine, Error, ErrorKind, Options, RuntimeMode, Table};

use crate::gate::{Call, GateFs};
use crate::load::{Load, WRITERS, prefix_of};
use crate::support::{
    assert_clean, effort, eventually, lazy, on, plain_table, refused, rows, scratch, simulated, tiny,
};

/// Background work in the caller's thread, so that every call has its number.
fn inline(disk: &SimFs) -> Options {
    let options = Options { background_sync_interval: None, create_if_missing: false, ..tiny() };
    simulated(disk, Options { runtime: RuntimeMode::Inline { seed: 1 }, ..options })
}

/// Opens what must be a whole database, reads its only table and writes to it.
fn read_strictly(dir: &Path, options: Options) -> Vec<(u32, i64)> {
    let engine = Engine::open(dir, options).expect("a checkpoint opens like any database");
    assert_eq!(engine.recovery_report().torn, None);
    assert_clean(&engine);
    let table = plain_table(&engine);
    let found = rows(&table);
    table.upsert((u32::MAX, 1, "it takes writes")).expect("a good disk");
    found
}

/// A database with flushed and unflushed rows, nothing synced that need not be.
fn filled(dir: &Path, options: Options) -> (Engine, Table) {
    let engine = Engine::open(dir, Options { create_if_missing: true, ..options }).expect("it opens");
    let table = plain_table(&engine);
    for id in 0..60 {
        table.upsert((id, i64::from(id), "x".repeat(90))).expect("a row");
        if id % 20 == 10 {
            engine.flush().expect("it is flushed");
        }
    }
    (engine, table)
}

fn expected(ids: std::ops::Range<u32>) -> Vec<(u32, i64)> {
    ids.map(|id| (id, i64::from(id))).collect()
}

#[test]
fn a_checkpoint_holds_what_was_there_and_goes_its_own_way() {
    let dir = scratch();
    let (source, target) = (dir.path().join("db"), dir.path().join("backups/monday"));
    let (engine, table) = filled(&source, lazy());
    let version = engine.snapshot().version();
    let report = engine.checkpoint(&target).expect("a checkpoint");
    assert_eq!(report.version, version);
    assert!(report.linked_files >= 6 && report.linked_bytes > 0, "{report:?}");
    assert_eq!((report.copied_files, report.copied_bytes), (0, 0), "{report:?}");
    assert!(report.log_segments > 0 && report.log_bytes > 0, "{report:?}");

    // What either does from now on, the other does not see.
    for id in 0..60 {
        table.upsert((id, -1, "later")).expect("a row");
    }
    engine.flush().expect("it is flushed");
    table.compact().expect("it is compacted");
    let copy = Engine::open(&target, lazy()).expect("it opens");
    let copied = plain_table(&copy);
    assert_eq!(rows(&copied), expected(0..60));
    for id in 0..30 {
        copied.delete(id).expect("a good disk");
    }
    copied.compact().expect("it is compacted");
    assert_eq!(rows(&copied), expected(30..60));
    assert_eq!(rows(&table), (0..60).map(|id| (id, -1)).collect::<Vec<_>>());
    assert_clean(&engine);
    assert_clean(&copy);

    // A checkpoint of a checkpoint, after its source is gone.
    engine.close().expect("a clean end");
    drop((engine, table));
    std::fs::remove_dir_all(&source).expect("it is closed");
    copy.checkpoint(dir.path().join("again")).expect("a checkpoint");
    drop((copy, copied));
    for name in ["again", "backups/monday"] {
        assert_eq!(read_strictly(&dir.path().join(name), lazy()), expected(30..60));
    }
}

#[test]
fn a_database_without_rows_or_tables_has_checkpoints_too() {
    let dir = scratch();
    let engine = Engine::open(dir.path().join("db"), lazy()).expect("it opens");
    engine.checkpoint(dir.path().join("nothing")).expect("a checkpoint");
    plain_table(&engine);
    engine.checkpoint(dir.path().join("empty")).expect("a checkpoint");
    let strictly = || Options { create_if_missing: false, ..lazy() };
    assert!(Engine::open(dir.path().join("nothing"), strictly()).expect("it opens").tables().is_empty());
    assert_eq!(read_strictly(&dir.path().join("empty"), strictly()), []);
}

/// Two hundred and more with `NYALA_LONG=1`.
#[test]
fn checkpoints_under_load_open_strictly_and_hold_a_prefix_of_the_commits() {
    let dir = scratch();
    let engine = Engine::open(dir.path().join("db"), tiny()).expect("it opens");
    let load = Load::new(engine);
    let mut flushes = 0;
    std::thread::scope(|scope| {
        let load = &load;
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || load.write(writer))));
        scope.spawn(|| load.churn());
        let _stop = load.stop_at_the_end();
        for round in 0.. {
            flushes = load.engine.stats().flushes;
            // However slow the machine is, much goes on meanwhile.
            if round >= 30 * effort() && flushes > 20 {
                break;
            }
            let target = dir.path().join(format!("checkpoint{round}"));
            let before = load.seen();
            load.engine.checkpoint(&target).expect("a checkpoint");
            let after: Vec<i64> = load.seen().into_iter().map(|number| number + 1).collect();
            let copy = Engine::open(&target, tiny()).expect("it opens");
            assert_eq!(copy.recovery_report().torn, None, "round {round}");
            let found = prefix_of(&copy);
            for writer in 0..WRITERS {
                let range = before[writer]..=after[writer];
                assert!(range.contains(&found[writer]), "round {round}: {before:?}, {found:?}, {after:?}");
            }
            assert_clean(&copy);
            drop(copy);
            std::fs::remove_dir_all(&target).expect("it is closed");
        }
    });
    assert!(flushes > 20, "{flushes} flushes went on meanwhile");
    assert_clean(&load.engine);
}

#[test]
fn what_is_committed_after_the_call_is_not_in_it() {
    let dir = scratch();
    let fs = GateFs::unsynced();
    let (engine, table) = filled(&dir.path().join("db"), on(Arc::new(fs.clone()), lazy()));
    let held = fs.hold(Call::Link, "", "");
    let target = dir.path().join("checkpoint");
    std::thread::scope(|scope| {
        // Opened by a panic too, or the scope would wait for ever.
        let held = held;
        let made = scope.spawn(|| engine.checkpoint(&target));
        held.wait_reached();
        for id in 60..90 {
            table.upsert((id, 1, "later")).expect("writers go on");
        }
        table.delete(5).expect("writers go on");
        engine.drop_table("t").expect("nothing waits for it");
        held.open();
        made.join().expect("no panic").expect("a checkpoint");
    });
    assert_eq!(read_strictly(&target, lazy()), expected(0..60));
}

#[test]
fn files_that_become_obsolete_meanwhile_stay_until_they_are_linked() {
    let dir = scratch();
    let fs = GateFs::unsynced();
    let (engine, table) = filled(&dir.path().join("db"), on(Arc::new(fs.clone()), tiny()));
    engine.flush().expect("it is flushed");
    let held = fs.hold(Call::Link, "", "");
    let target = dir.path().join("checkpoint");
    std::thread::scope(|scope| {
        // Opened by a panic too, or the scope would wait for ever.
        let held = held;
        let made = scope.spawn(|| engine.checkpoint(&target));
        held.wait_reached();
        for id in 0..60 {
            table.upsert((id, -1, "later")).expect("writers go on");
        }
        table.compact().expect("compactions go on");
        // House is kept every 50 ms, and sooner after an edit.
        std::thread::sleep(Duration::from_millis(250));
        assert!(engine.stats().obsolete_files > 0, "{:?}", engine.stats());
        held.open();
        made.join().expect("no panic").expect("a checkpoint");
    });
    assert_eq!(read_strictly(&target, tiny()), expected(0..60));
    eventually("what was held back is deleted", || engine.stats().obsolete_files == 0);
    assert_clean(&engine);
}

#[test]
fn a_target_that_is_not_empty_is_refused_and_left_alone() {
    let dir = scratch();
    let (source, target) = (dir.path().join("db"), dir.path().join("target"));
    let (engine, table) = filled(&source, lazy());
    std::fs::create_dir(&target).expect("a directory");
    std::fs::write(target.join("precious"), "text").expect("a file");
    refused(engine.checkpoint(&target), ErrorKind::InvalidArgument, &["not empty", "precious"]);
    assert_eq!(crate::support::contents(&target).len(), 1);
    refused(engine.checkpoint(&source), ErrorKind::InvalidArgument, &["not empty"]);
    refused(engine.checkpoint(target.join("precious")), ErrorKind::Io, &[]);
    engine.checkpoint(dir.path().join("good")).expect("a checkpoint");
    refused(engine.checkpoint(dir.path().join("good")), ErrorKind::InvalidArgument, &["not empty"]);
    // Below the database's own directory it may lie: what is there counts as foreign.
    engine.checkpoint(source.join("backups/1")).expect("a checkpoint");
    assert_eq!(rows(&table), expected(0..60));
    assert_clean(&engine);
    drop((engine, table));
    for dir in [dir.path().join("good"), source.join("backups/1"), source] {
        assert_eq!(read_strictly(&dir, lazy()), expected(0..60));
    }
}

#[test]
fn where_no_link_can_be_files_are_copied() {
    let disk = SimFs::new(1);
    let (engine, _table) = filled("/db".as_ref(), inline(&disk));
    disk.fail_at(disk.operations(), Fault::exdev().forever());
    let report = engine.checkpoint("/copy").expect("a checkpoint");
    assert!(report.copied_files >= 6 && report.copied_bytes > 0, "{report:?}");
    assert_eq!((report.linked_files, report.linked_bytes), (0, 0));
    let cut = disk.power_cut(&PowerCut::lose_all());
    assert_eq!(read_strictly("/copy".as_ref(), inline(&cut)), expected(0..60));
    // On a real one: most machines have memory there.
    let dir = scratch();
    let memory = Path::new("/dev/shm");
    if let Ok(other) = tempfile::tempdir_in(memory) {
        let (engine, _table) = filled(&dir.path().join("db"), lazy());
        let report = engine.checkpoint(other.path().join("copy")).expect("a checkpoint");
        assert!(report.linked_files == 0 || report.copied_files == 0, "{report:?}");
        assert_eq!(read_strictly(&other.path().join("copy"), lazy()), expected(0..60));
    }
}

#[test]
fn a_checkpoint_is_durable_when_it_returns_and_so_are_buffered_commits_in_it() {
    let disk = SimFs::new(1);
    let (engine, _table) = filled("/db".as_ref(), inline(&disk));
    engine.checkpoint("/new/way/target").expect("a checkpoint");
    for seed in 0..40 {
        let policy = if seed == 0 { PowerCut::lose_all() } else { PowerCut::random(seed) };
        let cut = disk.power_cut(&policy);
        assert_eq!(read_strictly("/new/way/target".as_ref(), inline(&cut)), expected(0..60), "{policy:?}");
    }
}

#[test]
fn several_checkpoints_at_a_time_do_not_disturb_one_another() {
    let dir = scratch();
    let (engine, table) = filled(&dir.path().join("db"), tiny());
    let made: Mutex<Vec<Result<CheckpointReport, Error>>> = Mutex::default();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (engine, made) = (&engine, &made);
            // Two of them want the same directory.
            let target = dir.path().join(format!("target{}", number / 2));
            scope.spawn(move || {
                let result = engine.checkpoint(target);
                made.lock().expect("no panics").push(result);
            });
        }
        for id in 0..40 {
            table.upsert((id, i64::from(id), "the same")).expect("a row");
        }
    });
    let made = made.into_inner().expect("no panics");
    let good = made.iter().filter(|result| result.is_ok()).count();
    assert_eq!(good, 2, "{made:?}");
    for error in made.iter().filter_map(|result| result.as_ref().err()) {
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Locked), "{error}");
    }
    for number in 0..2 {
        assert_eq!(read_strictly(&dir.path().join(format!("target{number}")), tiny()), expected(0..60));
    }
}
