//! The model test: random verbs on the engine and on ordered maps, which must agree.
//!
//! A run follows from its seed: writes of every verb, batches over several tables, snapshots, point reads, scans with
//! everything that a scan can be asked, transactions whose conflicts the model knows, flushes, compactions,
//! checkpoints, opens for reading only, tables made and dropped, reopening in every way, and, on the simulated disk,
//! power cuts at any system call. After a power cut the engine must hold what a prefix of the commits over all tables
//! gives, batches whole, with everything that was synced.
//!
//! With background work inline on the simulated disk a run is the same every time; with threads the order of background
//! work is not, and a failure may need some tries to come back.
//!
//! - `NYALA_SEED=7` (or `random`): another seed than the fixed one. A failure prints its seed.
//! - `NYALA_STEPS=100000`: the steps of each option set with inline work, and ten times those of each with threads, in
//!   worlds of 20,000 at most, each with the next seed. `NYALA_LONG=1`: everything thirty times as long.
//!
//! Beside it: `concurrent`, where readers, writers and power cuts meet, and `cases`, one test for each of the faults
//! that other engines shipped.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may look at the disk behind the engine's back"
)]

mod cases;
mod concurrent;
mod copies;
#[path = "../support/extra.rs"]
mod extra;
mod oracle;
mod power;
#[path = "../support/random.rs"]
mod random;
mod reads;
mod replay;
#[path = "../support/rows.rs"]
mod rows;
mod scans;
mod settings;
#[path = "../support/shape.rs"]
mod shape;
#[path = "../support/state.rs"]
mod state;
mod transactions;
#[path = "../support/verbs.rs"]
mod verbs;
mod world;
mod writes;

use world::run;

#[test]
fn inline_each_batch() {
    run(&settings::inline_each_batch());
}

#[test]
fn inline_tiny() {
    run(&settings::inline_tiny());
}

#[test]
fn inline_small_sync() {
    run(&settings::inline_small_sync());
}

#[test]
fn inline_roomy() {
    run(&settings::inline_roomy());
}

#[test]
fn threads_tiny() {
    run(&settings::threads_tiny());
}

#[test]
fn threads_small() {
    run(&settings::threads_small());
}

#[test]
fn threads_tiny_on_disk() {
    run(&settings::threads_tiny_on_disk());
}
