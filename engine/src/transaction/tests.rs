//! What comes between a transaction's own check and its commit.

use std::sync::Arc;

use encoded_key::KeyRange;
use sstable::Direction;
use vfs::SimFs;

use super::*;
use crate::{Engine, Options, Schema, Type};

/// An engine without background work, and a table with the rows 10 and 20.
fn world() -> (Engine, Table) {
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

/// Lets `write` be committed after the transaction's own check of what it read and before the leader's. Both wait for the
/// stage then, in this order.
fn commit_behind(
    engine: &Engine,
    transaction: Transaction,
    write: impl FnOnce() -> Result<()> + Send,
) -> Result<Ticket> {
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
const CASES: [(&str, Read, Write, bool); 13] = [
    ("a key that is changed", |tx, t| tx.get(t, (10,)).map(drop), |t| t.upsert((10, 1)), false),
    ("a key that is deleted", |tx, t| tx.exists(t, (10,)).map(drop), |t| t.delete((10,)), false),
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
    for (what, read, write, goes_together) in CASES {
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

#[test]
fn a_scan_is_checked_as_far_as_it_was_read() {
    let (engine, table) = world();
    for id in 1000..5000 {
        table.upsert((id, 0)).expect("healthy");
    }
    for (reverse, read, unread) in [(false, 10, 4999), (true, 4999, 10)] {
        for (written, goes_together) in [(read, false), (unread, true)] {
            let mut transaction = engine.transaction();
            let scan = transaction.scan(&table);
            let mut rows = if reverse { scan.reverse() } else { scan }.rows().expect("it starts");
            rows.next().expect("there are rows").expect("healthy");
            table.upsert((written, 7)).expect("healthy");
            transaction.upsert(&table, (30_000, 1)).expect("it fits");
            let committed = transaction.commit(Durability::Buffered);
            assert_eq!(committed.is_ok(), goes_together, "{reverse} {written}: {committed:?}");
            table.delete((30_000,)).expect("healthy");
            // What comes after the end is nobody's business.
            assert!(rows.all(|row| row.is_ok()));
        }
    }
}

#[test]
fn what_is_behind_an_error_of_a_scan_counts_as_read() {
    let set = Arc::new(Mutex::new(ReadSet::new(Limits { reads_max: 10, bytes_max: 1000 })));
    let (engine, table) = world();
    let scan =
        ScanReads::begin(&set, table.core(), &KeyRange::all(), Direction::Forward).expect("there is room");
    scan.through(b"b");
    scan.through(b"c");
    let other =
        ScanReads::begin(&set, table.core(), &KeyRange::all(), Direction::Reverse).expect("there is room");
    other.through(b"c");
    let unread = ScanReads::begin(&set, table.core(), &KeyRange::all(), Direction::Reverse);
    let reads = set.lock().take();
    let ranges: Vec<_> = reads.ranges.into_iter().map(|(_, range)| range).collect();
    assert_eq!(ranges.len(), 2, "one was begun and nothing of it was told");
    assert!(ranges[0].contains(b"a") && ranges[0].contains(b"c") && !ranges[0].contains(b"c\0"));
    assert!(!ranges[1].contains(b"b") && ranges[1].contains(b"c") && ranges[1].contains(b"d"));
    // After the end nobody listens.
    scan.all();
    drop((unread, engine));
}
