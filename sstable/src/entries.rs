//! The entries of a block, decoded in one go: for one pass over whole files.
//!
//! A merge takes an entry here and an entry there. To decode them one by one, in turn with those of other files, costs
//! more for what the processor cannot foresee than for the work; so the keys of a block are put one after the other
//! first. Values stay in the block, which is kept as long as its entries are.
//!
//! Invariant: keys take no more memory than a few times [`KEYS_BYTES_MAX`], however much they share in the block.

use std::sync::Arc;

use crate::block::Block;
use crate::block::keyed::append;

/// When keys take so many bytes, the rest of the block comes later.
const KEYS_BYTES_MAX: usize = 32 << 10;

/// Some neighbouring entries of a block. Empty when it is new.
#[derive(Debug, Default)]
pub struct BlockEntries {
    keys: Vec<u8>,
    spans: Vec<Span>,
    block: Option<Arc<Block>>,
}

/// Where a key lies in `keys`, and its value in the block.
#[derive(Clone, Copy, Debug)]
struct Span {
    key_start: u32,
    key_end: u32,
    value_start: u32,
    value_end: u32,
}

impl BlockEntries {
    /// How many there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The key of an entry; `None` if there are not so many.
    #[must_use]
    #[inline]
    pub fn key(&self, index: usize) -> Option<&[u8]> {
        let span = self.spans.get(index)?;
        Some(&self.keys[span.key_start as usize..span.key_end as usize])
    }

    /// The value of an entry; `None` if there are not so many.
    #[must_use]
    #[inline]
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        let span = self.spans.get(index)?;
        Some(&self.block.as_deref()?.bytes[span.value_start as usize..span.value_end as usize])
    }

    /// Lets go of the entries and of their block, and keeps the memory for the next.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.keys.clear();
        self.keys.shrink_to(2 * KEYS_BYTES_MAX);
        self.block = None;
    }

    /// Lets go of the first entry whose key is beyond something, and of all that follow.
    pub fn cut(&mut self, is_beyond: impl Fn(&[u8]) -> bool) {
        let keys = &self.keys;
        let within = self
            .spans
            .partition_point(|span| !is_beyond(&keys[span.key_start as usize..span.key_end as usize]));
        self.spans.truncate(within);
    }

    pub(crate) fn begin(&mut self, block: Arc<Block>) {
        self.clear();
        self.block = Some(block);
    }

    /// Appends an entry of the block, and says whether there is room for more.
    ///
    /// A block is far smaller than 4 GiB, so that all offsets fit.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: &[u8], value: (usize, usize)) -> bool {
        let key_start = self.keys.len() as u32;
        append(&mut self.keys, key);
        self.spans.push(Span {
            key_start,
            key_end: self.keys.len() as u32,
            value_start: value.0 as u32,
            value_end: value.1 as u32,
        });
        self.keys.len() < KEYS_BYTES_MAX
    }
}
