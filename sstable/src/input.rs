//! Reads blocks of one open file, through the cache or past it.
//!
//! Invariant: no memory is taken for a length that reaches beyond the file, and nothing is returned before its checksum
//! holds. An error is never cached: each read of a damaged block finds the damage again.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use vfs::{File, Fs};

use crate::block::{self, Block, Handle, Shape, TRAILER_BYTES};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::footer::{FILE_BYTES_MIN, FOOTER_BYTES, Footer};
use crate::header::{self, FileKind, HEADER_BYTES};
use crate::index::root::Root;
use crate::options::FileInfo;
use crate::properties::Properties;

/// No file holds more entries, or rows, for each of its bytes: each takes a byte at least, and LZ4 yields at most 255
/// for one. So counts that are added up over the files of a disk do not overflow.
const ENTRIES_PER_BYTE_MAX: u64 = 255;

/// A stored block that is larger than this is read into memory of its own.
const ONCE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static ONCE: Cell<Once> = Cell::default();
}

/// What a thread keeps from one block that nobody holds to the next.
#[derive(Default)]
struct Once {
    stored: Vec<u8>,
    /// The block that was read last. Its memory is free again when nobody else has it.
    last: Option<Arc<Block>>,
}

/// One open file.
#[derive(Debug)]
pub(crate) struct Input {
    file: Arc<dyn File>,
    id: FileId,
    kind: FileKind,
    len: u64,
    cache: Arc<Cache>,
}

/// What stays in memory of an open file.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) footer: Footer,
    pub(crate) footer_checksum: u32,
    pub(crate) root: Root,
    pub(crate) properties: Properties,
}

impl Input {
    /// Opens a file and reads what stays in memory of it. `expect` is the length and the footer checksum that its owner
    /// wrote down.
    pub(crate) fn open(
        fs: &dyn Fs,
        path: &Path,
        id: FileId,
        kind: FileKind,
        cache: Arc<Cache>,
        expect: Option<(u64, u32)>,
    ) -> Result<(Input, Head)> {
        let file = fs.open(path).map_err(|source| Error::io_at(id, 0, "open", source))?;
        let len = file.len().map_err(|source| Error::io_at(id, 0, "length", source))?;
        let input = Input { file, id, kind, len, cache };
        let head = input.read_head()?;
        if let Some((len_expected, checksum)) = expect {
            if len != len_expected {
                return Err(input.mismatch(0, "length of the file as recorded", len_expected, len));
            }
            if head.footer_checksum != checksum {
                let (expected, found) = (u64::from(checksum), u64::from(head.footer_checksum));
                let at = len - FOOTER_BYTES as u64;
                return Err(input.mismatch(at, "footer checksum as recorded", expected, found));
            }
        }
        Ok((input, head))
    }

    /// Reads and checks header, footer, properties and the root of the index, from the disk.
    pub(crate) fn read_head(&self) -> Result<Head> {
        self.read_header()?;
        self.read_behind_header()
    }

    /// Reads and checks the header, from the disk.
    pub(crate) fn read_header(&self) -> Result<()> {
        self.check_length()?;
        let mut bytes = [0; HEADER_BYTES];
        self.fill(&mut bytes, 0)?;
        header::check(&bytes, self.kind, self.id)
    }

    fn check_length(&self) -> Result<()> {
        if self.len < FILE_BYTES_MIN {
            return Err(self.mismatch(0, "least length of an sstable", FILE_BYTES_MIN, self.len));
        }
        Ok(())
    }

    /// Reads and checks footer, properties and the root of the index, from the disk.
    pub(crate) fn read_behind_header(&self) -> Result<Head> {
        self.check_length()?;
        let mut bytes = [0; FOOTER_BYTES];
        self.fill(&mut bytes, self.len - FOOTER_BYTES as u64)?;
        let (footer, footer_checksum) = Footer::decode(&bytes, self.kind, self.id, self.len)?;
        let properties = Properties::decode(&self.read(Shape::Properties, footer.properties)?)?;
        let root = Root::decode(&self.read(Shape::Root, footer.root)?)?;
        if root.entries() != properties.entries {
            return Err(self.mismatch(
                footer.root.offset,
                "entries in the index",
                properties.entries,
                root.entries(),
            ));
        }
        let entries_max = self.len.saturating_mul(ENTRIES_PER_BYTE_MAX);
        if properties.entries > entries_max {
            let at = footer.properties.offset;
            return Err(self.mismatch(at, "greatest count of entries", entries_max, properties.entries));
        }
        Ok(Head { footer, footer_checksum, root, properties })
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    #[cold]
    pub(crate) fn mismatch(&self, offset: u64, what: &'static str, expected: u64, found: u64) -> Error {
        Error::Mismatch { file: self.id, offset, what, expected, found }
    }

    /// The block, from the cache or the disk.
    #[inline]
    pub(crate) fn block(&self, shape: Shape, handle: Handle) -> Result<Arc<Block>> {
        match self.cache.get(shape, self.id, handle.offset) {
            Some(block) => Ok(block),
            None if self.cache.admits(shape, self.id, handle.offset) => {
                let load = || Ok(Arc::new(self.read(shape, handle)?));
                self.cache.load(shape, self.id, handle.offset, load)
            }
            None => self.read_once(shape, handle),
        }
    }

    /// The block, from the disk, in memory that this thread uses again once its caller is done with the block.
    fn read_once(&self, shape: Shape, handle: Handle) -> Result<Arc<Block>> {
        let len = handle.len as usize;
        if len > ONCE_BYTES_MAX {
            return Ok(Arc::new(self.read(shape, handle)?));
        }
        self.check(handle)?;
        // A thread that is ending has it no more, and may read nevertheless.
        let mut once = ONCE.try_with(Cell::take).unwrap_or_default();
        if once.stored.len() < len {
            once.stored.resize(len, 0);
        }
        let stored = &mut once.stored[..len];
        let block = self.fill(stored, handle.offset).and_then(|()| {
            Block::open_slice(shape, self.id, handle.offset, stored, block::spare(once.last.take()))
        });
        once.last = block.as_ref().ok().map(Arc::clone);
        let _ = ONCE.try_with(|kept| kept.set(once));
        block
    }

    /// The block, from the disk.
    pub(crate) fn read(&self, shape: Shape, handle: Handle) -> Result<Block> {
        Block::open(shape, self.id, handle.offset, self.read_stored(handle)?)
    }

    /// The block, from the disk, in the memory of a block that nobody needs any more.
    pub(crate) fn read_into(
        &self,
        shape: Shape,
        handle: Handle,
        spare: Option<Arc<Block>>,
    ) -> Result<Arc<Block>> {
        self.check(handle)?;
        let mut spare = spare;
        let mut stored = block::take_bytes(&mut spare);
        stored.resize(handle.len as usize, 0);
        self.fill(&mut stored, handle.offset)?;
        Ok(Block::open(shape, self.id, handle.offset, stored)?.into_shared(spare))
    }

    /// The block from the disk, and its checksum.
    pub(crate) fn read_with_checksum(&self, shape: Shape, handle: Handle) -> Result<(Block, u32)> {
        let stored = self.read_stored(handle)?;
        let (_, sum) = block::check(shape, self.id, handle.offset, &stored)?;
        Ok((Block::open(shape, self.id, handle.offset, stored)?, sum))
    }

    fn read_stored(&self, handle: Handle) -> Result<Vec<u8>> {
        self.check(handle)?;
        let mut stored = vec![0; handle.len as usize];
        self.fill(&mut stored, handle.offset)?;
        Ok(stored)
    }

    /// Whether a block can lie there: between header and footer.
    pub(crate) fn check(&self, handle: Handle) -> Result<()> {
        let least = HEADER_BYTES as u64;
        let most = self.len - FOOTER_BYTES as u64;
        let len = u64::from(handle.len);
        if handle.offset < least {
            return Err(self.mismatch(handle.offset, "least offset of a block", least, handle.offset));
        }
        if handle.len as usize <= TRAILER_BYTES {
            return Err(self.mismatch(
                handle.offset,
                "least length of a block",
                TRAILER_BYTES as u64 + 1,
                len,
            ));
        }
        match handle.offset.checked_add(len) {
            Some(end) if end <= most => Ok(()),
            _ => {
                let room = most.saturating_sub(handle.offset);
                Err(self.mismatch(handle.offset, "greatest length of a block", room, len))
            }
        }
    }

    /// Fills `bytes` from `offset` on.
    pub(crate) fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|source| Error::io_at(self.id, offset, "read", source))
    }

    pub(crate) fn info(&self, head: &Head) -> FileInfo {
        FileInfo {
            id: self.id,
            len: self.len,
            footer_checksum: head.footer_checksum,
            entries: head.properties.entries,
            first_key: head.properties.first_key.clone(),
            last_key: head.properties.last_key.clone(),
        }
    }
}
