//! Finds blocks without an index, by their checksums.
//!
//! A block ends where the checksum of what came before it, seeded with its kind and place, stands. Where one block ends
//! the next begins, so that blocks are found one after the other, in time that grows with the bytes. After damage every
//! place may be the beginning of a block: only those are tried that look like one, and only so many bytes far.
//!
//! A wrong find takes a checksum that is right by chance (one in four thousand million) in bytes that decode.

use codec::Checksummer;

use super::Raw;
use crate::block::{Block, Handle, PAYLOAD_BYTES_MAX, Shape, TRAILER_BYTES};
use crate::compress::{TAG_LZ4, TAG_RAW};
use crate::header::FileKind;

/// How much is looked at together, unless a block is longer.
const WINDOW_BYTES: usize = 4 << 20;
/// After so many bytes in which no block begins, the rest is given up.
const GAP_BYTES_MAX: u64 = 64 << 20;
/// The longest block that is looked for at a place where none is known to begin.
const GUESSED_BYTES_MAX: usize = 2 << 20;
/// How many ends are tried with one beginning.
const ENDS_MAX: usize = 64;

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
}

impl Finder {
    pub(super) fn new(kind: FileKind, from: u64, to: u64) -> Finder {
        Finder { kind, at: from, to, window: Vec::new(), window_at: from, saw_end: false }
    }

    /// The next data block, or the next stretch without one.
    pub(super) fn next(&mut self, raw: &Raw) -> Option<Found> {
        while self.at < self.to {
            match self.block_here(raw) {
                Some((Shape::Keyed | Shape::Ordinal, handle)) => {
                    self.at = handle.end();
                    return Some(Found::Data(handle));
                }
                // Behind the properties come the root and the footer, and no data.
                Some((Shape::Properties, _)) => {
                    self.saw_end = true;
                    self.at = self.to;
                }
                // A part of the index or the filter, whole in itself: nothing is lost with it.
                Some((_, handle)) => self.at = handle.end(),
                None => {
                    let gap = self.at;
                    self.at = self.next_beginning(raw);
                    let bytes = self.at - gap;
                    return Some(Found::Gap { offset: gap, bytes });
                }
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

    /// The bytes from `at` on, at least `count` if the stretch has so many.
    fn load(&mut self, raw: &Raw, at: u64, count: usize) -> &[u8] {
        let left = usize::try_from(self.to - at).unwrap_or(usize::MAX);
        let wanted = count.min(left);
        let has = (self.window_at + self.window.len() as u64).saturating_sub(at);
        if at < self.window_at || has < wanted as u64 {
            self.window = raw.bytes(at, wanted.max(WINDOW_BYTES.min(left)));
            self.window_at = at;
        }
        &self.window[usize::try_from(at - self.window_at).expect("within the window")..]
    }

    /// The block that begins at the current place.
    fn block_here(&mut self, raw: &Raw) -> Option<(Shape, Handle)> {
        let (at, data, others) = (self.at, self.data_shape(), self.other_shapes());
        let longest = PAYLOAD_BYTES_MAX + TRAILER_BYTES + 4;
        for count in [WINDOW_BYTES / 16, longest] {
            let bytes = self.load(raw, at, count);
            let bytes = &bytes[..bytes.len().min(count)];
            for shape in std::iter::once(data).chain(others.iter().copied()) {
                if let Some(len) = end_of_block(raw, shape, at, bytes, bytes.len()) {
                    return Some((shape, Handle { offset: at, len }));
                }
            }
            if (self.to - at) as usize <= count {
                break;
            }
        }
        None
    }

    /// The next place at which a data block begins, or the end.
    fn next_beginning(&mut self, raw: &Raw) -> u64 {
        let mut at = self.at + 1;
        let give_up = self.to.min(self.at.saturating_add(GAP_BYTES_MAX));
        while at < give_up {
            let to = self.to;
            let kind = self.kind;
            let bytes = self.load(raw, at, WINDOW_BYTES);
            // A beginning near the end of the window is looked at again with more behind it.
            let is_last = at + bytes.len() as u64 >= to;
            let upto = if is_last { bytes.len() } else { bytes.len() - bytes.len().min(GUESSED_BYTES_MAX) };
            if upto == 0 {
                break;
            }
            let found = match kind {
                FileKind::Keyed => keyed_beginning(raw, at, bytes, upto),
                FileKind::Ordinal => ordinal_beginning(raw, at, bytes, upto),
            };
            match found {
                Some(start) => return at + start as u64,
                None => at += upto as u64,
            }
        }
        self.to
    }
}

/// The length of the block of this shape that `bytes` begin with, which lie at `offset`.
fn end_of_block(raw: &Raw, shape: Shape, offset: u64, bytes: &[u8], longest: usize) -> Option<u32> {
    let mut sum = Checksummer::new(shape.kind(), raw.id, offset);
    let mut summed = 0;
    // `tag` is where the tag would stand: behind at least one byte of a body, before a checksum.
    for tag in 1..longest.min(bytes.len()).saturating_sub(4) {
        if bytes[tag] != TAG_RAW && (bytes[tag] != TAG_LZ4 || shape != Shape::Ordinal) {
            continue;
        }
        sum.push(&bytes[summed..=tag]);
        summed = tag + 1;
        if sum.value().0.to_le_bytes() == bytes[tag + 1..tag + 5]
            && decodes(raw, shape, offset, &bytes[..tag + 5])
        {
            return u32::try_from(tag + 5).ok();
        }
    }
    None
}

fn decodes(raw: &Raw, shape: Shape, offset: u64, stored: &[u8]) -> bool {
    Block::open(shape, raw.id, offset, stored.to_vec()).is_ok()
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

/// Where in `bytes` a keyed data block begins, before `upto`. It begins with an entry that shares nothing, and ends in
/// restart points of which the first is 0.
fn keyed_beginning(raw: &Raw, at: u64, bytes: &[u8], upto: usize) -> Option<usize> {
    let ends: Vec<usize> = (4..bytes.len().saturating_sub(4))
        .filter(|&tag| bytes[tag] == TAG_RAW)
        .filter(|&tag| array(bytes, tag).is_some_and(|(_, start)| u32_at(bytes, start) == 0))
        .collect();
    let mut next = 0;
    for start in 0..upto {
        while ends.get(next).is_some_and(|end| *end <= start + 4) {
            next += 1;
        }
        if bytes[start] != 0 {
            continue;
        }
        for &tag in ends[next..].iter().take(ENDS_MAX) {
            if tag - start > GUESSED_BYTES_MAX {
                break;
            }
            if is_block(raw, Shape::Keyed, at, bytes, start, tag) {
                return Some(start);
            }
        }
    }
    None
}

/// Where in `bytes` an ordinal data block begins, before `upto`. The end of a raw one says how long it is; a compressed
/// one begins with the length of what it becomes, and is shorter than that.
fn ordinal_beginning(raw: &Raw, at: u64, bytes: &[u8], upto: usize) -> Option<usize> {
    let mut raw_blocks: Vec<(usize, usize)> = (4..bytes.len().saturating_sub(4))
        .filter(|&tag| bytes[tag] == TAG_RAW)
        .filter_map(|tag| {
            let (count, start) = array(bytes, tag)?;
            let rows = u32_at(bytes, start + 4 * (count - 1));
            Some((start.checked_sub(rows)?, tag))
        })
        .collect();
    raw_blocks.sort_unstable();
    let mut next = 0;
    for start in 0..upto {
        while let Some(&(begins, tag)) = raw_blocks.get(next).filter(|(begins, _)| *begins <= start) {
            next += 1;
            if begins == start && is_block(raw, Shape::Ordinal, at, bytes, start, tag) {
                return Some(start);
            }
        }
        if start + 4 < bytes.len() {
            let becomes = u32_at(bytes, start);
            let is_likely = (8..=GUESSED_BYTES_MAX).contains(&becomes);
            let body = &bytes[start..];
            if is_likely && end_of_lz4(raw, at + start as u64, body, becomes).is_some() {
                return Some(start);
            }
        }
    }
    None
}

fn end_of_lz4(raw: &Raw, offset: u64, bytes: &[u8], becomes: usize) -> Option<u32> {
    let mut sum = Checksummer::new(Shape::Ordinal.kind(), raw.id, offset);
    let mut summed = 0;
    for tag in 5..(becomes + TRAILER_BYTES).min(bytes.len()).saturating_sub(4) {
        if bytes[tag] != TAG_LZ4 {
            continue;
        }
        sum.push(&bytes[summed..=tag]);
        summed = tag + 1;
        if sum.value().0.to_le_bytes() == bytes[tag + 1..tag + 5]
            && decodes(raw, Shape::Ordinal, offset, &bytes[..tag + 5])
        {
            return u32::try_from(tag + 5).ok();
        }
    }
    None
}

fn is_block(raw: &Raw, shape: Shape, at: u64, bytes: &[u8], start: usize, tag: usize) -> bool {
    let offset = at + start as u64;
    let mut sum = Checksummer::new(shape.kind(), raw.id, offset);
    sum.push(&bytes[start..=tag]);
    sum.value().0.to_le_bytes() == bytes[tag + 1..tag + 5]
        && decodes(raw, shape, offset, &bytes[start..tag + 5])
}
