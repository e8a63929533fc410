//! Reads neighbouring blocks in one call.
//!
//! Owns the bytes that were read ahead and not asked for yet, and the memory of the last block that its owner gave
//! back, so that a walk past the cache allocates nothing for a block. Never decides how far to read: its owner does.
//! Invariant: damage in a block that was only read ahead is not reported; it is found again when that block is asked
//! for.

use std::sync::Arc;

use crate::block::{self, Block, Handle, Shape};
use crate::cursor::Direction;
use crate::error::Result;
use crate::input::Input;

/// Whether blocks that are read from the disk are put into the cache. Those in the cache are used in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// They are.
    #[default]
    Fill,
    /// They are not: for one pass over much, like a compaction's, that should not drive out what others need.
    Leave,
}

#[derive(Debug)]
pub(crate) struct Readahead {
    shape: Shape,
    pub(crate) caching: Caching,
    /// The blocks that were read together, in the order in which they should be asked for.
    run: Vec<Handle>,
    /// How many of them were asked for, or passed over.
    taken: usize,
    /// Their bytes.
    stored: Vec<u8>,
    /// Where those lie in the file.
    start: u64,
    /// A block that nobody needs any more.
    spare: Option<Arc<Block>>,
}

/// More memory than this is kept only as long as windows are so large.
const STORED_BYTES_KEPT: usize = 1 << 20;

impl Readahead {
    pub(crate) fn new(shape: Shape) -> Readahead {
        Readahead {
            shape,
            caching: Caching::default(),
            run: Vec::new(),
            taken: 0,
            stored: Vec::new(),
            start: 0,
            spare: None,
        }
    }

    /// Takes back a block that its owner has done with.
    pub(crate) fn give_back(&mut self, block: Option<Arc<Block>>) {
        if self.spare.is_none() {
            self.spare = block::spare(block);
        }
    }

    /// Lets go of what was read ahead: its owner goes to another file.
    pub(crate) fn clear(&mut self) {
        self.run.clear();
        self.taken = 0;
    }

    /// The block at `wanted` if it was read ahead and is sound. Those before it are let go of.
    pub(crate) fn take(&mut self, input: &Input, wanted: Handle) -> Option<Arc<Block>> {
        while let Some(&handle) = self.run.get(self.taken) {
            self.taken += 1;
            if handle == wanted {
                return self.open(input, handle).ok();
            }
        }
        None
    }

    /// The block at `wanted`, from the cache or the disk. From the disk, the blocks after it in `direction` come along:
    /// those that `neighbour` gives for 1, 2 and so on, as long as they touch, are not cached, and all together fit
    /// `window_bytes`.
    pub(crate) fn fetch(
        &mut self,
        input: &Input,
        wanted: Handle,
        direction: Direction,
        window_bytes: usize,
        neighbour: impl Fn(usize) -> Option<Handle>,
    ) -> Result<Arc<Block>> {
        let reads_one = window_bytes <= wanted.len as usize;
        if reads_one && self.caching == Caching::Fill {
            return input.block(self.shape, wanted);
        }
        if let Some(block) = input.cache().get(self.shape, input.id(), wanted.offset) {
            return Ok(block);
        }
        if wanted.len as usize > STORED_BYTES_KEPT {
            self.clear();
            let block = input.read_into(self.shape, wanted, self.spare.take())?;
            self.keep(input, &block);
            return Ok(block);
        }
        input.check(wanted)?;
        self.gather(input, wanted, direction, window_bytes, neighbour);
        let read = match self.read_run(input) {
            // The failure may lie in a neighbour: the block itself then speaks for itself.
            Err(_) if self.run.len() > 1 => {
                self.run.truncate(1);
                self.read_run(input)
            }
            read => read,
        };
        if read.is_err() {
            self.clear();
        }
        read
    }

    /// Finds out which blocks to read.
    fn gather(
        &mut self,
        input: &Input,
        wanted: Handle,
        direction: Direction,
        window_bytes: usize,
        neighbour: impl Fn(usize) -> Option<Handle>,
    ) {
        self.clear();
        self.run.push(wanted);
        let (mut last, mut bytes) = (wanted, wanted.len as usize);
        while let Some(next) = neighbour(self.run.len()) {
            let touches = match direction {
                Direction::Forward => last.end() == next.offset,
                Direction::Reverse => next.offset.checked_add(u64::from(next.len)) == Some(last.offset),
            };
            bytes += next.len as usize;
            let fits = touches && bytes <= window_bytes && input.check(next).is_ok();
            if !fits || input.cache().holds(self.shape, input.id(), next.offset) {
                break;
            }
            self.run.push(next);
            last = next;
        }
    }

    /// Reads the run, and gives its first block.
    fn read_run(&mut self, input: &Input) -> Result<Arc<Block>> {
        let (first, last) = (self.run[0], self.run[self.run.len() - 1]);
        self.start = first.offset.min(last.offset);
        let len = (first.end().max(last.end()) - self.start) as usize;
        if self.stored.len() < len {
            self.stored.resize(len, 0);
        } else if self.stored.len() > STORED_BYTES_KEPT && len <= STORED_BYTES_KEPT / 4 {
            self.stored.truncate(STORED_BYTES_KEPT);
            self.stored.shrink_to(STORED_BYTES_KEPT);
        }
        input.fill(&mut self.stored[..len], self.start)?;
        self.taken = 1;
        self.open(input, first)
    }

    /// Opens a block of the run.
    fn open(&mut self, input: &Input, handle: Handle) -> Result<Arc<Block>> {
        let at = (handle.offset - self.start) as usize;
        let stored = &self.stored[at..at + handle.len as usize];
        let spare = self.spare.take();
        let block = Block::open_slice(self.shape, input.id(), handle.offset, stored, spare)?;
        self.keep(input, &block);
        Ok(block)
    }

    fn keep(&self, input: &Input, block: &Arc<Block>) {
        if self.caching == Caching::Fill && input.cache().admits(self.shape, block.file, block.offset) {
            input.cache().insert(self.shape, block);
        }
    }
}
