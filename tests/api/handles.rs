//! Handles, iterators and snapshots: where they may go, and what becomes of them when the engine closes.

use std::sync::Arc;
use std::thread;

use nyala::{
    Batches, Cursor, Engine, Error, ErrorKind, FromRow, Options, Row, RowBatch, Rows, Scan, Schema, Snapshot,
    Table, WriteBatch,
};

use crate::support::{lazy, plain_table, refused, rows, scratch};

/// May be kept anywhere, and used by any number of threads.
const fn is_handle<T: Clone + Send + Sync + 'static>() {}

/// May be kept anywhere, and go to another thread.
const fn moves<T: Send + 'static>() {}

const _: () = {
    is_handle::<Engine>();
    is_handle::<Table>();
    is_handle::<Snapshot>();
    is_handle::<Scan>();
    is_handle::<Options>();
    is_handle::<Schema>();
    is_handle::<Row>();
    is_handle::<Arc<RowBatch>>();
    is_handle::<Error>();
    moves::<Rows>();
    moves::<Cursor>();
    moves::<Batches>();
    moves::<WriteBatch>();
};

const ROWS: u32 = 5000;

fn filled(dir: &std::path::Path) -> (Engine, Table) {
    let engine = Engine::open(dir, lazy()).expect("it opens");
    let table = plain_table(&engine);
    let mut batch = engine.batch();
    for id in 0..ROWS {
        batch.upsert(&table, (id, i64::from(id), "x".repeat(20))).expect("it fits");
    }
    batch.commit(nyala::Durability::Buffered).expect("a good disk");
    engine.flush().expect("a good disk");
    (engine, table)
}

#[derive(FromRow)]
struct Number {
    id: u32,
}

/// Struct fields and other threads: nothing is borrowed.
struct Reader {
    _table: Table,
    rows: Rows,
    snapshot: Snapshot,
}

#[test]
fn iterators_and_snapshots_outlive_what_they_were_made_from_and_move_between_threads() {
    let dir = scratch();
    let (engine, table) = filled(dir.path());
    let mut reader = Reader {
        rows: table.scan().rows().expect("a scan"),
        snapshot: engine.snapshot(),
        _table: table.clone(),
    };
    let first = reader.rows.next().expect("a row").expect("a row");
    let reader = thread::spawn(move || {
        assert_eq!(reader.rows.by_ref().take(10).count(), 10);
        reader
    });
    let reader = reader.join().expect("no panic");
    assert_eq!(reader.rows.count() as u32, ROWS - 11);
    table.delete(0).expect("a deletion");
    assert_eq!(table.scan().at(&reader.snapshot).count().expect("a count") as u32, ROWS);
    assert_eq!(first.get::<u32>("id").expect("an id"), 0);
}

#[test]
fn after_a_close_iterators_end_with_closed_and_rows_stay_what_they_are() {
    let dir = scratch();
    let (engine, table) = filled(dir.path());
    let snapshot = engine.snapshot();
    let version = snapshot.version();
    let mut open_rows = table.scan().rows().expect("a scan");
    let mut cursor = table.scan().reverse().cursor().expect("a scan");
    let mut batches = table.scan().at(&snapshot).batches().expect("a scan");
    let scan = table.scan().range(10..20);
    let parts = table.scan().partitions(3).expect("parts");
    let row = open_rows.next().expect("a row").expect("a row");
    let mut later_rows = table.scan().rows().expect("a scan");
    assert!(later_rows.next().is_some_and(|row| row.is_ok()));
    let mut records = table.scan().records::<Number>().expect("a scan");
    assert!(records.next().is_some_and(|record| record.is_ok_and(|Number { id }| id == 0)));
    assert!(cursor.next().expect("a row").is_some());
    let batch = batches.next().expect("a batch").expect("a batch");
    let mut write = engine.batch();
    write.upsert(&table, (1, 1, "a")).expect("it fits");

    // Nothing of this holds it up.
    engine.close().expect("a clean end");
    engine.close().expect("closing twice is fine");

    // What was read before still comes; then the error, once.
    let mut rest = 0;
    let error = loop {
        match open_rows.next().expect("no end before the error") {
            Ok(row) => {
                rest += 1;
                assert_eq!(row.get::<u32>("id").expect("an id"), rest);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(rest < ROWS / 2, "{rest} rows in one batch");
    assert!(open_rows.next().is_none(), "after the error comes the end");
    assert_eq!(later_rows.by_ref().count(), rest as usize + 1, "what goes on after errors ends");
    assert!(later_rows.next().is_none());
    let error = loop {
        match cursor.next() {
            Ok(row) => assert!(row.is_some(), "no end before the error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    refused(cursor.next().map(drop), ErrorKind::Closed, &[]);
    refused(batches.next().expect("no end"), ErrorKind::Closed, &[]);
    assert!(batches.next().is_none(), "after the error comes the end");
    let records: Vec<_> = records.collect();
    assert_eq!(records.len(), rest as usize + 1);
    refused(records.into_iter().last().expect("the error").map(drop), ErrorKind::Closed, &[]);
    refused(scan.rows(), ErrorKind::Closed, &[]);
    for part in parts {
        refused(part.count(), ErrorKind::Closed, &[]);
    }
    refused(table.scan().at(&snapshot).rows(), ErrorKind::Closed, &[]);
    refused(table.get_at(1, &snapshot), ErrorKind::Closed, &[]);
    refused(table.get(1), ErrorKind::Closed, &[]);
    refused(write.commit(nyala::Durability::Buffered), ErrorKind::Closed, &[]);
    assert_eq!(engine.snapshot().version(), version);

    // All of it still lives, and the next engine opens at once; none of it is of any use there.
    let next = Engine::open(dir.path(), lazy()).expect("the lock is free");
    let again = plain_table(&next);
    assert_eq!(rows(&again).len() as u32, ROWS);
    refused(again.get_at(1, &snapshot), ErrorKind::InvalidArgument, &["another engine"]);
    assert_eq!((snapshot.version(), row.get::<u32>("id").expect("an id")), (version, 0));
    assert_eq!(batch.get(0).map(|row| row.get::<u32>("id").expect("an id")), Some(0));
}
