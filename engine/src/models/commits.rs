//! The commit queue, validation and publication.

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, get, get_at, join, open, rows_at, spawn, table, tiny};
use crate::{Durability, Engine, ErrorKind, Table};

/// Writes `value` under key 0 of both tables, and under a key of the writer's own, at once.
fn write_both(engine: &Engine, tables: &[Table; 2], own: u64, value: u64, durability: Durability) {
    let mut batch = engine.batch();
    for table in tables {
        batch.upsert(table, (0u64, value)).expect("it fits");
    }
    batch.upsert(&tables[0], (own, value)).expect("it fits");
    batch.commit(durability).expect("healthy");
}

/// What a reader may rely on while two threads write batches over two tables, one of them synced.
#[test]
fn a_batch_is_seen_whole_once_and_for_all_and_not_before_its_own_write_returns() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let tables = [table(&engine, "a"), table(&engine, "b")];
        let writers: Vec<_> = [(1, Durability::Buffered), (2, Durability::Sync)]
            .into_iter()
            .map(|(own, durability)| {
                let (engine, tables) = (engine.clone(), tables.clone());
                spawn(move || {
                    for value in [10 * own + 1, 10 * own + 2] {
                        write_both(&engine, &tables, own, value, durability);
                        assert_eq!(get(&tables[0], own), Some(value), "a writer reads what it wrote");
                    }
                })
            })
            .collect();
        let reader = spawn({
            let (engine, tables) = (engine.clone(), tables.clone());
            move || {
                let mut before = [None; 2];
                for _ in 0..3 {
                    let snapshot = engine.snapshot();
                    let seen = rows_at(&tables[0], &snapshot);
                    let shared = seen.iter().find(|row| row.0 == 0).map(|row| row.1);
                    assert_eq!(shared, get_at(&tables[1], 0, &snapshot), "a batch lies whole in a snapshot");
                    assert_eq!(seen, rows_at(&tables[0], &snapshot), "a snapshot does not change");
                    let own = [1, 2].map(|own| seen.iter().find(|row| row.0 == own).map(|row| row.1));
                    assert!(before.iter().zip(&own).all(|(before, now)| before <= now), "{before:?} {own:?}");
                    before = own;
                    let latest = [1, 2].map(|own| get(&tables[0], own));
                    assert!(before.iter().zip(&latest).all(|(before, now)| before <= now), "no way back");
                    before = latest;
                }
            }
        });
        writers.into_iter().for_each(join);
        join(reader);
        assert_eq!(get(&tables[0], 0), get(&tables[1], 0));
        assert_eq!([1, 2].map(|own| get(&tables[0], own)), [Some(12), Some(22)]);
        engine.close().expect("a clean end");
    });
}

/// Three threads insert one key, also while its memtable is sealed and flushed: one of them wins.
#[test]
fn of_several_inserts_of_one_key_one_goes_through() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        let inserters: Vec<_> = (1..=3u64)
            .map(|value| {
                let table = table.clone();
                spawn(move || {
                    if value == 1 {
                        // A blind write before it: now the groups of the three have something to form behind.
                        table.upsert((9u64, 9u64)).expect("healthy");
                    }
                    acknowledged(table.insert((0u64, value)), &[ErrorKind::DuplicateKey]).then_some(value)
                })
            })
            .collect();
        let flusher = spawn({
            let table = table.clone();
            move || table.flush().expect("healthy")
        });
        let won: Vec<u64> = inserters.into_iter().filter_map(join).collect();
        join(flusher);
        assert_eq!(won.len(), 1, "{won:?} all inserted the key");
        assert_eq!(get(&table, 0), Some(won[0]));
        engine.close().expect("a clean end");
    });
}

/// A check is against what is there when the batch is written, not when it was evaluated.
#[test]
fn checked_operations_on_one_row_are_as_if_one_after_the_other() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        table.upsert((0u64, 0u64)).expect("healthy");
        // Deleted and inserted by one, updated by another: the update meets a row, or says that there is none.
        let mover = spawn({
            let (engine, table) = (engine.clone(), table.clone());
            move || {
                table.delete((0u64,)).expect("healthy");
                let mut batch = engine.batch();
                batch.insert(&table, (0u64, 7u64)).expect("it fits");
                batch.insert(&table, (1u64, 7u64)).expect("it fits");
                batch.commit(Durability::Buffered).expect("nobody else inserts");
            }
        });
        let updater = spawn({
            let table = table.clone();
            move || acknowledged(table.update((0u64,)).set("value", 5u64).apply(), &[ErrorKind::MissingRow])
        });
        let flusher = spawn({
            let table = table.clone();
            move || table.flush().expect("healthy")
        });
        join(mover);
        let updated = join(updater);
        join(flusher);
        let left = get(&table, 0);
        assert!(left == Some(7) || (updated && left == Some(5)), "{left:?}");
        assert_eq!(get(&table, 1), Some(7));
        engine.close().expect("a clean end");
    });
}
