//! A memtable against a model, alone and with a writer beside its readers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::{SchemaVersion, Version};
use encoded_key::KeyRange;
use pkindex::Direction;
use proptest::prelude::*;

use super::{Fetch, Found, FoundOp, MemCursor, MemOp, Memtable, Older};

/// (key, version) to (schema, row), or to nothing for a deletion.
type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Option<(u32, Vec<u8>)>>;
type Seen = (Vec<u8>, u64, Option<(u32, Vec<u8>)>);

#[derive(Clone, Debug)]
struct Write {
    key: Vec<u8>,
    value: Option<(u32, Vec<u8>)>,
}

struct Pair {
    memtable: Arc<Memtable>,
    model: Model,
    last: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair { memtable: Arc::new(Memtable::new(7)), model: Model::new(), last: 0 }
    }

    fn write(&mut self, writes: &[Write]) {
        let Pair { memtable, model, last } = self;
        memtable.apply(|tree| {
            for write in writes {
                // Versions have gaps: other tablets take their part of them.
                *last += 1 + u64::from(write.key.len() % 3 == 0);
                tree.insert(&write.key, Version(*last), mem_op(&write.value));
                model.insert((write.key.clone(), Reverse(*last)), write.value.clone());
            }
        });
    }

    fn visible(&self, range: &KeyRange, at: u64) -> Vec<Seen> {
        let mut rows: Vec<Seen> = Vec::new();
        for ((key, Reverse(version)), value) in &self.model {
            let inside = contains(range, key) && *version <= at;
            if inside && rows.last().is_none_or(|(last, ..)| last != key) {
                rows.push((key.clone(), *version, value.clone()));
            }
        }
        rows
    }

    fn check(&self) {
        self.memtable.apply(|tree| tree.check());
        assert_eq!(self.memtable.entries(), self.model.len() as u64);
        let versions = self.model.keys().map(|(_, Reverse(version))| Version(*version));
        assert_eq!(self.memtable.versions(), versions.clone().min().zip(versions.max()));
        let mut sorted = Vec::new();
        self.memtable
            .for_each_sorted(|key, version, op| {
                sorted.push(((key.to_vec(), Reverse(version.0)), owned(op)));
                Ok::<Older, ()>(Older::Wanted)
            })
            .expect("nothing fails here");
        assert!(sorted.iter().map(|(key, value)| (key, value)).eq(&self.model));
        let (mut newest, mut last) = (0, None);
        self.memtable
            .for_each_sorted(|key, _, _| {
                assert!(last.as_deref() < Some(key), "each key once");
                last = Some(key.to_vec());
                newest += 1;
                Ok::<Older, ()>(Older::Unwanted)
            })
            .expect("nothing fails here");
        let keys: std::collections::BTreeSet<_> = self.model.keys().map(|(key, _)| key).collect();
        assert_eq!(newest, keys.len());
    }

    fn check_get(&self, key: &[u8], at: u64) {
        let expected = self.model.range((key.to_vec(), Reverse(at))..=(key.to_vec(), Reverse(0))).next();
        let mut row = b"kept".to_vec();
        let found = self.memtable.get(key, Version(at), &mut row);
        assert_eq!(&row[..4], b"kept");
        let seen = found.map(|found| seen(key, found, &row[4..]));
        assert_eq!(
            seen,
            expected.map(|((key, Reverse(version)), value)| (key.clone(), *version, value.clone()))
        );
        let newest = self.model.range((key.to_vec(), Reverse(u64::MAX))..=(key.to_vec(), Reverse(0))).next();
        let newest = newest.map(|((_, Reverse(version)), value)| (Version(*version), value.is_none()));
        assert_eq!(self.memtable.newest(key), newest);
    }

    /// Whether something in the range is newer, and that what is told is.
    fn check_newer(&self, range: &KeyRange, at: u64) {
        let mut newer =
            self.model.keys().filter(|(key, Reverse(version))| contains(range, key) && *version > at);
        match self.memtable.newer_within(range, Version(at)) {
            None => assert_eq!(newer.next(), None, "above {at} in {range:?}"),
            Some(told) => {
                assert!(newer.any(|(_, Reverse(version))| *version == told.0), "{told} in {range:?}")
            }
        }
    }

    fn cursor(&self, direction: Direction, range: &KeyRange, at: u64) -> MemCursor {
        MemCursor::new(Arc::clone(&self.memtable), direction, range, Version(at))
    }
}

fn mem_op(value: &Option<(u32, Vec<u8>)>) -> MemOp<'_> {
    match value {
        Some((schema, row)) => MemOp::Put { schema: SchemaVersion(*schema), row },
        None => MemOp::Delete,
    }
}

fn owned(op: MemOp<'_>) -> Option<(u32, Vec<u8>)> {
    match op {
        MemOp::Put { schema, row } => Some((schema.0, row.to_vec())),
        MemOp::Delete => None,
    }
}

fn seen(key: &[u8], found: Found, row: &[u8]) -> Seen {
    let value = match found.op {
        FoundOp::Put { schema } => Some((schema.0, row.to_vec())),
        FoundOp::Delete => {
            assert!(row.is_empty());
            None
        }
    };
    (key.to_vec(), found.version.0, value)
}

fn contains(range: &KeyRange, key: &[u8]) -> bool {
    let above = match &range.start {
        Bound::Included(low) => key >= low.as_slice(),
        Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    };
    let below = match &range.end {
        Bound::Included(high) => key <= high.as_slice(),
        Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    };
    above && below
}

fn take(cursor: &mut MemCursor, count: usize, rows: &mut Vec<Seen>) {
    for _ in 0..count {
        let Some(key) = cursor.key() else {
            return;
        };
        rows.push(seen(key, cursor.found(), cursor.row()));
        cursor.advance();
    }
}

fn all(mut cursor: MemCursor) -> Vec<Seen> {
    let mut rows = Vec::new();
    take(&mut cursor, usize::MAX, &mut rows);
    // Case 31: past the end there is the end again.
    cursor.advance();
    assert_eq!((cursor.key(), cursor.row()), (None, &[][..]));
    rows
}

/// Keys of several kinds that collide often: short ones, long common prefixes, trailing zeros, numbers.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0_u8, 1, 0x7f, 0xff]), 0..6),
        (0..4_usize, prop::collection::vec(prop::sample::select(vec![0_u8, b'a', 0xff]), 0..5))
            .prop_map(|(prefix, tail)| [&b"a/common/prefix/that/is/long"[..12 + prefix * 5], &tail].concat()),
        (-300..300_i64).prop_map(|number| (number ^ i64::MIN).to_be_bytes().to_vec()),
        (0..3_u32, 0..60_u64).prop_map(|(host, time)| [
            &host.to_be_bytes()[..],
            &time.to_be_bytes(),
            b"metric"
        ]
        .concat()),
    ]
}

fn writes(count: usize) -> impl Strategy<Value = Vec<Write>> {
    let value = prop::option::weighted(0.8, (1..4_u32, prop::collection::vec(any::<u8>(), 0..40)));
    prop::collection::vec((keys(), value).prop_map(|(key, value)| Write { key, value }), 0..count)
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded),]
}

fn ranges() -> impl Strategy<Value = KeyRange> {
    (bounds(), bounds()).prop_map(|(start, end)| KeyRange { start, end })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn reads_agree_with_a_sorted_map(
        groups in prop::collection::vec(writes(150), 1..8),
        range in ranges(),
        probes in prop::collection::vec((keys(), any::<prop::sample::Index>()), 20),
    ) {
        let mut pair = Pair::new();
        for group in &groups {
            pair.write(group);
        }
        pair.check();
        for (key, at) in probes {
            let at = at.index(pair.last as usize + 2) as u64;
            pair.check_get(&key, at);
            pair.check_newer(&range, at);
            pair.check_newer(&KeyRange::point(&key), at);
            let mut expected = pair.visible(&range, at);
            prop_assert_eq!(all(pair.cursor(Direction::Forward, &range, at)), expected.clone());
            expected.reverse();
            prop_assert_eq!(all(pair.cursor(Direction::Reverse, &range, at)), expected);
        }
        for write in groups.iter().flatten() {
            pair.check_get(&write.key, pair.last / 2);
        }
    }

    #[test]
    fn cursors_keep_their_state_while_others_write(
        groups in prop::collection::vec((writes(200), 0..60_usize), 2..10),
        range in ranges(),
    ) {
        let mut pair = Pair::new();
        let mut open: Vec<(MemCursor, Vec<Seen>, Vec<Seen>)> = Vec::new();
        for (group, steps) in &groups {
            for (cursor, rows, _) in &mut open {
                take(cursor, *steps, rows);
            }
            pair.write(group);
            for range in [&range, &KeyRange::all()] {
                let mut expected = pair.visible(range, pair.last);
                let forward = pair.cursor(Direction::Forward, range, pair.last);
                open.push((forward, Vec::new(), expected.clone()));
                expected.reverse();
                open.push((pair.cursor(Direction::Reverse, range, pair.last), Vec::new(), expected));
            }
        }
        for (mut cursor, mut rows, expected) in open {
            take(&mut cursor, usize::MAX, &mut rows);
            prop_assert_eq!(rows, expected);
        }
    }
}

#[test]
fn an_empty_memtable_answers_and_costs_little() {
    let pair = Pair::new();
    assert!(pair.memtable.is_empty() && pair.memtable.bytes() < 1024);
    assert_eq!(pair.memtable.id(), 7);
    assert_eq!(pair.memtable.versions(), None);
    pair.check();
    pair.check_get(b"", 9);
    assert_eq!(all(pair.cursor(Direction::Forward, &KeyRange::all(), 9)), []);
    assert_eq!(all(pair.cursor(Direction::Reverse, &KeyRange::all(), 9)), []);
}

#[test]
fn a_handful_of_rows_costs_a_few_kilobytes() {
    let mut pair = Pair::new();
    for key in 0..10_u8 {
        pair.write(&[Write { key: vec![key], value: Some((1, vec![key; 50])) }]);
    }
    assert!(pair.memtable.bytes() < 8 << 10, "{}", pair.memtable.bytes());
}

/// Case 40.
#[test]
fn empty_key_and_empty_row_are_not_absent() {
    let mut pair = Pair::new();
    pair.write(&[Write { key: Vec::new(), value: Some((1, Vec::new())) }]);
    pair.check_get(b"", pair.last);
    let rows = all(pair.cursor(Direction::Reverse, &KeyRange::all(), pair.last));
    assert_eq!(rows, [(Vec::new(), pair.last, Some((1, Vec::new())))]);
}

/// Case 41: the largest key, and a row far larger than a chunk.
#[test]
fn largest_key_and_large_row_come_back() {
    let mut pair = Pair::new();
    let key = vec![0xff; encoded_key::KEY_BYTES_MAX];
    let row: Vec<u8> = (0..5 << 20).map(|i: u32| i.to_le_bytes()[1]).collect();
    let small = |key: &[u8]| Write { key: key.to_vec(), value: Some((1, b"small".to_vec())) };
    pair.write(&[
        small(b"a"),
        Write { key: key.clone(), value: Some((2, row)) },
        small(&key[1..]),
        small(b"b"),
    ]);
    pair.check();
    pair.check_get(&key, pair.last);
    assert!(pair.memtable.bytes() > 5 << 20);
    let mut expected = pair.visible(&KeyRange::all(), pair.last);
    assert_eq!(all(pair.cursor(Direction::Forward, &KeyRange::all(), pair.last)), expected);
    expected.reverse();
    assert_eq!(all(pair.cursor(Direction::Reverse, &KeyRange::all(), pair.last)), expected);
}

/// Case 26.
#[test]
fn contradictory_and_empty_ranges_are_empty() {
    let mut pair = Pair::new();
    let value = Some((1, vec![1]));
    pair.write(&[b"a", b"b", b"c"].map(|key| Write { key: key.to_vec(), value: value.clone() }));
    let key = |key: &[u8]| key.to_vec();
    for (start, end) in [
        (Bound::Included(key(b"c")), Bound::Included(key(b"a"))),
        (Bound::Excluded(key(b"b")), Bound::Excluded(key(b"b"))),
        (Bound::Excluded(key(b"b")), Bound::Included(key(b"b"))),
        (Bound::Excluded(key(b"b")), Bound::Excluded(key(b"c"))),
        (Bound::Excluded(key(b"c")), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(key(b"a"))),
    ] {
        let range = KeyRange { start, end };
        assert_eq!(all(pair.cursor(Direction::Forward, &range, 99)), []);
        assert_eq!(all(pair.cursor(Direction::Reverse, &range, 99)), []);
    }
}

/// Case 29.
#[test]
fn reverse_cursor_yields_the_newest_visible_version_once() {
    let mut pair = Pair::new();
    for round in 0..50_u32 {
        let value = if round % 7 == 3 { None } else { Some((round, vec![1])) };
        let group: Vec<_> =
            (0..100_u32).map(|key| Write { key: key.to_be_bytes().to_vec(), value: value.clone() }).collect();
        pair.write(&group);
    }
    for at in [1, 50, 1033, pair.last - 1, pair.last, pair.last + 1] {
        let mut expected = pair.visible(&KeyRange::all(), at);
        expected.reverse();
        assert_eq!(all(pair.cursor(Direction::Reverse, &KeyRange::all(), at)), expected);
    }
}

/// Case 24: writes stay cheap, memory is what was written, a scan sees one row, and old versions are near.
#[test]
fn a_key_overwritten_a_million_times_stays_cheap() {
    const COUNT: u64 = 1_000_000;
    let memtable = Arc::new(Memtable::new(1));
    for group in 0..COUNT / 1000 {
        memtable.apply(|tree| {
            for version in group * 1000 + 1..=(group + 1) * 1000 {
                let row = &version.to_le_bytes();
                tree.insert(b"hot", Version(version), MemOp::Put { schema: SchemaVersion(1), row });
            }
        });
    }
    assert_eq!(memtable.entries(), COUNT);
    assert!(memtable.bytes() < COUNT as usize * 48, "{}", memtable.bytes());
    for at in (1..=COUNT).step_by(997) {
        let mut row = Vec::new();
        let found = memtable.get(b"hot", Version(at), &mut row).expect("written");
        assert_eq!((found.version.0, row.as_slice()), (at, &at.to_le_bytes()[..]));
    }
    let mut rows = Vec::new();
    let mut cursor = MemCursor::new(memtable, Direction::Forward, &KeyRange::all(), Version(COUNT / 2));
    take(&mut cursor, usize::MAX, &mut rows);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].1, COUNT / 2);
}

#[test]
fn keys_only_cursor_has_everything_but_rows() {
    let mut pair = Pair::new();
    pair.write(&[Write { key: vec![1], value: Some((3, vec![9; 9])) }, Write { key: vec![2], value: None }]);
    let memtable = Arc::clone(&pair.memtable);
    let range = KeyRange::all();
    let cursor = MemCursor::with_fetch(memtable, Direction::Forward, &range, Version(99), Fetch::KeysOnly);
    assert_eq!(all(cursor), [(vec![1], 1, Some((3, vec![]))), (vec![2], 2, None)]);
}

#[test]
fn a_failing_flush_stops_at_the_first_error() {
    let mut pair = Pair::new();
    pair.write(&[1, 2, 3].map(|key| Write { key: vec![key], value: None }));
    let mut calls = 0;
    let result = pair.memtable.for_each_sorted(|key, _, _| {
        calls += 1;
        if key == [2] { Err("full") } else { Ok(Older::Wanted) }
    });
    assert_eq!((result, calls), (Err("full"), 2));
}

/// A cursor at a published version sees that version's state whole, whatever is applied meanwhile: group `g` writes
/// the keys `0..64` and one key of its own, all with `g` in the row.
#[test]
fn readers_beside_a_writer_see_whole_groups() {
    const GROUPS: u64 = 1500;
    const HOT: u64 = 64;
    let memtable = Arc::new(Memtable::new(1));
    let published = AtomicU64::new(0);
    let key_of_group = |group: u64| (1000 + group * 0x9e37 % 65_536).to_be_bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 0;
            for group in 1..=GROUPS {
                memtable.apply(|tree| {
                    let op = MemOp::Put { schema: SchemaVersion(1), row: &group.to_le_bytes() };
                    for key in (0..HOT).map(u64::to_be_bytes).chain([key_of_group(group)]) {
                        version += 1;
                        tree.insert(&key, Version(version), op);
                    }
                });
                published.store(version, Ordering::Release);
            }
        });
        for direction in [Direction::Forward, Direction::Reverse] {
            let (memtable, published) = (&memtable, &published);
            scope.spawn(move || {
                let mut scans = 0;
                loop {
                    let at = published.load(Ordering::Acquire);
                    let group = at / (HOT + 1);
                    let cursor =
                        MemCursor::new(Arc::clone(memtable), direction, &KeyRange::all(), Version(at));
                    let rows = all(cursor);
                    let count = if group == 0 { 0 } else { HOT + group };
                    assert_eq!(rows.len() as u64, count);
                    assert!(rows.is_sorted_by(|a, b| match direction {
                        Direction::Forward => a.0 < b.0,
                        Direction::Reverse => a.0 > b.0,
                    }));
                    for (key, version, value) in rows {
                        let (_, row) = value.expect("nothing is deleted");
                        let row = u64::from_le_bytes(row.try_into().expect("8 bytes"));
                        assert!(version <= at);
                        assert_eq!(row, version.div_ceil(HOT + 1), "version and row belong together");
                        if key < 1000_u64.to_be_bytes().to_vec() {
                            assert_eq!(row, group);
                        }
                        let mut copy = Vec::new();
                        let found = memtable.get(&key, Version(at), &mut copy).expect("seen by the cursor");
                        assert_eq!((found.version.0, copy.as_slice()), (version, &row.to_le_bytes()[..]));
                    }
                    scans += 1;
                    if group == GROUPS {
                        break;
                    }
                }
                assert!(scans > 0);
            });
        }
    });
}
