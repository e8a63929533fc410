//! Closing and dropping, whatever is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nyala::vfs::Fs;
use nyala::{Durability, Engine, ErrorKind, Options};

use crate::gate::{Call, GateFs};
use crate::support::{assert_clean, effort, in_time, lazy, on, plain_table, rows, scratch, tiny};

/// Writes until the engine says that it is closed, or `rounds` times. Returns how many were acknowledged.
fn write(table: &nyala::Table, writer: u32, rounds: u32) -> u32 {
    for round in 0..rounds {
        match table.upsert((writer * 100_000 + round, i64::from(round), "x".repeat(50))) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                return round;
            }
        }
    }
    rounds
}

// docs/testing.md, fault 46
#[test]
fn closing_or_dropping_with_writers_active_returns_and_loses_nothing() {
    let rounds = if effort() > 1 { 1000 } else { 200 };
    in_time("200 ends", Duration::from_secs(60), move || {
        for round in 0..rounds {
            let dir = scratch();
            let fs: Arc<dyn Fs> = Arc::new(GateFs::unsynced());
            // Two segments of log, so that sealed memtables wait at most times.
            let options =
                || Options { background_threads: 1, log_bytes_max: 8192, ..on(Arc::clone(&fs), tiny()) };
            let engine = Engine::open(dir.path(), options()).expect("it opens");
            let table = plain_table(&engine);
            let written: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
            std::thread::scope(|scope| {
                for (writer, written) in (0..).zip(&written) {
                    let table = table.clone();
                    // Half of the rounds end by a close, the others when the last handle goes.
                    let rows = if round % 2 == 0 { u32::MAX } else { 10 + round % 60 };
                    scope.spawn(move || {
                        written.store(u64::from(write(&table, writer, rows)), Ordering::Relaxed);
                    });
                }
                drop(table);
                std::thread::sleep(Duration::from_micros(u64::from(round % 20) * 200));
                if round % 2 == 0 {
                    engine.close().expect("a clean end");
                }
                drop(engine);
            });
            // Whoever holds the engine's insides, a thread say, holds its file system.
            assert_eq!(Arc::strong_count(&fs), 1, "round {round}: something of the engine lives on");
            let engine = Engine::open(dir.path(), options()).expect("it reopens at once");
            let table = plain_table(&engine);
            for (writer, written) in (0u32..).zip(&written) {
                let count =
                    table.scan().range((writer * 100_000,)..((writer + 1) * 100_000,)).count().expect("rows");
                assert_eq!(count, written.load(Ordering::Relaxed), "round {round}, writer {writer}");
            }
        }
    });
}

#[test]
fn those_that_wait_are_woken_by_a_close() {
    let dir = scratch();
    let fs = GateFs::unsynced();
    let engine = Engine::open(dir.path(), on(Arc::new(fs.clone()), tiny())).expect("it opens");
    let table = plain_table(&engine);
    // The flush stands still, so that memory fills and writers stop; somebody waits for a flush, too.
    let held = fs.hold(Call::Create, ".row", "nyala-flush");
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let table = table.clone();
            std::thread::spawn(move || write(&table, writer, u32::MAX))
        })
        .collect();
    held.wait_reached();
    let flusher = {
        let table = table.clone();
        std::thread::spawn(move || table.flush())
    };
    crate::support::eventually("a full memory", || engine.stats().stopped_batches > 0);
    let closer = {
        let engine = engine.clone();
        std::thread::spawn(move || engine.close())
    };
    // Before the flush goes on, all that wait for it have their answer.
    let counts: Vec<u32> = writers
        .into_iter()
        .map(|writer| in_time("a writer", Duration::from_secs(10), || writer.join().expect("no panic")))
        .collect();
    let flushed = in_time("the flush", Duration::from_secs(10), || flusher.join().expect("no panic"));
    crate::support::refused(flushed, ErrorKind::Closed, &[]);
    held.open();
    closer.join().expect("no panic").expect("a clean end");
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    assert_eq!(
        plain_table(&engine).count().expect("rows"),
        counts.iter().map(|count| u64::from(*count)).sum::<u64>()
    );
    assert_clean(&engine);
}

// docs/testing.md, fault 9
#[test]
fn after_a_clean_end_nothing_is_replayed_however_often_it_is_opened() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    for id in 0..100 {
        table.upsert((id, 1, "a")).expect("a row");
    }
    let mut version = engine.snapshot().version();
    drop((table, engine));
    for round in 0..3 {
        let engine = Engine::open(dir.path(), lazy()).expect("it opens");
        let report = engine.recovery_report();
        assert_eq!((report.replayed_operations, report.torn.clone()), (0, None), "round {round}");
        assert_eq!(rows(&plain_table(&engine)).len(), 100);
        // Versions are never used again.
        let now = engine.snapshot().version();
        assert!(now > version, "{now} after {version}");
        version = now;
        if round == 1 {
            engine.batch().commit(Durability::Sync).expect("nothing to do");
            engine.close().expect("a clean end");
        }
    }
}

#[test]
fn the_last_handle_may_be_a_table_or_a_batch() {
    let dir = scratch();
    for last in 0..3 {
        let engine = Engine::open(dir.path(), lazy()).expect("it opens");
        let table = plain_table(&engine);
        let mut batch = engine.batch();
        drop(engine);
        batch.upsert(&table, (last, 1, "a")).expect("encoded");
        match last {
            0 => {
                drop(batch);
                table.upsert((last, 1, "a")).expect("the table keeps the engine open");
            }
            1 => {
                drop(table);
                batch.commit(Durability::Buffered).expect("the batch keeps the engine open");
            }
            _ => {
                batch.commit(Durability::Buffered).expect("both do");
                let rows = table.scan().rows().expect("a scan");
                drop((batch, table));
                // An iterator keeps nothing open.
                for row in rows {
                    if let Err(error) = row {
                        assert_eq!(error.kind(), ErrorKind::Closed);
                        break;
                    }
                }
            }
        }
    }
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    assert_eq!(rows(&plain_table(&engine)), [(0, 1), (1, 1), (2, 1)]);
}
