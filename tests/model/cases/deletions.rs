//! What is deleted stays deleted, and what was moved, flushed or replayed is there once.

use std::collections::BTreeMap;

use nyala::Snapshot;

use super::{Bench, Between, EVERYTHING, rows_of};
use crate::random::Random;

/// Case 17.
#[test]
fn a_deleted_key_stays_deleted_over_older_values_beside_and_below() {
    for seed in 0..30 {
        let bench = Bench::new(seed);
        let mut random = Random::new(seed);
        // An old value at the base, one above it, then the deletion, each in a run of its own among others.
        let mut fill = |from: i64| {
            for _ in 0..random.below(6) {
                bench.put(from + random.within(0..40), "something else, to make runs and compactions");
                if random.one_in(2) {
                    bench.engine().flush().expect("the disk is well");
                }
            }
        };
        bench.put(7, "oldest");
        bench.table().compact().expect("the disk is well");
        fill(100);
        bench.put(7, "older");
        fill(-100);
        bench.delete(7);
        for round in 0..12 {
            assert_eq!(bench.get(7), None, "seed {seed}, round {round}");
            assert!(bench.rows().iter().all(|(key, _)| *key != 7), "seed {seed}, round {round}");
            fill(if round % 2 == 0 { 100 } else { -100 });
        }
        bench.table().compact().expect("the disk is well");
        assert_eq!(bench.get(7), None, "seed {seed}");
        let stats = bench.table().stats();
        assert_eq!(
            stats.index_deletions, 0,
            "at the base, without snapshots, a deletion has nothing to hide"
        );
        bench.check();
    }
}

/// Case 18.
#[test]
fn a_compaction_changes_the_result_of_no_read() {
    for seed in 0..12 {
        let bench = Bench::new(seed);
        let mut random = Random::new(seed);
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for round in 0..150 {
            let key = random.within(-10..30);
            if random.one_in(3) {
                bench.delete(key)
            } else {
                bench.put(key, &format!("round {round}"))
            }
            match random.below(12) {
                0 => bench.engine().flush().expect("the disk is well"),
                1 => snapshots.push(bench.engine().snapshot()),
                2 if !snapshots.is_empty() => drop(snapshots.swap_remove(random.below(snapshots.len()))),
                _ => {}
            }
        }
        let read_all = || {
            let points: Vec<_> = (-10..30).map(|key| bench.get(key)).collect();
            let many = bench.table().multi_get(-10..30).expect("the disk is well");
            let many: Vec<Option<String>> =
                many.into_iter().map(|row| row.map(|row| row.get("text").expect("a text"))).collect();
            let old: Vec<_> =
                snapshots.iter().map(|snapshot| rows_of(bench.table().scan().at(snapshot))).collect();
            let old_points: Vec<_> = snapshots
                .iter()
                .flat_map(|snapshot| (-10..30).map(move |key| (snapshot, key)))
                .map(|(snapshot, key)| bench.table().get_at(key, snapshot).expect("the disk is well"))
                .map(|row| row.map(|row| row.get::<String>("text").expect("a text")))
                .collect();
            (points, many, bench.rows(), old, old_points)
        };
        let before = read_all();
        bench.table().compact().expect("the disk is well");
        assert!(before == read_all(), "seed {seed}");
        bench.table().compact().expect("the disk is well");
        assert!(before == read_all(), "seed {seed}, once more");
        bench.check();
    }
}

/// Case 25.
#[test]
fn deleted_and_inserted_again_in_every_order_of_flushes_and_restarts() {
    let steps = EVERYTHING.len();
    for combination in 0..steps.pow(4) {
        let between: Vec<Between> =
            (0..4).map(|place| EVERYTHING[combination / steps.pow(place) % steps]).collect();
        let mut bench = Bench::new(combination as u64);
        let mut expected = BTreeMap::from([(2, "a neighbour".to_owned())]);
        bench.put(2, "a neighbour");
        let compare = |bench: &Bench, expected: &BTreeMap<i64, String>| {
            let expected: Vec<(i64, String)> = expected.clone().into_iter().collect();
            assert_eq!(expected, bench.rows(), "{between:?}");
        };
        for (place, between) in between.iter().enumerate() {
            match place {
                1 => {
                    bench.delete(1);
                    expected.remove(&1);
                }
                _ => {
                    let text = format!("write {place}");
                    if place == 3 {
                        bench.put(1, &text);
                    } else {
                        bench.table().insert((1, &text)).expect("it is absent");
                    }
                    expected.insert(1, text);
                }
            }
            compare(&bench, &expected);
            bench.happens(*between);
            compare(&bench, &expected);
        }
        bench.table().insert((1, "again")).expect_err("it is there");
        bench.check();
    }
}
