//! What comes between a transaction's own check and its commit.

use std::sync::Arc;

use vfs::SimFs;

use super::*;
use crate::{Engine, Options, Schema, Type};

/// An engine without background work, and a table with the rows 10 and 20.
pub(super) fn world() -> (Engine, Table) {
    let options = Options {
        fs: Arc::new(SimFs::new(1)),
        background_sync_interval: None,
        log_segment_bytes: 64 << 10,
        ..Options::default()
    };
    let engine = Engine::open("/db", options).expect("it opens");
    let schema = Schema::builder().key("id", Type::U64).column("value", Type::U64).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a table");
    for id in [10, 20] {
        table.upsert((id, 0)).expect("healthy");
    }
    (engine, table)
}

/// Lets `write` be committed after the transaction's own check of what it read and before the leader's. Both wait for
/// the stage then, in this order.
fn commit_behind(
    engine: &Engine,
    transaction: Transaction,
    write: impl FnOnce() -> Result<()> + Send,
) -> Result<crate::Version> {
    let core = engine.core();
    std::thread::scope(|scope| {
        let stage = core.commit.stage();
        let wait_for = |waiting| {
            while core.commit.waiting() < waiting {
                std::thread::yield_now();
            }
        };
        let writer = scope.spawn(write);
        wait_for(1);
        let committer = scope.spawn(move || transaction.commit(Durability::Buffered));
        wait_for(2);
        drop(stage);
        writer.join().expect("no panic").expect("nobody refuses it");
        committer.join().expect("no panic")
    })
}

type Read = fn(&Transaction, &Table) -> Result<()>;
type Write = fn(&Table) -> Result<()>;

/// What was read, what was written meanwhile, and whether the two go together.
const CASES: [(&str, Read, Write, bool); 17] = [
    ("a key that is changed", |tx, t| tx.get(t, (10,)).map(drop), |t| t.upsert((10, 1)), false),
    ("a key that is deleted", |tx, t| tx.exists(t, (10,)).map(drop), |t| t.delete((10,)), false),
    (
        "that a key is there, which is changed",
        |tx, t| tx.exists(t, (10,)).map(drop),
        |t| t.upsert((10, 1)),
        true,
    ),
    (
        "that a key is there, and its row",
        |tx, t| {
            tx.exists(t, (10,)).and_then(|_| tx.get(t, (10,))).and_then(|_| tx.exists(t, (10,))).map(drop)
        },
        |t| t.upsert((10, 1)),
        false,
    ),
    (
        "that a key is absent, which comes",
        |tx, t| tx.exists(t, (15,)).map(drop),
        |t| t.upsert((15, 1)),
        false,
    ),
    (
        "a key, and a range that it lies in",
        |tx, t| tx.exists(t, (10,)).and_then(|_| tx.count(t)).map(drop),
        |t| t.upsert((10, 1)),
        false,
    ),
    ("an absent key that comes", |tx, t| tx.get(t, (15,)).map(drop), |t| t.upsert((15, 1)), false),
    ("an absent key that is deleted", |tx, t| tx.get(t, (15,)).map(drop), |t| t.delete((15,)), true),
    ("another key", |tx, t| tx.get(t, (10,)).map(drop), |t| t.upsert((20, 1)), true),
    ("many keys", |tx, t| tx.multi_get(t, [(10,), (11,)]).map(drop), |t| t.upsert((11, 1)), false),
    ("the whole table", |tx, t| tx.count(t).map(drop), |t| t.upsert((15, 1)), false),
    ("a row of the table that goes", |tx, t| tx.count(t).map(drop), |t| t.delete((20,)), false),
    (
        "an empty range",
        |tx, t| tx.scan(t).range((11,)..(20,)).count().map(drop),
        |t| t.upsert((19, 1)),
        false,
    ),
    (
        "beyond the range",
        |tx, t| tx.scan(t).range((11,)..(20,)).count().map(drop),
        |t| t.upsert((20, 1)),
        true,
    ),
    ("before what was scanned", |tx, t| tx.scan(t).limit(1).count().map(drop), |t| t.upsert((9, 1)), false),
    ("behind what was scanned", |tx, t| tx.scan(t).limit(1).count().map(drop), |t| t.upsert((11, 1)), true),
    (
        "behind what was scanned in reverse",
        |tx, t| tx.scan(t).reverse().limit(1).count().map(drop),
        |t| t.upsert((19, 1)),
        true,
    ),
];

/// The same, of two writes in a row.
const IN_TWO_STEPS: [(&str, Read, Write, bool); 2] = [
    (
        "that a key is there, which goes and comes",
        |tx, t| tx.exists(t, (10,)).map(drop),
        |t| t.delete((10,)).and_then(|()| t.upsert((10, 1))),
        true,
    ),
    (
        "that a key is there, which comes and goes",
        |tx, t| tx.exists(t, (10,)).map(drop),
        |t| t.upsert((10, 1)).and_then(|()| t.delete((10,))),
        false,
    ),
];

#[test]
fn the_leader_checks_what_came_after_the_transactions_own_check() {
    for (what, read, write, goes_together) in CASES {
        let (engine, table) = world();
        let mut transaction = engine.transaction();
        read(&transaction, &table).expect("it reads");
        transaction.upsert(&table, (30, 1)).expect("it fits");
        let committed = commit_behind(&engine, transaction, || write(&table));
        match committed {
            Ok(_) => assert!(goes_together, "{what}: it must be a conflict"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(!goes_together, "{what}: {error}");
            }
        }
        assert_eq!(table.exists((30,)).expect("healthy"), goes_together, "{what}");
    }
}

#[test]
fn the_own_check_finds_what_came_since_the_snapshot_in_memory_and_on_disk() {
    for (what, read, write, goes_together) in CASES.into_iter().chain(IN_TWO_STEPS) {
        for on_disk in ["nothing", "what was there", "what came", "all of it, compacted"] {
            let (engine, table) = world();
            if on_disk == "what was there" {
                table.flush().expect("healthy");
            }
            let mut transaction = engine.transaction();
            read(&transaction, &table).expect("it reads");
            write(&table).expect("healthy");
            match on_disk {
                "what came" => table.flush().expect("healthy"),
                "all of it, compacted" => table.compact().expect("healthy"),
                _ => {}
            }
            transaction.upsert(&table, (30, 1)).expect("it fits");
            let committed = transaction.commit(Durability::Buffered);
            assert_eq!(committed.is_ok(), goes_together, "{what}, on disk {on_disk}: {committed:?}");
        }
    }
}

#[test]
fn blind_writes_conflict_with_nothing() {
    let (engine, table) = world();
    let mut transaction = engine.transaction();
    transaction.upsert(&table, (10, 5)).expect("it fits");
    transaction.delete(&table, (20,)).expect("it fits");
    // Its own writes are no reads of the store.
    assert!(transaction.exists(&table, (10,)).expect("healthy"));
    assert!(transaction.get(&table, (20,)).expect("healthy").is_none());
    let mut batch = engine.batch();
    for id in [10, 20] {
        batch.upsert(&table, (id, 1)).expect("it fits");
    }
    commit_behind(&engine, transaction, move || batch.commit(Durability::Buffered).map(drop))
        .expect("it has read nothing");
    assert_eq!(table.count().expect("healthy"), 1);
}

/// How a scan is read, and which is the last row that the caller knows of.
type Step = fn(crate::Scan) -> Result<Box<dyn Send>>;

const STEPS: [(&str, Step, [u64; 2]); 9] = [
    ("nothing", |scan| Ok(Box::new(scan.rows()?)), [0, 0]),
    ("a row", |scan| with(scan.rows()?, |rows| rows.next().is_some()), [20, 4999]),
    ("rows", |scan| with(scan.rows()?, |rows| rows.take(3).count() == 3), [1001, 4997]),
    (
        "a row of some columns",
        |scan| with(scan.columns(["value"]).rows()?, |rows| rows.next().is_some()),
        [20, 4999],
    ),
    ("a lent row", |scan| with(scan.cursor()?, |cursor| matches!(cursor.next(), Ok(Some(_)))), [20, 4999]),
    ("a batch", |scan| with(scan.batches()?, |batches| batches.next().is_some()), [1014, 4984]),
    (
        "what a filter leaves",
        |scan| with(scan.filter(crate::column("id").ne(20)).rows()?, |rows| rows.next().is_some()),
        [1000, 4999],
    ),
    (
        "what a filter of rows leaves",
        |scan| with(scan.filter(crate::column("value").eq(7)).rows()?, |rows| rows.next().is_some()),
        [3000, 3000],
    ),
    ("the number of some", |scan| Ok(Box::new(scan.limit(2).count()?)), [1000, 4998]),
];

fn with<T: Send + 'static>(mut scan: T, read: impl FnOnce(&mut T) -> bool) -> Result<Box<dyn Send>> {
    assert!(read(&mut scan));
    Ok(Box::new(scan))
}

#[test]
fn a_scan_is_checked_as_far_as_the_caller_knows_of_it() {
    let (engine, table) = world();
    table.delete((10,)).expect("healthy");
    for id in 1000..5000 {
        table.upsert((id, if id == 3000 { 7 } else { 0 })).expect("healthy");
    }
    for flushed in [false, true] {
        if flushed {
            table.flush().expect("healthy");
        }
        for (what, step, [last, last_in_reverse]) in STEPS {
            for (last, reverse) in [(last, false), (last_in_reverse, true)] {
                let is_known = |id: u64| {
                    if last == 0 {
                        false
                    } else if reverse {
                        id >= last
                    } else {
                        id <= last
                    }
                };
                let next = if reverse { last.wrapping_sub(1) } else { last + 1 };
                for written in [15, 25, 4998, 6000, last, next] {
                    // A row that the filter looks at would be another row then.
                    let value =
                        table.get((written,)).expect("healthy").map_or(Ok(0), |row| row.get::<u64>("value"));
                    let value = value.expect("a number");
                    let was_there = table.exists((written,)).expect("healthy");
                    let mut transaction = engine.transaction();
                    let scan = transaction.scan(&table);
                    let held = step(if reverse { scan.reverse() } else { scan }).expect("healthy");
                    table.upsert((written, value)).expect("healthy");
                    transaction.upsert(&table, (30_000, 1)).expect("it fits");
                    let committed = transaction.commit(Durability::Buffered);
                    let text = format!("{what}, reverse: {reverse}, {written} was written: {committed:?}");
                    assert_eq!(committed.is_ok(), !is_known(written), "{text}");
                    drop(held);
                    table.delete((30_000,)).expect("healthy");
                    if !was_there {
                        table.delete((written,)).expect("healthy");
                    }
                }
            }
        }
    }
}

#[test]
fn a_scan_that_has_ended_was_read_to_the_end_unless_its_limit_ended_it() {
    let (engine, table) = world();
    for (limit, goes_together) in [(2, true), (3, false)] {
        for by in ["rows", "cursor", "batches", "count"] {
            let mut transaction = engine.transaction();
            let scan = transaction.scan(&table).limit(limit);
            match by {
                "rows" => assert_eq!(scan.rows().expect("it starts").count(), 2),
                "cursor" => {
                    let mut cursor = scan.cursor().expect("it starts");
                    while cursor.next().expect("healthy").is_some() {}
                }
                "batches" => assert_eq!(scan.batches().expect("it starts").count(), 1),
                _ => assert_eq!(scan.count().expect("healthy"), 2),
            }
            table.upsert((25, 1)).expect("healthy");
            transaction.upsert(&table, (5, 1)).expect("it fits");
            let committed = transaction.commit(Durability::Buffered);
            assert_eq!(committed.is_ok(), goes_together, "{by}, limit {limit}: {committed:?}");
            for id in [5, 25] {
                table.delete((id,)).expect("healthy");
            }
        }
    }
}
