//! A block of rows that are found by their place in it.
//!
//! | bytes | what |
//! |---|---|
//! | n | the rows, one after the other |
//! | 4 each | where each row ends |
//! | 4 | how many rows |
//!
//! Invariant: at least one row. Never knows what a row is.

use super::Block;
use crate::error::Result;

/// Writes one block after the other, in buffers that it keeps.
#[derive(Debug, Default)]
pub(crate) struct OrdinalBuilder {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl OrdinalBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What [`OrdinalBuilder::finish`] would give, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.ends.len() + 4
    }

    /// [`OrdinalBuilder::len`] after one more row of `row_len` bytes.
    pub(crate) fn len_with(&self, row_len: usize) -> usize {
        self.len() + 4 + row_len
    }

    /// Appends a row, given in parts.
    pub(crate) fn add(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        let end = u32::try_from(self.bytes.len()).expect("the writer cuts blocks long before 4 GiB");
        self.ends.push(end);
    }

    /// The payload. [`OrdinalBuilder::clear`] begins the next.
    pub(crate) fn finish(&mut self) -> &[u8] {
        for end in &self.ends {
            self.bytes.extend_from_slice(&end.to_le_bytes());
        }
        let count = u32::try_from(self.ends.len()).expect("fewer rows than bytes");
        self.bytes.extend_from_slice(&count.to_le_bytes());
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Checks the count of rows and finds where their ends stand.
pub(crate) fn parse(block: &mut Block) -> Result<()> {
    let len = block.bytes.len();
    if len < 4 {
        return Err(block.mismatch("least length of an ordinal block", 4, len));
    }
    let count = block.u32_at(len - 4) as usize;
    match count.checked_mul(4).and_then(|bytes| (len - 4).checked_sub(bytes)) {
        Some(tail) if count > 0 => {
            block.items = count;
            block.tail = tail;
            Ok(())
        }
        _ => Err(block.mismatch("greatest count of rows in a block", (len - 4) / 4, count)),
    }
}

/// Where the row at `index`, which is less than `block.items`, lies in the block.
#[inline]
pub(crate) fn row(block: &Block, index: usize) -> Result<(usize, usize)> {
    let at = block.tail + 4 * index;
    let end = block.u32_at(at) as usize;
    let start = if index == 0 { 0 } else { block.u32_at(at - 4) as usize };
    if start <= end && end <= block.tail {
        return Ok((start, end));
    }
    Err(block.mismatch("greatest end of a row", block.tail, end.max(start)))
}
