//! Damaged files and wrong entries: an error that names the place, never a wrong row, never a short scan.

use codec::{Location, RowId, RowsetId, SchemaVersion, Version};
use encoded_key::Type;
use pkindex::{Entry, RunWriter};
use vfs::sim::{Fault, OpSet};

use super::model::kind;
use super::world::{Values, World, printed, scanned};
use crate::read::{Scan, column};
use crate::rowset::RowsetWriter;
use crate::schema::Schema;
use crate::{Error, ErrorKind};

fn world() -> World {
    let schema = Schema::builder().key("id", Type::U32).column("text", Type::String).build();
    World::new(schema.expect("a valid schema"))
}

fn on_disk(rows: u32) -> World {
    let mut world = world();
    for id in 0..rows {
        world.put((id, format!("the text of row {id}")));
    }
    world.flush();
    world
}

/// A rowset with a row for each key, as version 1 and with `schema`, and a run with these entries.
fn forged(schema: SchemaVersion, entries: impl Fn(u32, RowsetId) -> Entry) -> (World, RowsetId) {
    let mut world = world();
    let output = std::sync::Arc::clone(&world.files);
    let mut rows = RowsetWriter::new(&*output, world.rowset_options.clone());
    let options = world.run_options.clone();
    let mut run = RunWriter::new(&*output, &options);
    let mut rowset = RowsetId(0);
    for id in 0..10u32 {
        let key = world.key((id,));
        rowset = rows.push(&key, Version(1), schema, b"row").expect("no fault").rowset;
        run.add(&key, None, &[entries(id, rowset)]).expect("no fault");
    }
    let (rows, run) = (rows.finish().expect("no fault"), run.finish().expect("no fault"));
    world.install(rows, &run);
    world.registry.publish(Version(9));
    (world, rowset)
}

fn at(rowset: RowsetId, rowid: u32) -> Location {
    Location { rowset, rowid: RowId(rowid) }
}

/// Flips a bit at that part of a file.
fn flip(bytes: &mut [u8], part: usize) {
    let at = bytes.len() / part;
    bytes[at] ^= 0x40;
}

/// What a scan gives before its error, and the error, after which it must have ended. A cursor must tell it again.
fn until_error(scan: Scan) -> (Vec<Values>, Error) {
    let mut rows = scan.clone().rows().expect("the damage is met later");
    let mut good = Vec::new();
    let error = loop {
        match rows.next().expect("a damaged scan does not end") {
            Ok(row) => good.push(printed(&row.to_values().expect("no damage"))),
            Err(error) => break error,
        }
    };
    for _ in 0..3 {
        assert!(rows.next().is_none(), "it is told once");
    }
    let mut cursor = scan.clone().cursor().expect("the damage is met later");
    for _ in &good {
        assert!(cursor.next().expect("no error before its place").is_some());
    }
    for _ in 0..3 {
        assert_eq!(cursor.next().err().map(|again| again.to_string()), Some(error.to_string()));
    }
    // What goes on after errors ends all the same.
    assert_eq!(scan.clone().rows().expect("as before").flatten().count(), good.len());
    assert_eq!(scan.clone().batches().expect("as before").filter(Result::is_err).count(), 1);
    let last = scan.limit(1_000_000).last().expect_err("what comes last is not known");
    assert_eq!(last.to_string(), error.to_string());
    (good, error)
}

#[test]
fn a_row_of_another_version_than_the_entrys_is_corruption() {
    let version = |id| Version(if id == 5 { 2 } else { 1 });
    let (world, rowset) = forged(SchemaVersion(1), |id, rowset| Entry::put(version(id), at(rowset, id)));
    let error = world.get(&world.key((5u32,)), Version(9)).expect_err("not its row");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let text = error.to_string();
    assert!(
        text.contains(&format!("row 5 of rowset {rowset}")) && text.contains("version 2 expected, 1 found"),
        "{text}"
    );
    assert!(world.get(&world.key((4u32,)), Version(9)).expect("this one is right").is_some());
    for (scan, before) in [(world.scan(), 5), (world.scan().reverse(), 4)] {
        let (good, error) = until_error(scan);
        assert_eq!(good.len(), before);
        assert_eq!(error.to_string(), text);
    }
    // Who needs no row does not meet it.
    assert_eq!(world.scan().count().expect("no row is read"), 10);
}

#[test]
fn entries_that_lead_nowhere_are_corruption() {
    let nowhere: [fn(u32, RowsetId) -> Entry; 3] = [
        |id, rowset| Entry::put(Version(1), at(rowset, id + 1)),
        |id, _| Entry::put(Version(1), at(RowsetId(4711), id)),
        |id, rowset| Entry::put(Version(1), at(rowset, 9 - id)),
    ];
    for entries in nowhere {
        let (world, _) = forged(SchemaVersion(1), entries);
        for scan in [
            world.scan(),
            world.scan().reverse(),
            world.scan().filter(column("text").ne("x")).columns(["id"]),
        ] {
            let (_, error) = until_error(scan);
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("of rowset"), "{error}");
        }
    }
}

#[test]
fn a_row_of_an_unknown_schema_is_corruption() {
    let (world, _) = forged(SchemaVersion(7), |id, rowset| Entry::put(Version(1), at(rowset, id)));
    assert_eq!(until_error(world.scan()).1.kind(), ErrorKind::Corruption);
    assert_eq!(until_error(world.scan().filter(column("text").eq("row"))).1.kind(), ErrorKind::Corruption);
    assert_eq!(kind(world.get(&world.key((1u32,)), Version(9))), ErrorKind::Corruption);
}

#[test]
fn a_damaged_row_block_stops_a_scan_and_no_more() {
    let expected = scanned(on_disk(200).scan()).expect("no damage");
    let world = on_disk(200);
    let path = world.row_paths[world.row_paths.len() / 2].clone();
    // The middle of a file is neither its header nor its footer.
    world.disk.damage(&path, |bytes| flip(bytes, 3)).expect("the file is there");
    for reverse in [false, true] {
        let scan = world.scan();
        let (good, error) = until_error(if reverse { scan.reverse() } else { scan });
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let mut expected = expected.clone();
        if reverse {
            expected.reverse();
        }
        assert!(good.len() < 200 && good == expected[..good.len()], "what comes before is right");
    }
    let (mut right, mut failed) = (0, 0);
    for (id, expected) in (0..200u32).zip(&expected) {
        match world.get(&world.key((id,)), world.version()) {
            Ok(row) => {
                assert_eq!(row.as_ref(), Some(expected));
                right += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                failed += 1;
            }
        }
    }
    assert!(failed > 0 && right > 150, "{failed} rows are in the block, {right} are not");
    assert_eq!(world.scan().count().expect("no row is read"), 200);
}

#[test]
fn a_damaged_index_block_is_an_error_and_never_an_absence() {
    let files = on_disk(200).index_paths;
    for (damaged, path) in files.iter().enumerate() {
        let world = on_disk(200);
        world.disk.damage(path, |bytes| flip(bytes, 4)).expect("the file is there");
        for scan in [world.scan(), world.scan().reverse(), world.scan().columns(["id"])] {
            let error = match scan.rows() {
                Err(error) => error,
                Ok(mut rows) => rows.find_map(Result::err).expect("no short scan"),
            };
            assert_eq!(error.kind(), ErrorKind::Corruption, "file {damaged}: {error}");
        }
        assert_eq!(kind(world.scan().count()), ErrorKind::Corruption);
        for id in 0..200u32 {
            match world.get(&world.key((id,)), world.version()) {
                Ok(row) => assert!(row.is_some(), "row {id} is there"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
            }
        }
    }
}

#[test]
fn a_scan_that_the_disk_failed_has_ended() {
    let world = on_disk(500);
    let mut rows = world.scan().rows().expect("no fault yet");
    assert!(rows.next().is_some_and(|row| row.is_ok()));
    world.disk.fail_at(world.disk.operations(), Fault::eio().on(OpSet::READS).forever());
    let error = rows.find_map(Result::err).expect("the disk fails");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    world.disk.clear_faults();
    assert!(rows.next().is_none(), "it has ended");
    assert_eq!(scanned(world.scan()).expect("a new scan works").len(), 500);
}
