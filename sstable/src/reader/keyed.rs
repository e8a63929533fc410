//! Reads a keyed file.

use std::path::Path;
use std::sync::Arc;

use codec::{FileId, KeyHash};
use vfs::Fs;

use crate::block::{self, keyed};
use crate::block::{Block, BlockSlice, Handle, Shape};
use crate::cache::Cache;
use crate::error::Result;
use crate::filter;
use crate::header::FileKind;
use crate::index;
use crate::index::root::Root;
use crate::input::{Head, Input};
use crate::iter::KeyedIter;
use crate::options::FileInfo;
use crate::pinned::{Held, Pinned};
use crate::readahead::Caching;
use crate::verify::{self, First, Verifier, VerifyReport};

/// An open keyed file. Example at [`crate::KeyedWriter`].
#[derive(Debug)]
pub struct KeyedReader {
    input: Input,
    head: Head,
    filters: Pinned,
    indexes: Pinned,
}

impl Drop for KeyedReader {
    fn drop(&mut self) {
        self.filters.unpin(&self.input);
        self.indexes.unpin(&self.input);
    }
}

impl KeyedReader {
    /// Opens a file and checks what stays in memory of it. `expect` is the length and the footer checksum that the
    /// file was finished with: with them, another file of the same number is refused.
    ///
    /// # Errors
    /// [`crate::Error::Io`]; [`crate::Error::UnsupportedFormat`]; those of a damaged, cut or exchanged file.
    pub fn open(
        fs: &dyn Fs,
        path: &Path,
        id: FileId,
        cache: Arc<Cache>,
        expect: Option<(u64, u32)>,
    ) -> Result<Arc<KeyedReader>> {
        let (input, head) = Input::open(fs, path, id, FileKind::Keyed, cache, expect)?;
        if let Some(at) = head.root.disorder() {
            let offset = head.footer.root.offset;
            return Err(input.mismatch(offset, "order of the index partitions", at as u64, at as u64 - 1));
        }
        let partitions = head.root.partitions().len();
        let (filters, indexes) =
            (Pinned::new(Shape::Filter, partitions), Pinned::new(Shape::KeyedIndex, partitions));
        Ok(Arc::new(KeyedReader { input, head, filters, indexes }))
    }

    /// The file's number.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.input.id()
    }

    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.head.properties.entries
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.input.len()
    }

    /// What its owner gave at the end.
    #[must_use]
    pub fn user_properties(&self) -> &[u8] {
        &self.head.properties.user
    }

    /// The first key; empty if there are no entries.
    #[must_use]
    pub fn first_key(&self) -> &[u8] {
        &self.head.properties.first_key
    }

    /// The last key; empty if there are no entries.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.head.properties.last_key
    }

    /// What the file is known by; equal to what its writer gave.
    #[must_use]
    pub fn info(&self) -> FileInfo {
        self.input.info(&self.head)
    }

    /// The value of `key`, whose hash is `hash` (see [`codec::hash_key`]). Allocates nothing if the blocks are cached.
    ///
    /// # Errors
    /// Those of the disk and of damaged blocks; a damaged filter or index is never taken for "absent".
    pub fn get(&self, key: &[u8], hash: KeyHash) -> Result<Option<BlockSlice>> {
        let partition = self.head.root.find_key(key);
        let Some(place) = self.head.root.partitions().get(partition) else {
            return Ok(None);
        };
        if let Some(handle) = place.filter {
            let filter = self.filters.get(&self.input, partition, handle, |_| Ok(()))?;
            if !filter::may_contain(&filter, hash) {
                return Ok(None);
            }
        }
        let partition = self.held_partition(partition)?;
        let entry = self.find_block(&partition, key)?;
        let block = self.input.block(Shape::Keyed, index::keyed::handle(&partition, entry)?)?;
        let value = keyed::find(&block, key)?;
        Ok(value.map(|(start, end)| BlockSlice::new(block, start, end)))
    }

    /// An iterator over the file, which it keeps open. It stands nowhere until it is told where.
    #[must_use]
    pub fn iter(self: &Arc<Self>) -> KeyedIter {
        KeyedIter::new(Arc::clone(self))
    }

    /// For each data block a key at or above all of its keys and below those of the next, and its bytes on disk. Reads
    /// the index only. For cutting the file into ranges of similar size.
    ///
    /// # Errors
    /// Those of the disk and of a damaged index.
    pub fn block_boundaries(&self) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut boundaries = Vec::new();
        self.for_each_block(Caching::Fill, |key, bytes| boundaries.push((key.to_vec(), bytes)))?;
        Ok(boundaries)
    }

    /// Tells what [`KeyedReader::block_boundaries`] gives, block by block, and allocates nothing for them. `caching`
    /// says whether the index is put into the cache, as far as it was not there.
    ///
    /// # Errors
    /// As [`KeyedReader::block_boundaries`].
    pub fn for_each_block(&self, caching: Caching, mut each: impl FnMut(&[u8], u64)) -> Result<()> {
        let mut spare = None;
        for partition in 0..self.root().partitions().len() {
            let index = match caching {
                Caching::Fill => self.partition(partition)?,
                Caching::Leave => self.partition_past_cache(partition, spare)?,
            };
            for entry in 0..index.items {
                let handle = index::keyed::handle(&index, entry)?;
                each(keyed::restart_key(&index, entry)?, u64::from(handle.len));
            }
            spare = block::spare(Some(index));
        }
        Ok(())
    }

    /// Reads the whole file from the disk, past the cache, and checks every checksum, the order of the keys, the
    /// separators, the counts, and that the filter knows every key.
    ///
    /// # Errors
    /// The first damage that is found, or the disk's error.
    pub fn verify(&self) -> Result<VerifyReport> {
        let mut first = First::default();
        let report = self.verify_with(&mut first)?;
        first.or(report)
    }

    /// Like [`KeyedReader::verify`], but goes on after damage: `verifier` is told of everything that is wrong, and
    /// given everything that can be read.
    ///
    /// # Errors
    /// The disk's error. Damage is none.
    pub fn verify_with(&self, verifier: &mut dyn Verifier) -> Result<VerifyReport> {
        verify::keyed(&self.input, verifier)
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn root(&self) -> &Root {
        &self.head.root
    }

    /// A partition of the index, to be kept.
    pub(crate) fn partition(&self, partition: usize) -> Result<Arc<Block>> {
        Ok(self.held_partition(partition)?.to_shared())
    }

    #[inline]
    fn held_partition(&self, partition: usize) -> Result<Held<'_>> {
        let handle = self.head.root.partitions()[partition].index;
        self.indexes.get(&self.input, partition, handle, |block| self.check_partition(partition, block))
    }

    /// A partition of the index, which is not put into the cache, in the memory of a block that nobody needs any more.
    pub(crate) fn partition_past_cache(
        &self,
        partition: usize,
        spare: Option<Arc<Block>>,
    ) -> Result<Arc<Block>> {
        if let Some(block) = self.indexes.held(partition) {
            return Ok(Arc::clone(block));
        }
        let handle = self.head.root.partitions()[partition].index;
        let block = match self.input.cache().get(Shape::KeyedIndex, self.id(), handle.offset) {
            Some(block) => block,
            None => self.input.read_into(Shape::KeyedIndex, handle, spare)?,
        };
        self.check_partition(partition, &block)?;
        Ok(block)
    }

    fn check_partition(&self, partition: usize, block: &Block) -> Result<()> {
        let place = &self.head.root.partitions()[partition];
        if block.items as u64 != place.blocks {
            return Err(block.mismatch("blocks in an index partition", place.blocks as usize, block.items));
        }
        Ok(())
    }

    /// The only block of a partition that can hold `key`, where the root says that the partition reaches so far.
    pub(crate) fn find_block(&self, partition: &Block, key: &[u8]) -> Result<usize> {
        let entry = keyed::restart_at_or_above(partition, key)?;
        if entry < partition.items {
            return Ok(entry);
        }
        Err(partition.mismatch("blocks of a partition at or above its separator", 1, 0))
    }

    /// The place of a data block.
    pub(crate) fn handle(&self, partition: &Block, entry: usize) -> Result<Handle> {
        index::keyed::handle(partition, entry)
    }
}
