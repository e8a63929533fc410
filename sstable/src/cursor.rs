//! Fetches many rows of an ordinal file whose ordinals go one way.
//!
//! Holds the index partition and the block that it stands in, so that rows of one block cost no look-up, and reads
//! ahead once neighbouring blocks are used, twice as far each time. It never reads across a gap.
//! Invariant: whatever was asked before, a row is the right one or an error; only the cost depends on the order.

use std::sync::Arc;

use crate::block::{Block, Shape};
use crate::error::Result;
use crate::index;
use crate::readahead::{Caching, Readahead};
use crate::reader::OrdinalReader;
use crate::reader::Rows;

/// The most that is read in one call.
const WINDOW_BYTES_MAX: usize = 64 << 10;

/// Which way keys or ordinals go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
}

impl Direction {
    /// The index `steps` away from `at`, if it is below `count`.
    pub(crate) fn step(self, at: usize, steps: usize, count: usize) -> Option<usize> {
        match self {
            Direction::Forward => at.checked_add(steps).filter(|&at| at < count),
            Direction::Reverse => at.checked_sub(steps),
        }
    }
}

/// A cursor of an ordinal file. Made by [`OrdinalReader::cursor`].
#[derive(Debug)]
pub struct OrdinalCursor {
    reader: Arc<OrdinalReader>,
    direction: Direction,
    index: Option<Partition>,
    current: Option<Current>,
    ahead: Readahead,
    window_bytes: usize,
}

#[derive(Debug)]
struct Partition {
    number: usize,
    block: Arc<Block>,
}

#[derive(Debug)]
struct Current {
    partition: usize,
    entry: usize,
    rows: Rows,
    block: Arc<Block>,
}

impl OrdinalCursor {
    pub(crate) fn new(reader: Arc<OrdinalReader>, direction: Direction) -> OrdinalCursor {
        OrdinalCursor {
            reader,
            direction,
            index: None,
            current: None,
            ahead: Readahead::new(Shape::Ordinal),
            window_bytes: 0,
        }
    }

    /// Whether what it reads is put into the cache. [`Caching::Fill`] by default.
    pub fn set_caching(&mut self, caching: Caching) {
        self.ahead.caching = caching;
    }

    /// The row at `ordinal`, lent until the next call.
    ///
    /// # Errors
    /// As [`OrdinalReader::get`]. The cursor can be used on.
    #[inline]
    pub fn get(&mut self, ordinal: u32) -> Result<&[u8]> {
        let is_here = self.current.as_ref().is_some_and(|current| {
            ordinal.checked_sub(current.rows.first).is_some_and(|index| index < current.rows.count)
        });
        if !is_here {
            self.load(ordinal)?;
        }
        let current = self.current.as_ref().expect("just loaded");
        let (start, end) = current.rows.row(&current.block, ordinal)?;
        Ok(&current.block.bytes[start..end])
    }

    /// Loads the block of `ordinal`.
    fn load(&mut self, ordinal: u32) -> Result<()> {
        let partition = match &self.index {
            Some(index) if self.holds(index.number, ordinal) => index.number,
            _ => self.reader.find_partition(ordinal)?,
        };
        let index = match &self.index {
            Some(index) if index.number == partition => Arc::clone(&index.block),
            _ => {
                let block = self.reader.partition(partition)?;
                self.index = Some(Partition { number: partition, block: Arc::clone(&block) });
                block
            }
        };
        let entry = self.reader.find_block(partition, &index, ordinal);
        let rows = self.reader.rows_of(partition, &index, entry)?;
        let is_neighbour = self.is_neighbour(partition, entry);
        self.ahead.give_back(self.current.take().map(|current| current.block));
        let block = match self.ahead.take(self.reader.input(), rows.handle) {
            Some(block) => block,
            None => {
                self.window_bytes = if is_neighbour {
                    (2 * self.window_bytes.max(rows.handle.len as usize)).min(WINDOW_BYTES_MAX)
                } else {
                    0
                };
                let direction = self.direction;
                let input = self.reader.input();
                self.ahead.fetch(input, rows.handle, direction, self.window_bytes, |step| {
                    let entry = direction.step(entry, step, index.items)?;
                    index::ordinal::handle(&index, entry).ok()
                })?
            }
        };
        self.current = Some(Current { partition, entry, rows, block });
        Ok(())
    }

    fn holds(&self, partition: usize, ordinal: u32) -> bool {
        let place = &self.reader.root().partitions()[partition];
        u64::from(ordinal).checked_sub(place.entries_before).is_some_and(|index| index < place.entries)
    }

    /// Whether a block comes right after the current one, in the cursor's direction.
    fn is_neighbour(&self, partition: usize, entry: usize) -> bool {
        let Some(current) = &self.current else {
            return false;
        };
        let (before, after) = match self.direction {
            Direction::Forward => ((current.partition, current.entry), (partition, entry)),
            Direction::Reverse => ((partition, entry), (current.partition, current.entry)),
        };
        before.0 == after.0 && before.1 + 1 == after.1
            || before.0 + 1 == after.0
                && after.1 == 0
                && before.1 as u64 + 1 == self.reader.root().partitions()[before.0].blocks
    }
}
