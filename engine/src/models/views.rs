//! What readers see while memtables are sealed, flushed and compacted under them.

use super::disk::Disk;
use super::runner::check;
use super::world::{assert_clean, busy, get, get_at, join, open, rows, rows_at, spawn, table, tiny};
use crate::{Options, Table};

/// One key is overwritten, by what `overwrite` does with each value from 2 to 4; `look` must see it at every moment,
/// and never an older value than before.
fn one_key(options: Options, looks: usize, look: fn(&Table) -> u64, overwrite: fn(&Table, u64)) {
    let engine = open(&Disk::new(), options);
    let table = table(&engine, "t");
    table.upsert((0u64, 1u64)).expect("healthy");
    let writer = spawn({
        let table = table.clone();
        move || {
            for value in 2..=4 {
                overwrite(&table, value);
                assert_eq!(get(&table, 0), Some(value), "a writer reads what it wrote");
            }
        }
    });
    let reader = spawn({
        let table = table.clone();
        move || {
            let mut before = 1;
            for _ in 0..looks {
                let now = look(&table);
                assert!(before <= now, "{before} was seen before {now}");
                before = now;
            }
        }
    });
    join(writer);
    join(reader);
    assert_eq!(rows(&table), [(0, 4)]);
    assert_clean(&engine);
    engine.close().expect("a clean end");
}

fn upsert_and_flush(table: &Table, value: u64) {
    table.upsert((0u64, value)).expect("healthy");
    table.flush().expect("healthy");
}

fn by_get(table: &Table) -> u64 {
    get(table, 0).expect("it is there")
}

fn by_scan(table: &Table) -> u64 {
    let rows = rows(table);
    assert_eq!(rows.len(), 1, "one key, and it is there");
    rows[0].1
}

#[test]
fn a_key_that_is_overwritten_is_never_missed_while_its_memtables_are_flushed() {
    check(|| one_key(tiny(), 8, by_get, upsert_and_flush));
}

#[test]
fn a_scan_never_misses_a_key_that_is_overwritten_and_flushed() {
    check(|| one_key(tiny(), 4, by_scan, upsert_and_flush));
}

#[test]
fn a_key_is_never_missed_while_each_write_fills_a_memtable_and_runs_are_merged() {
    check(|| one_key(busy(), 6, by_get, |table, value| table.upsert((0u64, value)).expect("healthy")));
}

#[test]
fn a_snapshot_reads_the_same_before_and_after_flushes_and_a_compaction() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        table.upsert((0u64, 1u64)).expect("healthy");
        let writer = spawn({
            let table = table.clone();
            move || (2..=4u64).for_each(|value| table.upsert((0u64, value)).expect("healthy"))
        });
        let keepers: Vec<_> = (0..2)
            .map(|_| {
                let (engine, table) = (engine.clone(), table.clone());
                spawn(move || {
                    let snapshot = engine.snapshot();
                    let value = get_at(&table, 0, &snapshot).expect("it is there");
                    (snapshot, value)
                })
            })
            .collect();
        let flusher = spawn({
            let table = table.clone();
            move || (0..2).for_each(|_| table.flush().expect("healthy"))
        });
        join(writer);
        let kept: Vec<_> = keepers.into_iter().map(join).collect();
        join(flusher);
        table.compact().expect("healthy");
        for (snapshot, value) in &kept {
            assert_eq!(rows_at(&table, snapshot), [(0, *value)], "{snapshot:?} has changed");
        }
        assert_clean(&engine);
        engine.close().expect("a clean end");
    });
}

#[test]
fn rows_are_found_while_a_compaction_moves_them() {
    check(|| {
        let engine = open(&Disk::new(), tiny());
        let table = table(&engine, "t");
        for value in 1..=3u64 {
            (0..3u64).for_each(|id| table.upsert((id, value)).expect("healthy"));
            table.flush().expect("healthy");
        }
        let snapshot = engine.snapshot();
        let compactor = spawn({
            let table = table.clone();
            move || table.compact().expect("healthy")
        });
        let writer = spawn({
            let table = table.clone();
            move || {
                table.upsert((1u64, 4u64)).expect("healthy");
                table.delete((2u64,)).expect("healthy");
                table.flush().expect("healthy");
            }
        });
        let reader = spawn({
            let table = table.clone();
            move || {
                let mut before = vec![(0, 3), (1, 3), (2, 3)];
                for _ in 0..3 {
                    let now = rows(&table);
                    let states =
                        [&[(0, 3), (1, 3), (2, 3)][..], &[(0, 3), (1, 4), (2, 3)], &[(0, 3), (1, 4)]];
                    let at = |rows: &[(u64, u64)]| states.iter().position(|state| *state == rows);
                    assert!(
                        at(&now).is_some() && at(&before) <= at(&now),
                        "{before:?} was seen before {now:?}"
                    );
                    before = now;
                }
            }
        });
        [compactor, writer, reader].into_iter().for_each(join);
        assert_eq!(rows(&table), [(0, 3), (1, 4)]);
        assert_eq!(rows_at(&table, &snapshot), [(0, 3), (1, 3), (2, 3)]);
        assert_clean(&engine);
        engine.close().expect("a clean end");
    });
}
