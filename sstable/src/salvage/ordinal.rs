//! The row blocks of a damaged ordinal file, in order. What a row's ordinal was is not known where blocks are missing.

use std::path::Path;

use codec::FileId;
use vfs::Fs;

use super::Raw;
use super::find::{Finder, Found};
use crate::block::{Block, Handle, Shape, ordinal};
use crate::error::Result;
use crate::header::{FileKind, HEADER_BYTES};
use crate::index;

/// The row blocks that can be read.
#[derive(Debug)]
pub struct OrdinalSalvage {
    raw: Raw,
    user_properties: Option<Vec<u8>>,
    blocks: Vec<Handle>,
}

/// The rows of one block.
#[derive(Debug)]
pub struct RowBlock(Block);

impl RowBlock {
    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no block without rows")]
    pub fn len(&self) -> usize {
        self.0.items
    }

    /// One of them, if it can be read.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<&[u8]> {
        if index >= self.0.items {
            return None;
        }
        let (start, end) = ordinal::row(&self.0, index).ok()?;
        Some(&self.0.bytes[start..end])
    }
}

impl OrdinalSalvage {
    /// Opens a file, whatever is in it, and learns where its blocks are.
    ///
    /// # Errors
    /// The disk's, if the file is not there or cannot be opened; [`crate::Error::UnsupportedFormat`]. Damage is no
    /// error.
    pub fn open(fs: &dyn Fs, path: &Path, id: FileId) -> Result<OrdinalSalvage> {
        let (raw, tail) = Raw::open(fs, path, id, FileKind::Ordinal)?;
        let mut blocks = Vec::new();
        let search = |from: u64, to: u64, blocks: &mut Vec<Handle>| {
            let mut finder = Finder::new(FileKind::Ordinal, from, to);
            while let Some(found) = finder.next(&raw) {
                if let Found::Data(handle) = found {
                    blocks.push(handle);
                }
            }
        };
        let mut at = HEADER_BYTES as u64;
        match &tail.root {
            None => search(at.min(raw.len), raw.len, &mut blocks),
            Some(root) => {
                for place in root.partitions() {
                    match handles(&raw, place.index) {
                        Ok(named) => blocks.extend(named),
                        Err(_) if at < place.index.offset && place.index.offset <= raw.len => {
                            search(at, place.index.offset, &mut blocks);
                        }
                        Err(_) => {}
                    }
                    at = at.max(place.index.end());
                }
            }
        }
        // No index makes anybody read a byte twice.
        let mut read_to = 0;
        blocks.retain(|handle| {
            let comes_next = handle.offset >= read_to;
            read_to = read_to.max(handle.end());
            comes_next
        });
        let user_properties = tail.properties.map(|properties| properties.user);
        Ok(OrdinalSalvage { raw, user_properties, blocks })
    }

    /// What its owner gave at the end, if that can be read.
    #[must_use]
    pub fn user_properties(&self) -> Option<&[u8]> {
        self.user_properties.as_deref()
    }

    /// How many blocks are known.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// One of them.
    ///
    /// # Errors
    /// If it is damaged, or the disk does not give it.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn block(&self, number: usize) -> Result<RowBlock> {
        self.raw.block(Shape::Ordinal, self.blocks[number]).map(RowBlock)
    }
}

/// The blocks that a partition names.
fn handles(raw: &Raw, partition: Handle) -> Result<Vec<Handle>> {
    let block = raw.block(Shape::OrdinalIndex, partition)?;
    (0..block.items).map(|entry| index::ordinal::handle(&block, entry)).collect()
}
