//! What a transaction has read: keys, and ranges as far as their scans have come.
//!
//! Owns the read set, which the transaction shares with its scans, and its limits. A scan notes what it is about to
//! tell before it does, so that whatever a program can know is in the set when it commits. Room is asked for when a key
//! or a scan is new; where a scan has come to takes one key more, which is counted and not refused.
//!
//! Invariant: a key that the transaction had written itself is not in the set because of a read of it: what was in the
//! store did not matter.
//! Invariant: what was read again takes no more room, and neither do ranges that touch once their scans are over.

mod keys;
mod ranges;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use encoded_key::{KeyProbe, KeyRange};
use sstable::Direction;
use sync::Mutex;

use crate::catalog::TableCore;
use crate::commit::Saw;
use crate::error::{Error, Result};
pub(super) use keys::KeyRead;
use keys::KeyReads;
use ranges::{RangeReads, ScanNumber};

/// At most so much may be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Keys and ranges.
    pub(super) reads_max: usize,
    /// Bytes of keys, and of the bounds of ranges.
    pub(super) bytes_max: usize,
}

#[derive(Debug)]
pub(super) struct ReadSet {
    limits: Limits,
    tables: Vec<Arc<TableCore>>,
    keys: KeyReads,
    ranges: RangeReads,
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
        ReadSet { limits, tables: Vec::new(), keys: KeyReads::default(), ranges: RangeReads::new() }
    }

    fn find_table(&self, table: &TableCore) -> Option<usize> {
        self.tables.iter().position(|known| known.id == table.id)
    }

    fn table(&mut self, table: &Arc<TableCore>) -> usize {
        self.find_table(table).unwrap_or_else(|| {
            self.tables.push(Arc::clone(table));
            self.tables.len() - 1
        })
    }

    fn has_room(&self, more_bytes: usize) -> bool {
        self.keys.len() + self.ranges.len() < self.limits.reads_max
            && self.keys.bytes() + self.ranges.bytes() + more_bytes <= self.limits.bytes_max
    }

    fn make_room(&mut self, more_bytes: usize) -> Result<()> {
        if !self.has_room(more_bytes) {
            self.ranges.merge();
        }
        if self.has_room(more_bytes) {
            return Ok(());
        }
        let Limits { reads_max, bytes_max } = self.limits;
        Err(Error::invalid(format!(
            "a transaction reads at most {reads_max} keys and ranges, and {bytes_max} bytes of keys and bounds in all; \
             what need not be checked can be read at its snapshot"
        )))
    }

    /// Notes what was seen of a key.
    pub(super) fn note_key(&mut self, table: &Arc<TableCore>, probe: &KeyProbe<'_>, saw: Saw) -> Result<()> {
        if let Some(table) = self.find_table(table)
            && self.keys.note_again(table, probe, saw)
        {
            return Ok(());
        }
        self.make_room(probe.key().len())?;
        let table = self.table(table);
        self.keys.push(table, probe, saw);
        Ok(())
    }

    fn begin_range(
        &mut self,
        table: &Arc<TableCore>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<ScanNumber> {
        self.make_room(ranges::bytes_of(range))?;
        let table = self.table(table);
        Ok(self.ranges.begin(table, range, direction))
    }

    /// What was read so far. Whatever scans note from now on is read after the end, and no part of the transaction.
    pub(super) fn take(&mut self) -> Reads {
        let ranges = self.ranges.take();
        // A range is checked more strictly than a key that lies in it.
        let (keys, key_reads) = self.keys.take(|table, key| !ranges::contains(&ranges, table, key));
        Reads { tables: std::mem::take(&mut self.tables), keys, key_reads, ranges }
    }
}

/// One scan's way to say how far it has come; dropped when it tells nothing more.
#[derive(Debug)]
pub(crate) struct ScanReads {
    reads: Arc<Mutex<ReadSet>>,
    number: ScanNumber,
}

impl ScanReads {
    pub(super) fn begin(
        reads: &Arc<Mutex<ReadSet>>,
        table: &Arc<TableCore>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<ScanReads> {
        let number = reads.lock().begin_range(table, range, direction)?;
        Ok(ScanReads { reads: Arc::clone(reads), number })
    }

    /// The scan is about to tell of everything through `key`.
    pub(crate) fn through(&self, key: &[u8]) {
        self.reads.lock().ranges.through(self.number, key);
    }

    /// The scan is about to tell that it has come to the end of its range.
    pub(crate) fn all(&self) {
        self.reads.lock().ranges.all(self.number);
    }
}

impl Drop for ScanReads {
    fn drop(&mut self) {
        self.reads.lock().ranges.end(self.number);
    }
}
