//! Reads what can be read of a damaged file, and tells what cannot.
//!
//! Where the block index is whole, it says where the blocks are. Where it is not, they are found by their checksums: a
//! block is whatever bytes check out as one of this file at this place. So a file without its footer, or without a part
//! of its index, loses nothing but that; and of damaged blocks it is known between which others they lay.
//!
//! Never used by a database that is open: readers refuse what is damaged. Never trusts bytes without a checksum. A
//! sector that the disk does not give counts as damage.

mod find;
mod keyed;
mod ordinal;
mod sums;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use vfs::{File, Fs};

use crate::block::{Block, Handle, Shape};
use crate::error::{Error, Result};
use crate::footer::{FILE_BYTES_MIN, FOOTER_BYTES, Footer};
use crate::header::{self, FileKind, HEADER_BYTES};
use crate::index::root::Root;
use crate::properties::Properties;

pub use keyed::{KeyedSalvage, LostEntries};
pub use ordinal::{OrdinalSalvage, RowBlock};

/// What the disk reads or refuses in one piece.
const SECTOR_BYTES: usize = 4096;

/// A file of which nothing is known to be right.
#[derive(Debug)]
struct Raw {
    file: Arc<dyn File>,
    id: FileId,
    len: u64,
}

/// What the end of a file says, as far as it can be read.
#[derive(Debug, Default)]
struct Tail {
    properties: Option<Properties>,
    root: Option<Root>,
}

impl Raw {
    /// Opens a file, unless it says, under a checksum that holds, that it is of a newer version.
    fn open(fs: &dyn Fs, path: &Path, id: FileId, kind: FileKind) -> Result<(Raw, Tail)> {
        let file = fs.open(path).map_err(|source| Error::io_at(id, 0, "open", source))?;
        let len = file.len().map_err(|source| Error::io_at(id, 0, "length", source))?;
        let raw = Raw { file, id, len };
        let mut header = [0; HEADER_BYTES];
        if raw.file.read_exact_at(&mut header, 0).is_ok()
            && let Err(error) = header::check(&header, kind, id)
            && error.is_unsupported()
        {
            return Err(error);
        }
        let tail = raw.tail(kind)?;
        Ok((raw, tail))
    }

    fn tail(&self, kind: FileKind) -> Result<Tail> {
        let Some(footer) = self.footer(kind)? else { return Ok(Tail::default()) };
        let block = |shape, handle: Handle| self.block(shape, handle).ok();
        Ok(Tail {
            properties: block(Shape::Properties, footer.properties)
                .and_then(|block| Properties::decode(&block).ok()),
            root: block(Shape::Root, footer.root).and_then(|block| Root::decode(&block).ok()),
        })
    }

    fn footer(&self, kind: FileKind) -> Result<Option<Footer>> {
        if self.len < FILE_BYTES_MIN {
            return Ok(None);
        }
        let mut bytes = [0; FOOTER_BYTES];
        if self.file.read_exact_at(&mut bytes, self.len - FOOTER_BYTES as u64).is_err() {
            return Ok(None);
        }
        match Footer::decode(&bytes, kind, self.id, self.len) {
            Ok((footer, _)) => Ok(Some(footer)),
            Err(error) if error.is_unsupported() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The block that lies there.
    fn block(&self, shape: Shape, handle: Handle) -> Result<Block> {
        let ends = handle.offset.checked_add(u64::from(handle.len));
        if ends.is_none_or(|end| end > self.len) {
            let (offset, expected) = (handle.offset, self.len.saturating_sub(handle.offset));
            let (what, found) = ("greatest length of a block", u64::from(handle.len));
            return Err(Error::Mismatch { file: self.id, offset, what, expected, found });
        }
        let mut stored = vec![0; handle.len as usize];
        self.file
            .read_exact_at(&mut stored, handle.offset)
            .map_err(|source| Error::io_at(self.id, handle.offset, "read", source))?;
        Block::open(shape, self.id, handle.offset, stored)
    }

    /// The bytes `from .. from + count`, zeros where the disk does not give them.
    fn bytes(&self, from: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        if self.file.read_exact_at(&mut bytes, from).is_ok() {
            return bytes;
        }
        bytes.fill(0);
        let mut at = 0;
        while at < count {
            // Up to the next boundary of a sector, as the disk counts.
            let to_boundary = SECTOR_BYTES - ((from + at as u64) % SECTOR_BYTES as u64) as usize;
            let end = count.min(at + to_boundary);
            if self.file.read_exact_at(&mut bytes[at..end], from + at as u64).is_err() {
                bytes[at..end].fill(0);
            }
            at = end;
        }
        bytes
    }
}
