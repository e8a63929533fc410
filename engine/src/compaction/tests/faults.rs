//! Faults of the disk, and losses of power, at every call of a compaction.

use std::sync::Arc;

use vfs::SimFs;
use vfs::sim::{FailedSync, Fault, OpSet, PowerCut};

use super::world::{World, tiny};
use crate::compaction::{Eagerness, run};
use crate::{Health, Options};

/// A database with some runs on one another, closed; and what it holds.
fn prepared(seed: u64) -> World {
    let mut world = World::new(seed);
    world.pile_up(6, 50);
    for id in 5..15 {
        world.delete(id);
    }
    world.flush();
    world
}

/// Opens a copy of the disk of `world`, without background work.
fn copy_of(world: &World, disk: SimFs) -> World {
    let mut copy = World::with(1, tiny());
    copy.open_on(disk);
    copy.rows = world.rows.clone();
    copy.stop_inline_work();
    copy
}

#[test]
fn power_lost_at_any_call_of_a_compaction_loses_nothing() {
    let mut world = prepared(1);
    world.sync();
    let rows = world.rows.clone();
    world.close();
    world.rows = rows;
    let mut cuts = 0;
    for call in 0.. {
        let copy = copy_of(&world, world.disk.fork());
        let job = copy.claim(Eagerness::Idle).expect("seven runs");
        assert!(!job.work.moving.is_empty());
        let disk = copy.disk.clone();
        disk.halt_at(disk.operations() + call);
        let result = run(copy.core(), &job);
        drop(job);
        if !disk.is_halted() {
            result.expect("no fault any more");
            copy_of(&world, disk.fork()).check();
            break;
        }
        cuts += 1;
        for policy in [PowerCut::lose_all(), PowerCut::random(call)] {
            println!("power lost at call {call}, {policy:?}");
            let after = copy_of(&world, disk.power_cut(&policy));
            after.check();
            after.compact_all();
            after.check();
        }
    }
    assert!(cuts > 20, "{cuts} calls");
}

#[test]
fn a_fault_at_any_call_of_a_compaction_leaves_the_inputs_in_force() {
    let mut world = prepared(2);
    let rows = world.rows.clone();
    world.close();
    world.rows = rows;
    for fault in [Fault::eio(), Fault::enospc()] {
        let (mut given_up, mut poisoned) = (0, 0);
        for call in 0.. {
            let copy = copy_of(&world, world.disk.fork());
            copy.check();
            let before = copy.files();
            let job = copy.claim(Eagerness::Idle).expect("seven runs");
            let first = copy.disk.operations() + call;
            copy.disk.fail_at(first, fault);
            let result = run(copy.core(), &job);
            drop(job);
            let was_reached = copy.disk.operations() > first;
            copy.disk.clear_faults();
            if !was_reached {
                result.expect("no fault any more");
                break;
            }
            copy.check_reads();
            match copy.engine().health() {
                Health::Healthy if result.is_err() => {
                    given_up += 1;
                    assert_eq!(copy.files(), before, "no output is left at call {call}");
                }
                // A read that failed and was not needed, or a file that could not be removed.
                Health::Healthy => {}
                Health::NoSpace(_) => {
                    copy.engine().resume().expect("there is space again");
                    copy.check();
                }
                Health::Poisoned(_) => poisoned += 1,
                Health::ReadOnly | Health::Closed => panic!("nobody closes it"),
            }
            let mut after = copy_of(&world, copy.disk.fork());
            after.check();
            after.compact_all();
            after.check();
            after.close();
        }
        assert!(given_up > 10, "{given_up} times");
        assert!(poisoned < 8, "only the directory and the manifest: {poisoned} times");
    }
}

#[test]
fn an_edit_that_fails_while_the_engine_closes_keeps_its_files() {
    let mut world = prepared(4);
    let rows = world.rows.clone();
    world.close();
    world.rows = rows;
    let mut failed = 0;
    for call in 0.. {
        let copy = copy_of(&world, world.disk.fork());
        let job = copy.claim(Eagerness::Idle).expect("seven runs");
        // A close waits for its workers; one of them is in here.
        copy.core().health.close();
        let first = copy.disk.operations() + call;
        copy.disk.fail_at(first, Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesClean));
        let result = run(copy.core(), &job);
        drop(job);
        copy.disk.clear_faults();
        if result.is_ok() {
            break;
        }
        failed += 1;
        // The edit may be on disk or not: either way the database opens with all its rows.
        for disk in [copy.disk.fork(), copy.disk.power_cut(&PowerCut::random(call))] {
            copy_of(&world, disk).check();
        }
    }
    assert!(failed > 20, "{failed} calls");
}

#[test]
fn a_damaged_rowset_is_not_moved_and_holds_up_nothing_else() {
    let mut world = prepared(3);
    let victim = Arc::clone(world.view().rowsets.iter().last().expect("there are rowsets"));
    let path = world.core().files.path(victim.id().into(), crate::files::FileKind::Rows);
    let id = victim.id();
    drop(victim);
    let rows = world.rows.clone();
    world.close();
    world.rows = rows;
    let disk = world.disk.fork();
    // Some of every block of rows.
    disk.damage(&path, |bytes| (40..400).step_by(50).for_each(|at| bytes[at] ^= 1)).expect("it is there");
    let world = copy_of(&world, disk);

    let mut failures = 0;
    for _ in 0..50 {
        let Some(job) = world.claim(Eagerness::Idle) else { break };
        let moves_it = job.work.moving.contains(&id);
        let result = run(world.core(), &job);
        assert_eq!(result.is_err(), moves_it && failures == 0, "{result:?}");
        failures += u64::from(result.is_err());
    }
    assert!(world.stats().index_runs <= 3);
    assert!(world.view().rowsets.get(id).is_some(), "what cannot be moved stays");
    assert_eq!(world.engine().stats().failed_compactions, failures);
    assert!(matches!(world.engine().health(), Health::Healthy));
    // The damage is still told, and only there.
    let report = world.engine().check().expect("no I/O error");
    assert!(!report.is_clean());
    assert!(report.problems.iter().all(|problem| problem.file == Some(u64::from(id.0))), "{report:?}");
}

#[test]
fn a_full_disk_backs_off_and_goes_on_later() {
    let mut world = World::with(4, Options { ..tiny() });
    world.pile_up(6, 200);
    let before = world.disk.used_bytes();
    world.disk.set_capacity(Some(before + 100));
    let job = world.claim(Eagerness::Idle).expect("six runs");
    run(world.core(), &job).expect_err("there is no space");
    drop(job);
    assert!(matches!(world.engine().health(), Health::Healthy), "an optional failure fails no write");
    assert!(world.claim(Eagerness::Idle).is_none(), "not at once");
    world.disk.set_capacity(None);
    world.core().clock.sleep(std::time::Duration::from_secs(1));
    world.compact_all();
    world.check();
}
