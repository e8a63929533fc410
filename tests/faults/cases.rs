//! Faults that other engines shipped, each as a scenario of its own: `docs/testing.md` has their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{FailedSync, Fault, OpKind, OpSet, PowerCut};
use nyala::{Durability, Engine, Error, ErrorKind, Health, Options, Table};

use crate::sweep::seed;
use crate::workload::{NAMES, Width, base};
use crate::world::{Call, DIR, Phase, World, schema};

fn options(disk: &SimFs) -> Options {
    Options { fs: Arc::new(disk.clone()), ..base("verbs", 1).options }
}

fn open(disk: &SimFs) -> (Engine, Table) {
    let engine = Engine::open(DIR, options(disk)).expect("a good disk");
    let table = engine.open_or_create_table("t", schema(Width::Plain)).expect("a table");
    (engine, table)
}

fn write(engine: &Engine, table: &Table, id: u32, durability: Durability) -> Result<(), Error> {
    let mut batch = engine.batch();
    batch.upsert(table, (id, i64::from(id), "some text")).expect("it fits");
    batch.commit(durability).map(drop)
}

fn ids(table: &Table) -> Vec<u32> {
    let rows = table.scan().columns(["id"]).rows().expect("a scan");
    rows.map(|row| row.and_then(|row| row.get("id")).expect("reads go on")).collect()
}

/// Makes the next call of one kind on a file of one kind fail. Other calls of that kind must not come before.
fn fail_next(disk: &SimFs, op: OpKind, sync: FailedSync) {
    disk.fail_at(disk.operations(), Fault::eio().on(OpSet::of(op)).sync(sync));
}

fn calls_since(disk: &SimFs, from: u64) -> Vec<(OpKind, PathBuf)> {
    (from..disk.operations()).map(|n| disk.operation(n).expect("it was made")).collect()
}

// docs/testing.md, fault 54
#[test]
fn a_sync_that_fails_once_poisons_for_good_and_a_reopen_has_everything_acknowledged() {
    for sync in [FailedSync::PagesClean, FailedSync::PagesDropped, FailedSync::PagesMixed] {
        let disk = SimFs::new(1);
        let (engine, table) = open(&disk);
        write(&engine, &table, 1, Durability::Sync).expect("a good disk");
        write(&engine, &table, 2, Durability::Buffered).expect("a good disk");
        fail_next(&disk, OpKind::Sync, sync);
        let error = write(&engine, &table, 3, Durability::Sync).expect_err("the sync fails");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let Health::Poisoned(cause) = engine.health() else { panic!("{:?}", engine.health()) };

        // The disk works again, and nobody asks it whether that write is safe after all.
        let from = disk.operations();
        for durability in [Durability::Sync, Durability::Buffered] {
            let again = write(&engine, &table, 4, durability).expect_err("writes are refused");
            assert_eq!(again.to_string(), cause.to_string());
        }
        for result in [engine.sync(), engine.flush(), engine.resume(), engine.drop_table("t")] {
            assert_eq!(result.expect_err("writes are refused").to_string(), cause.to_string());
        }
        assert!(calls_since(&disk, from).is_empty(), "{:?}", calls_since(&disk, from));
        let found = ids(&table);
        assert!(found == [1, 2] || found == [1, 2, 3], "{found:?}");

        let (killed, cut) = (disk.fork(), disk.power_cut(&PowerCut::lose_all()));
        engine.close().expect_err("there is something in memory that nobody can write");
        assert!(
            !calls_since(&disk, from).iter().any(|(op, _)| *op == OpKind::Sync),
            "a failed sync is not tried again"
        );
        for (disk, loses) in
            [(&disk, sync != FailedSync::PagesClean), (&killed, sync != FailedSync::PagesClean), (&cut, true)]
        {
            let (_engine, table) = open(disk);
            let found = ids(&table);
            let legal: &[&[u32]] = if loses { &[&[1], &[1, 2], &[1, 2, 3]] } else { &[&[1, 2], &[1, 2, 3]] };
            assert!(legal.contains(&&found[..]), "{sync:?}: {found:?}");
        }
    }
}

// docs/testing.md, fault 54
#[test]
fn rows_are_not_installed_above_a_log_that_could_not_be_synced() {
    // Two tables, written in turn and synced by nobody: what a flush of one of them installs comes after rows of the
    // other that are in the log only.
    let written = |disk: &SimFs| {
        let (engine, table) = open(disk);
        let other = engine.open_or_create_table("u", schema(Width::Plain)).expect("a table");
        for id in 1..=3 {
            write(&engine, &other, id, Durability::Buffered).expect("a good disk");
            write(&engine, &table, id, Durability::Buffered).expect("a good disk");
        }
        (engine, table)
    };
    let at = {
        let disk = SimFs::new(1);
        let (_engine, table) = written(&disk);
        let first = disk.operations();
        table.flush().expect("a good disk");
        let calls = calls_since(&disk, first);
        let index = calls.iter().position(|(op, path)| *op == OpKind::Sync && is_kind(path, "wal"));
        first + index.expect("the log is synced") as u64
    };
    for sync in [FailedSync::PagesClean, FailedSync::PagesDropped, FailedSync::PagesMixed] {
        let disk = SimFs::new(1);
        let (engine, table) = written(&disk);
        disk.fail_at(at, Fault::eio().on(OpSet::of(OpKind::Sync)).sync(sync));
        let error = table.flush().expect_err("the log is not durable");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(matches!(engine.health(), Health::Poisoned(_)));
        for seed in 0..8 {
            let policy = if seed == 0 { PowerCut::lose_all() } else { PowerCut::random(seed) };
            let (engine, table) = open(&disk.power_cut(&policy));
            let other = engine.existing_table("u").expect("it was made durably");
            let (rows, before) = (ids(&table).len(), ids(&other).len());
            assert!(before == rows || before == rows + 1, "{sync:?}, cut {seed}: {rows} rows after {before}");
        }
    }
}

/// The numbers of the files that hold rows and index entries.
fn data_files(disk: &SimFs) -> BTreeSet<u64> {
    let number = |path: &PathBuf| {
        let is_data = path.extension().is_some_and(|extension| extension == "idx" || extension == "row");
        let number = || path.file_stem()?.to_str()?.parse().ok();
        if is_data { number() } else { None }
    };
    disk.paths().iter().filter_map(number).collect()
}

// docs/testing.md, fault 55
#[test]
fn the_files_of_an_edit_that_failed_and_surfaces_later_are_kept_and_their_numbers_not_used_again() {
    let written = |disk: &SimFs| {
        let (engine, table) = open(disk);
        for id in 0..30 {
            write(&engine, &table, id, Durability::Sync).expect("a good disk");
        }
        (engine, table)
    };
    // Which call syncs the edit of the flush, is seen on another disk: the same calls are made every time.
    let at = {
        let disk = SimFs::new(1);
        let (engine, _table) = written(&disk);
        let first = disk.operations();
        engine.flush().expect("a good disk");
        let calls = calls_since(&disk, first);
        let index = calls.iter().position(|(op, path)| *op == OpKind::Sync && is_kind(path, "manifest"));
        first + index.expect("an edit is synced") as u64
    };
    let mut surfaced = 0;
    for sync in [FailedSync::PagesClean, FailedSync::PagesDropped] {
        let disk = SimFs::new(1);
        let (engine, _table) = written(&disk);
        let before = data_files(&disk);
        // The write of the edit succeeds, and its sync does not: the edit may be on the disk or not.
        disk.fail_at(at, Fault::eio().on(OpSet::of(OpKind::Sync)).sync(sync));
        let error = engine.flush().expect_err("the edit is not durable");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(matches!(engine.health(), Health::Poisoned(_)));
        let written: BTreeSet<u64> = data_files(&disk).difference(&before).copied().collect();
        assert!(!written.is_empty(), "the files that the edit names are kept: it may be on the disk");

        for disk in
            [disk.fork(), disk.power_cut(&PowerCut::keep_all()), disk.power_cut(&PowerCut::lose_all())]
        {
            let (engine, table) = open(&disk);
            assert_eq!(ids(&table), (0..30).collect::<Vec<_>>());
            let report = engine.check().expect("a good disk");
            assert!(report.is_clean(), "{:?}", report.problems);
            surfaced += usize::from(engine.recovery_report().replayed_operations == 0);
            let last = data_files(&disk);
            write(&engine, &table, 100, Durability::Sync).expect("a good disk");
            engine.flush().expect("a good disk");
            for new in data_files(&disk).difference(&last) {
                assert!(written.iter().all(|written| written < new), "file {new} after {written:?}");
            }
        }
    }
    assert!(surfaced > 0, "no edit surfaced");
}

fn is_kind(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

// docs/testing.md, fault 60
#[test]
fn when_an_edit_is_written_every_file_and_every_name_that_it_may_say_is_synced() {
    let mut edits = 0;
    for name in NAMES {
        let workload = base(name, seed());
        let (calls, _) = World::calls_of(&workload, SimFs::new(workload.seed));
        // Files that were made and not removed: whether their contents are synced, and whether their names are.
        let mut files: BTreeMap<&Path, (bool, bool)> = BTreeMap::new();
        for Call { op, path, phase } in &calls {
            let is_data = is_kind(path, "idx") || is_kind(path, "row");
            match op {
                OpKind::Create if is_data => {
                    files.insert(path, (false, false));
                }
                OpKind::Remove => {
                    files.remove(path.as_path());
                }
                OpKind::Write if is_data => files.get_mut(path.as_path()).expect("it was made").0 = false,
                OpKind::Sync if is_data => files.get_mut(path.as_path()).expect("it was made").0 = true,
                OpKind::SyncDir if path == Path::new(DIR) => {
                    files.values_mut().for_each(|file| file.1 = true)
                }
                OpKind::Write if is_kind(path, "manifest") && *phase != Phase::Closing => {
                    edits += 1;
                    for (file, (contents, name)) in &files {
                        assert!(*contents && *name, "{}: {} is not synced", path.display(), file.display());
                    }
                }
                OpKind::List => files.clear(),
                _ => {}
            }
        }
    }
    assert!(edits > 50, "{edits} edits");
}

/// A flush whose files cannot be read back is tried once more, like one whose files cannot be written.
#[test]
fn a_flush_whose_files_cannot_be_opened_is_tried_once_more() {
    for op in [OpKind::Open, OpKind::Read, OpKind::Len] {
        let disk = SimFs::new(1);
        let (engine, table) = open(&disk);
        for id in 0..20 {
            write(&engine, &table, id, Durability::Buffered).expect("a good disk");
        }
        fail_next(&disk, op, FailedSync::PagesClean);
        engine.flush().expect("it is tried once more");
        assert!(matches!(engine.health(), Health::Healthy), "{:?}", engine.health());
        assert_eq!(ids(&table).len(), 20);
        let stats = engine.stats().tables;
        let from = disk.operations();
        let files = data_files(&disk).len() as u64;
        let named: u64 = stats.iter().map(|table| table.index_files + table.rowsets).sum();
        assert_eq!(files, named, "what the first attempt wrote is gone");
        assert_eq!(disk.operations(), from);
    }
}
