//! The entries of a damaged keyed file, in key order, and where some are missing.

use std::collections::VecDeque;
use std::path::Path;

use codec::FileId;
use vfs::Fs;

use super::find::{Finder, Found};
use super::{Raw, Tail};
use crate::block::keyed_cursor::KeyedCursor;
use crate::block::{Block, Handle, Shape};
use crate::error::Result;
use crate::header::{FileKind, HEADER_BYTES};
use crate::index;

/// Entries that could not be read: whatever the file had between two keys.
#[derive(Clone, Debug)]
pub struct LostEntries {
    /// Where they stood.
    pub offset: u64,
    /// How many bytes that are.
    pub bytes: u64,
    /// The last key before them that was read; `None` if there was none.
    pub after: Option<Vec<u8>>,
    /// The first key behind them that was read; `None` if there was none.
    pub before: Option<Vec<u8>>,
    /// Why.
    pub why: String,
}

/// Walks what can be read of a keyed file.
#[derive(Debug)]
pub struct KeyedSalvage {
    raw: Raw,
    tail: Tail,
    steps: VecDeque<Step>,
    block: Option<Block>,
    cursor: KeyedCursor,
    last_key: Option<Vec<u8>>,
    /// Where the block ends that was looked at last: no index makes anybody read a byte twice.
    read_to: u64,
    lost: Vec<LostEntries>,
    /// How many of `lost` know what comes behind them.
    settled: usize,
}

/// What to look at next. The blocks of a partition are named when it is its turn, so that they are never all in memory.
enum Step {
    Block(Handle),
    /// A partition of the block index, and where its blocks lie.
    Partition(Handle, u64, u64),
    Search(Box<Finder>),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Block(handle) => f.debug_tuple("Block").field(handle).finish(),
            Step::Partition(index, from, to) => {
                f.debug_tuple("Partition").field(index).field(from).field(to).finish()
            }
            Step::Search(_) => f.write_str("Search"),
        }
    }
}

impl KeyedSalvage {
    /// Opens a file, whatever is in it, and goes to its first entry.
    ///
    /// # Errors
    /// The disk's, if the file is not there or cannot be opened; [`crate::Error::UnsupportedFormat`]. Damage is no
    /// error.
    pub fn open(fs: &dyn Fs, path: &Path, id: FileId) -> Result<KeyedSalvage> {
        let (raw, tail) = Raw::open(fs, path, id, FileKind::Keyed)?;
        let steps = steps(&raw, &tail);
        let mut salvage = KeyedSalvage {
            raw,
            tail,
            steps,
            block: None,
            cursor: KeyedCursor::default(),
            last_key: None,
            read_to: 0,
            lost: Vec::new(),
            settled: 0,
        };
        salvage.enter_next();
        Ok(salvage)
    }

    /// What its owner gave at the end, if that can be read.
    #[must_use]
    pub fn user_properties(&self) -> Option<&[u8]> {
        self.tail.properties.as_ref().map(|properties| properties.user.as_slice())
    }

    /// The key that it stands at; `None` at the end.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.block.is_some().then(|| self.cursor.key())
    }

    /// The value of that key.
    ///
    /// # Panics
    /// At the end.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        let block = self.block.as_ref().expect("it stands at an entry");
        let (start, end) = self.cursor.value();
        &block.bytes[start..end]
    }

    /// Goes to the next entry that can be read.
    pub fn advance(&mut self) {
        let Some(block) = &self.block else { return };
        let key = self.last_key.get_or_insert_default();
        key.clear();
        key.extend_from_slice(self.cursor.key());
        // The whole block was walked before it was entered.
        if !self.cursor.next(block).unwrap_or(false) {
            self.enter_next();
        }
    }

    /// What was found to be missing so far, all of it at the end.
    #[must_use]
    pub fn lost(&self) -> &[LostEntries] {
        &self.lost
    }

    /// Goes to the first entry of the next block that can be read.
    fn enter_next(&mut self) {
        self.block = None;
        while let Some(step) = self.steps.front_mut() {
            let handle = match step {
                Step::Block(handle) => {
                    let handle = *handle;
                    self.steps.pop_front();
                    handle
                }
                &mut Step::Partition(index, from, to) => {
                    self.steps.pop_front();
                    match handles(&self.raw, index) {
                        Ok(handles) => {
                            for handle in handles.into_iter().rev() {
                                self.steps.push_front(Step::Block(handle));
                            }
                        }
                        Err(_) if from < to && to <= self.raw.len => self.steps.push_front(search(from, to)),
                        Err(_) => {}
                    }
                    continue;
                }
                Step::Search(finder) => match finder.next(&self.raw) {
                    Some(Found::Data(handle)) => handle,
                    Some(Found::Gap { offset, bytes }) => {
                        self.lose(offset, bytes, "no block can be found here".to_owned());
                        continue;
                    }
                    None => {
                        let is_cut = finder.is_cut(self.raw.len);
                        self.steps.pop_front();
                        if is_cut {
                            self.lose(self.raw.len, 0, "the file has no end".to_owned());
                        }
                        continue;
                    }
                },
            };
            if handle.offset < self.read_to {
                self.lose(
                    handle.offset,
                    u64::from(handle.len),
                    "it begins before the last one ends".to_owned(),
                );
                continue;
            }
            self.read_to = handle.end();
            match self.read(handle) {
                Ok(block) => {
                    self.block = Some(block);
                    if let Some(lost) = self.lost.get_mut(self.settled) {
                        lost.before = Some(self.cursor.key().to_vec());
                    }
                    self.settled = self.lost.len();
                    return;
                }
                Err(error) => self.lose(handle.offset, u64::from(handle.len), error.to_string()),
            }
        }
    }

    /// Notes what is missing. All that lies between the same two keys is one.
    fn lose(&mut self, offset: u64, bytes: u64, why: String) {
        if self.settled < self.lost.len()
            && let Some(last) = self.lost.last_mut()
        {
            let end = offset.saturating_add(bytes).max(last.offset.saturating_add(last.bytes));
            last.offset = last.offset.min(offset);
            last.bytes = end - last.offset;
            return;
        }
        self.lost.push(LostEntries { offset, bytes, after: self.last_key.clone(), before: None, why });
    }

    /// Reads a block and stands at its first entry, if all of it decodes and comes after what was read before.
    fn read(&mut self, handle: Handle) -> Result<Block> {
        let block = self.raw.block(Shape::Keyed, handle)?;
        let mut walk = KeyedCursor::default();
        walk.first(&block)?;
        let mut last = self.last_key.clone();
        loop {
            if last.as_deref().is_some_and(|last| last >= walk.key()) {
                return Err(block.mismatch("keys that strictly increase (entries)", 1, 0));
            }
            let key = last.get_or_insert_default();
            key.clear();
            key.extend_from_slice(walk.key());
            if !walk.next(&block)? {
                break;
            }
        }
        self.cursor.first(&block)?;
        Ok(block)
    }
}

/// Where the blocks are, by the index where it can be read.
fn steps(raw: &Raw, tail: &Tail) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    let mut at = HEADER_BYTES as u64;
    let Some(root) = &tail.root else {
        steps.push_back(search(at.min(raw.len), raw.len));
        return steps;
    };
    for place in root.partitions() {
        steps.push_back(Step::Partition(place.index, at, place.filter.unwrap_or(place.index).offset));
        at = at.max(place.index.end());
    }
    steps
}

fn search(from: u64, to: u64) -> Step {
    Step::Search(Box::new(Finder::new(FileKind::Keyed, from, to)))
}

/// The blocks that a partition names.
fn handles(raw: &Raw, partition: Handle) -> Result<Vec<Handle>> {
    let block = raw.block(Shape::KeyedIndex, partition)?;
    (0..block.items).map(|entry| index::keyed::handle(&block, entry)).collect()
}
