//! Tables that get another name: nothing else of them changes, for nobody, and after a crash they have one of the two.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;
use nyala::{Durability, Engine, ErrorKind, Event, Options, RuntimeMode, Type};

use crate::support::{
    as_after_a_kill, assert_clean, lazy, plain, plain_table, refused, rows, scratch, simulated, tiny,
};

#[test]
fn whatever_was_begun_before_goes_on_after() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let old = plain_table(&engine);
    old.upsert((1, 10, "a")).expect("it fits");
    engine.flush().expect("a good disk");
    old.upsert((2, 20, "b")).expect("it fits");
    let snapshot = engine.snapshot();
    let mut running = old.scan().rows().expect("a scan");
    let mut batch = engine.batch();
    batch.upsert(&old, (3, 30, "c")).expect("it fits");
    let mut transaction = engine.transaction();
    assert_eq!(transaction.count(&old).expect("readable"), 2);
    transaction.upsert(&old, (4, 40, "d")).expect("it fits");

    let new = engine.rename_table("t", "u").expect("it is there");
    assert_eq!((old.name(), new.name(), engine.tables()), ("t", "u", vec!["u".to_owned()]));
    assert_eq!(running.by_ref().count(), 2);
    transaction.update(&new, (1,), [("number", 11)]).expect("the same table by either handle");
    transaction.commit(Durability::Buffered).expect("a name is nothing that was read");
    batch.upsert(&new, (5, 50, "e")).expect("it fits");
    batch.commit(Durability::Buffered).expect("both handles in one batch");
    let expected = [(1, 11), (2, 20), (3, 30), (4, 40), (5, 50)];
    assert_eq!((rows(&old), rows(&new)), (expected.to_vec(), expected.to_vec()));
    assert_eq!(new.scan().at(&snapshot).count().expect("readable"), 2);

    // A conflict is one by whichever handle.
    let mut transaction = engine.transaction();
    let read = transaction.get(&old, (1,)).expect("readable").expect("it is there");
    transaction
        .update(&old, (2,), [("number", read.get::<i64>("number").expect("a number"))])
        .expect("there");
    new.upsert((1, 12, "a")).expect("it fits");
    refused(transaction.commit(Durability::Buffered), ErrorKind::Conflict, &[]);

    // Older handles alter what they know, and the name stays the new one.
    let altered =
        old.alter().add_column("unit", Type::String, "none").apply().expect("its schema is in force");
    assert_eq!((altered.name(), engine.tables()), ("u", vec!["u".to_owned()]));
    old.update((1,)).set("number", 13).apply().expect("it is there");
    let mut transaction = engine.transaction();
    transaction.update(&old, (2,), [("number", 21)]).expect("it is there");
    transaction.commit(Durability::Buffered).expect("nobody else");
    let row = altered.get((2,)).expect("readable").expect("it is there");
    assert_eq!(row.to_string(), r#"(id: 2, number: 21, text: "b", unit: "none")"#);
    assert_eq!(engine.stats().tables[0].name, "u");
    assert_clean(&engine);
}

#[test]
fn a_name_is_free_once_its_table_has_another() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let first = plain_table(&engine);
    first.upsert((1, 1, "first")).expect("it fits");
    engine.rename_table("t", "u").expect("it is there");
    let second = plain_table(&engine);
    second.upsert((2, 2, "second")).expect("it fits");
    refused(engine.rename_table("t", "u"), ErrorKind::TableExists, &["\"u\""]);
    refused(engine.rename_table("v", "w"), ErrorKind::NoSuchTable, &["\"v\""]);
    refused(engine.rename_table("v", "v"), ErrorKind::NoSuchTable, &["\"v\""]);
    for bad in ["", "a/b", &"x".repeat(256)] {
        refused(engine.rename_table("t", bad), ErrorKind::InvalidArgument, &["name of a table"]);
    }
    assert_eq!(engine.rename_table("t", "t").expect("it has it").name(), "t");
    // In a circle, by way of a third name.
    for (from, to) in [("t", "w"), ("u", "t"), ("w", "u")] {
        engine.rename_table(from, to).expect("it is free");
    }
    assert_eq!((rows(&first), rows(&second)), (vec![(1, 1)], vec![(2, 2)]));
    let named = |engine: &Engine, name: &str| rows(&engine.existing_table(name).expect("it is there"));
    assert_eq!((named(&engine, "t"), named(&engine, "u")), (vec![(1, 1)], vec![(2, 2)]));
    engine.drop_table("t").expect("it is there");
    refused(first.count(), ErrorKind::NoSuchTable, &[]);
    assert_eq!(rows(&second), [(2, 2)]);

    // A copy, a reader beside it, and the next life have the same names.
    let copy = scratch();
    engine.checkpoint(copy.path().join("copy")).expect("a good disk");
    let reader = Engine::open_read_only(dir.path(), Options::default()).expect("it opens");
    let killed = as_after_a_kill(dir.path());
    engine.close().expect("it closes");
    for dir in [copy.path().join("copy").as_path(), killed.path(), dir.path()] {
        let engine = Engine::open(dir, lazy()).expect("it opens");
        assert_eq!((engine.tables(), named(&engine, "u")), (vec!["u".to_owned()], vec![(2, 2)]));
        assert_clean(&engine);
    }
    assert_eq!((reader.tables(), named(&reader, "u")), (vec!["u".to_owned()], vec![(2, 2)]));
    assert_clean(&reader);
}

#[test]
fn files_from_before_are_still_the_tables_own() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("a new database");
    let mut table = plain_table(&engine);
    for round in 0..6 {
        for id in 0..60 {
            table.upsert((id, round, "text")).expect("it fits");
        }
        table.flush().expect("a good disk");
        let (from, to) = if round % 2 == 0 { ("t", "u") } else { ("u", "t") };
        table = engine.rename_table(from, to).expect("it is there");
        assert_clean(&engine);
    }
    table.compact().expect("a good disk");
    assert_eq!(rows(&table), (0..60).map(|id| (id, 5)).collect::<Vec<_>>());
    assert_clean(&engine);
}

/// What is told by name is told by the name of then.
#[test]
fn events_tell_the_name_in_force() {
    let dir = scratch();
    let flushed = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&flushed);
    let listener = move |event: &Event| {
        if let Event::FlushEnded { tables, result: Ok(_), .. } = event {
            heard.lock().expect("no panics").extend(tables.clone());
        }
    };
    let options = Options { listener: Some(Arc::new(listener)), ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("a new database");
    let table = plain_table(&engine);
    table.upsert((1, 1, "x")).and_then(|()| table.flush()).expect("a good disk");
    engine.rename_table("t", "u").expect("it is there");
    table.upsert((2, 1, "x")).and_then(|()| table.flush()).expect("a good disk");
    engine.close().expect("it closes");
    assert_eq!(*flushed.lock().expect("no panics"), ["t", "u"]);
}

/// One edit: it is there or it never was, and it is never there without what was visible before it.
#[test]
fn wherever_the_power_goes_the_table_has_one_of_its_names_and_its_rows() {
    let inline =
        |disk: &SimFs| Options { runtime: RuntimeMode::Inline { seed: 1 }, ..simulated(disk, lazy()) };
    let begin = SimFs::new(1);
    let engine = Engine::open("/db", inline(&begin)).expect("a new database");
    plain_table(&engine).upsert((1, 1, "durable")).expect("it fits");
    engine.close().expect("it closes");
    let mut seen = BTreeSet::new();
    for operation in 0..60 {
        let disk = begin.fork();
        let engine = Engine::open("/db", inline(&disk)).expect("nothing is wrong yet");
        plain_table(&engine).upsert((2, 2, "buffered")).expect("it fits");
        disk.halt_at(disk.operations() + operation);
        let is_renamed = engine.rename_table("t", "u").is_ok();
        for policy in [PowerCut::lose_all(), PowerCut::keep_all()] {
            let cut = disk.power_cut(&policy);
            let engine = Engine::open("/db", inline(&cut)).expect("it opens");
            assert_clean(&engine);
            let names = engine.tables();
            let [name] = &names[..] else { panic!("{names:?}") };
            let rows = rows(&engine.existing_table(name).expect("it is there"));
            assert!(name == "u" || !is_renamed, "operation {operation}: it was acknowledged");
            assert!(
                name == "t" || rows == [(1, 1), (2, 2)],
                "operation {operation}: renamed without what was visible before: {rows:?}"
            );
            seen.insert(name.clone());
        }
    }
    assert_eq!(seen.len(), 2, "cut before and after: {seen:?}");
}

/// Renamed to and fro, altered, made and dropped by several at once: each call ends in its name being right or an error
/// that says that it was not.
#[test]
fn those_who_change_names_at_once_never_lose_a_table_nor_make_two_of_one_name() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("a new database");
    let table = plain_table(&engine);
    table.upsert((0, 1, "text")).expect("it fits");
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let id = u32::try_from(written.load(Ordering::Relaxed)).expect("a few");
                table.upsert((id, 1, "text")).expect("its handle goes on, whatever the name");
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let changers: Vec<_> = (0..3u64)
            .map(|thread| {
                let engine = engine.clone();
                scope.spawn(move || {
                    for round in 0..60 {
                        let (from, to) = if (round + thread) % 2 == 0 { ("t", "u") } else { ("u", "t") };
                        match engine.rename_table(from, to) {
                            Ok(renamed) => assert_eq!(renamed.name(), to),
                            Err(error) => {
                                assert!(
                                    matches!(error.kind(), ErrorKind::NoSuchTable | ErrorKind::TableExists),
                                    "{error}"
                                );
                            }
                        }
                        if round % 10 == thread {
                            // A table beside it takes a name while it is free, and gives it back.
                            if let Ok(other) = engine.create_table(to, plain()) {
                                refused(engine.create_table(to, plain()), ErrorKind::TableExists, &[]);
                                assert_eq!(other.count().expect("it is new"), 0);
                                let parked = format!("{to}{thread}");
                                // It may be another one by now that has the name.
                                if let Ok(taken) = engine.rename_table(to, &parked)
                                    && taken.count().expect("nobody else knows the name") == 0
                                {
                                    engine.drop_table(&parked).expect("nobody else knows the name");
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        changers.into_iter().for_each(|changer| changer.join().expect("no panic"));
        is_over.store(true, Ordering::Release);
    });
    assert_clean(&engine);
    let written = written.load(Ordering::Relaxed);
    assert_eq!(table.count().map_err(|error| error.kind()), Ok(written), "no call dropped it");
    engine.close().expect("it closes");
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let counts: Vec<u64> =
        engine.tables().iter().map(|n| engine.existing_table(n).unwrap().count().unwrap()).collect();
    assert!(counts.contains(&written), "{counts:?}, {written} were written");
}
