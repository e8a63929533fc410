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

#[test]
fn the_start_of_the_log_never_goes_back_to_a_segment_that_is_gone() {
    let disk = SimFs::new(1);
    let options = Options {
        fs: Arc::new(disk.clone()),
        runtime: RuntimeMode::Inline { seed: 1 },
        log_segment_bytes: 4096,
        log_bytes_max: 1 << 20,
        ..Options::default()
    };
    let engine = Engine::open("/db", options).expect("the disk is well");
    let schema =
        Schema::builder().key("id", Type::U64).column("text", Type::String).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    let core = engine.core();
    let fill = |from: u64| {
        for id in from..from + 100 {
            table.upsert((id, "x".repeat(100))).expect("healthy");
        }
        core.log.segments()
    };
    let before = fill(0);
    // Housekeeping and a flush each look up a start; the flush with the later one is faster.
    let stale = before[before.len() / 2].id;
    fill(1000);
    engine.flush().expect("healthy");
    let start = core.manifest.with_state(|state| state.log_start);
    assert!(stale < start && core.log.segments().iter().all(|segment| segment.id != stale));
    start_log_at(core, stale).expect("healthy");
    sync_log_start(core, stale).expect("a start that is gone needs no sync");
    assert_eq!(core.manifest.with_state(|state| state.log_start), start);
    assert!(core.health.is_healthy());
}
