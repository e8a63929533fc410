//! Writes an ordinal file.

use std::path::Path;

use codec::FileId;
use vfs::Fs;

use crate::block::Shape;
use crate::block::keyed::VALUE_BYTES_MAX;
use crate::block::ordinal::OrdinalBuilder;
use crate::compress::{Compressor, TAG_LZ4, TAG_RAW};
use crate::error::{Error, Result};
use crate::header::FileKind;
use crate::index::ordinal::OrdinalIndexBuilder;
use crate::index::root::Root;
use crate::options::{FileInfo, WriterOptions};
use crate::output::Output;
use crate::properties::Properties;

/// Writes rows, which get the ordinals 0, 1, 2 and so on.
///
/// ```
/// use nyala_sstable::{Cache, OrdinalReader, OrdinalWriter, WriterOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("8.row");
/// let fs = vfs::OsFs::default();
/// let mut writer = OrdinalWriter::create(&fs, &path, codec::FileId(8), &WriterOptions::default())?;
/// assert_eq!(writer.push(&[b"version 1, ", b"a row"])?, 0);
/// let info = writer.finish(b"")?;
///
/// let reader = OrdinalReader::open(&fs, &path, info.id, Cache::new(1 << 20), None)?;
/// assert_eq!(reader.get(0)?.bytes(), b"version 1, a row");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OrdinalWriter {
    output: Output,
    block_bytes: usize,
    index_block_bytes: usize,
    compressor: Compressor,
    block: OrdinalBuilder,
    index: OrdinalIndexBuilder,
    root: Root,
    rows: u32,
    blocks: u64,
    /// The ordinal of the first row of `block`.
    block_first: u32,
}

impl OrdinalWriter {
    /// Makes the file, which must not exist. The caller syncs the directory, once the file is finished.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(fs: &dyn Fs, path: &Path, id: FileId, options: &WriterOptions) -> Result<OrdinalWriter> {
        Ok(OrdinalWriter {
            output: Output::create(fs, path, id, FileKind::Ordinal, options, Vec::new())?,
            block_bytes: options.block_bytes,
            index_block_bytes: options.index_block_bytes,
            compressor: Compressor::new(options.compression),
            block: OrdinalBuilder::default(),
            index: OrdinalIndexBuilder::default(),
            root: Root::default(),
            rows: 0,
            blocks: 0,
            block_first: 0,
        })
    }

    /// Adds a row, given in parts, and gives its ordinal.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a row of more than 64 MiB + 64 KiB, or more rows than a `u32` counts: nothing was added.
    /// [`Error::Io`], and from then on always.
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<u32> {
        self.output.check()?;
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if bytes > VALUE_BYTES_MAX {
            return Err(self.too_large("a row", bytes as u64, VALUE_BYTES_MAX as u64));
        }
        if self.rows == u32::MAX {
            return Err(self.too_large("a file by its rows", u64::from(self.rows) + 1, u64::from(u32::MAX)));
        }
        if !self.block.is_empty() && self.block.len_with(bytes) > self.block_bytes {
            self.write_block()?;
        }
        self.block.add(parts);
        let ordinal = self.rows;
        self.rows += 1;
        Ok(ordinal)
    }

    /// How long the file is by now, with what waits to be written, uncompressed.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.output.len() + self.block.len() as u64
    }

    /// How many rows were added: the next one's ordinal.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Writes what is left and syncs the file. `user_properties` are kept for the reader.
    ///
    /// # Errors
    /// [`Error::Io`]; the caller then removes the file.
    pub fn finish(mut self, user_properties: &[u8]) -> Result<FileInfo> {
        self.output.check()?;
        if !self.block.is_empty() {
            self.write_block()?;
        }
        if self.index.blocks() > 0 {
            self.write_partition()?;
        }
        let properties = Properties {
            entries: u64::from(self.rows),
            blocks: self.blocks,
            compression: self.compressor.compression(),
            user: user_properties.to_vec(),
            ..Properties::default()
        };
        self.output.finish(&self.root, properties)
    }

    /// Stops. The file stays as it is, without a footer; the caller removes it.
    pub fn abandon(self) {
        drop(self);
    }

    #[cold]
    fn too_large(&self, what: &'static str, bytes: u64, max: u64) -> Error {
        Error::TooLarge { file: self.output.id(), what, bytes, max }
    }

    fn write_block(&mut self) -> Result<()> {
        if self.index.len() >= self.index_block_bytes && self.index.blocks() > 0 {
            self.write_partition()?;
        }
        let payload = self.block.finish();
        let (tag, body) = match self.compressor.compress(payload) {
            Some(body) => (TAG_LZ4, body),
            None => (TAG_RAW, payload),
        };
        let handle = self.output.block(Shape::Ordinal, tag, body)?;
        self.index.add(self.block_first, handle);
        self.block.clear();
        self.blocks += 1;
        self.block_first = self.rows;
        Ok(())
    }

    /// Ends a partition: all rows before `block_first` that no partition holds yet.
    fn write_partition(&mut self) -> Result<()> {
        let first = self.index.first().expect("a partition that is written names a block");
        let blocks = self.index.blocks();
        let handle = self.output.block(Shape::OrdinalIndex, TAG_RAW, self.index.finish())?;
        self.index.clear();
        self.root.push(handle, None, blocks, u64::from(self.block_first - first), &[]);
        Ok(())
    }
}
