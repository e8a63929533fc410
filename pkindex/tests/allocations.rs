//! Compaction must not touch the allocator once per key, and not once per block: its allocations grow with files and
//! slices.
//!
//! One test, so that nothing else allocates while it counts.
#![allow(unsafe_code, clippy::disallowed_methods)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use codec::{FileId, Location, RowId, RowsetId, Version};
use nyala_pkindex::{
    BoxError, Compaction, CompactionOptions, CompactionStats, Entry, Error, Executor, IndexFile,
    InlineExecutor, Output, Relocate, Retention, Run, RunOptions, RunWriter, WrittenFile,
};
use sstable::Cache;
use vfs::{Fs, OsFs};

/// Counts the allocations of all threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came; the counter is an atomic number and does
// not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
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
        let options = RunOptions::default();
        let mut writer = RunWriter::new(self, &options);
        for key in (0..keys).step_by(step) {
            let location = Location { rowset: RowsetId(versions as u32), rowid: RowId(key as u32) };
            let entry = Entry::put(Version(versions * keys + key + 1), location);
            writer.add(format!("host-{key:020}").as_bytes(), None, &[entry]).expect("a sound disk");
        }
        self.open(&writer.finish().expect("a sound disk")).expect("what was written")
    }
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

/// Runs slices on two threads.
struct TwoThreads;

impl Executor for TwoThreads {
    fn run<'a>(&self, mut jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        let later = jobs.split_off(jobs.len() / 2);
        std::thread::scope(|scope| {
            scope.spawn(|| InlineExecutor.run(later));
            InlineExecutor.run(jobs);
        });
    }
}

/// Merges three runs of `keys` keys, of which a third overlaps, files in, files out, and counts allocations.
fn allocations(keys: u64, slice_bytes: u64, executor: &dyn Executor) -> (u64, CompactionStats) {
    let folder = Folder::new();
    let inputs = vec![folder.run(keys, 3, 2), folder.run(keys, 2, 1), folder.run(keys, 1, 0)];
    let compaction = Compaction {
        inputs,
        base: true,
        retention: Retention { floor: Version(u64::MAX), snapshots: vec![Version(keys)] },
        moving: vec![RowsetId(1)],
        options: CompactionOptions { slice_bytes_min: slice_bytes, ..CompactionOptions::default() },
    };
    let hook = |_: usize| -> Box<dyn Relocate> { Box::new(Elsewhere) };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let outcome = compaction.run(&folder, executor, &hook, &AtomicBool::new(false)).expect("sound inputs");
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let opened = folder.open(&outcome.files).expect("what was written");
    for file in opened.files() {
        let report = file.reader.verify().expect("a sound file");
        assert_eq!(report.filtered, report.entries, "filters are on");
    }
    (allocations, outcome.stats)
}

#[test]
fn allocations_grow_with_files_and_slices_and_never_with_keys_or_blocks() {
    const KEYS: u64 = 300_000;
    let (few, _) = allocations(KEYS / 10, u64::MAX, &InlineExecutor);
    let (many, stats) = allocations(KEYS, u64::MAX, &InlineExecutor);
    assert_eq!((stats.keys, stats.slices), (KEYS, 1));
    assert!(stats.keys_passed > KEYS / 4 && stats.entries_dropped > KEYS / 10);
    assert!(stats.entries_moved > KEYS / 10);
    let blocks = (stats.bytes_in + stats.bytes_out) / 4096;
    println!("{many} allocations for {} keys in {blocks} blocks; {few} for a tenth", stats.keys);
    assert!(many * 1000 < stats.keys, "{many} allocations for {} keys", stats.keys);
    assert!((many - few) * 50 < blocks, "{many} allocations in {blocks} blocks, {few} for a tenth");

    // A slice costs a few dozen, whichever thread has it.
    for executor in [&InlineExecutor as &dyn Executor, &TwoThreads] {
        let (sliced, stats) = allocations(KEYS, 2 << 20, executor);
        println!("{sliced} allocations in {} slices", stats.slices);
        assert!(stats.slices >= 4, "{stats:?}");
        assert!(sliced - many < 100 * stats.slices, "{sliced} allocations in {} slices", stats.slices);
    }
}
