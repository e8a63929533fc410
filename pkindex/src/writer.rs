//! Writes an index run: entries in key order into files of a target size. Flush and compaction write with it.
//!
//! Never leaves a file behind that it does not answer for: what it made is returned by `finish`, or removed.
//!
//! Invariant: keys increase strictly, over all the files.
//! Invariant: no file without entries, no key without entries.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use codec::{FileId, KeyHash};
use sstable::{Compression, FileInfo, KeyedWriter, WriterOptions, WriterScratch};
use vfs::Fs;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::merger::recycle;
use crate::properties::{Properties, PropertiesBuilder};
use crate::wire;

/// Where new files go. The engine gives numbers and paths, and the disk.
pub trait Output: Send + Sync {
    /// A number that was never used, and the path of an index file of that number.
    ///
    /// # Errors
    /// If there is no number any more.
    fn next_file(&self) -> io::Result<(FileId, PathBuf)>;

    /// The disk.
    fn fs(&self) -> &dyn Fs;
}

/// How a run is written.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How each file is written. Default: as any sstable, but not compressed.
    pub file: WriterOptions,
    /// At how many bytes a file ends and the next begins. Default 64 MiB: smaller files move whole more often, larger
    /// ones are fewer to open.
    pub file_bytes: u64,
    /// Whose files they are: kept as [`Properties::owner`], and never looked into. Default: nobody's.
    pub owner: Arc<[u8]>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        let file = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
        RunOptions { file, file_bytes: 64 << 20, owner: Arc::default() }
    }
}

/// A file that was written and synced. Its directory was not.
#[derive(Clone, Debug)]
pub struct WrittenFile {
    /// What the file is known by.
    pub info: FileInfo,
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub properties: Properties,
}

/// Writes the files of a run.
pub struct RunWriter<'a> {
    output: &'a dyn Output,
    options: &'a RunOptions,
    open: Option<Open>,
    finished: Vec<WrittenFile>,
    /// The path of the file that is being written.
    unfinished: Option<PathBuf>,
    list: Vec<u8>,
    /// The memory of the file before.
    scratch: WriterScratch,
}

struct Open {
    id: FileId,
    writer: KeyedWriter,
    properties: PropertiesBuilder,
}

/// A list has rarely more bytes than this; a longer buffer is not kept.
const LIST_BYTES_KEPT: usize = 64 << 10;

impl<'a> RunWriter<'a> {
    /// A writer that makes its first file when the first key comes.
    #[must_use]
    pub fn new(output: &'a dyn Output, options: &'a RunOptions) -> RunWriter<'a> {
        RunWriter::with_scratch(output, options, WriterScratch::default())
    }

    /// A writer with the memory of another one.
    pub(crate) fn with_scratch(
        output: &'a dyn Output,
        options: &'a RunOptions,
        scratch: WriterScratch,
    ) -> RunWriter<'a> {
        RunWriter {
            output,
            options,
            open: None,
            finished: Vec::new(),
            unfinished: None,
            list: Vec::new(),
            scratch,
        }
    }

    /// Writes a key with its entries, newest first; nothing if there are none. `hash` is the key's
    /// [`codec::hash_key`], if it is known already.
    ///
    /// # Errors
    /// [`Error::KeyOrder`] if the key does not come after the last one, [`Error::Io`], [`Error::Sstable`]. Then only
    /// [`RunWriter::abandon`] is left.
    ///
    /// # Panics
    /// If the entries are not in order: what would be written could not be read.
    #[inline]
    pub fn add(&mut self, key: &[u8], hash: Option<KeyHash>, entries: &[Entry]) -> Result<()> {
        let Some(oldest) = entries.last() else {
            return Ok(());
        };
        assert!(
            oldest.version.0 > 0 && entries.is_sorted_by(|newer, older| newer.version > older.version),
            "the entries of a key are given newest first"
        );
        recycle(&mut self.list, LIST_BYTES_KEPT);
        wire::encode(entries, &mut self.list);
        let list = std::mem::take(&mut self.list);
        let added = self.add_list(key, hash, &list, entries);
        self.list = list;
        added
    }

    /// Writes a key with a list that is encoded already and says `entries`, which the caller read from it.
    ///
    /// # Errors
    /// As [`RunWriter::add`].
    #[inline]
    pub fn add_encoded(&mut self, key: &[u8], list: &[u8], entries: &[Entry]) -> Result<()> {
        self.add_list(key, None, list, entries)
    }

    #[inline(always)]
    fn add_list(&mut self, key: &[u8], hash: Option<KeyHash>, list: &[u8], entries: &[Entry]) -> Result<()> {
        if self.open.is_none() {
            self.begin_file(key)?;
        }
        let open = self.open.as_mut().expect("a file was opened for the key");
        if !open.writer.add_if_above(key, hash, list)? {
            return Err(Error::KeyOrder { file: open.id });
        }
        open.properties.add(key, entries);
        self.close_if_full()
    }

    /// Ends the last file. Each file is written and synced; the directory is the caller's to sync.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Sstable`]. The files are removed then.
    pub fn finish(self) -> Result<Vec<WrittenFile>> {
        self.finish_with_scratch().0
    }

    /// Like [`RunWriter::finish`], and gives the memory for the next writer.
    pub(crate) fn finish_with_scratch(mut self) -> (Result<Vec<WrittenFile>>, WriterScratch) {
        match self.close() {
            Ok(()) => (Ok(self.finished), self.scratch),
            Err(error) => (Err(error), self.abandon_with_scratch()),
        }
    }

    /// Removes what was written. What cannot be removed is left as an orphan, which the next open removes.
    pub fn abandon(self) {
        self.abandon_with_scratch();
    }

    /// Like [`RunWriter::abandon`], and gives the memory for the next writer.
    pub(crate) fn abandon_with_scratch(mut self) -> WriterScratch {
        if let Some(open) = self.open.take() {
            self.scratch = open.writer.abandon();
        }
        for path in self.finished.iter().map(|file| &file.path).chain(&self.unfinished) {
            let _ = self.output.fs().remove(path);
        }
        self.scratch
    }

    fn begin_file(&mut self, key: &[u8]) -> Result<()> {
        let (id, path) = self.output.next_file().map_err(Error::from_io("a number for an index file"))?;
        if self.finished.last().is_some_and(|file| key <= &file.info.last_key[..]) {
            return Err(Error::KeyOrder { file: id });
        }
        let path = self.unfinished.insert(path);
        let scratch = std::mem::take(&mut self.scratch);
        let writer = KeyedWriter::create_with(self.output.fs(), path, id, &self.options.file, scratch)?;
        self.open = Some(Open { id, writer, properties: PropertiesBuilder::default() });
        Ok(())
    }

    #[inline]
    fn close_if_full(&mut self) -> Result<()> {
        match &self.open {
            Some(open) if open.writer.written_bytes() >= self.options.file_bytes => self.close(),
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let last_key = open.writer.last_key().expect("a file is opened for a key");
        let properties = open.properties.build(last_key, &self.options.owner);
        let (info, scratch) = open.writer.finish_with_scratch(&properties.encode());
        self.scratch = scratch;
        let info = info?;
        let path = self.unfinished.take().expect("the open file has a path");
        self.finished.push(WrittenFile { info, path, properties });
        Ok(())
    }
}
