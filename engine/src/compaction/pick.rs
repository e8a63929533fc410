//! Which runs of a tablet to merge next, and the rows of which rowsets to move on the way.
//!
//! Owns the order of needs: runs by size and by what they overwrite (`pkindex`), then rowsets that lie too deep on one
//! another, then garbage, then small rowsets side by side, then rows that a flush left uncompressed, then what a
//! dropped snapshot no longer holds. Whatever the reason, the same pass moves what is worth it under the runs that are
//! merged anyway, up to a bound of bytes (`choice`).
//!
//! Decides only: it sees a [`Shape`], keeps no state, and gives the same answer for the same shape.
//!
//! Invariant: a rowset that is chosen lies under a run that is merged.
//! Invariant: picking ends. Each choice leaves fewer runs, or as many runs and less known garbage, or no more of either
//! and fewer rowsets over some key or in all, or fewer bytes that are not compressed; it never leaves more rowsets over
//! any key. What a snapshot holds counts as live, so it is no reason to move a row twice.

mod choice;
mod needs;
mod policy;

use std::ops::Range;

use codec::RowsetId;
use pkindex::pick::{self as index, Load};

use super::shape::{Shape, depths};
use choice::Choice;
use needs::{merge_for_garbage_to_come, pick_deep, pick_freed, pick_garbage, pick_raw, pick_small};
use policy::{DEPTH_SLOWED, Limits};

pub(crate) use policy::{DEPTH_MAX_IDLE, Policy};

/// A compaction that was picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// The runs to merge, newest first.
    pub(crate) inputs: Range<usize>,
    /// The rowsets to move rows out of, ascending.
    pub(crate) moving: Vec<RowsetId>,
    /// About how many bytes of rows will be moved.
    pub(crate) moved_bytes: u64,
    /// About how many bytes it reads: those of the runs, and those of the rows that move.
    pub(crate) bytes: u64,
}

/// The next compaction of a tablet, or `None` if it is well as it is. When idle, what only tidies up is reason
/// enough.
pub(crate) fn pick(shape: &Shape, policy: &Policy, load: Load) -> Option<Work> {
    let limits = policy.limits(load);
    let mut choice = Group::default();
    // What is about to become garbage first: a merge of all spares the smaller ones.
    let inputs = merge_for_garbage_to_come(shape, policy, load)
        .or_else(|| index::pick(&shape.runs, &policy.index, load))
        .or_else(|| {
            let (inputs, rowsets) = pick_deep(shape, limits)?;
            choice = Group { rowsets, least: 2 };
            Some(inputs)
        })
        .or_else(|| pick_garbage(shape, limits))
        .or_else(|| {
            let (run, rowsets) = pick_small(shape, policy, limits)?;
            choice = Group { rowsets, least: 2 };
            Some(run..run + 1)
        })
        .or_else(|| {
            let (run, rowsets) = pick_raw(shape, limits)?;
            choice = Group { rowsets, least: 1 };
            Some(run..run + 1)
        })
        .or_else(|| if load == Load::Idle { pick_freed(shape) } else { None })?;
    Some(work(shape, policy, limits, inputs, choice))
}

/// Rowsets to move together, and how few of them are not worth it.
#[derive(Default)]
struct Group {
    rowsets: Vec<usize>,
    least: usize,
}

/// A compaction of all runs, as far as none of them is busy.
pub(crate) fn pick_whole(shape: &Shape, policy: &Policy) -> Option<Work> {
    let inputs = shape.whole()?;
    Some(work(shape, policy, &policy.idle, inputs, Group::default()))
}

/// By how much a tablet is behind, in runs and in rowsets over one key beyond where writers are slowed. What fails
/// again and again does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) runs: usize,
    pub(crate) depth: usize,
}

/// The debt of a shape in which only what fails is busy.
pub(crate) fn debt(shape: &Shape, policy: &Policy) -> Debt {
    let runs = shape.runs.iter().filter(|run| !run.busy);
    let largest = runs.clone().map(|run| run.bytes).max().unwrap_or(0);
    let depth = depths(shape.ranks(), shape.free().map(|at| shape.range(at))).max().unwrap_or(0);
    Debt {
        runs: runs.count().saturating_sub(policy.index.runs_max(largest)),
        depth: depth.saturating_sub(DEPTH_SLOWED),
    }
}

/// A compaction of `inputs` that moves at least the rowsets of `group`.
fn work(shape: &Shape, policy: &Policy, limits: &Limits, inputs: Range<usize>, group: Group) -> Work {
    let mut choice = Choice::new(shape, inputs, policy.moved_bytes_max(shape));
    choice.add_group(group.rowsets, group.least);
    choice.add_garbage(limits);
    choice.add_deep(limits);
    choice.into_work()
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
