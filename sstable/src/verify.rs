//! Reads a whole file and believes nothing.
//!
//! Everything comes from the disk, past the cache and past what is in memory: header, footer, root, and each block in
//! the order of the file. The blocks must tile the file without a gap. What a reader takes on trust between checksums
//! is checked here: order, separators, counts, filters.
//!
//! A finding does not end the walk: what can still be reached is read too, and whoever asked is told of each.
//! Invariant: totals are compared only if everything that they add up was read.

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
    /// The checksum of the footer, which stands for all of the file.
    pub footer_checksum: u32,
}

/// What kind of thing is wrong in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A block, the header or the footer is not what was written: its checksum is wrong or it does not decode.
    Block,
    /// The block index: blocks that do not tile the file, separators that do not separate.
    BlockIndex,
    /// Keys that do not strictly increase, or that a search does not find.
    KeyOrder,
    /// A key that the filter does not know.
    Filter,
    /// A count, or a first or last key, that the file tells of itself.
    Counts,
}

/// Takes what a verification reads, and what it finds wrong.
pub trait Verifier {
    /// An entry of a keyed file, in the order of the file.
    fn entry(&mut self, key: &[u8], value: &[u8]) {
        let _ = (key, value);
    }

    /// A row of an ordinal file, in the order of the file.
    fn row(&mut self, ordinal: u32, row: &[u8]) {
        let _ = (ordinal, row);
    }

    /// Something is wrong. The error names the place.
    fn found(&mut self, kind: FindingKind, error: Error);
}

/// Keeps the first finding.
#[derive(Default)]
pub(crate) struct First(Option<Error>);

impl Verifier for First {
    fn found(&mut self, _: FindingKind, error: Error) {
        self.0.get_or_insert(error);
    }
}

impl First {
    pub(crate) fn or(self, report: VerifyReport) -> Result<VerifyReport> {
        self.0.map_or(Ok(report), Err)
    }
}

/// Walks the blocks of a file in their order.
struct Walk<'a> {
    input: &'a Input,
    sink: &'a mut dyn Verifier,
    /// Where the next block must start.
    at: u64,
    contents: u32,
    blocks: u64,
    /// Whether every block so far was read.
    complete: bool,
}

impl<'a> Walk<'a> {
    fn new(input: &'a Input, sink: &'a mut dyn Verifier) -> Walk<'a> {
        Walk { input, sink, at: HEADER_BYTES as u64, contents: 0, blocks: 0, complete: true }
    }

    /// Damage is told and walked past; an error of the disk ends the walk.
    fn finding<T>(&mut self, kind: FindingKind, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.is_corruption() || error.is_unsupported() => {
                self.sink.found(kind, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Header, footer, properties and root.
    fn head(&mut self) -> Result<Option<Head>> {
        let header = self.input.read_header();
        self.finding(FindingKind::Block, header)?;
        let head = self.input.read_behind_header();
        self.finding(FindingKind::Block, head)
    }

    /// The next block, which must lie where the one before ended; `None` if it cannot be read.
    fn next(&mut self, shape: Shape, handle: Handle) -> Result<Option<Block>> {
        if handle.offset != self.at {
            let error = self.mismatch(handle.offset, "offset of the next block", self.at, handle.offset);
            self.sink.found(FindingKind::BlockIndex, error);
        }
        if let Err(error) = self.input.check(handle) {
            self.complete = false;
            self.sink.found(FindingKind::BlockIndex, error);
            return Ok(None);
        }
        self.at = handle.end();
        let read = self.input.read_with_checksum(shape, handle);
        let Some((block, sum)) = self.finding(FindingKind::Block, read)? else {
            self.complete = false;
            return Ok(None);
        };
        self.contents = footer::chain(self.contents, self.input.id(), handle.offset, sum);
        Ok(Some(block))
    }

    /// Properties, root and footer.
    fn finish(mut self, head: &Head, entries: u64) -> Result<VerifyReport> {
        self.next(Shape::Properties, head.footer.properties)?;
        self.next(Shape::Root, head.footer.root)?;
        let end = self.at + footer::FOOTER_BYTES as u64;
        self.equal(FindingKind::BlockIndex, self.at, "length of the file", self.input.len(), end);
        if self.complete {
            let (expected, contents) = (u64::from(head.footer.contents), u64::from(self.contents));
            self.equal(FindingKind::Block, self.at, "checksum of all checksums", expected, contents);
            let properties = head.footer.properties.offset;
            for (what, expected, found) in [
                ("data blocks", head.properties.blocks, self.blocks),
                ("data blocks in the index", head.root.blocks(), self.blocks),
                ("entries", head.properties.entries, entries),
            ] {
                self.equal(FindingKind::Counts, properties, what, expected, found);
            }
        }
        Ok(VerifyReport {
            blocks: self.blocks,
            entries,
            bytes: self.input.len(),
            filtered: 0,
            footer_checksum: head.footer_checksum,
        })
    }

    fn mismatch(&self, offset: u64, what: &'static str, expected: u64, found: u64) -> Error {
        self.input.mismatch(offset, what, expected, found)
    }

    fn equal(&mut self, kind: FindingKind, offset: u64, what: &'static str, expected: u64, found: u64) {
        if expected != found {
            let error = self.mismatch(offset, what, expected, found);
            self.sink.found(kind, error);
        }
    }
}

/// Verifies a keyed file.
pub(crate) fn keyed(input: &Input, sink: &mut dyn Verifier) -> Result<VerifyReport> {
    let mut walk = Walk::new(input, sink);
    let Some(head) = walk.head()? else { return Ok(VerifyReport::default()) };
    let mut keys = Keys::default();
    if let Some(at) = head.root.disorder() {
        let error =
            walk.mismatch(head.footer.root.offset, "order of the index partitions", at as u64, at as u64 - 1);
        walk.sink.found(FindingKind::BlockIndex, error);
    }
    for (number, place) in head.root.partitions().iter().enumerate() {
        keyed_partition(&mut walk, &mut keys, place, head.root.separator(number))?;
    }
    if walk.complete {
        let at = head.footer.properties.offset;
        let (first, last) = (keys.first.unwrap_or_default(), keys.last.unwrap_or_default());
        for (what, expected, found) in [
            ("last key (lengths)", &head.properties.last_key, &last),
            ("first key (lengths)", &head.properties.first_key, &first),
        ] {
            if expected != found {
                let error = walk.mismatch(at, what, expected.len() as u64, found.len() as u64);
                walk.sink.found(FindingKind::Counts, error);
            }
        }
    }
    let report = walk.finish(&head, keys.entries)?;
    Ok(VerifyReport { filtered: keys.filtered, ..report })
}

/// What is known of the keys so far.
#[derive(Default)]
struct Keys {
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    /// The separator of the block before: all keys must be above it.
    separator: Option<Vec<u8>>,
    entries: u64,
    filtered: u64,
}

impl Keys {
    /// Takes the next entry, which stands in `block`.
    fn next(
        &mut self,
        sink: &mut dyn Verifier,
        block: &Block,
        key: &[u8],
        filter: Option<&Block>,
    ) -> Result<()> {
        let is_above = |bound: &Option<Vec<u8>>| bound.as_deref().is_none_or(|bound| bound < key);
        if !is_above(&self.last) || !is_above(&self.separator) {
            let entry = self.entries as usize;
            let error = block.mismatch("keys that strictly increase (entries)", entry + 1, entry);
            sink.found(FindingKind::KeyOrder, error);
        } else if keyed::find(block, key)?.is_none() {
            sink.found(FindingKind::KeyOrder, block.mismatch("keys that a search finds (entries)", 1, 0));
        }
        if let Some(filter) = filter {
            if filter::may_contain(filter, hash_key(key)) {
                self.filtered += 1;
            } else {
                sink.found(FindingKind::Filter, filter.mismatch("keys in a filter (entries)", 1, 0));
            }
        }
        self.first.get_or_insert_with(|| key.to_vec());
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
    let index = walk.input.read(Shape::KeyedIndex, place.index);
    let Some(index) = walk.finding(FindingKind::Block, index)? else {
        walk.complete = false;
        walk.at = place.index.end();
        replace(&mut keys.separator, last);
        return Ok(());
    };
    let filter = match place.filter {
        Some(handle) => match walk.input.read(Shape::Filter, handle) {
            Ok(filter) => Some(filter),
            // It is told of in its turn.
            Err(error) if error.is_corruption() => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let blocks = index.items as u64;
    walk.equal(FindingKind::BlockIndex, index.offset, "blocks in an index partition", place.blocks, blocks);
    let (entries_before, was_complete) = (keys.entries, std::mem::replace(&mut walk.complete, true));
    if let Err(error) = keyed_blocks(walk, keys, &index, filter.as_ref(), last) {
        walk.finding::<()>(FindingKind::BlockIndex, Err(error))?;
        walk.complete = false;
    }
    if walk.complete {
        let found = keys.entries - entries_before;
        walk.equal(FindingKind::Counts, index.offset, "entries in a partition", place.entries, found);
    } else {
        // What could not be read is told already; what follows is not out of place for it.
        walk.at = place.filter.unwrap_or(place.index).offset;
    }
    walk.complete &= was_complete;
    if let Some(handle) = place.filter {
        walk.next(Shape::Filter, handle)?;
    }
    walk.next(Shape::KeyedIndex, place.index)?;
    Ok(())
}

/// The data blocks of one partition.
fn keyed_blocks(
    walk: &mut Walk<'_>,
    keys: &mut Keys,
    index: &Block,
    filter: Option<&Block>,
    last: &[u8],
) -> Result<()> {
    let mut cursor = KeyedCursor::default();
    let mut separators = KeyedCursor::default();
    separators.first(index)?;
    for entry in 0..index.items {
        if entry > 0 && !separators.next(index)? {
            return Err(index.mismatch("separators", index.items, entry));
        }
        walk.blocks += 1;
        if let Some(block) = walk.next(Shape::Keyed, index::keyed::handle(index, entry)?)? {
            let read = keyed_block(walk.sink, keys, &block, filter, &mut cursor);
            if walk.finding(FindingKind::Block, read)?.is_none() {
                walk.complete = false;
            } else if separators.key() < cursor.key() {
                let what = "separators at or above their blocks (blocks)";
                walk.sink.found(FindingKind::BlockIndex, index.mismatch(what, entry + 1, entry));
            }
        }
        replace(&mut keys.separator, separators.key());
    }
    if separators.key() != last {
        let error = index.mismatch("last separator (lengths)", last.len(), separators.key().len());
        walk.sink.found(FindingKind::BlockIndex, error);
    }
    Ok(())
}

/// The entries of one block; the cursor is left at the last.
fn keyed_block(
    sink: &mut dyn Verifier,
    keys: &mut Keys,
    block: &Block,
    filter: Option<&Block>,
    cursor: &mut KeyedCursor,
) -> Result<()> {
    cursor.first(block)?;
    loop {
        keys.next(sink, block, cursor.key(), filter)?;
        let (start, end) = cursor.value();
        sink.entry(cursor.key(), &block.bytes[start..end]);
        if !cursor.next(block)? {
            return Ok(());
        }
    }
}

/// Verifies an ordinal file.
pub(crate) fn ordinal(input: &Input, sink: &mut dyn Verifier) -> Result<VerifyReport> {
    let mut walk = Walk::new(input, sink);
    let Some(head) = walk.head()? else { return Ok(VerifyReport::default()) };
    if head.properties.entries > u64::from(u32::MAX) {
        let (at, found) = (head.footer.properties.offset, head.properties.entries);
        let error = walk.mismatch(at, "greatest count of rows", u64::from(u32::MAX), found);
        walk.sink.found(FindingKind::Counts, error);
        return Ok(VerifyReport { bytes: input.len(), ..VerifyReport::default() });
    }
    let mut ordinal = 0u64;
    for (number, place) in head.root.partitions().iter().enumerate() {
        let index = input.read(Shape::OrdinalIndex, place.index);
        let Some(index) = walk.finding(FindingKind::Block, index)? else {
            walk.complete = false;
            walk.at = place.index.end();
            ordinal = place.entries_before + place.entries;
            continue;
        };
        let blocks = index.items as u64;
        walk.equal(
            FindingKind::BlockIndex,
            index.offset,
            "blocks in an index partition",
            place.blocks,
            blocks,
        );
        let was_complete = std::mem::replace(&mut walk.complete, true);
        for entry in 0..index.items {
            let rows = rows_of(&head.root, number, &index, entry);
            let Some(rows) = walk.finding(FindingKind::BlockIndex, rows)? else {
                walk.complete = false;
                continue;
            };
            let first = u64::from(rows.first);
            walk.equal(FindingKind::BlockIndex, index.offset, "first ordinal of a block", ordinal, first);
            ordinal = first + u64::from(rows.count);
            walk.blocks += 1;
            let Some(block) = walk.next(Shape::Ordinal, rows.handle)? else { continue };
            let mut end_before = 0;
            for index in 0..rows.count {
                let row = rows.row(&block, rows.first + index);
                let Some((start, end)) = walk.finding(FindingKind::Block, row)? else {
                    walk.complete = false;
                    break;
                };
                walk.equal(
                    FindingKind::Block,
                    block.offset,
                    "start of a row",
                    end_before as u64,
                    start as u64,
                );
                walk.sink.row(rows.first + index, &block.bytes[start..end]);
                end_before = end;
            }
            if walk.complete {
                let (tail, end) = (block.tail as u64, end_before as u64);
                walk.equal(FindingKind::Block, block.offset, "end of the rows", tail, end);
            }
        }
        if !walk.complete {
            walk.at = place.index.offset;
        }
        walk.complete &= was_complete;
        walk.next(Shape::OrdinalIndex, place.index)?;
    }
    walk.finish(&head, ordinal)
}
