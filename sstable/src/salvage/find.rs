//! Finds blocks without an index, by their checksums.
//!
//! A block ends where the checksum of what came before it, seeded with its kind and place, stands. Where one block ends
//! the next begins, so that blocks are found one after the other. After damage every place may be the beginning of a
//! block: then all that lie in the next few megabytes are found together (`salvage/sums.rs`).
//!
//! Invariant: the time grows with the bytes, whatever they are: each is looked at a few times, and what is looked at
//! more often than that is counted and has a bound. Memory is what is looked at together, and only while it is.
//!
//! A wrong find takes a checksum that is right by chance in bytes that decode from front to back.

use std::collections::VecDeque;

use super::Raw;
use super::sums::{self, Running};
use crate::block::keyed_cursor::KeyedCursor;
use crate::block::{Block, Handle, PAYLOAD_BYTES_MAX, Shape, TRAILER_BYTES, ordinal};
use crate::compress::{TAG_LZ4, TAG_RAW};
use crate::header::FileKind;
use crate::properties::Properties;

/// How much is looked at together after damage.
const WINDOW_BYTES: usize = 4 << 20;
/// The longest block that is found at a place where none is known to begin.
const GUESSED_BYTES_MAX: usize = 2 << 20;
/// Blocks are at most this long, but for those of a few rows or keys.
const NEAR_BYTES: usize = 256 << 10;
/// And mostly not longer than this.
const NEXT_BYTES: usize = 32 << 10;
/// How much may be looked at more than once: so much, and for each byte so many.
const AGAIN_BYTES: u64 = 32 << 20;
const AGAIN_PER_BYTE: u64 = 8;

/// What stands between two places of a file.
pub(super) enum Found {
    /// A data block.
    Data(Handle),
    /// No block is known to lie in these bytes.
    Gap { offset: u64, bytes: u64 },
}

/// Looks for blocks in `from .. to`.
pub(super) struct Finder {
    kind: FileKind,
    at: u64,
    to: u64,
    /// Bytes of the file from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
    /// Whether the properties were found, behind which there is no data.
    saw_end: bool,
    /// Data blocks that were found behind damage, and up to where all were looked for.
    ahead: VecDeque<Handle>,
    searched_to: u64,
    /// How much may still be looked at more than once.
    again: u64,
}

impl Finder {
    pub(super) fn new(kind: FileKind, from: u64, to: u64) -> Finder {
        let again = to.saturating_sub(from).saturating_mul(AGAIN_PER_BYTE).saturating_add(AGAIN_BYTES);
        Finder {
            kind,
            at: from,
            to,
            window: Vec::new(),
            window_at: from,
            saw_end: false,
            ahead: VecDeque::new(),
            searched_to: from,
            again,
        }
    }

    /// The next data block, or the next stretch without one.
    pub(super) fn next(&mut self, raw: &Raw) -> Option<Found> {
        while self.at < self.to {
            let at = self.at;
            let Some((shape, handle)) = self.block_here(raw) else {
                self.window = Vec::new();
                let next = self.next_beginning(raw);
                let far = next - at > NEAR_BYTES as u64;
                if far && let Some(handle) = self.long_block(raw) {
                    self.at = handle.end();
                    return Some(Found::Data(handle));
                }
                self.at = next;
                return Some(Found::Gap { offset: at, bytes: next - at });
            };
            self.at = handle.end();
            match shape {
                Shape::Keyed | Shape::Ordinal => return Some(Found::Data(handle)),
                // Behind the properties come the root and the footer, and no data.
                Shape::Properties => {
                    self.saw_end = true;
                    self.at = self.to;
                }
                // A part of the index or the filter, whole in itself: nothing is lost with it.
                _ => {}
            }
        }
        None
    }

    /// Whether data may have lain behind what was looked at, in a file of this length.
    pub(super) fn is_cut(&self, len: u64) -> bool {
        self.to == len && !self.saw_end
    }

    fn data_shape(&self) -> Shape {
        match self.kind {
            FileKind::Keyed => Shape::Keyed,
            FileKind::Ordinal => Shape::Ordinal,
        }
    }

    fn other_shapes(&self) -> &'static [Shape] {
        match self.kind {
            FileKind::Keyed => &[Shape::KeyedIndex, Shape::Filter, Shape::Properties],
            FileKind::Ordinal => &[Shape::OrdinalIndex, Shape::Properties],
        }
    }

    /// The bytes from the current place on: `count` of them, or all that are left.
    fn load(&mut self, raw: &Raw, count: usize) {
        let left = usize::try_from(self.to - self.at).unwrap_or(usize::MAX);
        let has = (self.window_at + self.window.len() as u64).saturating_sub(self.at);
        if self.at < self.window_at || has < count.min(left) as u64 {
            // The half of it for what follows.
            self.window = raw.bytes(self.at, count.saturating_mul(2).min(left));
            self.window_at = self.at;
        }
    }

    /// The block that begins at the current place.
    fn block_here(&mut self, raw: &Raw) -> Option<(Shape, Handle)> {
        let (at, data) = (self.at, self.data_shape());
        while self.ahead.front().is_some_and(|handle| handle.offset < at) {
            self.ahead.pop_front();
        }
        if let Some(handle) = self.ahead.pop_front_if(|handle| handle.offset == at) {
            return Some((data, handle));
        }
        for count in [NEXT_BYTES, NEAR_BYTES] {
            self.load(raw, count);
            let start = usize::try_from(at - self.window_at).expect("within the window");
            for shape in std::iter::once(data).chain(self.other_shapes().iter().copied()) {
                let bytes = &self.window[start..];
                let bytes = &bytes[..bytes.len().min(count)];
                if let Some(len) = end_of_block(raw, shape, at, bytes) {
                    return Some((shape, Handle { offset: at, len }));
                }
                self.again = self.again.checked_sub(bytes.len() as u64)?;
            }
            if self.to - at <= count as u64 {
                break;
            }
        }
        None
    }

    /// The next place behind the current one at which a data block begins, or the end.
    fn next_beginning(&mut self, raw: &Raw) -> u64 {
        loop {
            while self.ahead.front().is_some_and(|handle| handle.offset <= self.at) {
                self.ahead.pop_front();
            }
            if let Some(next) = self.ahead.front() {
                return next.offset;
            }
            let from = self.searched_to.max(self.at + 1);
            if from >= self.to {
                return self.to;
            }
            let left = usize::try_from(self.to - from).unwrap_or(usize::MAX);
            let bytes = raw.bytes(from, left.min(WINDOW_BYTES));
            // A beginning near the end of the window is looked at again with more behind it.
            let upto = if left <= WINDOW_BYTES { bytes.len() } else { bytes.len() - GUESSED_BYTES_MAX };
            self.ahead = blocks_within(raw, self.kind, from, &bytes, upto).into();
            self.searched_to = from + upto as u64;
        }
    }

    /// A data block at the current place that is longer than others.
    fn long_block(&mut self, raw: &Raw) -> Option<Handle> {
        let (at, shape) = (self.at, self.data_shape());
        let longest = (PAYLOAD_BYTES_MAX + TRAILER_BYTES + 4) as u64;
        let to = self.to.min(at.saturating_add(longest));
        let mut sum = Running::new(shape.kind(), raw.id, at);
        let mut from = at;
        while from < to {
            // With the four bytes behind, in which the checksum of the last of them would stand.
            let count = NEAR_BYTES.min((to - from) as usize);
            let bytes = raw.bytes(from, (count + 4).min((self.to - from) as usize));
            self.again = self.again.checked_sub(count as u64)?;
            for (index, &byte) in bytes.iter().enumerate().take(count) {
                sum.push(byte);
                let is_end = is_tag(shape, byte)
                    && bytes[index + 1..]
                        .first_chunk()
                        .is_some_and(|stored| *stored == sum.value().to_le_bytes());
                if !is_end {
                    continue;
                }
                let handle = Handle { offset: at, len: (from - at) as u32 + (index + TRAILER_BYTES) as u32 };
                if raw.block(shape, handle).is_ok_and(|block| is_sound(shape, &block)) {
                    return Some(handle);
                }
            }
            from += count as u64;
        }
        None
    }
}

fn is_tag(shape: Shape, byte: u8) -> bool {
    byte == TAG_RAW || byte == TAG_LZ4 && matches!(shape, Shape::Keyed | Shape::Ordinal)
}

/// The length of the block of this shape that `bytes` begin with, which lie at `offset`.
fn end_of_block(raw: &Raw, shape: Shape, offset: u64, bytes: &[u8]) -> Option<u32> {
    let mut sum = Running::new(shape.kind(), raw.id, offset);
    for (tag, &byte) in bytes.iter().enumerate().take(bytes.len().saturating_sub(4)) {
        sum.push(byte);
        // A tag stands behind at least one byte of a body.
        if tag > 0
            && is_tag(shape, byte)
            && bytes[tag + 1..tag + 5] == sum.value().to_le_bytes()
            && decodes(raw, shape, offset, &bytes[..tag + 5])
        {
            return u32::try_from(tag + 5).ok();
        }
    }
    None
}

fn decodes(raw: &Raw, shape: Shape, offset: u64, stored: &[u8]) -> bool {
    Block::open(shape, raw.id, offset, stored.to_vec()).is_ok_and(|block| is_sound(shape, &block))
}

/// Whether all of a block decodes, as far as its shape says how.
fn is_sound(shape: Shape, block: &Block) -> bool {
    match shape {
        Shape::Keyed => is_keyed(block).unwrap_or(false),
        Shape::Ordinal => {
            let last = block.items - 1;
            let row = |index| ordinal::row(block, index);
            (0..block.items).all(|index| row(index).is_ok())
                && row(last).is_ok_and(|(_, end)| end == block.tail)
        }
        Shape::Properties => Properties::decode(block).is_ok(),
        _ => true,
    }
}

fn is_keyed(block: &Block) -> crate::error::Result<bool> {
    let mut cursor = KeyedCursor::default();
    cursor.first(block)?;
    let mut last = cursor.key().to_vec();
    while cursor.next(block)? {
        if last.as_slice() >= cursor.key() {
            return Ok(false);
        }
        last.clear();
        last.extend_from_slice(cursor.key());
    }
    Ok(true)
}

/// All data blocks that begin in `bytes` before `upto` and end in them, by where they begin.
fn blocks_within(raw: &Raw, kind: FileKind, at: u64, bytes: &[u8], upto: usize) -> Vec<Handle> {
    let (shape, (mut beginnings, ends)) = match kind {
        FileKind::Keyed => (Shape::Keyed, keyed_candidates(bytes)),
        FileKind::Ordinal => (Shape::Ordinal, ordinal_candidates(bytes)),
    };
    beginnings.truncate(beginnings.partition_point(|begin| *begin < upto));
    let mut found: Vec<Handle> = Vec::new();
    let mut again = bytes.len().saturating_mul(AGAIN_PER_BYTE as usize);
    for (begin, end) in sums::matches((shape.kind(), raw.id, at), bytes, &beginnings, &ends) {
        let (offset, stored) = (at + begin as u64, &bytes[begin..end + 4]);
        let is_known = found.last().is_some_and(|last| last.offset == offset);
        if is_known || stored.len() > GUESSED_BYTES_MAX || stored.len() <= TRAILER_BYTES {
            continue;
        }
        let Some(left) = again.checked_sub(stored.len()) else { break };
        again = left;
        if decodes(raw, shape, offset, stored)
            && let Ok(len) = u32::try_from(stored.len())
        {
            found.push(Handle { offset, len });
        }
    }
    found
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// What the end of a raw block, whose payload ends at `end`, says of itself: how many numbers stand before their count,
/// and where the first of them does.
fn array(bytes: &[u8], end: usize) -> Option<(usize, usize)> {
    let count = u32_at(bytes, end.checked_sub(4)?);
    let start = end.checked_sub(4)?.checked_sub(count.checked_mul(4)?)?;
    (count > 0).then_some((count, start))
}

/// Where a tag may stand, with a checksum behind it.
fn tags(bytes: &[u8]) -> impl Iterator<Item = usize> {
    1..bytes.len().saturating_sub(4)
}

/// Where in `bytes` compressed data blocks may begin: with the length of what they become.
fn compressed_beginnings(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let is_length = |&at: &usize| (8..=PAYLOAD_BYTES_MAX).contains(&u32_at(bytes, at));
    (0..bytes.len().saturating_sub(4)).filter(is_length)
}

/// Where in `bytes` keyed data blocks may begin, and where their checksums may stand. A raw block begins with an entry
/// that shares nothing, and ends in restart points of which the first is 0.
fn keyed_candidates(bytes: &[u8]) -> (Vec<usize>, Vec<usize>) {
    // The shortest block there is has no more than seven zeros at its beginning.
    let is_beginning =
        |&at: &usize| bytes[at] == 0 && bytes[at..].first_chunk::<8>().is_none_or(|next| *next != [0; 8]);
    let is_end = |&tag: &usize| match bytes[tag] {
        TAG_RAW => array(bytes, tag).is_some_and(|(_, start)| u32_at(bytes, start) == 0),
        byte => byte == TAG_LZ4,
    };
    let mut beginnings: Vec<usize> = (0..bytes.len()).filter(is_beginning).collect();
    beginnings.extend(compressed_beginnings(bytes));
    beginnings.sort_unstable();
    beginnings.dedup();
    (beginnings, tags(bytes).filter(is_end).map(|tag| tag + 1).collect())
}

/// The same for ordinal data blocks. The end of a raw one says where it begins.
fn ordinal_candidates(bytes: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let (mut beginnings, mut ends) = (Vec::new(), Vec::new());
    for tag in tags(bytes) {
        let begins = || {
            let (count, start) = array(bytes, tag)?;
            start.checked_sub(u32_at(bytes, start + 4 * (count - 1)))
        };
        match bytes[tag] {
            TAG_RAW => {
                if let Some(begins) = begins() {
                    beginnings.push(begins);
                    ends.push(tag + 1);
                }
            }
            TAG_LZ4 => ends.push(tag + 1),
            _ => {}
        }
    }
    beginnings.extend(compressed_beginnings(bytes));
    beginnings.sort_unstable();
    beginnings.dedup();
    (beginnings, ends)
}
