//! Reads an ordinal file.

use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use vfs::Fs;

use crate::block::{Block, BlockSlice, Handle, Shape, ordinal};
use crate::cache::Cache;
use crate::cursor::{Direction, OrdinalCursor};
use crate::error::{Error, Result};
use crate::header::FileKind;
use crate::index;
use crate::index::root::Root;
use crate::input::{Head, Input};
use crate::options::{Compression, FileInfo};
use crate::pinned::{Held, Pinned};
use crate::verify::{self, First, Verifier, VerifyReport};

/// An open ordinal file. Example at [`crate::OrdinalWriter`].
#[derive(Debug)]
pub struct OrdinalReader {
    input: Input,
    head: Head,
    rows: u32,
    indexes: Pinned,
}

impl Drop for OrdinalReader {
    fn drop(&mut self) {
        self.indexes.unpin(&self.input);
    }
}

/// One data block's rows, as the index tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) handle: Handle,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl OrdinalReader {
    /// Opens a file and checks what stays in memory of it. `expect` is the length and the footer checksum that the
    /// file was finished with: with them, another file of the same number is refused.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::UnsupportedFormat`]; those of a damaged, cut or exchanged file.
    pub fn open(
        fs: &dyn Fs,
        path: &Path,
        id: FileId,
        cache: Arc<Cache>,
        expect: Option<(u64, u32)>,
    ) -> Result<Arc<OrdinalReader>> {
        let (input, head) = Input::open(fs, path, id, FileKind::Ordinal, cache, expect)?;
        let Ok(rows) = u32::try_from(head.properties.entries) else {
            let offset = head.footer.properties.offset;
            let max = u64::from(u32::MAX);
            return Err(input.mismatch(offset, "greatest count of rows", max, head.properties.entries));
        };
        let indexes = Pinned::new(Shape::OrdinalIndex, head.root.partitions().len());
        Ok(Arc::new(OrdinalReader { input, head, rows, indexes }))
    }

    /// The file's number.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.input.id()
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.input.len()
    }

    /// How its data blocks were to be compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.head.properties.compression
    }

    /// What its owner gave at the end.
    #[must_use]
    pub fn user_properties(&self) -> &[u8] {
        &self.head.properties.user
    }

    /// What the file is known by; equal to what its writer gave.
    #[must_use]
    pub fn info(&self) -> FileInfo {
        self.input.info(&self.head)
    }

    /// The row at `ordinal`. Allocates nothing if the blocks are cached.
    ///
    /// # Errors
    /// [`Error::NoSuchRow`]; those of the disk and of damaged blocks.
    pub fn get(&self, ordinal: u32) -> Result<BlockSlice> {
        let partition = self.find_partition(ordinal)?;
        let index = self.held_partition(partition)?;
        let rows = self.rows_of(partition, &index, self.find_block(partition, &index, ordinal))?;
        let block = self.input.block(Shape::Ordinal, rows.handle)?;
        let (start, end) = rows.row(&block, ordinal)?;
        Ok(BlockSlice::new(block, start, end))
    }

    /// A cursor for many rows whose ordinals go one way. It keeps the file open.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, direction: Direction) -> OrdinalCursor {
        OrdinalCursor::new(Arc::clone(self), direction)
    }

    /// Reads the whole file from the disk, past the cache, and checks every checksum, the ordinals and the counts.
    ///
    /// # Errors
    /// The first damage that is found, or the disk's error.
    pub fn verify(&self) -> Result<VerifyReport> {
        let mut first = First::default();
        let report = self.verify_with(&mut first)?;
        first.or(report)
    }

    /// Like [`OrdinalReader::verify`], but goes on after damage: `verifier` is told of everything that is wrong, and
    /// given everything that can be read.
    ///
    /// # Errors
    /// The disk's error. Damage is none.
    pub fn verify_with(&self, verifier: &mut dyn Verifier) -> Result<VerifyReport> {
        verify::ordinal(&self.input, verifier)
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn root(&self) -> &Root {
        &self.head.root
    }

    /// The partition that holds `ordinal`.
    #[inline]
    pub(crate) fn find_partition(&self, ordinal: u32) -> Result<usize> {
        if ordinal < self.rows {
            return Ok(self.head.root.find_ordinal(u64::from(ordinal)));
        }
        Err(Error::NoSuchRow { file: self.input.id(), ordinal, rows: u64::from(self.rows) })
    }

    /// A partition of the index, to be kept.
    #[inline]
    pub(crate) fn partition(&self, partition: usize) -> Result<Arc<Block>> {
        Ok(self.held_partition(partition)?.to_shared())
    }

    #[inline]
    fn held_partition(&self, partition: usize) -> Result<Held<'_>> {
        let place = &self.head.root.partitions()[partition];
        self.indexes.get(&self.input, partition, place.index, |block| {
            if block.items as u64 == place.blocks {
                return Ok(());
            }
            Err(block.mismatch("blocks in an index partition", place.blocks as usize, block.items))
        })
    }

    /// The block of a partition that holds `ordinal`.
    #[inline]
    pub(crate) fn find_block(&self, partition: usize, index: &Block, ordinal: u32) -> usize {
        let place = &self.head.root.partitions()[partition];
        index::ordinal::find(index, ordinal, place.entries_before, place.entries_before + place.entries)
    }

    /// What the index tells of one block.
    #[inline]
    pub(crate) fn rows_of(&self, partition: usize, index: &Block, entry: usize) -> Result<Rows> {
        rows_of(&self.head.root, partition, index, entry)
    }
}

/// What a partition tells of one block.
#[inline]
pub(crate) fn rows_of(root: &Root, partition: usize, index: &Block, entry: usize) -> Result<Rows> {
    let first = index::ordinal::first(index, entry);
    let end = if entry + 1 < index.items {
        u64::from(index::ordinal::first(index, entry + 1))
    } else {
        let place = &root.partitions()[partition];
        place.entries_before + place.entries
    };
    match end.checked_sub(u64::from(first)).map(u32::try_from) {
        Some(Ok(count)) if count > 0 => {
            Ok(Rows { handle: index::ordinal::handle(index, entry)?, first, count })
        }
        _ => Err(index.mismatch("end of a block's rows", end as usize, first as usize)),
    }
}

impl Rows {
    /// Where the row at `ordinal` lies in the block, which must have as many rows as the index says.
    #[inline]
    pub(crate) fn row(&self, block: &Block, ordinal: u32) -> Result<(usize, usize)> {
        if block.items != self.count as usize {
            return Err(block.mismatch("rows in a block", self.count as usize, block.items));
        }
        match ordinal.checked_sub(self.first) {
            Some(index) if index < self.count => ordinal::row(block, index as usize),
            _ => Err(block.mismatch("first ordinal of a block", ordinal as usize, self.first as usize)),
        }
    }
}
