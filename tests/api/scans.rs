//! Bounds, prefixes and predicates of scans, in memory, on disk and on both at once, against the plain meaning.

use std::ops::Bound;

use nyala::{Engine, Schema, Table, Type, Value, column};

use crate::support::{pair, plain_table, rows, scratch, tiny};

const IDS: [u32; 9] = [0, 1, 2, 5, 6, 7, 100, u32::MAX - 1, u32::MAX];

/// The same rows in memory, on disk, on both, in several runs, and merged.
fn in_every_place(check: impl Fn(&Table)) {
    for place in ["memory", "disk", "both", "runs", "merged"] {
        let dir = scratch();
        let engine = Engine::open(dir.path(), tiny()).expect("it opens");
        let table = plain_table(&engine);
        for (n, id) in IDS.into_iter().enumerate() {
            // Something old below, and something deleted beside.
            table.upsert((id, -1, "old")).expect("a row");
            table.upsert((id / 2 + 40, -2, "deleted")).expect("a row");
            if place == "runs" {
                table.flush().expect("it is flushed");
            }
            table.delete((id / 2 + 40,)).expect("deleted");
            table.upsert((id, i64::from(id), "new")).expect("a row");
            if place == "both" && n == 5 {
                table.flush().expect("it is flushed");
            }
        }
        match place {
            "disk" => table.flush().expect("it is flushed"),
            "merged" => table.compact().expect("it is merged"),
            _ => {}
        }
        check(&table);
        assert_eq!(rows(&table), IDS.map(|id| (id, i64::from(id))), "{place}: nothing is deleted by a scan");
    }
}

fn ids(scan: nyala::Scan) -> Vec<u32> {
    scan.rows().expect("a scan").map(|row| pair(&row.expect("a row")).0).collect()
}

// docs/testing.md, fault 26, 28
#[test]
fn every_pair_of_bounds_gives_what_lies_between_them() {
    in_every_place(|table| {
        let mut bounds = vec![Bound::Unbounded];
        for id in [0, 1, 3, 5, 7, 99, 100, 101, u32::MAX - 1, u32::MAX] {
            bounds.extend([Bound::Included(id), Bound::Excluded(id)]);
        }
        for &start in &bounds {
            for &end in &bounds {
                let inside = |id: &u32| {
                    (match start {
                        Bound::Unbounded => true,
                        Bound::Included(start) => *id >= start,
                        Bound::Excluded(start) => *id > start,
                    }) && (match end {
                        Bound::Unbounded => true,
                        Bound::Included(end) => *id <= end,
                        Bound::Excluded(end) => *id < end,
                    })
                };
                let mut expected: Vec<u32> = IDS.into_iter().filter(inside).collect();
                let range = (start.map(|id| (id,)), end.map(|id| (id,)));
                assert_eq!(ids(table.scan().range(range)), expected, "{start:?} {end:?}");
                assert_eq!(table.scan().range(range).count().expect("rows"), expected.len() as u64);
                expected.reverse();
                assert_eq!(ids(table.scan().range(range).reverse()), expected, "{start:?} {end:?} reverse");
                let limit = expected.len() / 2;
                assert_eq!(ids(table.scan().range(range).reverse().limit(limit)), expected[..limit]);
            }
        }
    });
}

// docs/testing.md, fault 27
#[test]
fn prefixes_in_both_directions_whatever_they_end_with() {
    let texts: [&[u8]; 14] = [
        b"",
        b"\0",
        b"\0\0",
        b"a",
        b"a\0",
        b"a\xfe",
        b"a\xff",
        b"a\xffb",
        b"a\xff\xff",
        b"b",
        b"\xff",
        b"\xff\0",
        b"\xff\xff",
        b"\xff\xff\xff",
    ];
    let schema = || {
        Schema::builder()
            .key("g", Type::U8)
            .key("b", Type::Binary)
            .key("z", Type::I8)
            .column("n", Type::U8)
            .build()
    };
    for flushed in [false, true] {
        let dir = scratch();
        let engine = Engine::open(dir.path(), tiny()).expect("it opens");
        let table = engine.create_table("t", schema().expect("good")).expect("a table");
        for (n, text) in texts.iter().enumerate() {
            for group in [0, 7, 255] {
                table.upsert((group, *text, -1, n as u8)).expect("a row");
            }
            if flushed && n == 7 {
                table.flush().expect("it is flushed");
            }
        }
        let found = |scan: nyala::Scan| -> Vec<u8> {
            scan.rows().expect("a scan").map(|row| row.expect("a row").get("n").expect("a number")).collect()
        };
        let prefixes: [&[u8]; 8] =
            [b"", b"a", b"a\xff", b"\xff", b"\xff\xff", b"\xff\xff\xff\xff", b"\0", b"c"];
        for group in [0, 7, 255] {
            for prefix in prefixes {
                let matching =
                    (0u8..).zip(texts).filter(|(_, text)| text.starts_with(prefix)).map(|(n, _)| n);
                let mut expected: Vec<u8> = matching.collect();
                assert_eq!(found(table.scan().starts_with((group,), prefix)), expected, "{prefix:?}");
                expected.reverse();
                assert_eq!(
                    found(table.scan().starts_with((group,), prefix).reverse()),
                    expected,
                    "{prefix:?} reverse"
                );
            }
            for (n, text) in (0u8..).zip(texts) {
                assert_eq!(found(table.scan().prefix((group, text))), [n]);
                assert_eq!(found(table.scan().prefix((group, text)).reverse()), [n]);
            }
            assert_eq!(table.scan().prefix((group,)).count().expect("rows"), 14);
        }
        assert_eq!(table.scan().prefix((1,)).count().expect("rows"), 0);
        assert_eq!(table.scan().prefix(()).count().expect("rows"), 42);
    }
}

// docs/testing.md, fault 31
#[test]
fn after_the_end_comes_the_end_again() {
    in_every_place(|table| {
        for scan in
            [table.scan(), table.scan().reverse(), table.scan().range((3,)..(3,)), table.scan().limit(2)]
        {
            let mut started = scan.clone().rows().expect("a scan");
            for row in started.by_ref() {
                row.expect("a row");
            }
            assert!((0..3).all(|_| started.next().is_none()));
            let mut cursor = scan.clone().cursor().expect("a scan");
            while cursor.next().expect("a row").is_some() {}
            assert!((0..3).all(|_| cursor.next().expect("the end").is_none()));
            let mut batches = scan.batches().expect("a scan");
            for batch in batches.by_ref() {
                assert!(!batch.expect("a batch").is_empty());
            }
            assert!((0..3).all(|_| batches.next().is_none()));
        }
    });
}

// docs/testing.md, fault 39
#[test]
fn contradictions_are_empty_and_predicates_may_name_columns_that_are_not_given() {
    in_every_place(|table| {
        let none = [
            table.scan().filter(column("id").eq(1)).filter(column("id").eq(2)),
            table.scan().filter(column("id").gt(5).and(column("id").lt(5))),
            table.scan().filter(column("number").eq(1).and(column("number").eq(2))),
            table.scan().range((5,)..).filter(column("id").lt(5)),
            table.scan().prefix((5,)).prefix((6,)),
            table.scan().prefix((5,)).range((6,)..),
            table.scan().filter(column("id").lt(0)),
            table.scan().filter(column("id").gt(u32::MAX)),
            table.scan().limit(0),
        ];
        for scan in none {
            assert_eq!(ids(scan.clone()), [], "{scan:?}");
            assert_eq!(ids(scan.clone().reverse()), [], "{scan:?}");
            assert_eq!(scan.limit(9).count().expect("rows"), 0);
        }
        let texts = |scan: nyala::Scan| -> Vec<String> {
            scan.rows().expect("a scan").map(|row| row.expect("a row").get("text").expect("text")).collect()
        };
        assert_eq!(texts(table.scan().columns(["text"]).filter(column("number").ge(100))), ["new"; 3]);
        assert_eq!(texts(table.scan().columns(["text"]).filter(column("id").le(1))), ["new"; 2]);
        let only_number =
            table.scan().columns(["number"]).filter(column("text").eq("new").and(column("id").eq(5)));
        let row = only_number.rows().expect("a scan").next().expect("one row").expect("a row");
        assert_eq!(row.to_values().expect("values"), [Value::Int(5)]);
        assert!(row.get::<&str>("text").is_err(), "it was not asked for");
        assert_eq!(
            table.scan().filter(column("text").eq("old")).count().expect("rows"),
            0,
            "an old version is no row"
        );
    });
}
