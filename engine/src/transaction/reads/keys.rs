//! The keys that were looked up, each once, with the most that was seen of it.
//!
//! Keys lie one after the other in one buffer. A hash table finds a key that is in the set already, so that a program
//! that reads a row again and again keeps one read of it.

use std::collections::HashMap;
use std::ops::Range;

use codec::KeyHash;
use encoded_key::KeyProbe;

use crate::commit::Saw;

/// A key that was looked up in the store.
#[derive(Clone, Debug)]
pub(in crate::transaction) struct KeyRead {
    /// Which of the set's tables.
    pub(in crate::transaction) table: usize,
    /// Where the key lies among the set's bytes.
    pub(in crate::transaction) key: Range<usize>,
    pub(in crate::transaction) saw: Saw,
}

#[derive(Debug, Default)]
pub(super) struct KeyReads {
    bytes: Vec<u8>,
    reads: Vec<KeyRead>,
    /// The last read of each table and hash. Of two keys with one hash the first is forgotten here, and may come to
    /// stand in the set twice, which does no harm.
    known: HashMap<(usize, KeyHash), usize>,
}

impl KeyReads {
    pub(super) fn len(&self) -> usize {
        self.reads.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Notes that a key was read again. False if it was not read before.
    pub(super) fn note_again(&mut self, table: usize, probe: &KeyProbe<'_>, saw: Saw) -> bool {
        let Some(&index) = self.known.get(&(table, probe.hash())) else { return false };
        let read = &mut self.reads[index];
        if &self.bytes[read.key.clone()] != probe.key() {
            return false;
        }
        // All reads of a transaction see the same, some of them more of it.
        if saw == Saw::Row {
            read.saw = Saw::Row;
        }
        true
    }

    /// Notes a key that was not read before.
    pub(super) fn push(&mut self, table: usize, probe: &KeyProbe<'_>, saw: Saw) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(probe.key());
        self.known.insert((table, probe.hash()), self.reads.len());
        self.reads.push(KeyRead { table, key: start..self.bytes.len(), saw });
    }

    /// The keys for which `is_needed`, by table and key: neighbours are looked up one after the other, which is
    /// quicker. With the bytes that they lie in.
    pub(super) fn take(&mut self, is_needed: impl Fn(usize, &[u8]) -> bool) -> (Vec<u8>, Vec<KeyRead>) {
        let KeyReads { bytes, mut reads, .. } = std::mem::take(self);
        reads.retain(|read| is_needed(read.table, &bytes[read.key.clone()]));
        let place = |read: &KeyRead| (read.table, &bytes[read.key.clone()]);
        reads.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
        (bytes, reads)
    }
}
