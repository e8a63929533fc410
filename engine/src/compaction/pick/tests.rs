//! Picking over random shapes, on a tablet that exists as numbers only.

use pkindex::pick::RunShape;
use proptest::prelude::*;

use super::*;
use crate::compaction::shape::{RowsetShape, RunDetail, union};

const ROWSET_BYTES: u64 = 10_000;
const RANKS: usize = 40;

fn policy() -> Policy {
    let mut policy = Policy::new(ROWSET_BYTES);
    policy.index.tier_bytes = 1000;
    policy.index.upper_bytes_min = 4000;
    policy
}

fn run(entries: u64) -> RunShape {
    RunShape { bytes: entries * 3, entries, busy: false }
}

fn rowset(id: u32, run: usize, (first, last): (usize, usize), rows: u64, live: u64) -> RowsetShape {
    let id = RowsetId(id);
    RowsetShape { id, run, first, last, rows, live, bytes: rows * 10, is_free: true, is_raw: false }
}

fn loads() -> impl Strategy<Value = Load> {
    prop_oneof![Just(Load::Busy), Just(Load::Idle)]
}

/// A tablet: as picking sees it, and what of it a snapshot holds or a newer run will overwrite.
fn shapes() -> impl Strategy<Value = Shape> {
    let rowset = (
        0usize..8,
        0usize..RANKS,
        0usize..RANKS,
        1u64..2000,
        0u64..=100,
        prop::bool::weighted(0.05),
        any::<bool>(),
    );
    let run = (1u64..20_000, 0u64..=100, 0u64..=100, prop::bool::weighted(0.05));
    (prop::collection::vec(run, 1..12), prop::collection::vec(rowset, 0..40), 0u64..=100).prop_map(
        |(runs, rowsets, overwrite_percent)| {
            let details = runs.iter().map(|&(entries, deletions, freed, _)| RunDetail {
                deletions: entries * deletions / 100,
                held: entries * freed / 100,
                freed: entries * freed / 100,
            });
            let details = details.collect();
            let runs: Vec<RunShape> =
                runs.into_iter().map(|(entries, _, _, busy)| RunShape { busy, ..run_of(entries) }).collect();
            let count = runs.len();
            let rowsets =
                (0..).zip(rowsets).map(|(id, (under, a, b, rows, live, is_stuck, is_raw))| RowsetShape {
                    is_free: !is_stuck,
                    is_raw,
                    ..rowset_of(id, under % count, (a.min(b), a.max(b)), rows, (rows * live / 100).max(1))
                });
            Shape { rowsets: rowsets.collect(), runs, details, overwrite_percent }
        },
    )
}

use rowset as rowset_of;
use run as run_of;

/// Does what was picked, on paper. `dying` percent of what is expected to die does.
fn apply(shape: &mut Shape, policy: &Policy, work: &Work, next_id: &mut u32, dying: u64) {
    let Range { start, end } = work.inputs.clone();
    let inputs = shape.runs[start..end].to_vec();
    let mut entries: u64 = inputs.iter().map(|run| run.entries).sum();
    let newer: u64 = inputs[..inputs.len() - 1].iter().map(|run| run.entries).sum();
    let frees = shape.details[start..end].iter().map(|detail| detail.freed).sum::<u64>();
    entries = (entries - newer * dying / 100).saturating_sub(frees).max(1);
    let mut kept: Vec<RowsetShape> = Vec::new();
    let mut moved: Vec<RowsetShape> = Vec::new();
    for mut rowset in std::mem::take(&mut shape.rowsets) {
        if work.inputs.contains(&rowset.run) {
            rowset.live -= rowset.live * dying.min(90) / 100 / if inputs.len() > 1 { 1 } else { 100 };
        }
        rowset.run = match rowset.run {
            run if run < start => run,
            run if run < end => start,
            run => run - (end - start) + 1,
        };
        if work.moving.binary_search(&rowset.id).is_ok() { moved.push(rowset) } else { kept.push(rowset) }
    }
    kept.retain(|rowset| rowset.live > 0);
    // What is written goes on over a gap in which nothing else has keys.
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (first, last) in union(moved.iter().map(|rowset| (rowset.first, rowset.last)).collect()) {
        let is_empty = |from: usize| !kept.iter().any(|rowset| rowset.last > from && rowset.first < first);
        match ranges.last_mut() {
            Some((_, end)) if is_empty(*end) => *end = last,
            _ => ranges.push((first, last)),
        }
    }
    for (first, last) in ranges {
        let within = moved.iter().filter(|rowset| first <= rowset.first && rowset.last <= last);
        let rows: u64 = within.map(|rowset| rowset.live).sum();
        let pieces = (rows * 10).div_ceil(policy.rowset_bytes).clamp(1, (last - first + 1) as u64) as usize;
        let mut from = first;
        for piece in 0..pieces {
            let to = first + (last - first + 1) * (piece + 1) / pieces - 1;
            let rows = rows / pieces as u64;
            if rows > 0 {
                kept.push(rowset(*next_id, start, (from, to), rows, rows));
                *next_id += 1;
            }
            from = to + 1;
        }
    }
    shape.rowsets = kept;
    shape.runs.splice(start..end, [run(entries)]);
    shape.details.splice(start..end, [RunDetail::default()]);
}

fn is_legal(shape: &Shape, work: &Work) -> Result<(), TestCaseError> {
    prop_assert!(!work.inputs.is_empty() && work.inputs.end <= shape.runs.len());
    prop_assert!(shape.runs[work.inputs.clone()].iter().all(|run| !run.busy));
    prop_assert!(work.moving.is_sorted_by(|a, b| a < b));
    for id in &work.moving {
        let rowset = shape.rowsets.iter().find(|rowset| rowset.id == *id).expect("it is there");
        prop_assert!(work.inputs.contains(&rowset.run) && rowset.is_free);
    }
    Ok(())
}

fn all_free(mut shape: Shape) -> Shape {
    shape.runs.iter_mut().for_each(|run| run.busy = false);
    shape.rowsets.iter_mut().for_each(|rowset| rowset.is_free = true);
    shape
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_picked_can_be_done(shape in shapes(), load in loads()) {
        if let Some(work) = pick(&shape, &policy(), load) {
            is_legal(&shape, &work)?;
        }
        if let Some(work) = pick_whole(&shape, &policy()) {
            is_legal(&shape, &work)?;
            prop_assert_eq!(work.inputs, 0..shape.runs.len());
        }
    }

    #[test]
    fn one_compaction_moves_a_bounded_number_of_bytes(shape in shapes(), load in loads()) {
        if let Some(work) = pick(&shape, &policy(), load) {
            let bytes_max = policy().moved_bytes_max(&shape);
            // One rowset always may move, and two that lie on one another.
            prop_assert!(work.moved_bytes <= bytes_max || work.moving.len() <= 2, "{:?}", work);
        }
    }

    #[test]
    fn picking_ends_with_everything_within_its_bounds(
        shape in shapes(),
        dying in prop::collection::vec(0u64..=100, 10),
        load in loads(),
    ) {
        let (mut shape, policy) = (all_free(shape), policy());
        let mut next_id = 1000;
        let mut steps = 0;
        while let Some(work) = pick(&shape, &policy, load) {
            is_legal(&shape, &work)?;
            let before = shape.depth();
            apply(&mut shape, &policy, &work, &mut next_id, dying[steps % dying.len()]);
            prop_assert!(shape.depth() <= before, "a compaction never makes it deeper");
            steps += 1;
            prop_assert!(steps < 200, "{:?}", shape);
        }
        let limits = policy.limits(load);
        let largest = shape.runs.iter().map(|run| run.bytes).max().unwrap_or(0);
        let runs_max = if load == Load::Idle { 3 } else { policy.index.runs_max(largest) };
        prop_assert!(shape.runs.len() <= runs_max);
        prop_assert!(shape.depth() <= limits.depth_max, "{:?}", shape);
        prop_assert!(
            shape.garbage_bytes() * 100 <= shape.row_bytes() * limits.garbage_percent_max,
            "{:?}",
            shape
        );
        prop_assert!(shape.raw_bytes() * 100 <= shape.row_bytes() * limits.raw_percent_max, "{:?}", shape);
        let debt = debt(&shape, &policy);
        prop_assert_eq!(debt.runs, 0);
        prop_assert!(debt.depth <= limits.depth_max.saturating_sub(DEPTH_SLOWED));
    }

    #[test]
    fn depth_and_runs_stay_bounded_while_flushes_go_on(
        flushes in prop::collection::vec((100u64..1000, 0usize..RANKS, 0usize..RANKS), 1..150),
        dying in 0u64..=100,
    ) {
        let policy = policy();
        let mut shape = Shape { overwrite_percent: dying, ..Shape::default() };
        let mut next_id = 0;
        for (rows, a, b) in flushes {
            shape.runs.insert(0, run(rows));
            shape.details.insert(0, RunDetail::default());
            shape.rowsets.iter_mut().for_each(|rowset| rowset.run += 1);
            shape.rowsets.push(rowset(next_id, 0, (a.min(b), a.max(b)), rows, rows));
            next_id += 1;
            prop_assert!(shape.depth() <= 12);
            let mut steps = 0;
            while let Some(work) = pick(&shape, &policy, Load::Busy) {
                is_legal(&shape, &work)?;
                apply(&mut shape, &policy, &work, &mut next_id, dying);
                steps += 1;
                prop_assert!(steps < 30);
            }
        }
    }
}

#[test]
fn nothing_is_picked_of_nothing() {
    for load in [Load::Busy, Load::Idle] {
        assert_eq!(pick(&Shape::default(), &policy(), load), None);
        assert_eq!(pick_whole(&Shape::default(), &policy()), None);
    }
}

/// A tablet with one run and these rowsets: their ranges, rows and live rows.
fn under_one_run(rowsets: &[((usize, usize), u64, u64)]) -> Shape {
    let rowsets = (0..).zip(rowsets).map(|(id, &(range, rows, live))| rowset(id, 0, range, rows, live));
    let rowsets: Vec<_> = rowsets.collect();
    let entries = rowsets.iter().map(|rowset| rowset.live).sum();
    Shape { runs: vec![run(entries)], details: vec![RunDetail::default()], rowsets, overwrite_percent: 100 }
}

#[test]
fn rows_that_only_a_snapshot_needs_are_no_garbage() {
    // Every row has an entry; that half of them serve a snapshot alone makes no difference.
    let mut shape = under_one_run(&[((0, 9), 1000, 1000), ((10, 19), 1000, 1000)]);
    shape.details[0].held = 1000;
    assert_eq!(pick(&shape, &policy(), Load::Idle), None);
    // The snapshot goes: one compaction of the single run, and no second one.
    shape.details[0].freed = 1000;
    let work = pick(&shape, &policy(), Load::Idle).expect("half of it can go");
    assert_eq!((work.inputs.clone(), work.moving.len()), (0..1, 2));
    apply(&mut shape, &policy(), &work, &mut 10, 0);
    assert_eq!(pick(&shape, &policy(), Load::Idle), None);
}

#[test]
fn the_worst_garbage_goes_first_and_good_rowsets_stay() {
    let shape = under_one_run(&[((0, 9), 1000, 990), ((10, 19), 1000, 100), ((20, 29), 1000, 800)]);
    let work = pick(&shape, &policy(), Load::Idle).expect("more than 15 percent");
    assert_eq!((work.inputs, work.moving), (0..1, vec![RowsetId(1)]));
}

#[test]
fn rowsets_that_lie_deep_move_together_and_the_large_one_stays() {
    let mut rowsets = vec![((0, 39), 1000, 1000); 11];
    rowsets.push(((0, 39), 100_000, 100_000));
    let shape = under_one_run(&rowsets);
    let work = pick(&shape, &policy(), Load::Busy).expect("twelve over every key");
    assert!(!work.moving.contains(&RowsetId(11)) && work.moving.len() >= 8, "{work:?}");
}

#[test]
fn small_rowsets_side_by_side_are_joined_where_nothing_lies_between() {
    let policy = policy();
    // Four hundred of a twentieth of the full size, one after the other.
    let mut small: Vec<_> = (0..400).map(|at| ((2 * at, 2 * at + 1), 50, 50)).collect();
    let mut shape = under_one_run(&small);
    let mut next_id = 1000;
    let mut steps = 0;
    while let Some(work) = pick(&shape, &policy, Load::Busy) {
        assert_eq!(work.moving.len(), 20, "one of full size");
        apply(&mut shape, &policy, &work, &mut next_id, 0);
        steps += 1;
        assert!(steps < 20);
    }
    assert!(shape.rowsets.len() <= 256, "{}", shape.rowsets.len());
    // With a large one over all of them each would be written as it is.
    small.push(((0, 799), 20_000, 20_000));
    assert_eq!(pick(&under_one_run(&small), &policy, Load::Idle), None);
    // A few are left alone.
    small.truncate(128);
    assert_eq!(pick(&under_one_run(&small), &policy, Load::Idle), None);
}

#[test]
fn a_cheap_interval_is_taken_before_the_base() {
    // Eleven rowsets on one another, five of them under small runs on top.
    let runs: Vec<RunShape> = [300, 300, 3000, 1_000_000].into_iter().map(run).collect();
    let under = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3];
    let rowsets = (0..).zip(under).map(|(id, under)| rowset(id, under, (0, 39), 1000, 1000));
    let details = vec![RunDetail::default(); 4];
    let shape = Shape { runs, details, rowsets: rowsets.collect(), overwrite_percent: 0 };
    let (inputs, group) = pick_deep(&shape, &policy().busy).expect("too deep");
    assert!(inputs.end <= 3 && group.len() >= 2, "{inputs:?} {group:?}");
}

#[test]
fn garbage_to_come_makes_an_idle_engine_merge_all() {
    let runs = vec![run(100), run(1000)];
    let rowsets = vec![rowset(0, 0, (0, 9), 100, 100), rowset(1, 1, (0, 9), 1000, 900)];
    let details = vec![RunDetail::default(); 2];
    let shape = Shape { runs, details, rowsets, overwrite_percent: 100 };
    let work = pick(&shape, &policy(), Load::Idle).expect("100 known and 100 to come, of 1100");
    assert_eq!(work.inputs, 0..2);
    assert_eq!(pick(&Shape { overwrite_percent: 0, ..shape }, &policy(), Load::Idle), None);
}

#[test]
fn what_fails_is_no_debt_and_holds_nothing_up() {
    let mut shape = under_one_run(&[((0, 39), 1000, 500); 14]);
    assert_eq!(debt(&shape, &policy()).depth, 14 - DEPTH_SLOWED);
    for rowset in &mut shape.rowsets[..12] {
        rowset.is_free = false;
    }
    assert_eq!(debt(&shape, &policy()), Debt::default());
    let work = pick(&shape, &policy(), Load::Busy).expect("the other two are garbage enough");
    assert_eq!(work.moving, [RowsetId(12), RowsetId(13)]);
    shape.runs[0].busy = true;
    assert_eq!(pick(&shape, &policy(), Load::Busy), None);
}

#[test]
fn ranges_join_only_where_they_overlap() {
    assert_eq!(union(vec![(5, 6), (1, 2), (2, 4), (8, 9), (5, 5)]), [(1, 4), (5, 6), (8, 9)]);
    assert_eq!(union::<u8>(Vec::new()), []);
}
