//! What stands in files is shown as it was written, also after the table changed, and damage is told with its place.

use std::ops::ControlFlow;
use std::sync::Arc;

use codec::SchemaVersion;
use encoded_key::{Type, Value};
use vfs::{Fs, SimFs};

use super::{
    IndexFile, LogPiece, ManifestPiece, RowFile, decode_key, decode_row, encode_key, read_log, read_manifest,
    tables,
};
use crate::files::{FileKind, path};
use crate::recovery::Listing;
use crate::{Durability, Engine, ErrorKind, Options, RuntimeMode, Schema};

fn options(disk: &SimFs) -> Options {
    Options { fs: Arc::new(disk.clone()), runtime: RuntimeMode::Inline { seed: 0 }, ..Options::default() }
}

fn schema() -> Schema {
    let builder = Schema::builder().key("name", Type::String).key("id", Type::I32.descending());
    builder.column("size", Type::F64.nullable()).build().expect("a schema")
}

/// The files of a kind, the oldest first.
fn files(disk: &SimFs, kind: FileKind) -> Vec<std::path::PathBuf> {
    let mut ids = Listing::read(disk, "/db".as_ref()).expect("a directory").of(kind);
    ids.sort_unstable();
    ids.into_iter().map(|id| path("/db".as_ref(), id, kind)).collect()
}

fn shown(schema: &Schema, version: SchemaVersion, key: Option<&[u8]>, row: Option<&[u8]>) -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: Value<'_>| text.push_str(&format!("{name}={value} "));
    if let Some(key) = key {
        decode_key(schema, key, &mut add).expect("a key");
    }
    if let Some(row) = row {
        decode_row(schema, version, row, &mut add).expect("a row");
    }
    text
}

#[test]
fn each_kind_of_file_shows_what_was_written() {
    let disk = SimFs::new(1);
    let options = options(&disk);
    let engine = Engine::open("/db", options.clone()).expect("a new database");
    let table = engine.create_table("things", schema()).expect("a table");
    let mut batch = engine.batch();
    batch.upsert(&table, ("ant", 7, 1.5)).expect("a row");
    batch.upsert(&table, ("bee", -1, None::<f64>)).expect("a row");
    batch.delete(&table, ("cat", 0)).expect("a key");
    batch.commit(Durability::Sync).expect("it commits");

    let mut operations = Vec::new();
    for file in files(&disk, FileKind::Log) {
        read_log(&file, &options, |piece| {
            if let LogPiece::Batch(batch) = piece {
                assert_eq!(batch.damage, None);
                for op in &batch.operations {
                    let what = shown(&schema(), op.schema_version, Some(op.key), op.row);
                    operations.push((op.version.0 - batch.first_version.0, op.table, op.row.is_none(), what));
                }
            }
            ControlFlow::Continue(())
        })
        .expect("a log");
    }
    let id = tables("/db", &options).expect("a manifest")[0].id;
    let expected = [
        (0, id, false, "name=\"ant\" id=7 size=1.5 ".to_owned()),
        (1, id, false, "name=\"bee\" id=-1 size=null ".to_owned()),
        (2, id, true, "name=\"cat\" id=0 ".to_owned()),
    ];
    assert_eq!(operations, expected);

    table.flush().expect("it flushes");
    let index = IndexFile::open(&files(&disk, FileKind::Index)[0], &options).expect("an index file");
    assert_eq!((index.table.name.as_str(), index.keys, index.entries, index.deletions), ("things", 3, 3, 1));
    let mut entries = Vec::new();
    let visited = index.entries(|entry| {
        entries.push((
            shown(&index.table.schema, SchemaVersion(1), Some(entry.key), None),
            entry.row.map(|(_, ordinal)| ordinal),
        ));
        ControlFlow::Continue(())
    });
    visited.expect("entries");
    let expected = [("ant\" id=7", Some(0)), ("bee\" id=-1", Some(1)), ("cat\" id=0", None)];
    assert_eq!(entries, expected.map(|(key, row)| (format!("name=\"{key} "), row)));

    let rows = RowFile::open(&files(&disk, FileKind::Rows)[0], &options).expect("a rowset");
    let mut found = Vec::new();
    let visited = rows.rows(|row| {
        found.push(shown(&rows.table.schema, row.schema_version, None, Some(row.row)));
        ControlFlow::Continue(())
    });
    visited.expect("rows");
    assert_eq!(found, ["size=1.5 ", "size=null "]);

    let (mut made, mut runs, mut rowsets) = (Vec::new(), 0, 0);
    for file in files(&disk, FileKind::Manifest) {
        read_manifest(&file, &options, |piece| {
            if let ManifestPiece::Edit(edit) = piece {
                made.extend(edit.tables.iter().map(|table| table.name.clone()));
                runs += edit.tablets.iter().map(|tablet| tablet.added_runs.len()).sum::<usize>();
                rowsets += edit.tablets.iter().map(|tablet| tablet.added_rowsets.len()).sum::<usize>();
            }
            ControlFlow::Continue(())
        })
        .expect("a manifest");
    }
    assert_eq!((made, runs, rowsets), (vec!["things".to_owned()], 1, 1));
    engine.close().expect("it closes");
}

#[test]
fn damage_is_told_with_its_place_and_what_lies_before_it_is_given() {
    let disk = SimFs::new(1);
    let options = options(&disk);
    let engine = Engine::open("/db", options.clone()).expect("a new database");
    let table = engine.create_table("things", schema()).expect("a table");
    for id in 0..3 {
        table.upsert(("ant", id, 0.5)).expect("a row");
    }
    engine.sync().expect("it syncs");
    let file = files(&disk, FileKind::Log).into_iter().next().expect("a log");
    let mut batches = Vec::new();
    read_log(&file, &options, |piece| {
        if let LogPiece::Batch(batch) = piece {
            batches.push(batch.offset);
        }
        ControlFlow::Continue(())
    })
    .expect("a log");
    assert_eq!(batches.len(), 3);
    let mut bytes = disk.read(&file, u64::MAX).expect("a file");
    bytes[usize::try_from(batches[1]).expect("small") + 40] ^= 1;
    let copy = SimFs::new(2);
    copy.create_dir_all("/db".as_ref()).expect("a directory");
    let handle = copy.create(&file).expect("a file");
    handle.write_all_at(&bytes, 0).expect("written");
    let mut pieces = Vec::new();
    read_log(&file, &self::options(&copy), |piece| {
        pieces.push(match piece {
            LogPiece::Batch(batch) => format!("batch {}", batch.offset),
            LogPiece::Gap(gap) => format!("gap {}", gap.offset),
        });
        ControlFlow::Continue(())
    })
    .expect("a log");
    let expected =
        [format!("batch {}", batches[0]), format!("gap {}", batches[1]), format!("batch {}", batches[2])];
    assert_eq!(pieces[..3], expected);
    engine.close().expect("it closes");
}

#[test]
fn a_log_that_grows_meanwhile_has_no_gaps() {
    let disk = SimFs::new(1);
    let options = options(&disk);
    let engine = Engine::open("/db", options.clone()).expect("a new database");
    let table = engine.create_table("things", schema()).expect("a table");
    table.upsert(("ant", 0, 0.5)).expect("a row");
    let file = files(&disk, FileKind::Log).into_iter().next().expect("a log");
    let (mut batches, mut gaps) = (0, Vec::new());
    read_log(&file, &options, |piece| {
        match piece {
            LogPiece::Batch(_) => batches += 1,
            LogPiece::Gap(gap) => gaps.push(gap),
        }
        (1..4).for_each(|id| table.upsert(("ant", id, 0.5)).expect("a row"));
        ControlFlow::Continue(())
    })
    .expect("a log");
    assert_eq!((batches, gaps), (1, Vec::new()));
}

#[test]
fn wrong_names_and_bytes_are_refused() {
    let disk = SimFs::new(1);
    let options = options(&disk);
    for name in ["/db/copy-of-17.wal", "/db/17.idx", "/db/017.wal", "/"] {
        let error = read_log(name, &options, |_| ControlFlow::Continue(())).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(
        read_log("/db/17.wal", &options, |_| ControlFlow::Continue(())).expect_err("no file").kind(),
        ErrorKind::Io
    );
    assert_eq!(IndexFile::open("/db/17.idx", &options).expect_err("no file").kind(), ErrorKind::Io);
    let schema = schema();
    let key = encode_key(&schema, ("ant", 7)).expect("a key");
    for bytes in [&key[..3], &[], &[&key[..], &[0]].concat()] {
        let error = decode_key(&schema, bytes, |_, _| ()).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(
        decode_row(&schema, SchemaVersion(2), &[], |_, _| ()).expect_err("no such version").kind(),
        ErrorKind::Corruption
    );
    assert_eq!(
        decode_row(&schema, SchemaVersion(1), &[1], |_, _| ()).expect_err("no row").kind(),
        ErrorKind::Corruption
    );
}
