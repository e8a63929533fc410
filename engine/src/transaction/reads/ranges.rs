//! The ranges that were scanned, as far as their scans have come.
//!
//! A scan that may go on has a place of its own here, where it says how far it has come. What it has read is merged
//! with the rest once it is over, so that a program that reads page after page, or the same range again and again,
//! keeps few ranges.
//!
//! Invariant: no number is given to two scans, so that one that outlives the transaction finds no place.

use std::collections::BTreeMap;
use std::ops::Bound;

use encoded_key::KeyRange;
use sstable::Direction;

/// So many ranges of scans that are over are merged for the first time.
const MERGE_MIN: usize = 32;

/// Which scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScanNumber(u64);

/// A range that a scan reads, and how far it has come.
#[derive(Debug)]
struct Running {
    table: usize,
    range: KeyRange,
    direction: Direction,
    extent: Extent,
}

#[derive(Debug)]
enum Extent {
    /// Nothing was given out yet.
    Nothing,
    /// From where the scan begins through this key.
    Through(Vec<u8>),
    All,
}

impl Running {
    /// The keys that the scan has told about, absent ones included.
    fn covered(self) -> Option<KeyRange> {
        let Running { range: KeyRange { start, end }, direction, extent, .. } = self;
        match (extent, direction) {
            (Extent::Nothing, _) => None,
            (Extent::All, _) => Some(KeyRange { start, end }),
            (Extent::Through(key), Direction::Forward) => Some(KeyRange { start, end: Bound::Included(key) }),
            (Extent::Through(key), Direction::Reverse) => Some(KeyRange { start: Bound::Included(key), end }),
        }
    }
}

/// How many bytes the bounds of a range have.
pub(super) fn bytes_of(range: &KeyRange) -> usize {
    let bytes = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
        Bound::Unbounded => 0,
    };
    bytes(&range.start) + bytes(&range.end)
}

#[derive(Debug)]
pub(super) struct RangeReads {
    running: BTreeMap<ScanNumber, Running>,
    next: ScanNumber,
    /// What scans have read that are over, with the table.
    done: Vec<(usize, KeyRange)>,
    /// The first so many of `done` are in order, and no two of them touch.
    merged: usize,
    /// So many of `done` are merged.
    merge_at: usize,
    /// Of all bounds.
    bytes: usize,
}

impl RangeReads {
    pub(super) fn new() -> RangeReads {
        RangeReads {
            running: BTreeMap::new(),
            next: ScanNumber(0),
            done: Vec::new(),
            merged: 0,
            merge_at: MERGE_MIN,
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.running.len() + self.done.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A scan begins. Nothing of its range counts as read yet.
    pub(super) fn begin(&mut self, table: usize, range: &KeyRange, direction: Direction) -> ScanNumber {
        let number = self.next;
        self.next = ScanNumber(number.0 + 1);
        self.bytes += bytes_of(range);
        self.running
            .insert(number, Running { table, range: range.clone(), direction, extent: Extent::Nothing });
        number
    }

    /// The scan is about to tell of everything through `key`.
    pub(super) fn through(&mut self, scan: ScanNumber, key: &[u8]) {
        let Some(Running { extent, .. }) = self.running.get_mut(&scan) else { return };
        match extent {
            Extent::Through(bytes) => {
                self.bytes = self.bytes + key.len() - bytes.len();
                bytes.clear();
                bytes.extend_from_slice(key);
            }
            Extent::Nothing => {
                self.bytes += key.len();
                *extent = Extent::Through(key.to_vec());
            }
            Extent::All => {}
        }
    }

    /// The scan is about to tell that it has come to the end of its range.
    pub(super) fn all(&mut self, scan: ScanNumber) {
        let Some(Running { extent, .. }) = self.running.get_mut(&scan) else { return };
        if let Extent::Through(key) = std::mem::replace(extent, Extent::All) {
            self.bytes -= key.len();
        }
    }

    /// The scan tells nothing more.
    pub(super) fn end(&mut self, scan: ScanNumber) {
        let Some(running) = self.running.remove(&scan) else { return };
        let table = running.table;
        self.bytes -= bytes_of(&running.range);
        if let Extent::Through(key) = &running.extent {
            self.bytes -= key.len();
        }
        let Some(range) = running.covered() else { return };
        self.bytes += bytes_of(&range);
        self.done.push((table, range));
        if self.done.len() >= self.merge_at {
            self.merge();
            self.merge_at = (2 * self.done.len()).max(MERGE_MIN);
        }
    }

    /// Merges what touches, of scans that are over.
    pub(super) fn merge(&mut self) {
        if self.merged < self.done.len() {
            merge(&mut self.done);
            self.merged = self.done.len();
            let running = self.running.values().map(|running| match &running.extent {
                Extent::Through(key) => bytes_of(&running.range) + key.len(),
                Extent::Nothing | Extent::All => bytes_of(&running.range),
            });
            self.bytes = running.chain(self.done.iter().map(|(_, range)| bytes_of(range))).sum();
        }
    }

    /// Everything that was read, by table and start; no two touch. Scans that go on are not heard any more.
    pub(super) fn take(&mut self) -> Vec<(usize, KeyRange)> {
        let running = std::mem::take(&mut self.running).into_values();
        let mut ranges = std::mem::take(&mut self.done);
        ranges.extend(running.filter_map(|running| Some((running.table, running.covered()?))));
        merge(&mut ranges);
        *self = RangeReads { next: self.next, ..RangeReads::new() };
        ranges
    }
}

/// Brings ranges into order and makes one of those that touch.
fn merge(ranges: &mut Vec<(usize, KeyRange)>) {
    ranges.sort_by(|(table_a, a), (table_b, b)| table_a.cmp(table_b).then_with(|| a.compare_starts(b)));
    ranges.dedup_by(|(table, next), (table_before, before)| table == table_before && before.join(next));
}

/// Whether a key lies in one of `ranges`, which are in order and do not touch.
pub(super) fn contains(ranges: &[(usize, KeyRange)], table: usize, key: &[u8]) -> bool {
    let starts_at_or_before = |(of, range): &(usize, KeyRange)| {
        let starts_before = match &range.start {
            Bound::Unbounded => true,
            Bound::Included(start) => start.as_slice() <= key,
            Bound::Excluded(start) => start.as_slice() < key,
        };
        *of < table || (*of == table && starts_before)
    };
    let before = ranges.partition_point(starts_at_or_before);
    let Some((of, range)) = before.checked_sub(1).map(|last| &ranges[last]) else { return false };
    *of == table && range.contains(key)
}
