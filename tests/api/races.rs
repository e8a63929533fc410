//! Two threads in each other's way, brought there by a gate where that can be done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nyala::vfs::SimFs;
use nyala::{Engine, ErrorKind};

use crate::gate::{Call, GateFs};
use crate::support::{
    assert_clean, effort, eventually, lazy, on, plain, plain_table, rows, scratch, simulated,
};

fn named<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread")
}

#[test]
fn a_kill_between_a_flush_and_the_drop_of_its_table_leaves_nothing_missing() {
    let disk = SimFs::new(1);
    let fs = GateFs::new(disk.clone());
    let engine = Engine::open("/db", on(Arc::new(fs.clone()), lazy())).expect("it opens");
    let table = plain_table(&engine);
    let other = engine.create_table("other", plain()).expect("a table");
    table.upsert((1, 1, "a")).expect("a row");
    engine.sync().expect("healthy");

    // The flush is about to open what it wrote. It need not sync the log any more.
    let flush_opens = fs.hold(Call::Open, ".idx", "nyala-flush");
    let flusher = named("flusher", {
        let table = table.clone();
        move || table.flush()
    });
    flush_opens.wait_reached();
    // The drop has marked the table and must sync the log first.
    other.upsert((1, 1, "a")).expect("a row");
    let drop_syncs = fs.hold(Call::Sync, ".wal", "dropper");
    let dropper = named("dropper", {
        let engine = engine.clone();
        move || engine.drop_table("t")
    });
    drop_syncs.wait_reached();
    flush_opens.open();
    eventually("the flush", || engine.stats().flushes == 1);

    let killed = disk.fork();
    drop_syncs.open();
    dropper.join().expect("no panic").expect("it is dropped");
    // It finds the table dropped, or done.
    let _ = flusher.join().expect("no panic");
    let after =
        Engine::open("/db", simulated(&killed, lazy())).expect("the manifest names only what is there");
    assert_clean(&after);
    assert_eq!(rows(&plain_table(&after)), [(1, 1)]);
    engine.close().expect("a clean end");
    let after = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
    assert_eq!(after.tables(), ["other"]);
}

/// Whatever a flush has done so far, a kill loses nothing: above all, no part of the log goes before the edit is there.
#[test]
fn a_kill_at_every_station_of_a_flush_loses_nothing() {
    let stations = [
        (Call::Create, ".row"),
        (Call::Sync, ".row"),
        (Call::Create, ".idx"),
        (Call::Sync, ".idx"),
        (Call::Open, ".idx"),
        (Call::Open, ".row"),
        (Call::Write, ".manifest"),
        (Call::Sync, ".manifest"),
    ];
    for (call, suffix) in stations {
        let disk = SimFs::new(1);
        let fs = GateFs::new(disk.clone());
        let options = nyala::Options { log_segment_bytes: 4096, ..lazy() };
        let engine = Engine::open("/db", on(Arc::new(fs.clone()), options)).expect("it opens");
        let table = plain_table(&engine);
        for id in 0..300 {
            table.upsert((id, 1, "some text, to fill a few segments of the log")).expect("a row");
        }
        let held = fs.hold(call, suffix, "nyala-flush");
        let flusher = named("flusher", {
            let table = table.clone();
            move || table.flush()
        });
        held.wait_reached();
        let killed = disk.fork();
        held.open();
        flusher.join().expect("no panic").expect("it is flushed");
        let after = Engine::open("/db", simulated(&killed, lazy()))
            .unwrap_or_else(|error| panic!("killed at {call:?} of {suffix}: {error}"));
        assert_eq!(rows(&plain_table(&after)).len(), 300, "killed at {call:?} of {suffix}");
        assert_clean(&after);
    }
}

#[test]
fn a_compaction_that_a_caller_runs_does_not_reach_beyond_the_close() {
    let dir = scratch();
    let fs = GateFs::unsynced();
    let engine = Engine::open(dir.path(), on(Arc::new(fs.clone()), lazy())).expect("it opens");
    let table = plain_table(&engine);
    for number in 0..2 {
        for id in 0..100 {
            table.upsert((id, number, "a")).expect("a row");
        }
        table.flush().expect("it is flushed");
    }
    let compacts = fs.hold(Call::Create, ".idx", "compactor");
    let compactor = named("compactor", {
        let table = table.clone();
        move || table.compact()
    });
    compacts.wait_reached();
    let closer = named("closer", {
        let engine = engine.clone();
        move || engine.close()
    });
    // Either the close waits for the compaction, or what comes after the close has nothing to fear from it.
    std::thread::sleep(Duration::from_millis(100));
    if closer.is_finished() {
        let second = Engine::open(dir.path(), lazy()).expect("it is closed");
        let table = plain_table(&second);
        for id in 0..300 {
            table.upsert((id, 7, "b")).expect("a row");
        }
        second.flush().expect("it is flushed");
        compacts.open();
        let _ = compactor.join().expect("no panic");
        assert_clean(&second);
        second.close().expect("a clean end");
        let third = Engine::open(dir.path(), lazy()).expect("nothing is missing");
        assert_clean(&third);
        assert_eq!(rows(&plain_table(&third)), (0..300).map(|id| (id, 7)).collect::<Vec<_>>());
    } else {
        compacts.open();
        let _ = compactor.join().expect("no panic");
        closer.join().expect("no panic").expect("a clean end");
        let second = Engine::open(dir.path(), lazy()).expect("it is closed");
        assert_clean(&second);
        assert_eq!(rows(&plain_table(&second)), (0..100).map(|id| (id, 1)).collect::<Vec<_>>());
    }
}

#[test]
fn a_table_whose_making_was_acknowledged_is_there_although_another_thread_closed() {
    let dir = scratch();
    let fs = GateFs::unsynced();
    let engine = Engine::open(dir.path(), on(Arc::new(fs.clone()), lazy())).expect("it opens");
    let writes = fs.hold(Call::Write, ".manifest", "maker");
    let maker = named("maker", {
        let engine = engine.clone();
        move || engine.create_table("t", plain()).map(|_| ())
    });
    writes.wait_reached();
    let closer = named("closer", {
        let engine = engine.clone();
        move || engine.close()
    });
    std::thread::sleep(Duration::from_millis(100));
    let second = closer.is_finished().then(|| Engine::open(dir.path(), lazy()).expect("it is closed"));
    writes.open();
    let made = maker.join().expect("no panic");
    closer.join().expect("no panic").expect("a clean end");
    let second = second.unwrap_or_else(|| Engine::open(dir.path(), lazy()).expect("it is closed"));
    match made {
        Ok(()) => assert_eq!(second.tables(), ["t"], "it was acknowledged"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
    }
}

#[test]
fn a_key_is_never_reported_absent_because_its_table_is_being_dropped() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    for _ in 0..60 * effort() {
        let table = plain_table(&engine);
        table.upsert((1, 1, "a")).expect("a row");
        table.flush().expect("it is flushed");
        let snapshot = engine.snapshot();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (table, stop, snapshot) = (&table, &stop, &snapshot);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let found = match reader {
                            0 => table.get((1,)).map(|row| row.is_some()),
                            _ => table.get_at((1,), snapshot).map(|row| row.is_some()),
                        };
                        match found {
                            Ok(found) => assert!(found, "a row that nobody deleted is absent"),
                            Err(error) => return assert_eq!(error.kind(), ErrorKind::NoSuchTable, "{error}"),
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_micros(200));
            engine.drop_table("t").expect("it is dropped");
            stop.store(true, Ordering::Relaxed);
        });
    }
}
