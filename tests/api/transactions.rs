//! Transactions through the public API: what they see, what they write, and what they refuse.

use std::ops::Bound;

use nyala::vfs::SimFs;
use nyala::{Durability, Engine, Error, ErrorKind, Options, Table, Transaction, column};

use crate::support::{assert_clean, lazy, pair, plain_table, refused, rows, scratch, simulated, tiny};

fn none() -> Option<&'static str> {
    None
}

fn scanned(transaction: &Transaction, table: &Table, reverse: bool) -> Vec<(u32, i64)> {
    let scan = transaction.scan(table);
    let scan = if reverse { scan.reverse() } else { scan };
    scan.rows().expect("a scan").map(|row| pair(&row.expect("a row"))).collect()
}

/// Rows 0, 10, .. 90 in a table: some in a run, some overwritten in another, some in memory.
fn world(path: &std::path::Path) -> (Engine, Table) {
    let engine = Engine::open(path, lazy()).expect("it opens");
    let table = plain_table(&engine);
    for id in (0..100).step_by(10) {
        table.upsert((id, 0, none())).expect("a row");
    }
    table.flush().expect("healthy");
    for id in [10, 20] {
        table.upsert((id, 1, none())).expect("a row");
    }
    table.flush().expect("healthy");
    table.upsert((30, 2, none())).expect("a row");
    (engine, table)
}

#[test]
fn a_transaction_sees_its_own_writes_in_every_way_of_reading() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    let mut transaction = engine.transaction();
    transaction.upsert(&table, (10, 7, "new")).expect("it fits");
    transaction.insert(&table, (15, 7, none())).expect("it is absent");
    transaction.update(&table, (20,), [("number", 7)]).expect("it is there");
    transaction.delete(&table, (30,)).expect("it fits");
    transaction.delete(&table, (35,)).expect("it fits");
    assert!(!transaction.insert_ignore(&table, (40, 7, none())).expect("healthy"));
    assert!(transaction.insert_ignore(&table, (95, 7, none())).expect("healthy"));
    transaction.upsert(&table, (16, 7, none())).expect("it fits");
    transaction.delete(&table, (16,)).expect("it fits");
    // Behind its back, which it does not see.
    table.upsert((50, 9, none())).expect("healthy");
    table.upsert((55, 9, none())).expect("healthy");
    table.delete((60,)).expect("healthy");
    table.flush().expect("healthy");

    let expected =
        [(0, 0), (10, 7), (15, 7), (20, 7), (40, 0), (50, 0), (60, 0), (70, 0), (80, 0), (90, 0), (95, 7)];
    let mut backwards = expected.to_vec();
    backwards.reverse();
    assert_eq!(scanned(&transaction, &table, false), expected);
    assert_eq!(scanned(&transaction, &table, true), backwards);
    assert_eq!(transaction.count(&table).expect("healthy"), 11);
    for id in 0..100 {
        let number = expected.iter().find(|row| row.0 == id).map(|row| row.1);
        let row = transaction.get(&table, (id,)).expect("healthy");
        assert_eq!(row.as_ref().map(|row| pair(row).1), number, "row {id}");
        assert_eq!(transaction.exists(&table, (id,)).expect("healthy"), number.is_some());
    }
    let many = transaction.multi_get(&table, (0..100).rev().map(|id| (id,))).expect("healthy");
    let many: Vec<_> = many.iter().flatten().map(pair).collect();
    assert_eq!(many, backwards);
    // Parts of a scan, and scans that need no row, or only some columns.
    let range = || transaction.scan(&table).range((12,)..=(40,));
    assert_eq!(range().count().expect("healthy"), 3);
    assert_eq!(range().filter(column("number").eq(7)).count().expect("healthy"), 2);
    assert_eq!(range().reverse().limit(2).columns(["id"]).rows().expect("a scan").count(), 2);
    let parts = transaction.scan(&table).partitions(4).expect("it can be cut");
    let in_parts: u64 = parts.into_iter().map(|part| part.count().expect("healthy")).sum();
    assert_eq!(in_parts, 11);
    let row = transaction.get(&table, (10,)).expect("healthy").expect("there");
    assert_eq!(row.get::<&str>("text").expect("a text"), "new");

    // It has read the whole table, so that what happened behind its back is a conflict. Nothing is written.
    refused(transaction.commit(Durability::Buffered), ErrorKind::Conflict, &["\"t\""]);
    assert!(!table.exists((15,)).expect("healthy"));
    assert_clean(&engine);
}

#[test]
fn a_scan_sees_what_was_written_before_it_and_nothing_later() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    for reverse in [false, true] {
        let mut transaction = engine.transaction();
        transaction.upsert(&table, (5, 1, none())).expect("it fits");
        // More than a cursor takes at once.
        for id in 200..260 {
            transaction.upsert(&table, (id, 1, none())).expect("it fits");
        }
        let scan = transaction.scan(&table);
        let scan = if reverse { scan.reverse() } else { scan };
        let mut found = scan.rows().expect("a scan");
        let first = pair(&found.next().expect("a row").expect("healthy"));
        for id in (0..100).chain(200..260) {
            match id % 3 {
                0 => transaction.delete(&table, (id,)).expect("it fits"),
                _ => transaction.upsert(&table, (id, 5, none())).expect("it fits"),
            }
        }
        let mut all = vec![first];
        all.extend(found.map(|row| pair(&row.expect("healthy"))));
        if reverse {
            all.reverse();
        }
        let before: Vec<_> = [(0, 0), (5, 1), (10, 1), (20, 1), (30, 2)]
            .into_iter()
            .chain((40..100).step_by(10).map(|id| (id, 0)))
            .chain((200..260).map(|id| (id, 1)))
            .collect();
        assert_eq!(all, before);
        assert_eq!(transaction.count(&table).expect("healthy"), 66 + 40);
        transaction.clear();
        assert_eq!(transaction.count(&table).expect("healthy"), 10);
        transaction.rollback();
    }
    assert_eq!(table.count().expect("healthy"), 10);
}

#[test]
fn two_that_scan_an_empty_range_and_insert_into_it_cannot_both_commit() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    for (reverse, flushed) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut two = [engine.transaction(), engine.transaction()];
        for (id, transaction) in (0..).zip(&mut two) {
            let scan = transaction.scan(&table).range((41,)..(50,));
            let scan = if reverse { scan.reverse() } else { scan };
            assert_eq!(scan.count().expect("healthy"), 0);
            transaction.insert(&table, (43 + id, 1, none())).expect("it is absent");
        }
        let [first, second] = two;
        let ticket = first.commit(Durability::Buffered).expect("it is the first");
        assert_eq!(ticket, engine.last_committed());
        if flushed {
            engine.flush().expect("healthy");
        }
        refused(second.commit(Durability::Buffered), ErrorKind::Conflict, &["range"]);
        assert_eq!(table.scan().range((41,)..(50,)).count().expect("healthy"), 1);
        table.delete((43,)).expect("healthy");
    }
}

#[test]
fn write_skew_is_a_conflict_and_disjoint_work_is_none() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    // Each reads both and writes one.
    let skew = |own: u32, other: u32| -> Result<Transaction, Error> {
        let mut transaction = engine.transaction();
        let sum = transaction.get(&table, (own,))?.is_some() && transaction.get(&table, (other,))?.is_some();
        assert!(sum);
        transaction.delete(&table, (own,))?;
        Ok(transaction)
    };
    let (a, b) = (skew(40, 50).expect("healthy"), skew(50, 40).expect("healthy"));
    a.commit(Durability::Buffered).expect("it is the first");
    refused(b.commit(Durability::Buffered), ErrorKind::Conflict, &["a key"]);
    let (a, b) = (skew(50, 60).expect("healthy"), skew(70, 80).expect("healthy"));
    a.commit(Durability::Buffered).expect("it is the first");
    b.commit(Durability::Buffered).expect("they have nothing in common");
    assert_eq!(rows(&table).len(), 7);
}

#[test]
fn a_failed_verb_leaves_the_transaction_as_it_was() {
    let (dir, other_dir) = (scratch(), scratch());
    let (engine, table) = world(dir.path());
    let (other, foreign) = world(other_dir.path());
    let mut transaction = engine.transaction();
    transaction.upsert(&table, (1, 1, none())).expect("it fits");
    let bytes = transaction.bytes();
    refused(transaction.insert(&table, (10, 1, none())), ErrorKind::DuplicateKey, &[]);
    refused(transaction.insert(&table, (1, 2, none())), ErrorKind::DuplicateKey, &[]);
    refused(transaction.update(&table, (2,), [("number", 1)]), ErrorKind::MissingRow, &[]);
    refused(transaction.update(&table, (1,), [("nobody", 1)]), ErrorKind::InvalidArgument, &["nobody"]);
    refused(transaction.upsert(&table, (1, 1)), ErrorKind::InvalidArgument, &[]);
    refused(transaction.upsert(&foreign, (1, 1, none())), ErrorKind::InvalidArgument, &["another engine"]);
    refused(transaction.get(&foreign, (1,)), ErrorKind::InvalidArgument, &["another engine"]);
    refused(transaction.count(&foreign), ErrorKind::InvalidArgument, &["another engine"]);
    let snapshot = engine.snapshot();
    refused(transaction.scan(&table).at(&snapshot).count(), ErrorKind::InvalidArgument, &["transaction"]);
    assert_eq!((transaction.len(), transaction.bytes()), (1, bytes));
    assert_eq!(transaction.count(&table).expect("healthy"), 11);
    transaction.commit(Durability::Buffered).expect("nobody wrote");
    assert_eq!(table.count().expect("healthy"), 11);
    drop(other);
}

#[test]
fn what_a_transaction_cannot_do_any_more_is_an_error() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    let read = engine.transaction();
    assert_eq!(read.count(&table).expect("healthy"), 10);
    let mut written = engine.transaction();
    written.upsert(&table, (1, 1, none())).expect("it fits");
    let mut looked = engine.transaction();
    assert!(looked.exists(&table, (10,)).expect("healthy"));
    let other = engine.create_table("other", crate::support::plain()).expect("a table");
    looked.upsert(&other, (1, 1, none())).expect("it fits");
    engine.drop_table("t").expect("it is there");
    refused(written.get(&table, (1,)), ErrorKind::NoSuchTable, &[]);
    refused(written.upsert(&table, (2, 1, none())), ErrorKind::NoSuchTable, &[]);
    refused(written.commit(Durability::Buffered), ErrorKind::NoSuchTable, &[]);
    refused(looked.commit(Durability::Buffered), ErrorKind::NoSuchTable, &[]);
    assert_eq!(other.count().expect("healthy"), 0);
    read.commit(Durability::Sync).expect("it has written nothing");

    let mut late = engine.transaction();
    late.upsert(&other, (1, 1, none())).expect("it fits");
    engine.close().expect("a clean end");
    refused(late.get(&other, (1,)), ErrorKind::Closed, &[]);
    refused(late.commit(Durability::Buffered), ErrorKind::Closed, &[]);
    refused(engine.transact(|t| t.upsert(&other, (1, 1, none()))), ErrorKind::Closed, &[]);
}

#[test]
fn what_a_transaction_may_read_and_write_is_bounded() {
    let dir = scratch();
    let options = Options { batch_operations_max: 8, ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    let table = plain_table(&engine);
    let mut transaction = engine.transaction();
    for id in 0..7 {
        transaction.get(&table, (id,)).expect("there is room");
    }
    assert_eq!(transaction.count(&table).expect("there is room"), 0);
    refused(transaction.get(&table, (8,)), ErrorKind::InvalidArgument, &["at most 8", "snapshot"]);
    refused(transaction.count(&table), ErrorKind::InvalidArgument, &["at most 8"]);
    refused(transaction.insert(&table, (8, 1, none())), ErrorKind::InvalidArgument, &["at most 8"]);
    assert!(table.get_at((8,), transaction.snapshot()).expect("unchecked").is_none());
    for id in 0..8 {
        transaction.upsert(&table, (id, 1, none())).expect("there is room");
    }
    refused(transaction.upsert(&table, (8, 1, none())), ErrorKind::InvalidArgument, &["at most 8"]);
    transaction.commit(Durability::Buffered).expect("as much as may be");
    assert_eq!(table.count().expect("healthy"), 8);
}

#[test]
fn what_has_written_nothing_commits_also_when_nothing_can_be_written() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
    let table = plain_table(&engine);
    table.upsert((1, 1, none())).expect("a row");
    let before = engine.transaction();
    assert_eq!(before.count(&table).expect("healthy"), 1);
    table.upsert((2, 1, none())).expect("a row");
    let operations = disk.operations();
    before.commit(Durability::Sync).expect("free of charge");
    assert_eq!(disk.operations(), operations, "free of charge");
    disk.set_capacity(Some(disk.used_bytes()));
    while table.upsert((3, 1, "x".repeat(3000))).is_ok() {}
    let mut transaction = engine.transaction();
    assert_eq!(transaction.count(&table).expect("reads go on"), table.count().expect("reads go on"));
    assert!(!transaction.insert_ignore(&table, (1, 5, none())).expect("reads go on"));
    transaction.commit(Durability::Sync).expect("free of charge");
    let mut transaction = engine.transaction();
    transaction.upsert(&table, (4, 4, none())).expect("it fits");
    refused(transaction.commit(Durability::Buffered), ErrorKind::NoSpace, &[]);
}

#[test]
fn transact_tries_again_after_conflicts_and_not_after_other_errors() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    let mut runs = 0;
    let number = engine.transact(|transaction| {
        runs += 1;
        let number = pair(&transaction.get(&table, (10,))?.expect("it is there")).1;
        if runs < 4 {
            table.upsert((10, 10 * runs, none()))?;
        }
        transaction.update(&table, (10,), [("number", number + 1)])?;
        Ok(number)
    });
    assert_eq!((number.expect("the fourth run is alone"), runs), (30, 4));
    assert_eq!(pair(&table.get((10,)).expect("healthy").expect("there")), (10, 31));

    let mut runs = 0;
    let given_up = engine.transact_with(Durability::Buffered, 5, |transaction| {
        runs += 1;
        transaction.get(&table, (10,))?;
        table.upsert((10, runs, none()))?;
        transaction.upsert(&table, (11, 0, none()))
    });
    refused(given_up, ErrorKind::Conflict, &["5 attempts"]);
    assert_eq!((runs, table.exists((11,)).expect("healthy")), (5, false));

    let mut runs = 0;
    let failed = engine.transact(|transaction| {
        runs += 1;
        transaction.upsert(&table, (11, 0, none()))?;
        transaction.insert(&table, (10, 0, none()))
    });
    refused(failed, ErrorKind::DuplicateKey, &[]);
    assert_eq!((runs, table.exists((11,)).expect("healthy")), (1, false));
    refused(engine.transact_with(Durability::Sync, 0, |_| Ok(())), ErrorKind::InvalidArgument, &[]);

    // Given up without an error.
    let outcome = engine.transact(|transaction| {
        transaction.upsert(&table, (11, 0, none()))?;
        transaction.clear();
        Ok("not today")
    });
    assert_eq!((outcome.expect("no error"), table.exists((11,)).expect("healthy")), ("not today", false));
}

#[test]
fn keys_are_in_the_text_of_a_conflict_only_if_the_options_say_so() {
    for keys_in_errors in [false, true] {
        let dir = scratch();
        let engine = Engine::open(dir.path(), Options { keys_in_errors, ..lazy() }).expect("it opens");
        let table = plain_table(&engine);
        let mut transaction = engine.transaction();
        transaction.insert(&table, (4711, 0, none())).expect("it is absent");
        table.upsert((4711, 0, none())).expect("healthy");
        let text = transaction.commit(Durability::Buffered).expect_err("a conflict").to_string();
        assert_eq!(text.contains("4711"), keys_in_errors, "{text}");
    }
}

/// Transactions over several tables, larger than a memtable, through flushes and compactions.
#[test]
fn large_transactions_over_several_tables_are_whole() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let tables = ["a", "b"].map(|name| engine.create_table(name, crate::support::plain()).expect("a table"));
    for round in 0..5 {
        let ticket = engine.transact(|transaction| {
            for table in &tables {
                let before = transaction.scan(table).limit(50).rows()?.count();
                assert_eq!(before, if round == 0 { 0 } else { 50 });
                for id in 0..300 {
                    transaction.upsert(table, (id, round, "x".repeat(50)))?;
                }
                assert_eq!(transaction.count(table)?, 300);
            }
            Ok(engine.last_committed())
        });
        assert!(ticket.expect("it is alone") < engine.last_committed());
        for table in &tables {
            assert!(rows(table).iter().all(|row| row.1 == round));
        }
    }
    assert_clean(&engine);
}

#[test]
fn handles_can_go_to_other_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Transaction>();
    check::<nyala::Version>();
}

#[test]
fn a_transaction_is_run_again_when_a_column_that_it_does_not_change_is_dropped() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
    let table = plain_table(&engine);
    table.upsert((1, 1, Some("text"))).expect("healthy");
    let mut runs = 0;
    let done = engine.transact(|transaction| {
        runs += 1;
        transaction.update(&table, (1,), [("number", 2)])?;
        if runs == 1 {
            table.alter().drop_column("text").apply()?;
        }
        Ok(())
    });
    assert!(done.is_ok(), "{done:?} after {runs} runs");
}

#[test]
fn by_hand_a_column_that_is_dropped_meanwhile_is_a_conflict_too() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
    let table = plain_table(&engine);
    table.upsert((1, 1, Some("text"))).expect("healthy");
    let number = |transaction: &mut Transaction, number: i64| {
        transaction.update(&table, (1,), [("number", number)]).expect("it is there");
    };
    let mut transaction = engine.transaction();
    number(&mut transaction, 2);
    let mut unconcerned = engine.transaction();
    unconcerned.delete(&table, (2,)).expect("it fits");
    table.alter().drop_column("text").apply().expect("healthy");
    refused(transaction.commit(Durability::Buffered), ErrorKind::Conflict, &["\"text\"", "dropped"]);
    unconcerned.commit(Durability::Buffered).expect("a deletion has no columns");
    // Another one sees what moved.
    let mut again = engine.transaction();
    number(&mut again, 3);
    // What can never be written any more is no conflict, and told by the verb.
    refused(again.upsert(&table, (5, 5, Some("text"))), ErrorKind::SchemaMismatch, &["\"text\""]);
    again.commit(Durability::Buffered).expect("nobody wrote");
    let row = table.scan().columns(["number"]).first().expect("healthy").expect("a row");
    assert_eq!(row.get::<i64>("number").expect("a number"), 3);
    let refused_by_verb = engine.transact(|transaction| transaction.upsert(&table, (5, 5, Some("text"))));
    refused(refused_by_verb, ErrorKind::SchemaMismatch, &["\"text\""]);
}

#[test]
fn after_a_commit_without_space_the_same_can_be_run_again() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
    let table = plain_table(&engine);
    table.upsert((1, 1, none())).expect("a row");
    let mut runs = 0;
    let mut increment = || {
        engine.transact(|transaction| {
            runs += 1;
            let number = pair(&transaction.get(&table, (1,))?.expect("it is there")).1;
            transaction.upsert(&table, (1, number + 1, "x".repeat(1 << 20)))
        })
    };
    disk.set_capacity(Some(disk.used_bytes()));
    let failed = increment();
    refused(failed, ErrorKind::NoSpace, &[]);
    refused(increment(), ErrorKind::NoSpace, &[]);
    disk.set_capacity(None);
    engine.resume().expect("there is space");
    increment().expect("there is space");
    assert_eq!(runs, 3, "only a conflict is a reason to try again at once");
    assert_eq!(rows(&table), [(1, 2)], "nothing of those that failed is there");
    assert_clean(&engine);
}

#[test]
fn who_has_seen_only_that_a_row_is_there_does_not_mind_what_is_in_it() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    type Look = fn(&mut Transaction, &Table);
    let looks: [(&str, Look); 3] = [
        ("exists", |transaction, table| assert!(transaction.exists(table, (40,)).expect("healthy"))),
        ("insert_ignore", |transaction, table| {
            assert!(!transaction.insert_ignore(table, (40, 9, none())).expect("healthy"));
        }),
        ("insert", |transaction, table| {
            refused(transaction.insert(table, (40, 9, none())), ErrorKind::DuplicateKey, &[]);
        }),
    ];
    for (what, look) in looks {
        for flushed in [false, true] {
            let begin = || {
                let mut transaction = engine.transaction();
                look(&mut transaction, &table);
                transaction.upsert(&table, (1, 1, none())).expect("it fits");
                transaction
            };
            let (overwritten, gone) = (begin(), begin());
            let mut seen = begin();
            seen.get(&table, (40,)).expect("healthy");
            look(&mut seen, &table);
            let flush = || {
                if flushed {
                    table.flush().expect("healthy")
                }
            };
            table.upsert((40, 1, none())).expect("healthy");
            flush();
            let committed = overwritten.commit(Durability::Buffered);
            assert!(committed.is_ok(), "{what}: it is still there: {committed:?}");
            refused(seen.commit(Durability::Buffered), ErrorKind::Conflict, &["a key"]);
            table.delete((40,)).expect("healthy");
            flush();
            refused(gone.commit(Durability::Buffered), ErrorKind::Conflict, &["a key"]);
            table.upsert((40, 0, none())).expect("healthy");
        }
    }
}

#[test]
fn two_that_take_the_first_rows_of_a_queue_are_no_conflict_if_they_took_others() {
    let dir = scratch();
    let (engine, table) = world(dir.path());
    // One takes the first row, the other the last; both by scans without a limit, which read ahead.
    let take = |reverse: bool| {
        let mut transaction = engine.transaction();
        let scan = transaction.scan(&table);
        let mut rows = if reverse { scan.reverse() } else { scan }.rows().expect("a scan");
        let row = rows.next().expect("a row").expect("healthy");
        transaction.delete(&table, (pair(&row).0,)).expect("it fits");
        (transaction, rows)
    };
    let ((first, rest_of_first), (last, _rest_of_last)) = (take(false), take(true));
    let (also_first, _rows) = take(false);
    first.commit(Durability::Buffered).expect("it is the first");
    last.commit(Durability::Buffered).expect("they have nothing in common");
    refused(also_first.commit(Durability::Buffered), ErrorKind::Conflict, &["range"]);
    // The scan may go on after the end, and sees what it saw.
    assert_eq!(rest_of_first.count(), 9);
    assert_eq!(table.count().expect("healthy"), 8);
}

#[test]
fn what_is_read_again_and_what_touches_takes_no_more_of_what_may_be_read() {
    let dir = scratch();
    let options = Options { batch_operations_max: 8, ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    let table = plain_table(&engine);
    for id in 0..100 {
        table.upsert((id, 1, none())).expect("a row");
    }
    let mut transaction = engine.transaction();
    for round in 0..100 {
        assert!(transaction.get(&table, (round % 3,)).expect("there is room").is_some());
        assert!(transaction.exists(&table, (200,)).is_ok_and(|there| !there));
    }
    // Page after page.
    let (mut pages, mut from) = (0, Bound::Unbounded);
    loop {
        let page: Vec<_> = transaction
            .scan(&table)
            .range((from, Bound::Unbounded))
            .limit(3)
            .rows()
            .expect("there is room")
            .map(|row| pair(&row.expect("healthy")))
            .collect();
        let Some((last, _)) = page.last() else { break };
        (pages, from) = (pages + 1, Bound::Excluded((*last,)));
    }
    assert_eq!(pages, 34);
    table.upsert((99, 2, none())).expect("healthy");
    transaction.upsert(&table, (1, 1, none())).expect("there is room");
    refused(transaction.commit(Durability::Buffered), ErrorKind::Conflict, &["range"]);
}

#[test]
fn the_bytes_of_ranges_that_were_read_are_bounded_too() {
    let dir = scratch();
    let options = Options { batch_bytes_max: 10_000, ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    let schema = nyala::Schema::builder().key("name", nyala::Type::String).build().expect("a schema");
    let table = engine.create_table("names", schema).expect("a table");
    let mut transaction = engine.transaction();
    let name = |number: u32| format!("{number:01000}");
    let look = |transaction: &Transaction, number: u32| {
        transaction.scan(&table).range((name(2 * number),)..(name(2 * number + 1),)).count()
    };
    let read = (0..).take_while(|number| look(&transaction, *number).is_ok()).count() as u32;
    assert_eq!(read, 5, "two names of 1000 bytes each");
    refused(look(&transaction, read), ErrorKind::InvalidArgument, &["10000 bytes", "snapshot"]);
    refused(transaction.get(&table, (name(90),)), ErrorKind::InvalidArgument, &["10000 bytes"]);
    // What was read before is still checked, and what is written is not lost.
    transaction.upsert(&table, ("x",)).expect("there is room");
    table.upsert((name(8),)).expect("healthy");
    refused(transaction.commit(Durability::Buffered), ErrorKind::Conflict, &["range"]);
    let mut transaction = engine.transaction();
    assert!((0..6).map(|number| look(&transaction, number)).any(|looked| looked.is_err()));
    transaction.upsert(&table, ("x",)).expect("there is room");
    transaction.commit(Durability::Buffered).expect("nobody wrote");
    assert!(table.exists(("x",)).expect("healthy"));
}
