//! Failing calls: on the simulated disk, for every call of a set of workloads and every kind of failure, that call
//! fails.
//!
//! Nothing panics or hangs; no acknowledged row is lost; a batch that was refused never comes back, neither now nor
//! after a reopen or a loss of power; one in flight when the engine is poisoned is whole or absent after a reopen; a
//! poisoned engine goes on reading and answers writes with the first cause; `resume` leads out of a lack of space.
//! Whatever a run leaves is then opened on a disk that works: after a close, a kill and losses of power; compared,
//! checked, written to and opened once more.
//!
//! - `NYALA_SEED=7`: other workloads than those of the fixed seed. A failure prints its seed.
//! - `NYALA_FAULTS_ALL=1`: every call, not a share. `NYALA_LONG=1`: that, under every set of options.
//! - `NYALA_FAULT_ONLY=workload/options:kind:call`: one run; a failure prints it.

mod after;
mod cases;
mod descriptors;
mod group;
mod kinds;
mod model;
#[path = "../support/random.rs"]
mod random;
mod reads;
mod sweep;
mod workload;
mod world;

use nyala::vfs::sim::OpKind;

use sweep::sweep_named;

#[test]
fn verbs() {
    sweep_named("verbs");
}

#[test]
fn flushes() {
    sweep_named("flushes");
}

#[test]
fn compactions() {
    sweep_named("compactions");
}

#[test]
fn tables() {
    sweep_named("tables");
}

#[test]
fn recoveries() {
    sweep_named("recoveries");
}

#[test]
fn checkpoints() {
    sweep_named("checkpoints");
}

#[test]
fn full_disk() {
    sweep_named("full-disk");
}

#[test]
fn bulk() {
    sweep_named("bulk");
}

#[test]
fn the_workloads_make_every_kind_of_call() {
    let (covered, seen) = sweep::covered(&workload::NAMES);
    for op in OpKind::ALL {
        assert!(covered.iter().any(|(found, _)| *found == op), "{op:?} is never called");
    }
    assert!(
        seen.flushes > 10 && seen.compactions > 10 && seen.rows_moved > 20 && seen.no_space > 1,
        "{seen:?}"
    );
}
