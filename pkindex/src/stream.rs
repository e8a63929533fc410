//! Reads the keys of a run front to back, a block's worth at a time: what a compaction merges.
//!
//! A cursor finds the way, from block to block and from file to file; between that, to move on is to count up.
//! Never goes backwards, never skips what it cannot read.

use codec::FileId;
use sstable::{BlockEntries, KeyedIter};

use crate::cursor::RunCursor;
use crate::error::{Error, Result};
use crate::merge::Source;

/// Walks the keys of a run forward, all of those that its cursor would have shown.
#[derive(Debug)]
pub struct RunStream {
    /// Stands on the last of the entries.
    cursor: RunCursor,
    entries: BlockEntries,
    at: usize,
    /// Where the entries come from.
    file: FileId,
}

/// The memory that a stream works with, to be handed from one to the next.
#[derive(Debug, Default)]
pub(crate) struct StreamScratch {
    pub(crate) iter: Option<KeyedIter>,
    pub(crate) entries: BlockEntries,
}

impl RunStream {
    /// A stream that begins at the cursor's key. The cursor goes forward.
    ///
    /// # Errors
    /// [`Error::Sstable`] if the block is damaged.
    pub fn new(cursor: RunCursor) -> Result<RunStream> {
        RunStream::reusing(cursor, BlockEntries::default())
    }

    /// The same, with the memory of one that has done its work.
    pub(crate) fn reusing(cursor: RunCursor, entries: BlockEntries) -> Result<RunStream> {
        let mut stream = RunStream { cursor, entries, at: 0, file: FileId(0) };
        stream.take_block()?;
        Ok(stream)
    }

    /// The encoded list of the key that it stands on; empty, which no list is, if it stands on none.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.entries.value(self.at).unwrap_or_default()
    }

    /// The file that the key comes from.
    #[must_use]
    #[inline]
    pub fn file(&self) -> FileId {
        self.file
    }

    pub(crate) fn into_scratch(self) -> StreamScratch {
        let RunStream { cursor, mut entries, .. } = self;
        entries.clear();
        StreamScratch { iter: cursor.into_spare(), entries }
    }

    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        // The cursor reads the next block into the memory of this one.
        self.entries.clear();
        self.cursor.advance()?;
        self.take_block()
    }

    fn take_block(&mut self) -> Result<()> {
        self.at = 0;
        if let Some(file) = self.cursor.take_block(&mut self.entries)? {
            self.file = file;
        }
        Ok(())
    }
}

impl Source for RunStream {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.entries.key(self.at)
    }

    #[inline]
    fn next_key(&self) -> Option<&[u8]> {
        self.entries.key(self.at + 1)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at < self.entries.len() { Ok(()) } else { self.next_block() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use codec::{Location, Version};
    use proptest::prelude::*;
    use sstable::{Direction, WriterOptions};

    use super::*;
    use crate::model::Disk;
    use crate::{Entry, RunOptions};

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        let key = proptest::collection::vec(0u8..4, 0..4);
        prop_oneof![
            Just(Bound::Unbounded),
            key.clone().prop_map(Bound::Included),
            key.prop_map(Bound::Excluded)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_stream_shows_what_the_cursor_would_have_shown(
            keys in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..5), 1..150),
            block_bytes in 32usize..400,
            file_bytes in 100u64..3000,
            start in bound(),
            end in bound(),
        ) {
            let disk = Disk::new();
            let file = WriterOptions { block_bytes, ..WriterOptions::default() };
            let entry = |at: usize| Entry::put(Version(at as u64 + 1), Location::default());
            let lists: BTreeMap<_, _> = keys.iter().cloned().zip((0..).map(|at| vec![entry(at)])).collect();
            let run = disk.write(&lists, &RunOptions { file, file_bytes, ..RunOptions::default() }).expect("there are keys");
            let bounds = (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
            let mut cursor = run.cursor(Direction::Forward, &bounds).expect("sound files");
            let mut stream =
                RunStream::new(run.cursor(Direction::Forward, &bounds).expect("sound files")).expect("sound");
            while let Some(key) = cursor.key() {
                prop_assert_eq!(stream.key(), Some(key));
                prop_assert_eq!((stream.file(), stream.value()), (cursor.file(), cursor.value()));
                cursor.advance().expect("sound files");
                stream.advance().expect("sound files");
            }
            for _ in 0..2 {
                prop_assert_eq!(stream.key(), None);
                stream.advance().expect("the end is no error");
            }
        }
    }
}
