use vfs::SimFs;

use super::*;
use crate::{Engine, Options, RuntimeMode, Schema, Type};

fn open(disk: &SimFs) -> Engine {
    let options = Options {
        fs: Arc::new(disk.clone()),
        runtime: RuntimeMode::Inline { seed: 1 },
        ..Options::default()
    };
    Engine::open("/db", options).expect("the disk is well")
}

#[test]
fn a_flush_while_a_drop_has_only_begun_keeps_its_files() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    let schema = Schema::builder().key("id", Type::U64).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    table.upsert((1,)).expect("healthy");
    let tablet = Arc::clone(&engine.core().catalog.get("t").expect("made above").tablet);

    // What a drop does first; then its edit cannot be written, so that it takes that back.
    tablet.mark_dropped(true);
    {
        let _stage = engine.core().commit.stage();
        assert!(tablet.seal());
    }
    let job = claim(engine.core()).expect("a memtable is sealed");
    run(engine.core(), &job);
    tablet.mark_dropped(false);

    assert!(table.exists((1,)).expect("its files are there"));
    let report = engine.check().expect("no I/O error");
    assert!(report.is_clean(), "{:?}", report.problems);
    drop((tablet, table));
    engine.close().expect("healthy");
    drop(engine);
    let table = open(&disk).existing_table("t").expect("it was not dropped");
    assert_eq!(table.count().expect("its files are there"), 1);
}
