//! Walks the keys of a run in order, one way, within bounds.
//!
//! Opens one file at a time, when the walk comes to it. Never skips what it cannot read: an error is returned again
//! and again.

use std::ops::Bound;
use std::sync::Arc;

use codec::{FileId, Version};
use sstable::{BlockEntries, Caching, Direction, KeyedIter};

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::file::IndexFile;
use crate::merge::Source;
use crate::run::Run;
use crate::wire;

/// The keys that a walk covers: a lower and an upper bound, whichever way it goes.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Walks the keys of a run. Owns what it needs, and keeps the run alive.
#[derive(Debug)]
pub struct RunCursor {
    run: Arc<Run>,
    direction: Direction,
    /// The bound that the walk ends at.
    end: Bound<Vec<u8>>,
    /// The first bytes of its key.
    end_head: u64,
    /// The files that the walk has not come to yet, as a range of indices.
    ahead: std::ops::Range<usize>,
    open: Option<Open>,
    /// The iterator of the file before, for its memory.
    spare: Option<KeyedIter>,
    /// The first error. It is returned from then on, so that what cannot be read never looks like the end.
    failed: Option<Error>,
    readahead_bytes: usize,
    caching: Caching,
}

/// The file that the walk is in. Its iterator stands on a key within the bounds.
#[derive(Debug)]
struct Open {
    file: FileId,
    iter: KeyedIter,
    /// Whether the walk may meet its end in this file: only then are keys compared with the bound.
    may_end: bool,
}

/// How a cursor reads its files.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorOptions {
    /// How much is read ahead, in bytes. Default 0: one block at a time.
    pub readahead_bytes: usize,
    /// Whether the blocks that it reads are kept in the cache. Default: they are.
    pub caching: Caching,
}

impl Run {
    /// A cursor on the first key within `bounds` that comes in this direction.
    ///
    /// # Errors
    /// [`Error::Sstable`] if the first block cannot be read.
    pub fn cursor(self: &Arc<Run>, direction: Direction, bounds: &Bounds<'_>) -> Result<RunCursor> {
        self.cursor_with(direction, bounds, CursorOptions::default())
    }

    /// Like [`Run::cursor`], and says how files are to be read.
    ///
    /// # Errors
    /// [`Error::Sstable`] if the first block cannot be read.
    pub fn cursor_with(
        self: &Arc<Run>,
        direction: Direction,
        bounds: &Bounds<'_>,
        options: CursorOptions,
    ) -> Result<RunCursor> {
        self.cursor_reusing(direction, bounds, options, None)
    }

    /// The same, with the memory of an iterator that has done its work.
    pub(crate) fn cursor_reusing(
        self: &Arc<Run>,
        direction: Direction,
        bounds: &Bounds<'_>,
        options: CursorOptions,
        spare: Option<KeyedIter>,
    ) -> Result<RunCursor> {
        let (start, end) = match direction {
            Direction::Forward => (bounds.0, bounds.1),
            Direction::Reverse => (bounds.1, bounds.0),
        };
        let mut cursor = RunCursor {
            run: Arc::clone(self),
            direction,
            end: end.map(<[u8]>::to_vec),
            end_head: match end {
                Bound::Included(key) | Bound::Excluded(key) => head(key),
                Bound::Unbounded => 0,
            },
            ahead: files_within(self.files(), bounds),
            open: None,
            spare,
            failed: None,
            readahead_bytes: options.readahead_bytes,
            caching: options.caching,
        };
        cursor.open_next(start)?;
        Ok(cursor)
    }
}

/// The files with keys that may lie within the bounds.
fn files_within(files: &[Arc<IndexFile>], bounds: &Bounds<'_>) -> std::ops::Range<usize> {
    let first = match bounds.0 {
        Bound::Unbounded => 0,
        Bound::Included(key) => files.partition_point(|file| file.last_key() < key),
        Bound::Excluded(key) => files.partition_point(|file| file.last_key() <= key),
    };
    let last = match bounds.1 {
        Bound::Unbounded => files.len(),
        Bound::Included(key) => files.partition_point(|file| file.first_key() <= key),
        Bound::Excluded(key) => files.partition_point(|file| file.first_key() < key),
    };
    first..last.max(first)
}

impl RunCursor {
    /// The encoded list of the key that it stands on.
    ///
    /// # Panics
    /// If it stands on none.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.standing().iter.value()
    }

    /// The file that the key comes from.
    ///
    /// # Panics
    /// If it stands on no key.
    #[must_use]
    #[inline]
    pub fn file(&self) -> FileId {
        self.standing().file
    }

    /// Appends the key's entries to `entries`, newest first.
    ///
    /// # Errors
    /// [`Error::Entries`]; `entries` is then as before.
    #[inline]
    pub fn entries(&self, entries: &mut Vec<Entry>) -> Result<()> {
        wire::decode(self.value(), entries).map_err(|reason| self.damaged(reason))
    }

    /// The newest entry of the key that a reader at version `at` sees.
    ///
    /// # Errors
    /// [`Error::Entries`].
    #[inline]
    pub fn visible(&self, at: Version) -> Result<Option<Entry>> {
        wire::visible(self.value(), at).map_err(|reason| self.damaged(reason))
    }

    /// Puts its key and those that follow it in the block, within the bounds, into `entries`, and stands on the last of
    /// the block. Gives their file; `None`, and no entries, if it stands on no key.
    ///
    /// # Panics
    /// If it does not go forward.
    ///
    /// # Errors
    /// [`Error::Sstable`], and from then on always.
    pub(crate) fn take_block(&mut self, entries: &mut BlockEntries) -> Result<Option<FileId>> {
        assert!(self.direction == Direction::Forward, "blocks are taken front to back");
        entries.clear();
        let Some(open) = &mut self.open else {
            return self.failed.clone().map_or(Ok(None), Err);
        };
        if let Err(error) = open.iter.take_block(entries) {
            self.close();
            return Err(self.failed.insert(error.into()).clone());
        }
        if open.may_end {
            entries.cut(|key| is_past(Direction::Forward, &self.end, key));
        }
        Ok(Some(open.file))
    }

    /// Its iterator, for the memory.
    pub(crate) fn into_spare(mut self) -> Option<KeyedIter> {
        self.close();
        self.spare
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.spare = Some(open.iter);
        }
    }

    fn damaged(&self, reason: wire::WireError) -> Error {
        Error::Entries { file: self.file(), reason }
    }

    fn standing(&self) -> &Open {
        self.open.as_ref().expect("the cursor stands on a key")
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else {
            return self.failed.clone().map_or(Ok(()), Err);
        };
        match self.direction {
            Direction::Forward => open.iter.next()?,
            Direction::Reverse => open.iter.prev()?,
        }
        if !open.iter.valid() {
            return self.open_next(Bound::Unbounded);
        }
        if open.may_end
            && !is_far_from(self.direction, self.end_head, open.iter.key())
            && is_past(self.direction, &self.end, open.iter.key())
        {
            self.close();
            self.ahead = 0..0;
        }
        Ok(())
    }

    /// Opens the next file and goes to the first key that comes after `start` in it; `open` is `None` if there is no
    /// file any more, or no key before the end.
    fn open_next(&mut self, mut start: Bound<&[u8]>) -> Result<()> {
        self.close();
        loop {
            let next = match self.direction {
                Direction::Forward => self.ahead.next(),
                Direction::Reverse => self.ahead.next_back(),
            };
            let Some(index) = next else {
                return Ok(());
            };
            let file = &self.run.files()[index];
            let mut iter = match self.spare.take() {
                Some(mut iter) => {
                    iter.set_reader(Arc::clone(&file.reader));
                    iter
                }
                None => file.reader.iter(),
            };
            iter.set_readahead(self.readahead_bytes);
            iter.set_caching(self.caching);
            seek(&mut iter, self.direction, start)?;
            // Only the first file can hold keys before the start.
            start = Bound::Unbounded;
            if iter.valid() {
                let far = match self.direction {
                    Direction::Forward => file.last_key(),
                    Direction::Reverse => file.first_key(),
                };
                let may_end = is_past(self.direction, &self.end, far);
                if may_end && is_past(self.direction, &self.end, iter.key()) {
                    self.ahead = 0..0;
                    self.spare = Some(iter);
                    return Ok(());
                }
                self.open = Some(Open { file: file.id(), iter, may_end });
                return Ok(());
            }
            self.spare = Some(iter);
        }
    }
}

impl Source for RunCursor {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.open.as_ref().map(|open| open.iter.key())
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if let Err(error) = self.step() {
            self.close();
            self.failed = Some(error.clone());
            return Err(error);
        }
        Ok(())
    }
}

/// Goes to the first key that comes after `start` in this direction.
fn seek(iter: &mut KeyedIter, direction: Direction, start: Bound<&[u8]>) -> Result<()> {
    match (direction, start) {
        (Direction::Forward, Bound::Unbounded) => iter.seek_to_first()?,
        (Direction::Reverse, Bound::Unbounded) => iter.seek_to_last()?,
        (Direction::Forward, Bound::Included(key) | Bound::Excluded(key)) => iter.seek(key)?,
        (Direction::Reverse, Bound::Included(key) | Bound::Excluded(key)) => iter.seek_for_prev(key)?,
    }
    if let Bound::Excluded(key) = start
        && iter.valid()
        && iter.key() == key
    {
        match direction {
            Direction::Forward => iter.next()?,
            Direction::Reverse => iter.prev()?,
        }
    }
    Ok(())
}

/// The first bytes of a key as a number that is no greater for a smaller key.
#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Whether the first bytes of `key` say already that it does not lie beyond the bound, of whose key they are `end`.
#[inline]
fn is_far_from(direction: Direction, end: u64, key: &[u8]) -> bool {
    match direction {
        Direction::Forward => head(key) < end,
        Direction::Reverse => head(key) > end,
    }
}

/// Whether `key` lies beyond the bound that the walk ends at.
#[inline]
fn is_past(direction: Direction, end: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match (direction, end) {
        (_, Bound::Unbounded) => false,
        (Direction::Forward, Bound::Included(end)) => key > &end[..],
        (Direction::Forward, Bound::Excluded(end)) => key >= &end[..],
        (Direction::Reverse, Bound::Included(end)) => key < &end[..],
        (Direction::Reverse, Bound::Excluded(end)) => key <= &end[..],
    }
}

#[cfg(test)]
mod tests;
