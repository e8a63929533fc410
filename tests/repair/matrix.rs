//! Every kind of damage, alone and with every other one: what is readable is there, what is not is named.

mod interrupted;

use std::path::{Path, PathBuf};

use nyala::vfs::{Fs, SimFs};
use nyala::{
    Engine, ErrorKind, LogAfterDamage, LossKind, RepairError, RepairOptions, RepairReport, RepairSource,
    examine, repair,
};

use crate::forge::{Part, Sstable, entries, forge, records};
use crate::history::{History, killed, table};
use crate::support::{DIR, files, name, options, read, sixty_rows, write};

const TARGET: &str = "/new";

fn accepting(disk: &SimFs) -> RepairOptions {
    RepairOptions { accept_loss: true, ..careful(disk) }
}

fn careful(disk: &SimFs) -> RepairOptions {
    RepairOptions { engine: options(disk), ..RepairOptions::default() }
}

/// All that is in the source.
fn contents(disk: &SimFs) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = disk.paths().into_iter().filter(|path| path.starts_with(DIR));
    paths.map(|path| (path.clone(), read(disk, &path))).collect()
}

/// Repairs, and holds the outcome against all that was ever committed. The source must be as it was.
fn repaired(disk: &SimFs, history: &History, context: &str) -> (RepairReport, usize) {
    let before = contents(disk);
    let examined = examine(DIR, &careful(disk)).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(!disk.paths().iter().any(|path| path.starts_with(TARGET)), "{context}: examining wrote");
    match repair(DIR, TARGET, &careful(disk)) {
        Ok(report) => assert!(report.is_lossless() && report.is_written, "{context}"),
        Err(RepairError::WouldLose(report)) => {
            assert!(!report.is_written && !report.is_lossless(), "{context}");
            assert!(!disk.paths().iter().any(|path| path.starts_with(TARGET)), "{context}: it wrote");
            repair(DIR, TARGET, &accepting(disk)).unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        Err(error) => panic!("{context}: {error}"),
    }
    assert!(contents(disk) == before, "{context}: the source was changed");
    let changed = history.assert_repaired(disk, Path::new(TARGET), &examined, context);
    assert!(changed == 0 || !examined.is_lossless() || examined.torn.is_some(), "{context}");
    (examined, changed)
}

type Wreck = fn(&SimFs);

fn largest(disk: &SimFs, extension: &str) -> PathBuf {
    let found = files(disk, extension).into_iter().max_by_key(|path| read(disk, path).len());
    found.unwrap_or_else(|| panic!("there is no {extension}"))
}

fn flip(disk: &SimFs, path: &Path, at: usize) {
    disk.damage(path, |bytes| bytes[at] ^= 0x20).expect("it is there");
}

fn flip_part(disk: &SimFs, extension: &str, part: Part) {
    let path = largest(disk, extension);
    let blocks = Sstable::load(disk, &path).of(part);
    flip(disk, &path, blocks[blocks.len() / 2].offset + 3);
}

fn flip_record(disk: &SimFs, extension: &str, from_the_end: usize) {
    let path = largest(disk, extension);
    let found = records(&read(disk, &path));
    flip(disk, &path, found[found.len().saturating_sub(1 + from_the_end)].body + 2);
}

fn remove(disk: &SimFs, extension: &str) {
    disk.remove(&largest(disk, extension)).expect("it is there");
}

/// The damage, and whether something must be lost by it: `None` if that depends on what lies there.
const WRECKS: [(&str, Wreck, Option<bool>); 17] = [
    ("nothing", |_| {}, Some(false)),
    ("a block of rows", |disk| flip_part(disk, "row", Part::Data), None),
    ("an index block", |disk| flip_part(disk, "idx", Part::Data), Some(true)),
    ("a filter", |disk| flip_part(disk, "idx", Part::Filter), Some(false)),
    ("a part of a block index", |disk| flip_part(disk, "idx", Part::Index), Some(false)),
    ("a part of the block index of rows", |disk| flip_part(disk, "row", Part::Index), Some(false)),
    ("properties", |disk| flip_part(disk, "idx", Part::Properties), Some(false)),
    (
        "both footers",
        |disk| {
            for extension in ["idx", "row"] {
                let path = largest(disk, extension);
                flip(disk, &path, read(disk, &path).len() - 30);
            }
        },
        Some(false),
    ),
    ("an index file", |disk| remove(disk, "idx"), Some(true)),
    ("a rowset", |disk| remove(disk, "row"), Some(true)),
    (
        "half of an index file",
        |disk| {
            let path = largest(disk, "idx");
            disk.damage(&path, |bytes| bytes.truncate(bytes.len() / 2)).expect("it is there");
        },
        Some(true),
    ),
    ("the last edit", |disk| flip_record(disk, "manifest", 0), Some(true)),
    ("an edit before it", |disk| flip_record(disk, "manifest", 2), Some(true)),
    (
        "all manifests",
        |disk| {
            for path in files(disk, "manifest") {
                disk.remove(&path).expect("it is there");
            }
        },
        Some(true),
    ),
    ("CURRENT missing", |disk| disk.remove(Path::new("/db/CURRENT")).expect("it is there"), Some(false)),
    ("CURRENT damaged", |disk| flip(disk, Path::new("/db/CURRENT"), 12), Some(false)),
    ("a record of the log", |disk| flip_record(disk, "wal", 3), Some(true)),
];

#[test]
fn each_damage_costs_what_it_hits_and_nothing_else() {
    for seed in [1, 2, 3] {
        for (what, wreck, loses) in WRECKS {
            let context = format!("seed {seed}, {what}");
            let (disk, history) = killed(seed);
            wreck(&disk);
            let (report, changed) = repaired(&disk, &history, &context);
            if let Some(loses) = loses {
                assert_eq!(!report.is_lossless(), loses, "{context}: {report}");
            }
            let keys = history.states.len();
            assert!(keys > 100, "{keys}");
            let most = match what {
                "a block of rows" | "an index block" => 25,
                "an index file" | "half of an index file" | "a rowset" => 220,
                "a record of the log" => 130,
                _ => 40,
            };
            assert!(changed <= most, "{context}: {changed} of {keys} keys\n{report}");
        }
    }
}

#[test]
fn damages_together_are_all_named() {
    let mut lossy = 0;
    for (number, (one, first, _)) in WRECKS.iter().enumerate() {
        for (other, second, _) in &WRECKS[number + 1..] {
            let context = format!("{one} and {other}");
            let (disk, history) = killed(5);
            first(&disk);
            let is_there = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second(&disk)));
            if is_there.is_err() {
                // What the second would hit went with the first.
                continue;
            }
            let (report, _) = repaired(&disk, &history, &context);
            lossy += usize::from(!report.is_lossless());
        }
    }
    assert!(lossy > 80, "{lossy}");
}

#[test]
fn a_block_of_rows_is_lost_by_its_keys() {
    let disk = sixty_rows();
    let path = files(&disk, "row").remove(0);
    let block = Sstable::load(&disk, &path).of(Part::Data)[1];
    flip(&disk, &path, block.offset + 3);
    let Err(RepairError::WouldLose(report)) = repair(DIR, TARGET, &careful(&disk)) else {
        panic!("a block is gone")
    };
    assert_eq!(report.losses.len(), 1, "{report}");
    let loss = &report.losses[0];
    assert_eq!((loss.kind, loss.table.as_deref()), (LossKind::Rows, Some("t")));
    let lost = loss.count.expect("they are known");
    let (first, last) = loss.versions.expect("they are known");
    assert!((2..15).contains(&lost) && last.0 - first.0 + 1 == lost, "{loss}");
    assert_eq!(report.tables[0].rows + lost, 60, "{report}");
    let concerned = (0..60).filter(|n| !report.losses_of("t", (name(*n),)).expect("a key").is_empty());
    assert_eq!(concerned.count() as u64, lost);
    // Texts show keys only if somebody wants them to.
    assert!(!report.to_string().contains('('), "{report}");
    let shown = examine(DIR, &RepairOptions { show_keys: true, ..careful(&disk) }).expect("a good disk");
    assert!(shown.to_string().contains("keys (\""), "{shown}");
}

#[test]
fn an_older_version_stands_in_and_that_is_told() {
    let disk = sixty_rows();
    {
        let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
        let t = crate::support::table(&engine);
        t.upsert((name(7), 700, "newer")).expect("a good disk");
        engine.flush().expect("a good disk");
        engine.close().expect("a good disk");
    }
    let newest = files(&disk, "row").pop().expect("the last flush");
    disk.remove(&newest).expect("it is there");
    let report = repair(DIR, TARGET, &accepting(&disk)).expect("a loss that is accepted");
    assert_eq!((report.tables[0].rows, report.tables[0].older_rows), (60, 1), "{report}");
    let losses = report.losses_of("t", (name(7),)).expect("a key");
    assert_eq!(losses.len(), 1);
    assert_eq!(losses[0].kind, LossKind::Rows);
    let engine = Engine::open(TARGET, options(&disk)).expect("just repaired");
    let row = table(&engine, "t").get((name(7),)).expect("sound").expect("the older one");
    assert_eq!(row.get::<i64>("number").expect("a number"), 7);
}

#[test]
fn a_deletion_lost_with_the_index_brings_the_row_back_and_that_is_told() {
    let disk = sixty_rows();
    {
        let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
        crate::support::table(&engine).delete((name(7),)).expect("a good disk");
        engine.flush().expect("a good disk");
        engine.close().expect("a good disk");
    }
    let newest = files(&disk, "idx").pop().expect("the last flush");
    disk.remove(&newest).expect("it is there");
    let report = repair(DIR, TARGET, &accepting(&disk)).expect("a loss that is accepted");
    let losses = report.losses_of("t", (name(7),)).expect("a key");
    assert_eq!(losses.len(), 1, "{report}");
    assert_eq!(losses[0].kind, LossKind::Index);
    assert!(losses[0].to_string().contains("deleted ones may be back"), "{}", losses[0]);
    assert!(report.losses_of("t", (name(8),)).expect("a key").is_empty(), "{report}");
    let engine = Engine::open(TARGET, options(&disk)).expect("just repaired");
    assert!(table(&engine, "t").exists((name(7),)).expect("sound"));
}

/// Two entries that lead to one another's rows, under checksums that are right: a row is known by its version.
#[test]
fn an_entry_that_leads_to_another_row_gets_its_own_and_never_that() {
    let disk = sixty_rows();
    let path = files(&disk, "idx").remove(0);
    forge(&disk, &path, |file| {
        let block = file.of(Part::Data)[1];
        let found = entries(file.payload(&block));
        let (one, other) = (found[1].value.end - 1, found[2].value.end - 1);
        // The rowid is the last byte of an entry.
        file.edit(&block, |payload| payload.swap(one, other));
    });
    let damaged = Engine::open(DIR, options(&disk)).expect("nothing shows at an open");
    assert!(!damaged.check().expect("a good disk").is_clean());
    damaged.close().expect("a good disk");
    let report = repair(DIR, TARGET, &careful(&disk)).expect("nothing is lost");
    assert_eq!((report.tables[0].rows, report.tables[0].lost_rows), (60, 0), "{report}");
    let engine = Engine::open(TARGET, options(&disk)).expect("just repaired");
    for n in 0..60 {
        let row = table(&engine, "t").get((name(n),)).expect("sound").expect("it is there");
        assert_eq!(row.get::<i64>("number").expect("a number"), i64::from(n));
    }
}

/// Batches behind a damaged record, and what the options make of them.
#[test]
fn what_lies_behind_damage_in_the_log_is_never_mixed_in_unsaid() {
    let disk = {
        let disk = sixty_rows();
        let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
        for n in 100..110 {
            write(&engine, n, n + 1);
        }
        engine.sync().expect("a good disk");
        disk.fork()
    };
    let has_five = |log: &PathBuf| records(&read(&disk, log)).len() > 4;
    let log = files(&disk, "wal").into_iter().find(has_five).expect("a log of ten batches");
    let damaged = records(&read(&disk, &log))[4];
    flip(&disk, &log, damaged.body + 20);
    for (after, rows) in [(LogAfterDamage::LeaveOut, 64), (LogAfterDamage::Take, 69)] {
        let options = RepairOptions { log_after_damage: after, ..accepting(&disk) };
        let target = format!("/new-{rows}");
        let report = repair(DIR, &target, &options).expect("a loss that is accepted");
        assert_eq!(report.tables[0].rows, rows, "{report}");
        let gap = report.losses.iter().find(|loss| loss.kind == LossKind::Log).expect("a gap");
        let (first, last) = gap.versions.expect("known from its neighbours");
        assert!(first <= last && last.0 - first.0 < 10, "{gap}");
        assert_eq!(gap.offset, Some(damaged.offset as u64));
        let behind = report.losses.iter().find(|loss| loss.kind == LossKind::LogAfterDamage);
        let behind = behind.expect("five batches");
        assert_eq!((behind.count, behind.table.as_deref()), (Some(5), Some("t")), "{behind}");
        let word = if after == LogAfterDamage::Take { "taken" } else { "left out" };
        assert!(behind.why.contains(word), "{behind}");
    }
}

#[test]
fn without_a_manifest_files_say_whose_they_are() {
    let (disk, history) = killed(9);
    for path in files(&disk, "manifest") {
        disk.remove(&path).expect("it is there");
    }
    disk.remove(Path::new("/db/CURRENT")).expect("it is there");
    let (report, changed) = repaired(&disk, &history, "no manifest");
    assert_eq!(report.source, RepairSource::Files);
    assert_eq!(report.tables.len(), 2, "{report}");
    assert_eq!(report.tables[0].schema.columns().len(), 3);
    assert_eq!(changed, 0, "nothing was being merged\n{report}");
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::Deletions), "{report}");
}

#[test]
fn a_table_that_is_only_in_the_log_is_named_as_lost_with_its_manifest() {
    let disk = SimFs::new(1);
    let engine = Engine::open(DIR, options(&disk)).expect("an empty disk");
    write(&engine, 0, 5);
    let disk = disk.fork();
    for path in files(&disk, "manifest") {
        disk.remove(&path).expect("it is there");
    }
    let report = examine(DIR, &careful(&disk)).expect("a good disk");
    assert!(report.tables.is_empty(), "{report}");
    let loss = report.losses.iter().find(|loss| loss.kind == LossKind::Table).expect("a table");
    assert_eq!(loss.count, Some(5), "{loss}");
}

#[test]
fn a_repair_refuses_what_it_must_not_touch() {
    let disk = sixty_rows();
    let failed = |result: Result<RepairReport, RepairError>| match result {
        Err(RepairError::Failed(error)) => error,
        other => panic!("{other:?}"),
    };
    let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
    let error = failed(repair(DIR, TARGET, &careful(&disk)));
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    engine.close().expect("a good disk");
    for target in [DIR, "/db/inside", "/", "/db/./inside", "/other/../db/inside", "/db/x/../../db"] {
        let error = failed(repair(DIR, target, &careful(&disk)));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{target}: {error}");
    }
    disk.create_dir_all(Path::new(TARGET)).expect("a good disk");
    disk.create(Path::new("/new/something")).expect("a good disk");
    let error = failed(repair(DIR, TARGET, &careful(&disk)));
    assert!(error.to_string().contains("not empty"), "{error}");
    let error = failed(repair("/nowhere", "/other", &careful(&disk)));
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

#[test]
fn a_repaired_database_goes_on_with_versions_above_all_that_were_found() {
    let (disk, history) = killed(4);
    let report = repair(DIR, TARGET, &careful(&disk)).expect("nothing is damaged");
    assert!(report.is_written && report.is_lossless(), "{report}");
    assert!(report.to_string().ends_with("nothing is lost"), "{report}");
    history.assert_repaired(&disk, Path::new(TARGET), &report, "sound");
    let engine = Engine::open(TARGET, options(&disk)).expect("just repaired");
    let first = table(&engine, "first");
    first.upsert((name(1), 1, "after the repair")).expect("a good disk");
    engine.flush().expect("a good disk");
    first.compact().expect("a good disk");
    let row = first.get((name(1),)).expect("sound").expect("just written");
    assert_eq!(row.get::<String>("text").expect("a text"), "after the repair");
    assert!(engine.check().expect("a good disk").is_clean());
}

/// A disk that lost the end of the manifest although it had confirmed its sync: the manifest can be read whole, and is
/// not all there was. The log tells, or a file.
#[test]
fn a_manifest_that_has_lost_edits_is_not_taken_for_all_there_was() {
    let cut_last_edit = |disk: &SimFs| {
        let path = largest(disk, "manifest");
        let found = records(&read(disk, &path));
        let last = found[found.len() - 1];
        disk.damage(&path, |bytes| bytes[last.offset..].fill(0)).expect("it is there");
    };
    // A table that is in the log only.
    let disk = sixty_rows();
    let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
    let later = engine.create_table("later", crate::support::schema()).expect("a new name");
    later.upsert((name(1), 1, "of the later one")).expect("a good disk");
    engine.sync().expect("a good disk");
    let in_log = disk.fork();
    cut_last_edit(&in_log);
    let error = Engine::open(DIR, options(&in_log)).expect_err("the log tells");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let Err(RepairError::WouldLose(report)) = repair(DIR, TARGET, &careful(&in_log)) else {
        panic!("a table is gone")
    };
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::Manifest), "{report}");
    let table =
        report.losses.iter().find(|loss| loss.kind == LossKind::Table).expect("of which nothing is known");
    assert_eq!(table.count, Some(1), "{report}");
    assert_eq!(report.tables[0].rows, 60, "{report}");

    // Files that were merged into others, which the manifest does not know.
    let before = [files(&disk, "idx"), files(&disk, "row")].concat();
    engine.flush().expect("a good disk");
    let mut laters = [files(&disk, "idx"), files(&disk, "row")].concat();
    laters.retain(|path| !before.contains(path));
    let t = crate::support::table(&engine);
    t.upsert((name(2), 200, "newer")).expect("a good disk");
    engine.flush().expect("a good disk");
    let merged = files(&disk, "idx");
    t.compact().expect("a good disk");
    let disk = disk.fork();
    cut_last_edit(&disk);
    for path in merged.iter().filter(|path| !laters.contains(path)) {
        // Some are gone already.
        let _ = disk.remove(path);
    }
    assert!(Engine::open(DIR, options(&disk.fork())).is_err(), "files that are named are gone");
    let Err(RepairError::WouldLose(report)) = repair(DIR, TARGET, &careful(&disk)) else {
        panic!("the manifest is not all there was")
    };
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::Manifest), "{report}");
    repair(DIR, TARGET, &accepting(&disk)).expect("it is accepted");
    let engine = Engine::open(TARGET, options(&disk)).expect("just repaired");
    let t = engine.existing_table("t").expect("it is there");
    assert_eq!(t.count().expect("sound"), 60);
    let row = t.get((name(2),)).expect("sound").expect("it is there");
    assert_eq!(row.get::<i64>("number").expect("a number"), 200, "what was merged last is taken");
    assert!(engine.existing_table("later").expect("it is there").exists((name(1),)).expect("sound"));
}

/// Without a manifest nothing says that an index file is gone but the rows that it led to.
#[test]
fn rows_that_nothing_leads_to_are_told_of() {
    let disk = sixty_rows();
    for path in files(&disk, "manifest") {
        disk.remove(&path).expect("it is there");
    }
    let report = examine(DIR, &careful(&disk)).expect("a good disk");
    let is_of = |report: &RepairReport, kind: &str| {
        report.losses.iter().any(|loss| loss.file.as_ref().is_some_and(|file| file.ends_with(kind)))
    };
    assert!(!is_of(&report, ".row"), "{report}");
    remove(&disk, "idx");
    let report = examine(DIR, &careful(&disk)).expect("a good disk");
    assert!(is_of(&report, ".row"), "{report}");
}

/// A batch is there whole or not at all, also if its record is whole and an operation in it is none.
#[test]
fn a_batch_with_an_operation_that_is_none_is_left_out_whole() {
    let disk = sixty_rows();
    {
        let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
        write(&engine, 100, 105);
        engine.sync().expect("a good disk");
        std::mem::forget(engine);
    }
    let log = files(&disk, "wal").pop().expect("a log");
    crate::forge::forge_log(&disk, &log, |body| {
        // The last operation's row is not text any more.
        if body.len() > 100 {
            *body.last_mut().expect("a row") = 0xff;
        }
    });
    let report = repair(DIR, TARGET, &accepting(&disk.fork())).err().map(|error| error.to_string());
    let forked = disk.fork();
    let repaired = repair(DIR, TARGET, &accepting(&forked)).expect("it is accepted");
    assert_eq!(repaired.tables[0].rows, 60, "{repaired} {report:?}");
    assert!(repaired.losses.iter().any(|loss| loss.kind == LossKind::Log), "{repaired}");
}
