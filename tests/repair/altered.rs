//! Repairs of a table whose columns were changed: rows of each schema version are read by the newest schema that is
//! known.

use std::path::Path;

use nyala::vfs::{Fs, SimFs};
use nyala::{Engine, ErrorKind, LossKind, RepairError, RepairOptions, RepairReport, Type, repair};

use crate::forge::records;
use crate::support::{DIR, files, name, open, options, read, table, write};

const TARGET: &str = "/new";

/// Rows of two versions in files and, of the newer one, in the log.
fn altered() -> SimFs {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    write(&engine, 0, 3);
    engine.flush().expect("a good disk");
    let new = table(&engine).alter().add_column("unit", Type::String, "none").drop_column("text").apply();
    let new = new.expect("legal");
    new.upsert((name(3), 3, "metre")).expect("it fits");
    engine.flush().expect("a good disk");
    new.upsert((name(4), 4, "foot")).expect("it fits");
    engine.sync().expect("a good disk");
    disk.fork()
}

fn all_rows() -> Vec<String> {
    let row = |n: u32, unit: &str| format!(r#"(name: "{}", number: {n}, unit: "{unit}")"#, name(n));
    vec![row(0, "none"), row(1, "none"), row(2, "none"), row(3, "metre"), row(4, "foot")]
}

/// Repairs whatever is lost by it. The rows as they are printed, in a database that is sound.
fn repaired(disk: &SimFs) -> (RepairReport, Vec<String>) {
    let accepting = RepairOptions { accept_loss: true, engine: options(disk), ..RepairOptions::default() };
    let report = repair(DIR, TARGET, &accepting).expect("a good disk");
    let engine = Engine::open(TARGET, options(disk)).expect("just repaired");
    assert!(engine.check().expect("a good disk").is_clean());
    let rows = engine.existing_table("t").expect("it is there").scan().rows().expect("a scan");
    (report, rows.map(|row| row.expect("sound").to_string()).collect())
}

#[test]
fn a_sound_one_loses_nothing() {
    let (report, rows) = repaired(&altered());
    assert!(report.is_lossless(), "{report}");
    assert_eq!(rows, all_rows());
}

#[test]
fn without_a_manifest_the_newest_schema_that_a_file_tells_counts() {
    let disk = altered();
    for path in files(&disk, "manifest") {
        disk.remove(&path).expect("it is there");
    }
    disk.remove(Path::new("/db/CURRENT")).expect("it is there");
    let (report, rows) = repaired(&disk);
    assert!(
        !report.losses.iter().any(|loss| matches!(loss.kind, LossKind::Rows | LossKind::Log)),
        "{report}"
    );
    assert_eq!(rows, all_rows());
}

/// The edit that altered the table is lost, although the disk had confirmed its sync.
#[test]
fn a_schema_that_the_manifest_has_lost_is_noticed_by_the_rows_in_the_log() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    write(&engine, 0, 3);
    engine.flush().expect("a good disk");
    let new = table(&engine).alter().add_column("unit", Type::String, "none").apply().expect("legal");
    new.upsert((name(3), 3, "text of 3", "metre")).expect("it fits");
    engine.sync().expect("a good disk");
    let disk = disk.fork();
    let [manifest] = &files(&disk, "manifest")[..] else { panic!("one manifest") };
    let last = *records(&read(&disk, manifest)).last().expect("it has edits");
    disk.damage(manifest, |bytes| bytes[last.offset..].fill(0)).expect("it is there");

    let error = Engine::open(DIR, options(&disk.fork())).expect_err("the log tells");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("schema version 2"), "{error}");
    let careful = RepairOptions { engine: options(&disk), ..RepairOptions::default() };
    let Err(RepairError::WouldLose(report)) = repair(DIR, TARGET, &careful) else {
        panic!("nobody knows the columns of a row")
    };
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::Manifest), "{report}");
    assert!(report.losses.iter().any(|loss| loss.kind == LossKind::Log), "{report}");
    let (_, rows) = repaired(&disk);
    let row = |n: u32| format!(r#"(name: "{}", number: {n}, text: "text of {n}")"#, name(n));
    assert_eq!(rows, [row(0), row(1), row(2)], "the columns that are known, and the rows that have them");
}
