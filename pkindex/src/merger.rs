//! `KeyValueMerger`: turns the lists that several runs have for one key into one list.
//!
//! A list from one source with one version, which is not a deletion at the base and does not point into a rowset that
//! is being moved, passes as the bytes it is: nothing of it could go. Every other list is decoded into a list that is
//! kept for the next key, so that no key costs an allocation; if all that is left of it is the only version of the
//! newest source, its bytes pass too.
//!
//! Never reads or writes a file: it is given bytes, and says what to write.
//!
//! Invariant: entries in are entries out and dropped ones.
//! Invariant: what is kept is decided from the whole list of a key, all sources together.

mod prune;
mod scratch;

use codec::{FileId, Location, RowsetId};

use crate::entry::{Entry, Place};
use crate::error::{BoxError, Error, Result};
use crate::properties::RowsetCounts;
use crate::wire::{self, Peek};

pub use prune::Retention;
pub(crate) use scratch::recycle;

/// Moves rows out of rowsets while their entries are merged. One is made for each slice of a compaction.
pub trait Relocate {
    /// Copies the row of `entry`, which lies at `from`, to where it shall lie from now on, and says where that is.
    ///
    /// Asked for the entries that are kept and point into a rowset that is being moved, by key in ascending order,
    /// and of one key the newest first.
    ///
    /// # Errors
    /// Whatever keeps the row from being moved. The compaction fails with it as [`Error::Relocate`].
    fn relocate(&mut self, key: &[u8], entry: Entry, from: Location) -> Result<Location, BoxError>;

    /// Ends the slice. What it wrote must be durable before the compaction's outcome is installed; the hook of a later
    /// slice may go on with it. Without this call nothing of the slice counts.
    ///
    /// # Errors
    /// Whatever keeps it from being kept.
    fn finish(self: Box<Self>) -> Result<(), BoxError>;
}

/// What to write for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged<'a> {
    /// The bytes of its newest source as they are; they say this.
    Pass(Entry),
    /// This list. It is not empty.
    List(&'a [Entry]),
    /// Nothing: no reader can need the key any more.
    Nothing,
}

/// What a merger has seen and done.
#[derive(Clone, Debug, Default)]
pub struct MergeCounts {
    /// Keys, each counted once.
    pub keys: u64,
    /// Keys whose bytes passed as they were.
    pub keys_passed: u64,
    /// Lists read: a key counts once for each source that has it.
    pub lists_in: u64,
    /// Entries read.
    pub entries_in: u64,
    /// Deletions among them.
    pub deletions_in: u64,
    /// Entries left out.
    pub entries_dropped: u64,
    /// Entries whose rows were moved.
    pub entries_moved: u64,
    /// Entries read, by the rowset that they point into.
    pub(crate) rowsets_in: RowsetCounts,
}

/// Turns the lists of a key into one. Keeps its buffers from key to key.
#[derive(Debug)]
pub struct KeyValueMerger<'a> {
    retention: &'a Retention,
    /// Whether nothing older can exist below what is merged.
    base: bool,
    /// The rowsets that are being moved, ascending.
    moving: &'a [RowsetId],
    list: Vec<Entry>,
    counts: MergeCounts,
}

/// A list has rarely more entries than this; a longer buffer is not kept.
const LIST_ENTRIES_KEPT: usize = 4096;

impl<'a> KeyValueMerger<'a> {
    /// A merger that keeps what `retention` needs.
    ///
    /// `base` says that nothing older than what is merged can exist anywhere: only then do deletions go. `moving` are
    /// the rowsets to move rows out of, ascending.
    #[must_use]
    pub fn new(retention: &'a Retention, base: bool, moving: &'a [RowsetId]) -> KeyValueMerger<'a> {
        assert!(moving.is_sorted(), "rowsets to move are given in ascending order");
        KeyValueMerger { retention, base, moving, list: Vec::new(), counts: MergeCounts::default() }
    }

    /// The entry of a key's only list, if there is nothing to it: the list passes as the bytes it is. If not, nothing
    /// was done, and [`KeyValueMerger::merge`] does it.
    #[inline(always)]
    pub(crate) fn pass(&mut self, list: &[u8]) -> Option<Entry> {
        let entry = wire::only_entry(list)?;
        let rowset = entry.location()?.rowset;
        if self.is_moving(rowset) {
            return None;
        }
        self.counts.keys += 1;
        self.counts.lists_in += 1;
        self.counts.entries_in += 1;
        self.counts.keys_passed += 1;
        self.counts.rowsets_in.add(rowset, 1);
        Some(entry)
    }

    /// Merges the lists of `key`: each with the file that it comes from, the newest first, at least one.
    ///
    /// # Errors
    /// [`Error::Entries`] if a list is damaged, [`Error::VersionOrder`] if a source holds a version that is not older
    /// than all of the source before it, [`Error::Relocate`], [`Error::RelocatedInto`].
    #[inline]
    pub fn merge<'v>(
        &mut self,
        key: &[u8],
        mut lists: impl ExactSizeIterator<Item = (FileId, &'v [u8])>,
        relocate: &mut dyn Relocate,
    ) -> Result<Merged<'_>> {
        self.counts.keys += 1;
        self.counts.lists_in += lists.len() as u64;
        recycle(&mut self.list, LIST_ENTRIES_KEPT);
        let Some((file, list)) = lists.next() else {
            return Ok(Merged::Nothing);
        };
        let newest = wire::peek(list).map_err(|reason| Error::Entries { file, reason })?;
        match newest {
            Peek::One(entry) if lists.len() == 0 => return self.merge_one(key, &entry, relocate),
            Peek::One(entry) => self.list.push(entry),
            Peek::Several(_) => self.append(file, list)?,
        }
        for (file, list) in lists {
            self.append(file, list)?;
        }
        self.merge_list(key, matches!(newest, Peek::One(_)), relocate)
    }

    /// What it has seen and done so far.
    #[must_use]
    pub fn counts(&self) -> &MergeCounts {
        &self.counts
    }

    pub(crate) fn into_counts(self) -> MergeCounts {
        self.counts
    }

    /// The key's only version: needed by whoever reads now, unless it says only that there is nothing.
    #[inline]
    fn merge_one(&mut self, key: &[u8], entry: &Entry, relocate: &mut dyn Relocate) -> Result<Merged<'_>> {
        self.counts.entries_in += 1;
        match entry.place {
            Place::Deleted => {
                self.counts.deletions_in += 1;
                if self.base {
                    self.counts.entries_dropped += 1;
                    return Ok(Merged::Nothing);
                }
            }
            Place::At(location) => {
                self.counts.rowsets_in.add(location.rowset, 1);
                if self.is_moving(location.rowset) {
                    self.list.push(*entry);
                    self.relocate_list(key, relocate)?;
                    return Ok(Merged::List(&self.list));
                }
            }
        }
        self.counts.keys_passed += 1;
        Ok(Merged::Pass(*entry))
    }

    /// `newest_is_one` says that the list of the newest source has one version.
    fn merge_list(
        &mut self,
        key: &[u8],
        newest_is_one: bool,
        relocate: &mut dyn Relocate,
    ) -> Result<Merged<'_>> {
        let entries_in = self.list.len();
        self.counts.entries_in += entries_in as u64;
        for entry in &self.list {
            match entry.place {
                Place::At(location) => self.counts.rowsets_in.add(location.rowset, 1),
                Place::Deleted => self.counts.deletions_in += 1,
            }
        }
        self.retention.retain(&mut self.list, self.base);
        self.counts.entries_dropped += (entries_in - self.list.len()) as u64;
        match self.list[..] {
            [] => Ok(Merged::Nothing),
            [newest] if newest_is_one && !newest.location().is_some_and(|at| self.is_moving(at.rowset)) => {
                self.counts.keys_passed += 1;
                Ok(Merged::Pass(newest))
            }
            _ => {
                self.relocate_list(key, relocate)?;
                Ok(Merged::List(&self.list))
            }
        }
    }

    /// Appends the list of an older source to what the newer ones gave.
    fn append(&mut self, file: FileId, list: &[u8]) -> Result<()> {
        let before = self.list.len();
        wire::decode(list, &mut self.list).map_err(|reason| Error::Entries { file, reason })?;
        if before > 0 {
            let (newer, older) = (self.list[before - 1].version, self.list[before].version);
            if older >= newer {
                return Err(Error::VersionOrder { file, newer, older });
            }
        }
        Ok(())
    }

    fn relocate_list(&mut self, key: &[u8], relocate: &mut dyn Relocate) -> Result<()> {
        if self.moving.is_empty() {
            return Ok(());
        }
        for index in 0..self.list.len() {
            let entry = self.list[index];
            let Some(from) = entry.location().filter(|from| self.is_moving(from.rowset)) else {
                continue;
            };
            let to = relocate.relocate(key, entry, from).map_err(|error| Error::Relocate(error.into()))?;
            if self.is_moving(to.rowset) {
                return Err(Error::RelocatedInto { rowset: to.rowset });
            }
            self.list[index].place = Place::At(to);
            self.counts.entries_moved += 1;
        }
        Ok(())
    }

    #[inline]
    fn is_moving(&self, rowset: RowsetId) -> bool {
        !self.moving.is_empty() && self.moving.binary_search(&rowset).is_ok()
    }
}

#[cfg(test)]
mod tests;
