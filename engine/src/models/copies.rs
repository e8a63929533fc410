//! Checkpoints made while commits and flushes go on: a copy holds a prefix of the commits, and a transaction whole or
//! not at all.

use std::sync::Arc;

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, assert_clean, get, join, open, spawn, table, tiny};
use crate::{Durability, Engine, ErrorKind, Options, Table, Version};

/// Writes a row to each table, in one batch.
fn write_both(engine: &Engine, tables: &[Table; 2], id: u64) -> Version {
    let mut batch = engine.batch();
    for table in tables {
        batch.upsert(table, (id, id)).expect("it fits");
    }
    batch.commit(Durability::Buffered).expect("healthy")
}

/// Moves one from row 0 to row 1, if nobody else does so meanwhile.
fn transfer(engine: &Engine, table: &Table) -> Option<Version> {
    let mut transaction = engine.transaction();
    for (id, change) in [(0u64, -1i64), (1, 1)] {
        let row = transaction.get(table, (id,)).expect("healthy").expect("it is always there");
        let value = row.get::<u64>("value").expect("a number").wrapping_add_signed(change);
        transaction.update(table, (id,), [("value", value)]).expect("it is there");
    }
    let committed = transaction.commit(Durability::Buffered);
    let ticket = committed.as_ref().ok().copied();
    acknowledged(committed, &[ErrorKind::Conflict]);
    ticket
}

#[test]
fn a_checkpoint_made_beside_commits_holds_a_prefix_of_them() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let tables = ["a", "b"].map(|name| table(&engine, name));
        for id in [0u64, 1] {
            tables[0].upsert((id, 10u64)).expect("healthy");
        }
        let writers: Vec<_> = [10u64, 20]
            .into_iter()
            .map(|own| {
                let (engine, tables) = (engine.clone(), tables.clone());
                spawn(move || {
                    let first = write_both(&engine, &tables, own);
                    let moved = transfer(&engine, &tables[0]);
                    let second = write_both(&engine, &tables, own + 1);
                    ([(own, first), (own + 1, second)], moved)
                })
            })
            .collect();
        let flusher = spawn({
            let table = tables[0].clone();
            move || table.flush().expect("healthy")
        });
        let copier = spawn({
            let engine = engine.clone();
            move || {
                let before = engine.last_committed();
                let report = engine.checkpoint("/copy").expect("healthy");
                (before, report.version)
            }
        });
        let (before, barrier) = join(copier);
        let written: Vec<_> = writers.into_iter().map(join).collect();
        join(flusher);
        engine.close().expect("a clean end");

        let fs = Arc::new(Disk::on(disk.fs.fork()));
        let copy = Engine::open("/copy", Options { fs, ..tiny() }).expect("it is whole");
        assert_clean(&copy);
        let found = copy.recovered_to();
        assert_eq!(found, barrier, "the last commit that may be in it is");
        assert!(before <= found, "{before} had returned before, and {found} was the last");
        let copies = ["a", "b"].map(|name| table(&copy, name));
        for (id, ticket) in written.iter().flat_map(|(batches, _)| batches) {
            for table in &copies {
                assert_eq!(get(table, *id).is_some(), *ticket <= found, "row {id}, {ticket} of {found}");
            }
        }
        let moved =
            written.iter().filter_map(|(_, moved)| *moved).filter(|ticket| *ticket <= found).count() as u64;
        assert_eq!([0, 1].map(|id| get(&copies[0], id)), [Some(10 - moved), Some(10 + moved)]);
    });
}
