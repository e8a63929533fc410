//! Batches, updates, and what a call that returned has done.

use std::time::{Duration, Instant};

use nyala::vfs::SimFs;
use nyala::{Durability, Engine, ErrorKind, Options, Schema, Type};

use crate::support::{
    as_after_a_kill, assert_clean, eventually, files_of, in_time, lazy, pair, plain_table, refused, rows,
    scratch, simulated, tiny,
};

// docs/testing.md, fault 42
#[test]
fn a_batch_larger_than_all_memory_does_not_wait_for_itself() {
    let dir = scratch();
    let path = dir.path().to_owned();
    in_time("a large batch", Duration::from_secs(20), move || {
        let engine = Engine::open(&path, tiny()).expect("it opens");
        let table = plain_table(&engine);
        for round in 0..3 {
            let mut batch = engine.batch();
            for id in 0..4000 {
                batch.upsert(&table, (id, round, "x".repeat(300))).expect("encoded");
            }
            assert!(batch.bytes() > 2 * tiny().memory_bytes);
            batch.commit(Durability::Buffered).expect("it is committed");
            assert_eq!(table.count().expect("rows"), 4000);
        }
        // A checked one too.
        let mut batch = engine.batch();
        for id in 0..4000 {
            batch.update(&table, (id,), [("number", 9)]).expect("encoded");
        }
        batch.commit(Durability::Sync).expect("it is committed");
        engine.close().expect("a clean end");
        let engine = Engine::open(&path, tiny()).expect("it opens");
        let table = plain_table(&engine);
        assert_eq!(table.scan().filter(nyala::column("number").eq(9)).count().expect("rows"), 4000);
        assert_clean(&engine);
    });
}

// docs/testing.md, fault 43
#[test]
fn within_a_batch_the_operations_count_in_their_order() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    let mut batch = engine.batch();
    batch.upsert(&table, (1, 1, "a")).expect("encoded");
    batch.delete(&table, (1,)).expect("encoded");
    batch.insert(&table, (1, 2, "b")).expect("encoded");
    batch.update(&table, (1,), [("number", 3)]).expect("encoded");
    batch.insert_ignore(&table, (1, 4, "c")).expect("encoded");
    batch.upsert(&table, (2, 1, "a")).expect("encoded");
    batch.delete(&table, (2,)).expect("encoded");
    batch.delete(&table, (3,)).expect("encoded");
    batch.insert(&table, (3, 5, "d")).expect("encoded");
    batch.commit(Durability::Buffered).expect("it is committed");
    assert!(batch.is_empty());
    let expected = [(1, 3), (3, 5)];
    assert_eq!(rows(&table), expected);
    assert_eq!(table.get((1,)).expect("a row").expect("there").get::<&str>("text").expect("text"), "b");

    // A failed check fails all, and names the operation.
    batch.upsert(&table, (9, 9, "z")).expect("encoded");
    batch.delete(&table, (1,)).expect("encoded");
    batch.insert(&table, (3, 6, "e")).expect("encoded");
    let error = batch.commit(Durability::Buffered).expect_err("it is there");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::DuplicateKey, Some(2)));
    assert_eq!((batch.len(), rows(&table)), (3, expected.to_vec()));
    batch.clear();
    batch.delete(&table, (1,)).expect("encoded");
    batch.update(&table, (1,), [("number", 7)]).expect("encoded");
    let error = batch.commit(Durability::Buffered).expect_err("it was deleted just before");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::MissingRow, Some(1)));
    assert_eq!(rows(&table), expected);

    let killed = as_after_a_kill(dir.path());
    let engine = Engine::open(killed.path(), lazy()).expect("it opens");
    assert_eq!(rows(&plain_table(&engine)), expected);
}

// docs/testing.md, fault 43, 44
#[test]
fn an_update_keeps_every_column_that_it_does_not_name() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let schema = Schema::builder()
        .key("id", Type::U8)
        .column("a", Type::I8.nullable())
        .column("b", Type::String.nullable());
    let schema = schema.column("c", Type::Binary).column("d", Type::F64).build().expect("good");
    let table = engine.create_table("t", schema.clone()).expect("a table");
    let show = |table: &nyala::Table| format!("{:?}", table.get((1,)).expect("a row").expect("it is there"));
    table.upsert((1, 5, "text", &b"\0\xff"[..], -0.0)).expect("a row");
    let whole = show(&table);
    for at in 0..3 {
        // One that names nothing succeeds and changes nothing.
        table.update((1,)).apply().expect("the row is there");
        assert_eq!(show(&table), whole);
        table.update((1,)).set("b", None::<&str>).apply().expect("the row is there");
        table.update((1,)).set("a", -1).apply().expect("the row is there");
        let changed = show(&table);
        assert!(
            changed.contains("a: -1") && changed.contains("b: null") && changed.contains("d: -0"),
            "{changed}"
        );
        if at == 1 {
            table.flush().expect("it is flushed");
        }
        assert_eq!(show(&table), changed);
        table.update((1,)).set("a", 5).set("b", "text").apply().expect("the row is there");
        assert_eq!(show(&table), whole);
    }
    refused(table.update((2,)).apply(), ErrorKind::MissingRow, &[]);
    refused(table.update((2,)).set("a", 1).apply(), ErrorKind::MissingRow, &[]);
    let killed = as_after_a_kill(dir.path());
    let engine = Engine::open(killed.path(), lazy()).expect("it opens");
    assert_eq!(show(&engine.open_table("t", &schema).expect("it was made")), whole);
}

// docs/testing.md, fault 50
#[test]
fn flush_and_close_have_done_what_they_say_when_they_return() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    let mut fastest = Duration::MAX;
    for round in 1..=8 {
        for id in 0..50 {
            table.upsert((id, round, "a")).expect("a row");
        }
        let start = Instant::now();
        table.flush().expect("it is flushed");
        fastest = fastest.min(start.elapsed());
        let stats = table.stats();
        assert!(stats.rowsets > 0 && !files_of(dir.path(), "row").is_empty());
        // All that was written is in files: a copy without the log has nothing to replay.
        let killed = as_after_a_kill(dir.path());
        let again = Engine::open(killed.path(), lazy()).expect("it opens");
        assert_eq!(again.recovery_report().replayed_operations, 0);
        assert_eq!(rows(&plain_table(&again)), (0..50).map(|id| (id, round)).collect::<Vec<_>>());
    }
    // Nobody waits for a clock.
    assert!(fastest < Duration::from_millis(60), "{fastest:?}");
    table.upsert((1, 99, "a")).expect("a row");
    engine.close().expect("a clean end");
    let killed = as_after_a_kill(dir.path());
    let again = Engine::open(killed.path(), lazy()).expect("it opens");
    assert_eq!(again.recovery_report().replayed_operations, 0);
    assert_eq!(plain_table(&again).get((1,)).expect("a row").map(|row| pair(&row)), Some((1, 99)));
    // An empty flush is a flush.
    again.flush().expect("nothing to do");
    again.flush().expect("nothing to do");
}

// docs/testing.md, fault 51
#[test]
fn deletions_alone_fill_a_memtable_and_are_flushed() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    for id in 0..5000 {
        table.delete((id,)).expect("deleting nothing is fine");
    }
    eventually("a flush", || engine.stats().flushes > 3);
    engine.flush().expect("it is flushed");
    table.compact().expect("it is merged");
    assert_eq!((table.stats().index_entries, rows(&table).len()), (0, 0), "deletions go at the base");
    assert_clean(&engine);
}

// docs/testing.md, fault 51
#[test]
fn a_compaction_that_fails_does_not_fail_a_write() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, Options { memory_bytes: 256 << 10, ..tiny() }))
        .expect("it opens");
    let table = plain_table(&engine);
    for id in 0..20 {
        table.upsert((id, 1, "a")).expect("a row");
    }
    table.flush().expect("it is flushed");
    let index =
        disk.paths().into_iter().find(|path| path.extension().is_some_and(|e| e == "idx")).expect("one");
    disk.damage(&index, |bytes| bytes[200] ^= 1).expect("it is there");
    let mut failed = false;
    for id in 100..2000 {
        // Among the damaged ones too: a file that overlaps nothing would move unread.
        table.upsert((id % 20, 2, "b")).expect("a write does not need what is damaged");
        table.upsert((id, 2, "b")).expect("a write does not need what is damaged");
        failed |= engine.stats().failed_compactions > 0;
    }
    eventually("a failed compaction", || failed || engine.stats().failed_compactions > 0);
    table.upsert((1, 3, "c")).expect("a write does not need what is damaged");
    assert!(matches!(engine.health(), nyala::Health::Healthy));
    assert_eq!(table.scan().range((100,)..).count().expect("these are whole"), 1900);
    assert!(!engine.check().expect("a report").is_clean());
}
