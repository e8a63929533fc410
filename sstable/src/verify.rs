//! Reads a whole file and believes nothing.
//!
//! Everything comes from the disk, past the cache and past what is in memory: header, footer, root, and each block in
//! the order of the file. The blocks must tile the file without a gap. What a reader takes on trust between checksums
//! is checked here: order, separators, counts, filters.

use codec::hash_key;

use crate::block::keyed_cursor::KeyedCursor;
use crate::block::{Block, Handle, Shape, keyed};
use crate::error::{Error, Result};
use crate::filter;
use crate::footer;
use crate::header::HEADER_BYTES;
use crate::index;
use crate::index::root::Partition;
use crate::input::{Head, Input};
use crate::reader::rows_of;

/// What was read and found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Data blocks.
    pub blocks: u64,
    /// Entries, or rows.
    pub entries: u64,
    /// Bytes of the file: all of them.
    pub bytes: u64,
    /// Keys that have a filter.
    pub filtered: u64,
}

/// Walks the blocks of a file in their order.
struct Walk<'a> {
    input: &'a Input,
    /// Where the next block must start.
    at: u64,
    contents: u32,
    blocks: u64,
}

impl Walk<'_> {
    fn new(input: &Input) -> Walk<'_> {
        Walk { input, at: HEADER_BYTES as u64, contents: 0, blocks: 0 }
    }

    /// The next block, which must lie where the one before ended.
    fn next(&mut self, shape: Shape, handle: Handle) -> Result<Block> {
        if handle.offset != self.at {
            return Err(self.mismatch(handle.offset, "offset of the next block", self.at, handle.offset));
        }
        let (block, sum) = self.input.read_with_checksum(shape, handle)?;
        self.contents = footer::chain(self.contents, self.input.id(), handle.offset, sum);
        self.at = handle.end();
        Ok(block)
    }

    /// Properties, root and footer.
    fn finish(mut self, head: &Head, entries: u64) -> Result<VerifyReport> {
        self.next(Shape::Properties, head.footer.properties)?;
        self.next(Shape::Root, head.footer.root)?;
        let end = self.at + footer::FOOTER_BYTES as u64;
        self.equal(self.at, "length of the file", self.input.len(), end)?;
        let contents = u64::from(self.contents);
        self.equal(self.at, "checksum of all checksums", u64::from(head.footer.contents), contents)?;
        let properties = head.footer.properties.offset;
        self.equal(properties, "data blocks", head.properties.blocks, self.blocks)?;
        self.equal(properties, "data blocks in the index", head.root.blocks(), self.blocks)?;
        self.equal(properties, "entries", head.properties.entries, entries)?;
        Ok(VerifyReport { blocks: self.blocks, entries, bytes: self.input.len(), filtered: 0 })
    }

    fn mismatch(&self, offset: u64, what: &'static str, expected: u64, found: u64) -> Error {
        self.input.mismatch(offset, what, expected, found)
    }

    fn equal(&self, offset: u64, what: &'static str, expected: u64, found: u64) -> Result<()> {
        if expected == found { Ok(()) } else { Err(self.mismatch(offset, what, expected, found)) }
    }
}

/// Verifies a keyed file.
pub(crate) fn keyed(input: &Input) -> Result<VerifyReport> {
    let head = input.read_head()?;
    let mut walk = Walk::new(input);
    let mut keys = Keys::default();
    if let Some(at) = head.root.disorder() {
        let offset = head.footer.root.offset;
        return Err(walk.mismatch(offset, "order of the index partitions", at as u64, at as u64 - 1));
    }
    for (number, place) in head.root.partitions().iter().enumerate() {
        keyed_partition(&mut walk, &mut keys, place, head.root.separator(number))?;
    }
    let at = head.footer.properties.offset;
    let last = keys.last.unwrap_or_default();
    if last != head.properties.last_key {
        let expected = head.properties.last_key.len() as u64;
        return Err(walk.mismatch(at, "last key (lengths)", expected, last.len() as u64));
    }
    first_key(input, &head)?;
    let report = walk.finish(&head, keys.entries)?;
    Ok(VerifyReport { filtered: keys.filtered, ..report })
}

/// The first key as the properties tell it against the first entry.
fn first_key(input: &Input, head: &Head) -> Result<()> {
    let mut cursor = KeyedCursor::default();
    if let Some(place) = head.root.partitions().first() {
        let index = input.read(Shape::KeyedIndex, place.index)?;
        cursor.first(&input.read(Shape::Keyed, index::keyed::handle(&index, 0)?)?)?;
    }
    let (expected, found) = (&head.properties.first_key, cursor.key());
    if expected == found {
        return Ok(());
    }
    let at = head.footer.properties.offset;
    Err(input.mismatch(at, "first key (lengths)", expected.len() as u64, found.len() as u64))
}

/// What is known of the keys so far.
#[derive(Default)]
struct Keys {
    last: Option<Vec<u8>>,
    /// The separator of the block before: all keys must be above it.
    separator: Option<Vec<u8>>,
    entries: u64,
    filtered: u64,
}

impl Keys {
    /// Takes the next key, which stands in `block`.
    fn next(&mut self, block: &Block, key: &[u8], filter: Option<&Block>) -> Result<()> {
        let is_above = |bound: &Option<Vec<u8>>| bound.as_deref().is_none_or(|bound| bound < key);
        if !is_above(&self.last) || !is_above(&self.separator) {
            let entry = self.entries as usize;
            return Err(block.mismatch("keys that strictly increase (entries)", entry + 1, entry));
        }
        if keyed::find(block, key)?.is_none() {
            return Err(block.mismatch("keys that a search finds (entries)", 1, 0));
        }
        if let Some(filter) = filter {
            if !filter::may_contain(filter, hash_key(key)) {
                return Err(filter.mismatch("keys in a filter (entries)", 1, 0));
            }
            self.filtered += 1;
        }
        replace(&mut self.last, key);
        self.entries += 1;
        Ok(())
    }
}

/// Sets an optional key, in the memory that it has.
fn replace(key: &mut Option<Vec<u8>>, with: &[u8]) {
    let key = key.get_or_insert_default();
    key.clear();
    key.extend_from_slice(with);
}

fn keyed_partition(walk: &mut Walk<'_>, keys: &mut Keys, place: &Partition, last: &[u8]) -> Result<()> {
    // The partition and its filter lie after the blocks, but are needed first; they are read again in their turn.
    let index = walk.input.read(Shape::KeyedIndex, place.index)?;
    let filter = match place.filter {
        Some(handle) => Some(walk.input.read(Shape::Filter, handle)?),
        None => None,
    };
    walk.equal(index.offset, "blocks in an index partition", place.blocks, index.items as u64)?;
    let entries_before = keys.entries;
    let mut cursor = KeyedCursor::default();
    let mut separators = KeyedCursor::default();
    separators.first(&index)?;
    for entry in 0..index.items {
        if entry > 0 && !separators.next(&index)? {
            return Err(index.mismatch("separators", index.items, entry));
        }
        let block = walk.next(Shape::Keyed, index::keyed::handle(&index, entry)?)?;
        walk.blocks += 1;
        cursor.first(&block)?;
        loop {
            keys.next(&block, cursor.key(), filter.as_ref())?;
            if !cursor.next(&block)? {
                break;
            }
        }
        if separators.key() < cursor.key() {
            return Err(index.mismatch("separators at or above their blocks (blocks)", entry + 1, entry));
        }
        replace(&mut keys.separator, separators.key());
    }
    if separators.key() != last {
        return Err(index.mismatch("last separator (lengths)", last.len(), separators.key().len()));
    }
    walk.equal(index.offset, "entries in a partition", place.entries, keys.entries - entries_before)?;
    if let Some(handle) = place.filter {
        walk.next(Shape::Filter, handle)?;
    }
    walk.next(Shape::KeyedIndex, place.index)?;
    Ok(())
}

/// Verifies an ordinal file.
pub(crate) fn ordinal(input: &Input) -> Result<VerifyReport> {
    let head = input.read_head()?;
    let mut walk = Walk::new(input);
    let mut ordinal = 0u64;
    for (number, place) in head.root.partitions().iter().enumerate() {
        let index = input.read(Shape::OrdinalIndex, place.index)?;
        walk.equal(index.offset, "blocks in an index partition", place.blocks, index.items as u64)?;
        for entry in 0..index.items {
            let rows = rows_of(&head.root, number, &index, entry)?;
            walk.equal(index.offset, "first ordinal of a block", ordinal, u64::from(rows.first))?;
            let block = walk.next(Shape::Ordinal, rows.handle)?;
            walk.blocks += 1;
            let mut end_before = 0;
            for index in 0..rows.count {
                let (start, end) = rows.row(&block, rows.first + index)?;
                walk.equal(block.offset, "start of a row", end_before as u64, start as u64)?;
                end_before = end;
            }
            walk.equal(block.offset, "end of the rows", block.tail as u64, end_before as u64)?;
            ordinal += u64::from(rows.count);
        }
        walk.next(Shape::OrdinalIndex, place.index)?;
    }
    walk.finish(&head, ordinal)
}
