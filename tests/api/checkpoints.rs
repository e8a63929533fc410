//! Checkpoints: what is in one, what stops one, and what is left then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nyala::vfs::sim::{FailedSync, Fault, OpKind, OpSet, PowerCut};
use nyala::vfs::{Fs, SimFs};
use nyala::{
    CheckpointReport, Durability, Engine, Error, ErrorKind, Health, Options, RuntimeMode, Schema, Table, Type,
};

use crate::gate::{Call, GateFs};
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

/// The batches of several writers and what each of them had seen of the others.
pub(crate) struct Load {
    pub(crate) engine: Engine,
    tables: [Table; 2],
    acknowledged: Vec<AtomicI64>,
    stop: AtomicBool,
}

pub(crate) const WRITERS: usize = 3;
const KEYS: i64 = 8;

pub(crate) fn load_schema() -> Schema {
    let builder =
        Schema::builder().key("writer", Type::U32).key("key", Type::I64).column("number", Type::I64);
    let seen =
        (0..WRITERS).fold(builder, |builder, writer| builder.column(format!("seen{writer}"), Type::I64));
    seen.column("padding", Type::Binary).build().expect("legal")
}

/// Ends the load when it is dropped, also by a panic.
pub(crate) struct StopLoad<'a>(&'a AtomicBool);

impl Drop for StopLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    pub(crate) fn new(engine: Engine) -> Load {
        let tables = ["x", "y"].map(|name| engine.create_table(name, load_schema()).expect("a new name"));
        let acknowledged = (0..WRITERS).map(|_| AtomicI64::new(0)).collect();
        Load { engine, tables, acknowledged, stop: AtomicBool::new(false) }
    }

    pub(crate) fn stop_at_the_end(&self) -> StopLoad<'_> {
        StopLoad(&self.stop)
    }

    pub(crate) fn seen(&self) -> Vec<i64> {
        self.acknowledged.iter().map(|number| number.load(Ordering::SeqCst)).collect()
    }

    /// Batch after batch, each of which writes its number to all keys of this writer in both tables.
    pub(crate) fn write(&self, writer: usize) {
        for number in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let seen = self.seen();
            let mut batch = self.engine.batch();
            for table in &self.tables {
                for key in 0..KEYS {
                    if (key + number) % 5 == 0 {
                        batch.delete(table, (writer as u32, key)).expect("fits");
                    }
                    let mut row = vec![
                        nyala::Value::UInt(writer as u64),
                        nyala::Value::Int(key),
                        nyala::Value::Int(number),
                    ];
                    row.extend(seen.iter().map(|number| nyala::Value::Int(*number)));
                    row.push(nyala::Value::Binary(&[7; 20]));
                    batch.upsert(table, row).expect("fits");
                }
            }
            let durability = if number % 4 == 0 { Durability::Sync } else { Durability::Buffered };
            batch.commit(durability).expect("a good disk");
            self.acknowledged[writer].store(number, Ordering::SeqCst);
        }
    }

    /// Tables come and go, with a row each.
    pub(crate) fn churn(&self) {
        for number in 0_u32.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("passing{}", number % 3);
            let schema = Schema::builder().key("id", Type::U32).build().expect("legal");
            let table = self.engine.open_or_create_table(&name, schema).expect("a good disk");
            table.upsert((number,)).expect("a good disk");
            if number % 2 == 0 {
                self.engine.drop_table(&name).expect("a good disk");
            }
        }
    }
}

/// The number of each writer in an engine, whose batches must be whole and in order.
pub(crate) fn prefix_of(engine: &Engine) -> Vec<i64> {
    let mut numbers = vec![0; WRITERS];
    let mut seen_by: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for (position, name) in ["x", "y"].into_iter().enumerate() {
        let table = engine.open_table(name, &load_schema()).expect("it was made before the load");
        let mut keys = vec![0; WRITERS];
        for row in table.scan().rows().expect("a scan") {
            let row = row.expect("a row");
            let writer = row.get::<u32>("writer").expect("a number") as usize;
            let number: i64 = row.get("number").expect("a number");
            let seen = (0..WRITERS).map(|of| row.get(format!("seen{of}").as_str()).expect("a number"));
            let seen: Vec<i64> = seen.collect();
            if position == 0 && keys[writer] == 0 {
                numbers[writer] = number;
                seen_by.insert(writer, seen.clone());
            }
            keys[writer] += 1;
            assert_eq!(numbers[writer], number, "writer {writer} has half a batch");
            assert_eq!(seen_by[&writer], seen);
        }
        for (writer, count) in keys.into_iter().enumerate() {
            assert_eq!(count, if numbers[writer] == 0 { 0 } else { KEYS }, "keys of writer {writer}");
        }
    }
    for (writer, seen) in seen_by {
        for (of, seen) in seen.into_iter().enumerate() {
            assert!(
                numbers[of] >= seen,
                "writer {writer} had seen {seen} of {of}, here it is {}",
                numbers[of]
            );
        }
    }
    numbers
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
