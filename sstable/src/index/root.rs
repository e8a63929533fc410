//! The root of the block index.
//!
//! | bytes | what |
//! |---|---|
//! | varint | how many partitions |
//! | partition: varint, varint | offset and length of the partition |
//! | varint, varint | offset and length of its filter; length 0: it has none |
//! | varint | how many data blocks it names |
//! | varint | how many entries, or rows, those hold |
//! | varint, n | keyed files: a key at or above all of the partition's and below those of the next; empty otherwise |
//! | ... | the next partition |
//!
//! Invariant: the keys strictly increase; each partition names at least one block with at least one entry.

use codec::{ReadError, Reader, put_varint};

use crate::block::{Block, Handle};
use crate::error::Result;

/// The fewest bytes that a partition takes here.
const PARTITION_BYTES_MIN: usize = 7;

/// What the root knows of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) index: Handle,
    pub(crate) filter: Option<Handle>,
    pub(crate) blocks: u64,
    /// How many entries lie before its own.
    pub(crate) entries_before: u64,
    pub(crate) entries: u64,
    separator_end: usize,
}

/// The root, in memory.
#[derive(Debug, Default)]
pub(crate) struct Root {
    partitions: Vec<Partition>,
    separators: Vec<u8>,
}

impl Root {
    /// Adds a partition after the others.
    pub(crate) fn push(
        &mut self,
        index: Handle,
        filter: Option<Handle>,
        blocks: u64,
        entries: u64,
        separator: &[u8],
    ) {
        self.separators.extend_from_slice(separator);
        let entries_before = self.entries();
        let separator_end = self.separators.len();
        self.partitions.push(Partition { index, filter, blocks, entries_before, entries, separator_end });
    }

    pub(crate) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// How many entries there are in all.
    pub(crate) fn entries(&self) -> u64 {
        self.partitions.last().map_or(0, |last| last.entries_before + last.entries)
    }

    /// How many data blocks there are in all.
    pub(crate) fn blocks(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.blocks).sum()
    }

    /// The key at or above all of a partition's.
    #[inline]
    pub(crate) fn separator(&self, partition: usize) -> &[u8] {
        let start = partition.checked_sub(1).map_or(0, |before| self.partitions[before].separator_end);
        &self.separators[start..self.partitions[partition].separator_end]
    }

    /// The only partition that can hold `key`; the count of partitions if it is above them all.
    #[inline]
    pub(crate) fn find_key(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.partitions.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.separator(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The partition that holds `ordinal`, which must be below the count of entries.
    #[inline]
    pub(crate) fn find_ordinal(&self, ordinal: u64) -> usize {
        self.partitions.partition_point(|partition| partition.entries_before <= ordinal) - 1
    }

    /// Where the keys of the partitions do not strictly increase; `None` if they do.
    pub(crate) fn disorder(&self) -> Option<usize> {
        (1..self.partitions.len()).find(|&at| self.separator(at) <= self.separator(at - 1))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.partitions.len() as u64);
        for (at, partition) in self.partitions.iter().enumerate() {
            let filter = partition.filter.unwrap_or(Handle { offset: 0, len: 0 });
            for number in [
                partition.index.offset,
                u64::from(partition.index.len),
                filter.offset,
                u64::from(filter.len),
                partition.blocks,
                partition.entries,
            ] {
                put_varint(out, number);
            }
            let separator = self.separator(at);
            put_varint(out, separator.len() as u64);
            out.extend_from_slice(separator);
        }
    }

    pub(crate) fn decode(block: &Block) -> Result<Root> {
        let malformed = |source| block.malformed("the root of a block index", source);
        let mut reader = Reader::new(&block.bytes);
        let count = reader.varint().map_err(malformed)?;
        let mut root = Root::default();
        match usize::try_from(count) {
            Ok(count) if count <= reader.left() / PARTITION_BYTES_MIN => root.partitions.reserve_exact(count),
            _ => {
                let left = reader.left();
                return Err(malformed(ReadError::Short { at: 0, wanted: count, left }));
            }
        }
        for _ in 0..count {
            let mut next = || -> std::result::Result<_, ReadError> {
                let mut numbers = [0; 6];
                for number in &mut numbers {
                    *number = reader.varint()?;
                }
                Ok((numbers, reader.prefixed()?))
            };
            let ([offset, len, filter_offset, filter_len, blocks, entries], separator) =
                next().map_err(malformed)?;
            let handle = |offset, len: u64| match u32::try_from(len) {
                Ok(len) => Ok(Handle { offset, len }),
                Err(_) => Err(block.mismatch("greatest length of a block", u32::MAX as usize, len as usize)),
            };
            let filter = if filter_len == 0 { None } else { Some(handle(filter_offset, filter_len)?) };
            if blocks == 0 || entries < blocks || root.entries().checked_add(entries).is_none() {
                return Err(block.mismatch("least count of entries in a partition", 1, entries as usize));
            }
            root.push(handle(offset, len)?, filter, blocks, entries, separator);
        }
        reader.finish().map_err(malformed)?;
        Ok(root)
    }
}
