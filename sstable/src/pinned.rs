//! Parts of a file that its reader holds itself: filters and partitions of the block index.
//!
//! Every look-up needs them, so they are reached without a lock, a hash or a count of references. They are loaded when
//! they are first needed, stay until the file is closed, and count against the cache: where files pin as much as they
//! may already, the rest goes through the cache like any other block.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use sync::Mutex;

use crate::block::{Block, Handle, Shape};
use crate::error::Result;
use crate::input::Input;

/// The blocks of one shape, one for each partition of a file.
#[derive(Debug)]
pub(crate) struct Pinned {
    shape: Shape,
    blocks: Box<[OnceLock<Arc<Block>>]>,
    /// Held while a block is loaded, so that each is loaded once.
    loading: Mutex<()>,
}

/// A block that is held by its file, or for as long as this is.
pub(crate) enum Held<'a> {
    Pinned(&'a Arc<Block>),
    Cached(Arc<Block>),
}

impl Deref for Held<'_> {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            Held::Pinned(block) => block,
            Held::Cached(block) => block,
        }
    }
}

impl Held<'_> {
    /// The block, to be kept.
    pub(crate) fn to_shared(&self) -> Arc<Block> {
        match self {
            Held::Pinned(block) => Arc::clone(block),
            Held::Cached(block) => Arc::clone(block),
        }
    }
}

impl Pinned {
    pub(crate) fn new(shape: Shape, partitions: usize) -> Pinned {
        Pinned { shape, blocks: (0..partitions).map(|_| OnceLock::new()).collect(), loading: Mutex::new(()) }
    }

    /// The block of a partition, if the file holds it.
    #[inline]
    pub(crate) fn held(&self, partition: usize) -> Option<&Arc<Block>> {
        self.blocks[partition].get()
    }

    /// The block of a partition, which lies at `handle` and must satisfy `check`.
    #[inline]
    pub(crate) fn get(
        &self,
        input: &Input,
        partition: usize,
        handle: Handle,
        check: impl FnOnce(&Block) -> Result<()>,
    ) -> Result<Held<'_>> {
        match self.held(partition) {
            Some(block) => Ok(Held::Pinned(block)),
            None => self.load(input, partition, handle, check),
        }
    }

    #[cold]
    fn load(
        &self,
        input: &Input,
        partition: usize,
        handle: Handle,
        check: impl FnOnce(&Block) -> Result<()>,
    ) -> Result<Held<'_>> {
        let cache = input.cache();
        if !cache.can_pin(handle.len) {
            let block = input.block(self.shape, handle)?;
            check(&block)?;
            return Ok(Held::Cached(block));
        }
        // Many may ask at a time: one reads it.
        let _loading = self.loading.lock();
        if let Some(block) = self.held(partition) {
            return Ok(Held::Pinned(block));
        }
        let cached = cache.get(self.shape, input.id(), handle.offset);
        let block = match &cached {
            Some(block) => Arc::clone(block),
            None => Arc::new(input.read(self.shape, handle)?),
        };
        check(&block)?;
        match (cache.pin(&block), cached) {
            (true, Some(_)) => cache.forget_block(self.shape, input.id(), handle.offset),
            (true, None) => {}
            (false, Some(block)) => return Ok(Held::Cached(block)),
            (false, None) => {
                cache.insert(self.shape, &block);
                return Ok(Held::Cached(block));
            }
        }
        Ok(Held::Pinned(self.blocks[partition].get_or_init(|| block)))
    }

    /// Gives the memory back: the file is being closed.
    pub(crate) fn unpin(&self, input: &Input) {
        input.cache().unpin(self.blocks.iter().filter_map(OnceLock::get).map(|block| &**block));
    }
}
