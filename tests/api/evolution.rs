//! Tables whose columns change: what rows from before read as, what old handles may still do, and what survives.

mod handles;

use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, OpSet, PowerCut};
use nyala::{Durability, Engine, ErrorKind, Schema, Table, Type, Value, column};

use crate::support::{assert_clean, lazy, on, plain, plain_table, refused, scratch, simulated, tiny};

/// All rows as they are printed.
fn printed(table: &Table) -> Vec<String> {
    table.scan().rows().expect("a scan").map(|row| row.expect("a row").to_string()).collect()
}

#[test]
fn rows_from_before_have_the_default_at_once_wherever_they_lie() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, tiny())).expect("a new database");
    let old = plain_table(&engine);
    old.upsert((1, 10, "in a rowset")).expect("a good disk");
    engine.flush().expect("a good disk");
    old.upsert((2, 20, None::<&str>)).expect("a good disk");
    let snapshot = engine.snapshot();
    let new = old
        .alter()
        .add_column("unit", Type::String, "none")
        .add_column("size", Type::U16.nullable(), 7)
        .add_column("extra", Type::F64.nullable(), None::<f64>)
        .rename_column("number", "reading")
        .apply()
        .expect("legal changes");
    let expected = [
        r#"(id: 1, reading: 10, text: "in a rowset", unit: "none", size: 7, extra: null)"#,
        r#"(id: 2, reading: 20, text: null, unit: "none", size: 7, extra: null)"#,
    ];
    assert_eq!(printed(&new), expected);
    let at: Vec<_> =
        new.scan().at(&snapshot).rows().expect("a scan").map(|row| row.expect("a row").to_string()).collect();
    assert_eq!(at, expected, "in a snapshot from before, too");
    assert_eq!(new.get((1,)).expect("readable").expect("it is there").to_string(), expected[0]);
    let both = new.multi_get([(2,), (1,)]).expect("readable");
    assert_eq!(both[0].as_ref().expect("it is there").to_string(), expected[1]);
    assert_eq!(new.scan().filter(column("unit").eq("none")).count().expect("readable"), 2);
    assert_eq!(new.scan().filter(column("extra").is_null()).count().expect("readable"), 2);
    assert_eq!(new.scan().filter(column("size").gt(7)).count().expect("readable"), 0);

    // A null that is written is a null, and no default.
    new.upsert((3, 30, None::<&str>, "volt", None::<u16>, 0.5)).expect("it fits");
    assert_eq!(printed(&new)[2], r#"(id: 3, reading: 30, text: null, unit: "volt", size: null, extra: 0.5)"#);
    // What a row builder leaves out has the default.
    let row = new.schema().row().set("id", 4).and_then(|row| row.set("reading", 40)).expect("columns");
    new.upsert(row).expect("the rest has defaults");
    assert_eq!(printed(&new)[3], r#"(id: 4, reading: 40, text: null, unit: "none", size: 7, extra: null)"#);
    // The same after a flush, a merge that moves rows, and a reopen.
    new.upsert((1, 11, None::<&str>, "a", 1, None::<f64>)).expect("it fits");
    let expected = printed(&new);
    new.compact().expect("a good disk");
    assert_eq!(printed(&new), expected);
    assert_clean(&engine);
    engine.close().expect("a good disk");
    let engine = Engine::open("/db", simulated(&disk, tiny())).expect("a good database");
    let again = engine.existing_table("t").expect("it is there");
    assert_eq!((printed(&again), again.schema()), (expected, new.schema()));
    assert_clean(&engine);
}

#[test]
fn a_dropped_column_is_gone_and_another_of_its_name_is_another() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let table = plain_table(&engine);
    table.upsert((1, 10, "secret")).expect("it fits");
    engine.flush().expect("a good disk");
    let table = table.alter().drop_column("text").apply().expect("legal");
    assert_eq!(printed(&table), ["(id: 1, number: 10)"]);
    refused(table.scan().columns(["text"]).rows(), ErrorKind::InvalidArgument, &["text"]);
    let table =
        table.alter().add_column("text", Type::String.nullable(), None::<&str>).apply().expect("legal");
    assert_eq!(printed(&table), ["(id: 1, number: 10, text: null)"], "not what the old one held");
    let both = table.alter().drop_column("text").add_column("text", Type::I64, 5).apply().expect("legal");
    assert_eq!(printed(&both), ["(id: 1, number: 10, text: 5)"]);
    let bare = both.alter().drop_column("text").drop_column("number").apply().expect("legal");
    assert_eq!(printed(&bare), ["(id: 1)"]);
    bare.upsert((2,)).expect("a key alone");
    let full = bare.alter().add_column("late", Type::Binary, [7]).apply().expect("legal");
    assert_eq!(printed(&full), [r#"(id: 1, late: b"\x07")"#, r#"(id: 2, late: b"\x07")"#]);
    assert_clean(&engine);
}

#[test]
fn what_cannot_be_altered_is_refused_and_nothing_changes() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let table = plain_table(&engine);
    table.upsert((1, 10, "text")).expect("it fits");
    let bad = ErrorKind::InvalidArgument;
    refused(table.alter().drop_column("id").apply(), bad, &["\"t\"", "\"id\"", "key"]);
    refused(table.alter().drop_column("nobody").apply(), bad, &["nobody"]);
    refused(table.alter().rename_column("nobody", "x").apply(), bad, &["nobody"]);
    refused(table.alter().rename_column("text", "id").apply(), bad, &["two columns", "id"]);
    refused(table.alter().add_column("number", Type::I64, 1).apply(), bad, &["two columns", "number"]);
    refused(table.alter().add_column("x", Type::I64, None::<i64>).apply(), bad, &["\"x\"", "null"]);
    refused(table.alter().add_column("x", Type::U8, 256).apply(), bad, &["\"x\""]);
    refused(table.alter().add_column("x", Type::U8, "1").apply(), bad, &["\"x\"", "u8 expected"]);
    refused(table.alter().add_column("x", Type::U8.descending(), 1).apply(), bad, &["descending"]);
    refused(table.alter().add_column("", Type::U8, 1).apply(), bad, &["name"]);
    // One that is wrong undoes those before it.
    refused(table.alter().add_column("x", Type::U8, 1).drop_column("id").apply(), bad, &["key"]);
    assert_eq!(printed(&table), [r#"(id: 1, number: 10, text: "text")"#]);
    assert_eq!(**table.schema(), plain());
    let same = table.alter().apply().expect("no change is fine");
    assert_eq!(same.schema(), table.schema());
    table.alter().rename_column("id", "key").apply().expect("a key column can be renamed");
}

#[test]
fn a_table_opens_with_the_schema_in_force_and_no_other() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let table = plain_table(&engine);
    let wanted = || {
        let builder = Schema::builder().key("id", Type::U32).column("number", Type::I64);
        builder.column("text", Type::String.nullable()).column("unit", Type::String).build().expect("valid")
    };
    let mismatch = ErrorKind::SchemaMismatch;
    refused(engine.open_or_create_table("t", wanted()), mismatch, &["\"t\"", "\"unit\"", "not in the table"]);
    table.alter().add_column("unit", Type::String, "none").apply().expect("legal");
    engine.open_or_create_table("t", wanted()).expect("the schema in force");
    refused(engine.open_table("t", &plain()), mismatch, &["\"unit\"", "not asked for"]);
    let table = engine.existing_table("t").expect("it is there");
    table.alter().drop_column("text").apply().expect("legal");
    refused(engine.open_table("t", &wanted()), mismatch, &["\"text\"", "any more"]);
}

#[test]
fn of_two_that_alter_a_table_the_second_is_told() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let table = plain_table(&engine);
    let new = table.alter().add_column("a", Type::I64, 1).apply().expect("legal");
    refused(
        table.alter().drop_column("number").apply(),
        ErrorKind::SchemaMismatch,
        &["\"t\"", "version 2", "open it again"],
    );
    new.alter().drop_column("number").apply().expect("the one in force");
    engine.drop_table("t").expect("it is there");
    refused(new.alter().drop_column("a").apply(), ErrorKind::NoSuchTable, &[]);
    plain_table(&engine).alter().drop_column("text").apply().expect("another table of that name");
    engine.close().expect("a good disk");
    refused(table.alter().drop_column("text").apply(), ErrorKind::Closed, &[]);
}

/// Whatever is cut off, the schema is the old one or the new one, and every row reads right under it.
#[test]
fn a_power_cut_at_any_moment_leaves_the_old_schema_or_the_new_one() {
    let disk = SimFs::new(7);
    let engine = Engine::open("/db", simulated(&disk, lazy())).expect("a new database");
    let table = plain_table(&engine);
    table.upsert((1, 10, "flushed")).expect("it fits");
    engine.flush().expect("a good disk");
    table.upsert((2, 20, "logged")).expect("it fits");
    disk.record();
    let new =
        table.alter().add_column("unit", Type::String, "none").drop_column("text").apply().expect("legal");
    let acknowledged = disk.operations();
    let mut batch = engine.batch();
    batch.upsert(&new, (3, 30, "volt")).expect("it fits");
    batch.commit(Durability::Sync).expect("a good disk");
    let (mut before, mut after) = (0, 0);
    let last = (disk.operations(), disk.fork());
    for (operation, then) in disk.take_recording().into_iter().chain([last]) {
        for policy in [PowerCut::lose_all(), PowerCut::keep_all(), PowerCut::random(operation)] {
            let cut = then.power_cut(&policy);
            let engine = Engine::open("/db", simulated(&cut, lazy())).expect("it opens");
            let table = engine.existing_table("t").expect("it is there");
            let rows = printed(&table);
            if table.schema().version() == nyala::Schema::version(&plain()) {
                assert!(operation <= acknowledged, "what was acknowledged is gone");
                before += 1;
                assert_eq!(rows[0], r#"(id: 1, number: 10, text: "flushed")"#);
                assert!(rows.len() < 3);
            } else {
                after += 1;
                assert_eq!(
                    rows[..2],
                    [r#"(id: 1, number: 10, unit: "none")"#, r#"(id: 2, number: 20, unit: "none")"#]
                );
                assert!(rows.len() == 2 || rows[2] == r#"(id: 3, number: 30, unit: "volt")"#);
            }
            assert_clean(&engine);
        }
    }
    assert!(before > 0 && after > 0, "{before} before, {after} after");
}

#[test]
fn an_alteration_that_the_disk_fails_is_there_or_not_after_the_next_open() {
    for at in 0..6 {
        let disk = SimFs::new(3);
        let engine = Engine::open("/db", simulated(&disk, lazy())).expect("a new database");
        let table = plain_table(&engine);
        table.upsert((1, 10, "x")).expect("it fits");
        disk.fail_at(disk.operations() + at, Fault::eio().on(OpSet::CHANGES).forever());
        let altered = table.alter().add_column("unit", Type::U8, 3).apply();
        disk.clear_faults();
        drop(engine);
        let table = {
            let cut = disk.fork();
            let engine = Engine::open("/db", on(Arc::new(cut), lazy())).expect("it opens");
            let table = engine.existing_table("t").expect("it is there");
            assert!(altered.is_err() || table.schema().column_index("unit").is_some());
            assert_clean(&engine);
            table
        };
        let row = table.get((1,)).expect("readable").expect("it is there");
        assert_eq!(row.get::<i64>("number").expect("a number"), 10);
        if table.schema().column_index("unit").is_some() {
            assert_eq!(row.value("unit").expect("readable"), Value::UInt(3));
        }
    }
}

/// Defaults can make a row longer than any that could be written.
#[test]
fn the_longest_row_reads_with_a_default_too() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let schema = Schema::builder().key("id", Type::U8).column("blob", Type::Binary).build().expect("valid");
    let table = engine.create_table("t", schema).expect("a new table");
    let longest = vec![7; nyala::ROW_BYTES_MAX];
    table.upsert((1, longest.as_slice())).expect("the longest row");
    let text = "x".repeat(nyala::DEFAULT_BYTES_MAX);
    let table = table.alter().add_column("text", Type::String, text.as_str()).apply().expect("legal");
    let row = table.get((1,)).expect("readable").expect("it is there");
    assert_eq!(row.get::<&[u8]>("blob").expect("a blob").len(), longest.len());
    assert_eq!(row.get::<&str>("text").expect("a text"), text);
    refused(table.update((1,)).set("text", "y").apply(), ErrorKind::InvalidArgument, &["the most is"]);
    table.update((1,)).set("blob", [1]).set("text", "y").apply().expect("short enough");
}
