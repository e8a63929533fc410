//! Compaction must not touch the allocator once per key: its allocations grow with blocks and files.
#![allow(unsafe_code, clippy::disallowed_methods)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use codec::{FileId, Location, RowId, RowsetId, Version};
use nyala_pkindex::{
    BoxError, Compaction, CompactionOptions, CompactionStats, Entry, Error, IndexFile, InlineExecutor,
    Output, Relocate, Retention, Run, RunOptions, RunWriter, WrittenFile,
};
use sstable::{Cache, WriterOptions};
use vfs::{Fs, OsFs};

/// Counts the allocations of the thread that asks, so that tests beside each other do not disturb each other.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came; the counter is a plain thread-local cell that
// does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Folder {
    fs: OsFs,
    folder: tempfile::TempDir,
    next: AtomicU64,
}

impl Output for Folder {
    fn next_file(&self) -> io::Result<(FileId, PathBuf)> {
        let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
        Ok((id, self.folder.path().join(format!("{id}.idx"))))
    }

    fn fs(&self) -> &dyn Fs {
        &self.fs
    }
}

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().expect("a folder");
        Folder { fs: OsFs::new(), folder, next: AtomicU64::new(1) }
    }

    fn open(&self, files: &[WrittenFile]) -> Result<Arc<Run>, Error> {
        let cache = Cache::new(8 << 20);
        let files = files
            .iter()
            .map(|file| {
                let expect = (file.info.len, file.info.footer_checksum);
                IndexFile::open(&self.fs, &file.path, file.info.id, Arc::clone(&cache), expect)
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Run::new(files)?))
    }

    /// A run of every `step`th key below `keys`.
    fn run(&self, keys: u64, step: usize, versions: u64) -> Arc<Run> {
        let options = without_filter();
        let mut writer = RunWriter::new(self, &options);
        for key in (0..keys).step_by(step) {
            let location = Location { rowset: RowsetId(versions as u32), rowid: RowId(key as u32) };
            let entry = Entry::put(Version(versions * keys + key + 1), location);
            writer.add(format!("host-{key:020}").as_bytes(), None, &[entry]).expect("a sound disk");
        }
        self.open(&writer.finish().expect("a sound disk")).expect("what was written")
    }
}

/// With debug assertions the library that builds filters puts every hash into a set first, to see that none comes
/// twice. That is not what is counted here.
fn without_filter() -> RunOptions {
    RunOptions { file: WriterOptions { filter: false, ..WriterOptions::default() }, ..RunOptions::default() }
}

/// Moves rows without doing anything.
struct Elsewhere;

impl Relocate for Elsewhere {
    fn relocate(&mut self, _key: &[u8], _entry: Entry, from: Location) -> Result<Location, BoxError> {
        Ok(Location { rowset: RowsetId(77), ..from })
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Merges three runs of `keys` keys, of which a third overlaps, and counts allocations.
fn allocations(keys: u64) -> (u64, CompactionStats) {
    let folder = Folder::new();
    let inputs = vec![folder.run(keys, 3, 2), folder.run(keys, 2, 1), folder.run(keys, 1, 0)];
    let compaction = Compaction {
        inputs,
        base: true,
        retention: Retention { floor: Version(u64::MAX), snapshots: vec![Version(keys)] },
        moving: vec![RowsetId(1)],
        options: CompactionOptions { slices: 1, run: without_filter(), ..CompactionOptions::default() },
    };
    let hook = |_: usize| -> Box<dyn Relocate> { Box::new(Elsewhere) };
    let before = ALLOCATIONS.get();
    let outcome =
        compaction.run(&folder, &InlineExecutor, &hook, &AtomicBool::new(false)).expect("sound inputs");
    (ALLOCATIONS.get() - before, outcome.stats)
}

#[test]
fn allocations_grow_with_blocks_and_never_with_keys() {
    let (few, _) = allocations(10_000);
    let (many, stats) = allocations(100_000);
    assert_eq!(stats.keys, 100_000);
    assert!(stats.keys_passed > 30_000 && stats.entries_dropped > 10_000 && stats.entries_moved > 10_000);
    let blocks = (stats.bytes_in + stats.bytes_out) / 4096;
    println!("{many} allocations for {} keys in {blocks} blocks; {few} for a tenth", stats.keys);
    assert!(many - few < 3 * blocks, "{many} allocations for {} keys in {blocks} blocks", stats.keys);
}
