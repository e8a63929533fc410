//! What a tablet looks like to whoever picks its next compaction: sizes, counts and ranks of keys, no files.
//!
//! Owns the gathering of these numbers from a view. Everything is derived from the view and from what the tablet's
//! jobs have noted, so that after a reopen the same view looks the same.
//!
//! Invariant: each rowset lies under exactly one index run. A compaction may then move its rows as soon as that one run
//! is among its inputs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use codec::{RowsetId, Version};
use pkindex::Run;
use pkindex::pick::RunShape;

use crate::rowset::Rowset;
use crate::view::TabletView;

/// A rowset, as far as picking is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsetShape {
    pub(crate) id: RowsetId,
    /// The index run that points into it.
    pub(crate) run: usize,
    /// Its first and its last key, as ranks among the first and last keys of all rowsets.
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) rows: u64,
    /// Rows that an index entry points to. What only a snapshot needs is among them.
    pub(crate) live: u64,
    /// Its length on disk.
    pub(crate) bytes: u64,
    /// Whether its rows may be moved now: not while a move of them keeps failing.
    pub(crate) is_free: bool,
    /// Whether its rows were left as they are, not compressed.
    pub(crate) is_raw: bool,
}

impl RowsetShape {
    /// How many of its bytes so many rows take.
    pub(crate) fn bytes_of(&self, rows: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(rows.min(self.rows)) / u128::from(self.rows.max(1));
        u64::try_from(bytes).expect("a part of a u64")
    }

    /// The bytes that no entry points to.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.bytes - self.bytes_of(self.live)
    }
}

/// What picking knows of a run beyond what `pkindex` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunDetail {
    pub(crate) deletions: u64,
    /// Entries that a reader must need, or they would not be there: those beside a newer one of their key, and
    /// deletions with nothing below.
    pub(crate) held: u64,
    /// `held`, if most of those readers have gone since: a merge of this run alone drops the entries.
    pub(crate) freed: u64,
}

/// A tablet's runs and rowsets, as far as picking is concerned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Newest first.
    pub(crate) runs: Vec<RunShape>,
    /// Beside `runs`.
    pub(crate) details: Vec<RunDetail>,
    pub(crate) rowsets: Vec<RowsetShape>,
    /// How many of a hundred entries of newer runs take the place of an older one, by experience.
    pub(crate) overwrite_percent: u64,
}

/// What a tablet's jobs have noted that a view does not tell.
pub(crate) trait Notes {
    /// Whether the run takes part in a compaction, or has failed in one and is left alone for a while.
    fn is_run_busy(&self, run: u64) -> bool;
    /// Whether moving the rowset's rows has failed, and is left alone for a while.
    fn is_rowset_busy(&self, rowset: RowsetId) -> bool;
    /// Whether entries of the run that were kept beside a newer one of their key can go now, for the greater part.
    fn is_freed(&self, run: u64, versions: (Version, Version)) -> bool;
}

impl Shape {
    /// The shape of a view.
    ///
    /// # Panics
    /// If a rowset lies under two runs: a compaction of one of them would leave stale entries in the other.
    pub(crate) fn of(view: &TabletView, notes: &impl Notes, overwrite_percent: u64) -> Shape {
        let runs = view.runs.iter().zip(&view.run_ids);
        let shapes = runs.clone().map(|(run, &id)| RunShape {
            bytes: run.bytes(),
            entries: run.entries(),
            busy: notes.is_run_busy(id),
        });
        let oldest = view.runs.len().saturating_sub(1);
        let details = runs.enumerate().map(|(index, (run, &id))| {
            let deletions = run.deletions();
            let held = run.entries() - run.keys() + if index == oldest { deletions } else { 0 };
            let freed = if held > 0 && notes.is_freed(id, run.versions()) { held } else { 0 };
            RunDetail { deletions, held, freed }
        });
        Shape {
            runs: shapes.collect(),
            details: details.collect(),
            rowsets: rowsets(view, notes),
            overwrite_percent,
        }
    }

    /// Whether there are entries that only some readers need, so that something is to do when these go.
    pub(crate) fn holds_old_versions(&self) -> bool {
        self.details.iter().any(|detail| detail.held > 0)
    }

    /// The bytes of the rowsets.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.rowsets.iter().map(|rowset| rowset.bytes).sum()
    }

    /// The bytes of them that no entry points to.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.rowsets.iter().map(RowsetShape::garbage_bytes).sum()
    }

    /// The bytes of the rowsets whose rows are not compressed.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.rowsets.iter().filter(|rowset| rowset.is_raw).map(|rowset| rowset.bytes).sum()
    }

    /// The bytes of the index runs in `inputs`.
    pub(crate) fn index_bytes(&self, inputs: &Range<usize>) -> u64 {
        self.runs[inputs.clone()].iter().map(|run| run.bytes).sum()
    }

    /// How many rowsets cover a key, at most.
    pub(crate) fn depth(&self) -> usize {
        depths(self.ranks(), self.rowsets.iter().map(|rowset| (rowset.first, rowset.last))).max().unwrap_or(0)
    }

    /// All runs, if none of them is busy.
    pub(crate) fn whole(&self) -> Option<Range<usize>> {
        let is_free = !self.runs.is_empty() && self.runs.iter().all(|run| !run.busy);
        is_free.then_some(0..self.runs.len())
    }

    /// The rowsets that can be moved if their run is merged.
    pub(crate) fn free(&self) -> impl Iterator<Item = usize> {
        (0..self.rowsets.len()).filter(|&at| {
            let rowset = &self.rowsets[at];
            rowset.is_free && !self.runs[rowset.run].busy
        })
    }

    /// The first and the last rank that a rowset covers.
    pub(crate) fn range(&self, at: usize) -> (usize, usize) {
        (self.rowsets[at].first, self.rowsets[at].last)
    }

    /// Whether a rowset covers a rank.
    pub(crate) fn covers(&self, at: usize, rank: usize) -> bool {
        let (first, last) = self.range(at);
        first <= rank && rank <= last
    }

    /// How many older entries the entries of these runs take the place of, by experience; a deletion always does.
    pub(crate) fn overwrites(&self, runs: Range<usize>) -> u64 {
        let of = |run: usize| {
            let deletions = self.details[run].deletions;
            let puts = self.runs[run].entries - deletions.min(self.runs[run].entries);
            puts / 100 * self.overwrite_percent + puts % 100 * self.overwrite_percent / 100 + deletions
        };
        runs.map(of).sum()
    }

    /// One more than the greatest rank of a key.
    pub(crate) fn ranks(&self) -> usize {
        self.rowsets.iter().map(|rowset| rowset.last + 1).max().unwrap_or(0)
    }
}

/// By rank, how many of `ranges` cover it.
pub(crate) fn depths(
    ranks: usize,
    ranges: impl IntoIterator<Item = (usize, usize)>,
) -> impl Iterator<Item = usize> {
    let mut steps = vec![(0usize, 0usize); ranks + 1];
    for (first, last) in ranges {
        steps[first].0 += 1;
        steps[last + 1].1 += 1;
    }
    steps.truncate(ranks);
    steps.into_iter().scan(0, |depth, (begin, end)| {
        *depth = *depth + begin - end;
        Some(*depth)
    })
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

/// How many rowsets of a view cover a key, at most.
pub(crate) fn overlap_depth(view: &TabletView) -> usize {
    let (ranges, ranks) = rank(view);
    depths(ranks, ranges).max().unwrap_or(0)
}

/// How many of the rowsets of a view that overlap `first ..= last` cover a key, at most.
pub(crate) fn depth_under(view: &TabletView, first: &[u8], last: &[u8]) -> usize {
    let (ranges, ranks) = rank(view);
    let overlaps = |rowset: &Rowset| rowset.first_key() <= last && first <= rowset.last_key();
    let under = view.rowsets.iter().zip(ranges).filter(|(rowset, _)| overlaps(rowset));
    depths(ranks, under.map(|(_, range)| range)).max().unwrap_or(0)
}

/// The ranks of each rowset's first and last key, and how many ranks there are.
fn rank(view: &TabletView) -> (Vec<(usize, usize)>, usize) {
    let mut keys: Vec<&[u8]> =
        view.rowsets.iter().flat_map(|rowset| [rowset.first_key(), rowset.last_key()]).collect();
    keys.sort_unstable();
    keys.dedup();
    let rank = |key: &[u8]| keys.binary_search(&key).expect("every key was ranked");
    let ranges =
        view.rowsets.iter().map(|rowset| (rank(rowset.first_key()), rank(rowset.last_key()))).collect();
    (ranges, keys.len())
}

fn rowsets(view: &TabletView, notes: &impl Notes) -> Vec<RowsetShape> {
    let mut under: BTreeMap<RowsetId, (usize, u64)> = BTreeMap::new();
    for (index, run) in view.runs.iter().enumerate() {
        for (rowset, live) in count(run) {
            let before = under.insert(rowset, (index, live));
            assert!(before.is_none(), "rowset {rowset} lies under exactly one index run");
        }
    }
    let (ranges, _) = rank(view);
    let shape = |(rowset, (first, last)): (&Arc<Rowset>, (usize, usize))| {
        let (run, live) = *under.get(&rowset.id())?;
        Some(RowsetShape {
            id: rowset.id(),
            run,
            first,
            last,
            rows: rowset.info().entries,
            live,
            bytes: rowset.info().len,
            is_free: !notes.is_rowset_busy(rowset.id()),
            is_raw: rowset.compression() == sstable::Compression::None,
        })
    };
    view.rowsets.iter().zip(ranges).filter_map(shape).collect()
}

fn count(run: &Run) -> BTreeMap<RowsetId, u64> {
    let mut counts = BTreeMap::new();
    run.count_rowsets(&mut counts);
    counts
}
