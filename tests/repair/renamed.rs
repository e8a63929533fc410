//! Repairs of tables that were renamed: what a manifest cannot say any more, files say as far as they know.

use std::path::Path;

use nyala::vfs::{Fs, SimFs};
use nyala::{Engine, LossKind, RepairOptions, RepairReport, repair};

use crate::forge::records;
use crate::support::{DIR, files, name, open, options, read, schema, table, write};

const TARGET: &str = "/new";

/// Repairs whatever is lost by it. The tables, each with its numbers, in a database that is sound.
fn repaired(disk: &SimFs) -> (RepairReport, Vec<(String, Vec<i64>)>) {
    let accepting = RepairOptions { accept_loss: true, engine: options(disk), ..RepairOptions::default() };
    let report = repair(DIR, TARGET, &accepting).expect("a good disk");
    let engine = Engine::open(TARGET, options(disk)).expect("just repaired");
    assert!(engine.check().expect("a good disk").is_clean());
    let numbers = |name: &String| {
        let rows = engine.existing_table(name).expect("it is there").scan().rows().expect("a scan");
        rows.map(|row| row.expect("sound").get("number").expect("a number")).collect()
    };
    let tables = engine.tables().into_iter().map(|name| (name.clone(), numbers(&name))).collect();
    (report, tables)
}

fn without_manifest(disk: &SimFs) -> SimFs {
    let disk = disk.fork();
    for path in files(&disk, "manifest") {
        disk.remove(&path).expect("it is there");
    }
    disk.remove(Path::new("/db/CURRENT")).expect("it is there");
    disk
}

/// Rows 0 to 3 under the old name in a file, the next ones in the log.
fn renamed(disk: &SimFs) -> Engine {
    let engine = open(disk);
    write(&engine, 0, 3);
    engine.flush().expect("a good disk");
    let table = engine.rename_table("t", "u").expect("it is there");
    table.upsert((name(3), 3, "text")).expect("it fits");
    engine.sync().expect("a good disk");
    engine
}

#[test]
fn a_sound_one_loses_nothing() {
    let disk = SimFs::new(1);
    let _engine = renamed(&disk);
    let (report, tables) = repaired(&disk.fork());
    assert!(report.is_lossless(), "{report}");
    assert_eq!(tables, [("u".to_owned(), vec![0, 1, 2, 3])]);
}

#[test]
fn without_a_manifest_the_name_is_the_last_that_a_file_knows() {
    let disk = SimFs::new(1);
    let engine = renamed(&disk);
    let (_, tables) = repaired(&without_manifest(&disk));
    assert_eq!(tables, [("t".to_owned(), vec![0, 1, 2, 3])], "no file knows the new one");
    engine.flush().expect("a good disk");
    let (_, tables) = repaired(&without_manifest(&disk));
    assert_eq!(tables, [("u".to_owned(), vec![0, 1, 2, 3])]);
    // The newest file counts, not the one that is read last or holds most.
    engine.rename_table("u", "a").expect("it is there");
    engine.existing_table("a").and_then(|table| table.upsert((name(4), 4, "text"))).expect("it fits");
    engine.flush().expect("a good disk");
    let (_, tables) = repaired(&without_manifest(&disk));
    assert_eq!(tables, [("a".to_owned(), vec![0, 1, 2, 3, 4])]);
}

/// Without the manifest nobody knows whether the first table was renamed or dropped: its rows are not left out for
/// that.
#[test]
fn of_two_tables_that_had_one_name_neither_loses_a_row() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    write(&engine, 0, 3);
    engine.flush().expect("a good disk");
    engine.rename_table("t", "old").expect("it is there");
    engine.create_table("t (table 0)", schema()).expect("a name like any other");
    table(&engine);
    for (name_of_table, n) in [("t", 7), ("t (table 0)", 8)] {
        let table = engine.existing_table(name_of_table).expect("just made");
        table.upsert((name(n), i64::from(n), "text")).expect("it fits");
    }
    engine.flush().expect("a good disk");
    let (report, tables) = repaired(&without_manifest(&disk));
    let expected = [("t", vec![7]), ("t (table 0)", vec![8]), ("t (table 1)", vec![0, 1, 2])];
    let expected = expected.map(|(name, numbers)| (name.to_owned(), numbers));
    assert_eq!(tables, expected, "{report}");
    assert!(report.notes.iter().any(|note| note.contains("\"t (table 1)\"")), "{report}");
}

/// The edits from the change of the name on are lost. A file that was written later knows it.
#[test]
fn a_name_that_the_manifest_has_lost_is_known_from_a_later_file() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    write(&engine, 0, 3);
    engine.flush().expect("a good disk");
    let [manifest] = &files(&disk, "manifest")[..] else { panic!("one manifest") };
    let before = records(&read(&disk, manifest)).len();
    let table = engine.rename_table("t", "u").expect("it is there");
    table.upsert((name(3), 3, "text")).expect("it fits");
    // One run of what was there and what came.
    table.compact().expect("a good disk");
    drop((table, engine));
    let after = records(&read(&disk, manifest));
    disk.damage(manifest, |bytes| bytes[after[before].offset..].fill(0)).expect("it is there");
    let (report, tables) = repaired(&disk);
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::Manifest), "{report}");
    assert_eq!(tables, [("u".to_owned(), vec![0, 1, 2, 3])], "{report}");
}
