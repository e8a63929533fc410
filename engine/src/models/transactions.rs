//! What transactions have read, checked between the commits of others, and the tickets of commits.

use vfs::sim::PowerCut;

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, get, join, open, reopen, rows, spawn, table, tiny};
use crate::{Durability, Engine, ErrorKind, Table, Version};

const CONFLICT: &[ErrorKind] = &[ErrorKind::Conflict];

/// Reads two keys, and if both are there deletes one. Whether it committed.
fn go_off_duty(engine: &Engine, table: &Table, own: u64) -> bool {
    let mut transaction = engine.transaction();
    let both = [1u64, 2].map(|id| transaction.exists(table, (id,)).expect("healthy"));
    assert!(both != [false, false], "one of them is always there");
    if both == [true, true] {
        transaction.delete(table, (own,)).expect("it fits");
    }
    acknowledged(transaction.commit(Durability::Buffered), CONFLICT) && both == [true, true]
}

#[test]
fn of_two_that_read_the_same_and_write_apart_one_is_a_conflict() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        for id in [1u64, 2] {
            table.upsert((id, 0u64)).expect("healthy");
        }
        let leavers: Vec<_> = [1u64, 2]
            .into_iter()
            .map(|own| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || go_off_duty(&engine, &table, own))
            })
            .collect();
        // Something blind before and between them, and memtables that go.
        let other = spawn({
            let table = table.clone();
            move || table.upsert((9u64, 9u64)).expect("healthy")
        });
        let flusher = spawn({
            let table = table.clone();
            move || table.flush().expect("healthy")
        });
        let left = leavers.into_iter().map(join).filter(|left| *left).count();
        join(other);
        join(flusher);
        assert!(left <= 1);
        let there = [1, 2].map(|id| get(&table, id).is_some()).into_iter().filter(|there| *there).count();
        assert_eq!(there, 2 - left, "what was acknowledged is done, and nothing else");
        engine.close().expect("a clean end");
    });
}

#[test]
fn of_two_that_find_a_range_empty_and_insert_into_it_one_is_a_conflict() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        table.upsert((20u64, 0u64)).expect("healthy");
        let inserters: Vec<_> = [11u64, 12]
            .into_iter()
            .map(|own| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    let mut transaction = engine.transaction();
                    let scan = transaction.scan(&table).range((10u64,)..(20u64,));
                    let scan = if own == 11 { scan } else { scan.reverse() };
                    if scan.count().expect("healthy") > 0 {
                        return false;
                    }
                    transaction.upsert(&table, (own, own)).expect("it fits");
                    acknowledged(transaction.commit(Durability::Buffered), CONFLICT)
                })
            })
            .collect();
        let flusher = spawn({
            let table = table.clone();
            move || {
                // Outside of the range: nobody's conflict.
                table.upsert((20u64, 1u64)).expect("healthy");
                table.flush().expect("healthy");
            }
        });
        let inserted = inserters.into_iter().map(join).filter(|inserted| *inserted).count();
        join(flusher);
        assert_eq!(inserted, 1, "the first of them has no reason to fail");
        assert_eq!(rows(&table).len(), 2);
        engine.close().expect("a clean end");
    });
}

#[test]
fn increments_by_transactions_are_all_there() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    let increment = engine.transact(|transaction| {
                        let row = transaction.get(&table, (0u64,))?;
                        let value: u64 = row.map_or(Ok(0), |row| row.get("value"))?;
                        transaction.upsert(&table, (0u64, value + 1))
                    });
                    increment.expect("a conflict comes of somebody else's success");
                })
            })
            .collect();
        let flusher = spawn({
            let table = table.clone();
            move || table.flush().expect("healthy")
        });
        writers.into_iter().for_each(join);
        join(flusher);
        assert_eq!(get(&table, 0), Some(2));
        engine.close().expect("a clean end");
    });
}

#[test]
fn what_was_said_to_be_durable_is_found_after_a_power_cut() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let table = table(&engine, "t");
        let writers: Vec<_> = [(1u64, Durability::Buffered), (2, Durability::Sync)]
            .into_iter()
            .map(|(own, durability)| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    let mut batch = engine.batch();
                    batch.upsert(&table, (own, own)).expect("it fits");
                    batch.upsert(&table, (own + 10, own)).expect("it fits");
                    let ticket = batch.commit(durability).expect("healthy");
                    if durability == Durability::Buffered {
                        engine.wait_durable(ticket).expect("healthy");
                    }
                    assert!(ticket <= engine.last_durable());
                    (own, ticket)
                })
            })
            .collect();
        let cutter = spawn({
            let (engine, disk) = (engine.clone(), disk.clone());
            move || [(); 3].map(|()| (engine.last_durable(), disk.fs.power_cut(&PowerCut::lose_all())))
        });
        let flusher = spawn({
            let table = table.clone();
            move || table.flush().expect("healthy")
        });
        let cuts = join(cutter);
        let tickets: Vec<(u64, Version)> = writers.into_iter().map(join).collect();
        join(flusher);
        engine.close().expect("a clean end");
        for (durable, cut) in cuts {
            let cut = reopen(&cut);
            let found = cut.recovered_to();
            assert!(found >= durable, "{durable} was durable, {found} was found");
            let table = super::world::table(&cut, "t");
            for (own, ticket) in &tickets {
                assert_eq!(get(&table, *own).is_some(), *ticket <= found, "{ticket}, and {found} was found");
            }
        }
    });
}
