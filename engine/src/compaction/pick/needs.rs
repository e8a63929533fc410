//! What can be reason enough for a compaction, beside the sizes of runs: one function for each need.
//!
//! Each says whether its need is there, and if so which runs to merge, and which rowsets have to be among those that
//! move.
//!
//! Invariant: a rowset that is named lies under a run that is named, and neither is busy.

use std::ops::Range;

use pkindex::pick::Load;

use super::policy::{FREED_PERCENT_MIN, GARBAGE_PERCENT_MIN, Limits, Policy, SMALL_LEAST, SMALL_PART};
use crate::compaction::shape::{Shape, depths};

/// All runs, if what the newer ones overwrite is too much garbage together with what is known.
pub(super) fn merge_for_garbage_to_come(shape: &Shape, policy: &Policy, load: Load) -> Option<Range<usize>> {
    let inputs = shape.whole().filter(|inputs| inputs.len() > 1)?;
    if load == Load::Busy && shape.index_bytes(&(0..inputs.len() - 1)) < policy.index.upper_bytes_min {
        return None;
    }
    let limits = policy.limits(load);
    let rows: u64 = shape.rowsets.iter().map(|rowset| rowset.rows).sum();
    let live: u64 = shape.rowsets.iter().map(|rowset| rowset.live).sum();
    let dying = shape.overwrites(0..inputs.len() - 1).min(live);
    let garbage = u128::from(rows - live.min(rows)) + u128::from(dying);
    let oldest = shape.runs.last().map_or(0, |run| run.entries);
    let is_more = |part: u128, percent: u64, whole: u64| part * 100 > u128::from(whole) * u128::from(percent);
    let is_due = is_more(garbage, limits.garbage_percent_to_come, rows)
        || is_more(u128::from(dying), limits.overwritten_percent_max, oldest);
    is_due.then_some(inputs)
}

/// If too many rowsets cover a key: the cheapest runs and rowsets that make them fewer, by cost for each that goes.
pub(super) fn pick_deep(shape: &Shape, limits: &Limits) -> Option<(Range<usize>, Vec<usize>)> {
    let free: Vec<usize> = shape.free().collect();
    let by_rank: Vec<usize> = depths(shape.ranks(), free.iter().map(|&at| shape.range(at))).collect();
    let deepest = (0..by_rank.len()).rev().max_by_key(|&rank| by_rank[rank])?;
    let surplus = by_rank[deepest].checked_sub(limits.depth_max).filter(|&surplus| surplus > 0)?;
    let wanted = surplus + limits.depth_max - limits.depth_goal;
    let mut stack: Vec<usize> = free.into_iter().filter(|&at| shape.covers(at, deepest)).collect();
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
pub(super) fn pick_garbage(shape: &Shape, limits: &Limits) -> Option<Range<usize>> {
    let garbage = u128::from(shape.garbage_bytes()) * 100;
    if garbage <= u128::from(shape.row_bytes()) * u128::from(limits.garbage_percent_max) {
        return None;
    }
    let mut gains: Vec<(u128, u128)> =
        shape.runs.iter().map(|run| (0, u128::from(run.bytes).max(1))).collect();
    for at in shape.free().filter(|&at| is_garbage(shape, at, shape.rowsets[at].live)) {
        let rowset = &shape.rowsets[at];
        gains[rowset.run].0 += u128::from(rowset.garbage_bytes());
        gains[rowset.run].1 += u128::from(rowset.bytes_of(rowset.live));
    }
    let run = (0..gains.len())
        .filter(|&run| gains[run].0 > 0)
        .reduce(|a, b| if gains[b].0 * gains[a].1 > gains[a].0 * gains[b].1 { b } else { a })?;
    // What lies above the oldest run is little against it, and tells more garbage.
    let is_oldest = run + 1 == shape.runs.len();
    Some(shape.whole().filter(|_| is_oldest).unwrap_or(run..run + 1))
}

/// If there are too many small rowsets: the most that lie side by side under one run and make one of full size.
///
/// Nothing else has keys between them, or what is written would be cut there; and they are enough to become fewer
/// although each lane writes its own.
pub(super) fn pick_small(shape: &Shape, policy: &Policy, limits: &Limits) -> Option<(usize, Vec<usize>)> {
    let mut can_join = vec![false; shape.rowsets.len()];
    for at in shape.free() {
        can_join[at] = shape.rowsets[at].bytes < policy.rowset_bytes / SMALL_PART;
    }
    let small = can_join.iter().filter(|can_join| **can_join).count();
    let least = (2 * policy.lanes).max(SMALL_LEAST);
    if small <= limits.small_max.max(2 * least) {
        return None;
    }
    let mut in_order: Vec<usize> = (0..shape.rowsets.len()).collect();
    in_order.sort_by_key(|&at| shape.range(at));
    let mut best = 0..0;
    let mut start = 0;
    // The last rank of those before the ones that are looked at.
    let mut before = None;
    while start < in_order.len() {
        let first = in_order[start];
        let (mut last, mut bytes, mut end) = (shape.range(first).1, 0, start);
        while let Some(&next) = in_order.get(end).filter(|&&next| can_join[next]) {
            let is_beside = shape.range(next).0 <= last || before.is_none_or(|before| before <= last);
            bytes += shape.rowsets[next].bytes_of(shape.rowsets[next].live);
            let is_under = shape.rowsets[next].run == shape.rowsets[first].run;
            if !is_under || !is_beside || bytes > policy.rowset_bytes {
                break;
            }
            last = last.max(shape.range(next).1);
            end += 1;
        }
        if end - start > best.len() {
            best = start..end;
        }
        // What lies together is not looked at again from its middle: that gives less.
        let next = end.max(start + 1);
        before =
            in_order[start..next].iter().map(|&at| Some(shape.range(at).1)).max().max(Some(before)).flatten();
        start = next;
    }
    let best = in_order[best].to_vec();
    (best.len() >= least).then(|| (shape.rowsets[best[0]].run, best))
}

/// Whether a rowset with this many rows alive is worth moving.
pub(super) fn is_garbage(shape: &Shape, at: usize, live: u64) -> bool {
    let rowset = &shape.rowsets[at];
    let dead = rowset.rows - live.min(rowset.rows);
    dead > 0 && u128::from(dead) * 100 >= u128::from(rowset.rows) * u128::from(GARBAGE_PERCENT_MIN)
}

/// If too much lies there uncompressed: the run under which most of it does, by the cost of getting at it.
pub(super) fn pick_raw(shape: &Shape, limits: &Limits) -> Option<(usize, Vec<usize>)> {
    let most = u128::from(shape.row_bytes()) * u128::from(limits.raw_percent_max);
    if u128::from(shape.raw_bytes()) * 100 <= most {
        return None;
    }
    let raw_under =
        |run: usize| shape.free().filter(move |&at| shape.rowsets[at].is_raw && shape.rowsets[at].run == run);
    let gain = |run: usize| raw_under(run).map(|at| u128::from(shape.rowsets[at].bytes)).sum::<u128>();
    let run = (0..shape.runs.len()).filter(|&run| gain(run) > 0).reduce(|a, b| {
        let cost = |run: usize| u128::from(shape.runs[run].bytes).max(1);
        if gain(b) * cost(a) > gain(a) * cost(b) { b } else { a }
    })?;
    Some((run, raw_under(run).collect()))
}

/// A run of which a merge frees enough that dropped snapshots held.
pub(super) fn pick_freed(shape: &Shape) -> Option<Range<usize>> {
    let run = (0..shape.runs.len()).find(|&run| {
        let (run, freed) = (&shape.runs[run], shape.details[run].freed);
        !run.busy && u128::from(freed) * 100 > u128::from(run.entries) * u128::from(FREED_PERCENT_MIN)
    })?;
    Some(run..run + 1)
}
