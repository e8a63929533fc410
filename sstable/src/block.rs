//! A block in memory, and its frame on disk.
//!
//! A stored block:
//!
//! | bytes | what |
//! |---|---|
//! | n | body: the payload (tag 0), or its length as a u32 and the payload as LZ4 (tag 1) |
//! | 1 | tag: 0 raw, 1 LZ4 |
//! | 4 | checksum of body and tag, seeded with the kind of block, the file and the offset of the body |
//!
//! All numbers are little-endian. Invariant: nothing of a block is looked at, decompressed or kept before its checksum
//! holds, and every length is held against what is there before memory is taken for it.

pub(crate) mod keyed;
pub(crate) mod keyed_cursor;
pub(crate) mod ordinal;

use std::sync::Arc;

use codec::{FileId, Kind, ReadError, checksum};

use crate::compress::{self, TAG_LZ4, TAG_RAW};
use crate::error::{Error, Result};
use crate::filter;

/// Tag and checksum.
pub(crate) const TRAILER_BYTES: usize = 5;

/// The most that a block's payload may hold: one value of the largest kind, its key, and the rest of the block.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 128 << 20;

/// Where a stored block lies, trailer included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Handle {
    /// Where it ends. A handle may be forged: no file is as long as what it saturates at.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}

/// How the payload of a block is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Keyed,
    Ordinal,
    /// A partition of the block index of a keyed file; laid out as [`Shape::Keyed`].
    KeyedIndex,
    /// A partition of the block index of an ordinal file.
    OrdinalIndex,
    Filter,
    /// The root of the block index, decoded by its reader.
    Root,
    /// Decoded by its reader.
    Properties,
}

impl Shape {
    /// What its checksum is seeded with.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Shape::Keyed => Kind::KeyedBlock,
            Shape::Ordinal => Kind::OrdinalBlock,
            Shape::KeyedIndex | Shape::OrdinalIndex | Shape::Root => Kind::IndexBlock,
            Shape::Filter => Kind::FilterBlock,
            Shape::Properties => Kind::Properties,
        }
    }
}

/// The payload of a block whose checksum held, with what its shape needs to find its way in it.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    /// Keyed: restart points. Ordinal: rows. Ordinal index: blocks. Otherwise 0.
    pub(crate) items: usize,
    /// Where the array at the end of a keyed or ordinal block starts.
    pub(crate) tail: usize,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
}

impl Block {
    /// Opens a stored block, in place where it is not compressed.
    pub(crate) fn open(shape: Shape, file: FileId, offset: u64, mut stored: Vec<u8>) -> Result<Block> {
        let (tag, _) = check(shape, file, offset, &stored)?;
        let bytes = match tag {
            TAG_RAW => {
                stored.truncate(stored.len() - TRAILER_BYTES);
                stored
            }
            _ => expand(file, offset, tag, &stored, Vec::new())?,
        };
        Block::parse(shape, file, offset, bytes)
    }

    /// Opens a stored block that was read together with others, in the memory of a block that nobody needs any more.
    pub(crate) fn open_slice(
        shape: Shape,
        file: FileId,
        offset: u64,
        stored: &[u8],
        spare: Option<Arc<Block>>,
    ) -> Result<Arc<Block>> {
        let (tag, _) = check(shape, file, offset, stored)?;
        let mut spare = spare;
        let mut bytes = take_bytes(&mut spare);
        let bytes = match tag {
            TAG_RAW => {
                bytes.clear();
                bytes.extend_from_slice(&stored[..stored.len() - TRAILER_BYTES]);
                bytes
            }
            _ => expand(file, offset, tag, stored, bytes)?,
        };
        Ok(Block::parse(shape, file, offset, bytes)?.into_shared(spare))
    }

    /// Puts the block into the memory that a spare one took.
    pub(crate) fn into_shared(self, spare: Option<Arc<Block>>) -> Arc<Block> {
        let Some(mut shared) = spare else {
            return Arc::new(self);
        };
        match Arc::get_mut(&mut shared) {
            Some(block) => {
                *block = self;
                shared
            }
            None => Arc::new(self),
        }
    }

    fn parse(shape: Shape, file: FileId, offset: u64, bytes: Vec<u8>) -> Result<Block> {
        let mut block = Block { bytes, items: 0, tail: 0, file, offset };
        match shape {
            Shape::Keyed | Shape::KeyedIndex => keyed::parse(&mut block)?,
            Shape::Ordinal => ordinal::parse(&mut block)?,
            Shape::OrdinalIndex => crate::index::ordinal::parse(&mut block)?,
            Shape::Filter => filter::parse(&block)?,
            Shape::Root | Shape::Properties => {}
        }
        Ok(block)
    }

    /// The u32 at byte `at`, which the caller knows to be within.
    #[inline]
    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    /// The u64 at byte `at`, which the caller knows to be within.
    #[inline]
    pub(crate) fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    #[cold]
    pub(crate) fn malformed(&self, what: &'static str, source: ReadError) -> Error {
        Error::Malformed { file: self.file, offset: self.offset, what, source }
    }

    #[cold]
    pub(crate) fn mismatch(&self, what: &'static str, expected: usize, found: usize) -> Error {
        Error::Mismatch {
            file: self.file,
            offset: self.offset,
            what,
            expected: expected as u64,
            found: found as u64,
        }
    }
}

/// A spare block with more memory than this is let go of.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// A block that its holder needs no more, if nobody else does either: its memory can be used for the next.
pub(crate) fn spare(block: Option<Arc<Block>>) -> Option<Arc<Block>> {
    let mut block = block?;
    let is_spare = Arc::get_mut(&mut block).is_some_and(|block| block.bytes.capacity() <= SPARE_BYTES_MAX);
    is_spare.then_some(block)
}

/// The memory of a spare block's bytes, with anything in it.
pub(crate) fn take_bytes(spare: &mut Option<Arc<Block>>) -> Vec<u8> {
    let block = spare.as_mut().and_then(Arc::get_mut);
    block.map(|block| std::mem::take(&mut block.bytes)).unwrap_or_default()
}

/// Appends the frame of a block whose body has just been appended to `out`, from `start` on. Gives the checksum.
pub(crate) fn seal(kind: Kind, file: FileId, offset: u64, tag: u8, out: &mut Vec<u8>, start: usize) -> u32 {
    out.push(tag);
    let sum = checksum(kind, file, offset, &[&out[start..]]).0;
    out.extend_from_slice(&sum.to_le_bytes());
    sum
}

/// The tag and the checksum of a stored block, once the checksum holds.
pub(crate) fn check(shape: Shape, file: FileId, offset: u64, stored: &[u8]) -> Result<(u8, u32)> {
    let Some((body, sum)) = stored.split_last_chunk::<4>() else {
        return Err(short(file, offset, stored.len()));
    };
    let Some(&tag) = body.last() else {
        return Err(short(file, offset, stored.len()));
    };
    let expected = u32::from_le_bytes(*sum);
    let found = checksum(shape.kind(), file, offset, &[body]).0;
    if expected != found {
        return Err(Error::Checksum { file, offset, kind: shape.kind(), expected, found });
    }
    Ok((tag, expected))
}

fn expand(file: FileId, offset: u64, tag: u8, stored: &[u8], bytes: Vec<u8>) -> Result<Vec<u8>> {
    if tag != TAG_LZ4 {
        return Err(Error::Mismatch {
            file,
            offset,
            what: "tag of a block",
            expected: u64::from(TAG_LZ4),
            found: u64::from(tag),
        });
    }
    compress::expand(file, offset, &stored[..stored.len() - TRAILER_BYTES], PAYLOAD_BYTES_MAX, bytes)
}

fn short(file: FileId, offset: u64, found: usize) -> Error {
    Error::Mismatch {
        file,
        offset,
        what: "least length of a block",
        expected: TRAILER_BYTES as u64,
        found: found as u64,
    }
}

/// Some bytes of a block, which they keep in memory.
///
/// Cheap to clone; independent of the reader and of the cache.
#[derive(Clone, Debug)]
pub struct BlockSlice {
    block: Arc<Block>,
    start: usize,
    end: usize,
}

impl BlockSlice {
    /// `start..end` must lie in the block.
    #[inline]
    pub(crate) fn new(block: Arc<Block>, start: usize, end: usize) -> BlockSlice {
        debug_assert!(start <= end && end <= block.bytes.len());
        BlockSlice { block, start, end }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.block.bytes[self.start..self.end]
    }
}
