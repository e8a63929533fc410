//! Verbs that read and write in one step, versions, ranges that are deleted, and the ends of a scan.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nyala::{Durability, Engine, ErrorKind, Options, Scan, Schema, Table, Type, column};

use crate::support::{assert_clean, lazy, pair, plain_table, refused, rows, scratch, tiny};

fn with_rows(ids: std::ops::Range<u32>) -> (tempfile::TempDir, Engine, Table) {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let table = plain_table(&engine);
    for id in ids {
        table.upsert((id, i64::from(id) * 10, "text")).expect("it fits");
    }
    (dir, engine, table)
}

#[test]
fn insert_or_get_writes_once_and_then_gives_what_is_there() {
    let (_dir, engine, table) = with_rows(0..1);
    assert!(table.insert_or_get((1, 11, "mine")).expect("absent").is_none());
    let there = table.insert_or_get((1, 12, "yours")).expect("there").expect("the row that is there");
    assert_eq!((pair(&there), there.get::<&str>("text").expect("a text")), ((1, 11), "mine"));
    engine.flush().expect("a good disk");
    assert_eq!(pair(&table.insert_or_get((0, 99, "x")).expect("there").expect("a row")), (0, 0));
    table.delete((1,)).expect("it is there");
    assert!(table.insert_or_get((1, 13, None::<&str>)).expect("absent again").is_none());
    assert_eq!(rows(&table), [(0, 0), (1, 13)]);
    refused(table.insert_or_get((1, "x", "y")), ErrorKind::InvalidArgument, &["number"]);
    refused(table.insert_or_get((1, 2)), ErrorKind::InvalidArgument, &["columns"]);
}

#[test]
fn delete_returning_gives_the_row_that_it_deleted() {
    let (_dir, engine, table) = with_rows(0..3);
    engine.flush().expect("a good disk");
    assert_eq!(pair(&table.delete_returning((1,)).expect("a good disk").expect("it was there")), (1, 10));
    assert!(table.delete_returning((1,)).expect("a good disk").is_none());
    assert!(table.delete_returning((7,)).expect("a good disk").is_none());
    assert_eq!(rows(&table), [(0, 0), (2, 20)]);
    refused(table.delete_returning(("x",)), ErrorKind::InvalidArgument, &["id"]);
}

#[test]
fn update_with_changes_what_it_sets_and_nothing_else() {
    let (_dir, _engine, table) = with_rows(0..2);
    let twice = |table: &Table| {
        table.update_with((1,), |row, change| change.set("number", row.get::<i64>("number")? * 2))
    };
    twice(&table).and_then(|()| twice(&table)).expect("it is there");
    let row = table.get((1,)).expect("readable").expect("it is there");
    assert_eq!((pair(&row), row.get::<&str>("text").expect("a text")), ((1, 40), "text"));
    let before = row.version();
    table.update_with((1,), |_, _| Ok(())).expect("nothing to change");
    assert_eq!(
        table.get((1,)).expect("readable").expect("it is there").version(),
        before,
        "nothing was written"
    );
    refused(table.update_with((7,), |_, _| panic!("no row")), ErrorKind::MissingRow, &[]);
    refused(
        table.update_with((1,), |row, change| {
            change.set("number", 5)?;
            row.get::<u8>("text").map(drop)
        }),
        ErrorKind::InvalidArgument,
        &["text"],
    );
    refused(table.update_with((1,), |_, change| change.set("id", 5)), ErrorKind::InvalidArgument, &["key"]);
    refused(
        table.update_with((1,), |_, change| change.set("nobody", 5)),
        ErrorKind::InvalidArgument,
        &["nobody"],
    );
    assert_eq!(rows(&table), [(0, 0), (1, 40)]);
}

#[test]
fn rows_know_their_version_and_others_compare_with_it() {
    let (_dir, engine, table) = with_rows(0..2);
    let version = |id: u32| table.get((id,)).expect("readable").and_then(|row| row.version());
    let (first, second) = (version(0).expect("a get knows it"), version(1).expect("a get knows it"));
    assert!(first < second);
    let both = table.multi_get([(1,), (7,), (0,)]).expect("readable");
    let versions: Vec<_> = both.iter().map(|row| row.as_ref().and_then(nyala::Row::version)).collect();
    assert_eq!(versions, [Some(second), None, Some(first)]);
    engine.flush().expect("a good disk");
    let both = table.multi_get([(1,), (0,)]).expect("readable");
    let versions: Vec<_> = both.iter().map(|row| row.as_ref().and_then(nyala::Row::version)).collect();
    assert_eq!(versions, [Some(second), Some(first)], "it goes to disk with the row");
    table.compact().expect("a good disk");
    assert_eq!(version(1), Some(second));
    let third =
        table.compare_and_set((1, 11, "a"), Some(second)).expect("a good disk").expect("nobody else wrote");
    assert_eq!(version(1), Some(third));
    assert!(third > second);
    for other in [Some(second), Some(first), Some(third.next()), None] {
        assert_eq!(table.compare_and_set((1, 12, "b"), other).expect("a good disk"), None, "{other:?}");
    }
    assert_eq!(table.compare_and_set((5, 50, "c"), Some(third)).expect("a good disk"), None, "there is none");
    let fifth = table.compare_and_set((5, 50, "c"), None).expect("a good disk").expect("it was absent");
    assert_eq!(version(5), Some(fifth));
    assert!(!table.compare_and_delete((5,), third).expect("a good disk"));
    assert!(table.compare_and_delete((5,), fifth).expect("a good disk"));
    assert!(!table.compare_and_delete((5,), fifth).expect("a good disk"));
    assert_eq!(rows(&table), [(0, 0), (1, 11)]);

    // A table of keys alone.
    let keys = engine
        .create_table("keys", Schema::builder().key("k", Type::U8).build().expect("valid"))
        .expect("new");
    let key = keys.compare_and_set((1,), None).expect("a good disk");
    assert_eq!(keys.get((1,)).expect("readable").expect("it is there").version(), key);
    assert_eq!(keys.multi_get([(1,)]).expect("readable")[0].as_ref().expect("it is there").version(), key);
}

#[test]
fn rows_of_scans_know_their_version_in_whatever_way_they_are_scanned() {
    let (_dir, engine, table) = with_rows(0..40);
    table.flush().expect("a good disk");
    for id in (0..40).step_by(3) {
        table.update((id,)).set("number", 1).apply().expect("it is there");
    }
    table.flush().expect("a good disk");
    for id in (0..40).step_by(5) {
        table.update((id,)).set("number", 2).apply().expect("it is there");
    }
    let check = || {
        let rows = table.multi_get((0..40).map(|id| (id,))).expect("readable");
        let expected: Vec<_> = rows.iter().map(|row| row.as_ref().expect("it is there").version()).collect();
        assert!(expected.iter().all(Option::is_some));
        let ways: [fn(Scan) -> Scan; 5] = [
            |scan| scan,
            |scan| scan.columns(["id"]),
            |scan| scan.columns(["number"]),
            |scan| scan.columns([""; 0]),
            |scan| scan.columns(["id"]).filter(column("number").ge(0)),
        ];
        for way in ways {
            let scan = || way(table.scan());
            let rows: Vec<_> = scan().rows().expect("a scan").map(|row| row.expect("readable")).collect();
            assert!(rows.iter().map(nyala::Row::version).eq(expected.iter().copied()));
            // Batches whose memory is used again.
            let mut cursor = scan().reverse().cursor().expect("a scan");
            for expected in expected.iter().rev() {
                assert_eq!(cursor.next().expect("readable").expect("a row").version(), *expected);
            }
            let batches = scan().batches().expect("a scan").map(|batch| batch.expect("readable"));
            let versions: Vec<_> =
                batches.flat_map(|batch| batch.iter().map(|row| row.version()).collect::<Vec<_>>()).collect();
            assert_eq!(versions, expected);
        }
    };
    check();
    table.compact().expect("a good disk");
    check();

    // In a transaction too, but for what it has written itself.
    let mut transaction = engine.transaction();
    transaction.upsert(&table, (7, 7, None::<&str>)).expect("it fits");
    let seen = |row: &nyala::Row| (pair(row).0, row.version());
    let outside: Vec<_> =
        table.scan().rows().expect("a scan").map(|row| seen(&row.expect("readable"))).collect();
    let expected = |id: u32| if id == 7 { None } else { outside[id as usize].1 };
    for (id, row) in (0..).zip(transaction.scan(&table).rows().expect("a scan")) {
        assert_eq!(seen(&row.expect("readable")), (id, expected(id)));
        let row = transaction.get(&table, (id,)).expect("readable").expect("it is there");
        assert_eq!(row.version(), expected(id));
    }
    for (id, row) in (0..).zip(transaction.multi_get(&table, (0..40).map(|id| (id,))).expect("readable")) {
        assert_eq!(row.expect("it is there").version(), expected(id));
    }
    // What a scan has told is good to compare with.
    let row = table.scan().range((9,)..).first().expect("readable").expect("it is there");
    assert!(table.compare_and_set((9, 9, None::<&str>), row.version()).expect("a good disk").is_some());
    assert!(table.compare_and_set((9, 8, None::<&str>), row.version()).expect("a good disk").is_none());
}

#[test]
fn in_a_batch_a_comparison_that_fails_fails_it_whole_and_is_named() {
    let (_dir, engine, table) = with_rows(0..2);
    let version = table.get((1,)).expect("readable").expect("it is there").version();
    let mut batch = engine.batch();
    batch.upsert(&table, (0, 1, "x")).expect("it fits");
    batch.compare_and_set(&table, (1, 2, "y"), version).expect("it fits");
    // What the batch itself wrote has no version yet.
    batch.compare_and_set(&table, (1, 3, "z"), version).expect("it fits");
    let error = batch.commit(Durability::Buffered).expect_err("the second comparison fails");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Conflict, Some(2)), "{error}");
    assert_eq!(rows(&table), [(0, 0), (1, 10)]);
    let mut batch = engine.batch();
    batch.delete(&table, (0,)).expect("a key");
    batch.compare_and_set(&table, (0, 7, "again"), None).expect("absent by then");
    batch.compare_and_delete(&table, (1,), version.expect("a get knows it")).expect("a key");
    batch.commit(Durability::Sync).expect("all of it holds");
    assert_eq!(rows(&table), [(0, 7)]);
}

#[test]
fn a_range_is_deleted_in_steps_and_no_row_beside_it() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("a new database");
    let table = plain_table(&engine);
    for id in 0..300 {
        table.upsert((id, i64::from(id), None::<&str>)).expect("it fits");
    }
    let snapshot = engine.snapshot();
    assert_eq!(table.delete_range((50,)..(250,), 120).expect("a good disk"), 120);
    assert_eq!(table.first().expect("readable").map(|row| pair(&row)), Some((0, 0)));
    assert_eq!(table.scan().range((50,)..).first().expect("readable").map(|row| pair(&row).0), Some(170));
    assert_eq!(table.delete_range((50,)..(250,), 120).expect("a good disk"), 80);
    assert_eq!(table.delete_range((50,)..(250,), 120).expect("a good disk"), 0);
    assert_eq!(table.count().expect("readable"), 100);
    assert_eq!(table.scan().range((0,)..(250,)).count().expect("readable"), 50);
    assert_eq!(table.scan().at(&snapshot).count().expect("readable"), 300);
    engine.flush().expect("a good disk");
    assert_eq!(table.delete_range((260,)..=(260,), 5).expect("a good disk"), 1);
    let everything: std::ops::RangeFrom<(u32,)> = (0,)..;
    assert_eq!(table.delete_range(everything, 1000).expect("a good disk"), 99);
    assert!(table.first().expect("readable").is_none() && table.last().expect("readable").is_none());
    let bad = ErrorKind::InvalidArgument;
    refused(table.delete_range((0,)..(1,), 0), bad, &["limit"]);
    refused(table.delete_range((0,)..(1,), 1_000_001), bad, &["1000000"]);
    refused(table.delete_range((0, 1)..(1, 2), 1), bad, &["columns"]);
    assert_eq!(table.delete_range((9,)..(1,), 1).expect("an empty range"), 0);
    assert_clean(&engine);
    engine.drop_table("t").expect("it is there");
    refused(table.delete_range((0,)..(1,), 1), ErrorKind::NoSuchTable, &[]);
}

#[test]
fn a_range_of_long_keys_is_deleted_in_batches_that_fit() {
    let dir = scratch();
    let options = Options { batch_bytes_max: 4096, ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("a new database");
    let table = engine
        .create_table("t", Schema::builder().key("k", Type::String).build().expect("valid"))
        .expect("new");
    for number in 0..10 {
        table.upsert((format!("{number}{}", "x".repeat(1500)),)).expect("it fits");
    }
    let steps: Vec<usize> = std::iter::from_fn(|| {
        let deleted = table.delete_range(("",).., 100).expect("a good disk");
        (deleted > 0).then_some(deleted)
    })
    .collect();
    assert_eq!(steps, [2, 2, 2, 2, 2]);
}

#[test]
fn the_ends_of_a_scan_are_its_first_row_and_its_last() {
    let (_dir, engine, table) = with_rows(0..10);
    engine.flush().expect("a good disk");
    table.delete((9,)).expect("a key");
    let id = |row: nyala::Result<Option<nyala::Row>>| row.expect("readable").map(|row| pair(&row).0);
    assert_eq!((id(table.first()), id(table.last())), (Some(0), Some(8)));
    let scan = || table.scan().range((3,)..(7,));
    assert_eq!((id(scan().first()), id(scan().last())), (Some(3), Some(6)));
    assert_eq!((id(scan().reverse().first()), id(scan().reverse().last())), (Some(6), Some(3)));
    assert_eq!((id(scan().limit(2).first()), id(scan().limit(2).last())), (Some(3), Some(4)));
    let few = || table.scan().filter(nyala::column("number").gt(40).and(nyala::column("number").lt(70)));
    assert_eq!((id(few().first()), id(few().last())), (Some(5), Some(6)));
    assert_eq!(id(table.scan().range((20,)..).last()), None);
    refused(table.scan().columns(["nobody"]).first(), ErrorKind::InvalidArgument, &["nobody"]);
}

/// Of many who change one row each change counts, whatever comes between its reading and its writing.
#[test]
fn no_write_is_lost_between_reading_and_writing() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("a new database");
    let table = plain_table(&engine);
    table.upsert((0, 0, None::<&str>)).expect("it fits");
    const EACH: i64 = 300;
    let (inserted, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (table, inserted, taken) = (&table, &inserted, &taken);
            scope.spawn(move || {
                for round in 0..EACH {
                    let plus_one = table
                        .update_with((0,), |row, change| change.set("number", row.get::<i64>("number")? + 1));
                    plus_one.expect("it is there");
                    loop {
                        let row = table.get((0,)).expect("readable").expect("it is there");
                        let (_, number) = pair(&row);
                        if table
                            .compare_and_set((0, number + 1, None::<&str>), row.version())
                            .expect("a good disk")
                            .is_some()
                        {
                            break;
                        }
                    }
                    let key = 1 + (round % 20) as u32;
                    if table.insert_or_get((key, writer, None::<&str>)).expect("a good disk").is_none() {
                        inserted.fetch_add(1, Ordering::Relaxed);
                    }
                    if round % 3 == 0 && table.delete_returning((key,)).expect("a good disk").is_some() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(pair(&table.get((0,)).expect("readable").expect("it is there")).1, 4 * EACH * 2);
    let left = table.count().expect("readable") - 1;
    assert_eq!(
        inserted.load(Ordering::Relaxed) - taken.load(Ordering::Relaxed),
        left,
        "each row was taken once"
    );
    assert_clean(&engine);
}

/// Who writes a row and finds it gone knows that a deletion saw it: so of each row it is known who took it, or it is
/// there.
#[test]
fn a_range_that_is_deleted_takes_each_row_once_and_none_unseen() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("a new database");
    let table = plain_table(&engine);
    const KEYS: u32 = 40;
    let (stop, inserted, deleted) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (table, stop, inserted, deleted) = (&table, &stop, &inserted, &deleted);
        let deleters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let taken = table.delete_range((0,)..(KEYS,), 1000).expect("a good disk");
                        deleted.fetch_add(taken as u64, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    for round in 0..300i64 {
                        for key in (0..KEYS).step_by(7) {
                            if table.insert_ignore((key, round, None::<&str>)).expect("a good disk") {
                                inserted.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        stop.store(true, Ordering::Relaxed);
        deleters.into_iter().for_each(|deleter| deleter.join().expect("no panic"));
    });
    let left = table.count().expect("readable");
    assert_eq!(inserted.load(Ordering::Relaxed), deleted.load(Ordering::Relaxed) + left);
    assert_clean(&engine);
}
