//! What a transaction has read: keys, and ranges as far as their scans have come.
//!
//! Owns the read set, which the transaction shares with its scans. A scan notes what it has passed before it gives rows out,
//! so that whatever a program can know is in the set when it commits.
//!
//! Invariant: a key that the transaction had written itself is not in the set because of a read of it: what was in the
//! store did not matter.

use std::ops::{Bound, Range};
use std::sync::Arc;

use encoded_key::KeyRange;
use sstable::Direction;
use sync::Mutex;

use crate::catalog::TableCore;
use crate::commit::Saw;
use crate::error::{Error, Result};

/// A key that was looked up in the store.
#[derive(Clone, Debug)]
pub(super) struct KeyRead {
    /// Which of the set's tables.
    pub(super) table: usize,
    /// Where the key lies in the set's `keys`.
    pub(super) key: Range<usize>,
    pub(super) saw: Saw,
}

/// A range that a scan has read, or has begun to.
#[derive(Clone, Debug)]
struct RangeRead {
    table: usize,
    range: KeyRange,
    direction: Direction,
    extent: Extent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    /// Nothing was given out yet.
    Nothing,
    /// From where the scan begins through this key.
    Through(Vec<u8>),
    All,
}

impl RangeRead {
    /// The keys that the scan has told about, absent ones included.
    fn covered(self) -> Option<KeyRange> {
        let RangeRead { range: KeyRange { start, end }, direction, extent, .. } = self;
        match (extent, direction) {
            (Extent::Nothing, _) => None,
            (Extent::All, _) => Some(KeyRange { start, end }),
            (Extent::Through(key), Direction::Forward) => Some(KeyRange { start, end: Bound::Included(key) }),
            (Extent::Through(key), Direction::Reverse) => Some(KeyRange { start: Bound::Included(key), end }),
        }
    }
}

/// At most so much may be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Keys and ranges.
    pub(super) reads_max: usize,
    /// Bytes of keys.
    pub(super) bytes_max: usize,
}

#[derive(Debug)]
pub(super) struct ReadSet {
    limits: Limits,
    tables: Vec<Arc<TableCore>>,
    keys: Vec<u8>,
    key_reads: Vec<KeyRead>,
    range_reads: Vec<RangeRead>,
}

/// A read set, ready to be validated.
#[derive(Debug)]
pub(super) struct Reads {
    pub(super) tables: Vec<Arc<TableCore>>,
    pub(super) keys: Vec<u8>,
    pub(super) key_reads: Vec<KeyRead>,
    /// With their tables.
    pub(super) ranges: Vec<(usize, KeyRange)>,
}

impl ReadSet {
    pub(super) fn new(limits: Limits) -> ReadSet {
        ReadSet {
            limits,
            tables: Vec::new(),
            keys: Vec::new(),
            key_reads: Vec::new(),
            range_reads: Vec::new(),
        }
    }

    fn table(&mut self, table: &Arc<TableCore>) -> usize {
        match self.tables.iter().position(|known| known.id == table.id) {
            Some(at) => at,
            None => {
                self.tables.push(Arc::clone(table));
                self.tables.len() - 1
            }
        }
    }

    fn check_room(&self, more_bytes: usize) -> Result<()> {
        let Limits { reads_max, bytes_max } = self.limits;
        if self.key_reads.len() + self.range_reads.len() >= reads_max
            || self.keys.len() + more_bytes > bytes_max
        {
            return Err(Error::invalid(format!(
                "a transaction reads at most {reads_max} keys and ranges, and keys of {bytes_max} bytes in all; what \
                 need not be checked can be read at its snapshot"
            )));
        }
        Ok(())
    }

    /// Notes what was seen of a key.
    pub(super) fn note_key(&mut self, table: &Arc<TableCore>, key: &[u8], saw: Saw) -> Result<()> {
        self.check_room(key.len())?;
        let table = self.table(table);
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.key_reads.push(KeyRead { table, key: start..self.keys.len(), saw });
        Ok(())
    }

    fn begin_range(
        &mut self,
        table: &Arc<TableCore>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<usize> {
        self.check_room(0)?;
        let table = self.table(table);
        self.range_reads.push(RangeRead { table, range: range.clone(), direction, extent: Extent::Nothing });
        Ok(self.range_reads.len() - 1)
    }

    /// What was read so far. Whatever scans note from now on is read after the end, and no part of the transaction.
    pub(super) fn take(&mut self) -> Reads {
        let ranges = std::mem::take(&mut self.range_reads).into_iter();
        Reads {
            tables: std::mem::take(&mut self.tables),
            keys: std::mem::take(&mut self.keys),
            key_reads: std::mem::take(&mut self.key_reads),
            ranges: ranges.filter_map(|read| Some((read.table, read.covered()?))).collect(),
        }
    }
}

/// One scan's way to say how far it has come.
#[derive(Debug)]
pub(crate) struct ScanReads {
    reads: Arc<Mutex<ReadSet>>,
    index: usize,
}

impl ScanReads {
    pub(super) fn begin(
        reads: &Arc<Mutex<ReadSet>>,
        table: &Arc<TableCore>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<ScanReads> {
        let index = reads.lock().begin_range(table, range, direction)?;
        Ok(ScanReads { reads: Arc::clone(reads), index })
    }

    fn note(&self, extent: impl FnOnce(&mut Extent)) {
        // None if the transaction is over.
        if let Some(read) = self.reads.lock().range_reads.get_mut(self.index) {
            extent(&mut read.extent);
        }
    }

    /// The scan is about to tell of everything through `key`.
    pub(crate) fn through(&self, key: &[u8]) {
        self.note(|extent| match extent {
            Extent::Through(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(key);
            }
            _ => *extent = Extent::Through(key.to_vec()),
        });
    }

    /// The scan has come to its end, or nobody knows how far.
    pub(crate) fn all(&self) {
        self.note(|extent| *extent = Extent::All);
    }
}
