//! Compactions against a model, and what stops one.

mod counts;
mod damage;
mod parallel;

use std::collections::{BTreeMap, BTreeSet};

use codec::{FileId, Location, RowId};
use proptest::prelude::*;
use vfs::sim::{Fault, OpSet};

use super::*;
use crate::model::{Disk, Index, Op, delete, ops, put, puts, tiny_files};
use crate::{Entry, RunWriter};

fn everyone_reads_the_newest(index: &Index) -> Retention {
    Retention { floor: index.version(), snapshots: Vec::new() }
}

fn index_of(flushes: &[Vec<Op>]) -> Index {
    let mut index = Index::new();
    for flush in flushes {
        index.flush(flush);
    }
    index
}

fn remove(disk: &Disk, files: &[WrittenFile]) {
    for file in files {
        disk.fs.remove(&file.path).expect("it was written");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Flush(Vec<Op>),
    Snapshot,
    DropSnapshot(prop::sample::Index),
    Compact { start: prop::sample::Index, end: prop::sample::Index, moving: u64, lag: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => ops(1..50).prop_map(Step::Flush),
        1 => Just(Step::Snapshot),
        1 => index().prop_map(Step::DropSnapshot),
        3 => (index(), index(), any::<u64>(), 0u64..30)
            .prop_map(|(start, end, moving, lag)| Step::Compact { start, end, moving, lag }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // Cases 17 to 20: whatever is merged, with snapshots of every age, no reader that there can be sees a difference.
    #[test]
    fn compaction_changes_no_result_at_any_retained_version(steps in proptest::collection::vec(step(), 1..14)) {
        let mut index = Index::new();
        let mut snapshots: BTreeSet<Version> = BTreeSet::new();
        // Readers are at the floor or above it, or at a snapshot.
        let mut floor = Version(0);
        for step in steps {
            match step {
                Step::Flush(ops) => index.flush(&ops),
                Step::Snapshot => {
                    floor = index.version();
                    snapshots.insert(floor);
                }
                Step::DropSnapshot(which) => {
                    if !snapshots.is_empty() {
                        let snapshot = *snapshots.iter().nth(which.index(snapshots.len())).expect("in range");
                        snapshots.remove(&snapshot);
                    }
                }
                Step::Compact { start, end, moving, lag } => {
                    if index.runs.is_empty() {
                        continue;
                    }
                    let start = start.index(index.runs.len());
                    let range = start..start + 1 + end.index(index.runs.len() - start);
                    floor = floor.max(Version(index.version().0.saturating_sub(lag)));
                    let retention = Retention { floor, snapshots: snapshots.iter().copied().collect() };
                    let mut compaction = index.compaction(range.clone(), &retention);
                    compaction.moving = index
                        .rowsets()
                        .into_iter()
                        .enumerate()
                        .filter(|(bit, _)| moving >> (bit % 64) & 3 == 3)
                        .map(|(_, rowset)| rowset)
                        .collect();
                    let outcome = index.run_compaction(&compaction).expect("sound inputs");
                    for file in &outcome.files {
                        for &rowset in &compaction.moving {
                            prop_assert_eq!(file.properties.entries_in(rowset), 0);
                        }
                    }
                    let stats = index.install(range, &outcome);
                    prop_assert_eq!(stats.entries_in, stats.entries_out + stats.entries_dropped);
                    let readers = (floor.0..=index.version().0 + 1).step_by(11).map(Version);
                    index.check(readers.chain(snapshots.iter().copied()).chain([index.version()]));
                }
            }
        }
        // With nobody reading the past, one merge of all leaves one version of each live key, and nothing else.
        if !index.runs.is_empty() {
            index.compact(0..index.runs.len(), &everyone_reads_the_newest(&index));
            index.check([index.version()]);
            let live = index.keys().iter().filter(|key| index.expected(key, Version::MAX).is_some()).count();
            let entries: u64 = index.runs.iter().map(|run| run.entries()).sum();
            prop_assert_eq!(entries, live as u64);
        }
    }
}

// Case 17.
#[test]
fn a_deletion_stays_as_long_as_something_older_lies_below() {
    let mut index = index_of(&[vec![put("k"), put("other")], vec![delete("k")], vec![put("later")]]);
    let retention = everyone_reads_the_newest(&index);
    index.compact(0..2, &retention);
    index.check([index.version()]);
    assert_eq!(index.runs[0].deletions(), 1, "the row below must stay covered");
    index.compact(0..2, &retention);
    index.check([index.version()]);
    assert_eq!((index.runs[0].deletions(), index.runs[0].entries()), (0, 2));
}

// Case 19.
#[test]
fn what_a_snapshot_held_goes_once_it_is_dropped() {
    let mut index = index_of(&[vec![put("k"), put("l")]]);
    let snapshot = index.version();
    index.flush(&[put("k"), delete("l")]);
    let mut retention = everyone_reads_the_newest(&index);
    retention.snapshots.push(snapshot);
    index.compact(0..2, &retention);
    index.check([snapshot, index.version()]);
    assert_eq!(index.runs[0].entries(), 4);
    retention.snapshots.clear();
    let stats = index.compact(0..1, &retention);
    index.check([index.version()]);
    assert_eq!((index.runs[0].entries(), stats.entries_dropped), (1, 3));
}

// Case 20, and the bounded list of a hot key.
#[test]
fn a_hot_key_under_one_old_snapshot_keeps_a_bounded_list() {
    let mut index = index_of(&[vec![put("hot")], vec![put("hot"); 300]]);
    let mut retention = Retention { floor: index.version(), snapshots: vec![Version(1), Version(77)] };
    index.compact(0..2, &retention);
    for _ in 0..5 {
        index.flush(&vec![put("hot"); 300]);
        retention.floor = index.version();
        index.compact(0..2, &retention);
        assert_eq!(index.runs[0].entries(), 3, "the newest, and one for each snapshot");
    }
    index.check([Version(1), Version(77), index.version()]);
}

// Case 62.
#[test]
fn a_compaction_that_yields_nothing_leaves_no_files() {
    let mut index = index_of(&[puts(0..200), (0..200).map(|n| delete(format!("{n:06}"))).collect()]);
    let before = index.disk.fs.paths();
    let outcome =
        index.run_compaction(&index.compaction(0..2, &everyone_reads_the_newest(&index))).expect("sound");
    assert!(outcome.files.is_empty() && outcome.reused.is_empty());
    assert_eq!(outcome.stats.entries_dropped, 400);
    assert_eq!(index.disk.fs.paths(), before);
    index.install(0..2, &outcome);
    assert!(index.runs.is_empty());
    index.check([index.version()]);
}

#[test]
fn files_that_overlap_nothing_and_need_no_change_move_whole() {
    let mut index = index_of(&[puts(0..300), puts(300..600), [puts(600..900), puts(1200..1500)].concat()]);
    index.flush(&puts(1000..1010));
    let stats = index.compact(0..4, &everyone_reads_the_newest(&index));
    index.check([index.version()]);
    assert!(stats.files_reused > 20, "{stats:?}");
    assert!(stats.entries_in < 60, "{stats:?}");

    // A file with several versions, with deletions at the base, of a rowset that moves, or a small one is read.
    let retention = everyone_reads_the_newest(&index);
    for moving in index.rowsets() {
        let mut compaction = index.compaction(0..1, &retention);
        compaction.moving.push(moving);
        let outcome = index.run_compaction(&compaction).expect("sound");
        assert!(outcome.reused.iter().all(|file| file.properties.entries_in(moving) == 0));
    }
    let mut index = index_of(&[(0..300).map(|n| delete(format!("{n:06}"))).collect(), puts(300..600)]);
    assert!(index.compact(0..1, &retention).files_reused > 0);
    index.flush(&[puts(700..800), puts(700..800)].concat());
    let mut compaction = index.compaction(0..3, &retention);
    let outcome = index.run_compaction(&compaction).expect("sound");
    let reused = &outcome.reused;
    assert!(!reused.is_empty());
    assert!(reused.iter().all(|file| file.properties.deletions == 0 && !file.properties.has_several));
    compaction.options.reuse_bytes_min = 1 << 20;
    assert!(index.run_compaction(&compaction).expect("sound").reused.is_empty());
}

#[test]
fn a_cancelled_compaction_leaves_nothing_behind() {
    let index = index_of(&[puts(0..500), puts(0..500)]);
    let before = index.disk.fs.paths();
    let compaction = index.compaction(0..2, &everyone_reads_the_newest(&index));
    let cancel = AtomicBool::new(false);
    let moves = Arc::clone(&index.moves);
    let hook = move |_: usize| moves.hook();

    /// Sets the flag when some slices have run.
    struct CancelsAfter<'c>(usize, &'c AtomicBool);
    impl Executor for CancelsAfter<'_> {
        fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
            for (index, job) in jobs.into_iter().enumerate() {
                self.1.store(index >= self.0, Ordering::Relaxed);
                job();
            }
        }
    }
    let error =
        compaction.run(&index.disk, &CancelsAfter(3, &cancel), &hook, &cancel).expect_err("cancelled");
    assert!(matches!(error, Error::Cancelled) && !error.is_corruption());
    assert_eq!(index.disk.fs.paths(), before);

    /// Is shut down before all have run.
    struct DropsJobs;
    impl Executor for DropsJobs {
        fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
            jobs.into_iter().take(2).for_each(|job| job());
        }
    }
    let error =
        compaction.run(&index.disk, &DropsJobs, &hook, &AtomicBool::new(false)).expect_err("cancelled");
    assert!(matches!(error, Error::Cancelled));
    assert_eq!(index.disk.fs.paths(), before);
}

// Case 53, as far as it is the index's: every write, sync and read fails once.
#[test]
fn a_disk_error_anywhere_leaves_the_inputs_and_nothing_else() {
    let mut index = index_of(&[puts(0..150), puts(50..200)]);
    let compaction = index.compaction(0..2, &everyone_reads_the_newest(&index));
    let before = index.disk.fs.paths();
    let first = index.disk.fs.operations();
    let outcome = index.run_compaction(&compaction).expect("no faults yet");
    remove(&index.disk, &outcome.files);
    let operations = index.disk.fs.operations() - first;
    for fault in [Fault::eio().on(OpSet::READS), Fault::eio().on(OpSet::SYNCS), Fault::enospc()] {
        let mut failures = 0;
        for nth in (0..operations).step_by(operations as usize / 20) {
            index.disk.fs.fail_at(index.disk.fs.operations() + nth, fault);
            let result = index.run_compaction(&compaction);
            index.disk.fs.clear_faults();
            match result {
                Err(error) => {
                    assert!(error.io().is_some() && !error.is_corruption(), "{error}");
                    assert_eq!(index.disk.fs.paths(), before, "{fault:?} at {nth}");
                    failures += 1;
                }
                Ok(outcome) => remove(&index.disk, &outcome.files),
            }
        }
        assert!(failures > 2, "{fault:?}");
    }
    index.check([index.version()]);
    index.compact(0..2, &everyone_reads_the_newest(&index));
    index.check([index.version()]);
}

#[test]
fn runs_whose_versions_overlap_are_refused() {
    let mut index = index_of(&[puts(0..10), puts(0..10)]);
    index.runs.swap(0, 1);
    let error = index
        .run_compaction(&index.compaction(0..2, &everyone_reads_the_newest(&index)))
        .expect_err("swapped");
    assert!(matches!(error, Error::Run { .. }), "{error}");
    assert!(Run::new(Vec::new()).is_err());
    let files = [index.runs[0].files(), index.runs[1].files()].concat();
    assert!(matches!(Run::new(files), Err(Error::Run { .. })));
}

#[test]
fn a_hook_that_fails_fails_the_compaction_with_its_own_error() {
    #[derive(Debug, thiserror::Error)]
    #[error("no room for rows")]
    struct NoRoom;
    struct Fails {
        at: u32,
    }
    impl Relocate for Fails {
        fn relocate(
            &mut self,
            _key: &[u8],
            _entry: Entry,
            _from: Location,
        ) -> std::result::Result<Location, crate::BoxError> {
            self.at = self.at.checked_sub(1).ok_or(NoRoom)?;
            Ok(Location { rowset: RowsetId(9999), rowid: RowId(self.at) })
        }
        fn finish(self: Box<Self>) -> std::result::Result<(), crate::BoxError> {
            Err(NoRoom.into())
        }
    }
    let index = index_of(&[puts(0..300)]);
    let before = index.disk.fs.paths();
    let mut compaction = index.compaction(0..1, &everyone_reads_the_newest(&index));
    compaction.moving = index.rowsets().into_iter().collect();
    for at in [5, 1000] {
        let hook = |_: usize| -> Box<dyn Relocate> { Box::new(Fails { at }) };
        let error = compaction
            .run(&index.disk, &InlineExecutor, &hook, &AtomicBool::new(false))
            .expect_err("the hook fails");
        assert!(error.relocate().is_some_and(|source| source.is::<NoRoom>()), "{error}");
        assert_eq!(index.disk.fs.paths(), before);
    }
}

#[test]
fn a_writer_refuses_keys_out_of_order_and_removes_what_it_made() {
    let disk = Disk::new();
    let options = RunOptions { file_bytes: 1, ..tiny_files() };
    for file_bytes in [1, 1 << 20] {
        let options = RunOptions { file_bytes, ..options.clone() };
        let mut writer = RunWriter::new(&disk, &options);
        let entry = Entry::deletion(Version(1));
        writer.add(b"b", None, &[entry]).expect("the first key");
        writer.add(b"c", None, &[]).expect("nothing to write");
        for key in [&b"a"[..], b"b"] {
            assert!(matches!(writer.add(key, None, &[entry]), Err(Error::KeyOrder { .. })));
        }
        writer.abandon();
        assert!(disk.fs.paths().is_empty(), "{:?}", disk.fs.paths());
    }
    let writer = RunWriter::new(&disk, &options);
    assert!(writer.finish().expect("nothing to write").is_empty());
    assert!(disk.fs.paths().is_empty());
}

#[test]
fn a_key_with_a_list_larger_than_a_file_is_written_whole() {
    let disk = Disk::new();
    let many: Vec<_> = (1..2000).rev().map(|version| Entry::deletion(Version(version))).collect();
    let lists = BTreeMap::from([(b"a".to_vec(), many.clone()), (b"b".to_vec(), many[..3].to_vec())]);
    let run = disk.write(&lists, &tiny_files()).expect("a run");
    assert_eq!((run.entries(), run.keys()), (2002, 2));
    let found = run.lookup(b"a", codec::hash_key(b"a"), Version(700)).expect("sound");
    assert_eq!(found, Some(Entry::deletion(Version(700))));
    assert_eq!(run.files()[0].id(), FileId(1));
}
