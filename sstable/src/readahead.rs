//! Reads neighbouring blocks in one call.
//!
//! Owns the blocks that were read ahead and not asked for yet. Never decides how far to read: its owner does.
//! Invariant: damage in a block that was only read ahead is not reported; it is found again when that block is asked
//! for.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::block::{Block, Handle, Shape};
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
    /// In the order in which they should be asked for.
    ahead: VecDeque<Arc<Block>>,
    run: Vec<Handle>,
    stored: Vec<u8>,
}

impl Readahead {
    pub(crate) fn new(shape: Shape) -> Readahead {
        Readahead {
            shape,
            caching: Caching::default(),
            ahead: VecDeque::new(),
            run: Vec::new(),
            stored: Vec::new(),
        }
    }

    /// The block at `wanted` if it was read ahead. Those before it are let go of.
    pub(crate) fn take(&mut self, wanted: Handle) -> Option<Arc<Block>> {
        while let Some(block) = self.ahead.pop_front() {
            if block.offset == wanted.offset {
                return Some(block);
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
        self.gather(input, wanted, direction, window_bytes, neighbour);
        if self.run.len() > 1 {
            // A failure may lie in a neighbour: the block itself then speaks for itself, below.
            if let Ok(block) = self.read_run(input) {
                return Ok(block);
            }
        }
        let block = Arc::new(input.read(self.shape, wanted)?);
        self.keep(input, &block);
        Ok(block)
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
        self.run.clear();
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

    /// Reads the run, keeps what comes after its first, and gives that.
    fn read_run(&mut self, input: &Input) -> Result<Arc<Block>> {
        let (first, last) = (self.run[0], self.run[self.run.len() - 1]);
        input.check(first)?;
        let start = first.offset.min(last.offset);
        let len = (first.end().max(last.end()) - start) as usize;
        if self.stored.len() < len {
            self.stored.resize(len, 0);
        }
        input.fill(&mut self.stored[..len], start)?;
        let mut wanted = None;
        for handle in &self.run {
            let at = (handle.offset - start) as usize;
            let stored = &self.stored[at..at + handle.len as usize];
            let block = Block::open_slice(self.shape, input.id(), handle.offset, stored);
            match (block, &wanted) {
                (Ok(block), None) => wanted = Some(Arc::new(block)),
                (Ok(block), Some(_)) => self.ahead.push_back(Arc::new(block)),
                (Err(error), None) => return Err(error),
                (Err(_), Some(_)) => break,
            }
        }
        let wanted = wanted.expect("the run begins with the wanted block");
        self.keep(input, &wanted);
        for block in &self.ahead {
            self.keep(input, block);
        }
        Ok(wanted)
    }

    fn keep(&self, input: &Input, block: &Arc<Block>) {
        if self.caching == Caching::Fill {
            input.cache().insert(self.shape, block);
        }
    }
}
