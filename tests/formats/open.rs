//! Every fixture opens, in every way, and holds what it should.

use std::ops::ControlFlow;
use std::path::Path;

use nyala::inspect::{self, IndexFile, LogPiece, ManifestPiece, RowFile};
use nyala::{Engine, Options, RuntimeMode};

use crate::expected::Contents;
use crate::fixtures::{Fixture, files_of};

fn options() -> Options {
    Options {
        runtime: RuntimeMode::Inline { seed: 2 },
        background_sync_interval: None,
        memory_bytes: 8 << 20,
        log_segment_bytes: 64 << 10,
        log_bytes_max: 4 << 20,
        create_if_missing: false,
        ..Options::default()
    }
}

fn holds(engine: &Engine, fixture: &Fixture, when: &str) {
    let (read, expected) = (Contents::read(engine).lines(), &fixture.lines);
    if let Some((read, expected)) = read.iter().zip(expected).find(|(read, expected)| read != expected) {
        panic!("{}, {when}:\nexpected {expected}\nread     {read}", fixture.name);
    }
    assert_eq!(read.len(), expected.len(), "{}, {when}: lines", fixture.name);
}

fn is_healthy(engine: &Engine, fixture: &Fixture, when: &str) {
    let report = engine.check().expect("a good disk");
    assert!(report.is_clean(), "{}, {when}: {report}", fixture.name);
}

#[test]
fn every_fixture_opens_for_reading_only_and_no_byte_changes() {
    for fixture in Fixture::all() {
        let dir = fixture.unpack();
        let engine = Engine::open_read_only(dir.path(), options())
            .unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        holds(&engine, &fixture, "opened for reading only");
        is_healthy(&engine, &fixture, "opened for reading only");
        engine.close().expect("nothing to write");
        assert!(files_of(dir.path()) == fixture.files, "{}: a file was changed", fixture.name);
    }
}

#[test]
fn every_fixture_opens_and_takes_writes_and_compactions() {
    for fixture in Fixture::all() {
        let dir = fixture.unpack();
        let open = || {
            Engine::open(dir.path(), options()).unwrap_or_else(|error| panic!("{}: {error}", fixture.name))
        };
        let engine = open();
        assert_eq!(engine.recovery_report().torn.is_some(), fixture.name == "torn", "{}", fixture.name);
        holds(&engine, &fixture, "opened");
        is_healthy(&engine, &fixture, "opened");
        for name in engine.tables() {
            write_over(&engine, &name);
        }
        holds(&engine, &fixture, "written to");
        engine.close().expect("a good disk");

        let engine = open();
        holds(&engine, &fixture, "opened again");
        for name in engine.tables() {
            engine.existing_table(&name).and_then(|table| table.compact()).expect("a good disk");
        }
        holds(&engine, &fixture, "compacted");
        is_healthy(&engine, &fixture, "compacted");
        engine.close().expect("a good disk");

        let engine = open();
        holds(&engine, &fixture, "opened after a compaction");
        is_healthy(&engine, &fixture, "opened after a compaction");
    }
}

/// Writes rows anew as they are, so that all is as before, in other places.
fn write_over(engine: &Engine, name: &str) {
    let table = engine.existing_table(name).expect("a table of the list");
    let rows: Vec<_> =
        table.scan().rows().expect("a healthy table").map(|row| row.expect("healthy")).collect();
    for row in rows.iter().step_by(3) {
        let values = row.to_values().expect("healthy");
        table.delete(values[..table.schema().key_columns()].to_vec()).expect("a good disk");
        assert_eq!(table.count().expect("healthy"), rows.len() as u64 - 1);
        table.insert(values).expect("its key was deleted");
    }
    let Some(row) = rows.first() else { return };
    let key = row.to_values().expect("healthy")[..table.schema().key_columns()].to_vec();
    assert!(table.exists(key).expect("healthy"), "{name}");
}

#[test]
fn every_file_of_every_fixture_can_be_looked_into() {
    for fixture in Fixture::all() {
        let dir = fixture.unpack();
        let tables = inspect::tables(dir.path(), &options()).expect("healthy");
        let is_named = |line: &&String| line.contains("\"columns\"");
        assert_eq!(tables.len(), fixture.lines.iter().filter(is_named).count(), "{}", fixture.name);
        for name in fixture.files.keys() {
            look_into(&fixture, &dir.path().join(name));
        }
    }
}

fn look_into(fixture: &Fixture, path: &Path) {
    let (options, place) = (options(), format!("{}: {}", fixture.name, path.display()));
    let healthy = |result: nyala::Result<()>| result.unwrap_or_else(|error| panic!("{place}: {error}"));
    let mut seen = 0;
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("idx") => {
            let file = IndexFile::open(path, &options).expect("healthy");
            healthy(file.entries(|_| {
                seen += 1;
                ControlFlow::Continue(())
            }));
            assert_eq!(seen, file.entries, "{place}");
            let name = serde_json::to_string(&file.table.name).expect("a string");
            assert!(fixture.lines.iter().any(|line| line.contains(&name)), "{place}: {name}");
        }
        Some("row") => {
            let file = RowFile::open(path, &options).expect("healthy");
            healthy(file.rows(|_| {
                seen += 1;
                ControlFlow::Continue(())
            }));
            assert_eq!(seen, u64::from(file.rows), "{place}");
        }
        Some("wal") => healthy(inspect::read_log(path, &options, |piece| {
            let is_end = matches!(&piece, LogPiece::Gap(gap) if gap.is_tail && fixture.name == "torn");
            assert!(is_end || matches!(piece, LogPiece::Batch(_)), "{place}: {piece:?}");
            ControlFlow::Continue(())
        })),
        Some("manifest") => healthy(inspect::read_manifest(path, &options, |piece| {
            assert!(matches!(piece, ManifestPiece::Edit(_)), "{place}: {piece:?}");
            ControlFlow::Continue(())
        })),
        _ => assert!(path.ends_with("CURRENT") || path.ends_with("LOCK"), "{place}"),
    }
}
