use encoded_key::KeyRange;

use super::delete_seen;
use crate::read::live_keys;
use crate::{Durability, Engine, ErrorKind, Options, Schema, Type};

#[test]
fn updates_that_grow_beyond_a_batch_are_refused_and_the_engine_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options { batch_bytes_max: 4096, ..Options::default() };
    let engine = Engine::open(dir.path(), options).expect("a new database");
    let schema =
        Schema::builder().key("id", Type::U64).column("text", Type::String).column("count", Type::U8);
    let table = engine.create_table("t", schema.build().expect("a schema")).expect("a new table");
    let text = "x".repeat(1000);
    for id in 0..5 {
        table.upsert((id, text.as_str(), 0)).expect("it fits");
    }
    let mut batch = engine.batch();
    for id in 0..5 {
        batch.update(&table, (id,), [("count", 1)]).expect("a change takes a few bytes");
    }
    let error = batch.commit(Durability::Buffered).expect_err("five rows are more than a batch");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(batch.len(), 5, "the batch keeps its operations");

    table.update((0,)).set("count", 1).apply().expect("the engine goes on");
    assert_eq!(table.scan().filter(crate::column("count").eq(1)).count().expect("healthy"), 1);
}

/// A range is deleted as it was seen: what was written to one of its keys since is not taken with it.
#[test]
fn deletions_of_what_was_seen_do_not_take_what_was_written_since() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let engine = Engine::open(dir.path(), Options::default()).expect("a new database");
    let schema = Schema::builder().key("id", Type::U64).column("count", Type::U8);
    let table = engine.create_table("t", schema.build().expect("a schema")).expect("a new table");
    let (core, target) = (engine.core(), engine.core().catalog.get("t").expect("just made"));
    type Write = fn(&crate::Table);
    let writes: [Write; 4] = [
        |table| table.upsert((1, 9)).expect("fits"),
        |table| table.update((2,)).set("count", 9).apply().expect("it is there"),
        |table| table.delete((0,)).expect("a key"),
        |table| {
            table.upsert((1, 9)).expect("fits");
            table.flush().expect("a good disk");
        },
    ];
    for write in writes {
        for id in 0..3 {
            table.upsert((id, 1)).expect("fits");
        }
        let point = core.read_point(&target.tablet);
        let seen = || live_keys(&point, &KeyRange::all(), 10, 1 << 20).expect("a good disk");
        assert_eq!(seen().len(), 3);
        write(&table);
        let before: Vec<String> = table.scan().rows().expect("open").map(|row| format!("{row:?}")).collect();
        let deleted = delete_seen(core, &target, seen(), point.at, Durability::Buffered);
        let newer = deleted.expect("nothing fails").expect_err("one of them was written since");
        assert!(newer > point.at);
        let after: Vec<String> = table.scan().rows().expect("open").map(|row| format!("{row:?}")).collect();
        assert_eq!(after, before, "nothing was deleted");
        // What comes to other keys is no hindrance.
        let point = core.read_point(&target.tablet);
        let seen = live_keys(&point, &KeyRange::all(), 10, 1 << 20).expect("a good disk");
        table.upsert((77, 7)).expect("fits");
        delete_seen(core, &target, seen, point.at, Durability::Buffered)
            .expect("nothing fails")
            .expect("as seen");
        assert_eq!(table.count().expect("open"), 1);
        table.delete((77,)).expect("a key");
    }
}
