//! One compaction: some neighbouring index runs become one.
//!
//! Owns the order of work: plan the slices, have the executor run them, check what came out. Knows no manifest and no
//! thread, and never touches its inputs: they are in force until the caller has installed the outcome. On any error,
//! and when a slice panics, the files that were written are removed again.
//!
//! Invariants, checked every time, because a wrong merge would lose rows silently:
//! * output keys increase strictly, over all slices and files;
//! * the slices and the files that move whole cover all keys, each once;
//! * entries read = entries written + entries dropped, and keys, entries, deletions and entries of each rowset as read
//!   are those that the inputs' properties name;
//! * no entry of the new run points into a rowset that is being moved.

pub mod pick;
mod slice;
mod split;

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codec::{FileId, RowsetId, Version};
use vfs::Fs;

use crate::error::{Error, Result};
use crate::file::IndexFile;
use crate::merger::{MergeCounts, Relocate, Retention};
use crate::properties::RowsetCounts;
use crate::run::Run;
use crate::stats::CompactionStats;
use crate::writer::{Output, RunOptions, WrittenFile};

use slice::{Scratch, SliceOutcome};
use split::{Piece, Plan};

/// Runs the slices of a compaction. The engine gives one; this crate starts no threads.
pub trait Executor: Sync {
    /// Runs all jobs, in any order and at the same time as it likes, and returns when all have run. It may drop jobs
    /// that have not begun: the compaction is then cancelled. Jobs do not panic.
    fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>);
}

/// Runs slices one after the other on the thread that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlineExecutor;

impl Executor for InlineExecutor {
    fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        for job in jobs {
            job();
        }
    }
}

/// Makes the hook that moves rows, one for each slice, on the thread that runs the slice.
pub type NewRelocate<'a> = dyn Fn(usize) -> Box<dyn Relocate> + Sync + 'a;

/// How a compaction works.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// How its files are written.
    pub run: RunOptions,
    /// The work is cut into about this many slices, if that does not make them too small. Default 32: many more than
    /// threads, so that all are busy to the end.
    pub slices: usize,
    /// A slice is no smaller than this, in bytes of input. Default 16 MiB, a quarter of a file.
    pub slice_bytes_min: u64,
    /// A file smaller than this does not move whole: it is written together with its neighbours. Default 4 MiB, a
    /// quarter of a slice: what a slice wrote is mostly large enough, also when much of its input was dropped.
    pub reuse_bytes_min: u64,
    /// How much of each input is read ahead, in bytes. Default 256 KiB.
    pub readahead_bytes: usize,
}

impl CompactionOptions {
    /// The defaults for files that are written like this: sizes follow the size of a file.
    #[must_use]
    pub fn for_files(run: RunOptions) -> CompactionOptions {
        CompactionOptions {
            slices: 32,
            slice_bytes_min: run.file_bytes / 4,
            reuse_bytes_min: run.file_bytes / 16,
            readahead_bytes: 256 << 10,
            run,
        }
    }
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions::for_files(RunOptions::default())
    }
}

/// A compaction of neighbouring runs of a tablet.
#[derive(Debug)]
pub struct Compaction {
    /// The runs, newest first. One is legal.
    pub inputs: Vec<Arc<Run>>,
    /// Whether the oldest of them is the oldest run of the tablet: only then do deletions go.
    pub base: bool,
    /// Which versions are needed.
    pub retention: Retention,
    /// The rowsets to move rows out of, ascending.
    pub moving: Vec<RowsetId>,
    /// How to work.
    pub options: CompactionOptions,
}

/// What came out of a compaction. The new run is `files` and `reused` together, in key order.
#[derive(Debug)]
pub struct Outcome {
    /// The files that were written and synced, in key order. Their directory is the caller's to sync.
    pub files: Vec<WrittenFile>,
    /// The inputs' files that are part of the new run as they are, in key order.
    pub reused: Vec<Arc<IndexFile>>,
    /// What was done.
    pub stats: CompactionStats,
}

/// What the slices of a compaction share.
struct Shared<'a> {
    compaction: &'a Compaction,
    output: &'a NotedOutput<'a>,
    relocate: &'a NewRelocate<'a>,
    cancel: &'a AtomicBool,
    /// Set by the first slice that fails, so that the others stop too.
    failed: AtomicBool,
    /// The memory of slices that are done.
    scratch: Mutex<Vec<Scratch>>,
}

/// Remembers every file that was begun, so that all can be removed whatever became of who wrote them.
struct NotedOutput<'a> {
    output: &'a dyn Output,
    paths: Mutex<Vec<PathBuf>>,
}

impl Output for NotedOutput<'_> {
    fn next_file(&self) -> io::Result<(FileId, PathBuf)> {
        let (id, path) = self.output.next_file()?;
        lock(&self.paths).push(path.clone());
        Ok((id, path))
    }

    fn fs(&self) -> &dyn Fs {
        self.output.fs()
    }
}

impl NotedOutput<'_> {
    /// Removes all files. What cannot be removed is left as an orphan, which the next open removes.
    fn remove_all(&self) {
        for path in lock(&self.paths).drain(..) {
            let _ = self.output.fs().remove(&path);
        }
    }
}

/// A slice that panicked left nothing half done behind: what it locked is a list.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Shared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("compaction", &self.compaction).finish_non_exhaustive()
    }
}

impl Shared<'_> {
    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    fn take_scratch(&self) -> Scratch {
        lock(&self.scratch).pop().unwrap_or_default()
    }

    fn give_scratch(&self, scratch: Scratch) {
        lock(&self.scratch).push(scratch);
    }
}

impl Compaction {
    /// Merges the inputs into new files.
    ///
    /// `relocate` makes the hook that moves rows, one for each slice; it is asked only if [`Compaction::moving`] names
    /// rowsets. The work stops soon after `cancel` is set.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Cancelled`] if it was told to stop. The inputs are untouched, and the files that were
    /// written are removed. Rows that the hooks wrote are the caller's to remove.
    ///
    /// # Panics
    /// If the snapshots or the rowsets to move are not in ascending order; as a hook, the output or the disk does,
    /// after the files have been removed.
    pub fn run(
        &self,
        output: &dyn Output,
        executor: &dyn Executor,
        relocate: &NewRelocate<'_>,
        cancel: &AtomicBool,
    ) -> Result<Outcome> {
        assert!(self.retention.snapshots.is_sorted(), "snapshots are given in ascending order");
        self.check_inputs()?;
        let plan = Plan::new(self)?;
        plan.check_coverage()?;
        let output = NotedOutput { output, paths: Mutex::default() };
        let result = self.run_plan(&plan, &output, executor, relocate, cancel);
        if !matches!(result, Ok(Ok(_))) {
            output.remove_all();
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Has the slices run and checks what they gave. A panic of a slice comes out as the outer error.
    fn run_plan(
        &self,
        plan: &Plan,
        output: &NotedOutput<'_>,
        executor: &dyn Executor,
        relocate: &NewRelocate<'_>,
        cancel: &AtomicBool,
    ) -> std::result::Result<Result<Outcome>, Panic> {
        let failed = AtomicBool::new(false);
        let shared = Shared { compaction: self, output, relocate, cancel, failed, scratch: Mutex::default() };
        let outcomes = match run_slices(plan, &shared, executor)? {
            Ok(outcomes) => outcomes,
            Err(error) => return Ok(Err(error)),
        };
        Ok(self.check(plan, &outcomes).map(|stats| Outcome {
            files: outcomes.into_iter().flat_map(|outcome| outcome.files).collect(),
            reused: plan.whole().map(Arc::clone).collect(),
            stats,
        }))
    }

    /// Runs are ordered by their versions, and their versions do not overlap.
    fn check_inputs(&self) -> Result<()> {
        for pair in self.inputs.windows(2) {
            if pair[1].versions().1 >= pair[0].versions().0 {
                let file = pair[1].files().first().expect("a run has files").id();
                return Err(Error::Run { file, reason: "its versions are not older than the newer run's" });
            }
        }
        Ok(())
    }

    fn check(&self, plan: &Plan, outcomes: &[SliceOutcome]) -> Result<CompactionStats> {
        let mut read = MergeCounts::default();
        let mut rowsets_in = RowsetCounts::default();
        for outcome in outcomes {
            let counts = &outcome.counts;
            read.keys += counts.keys;
            read.keys_passed += counts.keys_passed;
            read.lists_in += counts.lists_in;
            read.entries_in += counts.entries_in;
            read.deletions_in += counts.deletions_in;
            read.entries_dropped += counts.entries_dropped;
            read.entries_moved += counts.entries_moved;
            rowsets_in.add_all(&counts.rowsets_in.clone().into_list());
        }
        let merged = &plan.merged;
        let sum = |count: fn(&IndexFile) -> u64| merged.iter().map(|file| count(file)).sum::<u64>();
        expect_count("keys read", sum(|file| file.properties.keys), read.lists_in)?;
        expect_count("entries read", sum(|file| file.properties.entries), read.entries_in)?;
        expect_count("deletions read", sum(|file| file.properties.deletions), read.deletions_in)?;
        let mut expected = RowsetCounts::default();
        for file in merged {
            expected.add_all(&file.properties.per_rowset);
        }
        expect_rowsets(&expected.into_list(), &rowsets_in.into_list())?;

        let files = || outcomes.iter().flat_map(|outcome| &outcome.files);
        let entries_out = files().map(|file| file.properties.entries).sum::<u64>();
        expect_count("entries written and dropped", read.entries_in, entries_out + read.entries_dropped)?;
        for &rowset in &self.moving {
            let written = files().map(|file| &file.properties);
            let found = written.chain(plan.whole().map(|file| &file.properties));
            let found = found.map(|properties| properties.entries_in(rowset)).sum::<u64>();
            if found > 0 {
                return Err(Error::RowsetCount { rowset, expected: 0, found });
            }
        }
        check_order(plan, outcomes)?;
        Ok(CompactionStats {
            keys: read.keys,
            keys_passed: read.keys_passed,
            entries_in: read.entries_in,
            entries_out,
            entries_dropped: read.entries_dropped,
            entries_moved: read.entries_moved,
            bytes_in: sum(|file| file.info.len),
            bytes_out: files().map(|file| file.info.len).sum(),
            files_in: merged.len() as u64,
            files_out: files().count() as u64,
            files_reused: plan.whole().count() as u64,
            slices: outcomes.len() as u64,
        })
    }

    /// Whether a file can be part of the new run as it is: merging it alone would change nothing of it.
    fn can_move_whole(&self, file: &IndexFile) -> bool {
        let properties = &file.properties;
        file.info.len >= self.options.reuse_bytes_min
            && !properties.has_several
            && !(self.base && properties.deletions > 0)
            && properties.per_rowset.iter().all(|(rowset, _)| self.moving.binary_search(rowset).is_err())
    }

    /// The greatest version among the inputs.
    #[must_use]
    pub fn version_max(&self) -> Option<Version> {
        self.inputs.iter().map(|run| run.versions().1).max()
    }
}

/// What a panic carries.
type Panic = Box<dyn Any + Send>;

/// Has all slices run, and gives what each gave, or the error or the panic of the first that failed by itself.
fn run_slices(
    plan: &Plan,
    shared: &Shared<'_>,
    executor: &dyn Executor,
) -> std::result::Result<Result<Vec<SliceOutcome>>, Panic> {
    let slices: Vec<_> = plan.slices().collect();
    let mut slots: Vec<Option<std::result::Result<Result<SliceOutcome>, Panic>>> = Vec::new();
    slots.resize_with(slices.len(), || None);
    let jobs = slices
        .iter()
        .zip(&mut slots)
        .enumerate()
        .map(|(index, (slice, slot))| -> Box<dyn FnOnce() + Send + '_> {
            Box::new(move || {
                // A panic must not tear down a thread of the executor's while other slices are at work.
                let result = catch_unwind(AssertUnwindSafe(|| slice::run(shared, index, slice)));
                if !matches!(result, Ok(Ok(_))) {
                    shared.failed.store(true, Ordering::Relaxed);
                }
                *slot = Some(result);
            })
        })
        .collect();
    catch_unwind(AssertUnwindSafe(|| executor.run(jobs)))?;

    let mut outcomes = Vec::with_capacity(slots.len());
    let mut first_error: Option<Error> = None;
    for slot in slots {
        // An executor that is being shut down may drop jobs.
        match slot.unwrap_or(Ok(Err(Error::Cancelled)))? {
            Ok(outcome) => outcomes.push(outcome),
            // The others were cancelled because of the one that failed.
            Err(error) if first_error.as_ref().is_none_or(|first| matches!(first, Error::Cancelled)) => {
                first_error = Some(error);
            }
            Err(_) => {}
        }
    }
    Ok(first_error.map_or(Ok(outcomes), Err))
}

fn expect_count(what: &'static str, expected: u64, found: u64) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Count { what, expected, found }) }
}

/// Both in ascending order of rowsets.
fn expect_rowsets(expected: &[(RowsetId, u64)], found: &[(RowsetId, u64)]) -> Result<()> {
    let count = |counts: &[(RowsetId, u64)], rowset| {
        counts.binary_search_by_key(&rowset, |&(id, _)| id).map_or(0, |index| counts[index].1)
    };
    for &(rowset, _) in expected.iter().chain(found) {
        let (expected, found) = (count(expected, rowset), count(found, rowset));
        if expected != found {
            return Err(Error::RowsetCount { rowset, expected, found });
        }
    }
    Ok(())
}

/// The new run's files, written and reused ones, follow each other.
fn check_order(plan: &Plan, outcomes: &[SliceOutcome]) -> Result<()> {
    let slices = outcomes.len();
    let mut last: Option<&[u8]> = None;
    let mut slice = 0;
    for piece in &plan.pieces {
        let (files, whole) = match piece {
            Piece::Slice(_) => {
                slice += 1;
                (&outcomes[slice - 1].files[..], None)
            }
            Piece::Empty(_) => continue,
            Piece::Whole(file) => (&[][..], Some(file)),
        };
        let keys = files
            .iter()
            .map(|file| (&file.info.first_key[..], &file.info.last_key[..]))
            .chain(whole.map(|file| (file.first_key(), file.last_key())));
        for (first, next_last) in keys {
            if last.is_some_and(|last| last >= first) || first > next_last {
                return Err(Error::Slices { slice, slices, reason: "keys are not in order" });
            }
            last = Some(next_last);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
