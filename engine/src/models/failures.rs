//! A disk that fails, at a moment drawn by lot, with everybody at work: all are woken, and what was acknowledged stays.

use shuttle::rand::{Rng, thread_rng};
use vfs::sim::{Fault, OpSet, PowerCut};

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, assert_clean, bulky_table, get, join, open, reopen, spawn, table, tiny};
use crate::{Durability, ErrorKind, Health, Options};

/// Three of them fill a segment of the log.
const TEXT: &str = include_str!("failures.rs").split_at(1200).0;

#[test]
fn a_sync_that_fails_wakes_all_who_wait_and_loses_nothing_acknowledged() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let table = table(&engine, "t");
        table.upsert((0u64, 0u64)).expect("healthy");
        let at = disk.fs.operations() + thread_rng().gen_range(0..24);
        disk.fs.fail_at(at, Fault::eio().on(OpSet::SYNCS));
        let writers: Vec<_> = [(1u64, Durability::Sync), (2, Durability::Sync), (3, Durability::Buffered)]
            .into_iter()
            .map(|(own, durability)| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    let mut last = None;
                    for value in 1..=2u64 {
                        let mut batch = engine.batch();
                        batch.upsert(&table, (own, value)).expect("it fits");
                        batch.upsert(&table, (own + 10, value)).expect("it fits");
                        if acknowledged(batch.commit(durability), &[ErrorKind::Io]) {
                            assert!(last == value.checked_sub(1).filter(|&v| v > 0), "poison is final");
                            last = Some(value);
                        }
                    }
                    last
                })
            })
            .collect();
        let flusher = spawn({
            let table = table.clone();
            move || acknowledged(table.flush(), &[ErrorKind::Io])
        });
        let acknowledged: Vec<_> = writers.into_iter().map(join).collect();
        join(flusher);
        let is_poisoned = matches!(engine.health(), Health::Poisoned(_));
        assert!(is_poisoned || matches!(engine.health(), Health::Healthy));
        assert_eq!(get(&table, 0), Some(0), "reads go on");
        // What the process left, and what the power leaves of it: only what was synced.
        for (left, synced_only) in [(disk.fs.fork(), false), (disk.fs.power_cut(&PowerCut::lose_all()), true)]
        {
            let engine = reopen(&left);
            let table = engine.tables().contains(&"t".to_owned()).then(|| super::world::table(&engine, "t"));
            let table = table.expect("a table that was made");
            for (own, acknowledged) in (1..=if synced_only { 2 } else { 3 }).zip(&acknowledged) {
                let found = get(&table, own);
                assert_eq!(found, get(&table, own + 10), "a batch is there whole or not at all");
                assert!(found >= *acknowledged, "{acknowledged:?} was acknowledged, {found:?} is there");
            }
            assert_clean(&engine);
        }
        assert_eq!(engine.close().is_err(), is_poisoned);
    });
}

/// The log goes through several segments, prepared by the one who keeps house, and what is flushed goes from it.
#[test]
fn what_a_sync_acknowledged_survives_a_power_cut_at_any_moment() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, Options { log_bytes_max: 8 << 10, ..tiny() });
        let table = bulky_table(&engine, "t");
        let writers: Vec<_> = [(1u64, Durability::Sync), (2, Durability::Buffered)]
            .into_iter()
            .map(|(own, durability)| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    for value in 1..=3u64 {
                        let mut batch = engine.batch();
                        batch.upsert(&table, (own, value, TEXT)).expect("it fits");
                        batch.commit(durability).expect("healthy");
                    }
                })
            })
            .collect();
        let cutter = spawn({
            let (disk, table) = (disk.clone(), table.clone());
            move || {
                let cuts = [(); 2].map(|()| {
                    // What is visible of the writer that syncs was synced before, and the cut comes after.
                    let (synced, buffered) = (get(&table, 1), get(&table, 2));
                    (synced, buffered, disk.fs.power_cut(&PowerCut::lose_all()), disk.fs.fork())
                });
                cuts
            }
        });
        let flusher = spawn({
            let table = table.clone();
            move || table.flush().expect("healthy")
        });
        let cuts = join(cutter);
        writers.into_iter().for_each(join);
        join(flusher);
        engine.close().expect("a clean end");
        for (synced, buffered, cut, killed) in cuts {
            let cut = reopen(&cut);
            let table = bulky_table(&cut, "t");
            assert!(get(&table, 1) >= synced, "{synced:?} was visible after its sync");
            assert_clean(&cut);
            // A kill loses nothing that was visible.
            let killed = reopen(&killed);
            let table = bulky_table(&killed, "t");
            assert!(get(&table, 1) >= synced && get(&table, 2) >= buffered);
        }
    });
}
