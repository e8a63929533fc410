//! Writes one new file from front to back, in large pieces.
//!
//! Invariant: after a failed write nothing more is written, and each later call gives the first failure.
//! Never removes a file: who made it does.

use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use vfs::{File, Fs};

use crate::block::{self, Handle, Shape};
use crate::compress::TAG_RAW;
use crate::error::{Error, Result};
use crate::footer::{self, Footer};
use crate::header::{self, FileKind};
use crate::index::root::Root;
use crate::options::{FileInfo, WriterOptions};
use crate::properties::Properties;

/// How much is gathered before a write.
const CHUNK_BYTES: usize = 256 << 10;

/// One file in the making.
#[derive(Debug)]
pub(crate) struct Output {
    file: Arc<dyn File>,
    id: FileId,
    kind: FileKind,
    buffer: Vec<u8>,
    /// Bytes of the file before the buffer's first.
    flushed: u64,
    /// Bytes that the disk was asked to begin writing.
    writeback: u64,
    writeback_bytes: u64,
    /// Bytes that were synced.
    synced: u64,
    sync_bytes: u64,
    /// See [`footer::chain`].
    contents: u32,
    failed: Option<Error>,
}

impl Output {
    /// Makes the file and begins it with its header. `buffer` is memory to use, with anything in it.
    pub(crate) fn create(
        fs: &dyn Fs,
        path: &Path,
        id: FileId,
        kind: FileKind,
        options: &WriterOptions,
        mut buffer: Vec<u8>,
    ) -> Result<Output> {
        let file = fs.create(path).map_err(|source| Error::io_at(id, 0, "create", source))?;
        buffer.clear();
        buffer.reserve(CHUNK_BYTES + CHUNK_BYTES / 8);
        buffer.extend_from_slice(&header::encode(kind, id));
        Ok(Output {
            file,
            id,
            kind,
            buffer,
            flushed: 0,
            writeback: 0,
            writeback_bytes: options.writeback_bytes,
            synced: 0,
            sync_bytes: options.sync_bytes,
            contents: 0,
            failed: None,
        })
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// The first failure, if there was one.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Appends a block, and gives where it lies.
    pub(crate) fn block(&mut self, shape: Shape, tag: u8, body: &[u8]) -> Result<Handle> {
        self.check()?;
        let offset = self.len();
        let len = body.len() + block::TRAILER_BYTES;
        let Ok(len) = u32::try_from(len) else {
            let max = u64::from(u32::MAX);
            return Err(Error::TooLarge { file: self.id, what: "a block", bytes: len as u64, max });
        };
        let start = self.buffer.len();
        self.buffer.extend_from_slice(body);
        let sum = block::seal(shape.kind(), self.id, offset, tag, &mut self.buffer, start);
        self.contents = footer::chain(self.contents, self.id, offset, sum);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(Handle { offset, len })
    }

    /// Appends properties, root and footer, and syncs the file.
    pub(crate) fn finish(&mut self, root: &Root, properties: Properties) -> Result<FileInfo> {
        let mut properties_payload = Vec::new();
        properties.encode(&mut properties_payload);
        let mut root_payload = Vec::new();
        root.encode(&mut root_payload);
        let footer_checksum = self.finish_raw(&root_payload, &properties_payload)?;
        Ok(FileInfo {
            id: self.id,
            len: self.len(),
            footer_checksum,
            entries: properties.entries,
            first_key: properties.first_key,
            last_key: properties.last_key,
        })
    }

    /// The same with payloads that are encoded already. Gives the footer's checksum.
    pub(crate) fn finish_raw(&mut self, root: &[u8], properties: &[u8]) -> Result<u32> {
        let properties = self.block(Shape::Properties, TAG_RAW, properties)?;
        let root = self.block(Shape::Root, TAG_RAW, root)?;
        let footer = Footer {
            root,
            properties,
            file_len: self.len() + footer::FOOTER_BYTES as u64,
            contents: self.contents,
        };
        let (bytes, footer_checksum) = footer.encode(self.kind, self.id);
        self.buffer.extend_from_slice(&bytes);
        self.flush()?;
        self.file.sync().map_err(|source| Error::io_at(self.id, self.synced, "sync", source))?;
        Ok(footer_checksum)
    }

    /// The memory of the buffer, for the next file.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.write();
        if let Err(error) = &written {
            self.failed = Some(error.clone());
        }
        written
    }

    fn write(&mut self) -> Result<()> {
        self.file
            .write_all_at(&self.buffer, self.flushed)
            .map_err(|source| Error::io_at(self.id, self.flushed, "write", source))?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(4 * CHUNK_BYTES);
        let unasked = self.flushed - self.writeback;
        if self.writeback_bytes > 0 && unasked >= self.writeback_bytes {
            self.file
                .start_writeback(self.writeback, unasked)
                .map_err(|source| Error::io_at(self.id, self.writeback, "start of writeback", source))?;
            self.writeback = self.flushed;
        }
        if self.sync_bytes > 0 && self.flushed - self.synced >= self.sync_bytes {
            self.file.sync().map_err(|source| Error::io_at(self.id, self.synced, "sync", source))?;
            self.synced = self.flushed;
        }
        Ok(())
    }
}
