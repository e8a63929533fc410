//! Counts heap allocations: none for a read whose blocks are cached, none for each entry written or walked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nyala_sstable::{Cache, Caching, Compression, Direction, KeyedReader, KeyedWriter};
use nyala_sstable::{OrdinalReader, OrdinalWriter, WriterOptions, WriterScratch};

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
    assert!(count < 150, "{count} allocations for {ENTRIES} entries");
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

/// Compaction reads and writes like this: past the cache, file after file, in the same memory.
#[test]
fn passes_beside_the_cache_allocate_for_files_and_not_for_blocks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fs = vfs::OsFs;
    let options = WriterOptions::default();
    let cache = || Cache::new(1 << 20);

    let mut scratch = WriterScratch::default();
    let mut readers = Vec::new();
    for file in 1..=3 {
        let path = dir.path().join(format!("{file}.idx"));
        let count = allocations(|| {
            let id = codec::FileId(file);
            let memory = std::mem::take(&mut scratch);
            let mut writer = KeyedWriter::create_with(&fs, &path, id, &options, memory).expect("create");
            for i in 0..ENTRIES {
                writer.add(&key(i * file), None, &[1; 14]).expect("add");
            }
            let (info, memory) = writer.finish_with_scratch(b"");
            assert_eq!(info.expect("finish").entries, ENTRIES);
            scratch = memory;
        });
        assert!(file == 1 || count < 30, "{count} allocations for file {file}");
        let reader = KeyedReader::open(&fs, &path, codec::FileId(file), cache(), None).expect("open");
        assert_eq!(reader.verify().expect("sound file").filtered, ENTRIES);
        readers.push(reader);
    }

    for readahead in [0, 64 << 10] {
        let mut iter = readers[0].iter();
        iter.set_caching(Caching::Leave);
        iter.set_readahead(readahead);
        for (file, reader) in (1..).zip(&readers) {
            let count = allocations(|| {
                iter.set_reader(reader.clone());
                iter.seek_to_first().expect("sound file");
                let mut entries = 0;
                while iter.valid() {
                    assert_eq!(iter.key(), key(entries * file));
                    entries += 1;
                    iter.next().expect("sound file");
                }
                assert_eq!(entries, ENTRIES);
                reader.for_each_block(Caching::Leave, |_, bytes| assert!(bytes > 0)).expect("sound file");
            });
            assert!(count < if file == 1 { 40 } else { 10 }, "{count} allocations for file {file}");
        }
    }

    for compression in [Compression::None, Compression::Lz4] {
        let path = dir.path().join(format!("{compression:?}.row"));
        let options = WriterOptions { compression, ..WriterOptions::default() };
        let mut writer = OrdinalWriter::create(&fs, &path, codec::FileId(9), &options).expect("create");
        for i in 0..ENTRIES {
            writer.push(&[&key(i), b" and more of a row, and more, and more"]).expect("push");
        }
        writer.finish(b"").expect("finish");
        let reader = OrdinalReader::open(&fs, &path, codec::FileId(9), cache(), None).expect("open");
        for step in [1, 7, 1000] {
            let count = allocations(|| {
                let mut cursor = reader.cursor(Direction::Forward);
                cursor.set_caching(Caching::Leave);
                for i in (0..ENTRIES).step_by(step) {
                    let row = cursor.get(i as u32).expect("sound file");
                    assert!(row.starts_with(&key(i)));
                }
            });
            assert!(count < 60, "{count} allocations, {compression:?}, every {step}th row");
        }
    }
}
