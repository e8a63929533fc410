//! A cursor over a memtable: each key once, with its newest version at or below the cursor's.
//!
//! It copies a chunk of keys and rows under the read lock and lends them without it, so a slow reader holds up no
//! writer. For the next chunk it looks up the last key it has seen. Keys that are inserted meanwhile carry versions
//! above the cursor's and are passed over, so every chunk belongs to the same state.
//!
//! Never holds the lock between calls. Never hides a deletion: older data on disk may lie below it.

use std::ops::Bound;
use std::sync::Arc;

use codec::Version;
use encoded_key::KeyRange;
use pkindex::{Direction, Source};

use super::{Found, MemOp, Memtable, copy_row};
use crate::Error;

/// Keys of the first chunk; each next one has twice as many, up to the maximum.
const CHUNK_KEYS_MIN: usize = 8;
const CHUNK_KEYS_MAX: usize = 256;
/// A chunk ends after the key with which it exceeds this. It holds one key at least.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Keys looked at under one lock, those without a visible version included.
const CHUNK_STEPS_MAX: usize = 1024;
/// Buffers that a long row has made larger than this are given back.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Whether a cursor copies rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// Keys, versions and rows.
    Rows,
    /// Keys and versions; every row reads as empty.
    KeysOnly,
}

/// See the module's head. Made positioned at its first key; past the last one it stays at the end.
pub(crate) struct MemCursor {
    memtable: Arc<Memtable>,
    direction: Direction,
    fetch: Fetch,
    at: Version,
    /// What is left of the range: the bound where the cursor comes from moves on with each chunk.
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    /// Whether there is nothing left behind this chunk.
    ended: bool,
    chunk_keys: usize,
    chunk: Chunk,
    index: usize,
}

#[derive(Default)]
struct Chunk {
    items: Vec<Item>,
    keys: Vec<u8>,
    rows: Vec<u8>,
}

struct Item {
    key_end: usize,
    row_end: usize,
    found: Found,
}

impl MemCursor {
    /// Over the keys of `range` as of version `at`, with their rows.
    #[cfg(test)]
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        direction: Direction,
        range: &KeyRange,
        at: Version,
    ) -> MemCursor {
        MemCursor::with_fetch(memtable, direction, range, at, Fetch::Rows)
    }

    /// [`MemCursor::new`], for readers that may not need the rows.
    pub(crate) fn with_fetch(
        memtable: Arc<Memtable>,
        direction: Direction,
        range: &KeyRange,
        at: Version,
        fetch: Fetch,
    ) -> MemCursor {
        let mut cursor = MemCursor {
            memtable,
            direction,
            fetch,
            at,
            low: range.start.clone(),
            high: range.end.clone(),
            ended: false,
            chunk_keys: CHUNK_KEYS_MIN,
            chunk: Chunk::default(),
            index: 0,
        };
        cursor.fill();
        cursor
    }

    /// The key the cursor stands at; `None` at the end.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        let item = self.chunk.items.get(self.index)?;
        let start = self.previous().map_or(0, |previous| previous.key_end);
        Some(&self.chunk.keys[start..item.key_end])
    }

    /// The newest visible version of [`MemCursor::key`].
    ///
    /// # Panics
    ///
    /// At the end.
    #[inline]
    pub(crate) fn found(&self) -> Found {
        self.chunk.items[self.index].found
    }

    /// The row; empty for a deletion, for [`Fetch::KeysOnly`] and at the end.
    #[inline]
    pub(crate) fn row(&self) -> &[u8] {
        let Some(item) = self.chunk.items.get(self.index) else {
            return &[];
        };
        let start = self.previous().map_or(0, |previous| previous.row_end);
        &self.chunk.rows[start..item.row_end]
    }

    fn previous(&self) -> Option<&Item> {
        self.chunk.items.get(self.index.checked_sub(1)?)
    }

    /// Steps to the next key in the cursor's direction. Does nothing at the end.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if self.index < self.chunk.items.len() {
            self.index += 1;
            if self.index == self.chunk.items.len() {
                self.fill();
            }
        }
    }

    /// Replaces the chunk by the next one that is not empty, if there is any.
    #[cold]
    fn fill(&mut self) {
        self.index = 0;
        self.chunk.clear();
        while self.chunk.items.is_empty() && !self.ended {
            self.fill_once();
        }
        self.chunk_keys = (self.chunk_keys * 2).min(CHUNK_KEYS_MAX);
    }

    /// Copies what one hold of the lock allows, and moves the bound behind it.
    fn fill_once(&mut self) {
        let tree = self.memtable.tree.read();
        let forward = self.direction == Direction::Forward;
        let mut position = if forward {
            tree.first_within(self.low.as_ref().map(Vec::as_slice))
        } else {
            tree.last_within(self.high.as_ref().map(Vec::as_slice))
        };
        let mut steps = 0;
        let mut seen = None;
        while let Some(here) = position {
            let key = tree.key(here);
            let within = if forward { is_below(key, &self.high) } else { is_above(key, &self.low) };
            if !within {
                break;
            }
            let full = self.chunk.items.len() >= self.chunk_keys || self.chunk.bytes() > CHUNK_BYTES_MAX;
            if full || steps == CHUNK_STEPS_MAX {
                let seen = seen.expect("a chunk begins with room for a key");
                let bound = if forward { &mut self.low } else { &mut self.high };
                exclude(bound, tree.key(seen));
                return;
            }
            if let Some((version, op)) = tree.visible(here, self.at) {
                self.chunk.push(key, version, op, self.fetch);
            }
            steps += 1;
            seen = position;
            position = if forward { tree.after(here) } else { tree.before(here) };
        }
        self.ended = true;
    }
}

impl Source for MemCursor {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        MemCursor::key(self)
    }

    #[inline]
    fn advance(&mut self) -> Result<(), Error> {
        MemCursor::advance(self);
        Ok(())
    }
}

impl Chunk {
    fn clear(&mut self) {
        self.items.clear();
        for buffer in [&mut self.keys, &mut self.rows] {
            buffer.clear();
            if buffer.capacity() > KEPT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }

    fn bytes(&self) -> usize {
        self.keys.len() + self.rows.len()
    }

    #[inline]
    fn push(&mut self, key: &[u8], version: Version, op: MemOp<'_>, fetch: Fetch) {
        self.keys.extend_from_slice(key);
        let op = match (fetch, op) {
            (Fetch::KeysOnly, MemOp::Put { schema, .. }) => MemOp::Put { schema, row: &[] },
            _ => op,
        };
        let found = Found { version, op: copy_row(op, &mut self.rows) };
        self.items.push(Item { key_end: self.keys.len(), row_end: self.rows.len(), found });
    }
}

fn is_below(key: &[u8], high: &Bound<Vec<u8>>) -> bool {
    match high {
        Bound::Included(high) => key <= high.as_slice(),
        Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    }
}

fn is_above(key: &[u8], low: &Bound<Vec<u8>>) -> bool {
    match low {
        Bound::Included(low) => key >= low.as_slice(),
        Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    }
}

/// Makes `bound` one that excludes `key`, in the memory it has.
fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    match bound {
        Bound::Included(bytes) | Bound::Excluded(bytes) => {
            let mut bytes = std::mem::take(bytes);
            bytes.clear();
            bytes.extend_from_slice(key);
            *bound = Bound::Excluded(bytes);
        }
        Bound::Unbounded => *bound = Bound::Excluded(key.to_vec()),
    }
}
