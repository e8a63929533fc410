//! Walks a keyed file in both directions.
//!
//! Owns its reader and the block it stands in, so that what it shows outlives the cache. Past the cache it reads block
//! after block into the same memory, and takes that along to another file.
//! Invariant: an error is never taken for the end; after one, each step gives it again until the iterator is
//! positioned anew.

use std::sync::Arc;

use crate::block::keyed_cursor::KeyedCursor;
use crate::block::{self, Block, Handle, Shape};
use crate::cursor::Direction;
use crate::entries::BlockEntries;
use crate::error::{Error, Result};
use crate::readahead::{Caching, Readahead};
use crate::reader::KeyedReader;

/// A position in a keyed file, or none: before it is told where, after it ran off either end, and after an error.
///
/// ```
/// # use nyala_sstable::{Cache, KeyedReader, KeyedWriter, WriterOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("7.idx");
/// # let fs = vfs::OsFs::default();
/// # let mut writer = KeyedWriter::create(&fs, &path, codec::FileId(7), &WriterOptions::default())?;
/// # for key in [b"a", b"c", b"e"] { writer.add(key, None, key)?; }
/// # let info = writer.finish(b"")?;
/// # let reader = KeyedReader::open(&fs, &path, info.id, Cache::new(1 << 20), None)?;
/// let mut iter = reader.iter();
/// iter.seek(b"b")?;
/// while iter.valid() {
///     println!("{:?} = {:?}", iter.key(), iter.value());
///     iter.next()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeyedIter {
    reader: Arc<KeyedReader>,
    partition: usize,
    /// The index partition of that number, once it was needed.
    index: Option<Arc<Block>>,
    /// A partition that is needed no more.
    spare_index: Option<Arc<Block>>,
    entry: usize,
    /// The data block of that entry of the partition.
    block: Option<Arc<Block>>,
    /// Where the block lies that was loaded last.
    place: Handle,
    cursor: KeyedCursor,
    is_positioned: bool,
    failed: Option<Error>,
    ahead: Readahead,
    readahead_bytes: usize,
}

impl KeyedIter {
    pub(crate) fn new(reader: Arc<KeyedReader>) -> KeyedIter {
        KeyedIter {
            reader,
            partition: 0,
            index: None,
            spare_index: None,
            entry: 0,
            block: None,
            place: Handle { offset: 0, len: 0 },
            cursor: KeyedCursor::default(),
            is_positioned: false,
            failed: None,
            ahead: Readahead::new(Shape::Keyed),
            readahead_bytes: 0,
        }
    }

    /// Goes to another file, and keeps its memory and how it reads. It stands nowhere until it is told where.
    pub fn set_reader(&mut self, reader: Arc<KeyedReader>) {
        self.begin();
        self.let_go_of_block();
        self.let_go_of_index();
        self.ahead.clear();
        self.reader = reader;
        self.partition = 0;
    }

    /// How many bytes of neighbouring blocks are read in one call when it moves on to a block that is not cached.
    /// 0, the default, reads block by block.
    pub fn set_readahead(&mut self, bytes: usize) {
        self.readahead_bytes = bytes;
    }

    /// Whether what it reads is put into the cache. [`Caching::Fill`] by default.
    pub fn set_caching(&mut self, caching: Caching) {
        self.ahead.caching = caching;
    }

    /// Whether it stands at an entry.
    #[must_use]
    #[inline]
    pub fn valid(&self) -> bool {
        self.is_positioned
    }

    /// The key it stands at.
    ///
    /// # Panics
    /// If it is not [`KeyedIter::valid`].
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.is_positioned, "the key of an iterator that stands nowhere");
        self.cursor.key()
    }

    /// The value it stands at.
    ///
    /// # Panics
    /// If it is not [`KeyedIter::valid`].
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.is_positioned, "the value of an iterator that stands nowhere");
        let (start, end) = self.cursor.value();
        &self.current().bytes[start..end]
    }

    /// To the first entry, if there is one.
    ///
    /// # Errors
    /// Those of the disk and of damaged blocks.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin();
        let moved = self.move_to_first();
        self.end(moved)
    }

    /// To the last entry, if there is one.
    ///
    /// # Errors
    /// As [`KeyedIter::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin();
        let moved = self.move_to_last();
        self.end(moved)
    }

    /// To the first entry at or above `key`, if there is one.
    ///
    /// # Errors
    /// As [`KeyedIter::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        let moved = self.move_to_at_or_above(key);
        self.end(moved)
    }

    /// To the last entry at or below `key`, if there is one.
    ///
    /// # Errors
    /// As [`KeyedIter::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        let moved = self.move_to_at_or_below(key);
        self.end(moved)
    }

    /// To the next entry; nowhere after the last. Stays nowhere if it stands nowhere.
    ///
    /// # Errors
    /// As [`KeyedIter::seek_to_first`]; the same error again after one.
    #[allow(clippy::should_implement_trait, reason = "it lends what it shows, which `Iterator` cannot")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.is_positioned {
            return self.stand();
        }
        let block = self.block.as_deref().expect("an iterator that is positioned has a block");
        let moved = match self.cursor.next(block) {
            Ok(false) => self.next_block(),
            moved => moved,
        };
        self.end(moved)
    }

    /// Puts its entry and those that follow it in the block into `entries`, and stands on the last of them. None if it
    /// stands nowhere.
    ///
    /// While they are there, the block's memory cannot be used for the next.
    ///
    /// # Errors
    /// As [`KeyedIter::next`]; `entries` is then empty.
    pub fn take_block(&mut self, entries: &mut BlockEntries) -> Result<()> {
        entries.clear();
        if !self.is_positioned {
            return self.stand();
        }
        let block = self.block.as_ref().expect("an iterator that is positioned has a block");
        entries.begin(Arc::clone(block));
        let taken = self.cursor.take_rest(block, entries);
        if taken.is_err() {
            entries.clear();
        }
        self.end(taken.map(|()| true))
    }

    /// To the entry before; nowhere before the first. Stays nowhere if it stands nowhere.
    ///
    /// # Errors
    /// As [`KeyedIter::next`].
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if !self.is_positioned {
            return self.stand();
        }
        let block = self.block.as_deref().expect("an iterator that is positioned has a block");
        let moved = match self.cursor.prev(block) {
            Ok(false) => self.prev_block(),
            moved => moved,
        };
        self.end(moved)
    }

    #[inline]
    fn current(&self) -> &Block {
        self.block.as_deref().expect("an iterator that is positioned has a block")
    }

    /// A step from nowhere.
    #[cold]
    fn stand(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    fn begin(&mut self) {
        self.is_positioned = false;
        self.failed = None;
    }

    #[inline]
    fn end(&mut self, moved: Result<bool>) -> Result<()> {
        match moved {
            Ok(is_positioned) => {
                self.is_positioned = is_positioned;
                Ok(())
            }
            Err(error) => {
                self.is_positioned = false;
                // The cursor may be between two entries: nothing of this block may be used again.
                self.let_go_of_block();
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    fn move_to_first(&mut self) -> Result<bool> {
        if self.reader.root().partitions().is_empty() {
            return Ok(false);
        }
        self.load_partition(0)?;
        self.load_block(0, None)?;
        self.cursor.first(self.block.as_deref().expect("just loaded"))?;
        Ok(true)
    }

    fn move_to_last(&mut self) -> Result<bool> {
        let Some(partition) = self.reader.root().partitions().len().checked_sub(1) else {
            return Ok(false);
        };
        let entries = self.load_partition(partition)?;
        self.load_block(entries - 1, None)?;
        self.cursor.last(self.block.as_deref().expect("just loaded"))?;
        Ok(true)
    }

    fn move_to_at_or_above(&mut self, key: &[u8]) -> Result<bool> {
        if !self.load_block_of(key)? {
            return Ok(false);
        }
        if self.cursor.seek(self.block.as_deref().expect("just loaded"), key)? {
            return Ok(true);
        }
        // `key` lies between the block's last key and its separator.
        self.next_block()
    }

    fn move_to_at_or_below(&mut self, key: &[u8]) -> Result<bool> {
        if !self.load_block_of(key)? {
            return self.move_to_last();
        }
        if self.cursor.seek_for_prev(self.block.as_deref().expect("just loaded"), key)? {
            return Ok(true);
        }
        self.prev_block()
    }

    /// Loads the only block that can hold `key`; false if `key` is above all blocks.
    fn load_block_of(&mut self, key: &[u8]) -> Result<bool> {
        let partition = self.reader.root().find_key(key);
        if partition == self.reader.root().partitions().len() {
            return Ok(false);
        }
        self.load_partition(partition)?;
        let index = self.index.as_deref().expect("just loaded");
        let entry = self.reader.find_block(index, key)?;
        self.load_block(entry, None)?;
        Ok(true)
    }

    /// To the first entry of the block after; false if there is none.
    fn next_block(&mut self) -> Result<bool> {
        let entries = self.load_partition(self.partition)?;
        if self.entry + 1 < entries {
            self.load_block(self.entry + 1, Some(Direction::Forward))?;
        } else if self.partition + 1 < self.reader.root().partitions().len() {
            self.load_partition(self.partition + 1)?;
            self.load_block(0, Some(Direction::Forward))?;
        } else {
            return Ok(false);
        }
        self.cursor.first(self.block.as_deref().expect("just loaded"))?;
        Ok(true)
    }

    /// To the last entry of the block before; false if there is none.
    fn prev_block(&mut self) -> Result<bool> {
        if let Some(entry) = self.entry.checked_sub(1) {
            self.load_partition(self.partition)?;
            self.load_block(entry, Some(Direction::Reverse))?;
        } else if let Some(partition) = self.partition.checked_sub(1) {
            let entries = self.load_partition(partition)?;
            self.load_block(entries - 1, Some(Direction::Reverse))?;
        } else {
            return Ok(false);
        }
        self.cursor.last(self.block.as_deref().expect("just loaded"))?;
        Ok(true)
    }

    /// Loads a partition of the index, if it is not the one at hand. Gives how many blocks it names.
    fn load_partition(&mut self, partition: usize) -> Result<usize> {
        if let Some(index) = &self.index
            && self.partition == partition
        {
            return Ok(index.items);
        }
        self.let_go_of_block();
        self.let_go_of_index();
        let index = match self.ahead.caching {
            Caching::Fill => self.reader.partition(partition)?,
            Caching::Leave => self.reader.partition_past_cache(partition, self.spare_index.take())?,
        };
        let entries = index.items;
        self.partition = partition;
        self.index = Some(index);
        Ok(entries)
    }

    /// Loads a data block of the partition, if it is not the one at hand. In a direction: with those that come next.
    fn load_block(&mut self, entry: usize, direction: Option<Direction>) -> Result<()> {
        if self.block.is_some() && self.entry == entry {
            return Ok(());
        }
        self.let_go_of_block();
        let index = self.index.as_deref().expect("the partition is loaded before its blocks");
        let wanted = self.reader.handle(index, entry)?;
        self.check_way(wanted, direction)?;
        let block = match self.ahead.take(self.reader.input(), wanted) {
            Some(block) => block,
            None => {
                let window_bytes = if direction.is_some() { self.readahead_bytes } else { 0 };
                let direction = direction.unwrap_or(Direction::Forward);
                let reader = &self.reader;
                self.ahead.fetch(reader.input(), wanted, direction, window_bytes, |step| {
                    let entry = direction.step(entry, step, index.items)?;
                    reader.handle(index, entry).ok()
                })?
            }
        };
        self.entry = entry;
        self.place = wanted;
        self.block = Some(block);
        Ok(())
    }

    /// Blocks lie in the order of their keys and do not overlap, so that a walk reads no more than the file holds,
    /// whatever its index says.
    fn check_way(&self, wanted: Handle, direction: Option<Direction>) -> Result<()> {
        let (before, after) = match direction {
            Some(Direction::Forward) => (self.place, wanted),
            Some(Direction::Reverse) => (wanted, self.place),
            None => return Ok(()),
        };
        match before.offset.checked_add(u64::from(before.len)) {
            Some(end) if end <= after.offset => Ok(()),
            end => {
                let (expected, found) = (end.unwrap_or(u64::MAX), after.offset);
                Err(self.reader.input().mismatch(
                    wanted.offset,
                    "least offset of the next block",
                    expected,
                    found,
                ))
            }
        }
    }

    fn let_go_of_block(&mut self) {
        self.ahead.give_back(self.block.take());
    }

    fn let_go_of_index(&mut self) {
        let index = block::spare(self.index.take());
        self.spare_index = index.or(self.spare_index.take());
    }
}
