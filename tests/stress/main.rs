//! Many threads on many tables for a while, and what must hold at every moment: batches are whole, nothing that was
//! acknowledged is lost, a snapshot does not change, a dropped table is gone, and nobody stands still.
//!
//! Environment: `NYALA_SEED=<n>` makes the threads choose otherwise; `NYALA_STRESS_SECONDS=<n>` is how long each test
//! goes on (default 3, with `NYALA_LONG=1` 120); `NYALA_STRESS_PATIENCE=<n>` is after how many seconds without a step
//! of some thread the process ends with a report of all of them (default 60).
//!
//! Moments depend on the machine: a seed repeats what the threads want, not when they get it. Schedules that can be
//! repeated are those of the models in `engine/src/models`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the watchdog reads what the system says of the threads")]

mod bank;
mod churn;
mod cuts;
mod readers;
mod watchdog;
mod world;

use std::sync::Arc;

use nyala::Options;
use nyala::vfs::SimFs;
use world::World;

/// Small enough that memtables, runs, rowsets and segments come and go all the time, and the cache holds a part.
fn options() -> Options {
    Options {
        memory_bytes: 2 << 20,
        memtable_bytes: Some(64 << 10),
        log_segment_bytes: 64 << 10,
        log_bytes_max: 512 << 10,
        index_block_bytes: 512,
        row_block_bytes: 512,
        index_file_bytes: 16 << 10,
        rowset_bytes: 32 << 10,
        background_threads: 3,
        ..Options::default()
    }
}

#[test]
fn everybody_at_work_on_a_real_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let world = World::open(dir.path(), options());
    world.run(&[
        ("transfer 0", bank::transfer),
        ("transfer 1", bank::transfer),
        ("transfer 2", bank::transfer),
        ("claim 0", bank::claim),
        ("claim 1", bank::claim),
        ("read 0", readers::read),
        ("read 1", readers::read),
        ("walk", readers::walk),
        ("churn 0", churn::churn),
        ("churn 1", churn::churn),
        ("maintain", churn::maintain),
    ]);
    world.assert_all_was_done(&[]);
    let found = bank::Found::of(&world);
    world.close();
    let after = World::reopen(dir.path(), options());
    assert_eq!(bank::Found::of(&after), found, "what was there at the end is there after it");
    found.assert_is_all_of(&world);
    after.assert_clean();
}

#[test]
fn everybody_at_work_while_the_power_is_cut_under_copies_of_the_disk() {
    let disk = SimFs::new(1);
    let on_disk = Options { fs: Arc::new(disk.clone()), ..options() };
    let world = World::open("/db".as_ref(), on_disk);
    let cutting = cuts::Cutting::new(&disk, options());
    world.run_beside(
        &[
            ("transfer 0", bank::transfer),
            ("transfer 1", bank::transfer),
            ("claim 0", bank::claim),
            ("claim 1", bank::claim),
            ("read 0", readers::read),
            ("churn 0", churn::churn),
            ("churn 1", churn::churn),
            ("maintain", churn::maintain),
        ],
        ("cut", |world, chance, beat| cutting.cut(world, chance, beat)),
    );
    world.assert_all_was_done(&["iterators walked"]);
    assert!(cutting.cuts() > 0, "the power was cut");
    world.close();
}
