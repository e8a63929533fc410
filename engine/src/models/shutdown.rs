//! The end of an engine, by a close and by the last handle, with everybody still at work.

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, assert_clean, get, join, open, reopen, rows, spawn, table, tiny};
use crate::{Durability, ErrorKind, Options, Table};

/// Two writers, a caller of compact, and one who makes a table; then two closes.
#[test]
fn a_close_wakes_all_and_keeps_what_was_acknowledged_and_nothing_changes_after_it() {
    check(|| {
        let disk = Disk::new();
        // Two threads compact: both have to hear of the close.
        let engine = open(&disk, Options { background_threads: 3, ..tiny() });
        let table = table(&engine, "t");
        // Something to merge and to move.
        for value in 0..2u64 {
            table.upsert((0u64, value)).expect("healthy");
            table.flush().expect("healthy");
        }
        let writers: Vec<_> = [(1u64, Durability::Buffered), (2, Durability::Sync)]
            .into_iter()
            .map(|(own, durability)| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    let mut last = None;
                    for value in 1..=3u64 {
                        let mut batch = engine.batch();
                        batch.upsert(&table, (own, value)).expect("it fits");
                        batch.upsert(&table, (own + 10, value)).expect("it fits");
                        if acknowledged(batch.commit(durability), &[ErrorKind::Closed]) {
                            last = Some(value);
                        }
                    }
                    last
                })
            })
            .collect();
        let worker = spawn({
            let table = table.clone();
            move || {
                acknowledged(table.compact(), &[ErrorKind::Closed]);
            }
        });
        let maker = spawn({
            let engine = engine.clone();
            move || {
                let schema = crate::Schema::builder().key("id", crate::Type::U64).build().expect("a schema");
                acknowledged(engine.create_table("made", schema).map(drop), &[ErrorKind::Closed])
            }
        });
        let closers: Vec<_> = (0..2)
            .map(|_| {
                let (engine, disk) = (engine.clone(), disk.clone());
                spawn(move || {
                    engine.close().expect("a clean end");
                    disk.end();
                })
            })
            .collect();
        closers.into_iter().for_each(join);
        let acknowledged: Vec<_> = writers.into_iter().map(join).collect();
        join(worker);
        let made = join(maker);
        drop(table);
        drop(engine);
        disk.assert_unchanged_since_end();

        let engine = reopen(&disk.fs);
        assert_eq!(engine.recovery_report().batches, 0, "a clean end leaves nothing to replay");
        assert!(
            !made || engine.tables().contains(&"made".to_owned()),
            "a table whose making was acknowledged"
        );
        let table = super::world::table(&engine, "t");
        assert_eq!(get(&table, 0), Some(1));
        for (own, acknowledged) in [1, 2].into_iter().zip(acknowledged) {
            let found = get(&table, own);
            assert_eq!(found, get(&table, own + 10), "a batch is there whole or not at all");
            assert!(found >= acknowledged, "{acknowledged:?} was acknowledged, {found:?} is there");
        }
        assert_clean(&engine);
    });
}

/// The last handle closes: an iterator and a snapshot hold nothing open, and the next open finds the directory free.
#[test]
fn when_the_last_handle_goes_the_engine_closes_whoever_has_it() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let table = table(&engine, "t");
        let use_it = |table: Table, own: u64| {
            spawn(move || {
                table.upsert((own, own)).expect("it is open as long as this handle is");
                let mut rows = table.scan().rows().expect("healthy");
                drop(table);
                // It may have been the last handle. The iterator ends, or says that the engine is closed.
                rows.find_map(Result::err).map(|error| error.kind())
            })
        };
        let users = [use_it(table.clone(), 1), use_it(table, 2)];
        let dropper = spawn(move || drop(engine));
        for user in users {
            assert!(matches!(join(user), None | Some(ErrorKind::Closed)));
        }
        join(dropper);
        disk.end();
        let engine = reopen(&disk.fs);
        assert_eq!(engine.recovery_report().batches, 0, "a clean end leaves nothing to replay");
        assert_eq!(rows(&super::world::table(&engine, "t")), [(1, 1), (2, 2)]);
        drop(engine);
        disk.assert_unchanged_since_end();
    });
}
