//! Snapshots see what they saw, and new versions lie above old ones.

use std::time::Instant;

use nyala::{Durability, Options, RuntimeMode};

use super::{Bench, Between, EVERYTHING, rows_of};
use crate::settings;

/// Case 19, the reading.
#[test]
fn a_snapshot_reads_the_old_value_over_overwrites_and_compactions() {
    let bench = Bench::new(1);
    for key in 0..20 {
        bench.put(key, "old");
    }
    let old = bench.engine().snapshot();
    for round in 0..5 {
        for key in 0..30 {
            if (key + round) % 3 == 0 { bench.delete(key) } else { bench.put(key, "new") }
        }
        bench.table().compact().expect("the disk is well");
        let expected: Vec<(i64, String)> = (0..20).map(|key| (key, "old".to_owned())).collect();
        assert_eq!(expected, rows_of(bench.table().scan().at(&old)));
        let row = bench.table().get_at(7, &old).expect("the disk is well").expect("it was there");
        assert_eq!(row.get::<&str>("text").expect("a text"), "old");
        assert!(bench.table().get_at(25, &old).expect("the disk is well").is_none());
    }
    let rows = bench.rows().len() as u64;
    // Of the last round; they hide what the snapshot sees.
    let deletions = (0..20).filter(|key| (key + 4) % 3 == 0).count() as u64;
    let entries = rows + 20 + deletions;
    assert_eq!(bench.table().stats().index_entries, entries, "one version for the snapshot, not all since");
    drop(old);
    bench.put(100, "so that there is something to compact");
    bench.table().compact().expect("the disk is well");
    assert_eq!(bench.table().stats().index_entries, rows + 1, "nobody needs the old values any more");
    bench.check();
}

/// Case 22.
#[test]
fn the_first_write_after_a_recovery_has_a_version_above_all_on_disk() {
    for first in EVERYTHING {
        for second in EVERYTHING {
            let mut bench = Bench::new(1);
            let mut highest = nyala::Version(0);
            for (round, between) in [first, second, Between::Kill, first, second].into_iter().enumerate() {
                let text = format!("round {round}");
                let mut batch = bench.engine().batch();
                batch.upsert(bench.table(), (1, &text)).expect("fits");
                batch.upsert(bench.table(), (round as i64 + 2, &text)).expect("fits");
                batch.commit(Durability::Buffered).expect("the disk is well");
                let version = bench.engine().snapshot().version();
                assert!(version > highest, "{version} after {highest}: {first:?}, {second:?}");
                highest = version;
                assert_eq!(bench.get(1), Some(text.clone()), "{first:?}, {second:?}");
                bench.happens(between);
                assert_eq!(bench.get(1), Some(text), "{first:?}, {second:?}");
                assert!(bench.engine().snapshot().version() >= highest);
            }
            bench.check();
        }
    }
}

/// Case 24. A million overwrites with `NYALA_LONG=1`.
#[test]
fn one_key_overwritten_for_ever_takes_bounded_time_and_memory() {
    let writes: usize = if std::env::var_os("NYALA_LONG").is_some() { 1_000_000 } else { 100_000 };
    for options in [settings::inline_tiny().options, settings::inline_roomy().options] {
        let bench = Bench::with(Options { runtime: RuntimeMode::Inline { seed: 1 }, ..options });
        let bytes_max = bench.options.memtable_bytes_max() as u64;
        let mut quarters = Vec::new();
        let mut batch = bench.engine().batch();
        for quarter in 0..4 {
            let start = Instant::now();
            for write in 0..writes / 8 / 25 {
                for n in 0..25 {
                    batch.upsert(bench.table(), (1, format!("write {quarter} {write} {n}"))).expect("fits");
                }
                batch.commit(Durability::Buffered).expect("the disk is well");
                let memory = bench.engine().stats().memtable_bytes;
                assert!(memory <= bytes_max, "memtables take {memory} bytes of {bytes_max}");
            }
            quarters.push(start.elapsed());
            assert_eq!(bench.rows().len(), 1);
            let stats = bench.table().stats();
            assert!(stats.index_runs < 20, "{stats:?}");
        }
        // A cost that grew with the number of writes would show as a factor of 7 between these.
        assert!(quarters[3] < quarters[0] * 4 + std::time::Duration::from_millis(300), "{quarters:?}");
        bench.table().compact().expect("the disk is well");
        assert_eq!(bench.table().stats().index_entries, 1);
        assert!(bench.get(1).expect("it is there").starts_with("write 3 "));
        bench.check();
    }
}
