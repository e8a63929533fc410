//! Bounds, order, filters and ends of scans: what other engines got wrong, in memory, on disk and in both.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use encoded_key::{Decimal, Type, Value};

use super::model::{kind, schema};
use super::world::{Values, World, printed, scanned};
use crate::ErrorKind;
use crate::read::{Scan, column};
use crate::record::Record;
use crate::schema::Schema;

type Between = (Bound<(u32,)>, Bound<(u32,)>);

/// Where the rows of a world are.
#[derive(Clone, Copy, Debug)]
enum Home {
    Memory,
    Disk,
    Both,
}

const HOMES: [Home; 3] = [Home::Memory, Home::Disk, Home::Both];

/// A world with these rows, put in the order given.
fn world<R: Record>(schema: Schema, home: Home, rows: impl IntoIterator<Item = R>) -> World {
    let mut world = World::new(schema);
    let rows: Vec<R> = rows.into_iter().collect();
    let half = rows.len() / 2;
    for (index, row) in rows.into_iter().enumerate() {
        if index == half && matches!(home, Home::Both) {
            world.flush();
        }
        world.put(row);
    }
    if matches!(home, Home::Disk) {
        world.flush();
    }
    world
}

fn numbers() -> Schema {
    Schema::builder().key("id", Type::U32).column("text", Type::String).build().expect("a valid schema")
}

fn binaries() -> Schema {
    Schema::builder().key("id", Type::Binary).column("text", Type::String).build().expect("a valid schema")
}

/// The first column of a scan's rows.
fn firsts(rows: Vec<Values>) -> Vec<String> {
    rows.into_iter().map(|row| row[0].clone()).collect()
}

fn reversed<T>(mut rows: Vec<T>) -> Vec<T> {
    rows.reverse();
    rows
}

#[test]
fn contradicting_bounds_are_an_empty_range() {
    for home in HOMES {
        let world = world(numbers(), home, (0..50u32).map(|id| (id, "row")));
        let empty: [Between; 8] = [
            (Bound::Included((30,)), Bound::Included((10,))),
            (Bound::Excluded((30,)), Bound::Excluded((30,))),
            (Bound::Included((30,)), Bound::Excluded((30,))),
            (Bound::Excluded((30,)), Bound::Included((30,))),
            (Bound::Excluded((30,)), Bound::Excluded((31,))),
            (Bound::Included((50,)), Bound::Unbounded),
            (Bound::Excluded((u32::MAX,)), Bound::Unbounded),
            (Bound::Unbounded, Bound::Excluded((0,))),
        ];
        for range in empty {
            for reverse in [false, true] {
                let scan = world.scan().range(range);
                let scan = if reverse { scan.reverse() } else { scan };
                assert_eq!(
                    scanned(scan.clone()).expect("no error"),
                    Vec::<Values>::new(),
                    "{home:?} {range:?}"
                );
                assert_eq!(scan.clone().count().expect("no error"), 0);
                assert_eq!(scan.partitions(3).expect("no error").len(), 1);
            }
        }
        assert_eq!(world.scan().prefix((7,)).prefix((8,)).count().expect("no error"), 0);
        assert_eq!(world.scan().count().expect("no error"), 50, "nothing was deleted");
    }
}

#[test]
fn prefixes_of_ff_and_of_nothing_scan_both_ways() {
    let keys: [&[u8]; 9] =
        [b"", b"\x00", b"\x00\xff", b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff"];
    for home in HOMES {
        let world = world(binaries(), home, keys.iter().rev().map(|&key| (key, "row")));
        for prefix in [&b""[..], b"\x00", b"a", b"a\xff", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"c"] {
            let expected: Vec<String> = keys
                .iter()
                .filter(|key| key.starts_with(prefix))
                .map(|key| Value::Binary(key).to_string())
                .collect();
            let none: [Value<'_>; 0] = [];
            let scan = || world.scan().starts_with(none, prefix);
            assert_eq!(firsts(scanned(scan()).expect("no error")), expected, "{home:?} {prefix:?}");
            assert_eq!(reversed(firsts(scanned(scan().reverse()).expect("no error"))), expected);
        }
    }
}

#[test]
fn a_reverse_scan_begins_with_the_last_key_below_its_bound() {
    for home in HOMES {
        let world = world(numbers(), home, (0..100u32).map(|id| (id * 10, "row")));
        let last = |scan: crate::Scan| firsts(scanned(scan.reverse().limit(1)).expect("no error"));
        assert_eq!(last(world.scan().range(..(555,))), ["550"]);
        assert_eq!(last(world.scan().range(..(550,))), ["540"]);
        assert_eq!(last(world.scan().range(..=(550,))), ["550"]);
        assert_eq!(last(world.scan().range(..(u32::MAX,))), ["990"]);
        assert_eq!(last(world.scan().range((0,)..(1,))), ["0"]);
    }
}

#[test]
fn several_versions_in_one_memtable_give_the_newest_once() {
    for flushed in [false, true] {
        let mut world = World::new(numbers());
        for round in 0..5 {
            for id in [3u32, 1, 2] {
                world.put((id, format!("round {round}")));
            }
        }
        world.delete((2,));
        if flushed {
            world.flush();
        }
        let expected = [["1", "\"round 4\""], ["3", "\"round 4\""]];
        assert_eq!(scanned(world.scan()).expect("no error"), expected);
        assert_eq!(reversed(scanned(world.scan().reverse()).expect("no error")), expected);
    }
}

#[test]
fn unsorted_puts_scan_sorted_at_once() {
    let mut world = World::new(numbers());
    for id in [5u32, 1, 9, 3, 7, 2, 8, 0, 6, 4] {
        world.put((id, ""));
    }
    let expected: Vec<String> = (0..10).map(|id| id.to_string()).collect();
    assert_eq!(firsts(scanned(world.scan()).expect("no error")), expected);
}

#[test]
fn after_the_end_comes_the_end() {
    for home in HOMES {
        let world = world(numbers(), home, (0..40u32).map(|id| (id, "row")));
        for limit in [0, 1, 40, 1000] {
            let mut rows = world.scan().limit(limit).rows().expect("no error");
            assert_eq!(rows.by_ref().count(), limit.min(40));
            let mut batches = world.scan().limit(limit).batches().expect("no error");
            batches.by_ref().for_each(drop);
            let mut cursor = world.scan().limit(limit).cursor().expect("no error");
            while cursor.next().expect("no error").is_some() {}
            for _ in 0..3 {
                assert!(rows.next().is_none());
                assert!(batches.next().is_none());
                assert!(cursor.next().expect("no error").is_none());
            }
        }
    }
}

#[test]
fn composite_keys_sort_by_columns_not_by_bytes_put_together() {
    let schema = || {
        Schema::builder().key("text", Type::String).key("number", Type::I32).build().expect("a valid schema")
    };
    let sorted =
        [("", 0), ("a", 2), ("a\0", 1), ("aa", 1), ("b", 2), ("foo", 9), ("foo\0bar", 0), ("foo\u{1}", 0)];
    for home in HOMES {
        let world = world(schema(), home, sorted.iter().rev().copied());
        let expected: Vec<Values> = sorted
            .iter()
            .map(|(text, number)| printed(&[Value::String(text), Value::Int(*number)]))
            .collect();
        assert_eq!(scanned(world.scan()).expect("no error"), expected);
        assert_eq!(reversed(scanned(world.scan().reverse()).expect("no error")), expected);
        assert_eq!(scanned(world.scan().prefix(("a",))).expect("no error"), expected[1..2]);
        assert_eq!(scanned(world.scan().prefix(("foo",))).expect("no error"), expected[5..6]);
        let none: [Value<'_>; 0] = [];
        assert_eq!(scanned(world.scan().starts_with(none, "foo")).expect("no error"), expected[5..]);
        assert_eq!(scanned(world.scan().range(("a",)..=("aa",))).expect("no error"), expected[1..4]);
        assert_eq!(scanned(world.scan().range(("a", 2)..("aa", 1))).expect("no error"), expected[1..3]);
    }
}

#[test]
fn a_scan_resumes_behind_the_greatest_key() {
    let greatest = [0xff; 20];
    let rows: [&[u8]; 4] = [b"", b"a", b"\xff\xfe", &greatest];
    for home in HOMES {
        let world = world(binaries(), home, rows.iter().map(|&key| (key, "row")));
        let mut seen: Vec<String> = Vec::new();
        let mut behind: Option<Vec<u8>> = None;
        loop {
            let start = behind.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded((key.as_slice(),)));
            let mut rows = world.scan().range((start, Bound::Unbounded)).limit(1).rows().expect("no error");
            let Some(row) = rows.next() else { break };
            let key: Vec<u8> = row.and_then(|row| row.get("id")).expect("no error");
            seen.push(Value::Binary(&key).to_string());
            behind = Some(key);
        }
        let expected: Vec<String> = rows.iter().map(|key| Value::Binary(key).to_string()).collect();
        assert_eq!(seen, expected);
        let to_greatest = (Bound::Unbounded, Bound::Included((&greatest[..],)));
        assert_eq!(world.scan().range(to_greatest).count().expect("no error"), 4);
        assert_eq!(world.scan().prefix((&greatest[..],)).count().expect("no error"), 1);
    }
}

#[test]
fn contradicting_predicates_give_nothing() {
    for home in HOMES {
        let world = world(numbers(), home, (0..50u32).map(|id| (id, "row")));
        let contradictions = [
            column("id").lt(10).and(column("id").gt(20)),
            column("id").eq(1).and(column("id").eq(2)),
            column("id").eq(1).and(column("id").ne(1)),
            column("text").eq("row").and(column("text").ne("row")),
            column("id").gt(u64::MAX),
            column("id").lt(i64::MIN),
            column("id").eq(None::<u32>),
            column("id").eq(None::<u32>).not(),
            column("text").is_null(),
        ];
        for predicate in contradictions {
            let scan = world.scan().filter(predicate.clone());
            assert_eq!(scanned(scan).expect("no error"), Vec::<Values>::new(), "{home:?} {predicate:?}");
        }
        let scan = world.scan().range((5,)..(9,)).filter(column("id").ge(9));
        assert_eq!(scanned(scan).expect("no error"), Vec::<Values>::new());
    }
}

#[test]
fn a_predicate_needs_no_projected_column() {
    for home in HOMES {
        let world =
            world(numbers(), home, (0..50u32).map(|id| (id, if id % 7 == 3 { "odd" } else { "even" })));
        let ids = |scan: crate::Scan| firsts(scanned(scan.columns(["id"])).expect("no error"));
        let odd = ["3", "10", "17", "24", "31", "38", "45"];
        assert_eq!(ids(world.scan().filter(column("text").eq("odd"))), odd);
        assert_eq!(
            ids(world.scan().filter(column("text").eq("odd").or(column("id").eq(4))).limit(3)),
            ["3", "4", "10"]
        );
        let texts = world.scan().filter(column("id").eq(3)).columns(["text"]);
        assert_eq!(scanned(texts).expect("no error"), [["\"odd\""]]);
        let nothing: [&str; 0] = [];
        let rows = scanned(world.scan().filter(column("text").eq("odd")).columns(nothing)).expect("no error");
        assert_eq!(rows, vec![Values::new(); 7]);
    }
}

#[test]
fn floats_and_decimals_compare_as_keys_sort() {
    let schema = Schema::builder()
        .key("f", Type::F64)
        .column("g", Type::F32)
        .column("d", Type::Decimal { precision: 9, scale: 2 })
        .build()
        .expect("a valid schema");
    let floats = [-f64::NAN, f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1.5, f64::INFINITY, f64::NAN];
    #[expect(clippy::cast_possible_truncation, reason = "these few are exact")]
    let rows = floats.iter().zip(0..).map(|(&f, n)| (f, f as f32, Decimal::new(n * 100, 2)));
    let world = world(schema, Home::Both, rows);
    let count = |predicate| world.scan().filter(predicate).count().expect("no error");
    for (name, below) in [("f", floats), ("g", floats)] {
        for (index, &float) in below.iter().enumerate() {
            assert_eq!(count(column(name).lt(float)), index as u64, "{name} < {float}");
            assert_eq!(count(column(name).le(float)), index as u64 + 1, "{name} <= {float}");
            assert_eq!(count(column(name).eq(float)), 1, "{name} = {float}");
        }
    }
    assert_eq!(count(column("d").lt(Decimal::new(3, 0))), 3);
    assert_eq!(count(column("d").eq(Decimal::new(30, 1))), 1);
    assert_eq!(count(column("d").gt(Decimal::new(2_999_999_999, 9))), 5);
}

#[test]
fn what_a_scan_is_told_wrong_is_told_when_it_starts() {
    let world = World::new(schema());
    let wrong = [
        world.scan().columns(["a", "nothing"]),
        world.scan().filter(column("nothing").eq(1)),
        world.scan().filter(column("a").eq("text")),
        world.scan().filter(column("s").eq(1)),
        world.scan().filter(column("v").starts_with("1")),
        world.scan().filter(column("v").starts_with(1)),
        world.scan().filter(column("a").eq(1).or(column("a").eq(1.0))),
        world.scan().filter(column("s").eq(&b"bytes"[..])),
        world.scan().prefix(("text",)),
        world.scan().prefix((1, "b", 1, 1)),
        world.scan().prefix((300,)),
        world.scan().prefix((None::<u8>,)),
        world.scan().starts_with((1, "b"), "text"),
        world.scan().starts_with((1, "b", 1), "text"),
        world.scan().range((1, 2)..),
    ];
    for scan in wrong {
        let text = format!("{scan:?}");
        assert_eq!(kind(scan.clone().rows()), ErrorKind::InvalidArgument, "{text}");
        assert_eq!(kind(scan.clone().cursor()), ErrorKind::InvalidArgument);
        assert_eq!(kind(scan.clone().batches()), ErrorKind::InvalidArgument);
        assert_eq!(kind(scan.clone().count()), ErrorKind::InvalidArgument);
        assert_eq!(kind(scan.partitions(2)), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(world.scan().limit(3).partitions(2)), ErrorKind::InvalidArgument);
    assert_eq!(kind(world.scan().partitions(0)), ErrorKind::InvalidArgument);
    let error = world.scan().columns(["nothing"]).rows().expect_err("there is no such column");
    assert!(error.to_string().contains("\"nothing\""), "{error}");
    assert_eq!(world.scan().count().expect("the next valid call works"), 0);
}

#[test]
fn a_snapshot_sees_its_own_state_and_one_scan_one_state() {
    let mut world = world(numbers(), Home::Both, (0..60u32).map(|id| (id, "old")));
    let snapshot = world.registry.take();
    let expected = scanned(world.scan()).expect("no error");
    let mut running = world.scan().rows().expect("no error");
    let first = running.next().expect("there are rows").expect("no error");
    let parts = world.scan().partitions(3).expect("no error");
    for id in 0..60u32 {
        world.put((id, "new"));
        world.delete((id + 7,));
    }
    world.put((1000, "new"));
    let at = |world: &World| scanned(world.scan().at(&snapshot)).expect("no error");
    assert_eq!(at(&world), expected);
    let rest = running.map(|row| printed(&row.expect("no error").to_values().expect("no damage")));
    let all: Vec<Values> =
        std::iter::once(printed(&first.to_values().expect("no damage"))).chain(rest).collect();
    assert_eq!(all, expected, "a scan sees the state it began with");
    let parts: Vec<Values> = parts.into_iter().flat_map(|part| scanned(part).expect("no error")).collect();
    assert_eq!(parts, expected, "and so do the parts of one");
    world.flush();
    assert_eq!(at(&world), expected);
    assert_ne!(scanned(world.scan()).expect("no error"), expected);
}

#[test]
fn a_closed_engine_ends_scans_with_an_error() {
    let world = world(numbers(), Home::Both, (0..2000u32).map(|id| (id, "row")));
    let mut rows = world.scan().rows().expect("no error");
    let mut cursor = world.scan().cursor().expect("no error");
    assert!(rows.next().is_some_and(|row| row.is_ok()));
    assert!(cursor.next().expect("no error").is_some());
    world.closed.store(true, Ordering::Relaxed);
    let error = rows.by_ref().find_map(Result::err).expect("a scan does not end as if all had been read");
    assert_eq!(error.kind(), ErrorKind::Closed);
    while let Ok(row) = cursor.next() {
        assert!(row.is_some(), "nor does a cursor");
    }
    for _ in 0..3 {
        assert!(rows.next().is_none(), "it is told once");
        assert_eq!(kind(cursor.next()), ErrorKind::Closed);
    }
    assert_eq!(kind(world.scan().rows()), ErrorKind::Closed);
}

#[test]
fn batches_grow_by_rows_and_end_by_bytes() {
    let small = world(numbers(), Home::Disk, (0..5000u32).map(|id| (id, "row")));
    let sizes: Vec<usize> =
        small.scan().batches().expect("no error").map(|batch| batch.expect("no error").len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 5000);
    assert!(sizes[0] <= 16 && sizes.is_sorted_by(|a, b| a <= b || *b == *sizes.last().expect("batches")));
    assert_eq!(sizes.iter().max(), Some(&1024));
    for home in HOMES {
        let long = "x".repeat(100 << 10);
        let large = world(numbers(), home, (0..40u32).map(|id| (id, long.clone())));
        for batch in large.scan().batches().expect("no error") {
            let batch = batch.expect("no error");
            assert!(batch.bytes() < (256 + 101) << 10, "{} bytes", batch.bytes());
        }
        assert_eq!(large.scan().columns(["text"]).count().expect("no error"), 40);
    }
}

#[test]
fn partitions_are_of_similar_size() {
    for home in HOMES {
        let world = world(numbers(), home, (0..4000u32).map(|id| (id, "row")));
        let sizes = |scan: crate::Scan| -> Vec<u64> {
            let parts = scan.partitions(4).expect("no error");
            parts.into_iter().map(|part| part.count().expect("no error")).collect()
        };
        let all = sizes(world.scan());
        assert_eq!(all.iter().sum::<u64>(), 4000);
        assert!(all.len() == 4 && all.iter().all(|&rows| (700..1300).contains(&rows)), "{home:?} {all:?}");
        let some = sizes(world.scan().range((1000,)..(2000,)));
        assert_eq!(some.iter().sum::<u64>(), 1000);
        assert!(some.len() == 4 && some.iter().all(|&rows| (150..350).contains(&rows)), "{home:?} {some:?}");
        let first = world.scan().reverse().partitions(4).expect("no error").swap_remove(0);
        assert_eq!(firsts(scanned(first.limit(1)).expect("no error")), ["3999"]);
    }
}

#[test]
fn a_filter_on_the_columns_after_a_prefix_narrows_what_is_read() {
    let schema = Schema::builder()
        .key("host", Type::U32)
        .key("time", Type::I64.descending())
        .key("metric", Type::String)
        .column("value", Type::U64)
        .build()
        .expect("a valid schema");
    let mut rows = Vec::new();
    for host in 0..3u32 {
        rows.extend((0..10i64).flat_map(|time| ["cpu", "cpu_wait", "disk"].map(|m| (host, time, m, 1u64))));
    }
    let world = world(schema, Home::Both, rows);
    let prefix = || world.scan().prefix((1,));
    let same = |filtered: Scan, bounded: Scan, count: u64| {
        let range = |scan: &Scan| scan.check().expect("a good scan").0.range;
        assert_eq!(range(&filtered), range(&bounded), "{filtered:?}");
        assert_eq!(filtered.clone().count().expect("no error"), count);
        assert_eq!(scanned(filtered).expect("no error"), scanned(bounded).expect("no error"));
    };
    // Greater values come first.
    same(prefix().filter(column("time").ge(7)), prefix().range(..=(1, 7)), 9);
    same(
        prefix().filter(column("time").lt(7)),
        prefix().range((Bound::Excluded((1, 7)), Bound::Unbounded)),
        21,
    );
    same(world.scan().filter(column("time").eq(4)).prefix((1,)), world.scan().prefix((1, 4)), 3);
    same(
        prefix().filter(column("time").eq(4).and(column("metric").starts_with("cpu"))),
        world.scan().starts_with((1, 4), "cpu"),
        2,
    );
    let after = (Bound::Excluded((1, 4, "cpu")), Bound::Unbounded);
    let metrics = || world.scan().prefix((1, 4));
    same(metrics().filter(column("metric").gt("cpu")), metrics().range(after), 2);
    // What contradicts the prefix leaves nothing.
    for empty in [prefix().filter(column("host").eq(2)), prefix().prefix((2, 3)).filter(column("time").eq(3))]
    {
        assert_eq!(empty.count().expect("no error"), 0);
    }
    // What does not narrow still filters.
    let either = column("time").eq(4).or(column("metric").eq("disk"));
    assert_eq!(prefix().filter(either).count().expect("no error"), 12);
    assert_eq!(prefix().filter(column("metric").eq("cpu")).count().expect("no error"), 10);
}
