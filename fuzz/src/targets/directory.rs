//! A whole directory: opened, read in every way, checked, written to, closed and opened again.
//!
//! Input: which of the directories of [`crate::base`], a byte of flags, then changes to its files, each as in
//! [`Change::read`]. Flags: 1 the files are changed behind their checksums: records of logs are taken apart and put
//! together again, and what files and manifest say of one another is put right. Without it bytes are changed as they
//! lie. 2: the engine is also written to, flushed and compacted.
//!
//! Asked: no panic, and an end. If only bytes were changed, every answer is an error, or that of the directory before
//! the changes or of a prefix of its commits. If `check` finds nothing wrong, all ways to read agree, also after
//! a flush, a compaction and another open.

pub mod change;
mod read;

use nyala::{Engine, ErrorKind, Value};

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
    if is_clean { Verdict::Accepted } else { Verdict::Refused }
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
