//! The choice of rowsets that a compaction moves, among those under the runs that it merges anyway.
//!
//! Owns the bound of bytes, and what of a rowset will be left to move once the runs are merged.
//!
//! Invariant: a rowset that is chosen lies under a run that is merged.
//! Invariant: beyond the bound nothing is chosen but the least that the reason for the compaction needs.

use std::ops::Range;

use codec::RowsetId;

use super::Work;
use super::needs::is_garbage;
use super::policy::Limits;
use crate::compaction::shape::{Shape, depths, union};

/// The rowsets that a compaction will move, as they are chosen.
pub(super) struct Choice<'a> {
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
    pub(super) fn new(shape: &'a Shape, inputs: Range<usize>, moved_bytes_max: u64) -> Choice<'a> {
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
                let overwritten = part(shape.overwrites(inputs.start..rowset.run), all);
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
    pub(super) fn add_group(&mut self, group: Vec<usize>, least: usize) -> usize {
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
    pub(super) fn add_garbage(&mut self, limits: &Limits) {
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
    pub(super) fn add_deep(&mut self, limits: &Limits) {
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
            let stay: Vec<usize> = depths(ranks, unchosen.map(|at| shape.range(at))).collect();
            let movable: Vec<usize> = depths(ranks, movable.map(|at| shape.range(at))).collect();
            let deepest = (0..ranks)
                .rev()
                .filter(|&rank| !is_done[rank] && moved[rank] + movable[rank] >= 2)
                .filter(|&rank| moved[rank] + stay[rank] > limits.depth_goal)
                .max_by_key(|&rank| moved[rank] + stay[rank]);
            let Some(rank) = deepest else { break };
            let mut group: Vec<usize> = (0..shape.rowsets.len())
                .filter(|&at| self.can_move[at] && !self.is_chosen[at] && shape.covers(at, rank))
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
        union(chosen.map(|at| self.shape.range(at)).collect())
    }

    pub(super) fn into_work(self) -> Work {
        let rowsets = self.shape.rowsets.iter().zip(&self.is_chosen);
        let mut moving: Vec<RowsetId> =
            rowsets.filter(|(_, is_chosen)| **is_chosen).map(|(rowset, _)| rowset.id).collect();
        moving.sort_unstable();
        let bytes = self.shape.index_bytes(&self.inputs).saturating_add(self.moved_bytes);
        Work { inputs: self.inputs, moving, moved_bytes: self.moved_bytes, bytes }
    }
}
