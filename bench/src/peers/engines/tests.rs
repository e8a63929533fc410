//! Every engine that is built does what the benchmark asks of it.

use std::path::Path;

use crate::measure;
use crate::peers::rows::{Batch, Rows};
use crate::peers::store::{self, Columns, Durability, Engine, Scan, Setup, Start, Store, Taste};

const ROWS: u64 = 3000;

fn setup(folder: &Path, taste: Taste, durability: Durability, value_bytes: usize) -> Setup {
    let rows = Rows::new(ROWS, value_bytes, 1);
    Setup { folder: folder.to_owned(), rows, taste, memory: 4 << 20, durability, threads: 2 }
}

fn write(store: &dyn Store, rows: &Rows, numbers: impl Iterator<Item = u64>, stamp: u64) {
    let numbers: Vec<u64> = numbers.collect();
    let mut writer = store.writer().expect("a writer");
    let mut batch = Batch::new(rows);
    for part in numbers.chunks(100) {
        batch.fill(rows, part, stamp);
        writer.write(&batch).expect("a sound disk");
    }
}

/// The stamp of a row, which must have a value of its own.
fn read(store: &dyn Store, rows: &Rows, number: u64) -> u64 {
    let mut stamp = 0;
    let mut reader = store.reader().expect("a reader");
    let is_there = reader.get(&rows.key(number), &mut |value| {
        assert!(rows.is_of(number, value));
        stamp = value.stamp;
    });
    assert!(is_there.expect("a sound disk"), "row {number}");
    stamp
}

fn scan(store: &dyn Store, rows: &Rows, start: Start, columns: Columns, limit: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut reader = store.reader().expect("a reader");
    let count = reader.scan(Scan { start, columns, limit }, &mut |host, time, value| {
        let number = rows.number(host, time).expect("a row");
        assert_eq!(value.is_some(), columns == Columns::All);
        assert!(value.is_none_or(|value| rows.is_of(number, value)));
        numbers.push(number);
        Ok(())
    });
    assert_eq!(count.expect("a sound disk"), numbers.len() as u64);
    numbers
}

fn check(store: &dyn Store, rows: &Rows) {
    for number in (0..ROWS).step_by(97) {
        assert_eq!(read(store, rows, number), if number < 500 { 2 } else { 1 });
        let mut reader = store.reader().expect("a reader");
        let missing = reader.get(&rows.missing_key(number), &mut |_| panic!("a value of no row"));
        assert!(!missing.expect("a sound disk"));
    }
    let all: Vec<u64> = (0..ROWS).collect();
    assert_eq!(scan(store, rows, Start::First, Columns::All, u64::MAX), all);
    assert_eq!(scan(store, rows, Start::First, Columns::Keys, u64::MAX), all);
    let backwards: Vec<u64> = (0..ROWS).rev().collect();
    assert_eq!(scan(store, rows, Start::Last, Columns::All, u64::MAX), backwards);
    for (first, limit) in [(0, 1), (1234, 100), (ROWS - 5, 100)] {
        let start = Start::At(rows.key(first));
        let expected: Vec<u64> = (first..ROWS.min(first + limit)).collect();
        assert_eq!(scan(store, rows, start, Columns::All, limit), expected);
    }
}

#[test]
fn what_is_written_is_read_and_is_there_after_a_reopen() {
    for engine in Engine::built() {
        for taste in [Taste::Documented, Taste::Argued] {
            for (durability, value_bytes) in [(Durability::Buffered, 100), (Durability::Synced, 700)] {
                let folder = tempfile::tempdir().expect("a folder");
                let setup = setup(&folder.path().join("new"), taste, durability, value_bytes);
                let rows = &setup.rows;
                let store = store::open(engine, &setup).expect("a new database");
                write(&*store, rows, (0..ROWS).map(|place| rows.shuffled(place)), 1);
                write(&*store, rows, 0..500, 2);
                check(&*store, rows);
                store.flush().expect("a sound disk");
                store.is_idle().expect("an answer");
                check(&*store, rows);
                store.close().expect("a sound disk");
                let store = store::open(engine, &setup).expect("the database");
                check(&*store, rows);
            }
        }
    }
}

#[test]
fn a_refresh_shows_what_was_committed_since() {
    for engine in Engine::built() {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = setup(folder.path(), Taste::Documented, Durability::Buffered, 100);
        let rows = &setup.rows;
        let store = store::open(engine, &setup).expect("a new database");
        let mut reader = store.reader().expect("a reader");
        assert!(!reader.get(&rows.key(5), &mut |_| ()).expect("a sound disk"));
        write(&*store, rows, 5..6, 1);
        reader.refresh().expect("a sound disk");
        assert!(reader.get(&rows.key(5), &mut |_| ()).expect("a sound disk"));
        reader.refresh().expect("a sound disk");
        write(&*store, rows, 5..6, 2);
        let mut stamp = 0;
        reader.get(&rows.key(5), &mut |value| stamp = value.stamp).expect("a sound disk");
        assert_eq!(stamp, 2, "{}", engine.name());
    }
}

#[test]
fn the_log_is_told_from_the_rest() {
    for engine in Engine::built() {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = setup(folder.path(), Taste::Documented, Durability::Buffered, 100);
        let store = store::open(engine, &setup).expect("a new database");
        write(&*store, &setup.rows, 0..100, 1);
        let log = measure::allocated_bytes(folder.path(), &|file| store.is_log(file));
        let has_log = !matches!(engine, Engine::Redb | Engine::Lmdb);
        assert_eq!(log > 0, has_log, "{}", engine.name());
        assert!(measure::allocated_bytes(folder.path(), &|_| true) > log, "{}", engine.name());
    }
}

#[test]
fn every_setting_has_a_source() {
    for engine in Engine::built() {
        for taste in [Taste::Documented, Taste::Argued] {
            let setup = setup(Path::new("unused"), taste, Durability::Buffered, 1024);
            let settings = store::settings(engine, &setup);
            assert!(settings.len() >= 3, "{}", engine.name());
            for setting in settings {
                let source = setting.source;
                let is_here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source).exists();
                assert!(source.starts_with("http") || is_here, "{source}");
            }
        }
    }
}
