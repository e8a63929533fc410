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
