//! A whole engine, as small as options allow: its own threads, on a simulated disk.

use std::sync::Arc;

use sync::thread::{self, JoinHandle};
use vfs::SimFs;

use super::disk::Disk;
use crate::{CheckReport, Engine, Error, ErrorKind, Options, Schema, Snapshot, Table, Type};

const DIR: &str = "/db";

/// One thread flushes, one compacts, one keeps house. Nothing is sealed but when a model asks for it.
pub(super) fn tiny() -> Options {
    Options {
        memory_bytes: 512 << 10,
        memtable_bytes: Some(64 << 10),
        log_segment_bytes: 4 << 10,
        log_bytes_max: 16 << 10,
        background_sync_interval: None,
        background_threads: 2,
        ..Options::default()
    }
}

/// Each batch fills a memtable.
pub(super) fn busy() -> Options {
    Options { memtable_bytes: Some(1 << 10), ..tiny() }
}

pub(super) fn open(disk: &Disk, options: Options) -> Engine {
    Engine::open(DIR, Options { fs: Arc::new(disk.clone()), ..options }).expect("it opens")
}

/// Opens what another engine left, or has at this moment, without touching it.
pub(super) fn reopen(disk: &SimFs) -> Engine {
    open(&Disk::on(disk.fork()), tiny())
}

/// A table of two columns: a number that is the key, and another.
pub(super) fn table(engine: &Engine, name: &str) -> Table {
    let schema = Schema::builder().key("id", Type::U64).column("value", Type::U64).build().expect("a schema");
    engine.open_or_create_table(name, schema).expect("a table")
}

/// The same, with room for a text that fills the log.
pub(super) fn bulky_table(engine: &Engine, name: &str) -> Table {
    let schema = Schema::builder().key("id", Type::U64).column("value", Type::U64);
    let schema = schema.column("text", Type::String).build().expect("a schema");
    engine.open_or_create_table(name, schema).expect("a table")
}

pub(super) fn get(table: &Table, id: u64) -> Option<u64> {
    let row = table.get((id,)).expect("reads go on");
    row.map(|row| row.get("value").expect("a number"))
}

pub(super) fn get_at(table: &Table, id: u64, snapshot: &Snapshot) -> Option<u64> {
    let row = table.get_at((id,), snapshot).expect("reads go on");
    row.map(|row| row.get("value").expect("a number"))
}

/// All rows, by a scan.
pub(super) fn rows(table: &Table) -> Vec<(u64, u64)> {
    let rows = table.scan().rows().expect("reads go on");
    rows.map(|row| row.and_then(|row| Ok((row.get("id")?, row.get("value")?))).expect("a row")).collect()
}

pub(super) fn rows_at(table: &Table, snapshot: &Snapshot) -> Vec<(u64, u64)> {
    let rows = table.scan().at(snapshot).rows().expect("reads go on");
    rows.map(|row| row.and_then(|row| Ok((row.get("id")?, row.get("value")?))).expect("a row")).collect()
}

pub(super) fn assert_clean(engine: &Engine) -> CheckReport {
    let report = engine.check().expect("it can be read");
    assert!(report.problems.is_empty(), "{report:?}");
    report
}

pub(super) fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(body)
}

pub(super) fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

/// Whether a write was acknowledged. It may have been refused for these reasons, and no other.
pub(super) fn acknowledged<T>(written: Result<T, Error>, refusals: &[ErrorKind]) -> bool {
    match written {
        Ok(_) => true,
        Err(error) if refusals.contains(&error.kind()) => false,
        Err(error) => panic!("{error}"),
    }
}
