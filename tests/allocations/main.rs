//! What allocates and what does not: an allocator counts for this binary alone.
//!
//! Writing allocates for each batch a little and for each row nothing; what a memtable needs comes in chunks. Reading
//! by key allocates for the row that it gives; a scan allocates for each batch, never for each row.
#![allow(unsafe_code, reason = "an allocator cannot be written without; the engine's crates forbid it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nyala::{Durability, Engine, Options, Schema, Type};

/// Counts allocations: those of one thread, and those of all while a test asks for it.
struct Counting;

thread_local! {
    static OF_THIS_THREAD: Cell<u64> = const { Cell::new(0) };
}
static OF_ALL: AtomicU64 = AtomicU64::new(0);
static IS_COUNTING_ALL: AtomicBool = AtomicBool::new(false);

fn count() {
    // A thread that ends may allocate after its counter is gone.
    let _ = OF_THIS_THREAD.try_with(|count| count.set(count.get() + 1));
    if IS_COUNTING_ALL.load(Ordering::Relaxed) {
        OF_ALL.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting neither
// allocates (the thread's counter is const-initialised and needs no destructor) nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above; the pointer came from the same allocator.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, so that counts over all threads are one engine's.
static ALONE: Mutex<()> = Mutex::new(());

/// The allocations of this thread while `run` runs.
fn here(run: impl FnOnce()) -> u64 {
    let before = OF_THIS_THREAD.get();
    run();
    OF_THIS_THREAD.get() - before
}

/// Those of all threads.
fn everywhere(run: impl FnOnce()) -> u64 {
    let before = OF_ALL.load(Ordering::Relaxed);
    IS_COUNTING_ALL.store(true, Ordering::Relaxed);
    run();
    IS_COUNTING_ALL.store(false, Ordering::Relaxed);
    OF_ALL.load(Ordering::Relaxed) - before
}

fn open(dir: &std::path::Path) -> (Engine, nyala::Table) {
    let options = Options { background_sync_interval: None, ..Options::default() };
    let engine = Engine::open(dir, options).expect("it opens");
    let schema = Schema::builder().key("host", Type::U32).key("metric", Type::String).key("id", Type::U64);
    let schema =
        schema.column("value", Type::F64).column("note", Type::String.nullable()).build().expect("good");
    let table = engine.open_or_create_table("t", schema).expect("a table");
    (engine, table)
}

const BATCHES: u64 = 1000;
const ROWS: u64 = 100;

fn write(batch: &mut nyala::WriteBatch, table: &nyala::Table, number: u64) {
    for row in 0..ROWS {
        let id = (number * ROWS + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        batch.upsert(table, (17, "cpu", id, 0.5, Some("a note that is no short one"))).expect("encoded");
    }
    batch.commit(Durability::Buffered).expect("it is committed");
}

#[test]
fn upserts_in_batches_allocate_by_batch_and_never_by_row() {
    let _alone = ALONE.lock().expect("no panics");
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, table) = open(dir.path());
    let mut batch = engine.batch();
    // Until buffers have their size.
    for number in 0..100 {
        write(&mut batch, &table, number);
    }
    let memory_before = engine.stats().memtable_bytes;
    let mut most = 0;
    let mut total = 0;
    let of_all = everywhere(|| {
        for number in 100..100 + BATCHES {
            let of_batch = here(|| write(&mut batch, &table, number));
            most = most.max(of_batch);
            total += of_batch;
        }
    });
    let grown = engine.stats().memtable_bytes.saturating_sub(memory_before);
    println!(
        "{BATCHES} batches of {ROWS} upserts: {total} allocations in the writing thread ({most} in one batch), {of_all} in \
         all threads; the memtable grew by {grown} bytes"
    );
    // A ticket, the queue's entry, the group and its records: a handful a batch. Nodes come by the 64, keys and rows by
    // the mebibyte.
    let chunks = grown / (16 << 10) + 64;
    assert!(total <= BATCHES * 8 + chunks, "{total} allocations for {BATCHES} batches");
    assert!(most < ROWS / 2, "{most} allocations in one batch of {ROWS} rows");
    assert!(of_all <= total + BATCHES, "{of_all} allocations in all threads");
}

#[test]
fn single_upserts_and_deletes_allocate_a_handful() {
    let _alone = ALONE.lock().expect("no panics");
    let dir = tempfile::tempdir().expect("a directory");
    let (_engine, table) = open(dir.path());
    let one = |id: u64| {
        table.upsert((17, "cpu", id % 500, 0.5, Some("a note that is no short one"))).expect("a row");
        table.delete((18, "cpu", id % 500)).expect("deleted");
    };
    (0..1000).for_each(one);
    let count = here(|| (0..1000).for_each(one));
    println!("2,000 single writes: {count} allocations");
    assert!(count <= 2000 * 8 + 100, "{count}");
}

#[test]
fn reads_by_key_allocate_for_the_row_that_they_give() {
    let _alone = ALONE.lock().expect("no panics");
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, table) = open(dir.path());
    let mut batch = engine.batch();
    for id in 0..2000u64 {
        batch.upsert(&table, (17, "cpu", id, 0.5, Some("a note"))).expect("encoded");
    }
    batch.commit(Durability::Buffered).expect("it is committed");
    for place in ["memory", "disk"] {
        let get = |id: u64| drop(table.get((17, "cpu", id % 2500)).expect("a row"));
        let exists = |id: u64| assert_eq!(table.exists((17, "cpu", id % 2500)).expect("a row"), id < 2000);
        (0..2500).for_each(get);
        let gets = here(|| (0..2500).for_each(get));
        let exist = here(|| (0..2500).for_each(exists));
        println!("from {place}: {gets} allocations for 2,500 gets, {exist} for 2,500 exists");
        assert!(gets <= 2500 * 12, "{place}: {gets}");
        assert!(exist <= 2500 * 4, "{place}: {exist}");
        table.flush().expect("it is flushed");
    }
}

#[test]
fn scans_allocate_by_batch_and_never_by_row() {
    let _alone = ALONE.lock().expect("no panics");
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, table) = open(dir.path());
    let rows = 50_000u64;
    let mut batch = engine.batch();
    for id in 0..rows {
        batch.upsert(&table, (17, "cpu", id, 0.5, Some("a note"))).expect("encoded");
        if batch.len() == 1000 {
            batch.commit(Durability::Buffered).expect("it is committed");
        }
    }
    for place in ["memory", "disk"] {
        let cursor = || {
            let mut sum = 0.0;
            let mut cursor = table.scan().cursor().expect("a scan");
            while let Some(row) = cursor.next().expect("a row") {
                sum += row.get::<f64>("value").expect("a number");
            }
            assert_eq!(sum, rows as f64 * 0.5);
        };
        let owned = || {
            assert_eq!(table.scan().rows().expect("a scan").filter(|row| row.is_ok()).count() as u64, rows)
        };
        let counted = || assert_eq!(table.count().expect("rows"), rows);
        for (name, scan) in [("cursor", &cursor as &dyn Fn()), ("rows", &owned), ("count", &counted)] {
            scan();
            let allocations = here(scan);
            println!("from {place}, by {name}: {allocations} allocations for {rows} rows");
            assert!(allocations <= rows / 20, "{place}, {name}: {allocations} allocations for {rows} rows");
        }
        table.flush().expect("it is flushed");
    }
}

#[derive(nyala::Record)]
struct Lent<'a> {
    #[nyala(key)]
    host: u32,
    #[nyala(key)]
    metric: &'a str,
    #[nyala(key)]
    id: u64,
    value: f64,
    note: Option<&'a str>,
}

#[test]
fn structs_are_written_and_read_without_memory_of_their_own() {
    let _alone = ALONE.lock().expect("no panics");
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, table) = open(dir.path());
    let mut batch = engine.batch();
    let note = Some("a note that is no short one");
    let fill = |batch: &mut nyala::WriteBatch| {
        for id in 0..ROWS {
            batch.upsert(&table, Lent { host: 17, metric: "cpu", id, value: 0.5, note }).expect("encoded");
        }
    };
    // Until the buffers have their size.
    fill(&mut batch);
    batch.clear();
    assert_eq!(here(|| fill(&mut batch)), 0, "encoding");
    batch.commit(Durability::Buffered).expect("it is committed");

    let mut cursor = table.scan().cursor().expect("a scan");
    let mut rows = 0;
    while let Some(row) = cursor.next().expect("read") {
        let mut sum = 0.0;
        let count = here(|| {
            let lent: Lent<'_> = row.to().expect("of this table");
            sum = lent.value + lent.note.map_or(0, str::len) as f64 + f64::from(lent.host) + lent.id as f64;
        });
        assert_eq!((count, sum > 17.0), (0, true), "decoding");
        rows += 1;
    }
    assert_eq!(rows, ROWS);
}
