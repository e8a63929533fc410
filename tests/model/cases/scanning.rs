//! Order, ends, and one version of each key.

use nyala::{Durability, Options};

use super::{Bench, Between, EVERYTHING, rows_of};
use crate::random::Random;
use crate::settings;

/// Case 29.
#[test]
fn a_reverse_scan_over_several_versions_gives_the_newest_once() {
    for between in EVERYTHING {
        // In one memtable, and over several.
        for options in [settings::inline_roomy().options, settings::inline_tiny().options] {
            let mut bench = Bench::with(Options { ..options });
            for version in 0..12 {
                for key in 0..15 {
                    if (key + version) % 6 == 5 {
                        bench.delete(key)
                    } else {
                        bench.put(key, &format!("{version}"))
                    }
                }
            }
            let snapshot = bench.engine().snapshot();
            bench.happens(between);
            let expected: Vec<(i64, String)> =
                (0..15).rev().filter(|key| (key + 11) % 6 != 5).map(|key| (key, "11".to_owned())).collect();
            assert_eq!(expected, rows_of(bench.table().scan().reverse()), "{between:?}");
            if matches!(between, Between::Nothing | Between::Flush | Between::Compact) {
                bench.put(3, "later");
                bench.delete(4);
                assert_eq!(expected, rows_of(bench.table().scan().reverse().at(&snapshot)), "{between:?}");
            }
        }
    }
}

/// Case 30.
#[test]
fn unsorted_keys_of_one_batch_are_scanned_in_order() {
    let mut random = Random::new(1);
    for count in [1, 2, 17, 100, 400] {
        let bench = Bench::with(settings::inline_roomy().options);
        let mut batch = bench.engine().batch();
        let mut keys: Vec<i64> = (0..count).map(|_| random.within(-1000..1000)).collect();
        for key in &keys {
            batch.upsert(bench.table(), (*key, "x")).expect("fits");
        }
        batch.commit(Durability::Buffered).expect("the disk is well");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys, bench.rows().iter().map(|(key, _)| *key).collect::<Vec<_>>());
    }
}

/// Case 31.
#[test]
fn after_the_end_of_a_scan_comes_the_end_again() {
    for between in EVERYTHING {
        for keys in [0, 1, 50] {
            let mut bench = Bench::new(1);
            for key in 0..keys {
                bench.put(key, "x");
            }
            bench.happens(between);
            let all = bench.table().scan();
            let scans = [
                all.clone(),
                all.clone().reverse(),
                all.clone().limit(3),
                all.clone().reverse().limit(0),
                all.clone().range(1000..),
                all.clone().range(5..5).reverse(),
                all.columns(["key"]),
            ];
            for scan in scans {
                let mut rows = scan.clone().rows().expect("a legal scan");
                rows.by_ref().for_each(|row| assert!(row.is_ok()));
                let mut batches = scan.clone().batches().expect("a legal scan");
                batches.by_ref().for_each(|batch| assert!(!batch.expect("the disk is well").is_empty()));
                let mut cursor = scan.cursor().expect("a legal scan");
                while cursor.next().expect("the disk is well").is_some() {}
                // Also when there is more to see meanwhile.
                bench.put(2000, "later");
                for _ in 0..3 {
                    assert!(rows.next().is_none() && batches.next().is_none());
                    assert!(cursor.next().expect("the disk is well").is_none());
                }
                bench.delete(2000);
            }
        }
    }
}
