//! Many threads on the same rows, tables and files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use nyala::{Durability, Engine, ErrorKind, Options, Schema, Type};

use crate::gate::{Call, GateFs};
use crate::support::{
    assert_clean, effort, in_time, lazy, on, pair, plain, plain_table, rows, scratch, tiny,
};

#[test]
fn of_checked_inserts_that_race_for_a_key_one_wins() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    let keys = 300 * effort();
    let won = AtomicU64::new(0);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8i64 {
            let (engine, table, won, start) = (&engine, &table, &won, &start);
            scope.spawn(move || {
                let mut batch = engine.batch();
                for id in 0..keys {
                    // All at once, so that several are in one group.
                    start.wait();
                    let inserted = match (i64::from(id) + thread) % 3 {
                        0 => table.insert((id, thread, "single")),
                        1 => {
                            batch.clear();
                            batch.insert(table, (id, thread, "batch")).expect("encoded");
                            batch.commit(Durability::Buffered).map(drop)
                        }
                        _ => match table.insert_ignore((id, thread, "ignore")) {
                            Ok(true) => Ok(()),
                            Ok(false) => continue,
                            Err(error) => Err(error),
                        },
                    };
                    match inserted {
                        Ok(()) => {
                            won.fetch_add(1, Ordering::Relaxed);
                            let row = table.get((id,)).expect("a row").expect("it is there");
                            assert_eq!(pair(&row), (id, thread), "somebody else's row is on top");
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(won.load(Ordering::Relaxed), u64::from(keys), "each key is inserted exactly once");
    assert_eq!(table.count().expect("rows"), u64::from(keys));
    assert_clean(&engine);
}

#[test]
fn numbers_drawn_by_insert_are_drawn_once_and_without_gaps() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    let each = 80 * effort();
    std::thread::scope(|scope| {
        for thread in 0..6i64 {
            let table = &table;
            scope.spawn(move || {
                for _ in 0..each {
                    loop {
                        let last =
                            table.scan().reverse().limit(1).columns(["id"]).rows().expect("a scan").next();
                        let next =
                            last.map_or(0, |row| row.expect("a row").get::<u32>("id").expect("an id") + 1);
                        match table.insert((next, thread, "drawn")) {
                            Ok(()) => break,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}"),
                        }
                    }
                }
            });
        }
    });
    let drawn = rows(&table);
    assert!(drawn.iter().map(|(id, _)| *id).eq(0..6 * each));
    for thread in 0..6 {
        assert_eq!(drawn.iter().filter(|(_, by)| *by == thread).count(), each as usize);
    }
}

#[test]
fn updates_of_different_columns_of_one_row_lose_nothing() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let builder = (0..4)
        .fold(Schema::builder().key("id", Type::U8), |schema, n| schema.column(format!("c{n}"), Type::U32));
    let table = engine.create_table("t", builder.build().expect("good")).expect("a table");
    table.upsert((1, 0, 0, 0, 0)).expect("a row");
    let last = 400 * effort();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                let column = format!("c{thread}");
                for number in 1..=last {
                    table.update((1,)).set(&column, number).apply().expect("the row is there");
                    let row = table.get((1,)).expect("a row").expect("it is there");
                    assert_eq!(row.get::<u32>(&column).expect("a number"), number, "{column} was set back");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                table.flush().expect("it is flushed");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    let row = table.get((1,)).expect("a row").expect("it is there");
    for column in ["c0", "c1", "c2", "c3"] {
        assert_eq!(row.get::<u32>(column).expect("a number"), last);
    }
}

/// Money moves between the accounts of two tables; the sum is always the same, for everybody.
#[test]
fn readers_see_batches_whole_and_snapshots_do_not_change() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), Options { row_block_bytes: 128, ..tiny() }).expect("it opens");
    let tables = [plain_table(&engine), engine.create_table("u", plain()).expect("a table")];
    let accounts = 40u32;
    let mut batch = engine.batch();
    for table in &tables {
        for id in 0..accounts {
            batch.upsert(table, (id, 100, None::<&str>)).expect("encoded");
        }
    }
    batch.commit(Durability::Buffered).expect("it is committed");
    let sum_at = |snapshot: &nyala::Snapshot| -> i64 {
        let scan = |table: &nyala::Table, reverse: bool| -> i64 {
            let scan = table.scan().at(snapshot);
            let scan = if reverse { scan.reverse() } else { scan };
            scan.rows().expect("a scan").map(|row| pair(&row.expect("a row")).1).sum()
        };
        let by_key: i64 = (0..accounts)
            .map(|id| pair(&tables[1].get_at((id,), snapshot).expect("a row").expect("it is there")).1)
            .sum();
        let backward = scan(&tables[1], true);
        assert_eq!(by_key, backward);
        scan(&tables[0], false) + backward
    };
    let total = i64::from(accounts) * 200;
    let stop = AtomicBool::new(false);
    let held = engine.snapshot();
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let (engine, tables, stop) = (&engine, &tables, &stop);
            scope.spawn(move || {
                let mut batch = engine.batch();
                let mut turn = 0u32;
                // Each writer has its own accounts, so that it knows their balances.
                let mut balances = vec![[100i64, 100]; accounts as usize];
                while !stop.load(Ordering::Relaxed) {
                    turn = turn.wrapping_add(1);
                    for step in 0..1 + turn % 5 {
                        let from = (turn.wrapping_mul(7) + step * 2) % (accounts / 2) * 2 + writer;
                        let amount = i64::from(turn % 50) - 20;
                        let [a, b] = &mut balances[from as usize];
                        *a -= amount;
                        *b += amount;
                        batch.upsert(&tables[0], (from, *a, None::<&str>)).expect("encoded");
                        batch.upsert(&tables[1], (from, *b, None::<&str>)).expect("encoded");
                    }
                    let durability =
                        if turn.is_multiple_of(16) { Durability::Sync } else { Durability::Buffered };
                    batch.commit(durability).expect("it is committed");
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                tables[0].compact().expect("it is merged");
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (engine, sum_at, held) = (&engine, &sum_at, &held);
                scope.spawn(move || {
                    for _ in 0..60 * effort() {
                        let snapshot = engine.snapshot();
                        assert_eq!(
                            sum_at(&snapshot),
                            total,
                            "half a batch at version {}",
                            snapshot.version()
                        );
                        assert_eq!(sum_at(held), total);
                        assert_eq!(sum_at(&snapshot), total, "the snapshot has changed");
                    }
                })
            })
            .collect();
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        read.into_iter().for_each(|read| read.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    let first: Vec<_> =
        (0..accounts).map(|id| tables[0].get_at((id,), &held).expect("a row").expect("there")).collect();
    assert!(first.iter().all(|row| pair(row).1 == 100), "the snapshot from before the first turn");
    drop(held);
    assert_clean(&engine);
}

/// Reads and writes of every kind, each within a second or so.
fn everything_goes_on(engine: &Engine, mine: &nyala::Table, other: &nyala::Table) {
    let (engine, mine, other) = (engine.clone(), mine.clone(), other.clone());
    in_time("reads and writes beside it", Duration::from_secs(10), move || {
        for id in 0..50 {
            mine.upsert((1000 + id, 1, "on")).expect("a row");
            mine.update((1000 + id,)).set("number", 2).apply().expect("it is there");
            other.insert((1000 + id, 1, "on")).expect("a row");
            assert_eq!(mine.get((1000 + id,)).expect("a row").map(|row| pair(&row).1), Some(2));
        }
        let mut batch = engine.batch();
        batch.delete(&mine, (1000,)).expect("encoded");
        batch.delete(&other, (1000,)).expect("encoded");
        batch.commit(Durability::Sync).expect("it is committed");
        assert_eq!(mine.scan().range((1000,)..).count().expect("rows"), 49);
        assert_eq!(other.scan().range((1000,)..).reverse().count().expect("rows"), 49);
        let snapshot = engine.snapshot();
        assert!(mine.get_at((0,), &snapshot).expect("a row").is_some());
        engine.create_table("new", plain()).expect("a table").upsert((1, 1, "a")).expect("a row");
        engine.drop_table("new").expect("it is dropped");
        let _ = (engine.stats(), engine.health());
    });
}

#[test]
fn while_a_flush_stands_still_everything_else_goes_on() {
    for (call, suffix) in
        [(Call::Write, ".row"), (Call::Sync, ".row"), (Call::Sync, ".idx"), (Call::Open, ".idx")]
    {
        let dir = scratch();
        let fs = GateFs::unsynced();
        let engine = Engine::open(dir.path(), on(Arc::new(fs.clone()), lazy())).expect("it opens");
        let (mine, other) = (plain_table(&engine), engine.create_table("u", plain()).expect("a table"));
        for id in 0..100 {
            mine.upsert((id, 1, "a")).expect("a row");
        }
        let held = fs.hold(call, suffix, "nyala-flush");
        let flusher = {
            let mine = mine.clone();
            std::thread::spawn(move || mine.flush())
        };
        held.wait_reached();
        everything_goes_on(&engine, &mine, &other);
        assert!(!flusher.is_finished());
        held.open();
        flusher.join().expect("no panic").expect("it is flushed");
        assert_eq!(mine.count().expect("rows"), 149);
        assert_clean(&engine);
    }
}

#[test]
fn while_a_compaction_stands_still_everything_else_goes_on_and_flushes_too() {
    for call in [Call::Create, Call::Write, Call::Sync] {
        let dir = scratch();
        let fs = GateFs::unsynced();
        let engine = Engine::open(dir.path(), on(Arc::new(fs.clone()), lazy())).expect("it opens");
        let (mine, other) = (plain_table(&engine), engine.create_table("u", plain()).expect("a table"));
        for number in 0..2 {
            for id in 0..100 {
                mine.upsert((id, number, "a")).expect("a row");
            }
            mine.flush().expect("it is flushed");
        }
        let held = fs.hold(call, ".idx", "compactor");
        let compactor = {
            let mine = mine.clone();
            std::thread::Builder::new()
                .name("compactor".into())
                .spawn(move || mine.compact())
                .expect("a thread")
        };
        held.wait_reached();
        everything_goes_on(&engine, &mine, &other);
        mine.flush().expect("flushes go on");
        other.compact().expect("another table's compaction goes on");
        assert!(!compactor.is_finished());
        held.open();
        compactor.join().expect("no panic").expect("it is merged");
        assert_eq!(mine.count().expect("rows"), 149);
        assert_clean(&engine);
        engine.close().expect("a clean end");
        let engine = Engine::open(dir.path(), lazy()).expect("it opens");
        assert_eq!(plain_table(&engine).count().expect("rows"), 149);
        assert_clean(&engine);
    }
}

// docs/testing.md, fault 48, small
#[test]
fn tables_are_made_and_dropped_by_many_threads_at_once() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let names: Vec<String> = (0..5).map(|n| format!("t{n}")).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (engine, names) = (&engine, &names);
            scope.spawn(move || {
                for turn in 0..40 * effort() {
                    let name = &names[((turn * 3 + thread) % 5) as usize];
                    let done = match turn % 4 {
                        0 | 1 => engine.open_or_create_table(name, plain()).and_then(|table| {
                            for id in 0..30 {
                                table.upsert((id, i64::from(turn), "a"))?;
                            }
                            Ok(())
                        }),
                        2 => engine.existing_table(name).and_then(|table| table.flush()),
                        _ => engine.drop_table(name),
                    };
                    if let Err(error) = done {
                        assert!(
                            matches!(error.kind(), ErrorKind::NoSuchTable | ErrorKind::TableExists),
                            "{error}"
                        );
                    }
                }
            });
        }
    });
    assert!(matches!(engine.health(), nyala::Health::Healthy), "{:?}", engine.health());
    assert_clean(&engine);
    let before: BTreeSet<String> = engine.tables().into_iter().collect();
    let counts: Vec<u64> = before
        .iter()
        .map(|name| engine.existing_table(name).expect("there").count().expect("rows"))
        .collect();
    engine.close().expect("a clean end");
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    assert_eq!(engine.tables().into_iter().collect::<BTreeSet<_>>(), before);
    let again: Vec<u64> = before
        .iter()
        .map(|name| engine.existing_table(name).expect("there").count().expect("rows"))
        .collect();
    assert_eq!(counts, again);
    assert_clean(&engine);
}
