//! What the tests share: an index of many small files on a simulated disk, beside a plain map that says what it must
//! answer.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use codec::{FileId, Location, RowId, RowsetId, Version, hash_key};
use proptest::prelude::*;
use sstable::{Cache, Direction, WriterOptions};
use vfs::{Fs, SimFs};

use crate::{
    BoxError, Compaction, CompactionOptions, CompactionStats, Entry, Error, IndexFile, InlineExecutor, Merge,
    Outcome, Output, Place, Relocate, Retention, Run, RunCursor, RunOptions, RunWriter, WrittenFile,
};

/// A simulated disk that gives out file numbers.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) fs: SimFs,
    next: AtomicU64,
    pub(crate) cache: Arc<Cache>,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let fs = SimFs::new(1);
        fs.create_dir_all(Path::new("/db")).expect("a folder");
        Disk { fs, next: AtomicU64::new(1), cache: Cache::new(1 << 20) }
    }

    pub(crate) fn open(&self, file: &WrittenFile) -> Result<Arc<IndexFile>, Error> {
        let expect = (file.info.len, file.info.footer_checksum);
        IndexFile::open(&self.fs, &file.path, file.info.id, Arc::clone(&self.cache), expect)
    }

    pub(crate) fn path(id: FileId) -> PathBuf {
        PathBuf::from(format!("/db/{id}.idx"))
    }

    /// Writes lists as a run.
    pub(crate) fn write(
        &self,
        lists: &BTreeMap<Vec<u8>, Vec<Entry>>,
        options: &RunOptions,
    ) -> Option<Arc<Run>> {
        let mut writer = RunWriter::new(self, options);
        for (key, list) in lists {
            writer.add(key, None, list).expect("a disk without faults");
        }
        let written = writer.finish().expect("a disk without faults");
        let files: Vec<_> = written.iter().map(|file| self.open(file).expect("what was written")).collect();
        assert_eq!(files.is_empty(), lists.is_empty(), "no file is written for no entries");
        (!files.is_empty()).then(|| Arc::new(Run::new(files).expect("files in order")))
    }
}

impl Output for Disk {
    fn next_file(&self) -> io::Result<(FileId, PathBuf)> {
        let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
        Ok((id, Disk::path(id)))
    }

    fn fs(&self) -> &dyn Fs {
        &self.fs
    }
}

/// Files and blocks so small that a handful of keys has many of them.
pub(crate) fn tiny_files() -> RunOptions {
    let file = WriterOptions {
        block_bytes: 128,
        index_block_bytes: 128,
        restart_interval: 3,
        ..WriterOptions::default()
    };
    RunOptions { file, file_bytes: 700, ..RunOptions::default() }
}

pub(crate) fn tiny_compaction() -> CompactionOptions {
    CompactionOptions {
        run: tiny_files(),
        slices: 8,
        slice_bytes_min: 300,
        reuse_bytes_min: 700,
        readahead_bytes: 0,
    }
}

/// Moves rows to one new rowset a slice, and notes where they went.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Where each row that was moved lies now, by where it lay before.
    pub(crate) moved: Mutex<BTreeMap<Location, Location>>,
    pub(crate) finished: AtomicU64,
    next_rowset: AtomicU64,
}

struct SliceMoves {
    moves: Arc<Moves>,
    rowset: RowsetId,
    rows: u32,
    last: Option<(Vec<u8>, Version)>,
}

impl Relocate for SliceMoves {
    fn relocate(&mut self, key: &[u8], entry: Entry, from: Location) -> Result<Location, BoxError> {
        assert_eq!(entry.place, Place::At(from));
        if let Some((last_key, last_version)) = &self.last {
            let is_next = &last_key[..] < key || (last_key == key && *last_version > entry.version);
            assert!(is_next, "rows are asked for by key, and of a key the newest first");
        }
        self.last = Some((key.to_vec(), entry.version));
        let to = Location { rowset: self.rowset, rowid: RowId(self.rows) };
        self.rows += 1;
        let before = self.moves.moved.lock().expect("no panic").insert(from, to);
        assert_eq!(before, None, "a row is moved once");
        Ok(to)
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        self.moves.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Moves {
    pub(crate) fn hook(self: &Arc<Moves>) -> Box<dyn Relocate> {
        let rowset = 10_000 + self.next_rowset.fetch_add(1, Ordering::Relaxed) as u32;
        Box::new(SliceMoves { moves: Arc::clone(self), rowset: RowsetId(rowset), rows: 0, last: None })
    }

    fn follow(&self, mut location: Location) -> Location {
        let moved = self.moved.lock().expect("no panic");
        while let Some(&to) = moved.get(&location) {
            location = to;
        }
        location
    }
}

/// An index beside its model.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) disk: Disk,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
    /// All versions of each key that ever were, newest first, at the locations that they were written with.
    history: BTreeMap<Vec<u8>, Vec<Entry>>,
    version: u64,
    rowsets_made: u32,
    pub(crate) moves: Arc<Moves>,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            disk: Disk::new(),
            runs: Vec::new(),
            history: BTreeMap::new(),
            version: 0,
            rowsets_made: 0,
            moves: Arc::default(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        Version(self.version)
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.history.keys().cloned().collect()
    }

    /// Writes operations as a new run on top, with rows in two rowsets of their own.
    pub(crate) fn flush(&mut self, ops: &[Op]) {
        let rowset = self.rowsets_made;
        self.rowsets_made += 2;
        let mut lists: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
        for (row, op) in ops.iter().enumerate() {
            self.version += 1;
            let location = Location { rowset: RowsetId(rowset + row as u32 % 2), rowid: RowId(row as u32) };
            let entry = match op.deletes {
                true => Entry::deletion(Version(self.version)),
                false => Entry::put(Version(self.version), location),
            };
            for lists in [&mut lists, &mut self.history] {
                lists.entry(op.key.clone()).or_default().insert(0, entry);
            }
        }
        if let Some(run) = self.disk.write(&lists, &tiny_files()) {
            self.runs.insert(0, run);
        }
    }

    /// What a reader at `at` finds of `key`, by the model: version and location.
    pub(crate) fn expected(&self, key: &[u8], at: Version) -> Option<(Version, Location)> {
        let entry = self.history.get(key)?.iter().find(|entry| entry.version <= at)?;
        Some((entry.version, self.moves.follow(entry.location()?)))
    }

    /// The same, by look-ups in the runs.
    pub(crate) fn lookup(&self, key: &[u8], at: Version) -> Option<(Version, Location)> {
        let hash = hash_key(key);
        for run in &self.runs {
            if let Some(entry) = run.lookup(key, hash, at).expect("sound files") {
                return Some((entry.version, entry.location()?));
            }
        }
        None
    }

    /// The same for all keys within bounds, by the merge.
    pub(crate) fn scan(
        &self,
        at: Version,
        direction: Direction,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Vec<(Vec<u8>, Version, Location)> {
        let cursors: Vec<RunCursor> =
            self.runs.iter().map(|run| run.cursor(direction, &bounds).expect("sound files")).collect();
        let mut merge = Merge::new(cursors, direction);
        let mut rows = Vec::new();
        while let Some(key) = merge.key() {
            let visible = merge
                .group()
                .iter()
                .find_map(|&source| merge.source(source).visible(at).expect("sound lists"));
            if let Some(Entry { version, place: Place::At(location) }) = visible {
                rows.push((key.to_vec(), version, location));
            }
            merge.advance().expect("sound files");
        }
        rows
    }

    pub(crate) fn expected_scan(
        &self,
        at: Version,
        direction: Direction,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Vec<(Vec<u8>, Version, Location)> {
        let within = |key: &[u8]| {
            let above = match start {
                Bound::Unbounded => true,
                Bound::Included(start) => key >= start,
                Bound::Excluded(start) => key > start,
            };
            let below = match end {
                Bound::Unbounded => true,
                Bound::Included(end) => key <= end,
                Bound::Excluded(end) => key < end,
            };
            above && below
        };
        let mut rows: Vec<_> = self
            .history
            .keys()
            .filter(|key| within(key))
            .filter_map(|key| {
                self.expected(key, at).map(|(version, location)| (key.clone(), version, location))
            })
            .collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        rows
    }

    /// Compares all reads at these versions with the model.
    pub(crate) fn check(&self, versions: impl IntoIterator<Item = Version>) {
        let all = (Bound::Unbounded, Bound::Unbounded);
        for at in versions {
            for key in self.history.keys() {
                assert_eq!(self.lookup(key, at), self.expected(key, at), "get {key:?} at {at}");
            }
            for direction in [Direction::Forward, Direction::Reverse] {
                assert_eq!(
                    self.scan(at, direction, all),
                    self.expected_scan(at, direction, all),
                    "scan {direction:?} at {at}"
                );
            }
        }
    }

    pub(crate) fn compaction(&self, range: std::ops::Range<usize>, retention: &Retention) -> Compaction {
        Compaction {
            base: range.end == self.runs.len(),
            inputs: self.runs[range].to_vec(),
            retention: retention.clone(),
            moving: Vec::new(),
            options: tiny_compaction(),
        }
    }

    pub(crate) fn run_compaction(&self, compaction: &Compaction) -> Result<Outcome, Error> {
        let moves = Arc::clone(&self.moves);
        let hook = move |_slice: usize| moves.hook();
        compaction.run(&self.disk, &InlineExecutor, &hook, &AtomicBool::new(false))
    }

    /// Puts what came out in the place of these runs.
    pub(crate) fn install(&mut self, range: std::ops::Range<usize>, outcome: &Outcome) -> CompactionStats {
        let mut files: Vec<_> =
            outcome.files.iter().map(|file| self.disk.open(file).expect("what was written")).collect();
        files.extend(outcome.reused.iter().map(Arc::clone));
        files.sort_by(|a, b| a.info.first_key.cmp(&b.info.first_key));
        let run = (!files.is_empty()).then(|| Arc::new(Run::new(files).expect("files in order")));
        self.runs.splice(range, run);
        outcome.stats
    }

    /// Merges runs into one.
    pub(crate) fn compact(
        &mut self,
        range: std::ops::Range<usize>,
        retention: &Retention,
    ) -> CompactionStats {
        let outcome = self.run_compaction(&self.compaction(range.clone(), retention)).expect("sound inputs");
        self.install(range, &outcome)
    }

    pub(crate) fn rowsets(&self) -> BTreeSet<RowsetId> {
        let mut counts = BTreeMap::new();
        for run in &self.runs {
            run.count_rowsets(&mut counts);
        }
        counts.into_keys().collect()
    }
}

/// An operation on a key.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) key: Vec<u8>,
    pub(crate) deletes: bool,
}

pub(crate) fn put(key: impl AsRef<[u8]>) -> Op {
    Op { key: key.as_ref().to_vec(), deletes: false }
}

pub(crate) fn delete(key: impl AsRef<[u8]>) -> Op {
    Op { key: key.as_ref().to_vec(), deletes: true }
}

/// Keys from a small set: the empty one, prefixes of one another, long ones that differ late.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => Just(Vec::new()),
        20 => (0u16..120).prop_map(|number| format!("key{number:03}").into_bytes()),
        4 => (0u8..20).prop_map(|number| [&b"a common prefix of many bytes / "[..], &[number]].concat()),
        2 => (0usize..4).prop_map(|length| vec![0xff; length]),
    ]
}

pub(crate) fn ops(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Op>> {
    let op = (keys(), proptest::bool::weighted(0.3)).prop_map(|(key, deletes)| Op { key, deletes });
    proptest::collection::vec(op, count)
}

/// Keys in a row, so that runs lie beside each other.
pub(crate) fn puts(numbers: std::ops::Range<u32>) -> Vec<Op> {
    numbers.map(|number| put(format!("{number:06}"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn look_ups_and_merges_agree_with_the_model_at_every_version(
        flushes in proptest::collection::vec(ops(0..60), 0..6),
        bounds in proptest::collection::vec((keys(), keys(), 0u8..9), 6),
    ) {
        let mut index = Index::new();
        for flush in &flushes {
            index.flush(flush);
        }
        index.check((0..=index.version).step_by(7).map(Version).chain([index.version(), Version::MAX]));
        prop_assert_eq!(index.lookup(b"never written", Version::MAX), None);
        for (start, end, kind) in &bounds {
            let bound = |kind: u8, key| match kind {
                0 => Bound::Unbounded,
                1 => Bound::Included(key),
                _ => Bound::Excluded(key),
            };
            let bounds = (bound(kind / 3, &start[..]), bound(kind % 3, &end[..]));
            for direction in [Direction::Forward, Direction::Reverse] {
                prop_assert_eq!(
                    index.scan(Version::MAX, direction, bounds),
                    index.expected_scan(Version::MAX, direction, bounds)
                );
            }
        }
    }
}
