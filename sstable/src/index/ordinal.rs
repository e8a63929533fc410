//! A partition of the block index of an ordinal file.
//!
//! For n data blocks, which lie one after the other without a gap:
//!
//! | bytes | what |
//! |---|---|
//! | 4 each, n times | the ordinal of the block's first row |
//! | 8 each, n + 1 times | the block's offset; last, where the last block ends |
//!
//! A block is found by guessing from the ordinal, since blocks hold about as many rows each, and by halving where the
//! guess was wrong.

use codec::FileId;

use crate::block::{Block, Handle};
use crate::error::{Error, Result};

/// Writes one partition after the other, in buffers that it keeps.
#[derive(Debug, Default)]
pub(crate) struct OrdinalIndexBuilder {
    firsts: Vec<u32>,
    offsets: Vec<u64>,
    end: u64,
    payload: Vec<u8>,
}

impl OrdinalIndexBuilder {
    pub(crate) fn len(&self) -> usize {
        12 * self.firsts.len() + 8
    }

    /// How many data blocks the partition names by now.
    pub(crate) fn blocks(&self) -> u64 {
        self.firsts.len() as u64
    }

    /// The ordinal of the partition's first row.
    pub(crate) fn first(&self) -> Option<u32> {
        self.firsts.first().copied()
    }

    pub(crate) fn add(&mut self, first: u32, block: Handle) {
        assert!(self.firsts.is_empty() || block.offset == self.end, "the blocks of a partition touch");
        self.firsts.push(first);
        self.offsets.push(block.offset);
        self.end = block.end();
    }

    pub(crate) fn finish(&mut self) -> &[u8] {
        self.payload.clear();
        for first in &self.firsts {
            self.payload.extend_from_slice(&first.to_le_bytes());
        }
        for offset in self.offsets.iter().chain([&self.end]) {
            self.payload.extend_from_slice(&offset.to_le_bytes());
        }
        &self.payload
    }

    pub(crate) fn clear(&mut self) {
        self.firsts.clear();
        self.offsets.clear();
    }
}

/// Checks the length and finds how many blocks a partition names.
pub(crate) fn parse(block: &mut Block) -> Result<()> {
    let len = block.bytes.len();
    if len < 20 || !(len - 8).is_multiple_of(12) {
        return Err(block.mismatch("length of an index partition", len.saturating_sub(8) / 12 * 12 + 8, len));
    }
    block.items = (len - 8) / 12;
    Ok(())
}

/// The ordinal of the first row of an entry's block.
#[inline]
pub(crate) fn first(partition: &Block, entry: usize) -> u32 {
    partition.u32_at(4 * entry)
}

/// The entry whose block holds `ordinal`, in a partition of the rows `rows_start..rows_end`, which hold it too. Only
/// the loader of the block can tell whether the partition spoke the truth.
#[inline]
pub(crate) fn find(partition: &Block, ordinal: u32, rows_start: u64, rows_end: u64) -> usize {
    let count = partition.items;
    let (mut low, mut high) = (0, count);
    let offset = u64::from(ordinal).saturating_sub(rows_start);
    let rows = rows_end.saturating_sub(rows_start).max(1);
    let guess = ((offset * count as u64 / rows) as usize).min(count - 1);
    // Two steps around the guess, then halving: `low` is at or before the entry, `high` after it.
    if first(partition, guess) <= ordinal {
        low = guess;
        if guess + 1 < count && first(partition, guess + 1) > ordinal {
            return guess;
        }
    } else {
        high = guess;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if first(partition, middle) <= ordinal {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The data block that an entry of a partition names.
#[inline]
pub(crate) fn handle(partition: &Block, entry: usize) -> Result<Handle> {
    let at = 4 * partition.items + 8 * entry;
    let (offset, end) = (partition.u64_at(at), partition.u64_at(at + 8));
    match end.checked_sub(offset).map(u32::try_from) {
        Some(Ok(len)) => Ok(Handle { offset, len }),
        _ => Err(order(partition.file, partition.offset, offset, end)),
    }
}

#[cold]
fn order(file: FileId, offset: u64, expected: u64, found: u64) -> Error {
    Error::Mismatch { file, offset, what: "end of a block", expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordinal_is_found_however_uneven_the_blocks() {
        for rows in
            [vec![1u32], vec![5; 20], vec![1, 1000, 1, 1, 500, 2, 3000, 1], vec![3000, 1, 1, 1, 1, 1, 1]]
        {
            let mut builder = OrdinalIndexBuilder::default();
            let (mut ordinal, mut offset) = (77, 28);
            for &count in &rows {
                builder.add(ordinal, Handle { offset, len: count + 9 });
                offset += u64::from(count) + 9;
                ordinal += count;
            }
            let bytes = builder.finish().to_vec();
            assert_eq!(bytes.len(), builder.len());
            let mut block = Block { bytes, items: 0, tail: 0, file: FileId(1), offset: 0 };
            parse(&mut block).expect("what was built is sound");
            let mut expected = 77;
            for (entry, &count) in rows.iter().enumerate() {
                for _ in 0..count {
                    assert_eq!(find(&block, expected, 77, u64::from(ordinal)), entry, "{expected}");
                    expected += 1;
                }
                assert_eq!(handle(&block, entry).expect("it is sound").len, count + 9);
            }
        }
    }
}
