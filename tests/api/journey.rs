//! A row's journey: one row from its commit through log, memtable, flush and compaction, and back after a kill, with
//! what can be seen from outside at each station.

use std::sync::Arc;

use nyala::vfs::OsFs;
use nyala::{Durability, Engine, Options, Row};

use crate::support::{as_after_a_kill, assert_clean, files_of, lazy, plain_table, scratch};

fn see(table: &nyala::Table) -> String {
    let row: Option<Row> = table.get((17,)).expect("a row");
    let by_key = format!("{:?}", row.expect("it is there"));
    let scanned: Vec<String> = table
        .scan()
        .prefix((17,))
        .rows()
        .expect("a scan")
        .map(|row| format!("{:?}", row.expect("a row")))
        .collect();
    assert_eq!(scanned, std::slice::from_ref(&by_key));
    assert!(table.exists((17,)).expect("a row"));
    by_key
}

#[test]
fn a_row_goes_from_commit_to_disk_and_back() {
    let dir = scratch();
    // The real disk, with every sync.
    let options = Options { fs: Arc::new(OsFs), ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    let table = plain_table(&engine);
    let start = engine.stats();
    assert_eq!((start.batches, start.memtable_bytes, start.row_bytes), (0, 0, 0));

    // Commit: one batch, one operation, one version.
    let mut batch = engine.batch();
    batch.insert(&table, (17, -5, "a row's journey")).expect("encoded");
    let encoded_bytes = batch.bytes() as u64;
    assert_eq!(engine.stats().committed_bytes, 0, "an open batch writes nothing");
    batch.commit(Durability::Sync).expect("it is committed");
    let committed = engine.stats();
    assert_eq!((committed.commit_groups, committed.batches, committed.operations), (1, 1, 1));
    assert_eq!(committed.visible_version, start.visible_version.next());
    assert_eq!(committed.committed_bytes, encoded_bytes);
    let row = see(&table);
    assert!(row.contains("17") && row.contains("-5") && row.contains("a row's journey"), "{row}");

    // Log: the bytes of the batch and little more, and the row's text in the file.
    assert!(committed.log_bytes >= start.log_bytes + encoded_bytes);
    assert!(committed.log_bytes < start.log_bytes + encoded_bytes + 200);
    let log = std::fs::read(&files_of(dir.path(), "wal")[0]).expect("a log");
    let text = b"a row's journey";
    assert_eq!(log.windows(text.len()).filter(|bytes| bytes == text).count(), 1);

    // A kill here: replayed from the log.
    let killed = as_after_a_kill(dir.path());
    let again = Engine::open(killed.path(), lazy()).expect("it opens");
    assert_eq!(again.recovery_report().replayed_operations, 1);
    assert_eq!(see(&plain_table(&again)), row);
    let replayed = plain_table(&again).stats();
    assert_eq!(
        (replayed.memtable_bytes, replayed.rowsets, replayed.live_rows),
        (0, 1, 1),
        "replay writes it out"
    );

    // Memtable: in memory only.
    let in_memory = table.stats();
    assert!(in_memory.memtable_bytes > encoded_bytes);
    assert_eq!((in_memory.rowsets, in_memory.index_runs, in_memory.sealed_memtables), (0, 0, 0));
    assert!(files_of(dir.path(), "row").is_empty() && files_of(dir.path(), "idx").is_empty());

    // Flush: one row in one rowset, one entry in one run.
    table.flush().expect("it is flushed");
    // Memory may be given back a moment after.
    crate::support::eventually("the memtable goes", || {
        table.stats().memtable_bytes == 0 && engine.stats().flushes == 1
    });
    let flushed = table.stats();
    assert_eq!(
        (flushed.memtable_bytes, flushed.rowsets, flushed.stored_rows, flushed.live_rows),
        (0, 1, 1, 1)
    );
    assert_eq!(
        (flushed.index_runs, flushed.index_files, flushed.index_entries, flushed.index_deletions),
        (1, 1, 1, 0)
    );
    assert_eq!((files_of(dir.path(), "row").len(), files_of(dir.path(), "idx").len()), (1, 1));
    assert_eq!(see(&table), row);

    // A second version: the old row is garbage after a compaction, for which no row moves.
    let snapshot = engine.snapshot();
    table.update((17,)).set("number", 6).apply().expect("it is there");
    let newer = see(&table);
    table.flush().expect("it is flushed");
    assert_eq!((table.stats().index_runs, table.stats().index_entries, table.stats().live_rows), (2, 2, 2));
    table.compact().expect("it is merged");
    assert_eq!(
        (table.stats().index_runs, table.stats().index_entries),
        (1, 2),
        "the snapshot needs the old one"
    );
    let old = table.get_at((17,), &snapshot).expect("a row").expect("it is there");
    assert_eq!(format!("{old:?}"), row);
    drop(snapshot);
    table.compact().expect("it is merged");
    let merged = table.stats();
    assert_eq!((merged.index_runs, merged.index_entries, merged.live_rows, merged.rowsets), (1, 1, 1, 1));
    assert_eq!(see(&table), newer);
    drop(old);
    crate::support::eventually("the old files go", || files_of(dir.path(), "row").len() == 1);
    assert_clean(&engine);

    // A clean end and a new start: nothing to replay, nothing changed.
    engine.close().expect("a clean end");
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    assert_eq!(engine.recovery_report().replayed_operations, 0);
    assert_eq!((see(&table), table.stats()), (newer, merged));

    // Deleted: a deletion on top, and after a compaction nothing at all.
    table.delete((17,)).expect("deleted");
    assert!(table.get((17,)).expect("a row").is_none());
    table.flush().expect("it is flushed");
    assert_eq!(
        (table.stats().index_entries, table.stats().index_deletions, table.stats().rowsets),
        (2, 1, 1)
    );
    table.compact().expect("it is merged");
    let nothing = table.stats();
    assert_eq!((nothing.index_entries, nothing.index_runs, nothing.rowsets, nothing.row_bytes), (0, 0, 0, 0));
    assert!(!table.exists((17,)).expect("a row"));
    crate::support::eventually("the files go", || files_of(dir.path(), "row").is_empty());
    assert_clean(&engine);
    engine.close().expect("a clean end");
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    assert_eq!(plain_table(&engine).count().expect("rows"), 0);
}
