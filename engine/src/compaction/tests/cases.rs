//! What other engines got wrong, and what a compaction must bring about.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vfs::SimFs;

use super::world::{DIR, World, tiny};
use crate::compaction::whole::Asked;
use crate::compaction::{DEPTH_MAX_IDLE, Eagerness};
use crate::rowset::Rowset;
use crate::{Compression, Engine, ErrorKind, Options, RuntimeMode, Schema, Type};

#[test]
fn a_delete_during_a_move_stays_deleted() {
    let mut world = World::new(1);
    world.pile_up(5, 40);
    let job = world.claim(Eagerness::Idle).expect("five runs");
    assert!(!job.work.moving.is_empty(), "{:?}", job.work);
    let held = world.hold(job);
    // While the rows are copied: deletions in memory, deletions flushed, and overwrites.
    for id in 0..10 {
        world.delete(id);
    }
    world.flush();
    for id in 10..20 {
        world.delete(id);
    }
    world.put_batch(20..30);
    world.flush();
    world.delete(39);
    world.install(held).expect("no fault");
    world.check();
    world.compact_all();
    world.check();
    world.flush();
    world.compact_whole();
    world.check();
    world.open();
    world.check();
}

#[test]
fn flushes_and_other_compactions_go_on_between_merge_and_install() {
    let mut world = World::new(2);
    world.pile_up(4, 40);
    let first = world.claim(Eagerness::Busy).expect("four runs of a size");
    let first_inputs = first.run_ids.clone();
    let first = world.hold(first);
    world.pile_up(4, 40);
    let second = world.claim(Eagerness::Busy).expect("four more");
    assert!(second.run_ids.iter().all(|run| !first_inputs.contains(run)), "each run is in one compaction");
    let second = world.hold(second);
    world.put_batch(0..5);
    world.flush();
    world.install(second).expect("no fault");
    world.check_reads();
    world.install(first).expect("no fault");
    world.check();
    assert_eq!(world.stats().index_runs, 3);
}

#[test]
fn a_snapshot_keeps_the_old_rows_through_moves_and_their_space_comes_back() {
    let mut world = World::new(3);
    world.put_batch(0..60);
    world.flush();
    world.keep_snapshot();
    world.pile_up(8, 60);
    world.put_batch(0..60);
    world.flush();
    world.compact_all();
    world.compact_whole();
    world.check();
    let with_snapshot = world.stats();
    assert!(with_snapshot.live_rows >= 120, "each key's old row and its new one: {with_snapshot:?}");
    // What the snapshot holds is no debt: nothing is moved again and again.
    assert_eq!(world.compact_all(), 0);

    world.snapshots.clear();
    let compactions = world.compact_all();
    assert!((1..=4).contains(&compactions), "{compactions}");
    world.check();
    let after = world.stats();
    assert_eq!((after.live_rows, after.index_entries), (60, 60));
    assert!(after.garbage_share() <= 0.15, "{after:?}");
    assert!(after.row_bytes * 3 < with_snapshot.row_bytes * 2, "{after:?} after {with_snapshot:?}");
}

#[test]
fn many_snapshots_keep_one_version_each_at_most() {
    let mut world = World::new(4);
    for round in 0..40u64 {
        for _ in 0..20 {
            world.put(round % 2);
        }
        if round % 4 == 0 {
            world.keep_snapshot();
        }
        world.flush();
        world.compact_once(Eagerness::Busy);
        world.check_reads();
    }
    world.compact_whole();
    world.check();
    let versions = world.stats().index_entries;
    assert!(versions <= 2 * (1 + world.snapshots.len() as u64), "{versions}");
    // Every second snapshot goes, then all.
    let mut at = 0;
    world.snapshots.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    world.compact_all();
    world.check();
    world.snapshots.clear();
    world.compact_all();
    world.check();
    assert_eq!(world.stats().index_entries, 2);
}

#[test]
fn picking_ends_within_the_bounds_of_an_idle_engine() {
    for seed in 10..16 {
        let mut world = World::new(seed);
        world.pile_up(20, 300);
        if seed % 2 == 0 {
            world.keep_snapshot();
        }
        for id in 0..100 {
            world.delete(id);
        }
        world.flush();
        world.compact_all();
        world.check();
        let stats = world.stats();
        assert!(stats.index_runs <= 3 && stats.overlap_depth <= 4, "{stats:?}");
        assert!(stats.garbage_share() <= 0.15, "{stats:?}");
        assert_eq!(world.engine().stats().compactions_due, 0);
        // A reopen forgets how much upserts overwrite, and ends snapshots; then it is settled again.
        world.open();
        assert!(world.compact_all() <= 4);
        world.check();
        assert_eq!(world.compact_all(), 0);
    }
}

#[test]
fn hot_keys_overwritten_for_ever_take_a_small_multiple_of_their_size() {
    const KEYS: usize = 300;
    let mut world = World::new(5);
    let mut worst = 0.0f64;
    for round in 0..60 {
        for _ in 0..KEYS {
            let id = world.chance.below(KEYS) as u64;
            world.put(id);
        }
        world.flush();
        while world.compact_once(Eagerness::Busy) {}
        let stats = world.engine().stats();
        let (runs, depth) = (stats.tables[0].index_runs, stats.tables[0].overlap_depth);
        assert!(runs <= 12 && depth <= 12, "{runs} runs, {depth} deep");
        if round >= 10 {
            // Small as they are, a third of these files is what stands around their rows.
            let live = (KEYS * 70) as f64;
            worst = worst.max((stats.row_bytes + stats.index_bytes) as f64 / live);
        }
    }
    assert!(worst < 4.0, "{worst} times the live data");
    world.compact_all();
    let stats = world.stats();
    assert!(stats.live_rows < 2 * KEYS as u64, "{stats:?}");
    world.check();
}

#[test]
fn small_rowsets_of_keys_that_only_grow_are_joined() {
    let mut world = World::with(10, Options { rowset_bytes: 64 << 10, ..tiny() });
    let mut most = 0;
    for flush in 0..700u64 {
        world.put_batch(flush * 5..flush * 5 + 5);
        world.flush();
        while world.compact_once(Eagerness::Busy) {}
        most = most.max(world.stats().rowsets);
    }
    // Without, as many as there were flushes; each is a file that is open.
    assert!(most <= 280, "{most}");
    world.compact_all();
    assert!(world.stats().rowsets <= 150, "{:?}", world.stats());
    world.check();
    world.open();
    world.check();
}

#[test]
fn rows_that_will_be_moved_for_certain_are_compressed_then_and_not_before() {
    let mut world = World::with(11, Options { row_block_bytes: 1024, ..tiny() });
    world.stop_inline_work();
    let mut sizes = Vec::new();
    for _ in 0..8 {
        let before = world.engine().stats().row_bytes;
        for id in 0..100 {
            world.put(id);
        }
        world.flush();
        sizes.push(world.engine().stats().row_bytes - before);
    }
    let (compressed, raw) = sizes.split_at(DEPTH_MAX_IDLE);
    assert!(raw.iter().min() > compressed.iter().max(), "{sizes:?}");
    // Beside the others nothing lies deep.
    let before = world.engine().stats().row_bytes;
    world.put_batch(1000..1100);
    world.flush();
    assert!(world.engine().stats().row_bytes - before < *raw.iter().min().expect("there are some"));
    world.compact_all();
    world.check();
}

#[test]
fn an_idle_engine_leaves_little_uncompressed_whatever_was_flushed() {
    let options = Options { row_block_bytes: 1024, rowset_bytes: 1 << 20, ..tiny() };
    for (compression, is_left) in [(Compression::Lz4, false), (Compression::None, true)] {
        let mut world = World::with(13, Options { compression, ..options.clone() });
        world.stop_inline_work();
        for first in 0..DEPTH_MAX_IDLE as u64 {
            world.put_batch((0..100).map(|id| id * 100 + first));
            world.flush();
        }
        // Larger than all that it lies over: others are moved first, and it may stay.
        world.put_batch(0..10_000);
        world.flush();
        let is_raw = |rowset: &Arc<Rowset>| rowset.compression() == sstable::Compression::None;
        assert!(world.view().rowsets.iter().any(is_raw));
        world.compact_all();
        let view = world.view();
        let bytes = |rowsets: &mut dyn Iterator<Item = &Arc<Rowset>>| -> u64 {
            rowsets.map(|rowset| rowset.info().len).sum()
        };
        let raw = bytes(&mut view.rowsets.iter().filter(|rowset| is_raw(rowset)));
        assert_eq!(raw * 10 > bytes(&mut view.rowsets.iter()), is_left, "{raw} bytes with {compression:?}");
        drop(view);
        world.check();
    }
}

#[test]
fn a_compaction_that_yields_nothing_leaves_neither_inputs_nor_orphans() {
    let mut world = World::new(6);
    world.pile_up(6, 50);
    for id in 0..50 {
        world.delete(id);
    }
    world.flush();
    world.compact_whole();
    assert!(world.files().len() > 5, "nothing is deleted before house is kept");
    world.check();
    assert_eq!(world.files().len(), 0);
    world.open();
    world.check();
    world.put(7);
    world.flush();
    world.check();
}

#[test]
fn rows_are_counted_dead_once_and_none_is_forgotten() {
    let mut world = World::new(7);
    world.put_batch(0..100);
    world.flush();
    for id in 0..40 {
        world.delete(id);
    }
    world.flush();
    // Deleted again: the second deletion meets the first, not the row.
    for id in 20..60 {
        world.delete(id);
    }
    world.flush();
    world.stop_inline_work();
    world.compact_all();
    world.check();
    let stats = world.stats();
    assert_eq!((stats.live_rows, stats.index_entries, stats.index_deletions), (40, 40, 0));
}

#[test]
fn an_engine_opened_above_the_trigger_compacts_by_itself() {
    let mut world = World::new(8);
    world.pile_up(12, 60);
    assert_eq!(world.stats().index_runs, 12);
    let rows = world.rows.clone();
    world.close();
    let options = Options { runtime: RuntimeMode::Threads, fs: Arc::new(world.disk.clone()), ..tiny() };
    let engine = Engine::open(DIR, options).expect("it opens");
    let start = Instant::now();
    loop {
        let table = &engine.stats().tables[0];
        if table.index_runs <= 3 && table.overlap_depth <= 4 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{table:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        engine.existing_table("t").expect("it is there").scan().count().expect("readable"),
        rows.len() as u64
    );
    assert!(engine.check().expect("no fault").is_clean());
}

#[test]
fn a_table_dropped_under_its_compaction_takes_the_outputs_along() {
    let mut world = World::new(9);
    world.pile_up(5, 40);
    let held = world.hold(world.claim(Eagerness::Idle).expect("five runs"));
    world.engine().drop_table("t").expect("no fault");
    let error = world.install(held).expect_err("there is nothing to install into");
    assert_eq!(error.kind(), ErrorKind::NoSuchTable);
    crate::background::keep_house(world.core());
    assert_eq!(world.files().len(), 0);
    assert!(matches!(world.engine().health(), crate::Health::Healthy));
}

#[test]
fn whoever_asks_for_a_whole_compaction_is_not_kept_waiting_by_others() {
    let mut world = World::new(13);
    world.pile_up(5, 40);
    let waiting = world.tablet();
    let waiting = waiting.compacting.wait();
    assert!(world.claim(Eagerness::Idle).is_none(), "no other begins before it");
    drop(waiting);
    assert!(world.claim(Eagerness::Idle).is_some());
    world.compact_whole();
    world.check();
    assert_eq!(world.stats().index_runs, 1);
}

/// Whoever asks for a compaction waits for what there is, and not for those who write.
#[test]
fn a_compaction_that_is_asked_for_ends_however_much_is_written_meanwhile() {
    let mut world = World::new(14);
    world.stop_inline_work();
    world.pile_up(5, 40);
    let (tablet, asked) = (world.tablet(), Asked::of(&world.view()));
    let most = asked.rowsets.len() + 10;
    let mut jobs = 0;
    while let Some(job) = asked.next(world.core(), &tablet) {
        crate::compaction::run(world.core(), &job).expect("no fault");
        drop(job);
        // There is always something to do.
        world.pile_up(5, 40);
        jobs += 1;
        assert!(jobs <= most, "{jobs} jobs, for {} rowsets", asked.rowsets.len());
    }
    assert!(jobs > 0 && world.claim(Eagerness::Idle).is_some(), "the rest is left to others");
    world.check();
}

#[test]
fn dropping_a_table_stops_its_merge() {
    let mut world = World::new(10);
    world.pile_up(5, 40);
    let job = world.claim(Eagerness::Idle).expect("five runs");
    world.tablet().begin_drop();
    crate::compaction::run(world.core(), &job).expect_err("it was told to stop");
    drop(job);
    world.tablet().take_back_drop();
    world.check();
    world.compact_all();
    world.check();
}

#[test]
fn a_drop_that_fails_while_the_engine_closes_lets_no_merge_go_on() {
    let mut world = World::new(10);
    world.pile_up(5, 40);
    let tablet = world.tablet();
    tablet.begin_drop();
    // What a close does meanwhile.
    tablet.compacting.end();
    tablet.take_back_drop();
    assert!(tablet.compacting.cancel().load(std::sync::atomic::Ordering::Acquire));
    let job = world.claim(Eagerness::Idle).expect("five runs");
    crate::compaction::run(world.core(), &job).expect_err("it was told to stop");
}

#[test]
fn a_thousand_small_tables_compact_each_for_itself() {
    const TABLES: u64 = 1000;
    let disk = SimFs::new(11);
    let options = Options {
        runtime: RuntimeMode::Threads,
        fs: Arc::new(disk),
        log_segment_bytes: 1 << 20,
        log_bytes_max: 64 << 20,
        ..Options::default()
    };
    let schema = || Schema::builder().key("id", Type::U64).column("n", Type::U64).build().expect("a schema");
    let engine = Engine::open(DIR, options.clone()).expect("a new database");
    let tables: Vec<_> = (0..TABLES)
        .map(|number| engine.create_table(&format!("t{number}"), schema()).expect("a new table"))
        .collect();
    for round in 0..5u64 {
        for (table, number) in tables.iter().zip(0..) {
            table.upsert((round % 2, number + round)).expect("healthy");
        }
        engine.flush().expect("healthy");
    }
    // However long it takes, it goes on.
    let (mut compactions, mut since) = (0, Instant::now());
    loop {
        let stats = engine.stats();
        if stats.tables.iter().all(|table| table.index_runs <= 3 && table.overlap_depth <= 4) {
            break;
        }
        if stats.compactions > compactions {
            (compactions, since) = (stats.compactions, Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(60), "none ended since the {compactions}th");
        std::thread::sleep(Duration::from_millis(50));
    }
    let stats = engine.stats();
    assert!(stats.compactions >= TABLES && stats.failed_compactions == 0, "{stats}");
    assert!(
        stats.compactions <= 5 * TABLES,
        "each run of a table is merged once at most, {} in all",
        stats.compactions
    );
    assert!(engine.check().expect("no fault").is_clean());
    drop(tables);
    engine.close().expect("healthy");
    let engine = Engine::open(DIR, options).expect("it opens");
    for number in (0..TABLES).step_by(97) {
        let table = engine.existing_table(&format!("t{number}")).expect("it is there");
        assert_eq!(table.scan().count().expect("readable"), 2);
    }
}

#[test]
fn readers_and_writers_go_on_while_lanes_move_rows() {
    let options = Options {
        runtime: RuntimeMode::Threads,
        background_threads: 4,
        fs: Arc::new(SimFs::new(12)),
        // One slice for every few blocks.
        ..tiny()
    };
    let engine = Engine::open(DIR, options).expect("a new database");
    let schema = Schema::builder().key("id", Type::U64).column("n", Type::U64).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let table = table.clone();
            scope.spawn(move || {
                for n in 0..6000u64 {
                    // Each writer's keys only grow.
                    table.upsert(((n * 7919) % 1500 * 2 + writer, n)).expect("healthy");
                }
            });
        }
        for _ in 0..10 {
            let mut last = None;
            for row in table.scan().rows().expect("readable") {
                let id: u64 = row.expect("readable").get("id").expect("an id");
                assert!(last.is_none_or(|last| last < id), "order holds");
                last = Some(id);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    engine.flush().expect("healthy");
    table.compact().expect("healthy");
    assert_eq!(table.scan().count().expect("readable"), 3000);
    let report = engine.check().expect("no fault");
    assert!(report.is_clean(), "{:#?}", report.problems);
    let stats = engine.stats();
    assert!(stats.moved_rows > 0 && stats.compactions >= 3, "{stats:?}");
    // What else was due may still be at work, and then ends.
    let deadline = Instant::now() + Duration::from_secs(30);
    while engine.stats().compaction_threads > 0 {
        assert!(Instant::now() < deadline, "{:?}", engine.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}
