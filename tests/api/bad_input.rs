//! Bad input: a typed error that names the place; nothing lost; no panic; the next valid call works.

use std::path::Path;
use std::sync::Arc;

use nyala::{Durability, Engine, ErrorKind, Options, Schema, Table, Type, Value, column};

use crate::gate::ReadOnlyFs;
use crate::support::{contents, lazy, plain, plain_table, refused, rows, scratch, tiny};

const BAD: ErrorKind = ErrorKind::InvalidArgument;

fn open(dir: &Path) -> Engine {
    Engine::open(dir, lazy()).expect("it opens")
}

/// The next valid call works, and what was there is there.
fn still_works(table: &Table) {
    table.upsert((7, 70, "seven")).expect("a good row");
    assert_eq!(rows(table), [(7, 70)]);
}

#[test]
fn values_that_do_not_fit_are_refused_by_the_name_of_their_column() {
    let dir = scratch();
    let engine = open(dir.path());
    let table = plain_table(&engine);
    still_works(&table);
    refused(table.upsert(("x", 1, "a")), BAD, &["id"]);
    refused(table.upsert((-1, 1, "a")), BAD, &["id"]);
    refused(table.upsert((u64::MAX, 1, "a")), BAD, &["id"]);
    refused(table.upsert((1, "x", "a")), BAD, &["number"]);
    refused(table.upsert((1, u64::MAX, "a")), BAD, &["number"]);
    refused(table.upsert((1, 1.5, "a")), BAD, &["number"]);
    refused(table.upsert((1, 1, 1)), BAD, &["text"]);
    refused(table.upsert((1, 1, &[0xffu8][..])), BAD, &["text"]);
    refused(table.upsert((None::<u32>, 1, "a")), BAD, &["id", "null"]);
    refused(table.upsert((1, None::<i64>, "a")), BAD, &["number"]);
    refused(table.insert((1, None::<i64>, "a")), BAD, &["number"]);
    refused(table.insert_ignore((1, None::<i64>, "a")), BAD, &["number"]);
    refused(table.upsert((1, 1)), BAD, &["text"]);
    refused(table.upsert((1,)), BAD, &["number"]);
    refused(table.upsert((1, 1, "a", 1)), BAD, &["4 values"]);
    refused(table.upsert(Vec::<Value<'_>>::new()), BAD, &["0 values"]);
    refused(table.update((7,)).set("nobody", 1).apply(), BAD, &["nobody"]);
    refused(table.update((7,)).set("id", 8).apply(), BAD, &["id"]);
    refused(table.update((7,)).set("number", "x").apply(), BAD, &["number"]);
    refused(table.update((7,)).set("number", None::<i64>).apply(), BAD, &["number"]);
    refused(table.update(("x",)).set("number", 1).apply(), BAD, &["id"]);
    refused(table.delete((1, 2)), BAD, &["2 values"]);
    refused(table.delete(("x",)), BAD, &["id"]);
    refused(table.get(()), BAD, &["id"]);
    refused(table.get(("x",)), BAD, &["id"]);
    refused(table.exists((-1,)), BAD, &["id"]);
    refused(table.multi_get([(1,), (-1,)]), BAD, &["id"]);
    refused(table.schema().row().set("nobody", 1), BAD, &["nobody"]);
    refused(table.schema().key().set("number", 1), BAD, &["number"]);
    refused(table.upsert(table.schema().row().set("id", 1).expect("a column")), BAD, &["number"]);
    refused(table.scan().columns(["nobody"]).rows(), BAD, &["nobody"]);
    refused(table.scan().filter(column("nobody").eq(1)).rows(), BAD, &["nobody"]);
    refused(table.scan().filter(column("number").eq("x")).rows(), BAD, &["number"]);
    refused(table.scan().prefix((1, 1)).rows(), BAD, &[]);
    refused(table.scan().prefix(("x",)).rows(), BAD, &["id"]);
    refused(table.scan().range((-1,)..(5,)).rows(), BAD, &["id"]);
    refused(table.scan().partitions(0), BAD, &["0"]);
    refused(table.scan().starts_with((), "a").rows(), BAD, &["id"]);
    refused(table.scan().limit(1).partitions(2), BAD, &["limit"]);
    still_works(&table);
    drop((table, engine));
    still_works(&plain_table(&open(dir.path())));
}

// docs/testing.md, fault 41
#[test]
fn keys_and_rows_at_the_limit_are_taken_and_above_it_refused() {
    let dir = scratch();
    let engine = open(dir.path());
    let schema =
        Schema::builder().key("name", Type::Binary).column("body", Type::Binary).build().expect("good");
    let table = engine.create_table("t", schema.clone()).expect("a table");
    let long = vec![0xffu8; 65_536];
    table.upsert((&long[..65_535], "".as_bytes())).expect("the longest key");
    refused(table.upsert((&long[..], &b""[..])), BAD, &["name", "65536"]);
    refused(table.get((&long[..],)), BAD, &["name"]);
    refused(table.delete((&long[..],)), BAD, &["name"]);
    let mut batch = engine.batch();
    refused(batch.upsert(&table, (&long[..], &b""[..])), BAD, &["name"]);
    assert!(batch.is_empty() && batch.bytes() == 0);

    // A key of several columns: what counts is its encoding, where a 00 takes two bytes.
    let table_2 = engine.create_table("u", table_2_schema()).expect("a table");
    table_2.upsert((&vec![1u8; 65_532][..], 1)).expect("with its end and the number it fits");
    refused(table_2.upsert((&vec![1u8; 65_533][..], 1)), BAD, &["65536"]);
    refused(table_2.upsert((&vec![0u8; 40_000][..], 1)), BAD, &["name"]);

    let body = vec![7u8; (64 << 20) + 1];
    refused(table.upsert((&b"k"[..], &body[..])), BAD, &["67108865"]);
    table.upsert((&b"k"[..], &body[1..])).expect("the largest row");
    let check = |table: &Table| {
        assert_eq!(table.count().expect("rows"), 2);
        let row = table.get((&b"k"[..],)).expect("a row").expect("it is there");
        assert!(row.get::<&[u8]>("body").expect("bytes") == &body[1..]);
        assert!(table.get((&long[..65_535],)).expect("a row").is_some());
    };
    check(&table);
    table.flush().expect("a block holds a row, however large");
    check(&table);
    drop((table, table_2, batch, engine));
    let engine = open(dir.path());
    check(&engine.open_table("t", &schema).expect("it was made"));
    assert_eq!(engine.open_table("u", &table_2_schema()).expect("it was made").count().expect("rows"), 1);
}

fn table_2_schema() -> Schema {
    Schema::builder().key("name", Type::Binary).key("id", Type::U8).build().expect("good")
}

// docs/testing.md, fault 41
#[test]
fn bad_names_and_schemas_are_refused_and_the_engine_goes_on() {
    let dir = scratch();
    let engine = open(dir.path());
    for name in ["", "a/b", "a\\b", "a\0b", "tab\t", &"x".repeat(300)] {
        refused(engine.create_table(name, plain()), BAD, &["name"]);
        refused(engine.open_or_create_table(name, plain()), BAD, &["name"]);
    }
    refused(engine.open_table("nobody", &plain()), ErrorKind::NoSuchTable, &["nobody"]);
    refused(engine.existing_table("nobody"), ErrorKind::NoSuchTable, &["nobody"]);
    refused(engine.drop_table("nobody"), ErrorKind::NoSuchTable, &["nobody"]);
    let table = engine.create_table("Flüge 2013 🛫", plain()).expect("any text will do");
    refused(engine.create_table("Flüge 2013 🛫", plain()), ErrorKind::TableExists, &["Flüge"]);
    still_works(&table);

    refused(Schema::builder().column("a", Type::U8).build(), BAD, &["key"]);
    refused(Schema::builder().build(), BAD, &["key"]);
    refused(Schema::builder().key("a", Type::U8).column("a", Type::U8).build(), BAD, &["\"a\""]);
    refused(Schema::builder().key("a", Type::U8.nullable()).build(), BAD, &["\"a\""]);
    refused(Schema::builder().key("", Type::U8).build(), BAD, &["name"]);
    refused(Schema::builder().key("a", Type::U8).column("b", Type::U8.descending()).build(), BAD, &["\"b\""]);
    refused(Schema::builder().key("a", Type::Decimal { precision: 39, scale: 0 }).build(), BAD, &["\"a\""]);
    refused(Schema::builder().key("a", Type::Decimal { precision: 3, scale: 4 }).build(), BAD, &["\"a\""]);
    let wide = |columns: usize| {
        (1..columns).fold(Schema::builder().key("k", Type::U8), |schema, n| {
            schema.column(format!("c{n}"), Type::U8.nullable())
        })
    };
    refused(wide(1001).build(), BAD, &["1001"]);
    let schema = wide(1000).build().expect("the most columns");
    let widest = engine.create_table("wide", schema.clone()).expect("a table");
    widest
        .upsert(schema.row().set("k", 1).expect("a column").set("c999", 9).expect("a column"))
        .expect("a row");
    widest.flush().expect("it is flushed");
    let row = widest.get((1,)).expect("a row").expect("it is there");
    assert_eq!((row.get::<u8>("c999").expect("set"), row.get::<Option<u8>>("c1").expect("null")), (9, None));
}

// docs/testing.md, fault 45
#[test]
fn another_schema_is_a_mismatch_and_touches_nothing() {
    let dir = scratch();
    let engine = open(dir.path());
    let table = plain_table(&engine);
    still_works(&table);
    let others = [
        Schema::builder()
            .key("id", Type::U64)
            .column("number", Type::I64)
            .column("text", Type::String.nullable()),
        Schema::builder()
            .key("id", Type::U32)
            .column("number", Type::U64)
            .column("text", Type::String.nullable()),
        Schema::builder().key("id", Type::U32).column("number", Type::I64).column("text", Type::String),
        Schema::builder().key("id", Type::U32).column("number", Type::I64),
        Schema::builder()
            .key("id", Type::U32.descending())
            .column("number", Type::I64)
            .column("text", Type::String.nullable()),
        Schema::builder()
            .key("id", Type::U32)
            .key("number", Type::I64)
            .column("text", Type::String.nullable()),
        Schema::builder()
            .key("id", Type::U32)
            .column("text", Type::String.nullable())
            .column("number", Type::I64),
        Schema::builder()
            .key("id", Type::U32)
            .column("other", Type::I64)
            .column("text", Type::String.nullable()),
    ];
    let before = contents(dir.path());
    for other in others {
        let other = other.build().expect("a good schema");
        refused(engine.open_table("t", &other), ErrorKind::SchemaMismatch, &["\"t\"", "column"]);
        refused(engine.open_or_create_table("t", other), ErrorKind::SchemaMismatch, &["\"t\""]);
    }
    assert!(contents(dir.path()) == before, "something was written");
    still_works(&table);
}

// docs/testing.md, fault 61
#[test]
fn a_second_open_in_the_process_is_locked_out() {
    let dir = scratch();
    let engine = open(dir.path());
    still_works(&plain_table(&engine));
    let before = contents(dir.path());
    refused(Engine::open(dir.path(), lazy()), ErrorKind::Locked, &[&dir.path().display().to_string()]);
    let detour = dir.path().join("..").join(dir.path().file_name().expect("a name"));
    refused(Engine::open(detour, lazy()), ErrorKind::Locked, &[]);
    assert!(contents(dir.path()) == before);
    still_works(&plain_table(&engine));
    engine.close().expect("a clean end");
    still_works(&plain_table(&open(dir.path())));
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let dir = scratch();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").expect("it can be written");
    refused(Engine::open(&file, lazy()), ErrorKind::Io, &[&file.display().to_string()]);
    refused(Engine::open(file.join("below"), lazy()), ErrorKind::Io, &[]);
    assert_eq!(std::fs::read(&file).expect("untouched"), b"not a directory");
    let existing = Options { create_if_missing: false, ..lazy() };
    let missing = dir.path().join("missing");
    refused(Engine::open(&missing, existing.clone()), ErrorKind::InvalidArgument, &["missing"]);
    assert!(!missing.exists(), "nothing is made");
    let empty = scratch();
    refused(Engine::open(empty.path(), existing.clone()), BAD, &[&empty.path().display().to_string()]);
    // Deep paths are made.
    let deep = dir.path().join("a/b/c");
    open(&deep).close().expect("a clean end");
    Engine::open(&deep, existing).expect("there is one");
    let bad = Options { memory_bytes: 1, background_threads: 0, ..lazy() };
    refused(Engine::open(dir.path().join("x"), bad), BAD, &["memory_bytes", "background_threads"]);
    assert!(!dir.path().join("x").exists(), "options are checked before anything is made");
}

#[test]
fn a_read_only_directory_is_read_only_and_unharmed() {
    let dir = scratch();
    let engine = open(dir.path());
    still_works(&plain_table(&engine));
    engine.close().expect("a clean end");
    let before = contents(dir.path());
    let read_only = Options { fs: Arc::new(ReadOnlyFs), ..lazy() };
    refused(
        Engine::open(dir.path(), read_only.clone()),
        ErrorKind::ReadOnly,
        &[&dir.path().display().to_string()],
    );
    let fresh = scratch();
    refused(Engine::open(fresh.path(), read_only), ErrorKind::ReadOnly, &[]);
    assert!(contents(dir.path()) == before && contents(fresh.path()).is_empty());
    still_works(&plain_table(&open(dir.path())));
}

#[test]
fn after_a_close_everything_answers_closed() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    for id in 0..3000 {
        table.upsert((id, 1, "a")).expect("a row");
    }
    let snapshot = engine.snapshot();
    let mut started = table.scan().rows().expect("a scan");
    started.next().expect("a row").expect("a row");
    let mut batch = engine.batch();
    batch.upsert(&table, (1, 1, "a")).expect("encoded");
    engine.close().expect("a clean end");
    engine.close().expect("again is fine");
    let closed = ErrorKind::Closed;
    refused(table.upsert((1, 1, "a")), closed, &[]);
    refused(table.insert((1, 1, "a")), closed, &[]);
    refused(table.insert_ignore((1, 1, "a")), closed, &[]);
    refused(table.update((1,)).set("number", 2).apply(), closed, &[]);
    refused(table.delete((1,)), closed, &[]);
    refused(table.get((1,)), closed, &[]);
    refused(table.get_at((1,), &snapshot), closed, &[]);
    refused(table.exists((1,)), closed, &[]);
    refused(table.multi_get([(1,)]), closed, &[]);
    refused(table.count(), closed, &[]);
    refused(table.scan().rows(), closed, &[]);
    refused(table.scan().at(&snapshot).rows(), closed, &[]);
    refused(table.flush(), closed, &[]);
    refused(table.compact(), closed, &[]);
    refused(batch.commit(Durability::Sync), closed, &[]);
    refused(engine.flush(), closed, &[]);
    refused(engine.sync(), closed, &[]);
    refused(engine.resume(), closed, &[]);
    refused(engine.check(), closed, &[]);
    refused(engine.create_table("u", plain()), closed, &[]);
    refused(engine.drop_table("t"), closed, &[]);
    refused(engine.open_table("t", &plain()), closed, &[]);
    let end = started.find_map(Result::err).expect("the scan cannot go on");
    assert_eq!(end.kind(), closed);
    assert!(matches!(engine.health(), nyala::Health::Closed));
    let _ = (engine.stats(), table.stats(), engine.tables(), snapshot.version());
    let engine = open(dir.path());
    assert_eq!(plain_table(&engine).count().expect("rows"), 3000);
}

#[test]
fn after_a_drop_handles_answer_no_such_table_and_running_scans_finish() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    for id in 0..3000 {
        table.upsert((id, 1, "a")).expect("a row");
    }
    let snapshot = engine.snapshot();
    let mut started = table.scan().rows().expect("a scan");
    started.next().expect("a row").expect("a row");
    let mut batch = engine.batch();
    batch.upsert(&table, (1, 1, "a")).expect("encoded");
    engine.drop_table("t").expect("it is dropped");
    let gone = ErrorKind::NoSuchTable;
    refused(table.upsert((1, 1, "a")), gone, &[]);
    refused(table.insert((1, 1, "a")), gone, &[]);
    refused(table.update((1,)).set("number", 2).apply(), gone, &[]);
    refused(table.delete((1,)), gone, &[]);
    refused(table.get((1,)), gone, &[]);
    refused(table.get_at((1,), &snapshot), gone, &[]);
    refused(table.scan().rows(), gone, &[]);
    refused(table.scan().at(&snapshot).rows(), gone, &[]);
    refused(table.count(), gone, &[]);
    refused(table.flush(), gone, &[]);
    refused(table.compact(), gone, &[]);
    refused(batch.commit(Durability::Buffered), gone, &[]);
    refused(engine.drop_table("t"), gone, &["\"t\""]);
    assert_eq!(started.filter(|row| row.is_ok()).count(), 2999, "it goes on");
    let again = plain_table(&engine);
    assert_eq!(rows(&again), []);
    still_works(&again);
    refused(table.get((7,)), gone, &[]);
}

#[test]
fn what_belongs_to_another_engine_is_refused() {
    let (dir, other_dir) = (scratch(), scratch());
    let (engine, other) = (open(dir.path()), open(other_dir.path()));
    let (table, other_table) = (plain_table(&engine), plain_table(&other));
    let mut batch = engine.batch();
    refused(batch.upsert(&other_table, (1, 1, "a")), BAD, &["\"t\""]);
    refused(batch.delete(&other_table, (1,)), BAD, &["\"t\""]);
    let snapshot = other.snapshot();
    refused(table.get_at((1,), &snapshot), BAD, &["snapshot"]);
    refused(table.scan().at(&snapshot).rows(), BAD, &["snapshot"]);
    batch.upsert(&table, (7, 70, "seven")).expect("a good row");
    batch.commit(Durability::Buffered).expect("it is committed");
    still_works(&table);
}

#[test]
fn a_batch_above_its_limits_keeps_what_it_holds() {
    let dir = scratch();
    let options = Options { batch_operations_max: 3, batch_bytes_max: 1024, ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    let table = plain_table(&engine);
    let mut batch = engine.batch();
    for id in 0..3 {
        batch.upsert(&table, (id, 1, "a")).expect("within the limits");
    }
    refused(batch.upsert(&table, (3, 1, "a")), BAD, &["3 operations"]);
    refused(batch.delete(&table, (3,)), BAD, &["3 operations"]);
    batch.commit(Durability::Buffered).expect("the three");
    let bytes = batch.bytes();
    refused(batch.upsert(&table, (4, 1, "x".repeat(2000))), BAD, &["1024 bytes"]);
    assert_eq!((batch.len(), batch.bytes()), (0, bytes));
    refused(table.upsert((4, 1, "x".repeat(2000))), BAD, &["1024 bytes"]);
    // An update makes a row that is longer than the operation.
    table.upsert((1, 1, "x".repeat(900))).expect("within the limits");
    batch.update(&table, (1,), [("number", 5)]).expect("short");
    batch.update(&table, (1,), [("number", 6)]).expect("short");
    match batch.commit(Durability::Buffered) {
        Ok(_) => {
            assert_eq!(table.get((1,)).expect("a row").map(|row| crate::support::pair(&row)), Some((1, 6)))
        }
        Err(error) => assert_eq!(error.kind(), BAD, "{error}"),
    }
    assert_eq!(table.count().expect("rows"), 3);
}
