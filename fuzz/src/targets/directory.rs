//! A whole directory: opened, read in every way, checked, written to, closed and opened again; or repaired.
//!
//! Input: which of the directories of [`crate::base`], a byte of flags, then changes to its files, each as in
//! [`Change::read`]. Flags: 1 the files are changed behind their checksums: records of logs are taken apart and put
//! together again, and what files and manifest say of one another is put right. Without it bytes are changed as they
//! lie. 2: the engine is also written to, flushed and compacted.
//!
//! Asked: no panic, and an end. If only bytes were changed, every answer is an error, or that of the directory before
//! the changes or of a prefix of its commits. If `check` finds nothing wrong, all ways to read agree, also after
//! a flush, a compaction and another open. What does not open, or is not clean, is repaired: what comes of that is
//! clean.

pub mod change;
mod read;

use nyala::{Engine, ErrorKind, RepairError, RepairOptions, Value};

use crate::base::{self, DIR, Files};
use crate::disk::Disk;
use crate::input::Input;
use crate::{Verdict, fix};
use change::Change;
use read::Contents;

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let mut input = Input::new(data);
    let bases = base::all();
    let number = usize::from(input.u8()) % bases.len();
    let flags = input.u8();
    let mut changes = Vec::new();
    while !input.is_empty() && changes.len() < 16 {
        changes.push(Change::read(&mut input));
    }
    let before = &bases[number].files;
    let files = if flags & 1 != 0 {
        change::behind_checksums(before, &changes)
    } else {
        change::as_they_lie(before, &changes)
    };
    let disk = base::disk(&files);
    let engine = match open(&disk) {
        Ok(engine) => engine,
        Err(error) => {
            check_refused(&files, &disk, &error);
            drop(disk);
            repair(&files);
            return Verdict::Refused;
        }
    };
    let report = engine.check();
    let contents = read::all(&engine);
    let is_clean = report.as_ref().is_ok_and(nyala::CheckReport::is_clean);
    if is_clean {
        contents.expect_agreement();
    }
    if flags & 1 == 0 {
        contents.expect_true(number);
    }
    if flags & 2 != 0 {
        write_on(&engine, is_clean, &contents);
    }
    let closed = engine.close();
    drop(engine);
    if is_clean {
        closed.expect("a clean directory closes");
        reopen(&disk, flags & 2 == 0, &contents);
    }
    if is_clean {
        return Verdict::Accepted;
    }
    drop(disk);
    repair(&files);
    Verdict::Refused
}

/// A repair makes a sound database of whatever there is, and leaves that alone.
fn repair(files: &Files) {
    const TARGET: &str = "/repaired";
    let disk = base::disk(files);
    let options =
        RepairOptions { accept_loss: true, engine: base::options(&disk), ..RepairOptions::default() };
    match nyala::repair(DIR, TARGET, &options) {
        Ok(report) => {
            assert!(report.is_written);
            let engine = Engine::open(TARGET, base::options(&disk)).expect("what was repaired opens");
            assert!(engine.check().expect("a good disk").is_clean(), "what was repaired is clean");
            read::all(&engine).expect_agreement();
        }
        Err(RepairError::Failed(error)) => assert!(
            matches!(error.kind(), ErrorKind::UnsupportedFormat | ErrorKind::InvalidArgument | ErrorKind::Io),
            "a repair failed for a reason that is none: {error}"
        ),
        Err(error) => panic!("the loss was accepted: {error}"),
    }
    let after = base::files(&disk);
    for (name, bytes) in files {
        assert_eq!(after.get(name), Some(bytes), "a repair changed {name}");
    }
}

fn open(disk: &Disk) -> Result<Engine, nyala::Error> {
    Engine::open(DIR, base::options(disk))
}

/// A directory that is refused is as before, but for files that nothing names.
fn check_refused(before: &Files, disk: &Disk, error: &nyala::Error) {
    assert!(
        matches!(error.kind(), ErrorKind::Corruption | ErrorKind::UnsupportedFormat | ErrorKind::Io),
        "refused for a reason that is none: {error}"
    );
    let after = base::files(disk);
    for (name, bytes) in before {
        assert_eq!(after.get(name), Some(bytes), "a refused open changed {name}: {error}");
    }
}

/// New rows, a flush, a compaction: nothing that was there changes.
fn write_on(engine: &Engine, is_clean: bool, before: &Contents) {
    for name in engine.tables() {
        let Ok(table) = engine.existing_table(&name) else { continue };
        let row: Vec<Value<'_>> = table.schema().columns().iter().map(read::some_value).collect();
        let key = &row[..table.schema().key_columns()];
        let is_there = table.exists(key);
        if matches!(is_there, Ok(true)) {
            continue;
        }
        let written = table.upsert(&row[..]);
        let flushed = table.flush();
        let compacted = table.compact();
        if is_clean {
            written.expect("a clean table is written to");
            flushed.expect("a clean table is flushed");
            compacted.expect("a clean table is compacted");
            assert!(table.exists(key).expect("a clean table"), "a row that was written is there");
            table.delete(key).expect("a clean table is written to");
        }
    }
    if is_clean {
        let report = engine.check().expect("a good disk");
        assert!(report.is_clean(), "what was clean is not after a compaction: {:?}", report.problems);
        let after = read::all(engine);
        after.expect_agreement();
        before.expect_within(&after);
    }
}

fn reopen(disk: &Disk, is_as_before: bool, before: &Contents) {
    let engine = open(disk).expect("what was clean and closed opens again");
    let report = engine.check().expect("a good disk");
    assert!(report.is_clean(), "what was clean is not after another open: {:?}", report.problems);
    let after = read::all(&engine);
    after.expect_agreement();
    before.expect_within(&after);
    if is_as_before {
        after.expect_within(before);
    }
    engine.close().expect("a good disk");
}

/// What `fix` calls the kinds of log.
fn flavor(name: &str) -> Option<(fix::log::Flavor, u64)> {
    let (number, extension) = name.split_once('.')?;
    let flavor = match extension {
        "wal" => fix::log::Flavor::Wal,
        "manifest" => fix::log::Flavor::Manifest,
        _ => return None,
    };
    Some((flavor, number.parse().ok()?))
}
