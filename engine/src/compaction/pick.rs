//! Which runs of a tablet to merge next, and the rows of which rowsets to move on the way.
//!
//! Owns the order of needs: runs by size and by what they overwrite (`pkindex`), then rowsets that lie too deep on one
//! another, then garbage, then small rowsets side by side, then rows that a flush left uncompressed, then what a dropped
//! snapshot no longer holds. Whatever the
//! reason, the same pass moves what is worth it under the runs that are merged anyway, up to a bound of bytes.
//!
//! Decides only: it sees a [`Shape`], keeps no state, and gives the same answer for the same shape.
//!
//! Invariant: a rowset that is chosen lies under a run that is merged.
//! Invariant: picking ends. Each choice leaves fewer runs, or as many runs and less known garbage, or no more of either
//! and fewer rowsets over some key or in all, or fewer bytes that are not compressed; it never leaves more rowsets over any key. What a snapshot holds counts as live, so
//! it is no reason to move a row twice.

use std::ops::Range;

use codec::RowsetId;
use pkindex::pick as index;

use super::shape::{Shape, depths};

/// What to keep within bounds in one state of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// More rowsets over a key than this are a reason for a compaction.
    pub(crate) depth_max: usize,
    /// More than this are reason enough to move rows in a compaction that runs anyway.
    pub(crate) depth_merge: usize,
    /// A move goes on until no more than this are left.
    pub(crate) depth_goal: usize,
    /// More garbage than this, in percent of the rowsets' bytes, is a reason for a compaction.
    pub(crate) garbage_percent_max: u64,
    /// More than this, with what the newer runs overwrite, is a reason to merge all runs.
    pub(crate) garbage_percent_to_come: u64,
    /// So is more than this of the oldest run's entries that the newer runs overwrite.
    pub(crate) overwritten_percent_max: u64,
    /// In a compaction that runs anyway, rows are moved until no more than this is left.
    pub(crate) garbage_percent_goal: u64,
    /// More small rowsets than this are a reason to join some: each is a file to keep open.
    pub(crate) small_max: usize,
    /// More than this in rowsets that are not compressed, in percent of the rowsets' bytes, is a reason to compress some.
    pub(crate) raw_percent_max: u64,
}

/// When to compact what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// The rules for index runs.
    pub(crate) index: index::Policy,
    /// How large a rowset gets.
    pub(crate) rowset_bytes: u64,
    /// How many threads may move rows at the same time, each into rowsets of its own.
    pub(crate) lanes: usize,
    /// How much of the rowsets' bytes one compaction moves at most, in percent.
    pub(crate) moved_percent_max: u64,
    /// While others need the disk. The bound of the depth is 12: a reason for a compaction comes well before it, since
    /// more rowsets come while one runs. `simulation` says what these numbers give together.
    pub(crate) busy: Limits,
    /// When nobody does.
    pub(crate) idle: Limits,
}

impl Policy {
    /// The defaults, for rowsets of this size.
    pub(crate) fn new(rowset_bytes: u64) -> Policy {
        Policy {
            // All runs are merged by what the newer ones overwrite, not by how large they are: where keys are only
            // added, there is nothing to be gained in the oldest.
            index: index::Policy {
                upper_percent_max: u64::MAX,
                upper_percent_max_idle: u64::MAX,
                ..index::Policy::default()
            },
            rowset_bytes,
            lanes: 1,
            moved_percent_max: 50,
            busy: Limits {
                depth_max: 8,
                depth_merge: 6,
                depth_goal: 4,
                garbage_percent_max: 30,
                garbage_percent_to_come: 22,
                overwritten_percent_max: 20,
                garbage_percent_goal: 15,
                small_max: 256,
                raw_percent_max: 100,
            },
            idle: Limits {
                depth_max: DEPTH_MAX_IDLE,
                depth_merge: 3,
                depth_goal: 2,
                garbage_percent_max: 15,
                garbage_percent_to_come: 15,
                overwritten_percent_max: 15,
                garbage_percent_goal: 8,
                small_max: 128,
                raw_percent_max: 10,
            },
        }
    }

    fn limits(&self, is_idle: bool) -> &Limits {
        if is_idle { &self.idle } else { &self.busy }
    }

    /// How many bytes of rows one compaction moves at most, if it moves more than one rowset.
    fn moved_bytes_max(&self, shape: &Shape) -> u64 {
        self.rowset_bytes.max(shape.row_bytes() / 100 * self.moved_percent_max)
    }
}

/// More rowsets than this over a key never stay.
pub(crate) const DEPTH_MAX_IDLE: usize = 4;
/// A rowset with less garbage than this, in percent, is not moved for its garbage.
const GARBAGE_PERCENT_MIN: u64 = 10;
/// A rowset is small if it has less than this part of the size of a full one.
const SMALL_PART: u64 = 4;
/// Fewer small rowsets than this are not joined.
const SMALL_LEAST: usize = 8;
/// A run is merged alone if more of its entries than this, in percent, can go since a snapshot was dropped.
const FREED_PERCENT_MIN: u64 = 15;
/// Writers are slowed when more rowsets than this lie over a key: so far below the 12 that are the bound that the pace
/// meets what compaction manages before the bound. At first it is faster than most write.
const DEPTH_SLOWED: usize = 6;

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

/// The next compaction of a tablet, or `None` if it is well as it is. With `is_idle`, what only tidies up is reason
/// enough.
pub(crate) fn pick(shape: &Shape, policy: &Policy, is_idle: bool) -> Option<Work> {
    let limits = policy.limits(is_idle);
    let mut choice = Group::default();
    // What is about to become garbage first: a merge of all spares the smaller ones.
    let inputs = merge_for_garbage_to_come(shape, policy, is_idle)
        .or_else(|| index::pick(&shape.runs, &policy.index, is_idle))
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
        .or_else(|| if is_idle { pick_freed(shape) } else { None })?;
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
    let inputs = whole(shape)?;
    Some(work(shape, policy, &policy.idle, inputs, Group::default()))
}

/// By how much a tablet is behind, in runs and in rowsets over one key beyond where writers are slowed. What fails again and again does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) runs: usize,
    pub(crate) depth: usize,
}

/// The debt of a shape in which only what fails is busy.
pub(crate) fn debt(shape: &Shape, policy: &Policy) -> Debt {
    let runs = shape.runs.iter().filter(|run| !run.busy);
    let largest = runs.clone().map(|run| run.bytes).max().unwrap_or(0);
    let depth = depths(shape.ranks(), free(shape).map(|at| range(shape, at))).max().unwrap_or(0);
    Debt {
        runs: runs.count().saturating_sub(policy.index.runs_max(largest)),
        depth: depth.saturating_sub(DEPTH_SLOWED),
    }
}

fn whole(shape: &Shape) -> Option<Range<usize>> {
    let is_free = !shape.runs.is_empty() && shape.runs.iter().all(|run| !run.busy);
    is_free.then_some(0..shape.runs.len())
}

/// The rowsets that can be moved if their run is merged.
fn free(shape: &Shape) -> impl Iterator<Item = usize> {
    (0..shape.rowsets.len()).filter(|&at| {
        let rowset = &shape.rowsets[at];
        rowset.is_free && !shape.runs[rowset.run].busy
    })
}

fn range(shape: &Shape, at: usize) -> (usize, usize) {
    (shape.rowsets[at].first, shape.rowsets[at].last)
}

fn covers(shape: &Shape, at: usize, rank: usize) -> bool {
    let (first, last) = range(shape, at);
    first <= rank && rank <= last
}

/// How many older entries the entries of these runs take the place of, by experience; a deletion always does.
fn overwrites(shape: &Shape, runs: Range<usize>) -> u64 {
    let of = |run: usize| {
        let deletions = shape.details[run].deletions;
        let puts = shape.runs[run].entries - deletions.min(shape.runs[run].entries);
        puts / 100 * shape.overwrite_percent + puts % 100 * shape.overwrite_percent / 100 + deletions
    };
    runs.map(of).sum()
}

/// All runs, if what the newer ones overwrite is too much garbage together with what is known.
fn merge_for_garbage_to_come(shape: &Shape, policy: &Policy, is_idle: bool) -> Option<Range<usize>> {
    let inputs = whole(shape).filter(|inputs| inputs.len() > 1)?;
    if !is_idle && shape.index_bytes(&(0..inputs.len() - 1)) < policy.index.upper_bytes_min {
        return None;
    }
    let limits = policy.limits(is_idle);
    let rows: u64 = shape.rowsets.iter().map(|rowset| rowset.rows).sum();
    let live: u64 = shape.rowsets.iter().map(|rowset| rowset.live).sum();
    let dying = overwrites(shape, 0..inputs.len() - 1).min(live);
    let garbage = u128::from(rows - live.min(rows)) + u128::from(dying);
    let oldest = shape.runs.last().map_or(0, |run| run.entries);
    let is_more = |part: u128, percent: u64, whole: u64| part * 100 > u128::from(whole) * u128::from(percent);
    let is_due = is_more(garbage, limits.garbage_percent_to_come, rows)
        || is_more(u128::from(dying), limits.overwritten_percent_max, oldest);
    is_due.then_some(inputs)
}

/// If too many rowsets cover a key: the cheapest runs and rowsets that make them fewer, by cost for each that goes.
fn pick_deep(shape: &Shape, limits: &Limits) -> Option<(Range<usize>, Vec<usize>)> {
    let free: Vec<usize> = free(shape).collect();
    let by_rank: Vec<usize> = depths(shape.ranks(), free.iter().map(|&at| range(shape, at))).collect();
    let deepest = (0..by_rank.len()).rev().max_by_key(|&rank| by_rank[rank])?;
    let surplus = by_rank[deepest].checked_sub(limits.depth_max).filter(|&surplus| surplus > 0)?;
    let wanted = surplus + limits.depth_max - limits.depth_goal;
    let mut stack: Vec<usize> = free.into_iter().filter(|&at| covers(shape, at, deepest)).collect();
    stack.sort_by_key(|&at| (shape.rowsets[at].bytes_of(shape.rowsets[at].live), shape.rowsets[at].id));

    let mut best: Option<(u128, u128, Range<usize>, Vec<usize>)> = None;
    for (newest, oldest) in intervals(shape, &stack) {
        let under = |&&at: &&usize| (newest..=oldest).contains(&shape.rowsets[at].run);
        let mut group = Vec::new();
        let mut cost = u128::from(shape.index_bytes(&(newest..oldest + 1)));
        for &at in stack.iter().filter(under).take(wanted + 1) {
            group.push(at);
            cost += u128::from(shape.rowsets[at].bytes_of(shape.rowsets[at].live));
            let gain = (group.len() - 1) as u128;
            // Less cost for each rowset that goes; the first of equals.
            let is_better = gain > 0 && best.as_ref().is_none_or(|(than, of, ..)| cost * of < than * gain);
            if is_better {
                best = Some((cost, gain, newest..oldest + 1, group.clone()));
            }
        }
    }
    best.map(|(_, _, inputs, group)| (inputs, group))
}

/// The intervals of runs, without a busy one, that begin and end with the run of a rowset of `stack`.
fn intervals(shape: &Shape, stack: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<usize> = stack.iter().map(|&at| shape.rowsets[at].run).collect();
    runs.sort_unstable();
    runs.dedup();
    let mut intervals = Vec::new();
    for (index, &newest) in runs.iter().enumerate() {
        for &oldest in &runs[index..] {
            if shape.runs[newest..=oldest].iter().all(|run| !run.busy) {
                intervals.push((newest, oldest));
            }
        }
    }
    intervals
}

/// If there is too much garbage: the run under whose rowsets most of it lies, by the cost of getting at it.
fn pick_garbage(shape: &Shape, limits: &Limits) -> Option<Range<usize>> {
    let garbage = u128::from(shape.garbage_bytes()) * 100;
    if garbage <= u128::from(shape.row_bytes()) * u128::from(limits.garbage_percent_max) {
        return None;
    }
    let mut gains: Vec<(u128, u128)> =
        shape.runs.iter().map(|run| (0, u128::from(run.bytes).max(1))).collect();
    for at in free(shape).filter(|&at| is_garbage(shape, at, shape.rowsets[at].live)) {
        let rowset = &shape.rowsets[at];
        gains[rowset.run].0 += u128::from(rowset.garbage_bytes());
        gains[rowset.run].1 += u128::from(rowset.bytes_of(rowset.live));
    }
    let run = (0..gains.len())
        .filter(|&run| gains[run].0 > 0)
        .reduce(|a, b| if gains[b].0 * gains[a].1 > gains[a].0 * gains[b].1 { b } else { a })?;
    // What lies above the oldest run is little against it, and tells more garbage.
    let is_oldest = run + 1 == shape.runs.len();
    Some(whole(shape).filter(|_| is_oldest).unwrap_or(run..run + 1))
}

/// If there are too many small rowsets: the most that lie side by side under one run and make one of full size.
///
/// Nothing else has keys between them, or what is written would be cut there; and they are enough to become fewer
/// although each lane writes its own.
fn pick_small(shape: &Shape, policy: &Policy, limits: &Limits) -> Option<(usize, Vec<usize>)> {
    let mut can_join = vec![false; shape.rowsets.len()];
    for at in free(shape) {
        can_join[at] = shape.rowsets[at].bytes < policy.rowset_bytes / SMALL_PART;
    }
    let small = can_join.iter().filter(|can_join| **can_join).count();
    let least = (2 * policy.lanes).max(SMALL_LEAST);
    if small <= limits.small_max.max(2 * least) {
        return None;
    }
    let mut in_order: Vec<usize> = (0..shape.rowsets.len()).collect();
    in_order.sort_by_key(|&at| range(shape, at));
    let mut best = 0..0;
    let mut start = 0;
    // The last rank of those before the ones that are looked at.
    let mut before = None;
    while start < in_order.len() {
        let first = in_order[start];
        let (mut last, mut bytes, mut end) = (range(shape, first).1, 0, start);
        while let Some(&next) = in_order.get(end).filter(|&&next| can_join[next]) {
            let is_beside = range(shape, next).0 <= last || before.is_none_or(|before| before <= last);
            bytes += shape.rowsets[next].bytes_of(shape.rowsets[next].live);
            let is_under = shape.rowsets[next].run == shape.rowsets[first].run;
            if !is_under || !is_beside || bytes > policy.rowset_bytes {
                break;
            }
            last = last.max(range(shape, next).1);
            end += 1;
        }
        if end - start > best.len() {
            best = start..end;
        }
        // What lies together is not looked at again from its middle: that gives less.
        let next = end.max(start + 1);
        before = in_order[start..next]
            .iter()
            .map(|&at| Some(range(shape, at).1))
            .max()
            .max(Some(before))
            .flatten();
        start = next;
    }
    let best = in_order[best].to_vec();
    (best.len() >= least).then(|| (shape.rowsets[best[0]].run, best))
}

/// Whether a rowset with this many rows alive is worth moving.
fn is_garbage(shape: &Shape, at: usize, live: u64) -> bool {
    let rowset = &shape.rowsets[at];
    let dead = rowset.rows - live.min(rowset.rows);
    dead > 0 && u128::from(dead) * 100 >= u128::from(rowset.rows) * u128::from(GARBAGE_PERCENT_MIN)
}

/// If too much lies there uncompressed: the run under which most of it does, by the cost of getting at it.
fn pick_raw(shape: &Shape, limits: &Limits) -> Option<(usize, Vec<usize>)> {
    let most = u128::from(shape.row_bytes()) * u128::from(limits.raw_percent_max);
    if u128::from(shape.raw_bytes()) * 100 <= most {
        return None;
    }
    let raw_under =
        |run: usize| free(shape).filter(move |&at| shape.rowsets[at].is_raw && shape.rowsets[at].run == run);
    let gain = |run: usize| raw_under(run).map(|at| u128::from(shape.rowsets[at].bytes)).sum::<u128>();
    let run = (0..shape.runs.len()).filter(|&run| gain(run) > 0).reduce(|a, b| {
        let cost = |run: usize| u128::from(shape.runs[run].bytes).max(1);
        if gain(b) * cost(a) > gain(a) * cost(b) { b } else { a }
    })?;
    Some((run, raw_under(run).collect()))
}

/// A run of which a merge frees enough that dropped snapshots held.
fn pick_freed(shape: &Shape) -> Option<Range<usize>> {
    let run = (0..shape.runs.len()).find(|&run| {
        let (run, freed) = (&shape.runs[run], shape.details[run].freed);
        !run.busy && u128::from(freed) * 100 > u128::from(run.entries) * u128::from(FREED_PERCENT_MIN)
    })?;
    Some(run..run + 1)
}

/// A compaction of `inputs` that moves at least the rowsets of `group`.
fn work(shape: &Shape, policy: &Policy, limits: &Limits, inputs: Range<usize>, group: Group) -> Work {
    let mut choice = Choice::new(shape, inputs, policy.moved_bytes_max(shape));
    choice.add_group(group.rowsets, group.least);
    choice.add_garbage(limits);
    choice.add_deep(limits);
    choice.into_work()
}

/// The rowsets that a compaction will move, as they are chosen.
struct Choice<'a> {
    shape: &'a Shape,
    inputs: Range<usize>,
    /// Beside the rowsets: whether it can be chosen, and was.
    can_move: Vec<bool>,
    is_chosen: Vec<bool>,
    /// Beside the rowsets: how many rows will be left to move.
    live: Vec<u64>,
    moved_bytes: u64,
    moved_bytes_max: u64,
}

impl<'a> Choice<'a> {
    fn new(shape: &'a Shape, inputs: Range<usize>, moved_bytes_max: u64) -> Choice<'a> {
        let can_move: Vec<bool> =
            shape.rowsets.iter().map(|rowset| rowset.is_free && inputs.contains(&rowset.run)).collect();
        let all: u64 = shape.rowsets.iter().map(|rowset| rowset.live).sum();
        let live = shape
            .rowsets
            .iter()
            .map(|rowset| {
                if !inputs.contains(&rowset.run) {
                    return rowset.live;
                }
                let part = |of: u64, whole: u64| {
                    let dying = u128::from(rowset.live) * u128::from(of) / u128::from(whole.max(1));
                    u64::try_from(dying).unwrap_or(u64::MAX)
                };
                let overwritten = part(overwrites(shape, inputs.start..rowset.run), all);
                let freed = part(shape.details[rowset.run].freed, shape.runs[rowset.run].entries);
                rowset.live.saturating_sub(overwritten).saturating_sub(freed)
            })
            .collect();
        let is_chosen = vec![false; shape.rowsets.len()];
        Choice { shape, inputs, can_move, is_chosen, live, moved_bytes: 0, moved_bytes_max }
    }

    fn cost(&self, at: usize) -> u64 {
        self.shape.rowsets[at].bytes_of(self.live[at])
    }

    fn add(&mut self, at: usize) {
        self.moved_bytes += self.cost(at);
        self.is_chosen[at] = true;
    }

    /// Adds rowsets as long as they fit, and `least` of them even if they do not; or none, if fewer fit. Says how many.
    fn add_group(&mut self, group: Vec<usize>, least: usize) -> usize {
        let is_first = self.moved_bytes == 0;
        let mut bytes = self.moved_bytes;
        let mut fitting = 0;
        for &at in &group {
            bytes = bytes.saturating_add(self.cost(at));
            if bytes > self.moved_bytes_max && !(is_first && fitting < least) {
                break;
            }
            fitting += 1;
        }
        if fitting < least {
            return 0;
        }
        for at in group.into_iter().take(fitting) {
            self.add(at);
        }
        fitting
    }

    /// Adds rowsets with garbage, the worst first, until little enough is left.
    fn add_garbage(&mut self, limits: &Limits) {
        let shape = self.shape;
        let garbage_bytes = |choice: &Choice<'_>, at: usize| shape.rowsets[at].bytes - choice.cost(at);
        let unchosen = (0..shape.rowsets.len()).filter(|&at| !self.is_chosen[at]);
        let mut left: u64 = unchosen.map(|at| garbage_bytes(self, at)).sum();
        let goal = u128::from(shape.row_bytes()) * u128::from(limits.garbage_percent_goal) / 100;
        let mut worst: Vec<usize> = (0..shape.rowsets.len())
            .filter(|&at| self.can_move[at] && !self.is_chosen[at] && is_garbage(shape, at, self.live[at]))
            .collect();
        worst.sort_by_key(|&at| {
            let rowset = &shape.rowsets[at];
            let alive = u128::from(self.live[at]) * 1_000_000 / u128::from(rowset.rows.max(1));
            (alive, rowset.id)
        });
        for at in worst {
            if u128::from(left) <= goal {
                break;
            }
            if self.add_group(vec![at], 1) == 1 {
                left -= garbage_bytes(self, at);
            }
        }
    }

    /// Adds small rowsets where most cover a key, until few enough do.
    fn add_deep(&mut self, limits: &Limits) {
        let shape = self.shape;
        let ranks = shape.ranks();
        if shape.depth() <= limits.depth_merge {
            return;
        }
        let mut is_done = vec![false; ranks];
        loop {
            let chosen = self.chosen_ranges();
            let unchosen = (0..shape.rowsets.len()).filter(|&at| !self.is_chosen[at]);
            let movable = unchosen.clone().filter(|&at| self.can_move[at]);
            let moved: Vec<usize> = depths(ranks, chosen).collect();
            let stay: Vec<usize> = depths(ranks, unchosen.map(|at| range(shape, at))).collect();
            let movable: Vec<usize> = depths(ranks, movable.map(|at| range(shape, at))).collect();
            let deepest = (0..ranks)
                .rev()
                .filter(|&rank| !is_done[rank] && moved[rank] + movable[rank] >= 2)
                .filter(|&rank| moved[rank] + stay[rank] > limits.depth_goal)
                .max_by_key(|&rank| moved[rank] + stay[rank]);
            let Some(rank) = deepest else { break };
            let mut group: Vec<usize> = (0..shape.rowsets.len())
                .filter(|&at| self.can_move[at] && !self.is_chosen[at] && covers(shape, at, rank))
                .collect();
            group.sort_by_key(|&at| (self.cost(at), shape.rowsets[at].id));
            group.truncate(moved[rank] + stay[rank] - limits.depth_goal + 1 - moved[rank]);
            let least = 2 - moved[rank];
            is_done[rank] = self.add_group(group, least) == 0;
        }
    }

    /// The ranges of ranks that the chosen ones cover, which do not overlap. What is moved covers each once.
    fn chosen_ranges(&self) -> Vec<(usize, usize)> {
        let chosen = (0..self.is_chosen.len()).filter(|&at| self.is_chosen[at]);
        union(chosen.map(|at| range(self.shape, at)).collect())
    }

    fn into_work(self) -> Work {
        let rowsets = self.shape.rowsets.iter().zip(&self.is_chosen);
        let mut moving: Vec<RowsetId> =
            rowsets.filter(|(_, is_chosen)| **is_chosen).map(|(rowset, _)| rowset.id).collect();
        moving.sort_unstable();
        let bytes = self.shape.index_bytes(&self.inputs).saturating_add(self.moved_bytes);
        Work { inputs: self.inputs, moving, moved_bytes: self.moved_bytes, bytes }
    }
}

/// Joins ranges that overlap.
pub(crate) fn union<T: Ord + Clone>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort();
    let mut joined: Vec<(T, T)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= *end => *end = end.clone().max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
