//! The read set by itself: it forgets nothing, keeps nothing twice, and is bounded.

use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::ErrorKind;
use crate::transaction::tests::world;

fn set(reads_max: usize, bytes_max: usize) -> Arc<Mutex<ReadSet>> {
    Arc::new(Mutex::new(ReadSet::new(Limits { reads_max, bytes_max })))
}

fn range(start: &str, end: &str) -> KeyRange {
    KeyRange { start: Bound::Included(start.into()), end: Bound::Excluded(end.into()) }
}

fn note(set: &Mutex<ReadSet>, table: &Arc<TableCore>, key: &str, saw: Saw) -> Result<()> {
    set.lock().note_key(table, &KeyProbe::new(key.as_bytes()), saw)
}

#[test]
fn a_key_that_is_read_again_takes_no_more_room() {
    let (_engine, table) = world();
    let set = set(2, 10);
    let other =
        Arc::new(TableCore { id: codec::TableId(99), ..table.core().next("t", Arc::clone(table.schema())) });
    for _ in 0..1000 {
        note(&set, table.core(), "key", Saw::SomeRow).expect("once is enough");
        note(&set, &other, "key", Saw::Nothing).expect("once is enough");
    }
    assert_eq!(
        note(&set, table.core(), "kez", Saw::Nothing).expect_err("no more").kind(),
        ErrorKind::InvalidArgument
    );
    note(&set, table.core(), "key", Saw::Row).expect("it is known");
    note(&set, table.core(), "key", Saw::SomeRow).expect("it is known");
    let reads = set.lock().take();
    let saw: Vec<_> = reads.key_reads.iter().map(|read| (read.table, read.saw)).collect();
    assert_eq!(saw, [(0, Saw::Row), (1, Saw::Nothing)], "the most that was seen");
    assert_eq!((reads.keys, reads.tables.len()), (b"keykey".to_vec(), 2));
}

#[test]
fn pages_of_a_scan_are_one_range_once_they_are_read() {
    let (_engine, table) = world();
    let set = set(usize::MAX, usize::MAX);
    let mut at = Bound::Unbounded;
    for page in 0..10_000 {
        let range = KeyRange { start: at, end: Bound::Unbounded };
        let scan = ScanReads::begin(&set, table.core(), &range, Direction::Forward).expect("there is room");
        let last = format!("{page:08}");
        scan.through(last.as_bytes());
        assert!(set.lock().ranges.len() <= 64, "page {page}");
        at = Bound::Excluded(last.into_bytes());
    }
    let reads = set.lock().take();
    let all = KeyRange { start: Bound::Unbounded, end: Bound::Included(b"00009999".to_vec()) };
    assert_eq!(reads.ranges, [(0, all)]);
}

#[test]
fn ranges_are_bounded_by_number_and_bytes_and_what_touches_counts_once() {
    let (_engine, table) = world();
    let begin = |set: &Arc<Mutex<ReadSet>>, start: &str, end: &str| {
        ScanReads::begin(set, table.core(), &range(start, end), Direction::Forward)
    };
    let whole =
        |set: &Arc<Mutex<ReadSet>>, start: &str, end: &str| begin(set, start, end).map(|scan| scan.all());
    let refused = |result: Result<()>, words: &str| {
        let error = result.expect_err("there is no more room");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(words), "{error}");
    };
    let by_number = set(3, 1000);
    for (start, end) in [("a", "b"), ("c", "d"), ("e", "f")] {
        whole(&by_number, start, end).expect("there is room");
    }
    refused(whole(&by_number, "g", "h"), "at most 3 ");
    refused(note(&by_number, table.core(), "g", Saw::Row), "at most 3 ");
    // Begun and left: no room is lost.
    let by_bytes = set(1000, 40);
    for _ in 0..100 {
        begin(&by_bytes, "0123456789", "012345678z").expect("nothing of it was told").through(b"0123456789");
    }
    assert!(by_bytes.lock().ranges.len() <= 2, "they are merged");
    whole(&by_bytes, "0123456789", "012345678z").expect("there is room");
    refused(whole(&by_bytes, "a".repeat(11).as_str(), "b".repeat(11).as_str()), "40 bytes");
    note(&by_bytes, table.core(), "twenty bytes of key.", Saw::Row).expect("there is room for it just so");
    refused(note(&by_bytes, table.core(), "x", Saw::Row), "40 bytes");
    // Nothing is lost by a refusal.
    let reads = by_bytes.lock().take();
    assert_eq!(reads.ranges, [(0, range("0123456789", "012345678z"))]);
    assert_eq!(reads.keys, b"twenty bytes of key.");
}

#[test]
fn keys_in_a_range_that_was_read_are_not_checked_twice() {
    let (_engine, table) = world();
    let set = set(100, 1000);
    for key in ["a", "b", "bb", "c"] {
        note(&set, table.core(), key, Saw::Row).expect("there is room");
    }
    let scan =
        ScanReads::begin(&set, table.core(), &range("b", "c"), Direction::Reverse).expect("there is room");
    scan.through(b"bb");
    let reads = set.lock().take();
    let keys: Vec<_> = reads.key_reads.iter().map(|read| &reads.keys[read.key.clone()]).collect();
    assert_eq!(keys, [b"a".as_slice(), b"b", b"c"]);
    // After the end nobody listens.
    scan.all();
    drop(scan);
    assert!(set.lock().take().ranges.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Key(Vec<u8>),
    /// And whether it goes on to the end.
    Scan {
        range: KeyRange,
        reverse: bool,
        through: Option<Vec<u8>>,
        is_kept: bool,
    },
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 0..3)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded),]
}

fn step() -> impl Strategy<Value = Step> {
    let scan = (bound(), bound(), any::<bool>(), prop::option::of(key()), any::<bool>());
    let scan = scan.prop_map(|(start, end, reverse, through, is_kept)| Step::Scan {
        range: KeyRange { start, end },
        reverse,
        through,
        is_kept,
    });
    prop_oneof![1 => key().prop_map(Step::Key), 2 => scan]
}

proptest! {
    /// Whatever was read is in the set, and nothing else.
    #[test]
    fn what_is_merged_covers_what_was_read(steps in prop::collection::vec(step(), 0..120)) {
        let (_engine, table) = world();
        let set = set(usize::MAX, usize::MAX);
        let (mut keys, mut ranges, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Key(key) => {
                    set.lock().note_key(table.core(), &KeyProbe::new(&key), Saw::Row).expect("there is room");
                    keys.push(key);
                }
                Step::Scan { range, reverse, through, is_kept } => {
                    let through = through.filter(|key| range.contains(key));
                    if range.is_empty() {
                        continue;
                    }
                    let direction = if reverse { Direction::Reverse } else { Direction::Forward };
                    let scan = ScanReads::begin(&set, table.core(), &range, direction).expect("there is room");
                    let KeyRange { start, end } = range;
                    ranges.push(match (through, reverse) {
                        (None, _) => {
                            scan.all();
                            KeyRange { start, end }
                        }
                        (Some(key), false) => {
                            scan.through(&key);
                            KeyRange { start, end: Bound::Included(key) }
                        }
                        (Some(key), true) => {
                            scan.through(&key);
                            KeyRange { start: Bound::Included(key), end }
                        }
                    });
                    if is_kept {
                        kept.push(scan);
                    }
                }
            }
        }
        let reads = set.lock().take();
        let alphabet = 0u8..3;
        let mut all = vec![Vec::new()];
        for _ in 0..4 {
            let longer: Vec<Vec<u8>> =
                all.iter().flat_map(|key| alphabet.clone().map(move |byte| [key.as_slice(), &[byte]].concat())).collect();
            all.extend(longer);
        }
        for key in all {
            let in_ranges = ranges.iter().any(|range| range.contains(&key));
            let in_merged = reads.ranges.iter().filter(|(_, range)| range.contains(&key)).count();
            prop_assert_eq!(in_merged, usize::from(in_ranges), "{:?}", key);
            let is_a_key = reads.key_reads.iter().any(|read| reads.keys[read.key.clone()] == key);
            prop_assert_eq!(is_a_key, keys.contains(&key) && !in_ranges, "{:?}", key);
        }
        for pair in reads.ranges.windows(2) {
            prop_assert!(!pair[0].1.clone().join(&pair[1].1), "{:?} touch", pair);
        }
        prop_assert!(reads.key_reads.is_sorted_by_key(|read| &reads.keys[read.key.clone()]));
    }
}
