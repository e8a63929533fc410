//! Writes a keyed file.

use std::path::Path;

use codec::{FileId, KeyHash, hash_key};
use vfs::Fs;

use crate::block::keyed::{KEY_BYTES_MAX, KeyedBuilder, VALUE_BYTES_MAX, append, common_prefix};
use crate::block::{Handle, Shape};
use crate::compress::{Compressor, TAG_LZ4, TAG_RAW};
use crate::error::{Error, Result};
use crate::filter::{FilterBuilder, PARTITION_KEYS_MAX};
use crate::header::FileKind;
use crate::index::keyed::{KeyedIndexBuilder, separate};
use crate::index::root::Root;
use crate::options::{FileInfo, WriterOptions};
use crate::output::Output;
use crate::properties::Properties;

/// Writes keys and values in key order.
///
/// ```
/// use nyala_sstable::{Cache, KeyedReader, KeyedWriter, WriterOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("7.idx");
/// let fs = vfs::OsFs::default();
/// let mut writer = KeyedWriter::create(&fs, &path, codec::FileId(7), &WriterOptions::default())?;
/// writer.add(b"kudu", None, b"1")?;
/// writer.add(b"nyala", None, b"2")?;
/// let info = writer.finish(b"mine")?;
///
/// let expect = Some((info.len, info.footer_checksum));
/// let reader = KeyedReader::open(&fs, &path, info.id, Cache::new(1 << 20), expect)?;
/// let value = reader.get(b"nyala", codec::hash_key(b"nyala"))?.expect("it was added");
/// assert_eq!(value.bytes(), b"2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeyedWriter {
    output: Output,
    block_bytes: usize,
    index_block_bytes: usize,
    has_filter: bool,
    block: KeyedBuilder,
    compressor: Compressor,
    index: KeyedIndexBuilder,
    filter: FilterBuilder,
    root: Root,
    /// A block that is written but not in the index yet: its separator needs the key after it.
    unindexed: Option<Handle>,
    separator: Vec<u8>,
    last_key: Vec<u8>,
    first_key: Vec<u8>,
    entries: u64,
    blocks: u64,
    entries_in_partition: u64,
}

/// The memory that a [`KeyedWriter`] works with, to be handed from one to the next: some 3 MB with a filter.
#[derive(Debug, Default)]
pub struct WriterScratch {
    buffer: Vec<u8>,
    block: KeyedBuilder,
    index: KeyedIndexBuilder,
    filter: FilterBuilder,
    separator: Vec<u8>,
    last_key: Vec<u8>,
}

impl KeyedWriter {
    /// Makes the file, which must not exist. The caller syncs the directory, once the file is finished.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(fs: &dyn Fs, path: &Path, id: FileId, options: &WriterOptions) -> Result<KeyedWriter> {
        KeyedWriter::create_with(fs, path, id, options, WriterScratch::default())
    }

    /// Like [`KeyedWriter::create`], with the memory of a writer before.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create_with(
        fs: &dyn Fs,
        path: &Path,
        id: FileId,
        options: &WriterOptions,
        scratch: WriterScratch,
    ) -> Result<KeyedWriter> {
        let WriterScratch { buffer, mut block, mut index, mut filter, separator, mut last_key } = scratch;
        // The writer before may have been given up in the middle.
        block.begin(options.restart_interval);
        index.clear();
        filter.clear();
        last_key.clear();
        Ok(KeyedWriter {
            output: Output::create(fs, path, id, FileKind::Keyed, options, buffer)?,
            block_bytes: options.block_bytes,
            index_block_bytes: options.index_block_bytes,
            has_filter: options.filter,
            block,
            compressor: Compressor::new(options.compression),
            index,
            filter,
            root: Root::default(),
            unindexed: None,
            separator,
            last_key,
            first_key: Vec::new(),
            entries: 0,
            blocks: 0,
            entries_in_partition: 0,
        })
    }

    /// Adds an entry. `hash` is that of the key, if the caller has it.
    ///
    /// # Panics
    /// If `key` is not above the one before.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a key of more than 64 KiB or a value of more than 64 MiB + 64 KiB: nothing was added.
    /// [`Error::Io`], and from then on always.
    #[inline]
    pub fn add(&mut self, key: &[u8], hash: Option<KeyHash>, value: &[u8]) -> Result<()> {
        let is_above = self.add_if_above(key, hash, value)?;
        assert!(is_above, "keys are added to file {} in ascending order", self.output.id());
        Ok(())
    }

    /// Adds an entry, or adds nothing and says false if `key` is not above the one before. Otherwise as
    /// [`KeyedWriter::add`].
    ///
    /// # Errors
    /// As [`KeyedWriter::add`].
    pub fn add_if_above(&mut self, key: &[u8], hash: Option<KeyHash>, value: &[u8]) -> Result<bool> {
        self.output.check()?;
        self.check_size("a key", key, KEY_BYTES_MAX)?;
        self.check_size("a value", value, VALUE_BYTES_MAX)?;
        let shared = common_prefix(&self.last_key, key);
        if self.entries == 0 {
            self.first_key.extend_from_slice(key);
        } else if key.get(shared) <= self.last_key.get(shared) {
            return Ok(false);
        }
        if !self.block.is_empty() && self.block.len_with(key, shared, value) > self.block_bytes {
            self.write_block()?;
        }
        if let Some(handle) = self.unindexed.take() {
            separate(&self.last_key, key, &mut self.separator);
            self.index_block(handle)?;
        }
        self.block.add(key, shared, value);
        if self.has_filter {
            self.filter.add(hash.unwrap_or_else(|| hash_key(key)));
        }
        self.last_key.truncate(shared);
        append(&mut self.last_key, &key[shared..]);
        self.entries += 1;
        self.entries_in_partition += 1;
        Ok(true)
    }

    /// How long the file is by now, with what waits to be written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.output.len() + self.block.len() as u64
    }

    /// How many entries were added.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The key that was added last.
    #[must_use]
    pub fn last_key(&self) -> Option<&[u8]> {
        (self.entries > 0).then_some(self.last_key.as_slice())
    }

    /// Writes what is left and syncs the file. `user_properties` are kept for the reader.
    ///
    /// # Errors
    /// [`Error::Io`]; the caller then removes the file.
    pub fn finish(mut self, user_properties: &[u8]) -> Result<FileInfo> {
        self.finish_file(user_properties)
    }

    /// Like [`KeyedWriter::finish`], and gives the memory for the next writer.
    pub fn finish_with_scratch(mut self, user_properties: &[u8]) -> (Result<FileInfo>, WriterScratch) {
        (self.finish_file(user_properties), self.into_scratch())
    }

    fn finish_file(&mut self, user_properties: &[u8]) -> Result<FileInfo> {
        self.output.check()?;
        if !self.block.is_empty() {
            self.write_block()?;
        }
        if let Some(handle) = self.unindexed.take() {
            self.separator.clone_from(&self.last_key);
            self.index_block(handle)?;
        }
        if self.index.blocks() > 0 {
            self.write_partition()?;
        }
        let properties = Properties {
            entries: self.entries,
            blocks: self.blocks,
            compression: self.compressor.compression(),
            first_key: self.first_key.clone(),
            last_key: self.last_key.clone(),
            user: user_properties.to_vec(),
        };
        self.output.finish(&self.root, properties)
    }

    /// Stops. The file stays as it is, without a footer; the caller removes it. Gives the memory for the next writer.
    pub fn abandon(self) -> WriterScratch {
        self.into_scratch()
    }

    fn into_scratch(self) -> WriterScratch {
        let KeyedWriter { output, block, index, filter, separator, last_key, .. } = self;
        WriterScratch { buffer: output.into_buffer(), block, index, filter, separator, last_key }
    }

    fn check_size(&self, what: &'static str, bytes: &[u8], max: usize) -> Result<()> {
        if bytes.len() <= max {
            return Ok(());
        }
        let (bytes, max) = (bytes.len() as u64, max as u64);
        Err(Error::TooLarge { file: self.output.id(), what, bytes, max })
    }

    fn write_block(&mut self) -> Result<()> {
        let payload = self.block.finish();
        let (tag, body) = match self.compressor.compress(payload) {
            Some(body) => (TAG_LZ4, body),
            None => (TAG_RAW, payload),
        };
        let handle = self.output.block(Shape::Keyed, tag, body)?;
        self.block.clear();
        self.blocks += 1;
        self.unindexed = Some(handle);
        Ok(())
    }

    /// Takes a block into the index, under `self.separator`.
    fn index_block(&mut self, handle: Handle) -> Result<()> {
        self.index.add(&self.separator, handle);
        let is_full = self.index.len() >= self.index_block_bytes
            || self.entries_in_partition >= PARTITION_KEYS_MAX as u64;
        if is_full { self.write_partition() } else { Ok(()) }
    }

    /// Ends a partition, under `self.separator`.
    fn write_partition(&mut self) -> Result<()> {
        let filter = match self.filter.finish() {
            Some(payload) => Some(self.output.block(Shape::Filter, TAG_RAW, payload)?),
            None => None,
        };
        let blocks = self.index.blocks();
        let index = self.output.block(Shape::KeyedIndex, TAG_RAW, self.index.finish())?;
        self.index.clear();
        self.root.push(index, filter, blocks, self.entries_in_partition, &self.separator);
        self.entries_in_partition = 0;
        Ok(())
    }
}
