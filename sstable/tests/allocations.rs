//! Counts heap allocations: none for a read whose blocks are cached, none for each entry written or walked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nyala_sstable::{Cache, Compression, Direction, KeyedReader, KeyedWriter};
use nyala_sstable::{OrdinalReader, OrdinalWriter, WriterOptions};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator can be counted only by being one")]
// SAFETY: each call is passed on unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    run();
    COUNT.get() - before
}

const ENTRIES: u64 = 100_000;

fn key(i: u64) -> [u8; 16] {
    let mut key = *b"host-0000-------";
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

#[test]
fn cached_reads_allocate_nothing_and_writers_nothing_per_entry() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fs = vfs::OsFs;
    let cache = Cache::new(64 << 20);
    let options = WriterOptions { compression: Compression::Lz4, ..WriterOptions::default() };

    let path = dir.path().join("1.idx");
    let mut writer = KeyedWriter::create(&fs, &path, codec::FileId(1), &options).expect("create");
    let count = allocations(|| {
        for i in 0..ENTRIES {
            writer.add(&key(i), Some(codec::hash_key(&key(i))), &[1; 14]).expect("add");
        }
    });
    // With debug assertions, the filter's builder puts all hashes into a set of its own, to see that they differ.
    let most = if cfg!(debug_assertions) { ENTRIES / 8 } else { 200 };
    assert!(count < most, "{count} allocations for {ENTRIES} entries");
    let info = writer.finish(b"").expect("finish");
    let reader = KeyedReader::open(&fs, &path, info.id, cache.clone(), None).expect("open");

    let get = || {
        for i in (0..ENTRIES).step_by(7) {
            let found = reader.get(&key(i), codec::hash_key(&key(i))).expect("sound file");
            assert_eq!(found.expect("it was added").bytes(), [1; 14]);
            assert!(reader.get(&key(i)[..15], codec::hash_key(&key(i)[..15])).expect("sound file").is_none());
        }
    };
    get();
    assert_eq!(allocations(get), 0);

    let mut iter = reader.iter();
    let mut walk = || {
        iter.seek_to_first().expect("sound file");
        while iter.valid() {
            iter.next().expect("sound file");
        }
        iter.seek_to_last().expect("sound file");
        while iter.valid() {
            iter.prev().expect("sound file");
        }
    };
    walk();
    assert_eq!(allocations(walk), 0);

    let path = dir.path().join("2.row");
    let mut writer = OrdinalWriter::create(&fs, &path, codec::FileId(2), &options).expect("create");
    let count = allocations(|| {
        for i in 0..ENTRIES {
            writer.push(&[&key(i), b" and more of a row"]).expect("push");
        }
    });
    assert!(count < 200, "{count} allocations for {ENTRIES} rows");
    let info = writer.finish(b"").expect("finish");
    let reader = OrdinalReader::open(&fs, &path, info.id, cache, None).expect("open");
    let get = || {
        let mut cursor = reader.cursor(Direction::Forward);
        for i in 0..ENTRIES as u32 {
            assert_eq!(reader.get(i).expect("sound file").bytes(), cursor.get(i).expect("sound file"));
        }
    };
    get();
    assert_eq!(allocations(get), 0);
}
