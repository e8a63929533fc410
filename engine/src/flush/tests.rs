use std::sync::Arc;

use vfs::SimFs;
use vfs::sim::PowerCut;

use super::log_start::{start_log_at, sync_log_start};
use super::*;
use crate::{Engine, ErrorKind, Options, RuntimeMode, Schema, Type};

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
    tablet.begin_drop();
    {
        let _stage = engine.core().commit.stage();
        assert!(tablet.seal());
    }
    let job = claim(engine.core()).expect("a memtable is sealed");
    run(engine.core(), &job);
    tablet.take_back_drop();

    assert!(table.exists((1,)).expect("its files are there"));
    let report = engine.check().expect("no I/O error");
    assert!(report.is_clean(), "{:?}", report.problems);
    drop((tablet, table));
    engine.close().expect("healthy");
    drop(engine);
    let table = open(&disk).existing_table("t").expect("it was not dropped");
    assert_eq!(table.count().expect("its files are there"), 1);
}

/// Else it would say that something is flushed that is in memory still when the drop has failed.
#[test]
fn a_flush_waits_for_a_table_whose_drop_has_only_begun() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    let schema = Schema::builder().key("id", Type::U64).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    table.upsert((1,)).expect("healthy");
    let tablet = Arc::clone(&engine.core().catalog.get("t").expect("made above").tablet);
    {
        let _stage = engine.core().commit.stage();
        assert!(tablet.seal());
    }
    let job = claim(engine.core()).expect("a memtable is sealed");
    tablet.begin_drop();
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| engine.flush());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!flusher.is_finished(), "it is in memory only");
        tablet.take_back_drop();
        run(engine.core(), &job);
        flusher.join().expect("no panic").expect("healthy");
    });
    assert_eq!(tablet.last_unflushed(), None);
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

/// On a disk that fills up, a segment may get its header and no record. Nothing has synced its name when nothing is
/// left to flush.
#[test]
fn the_start_of_the_log_is_on_disk_before_the_manifest_names_it() {
    let disk = SimFs::new(1);
    let open = |disk: &SimFs| {
        let options = Options {
            fs: Arc::new(disk.clone()),
            runtime: RuntimeMode::Inline { seed: 1 },
            log_segment_bytes: 4096,
            log_bytes_max: 1 << 20,
            ..Options::default()
        };
        Engine::open("/db", options).expect("the log can be read")
    };
    let engine = open(&disk);
    let core = engine.core();
    // No segment is made ahead.
    core.inline_turn.lock().only_on_demand = true;
    let schema =
        Schema::builder().key("id", Type::U64).column("text", Type::String).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    table.upsert((1, "x".repeat(3000))).expect("healthy");
    engine.flush().expect("healthy");
    let full = core.log.end().segment;

    disk.set_capacity(Some(disk.used_bytes() + 100));
    let error = table.upsert((2, "x".repeat(2000))).expect_err("a header fits, and no record");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    disk.set_capacity(None);
    engine.resume().expect("there is space");
    let start = core.log.end().segment;
    assert!(start > full, "the log has gone on to the new segment");
    drop_unneeded_log(core).expect("healthy");
    assert_eq!(core.manifest.with_state(|state| state.log_start), start);

    let cut = disk.power_cut(&PowerCut::lose_all());
    let table = open(&cut).existing_table("t").expect("it was made");
    assert_eq!(table.count().expect("its files are there"), 1);
}

#[test]
fn a_memtable_is_not_claimed_past_one_that_another_job_has() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    let schema = Schema::builder().key("id", Type::U64).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    engine.core().inline_turn.lock().only_on_demand = true;
    let tablet = Arc::clone(&engine.core().catalog.get("t").expect("made above").tablet);
    for id in [1, 2] {
        table.upsert((id,)).expect("healthy");
        let _stage = engine.core().commit.stage();
        assert!(tablet.seal());
    }
    let first = tablet.claim_sealed(0).expect("the oldest is sealed");
    assert!(tablet.claim_sealed(0).is_none(), "another job waits for the first");
    let second = tablet.claim_sealed(1).expect("the same job goes on");
    tablet.unclaim(&first.memtable);
    tablet.unclaim(&second.memtable);
}

#[test]
fn inline_work_of_several_threads_loses_nothing() {
    let disk = SimFs::new(1);
    let options = Options {
        fs: Arc::new(disk.clone()),
        runtime: RuntimeMode::Inline { seed: 7 },
        memory_bytes: 256 << 10,
        memtable_bytes: Some(8 << 10),
        ..Options::default()
    };
    let engine = Engine::open("/db", options.clone()).expect("the disk is well");
    let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build();
    let table = engine.create_table("t", schema.expect("a schema")).expect("a new table");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                for id in (0..300).map(|id| id * 4 + thread) {
                    table.upsert((id, "a text of some length, so that memtables fill")).expect("healthy");
                    if id % 97 == 0 {
                        engine.flush().expect("healthy");
                    }
                }
            });
        }
    });
    assert_eq!(table.count().expect("healthy"), 1200);
    drop((table, engine));
    let engine = Engine::open("/db", options).expect("the manifest can be read");
    assert_eq!(engine.existing_table("t").expect("it is there").count().expect("healthy"), 1200);
}
