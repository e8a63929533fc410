//! Sstables: header, blocks, properties, root, footer.
//!
//! The blocks are found as a reader finds them: from the footer to the root and the properties, from the root to the
//! partitions of the index and of the filter, from those to the data blocks.

use std::ops::Range;

use codec::{FileId, Kind, ReadError, Reader, checksum};

const HEADER_BYTES: usize = 28;
const FOOTER_BYTES: usize = 64;
const TRAILER_BYTES: usize = 5;
/// More data blocks than this are not looked for: no input is so long.
const BLOCKS_MAX: usize = 1 << 14;

/// What the blocks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Keys and values: `N.idx`.
    Keyed,
    /// Rows: `N.row`.
    Ordinal,
}

/// Where a block lies, as something in the file says.
type Place = (u64, u64);

/// Puts the checksums of a file right, in place, and the numbers in header and footer that say which file it is and how
/// long. Tells the footer's checksum; 0 if there is no footer.
pub fn fix(bytes: &mut [u8], kind: FileKind, id: u64) -> u32 {
    let (len, file) = (bytes.len(), FileId(id));
    if len < HEADER_BYTES + FOOTER_BYTES {
        return 0;
    }
    bytes[..8].copy_from_slice(b"NYALASST");
    bytes[16..24].copy_from_slice(&id.to_le_bytes());
    let sum = checksum(Kind::SstableHeader, file, 0, &[&bytes[..24]]).0;
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());

    let (body, footer) = bytes.split_at_mut(len - FOOTER_BYTES);
    let root = (u64_at(footer, 0), u64::from(u32_at(footer, 8)));
    let properties = (u64_at(footer, 16), u64::from(u32_at(footer, 12)));
    let mut blocks = Blocks { body, file, sealed: Vec::new() };
    blocks.seal(properties, Kind::Properties);
    if let Some(root) = blocks.seal(root, Kind::IndexBlock) {
        let payload = blocks.body[root].to_vec();
        for (index, filter) in partitions(&payload) {
            blocks.seal(filter, Kind::FilterBlock);
            let Some(index) = blocks.seal(index, Kind::IndexBlock) else { continue };
            let payload = blocks.body[index].to_vec();
            let (places, data) = match kind {
                FileKind::Keyed => (keyed_places(&payload), Kind::KeyedBlock),
                FileKind::Ordinal => (ordinal_places(&payload), Kind::OrdinalBlock),
            };
            for place in places {
                blocks.seal(place, data);
            }
        }
    }
    let contents = blocks.chain();
    footer[24..32].copy_from_slice(&(len as u64).to_le_bytes());
    footer[32..40].copy_from_slice(&id.to_le_bytes());
    footer[40..44].copy_from_slice(&contents.to_le_bytes());
    let sum = checksum(Kind::Footer, file, (len - FOOTER_BYTES) as u64, &[&footer[..52]]).0;
    footer[52..56].copy_from_slice(&sum.to_le_bytes());
    footer[56..].copy_from_slice(b"tsslayn\n");
    sum
}

struct Blocks<'a> {
    /// All before the footer.
    body: &'a mut [u8],
    file: FileId,
    sealed: Vec<Place>,
}

impl Blocks<'_> {
    /// Puts a block's checksum right, and tells where its payload lies, as far as it is raw.
    fn seal(&mut self, (offset, len): Place, kind: Kind) -> Option<Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        let is_place = start >= HEADER_BYTES && end <= self.body.len() && end - start > TRAILER_BYTES;
        if !is_place || self.sealed.len() == BLOCKS_MAX {
            return None;
        }
        let sum = checksum(kind, self.file, offset, &[&self.body[start..end - 4]]).0;
        self.body[end - 4..end].copy_from_slice(&sum.to_le_bytes());
        self.sealed.push((offset, len));
        Some(start..end - TRAILER_BYTES)
    }

    /// The checksum of all checksums.
    fn chain(&mut self) -> u32 {
        self.sealed.sort_unstable();
        self.sealed.dedup();
        self.sealed.iter().fold(0, |contents: u32, &(offset, len)| {
            let end = usize::try_from(offset + len).expect("it was sealed, so it lies in the file");
            let sum = &self.body[end - 4..end];
            checksum(Kind::Footer, self.file, offset, &[&contents.to_le_bytes(), sum]).0
        })
    }
}

/// The places of index partitions, and of their filters, that a root names.
fn partitions(root: &[u8]) -> Vec<(Place, Place)> {
    let mut found = Vec::new();
    let mut reader = Reader::new(root);
    let mut read = || -> Result<(), ReadError> {
        for _ in 0..reader.varint()?.min(BLOCKS_MAX as u64) {
            let mut numbers = [0; 6];
            for number in &mut numbers {
                *number = reader.varint()?;
            }
            reader.prefixed()?;
            let [offset, len, filter_offset, filter_len, ..] = numbers;
            found.push(((offset, len), (filter_offset, filter_len)));
        }
        Ok(())
    };
    // What comes before the damage counts.
    let _ = read();
    found
}

/// The places of data blocks that an index partition of a keyed file names.
fn keyed_places(partition: &[u8]) -> Vec<Place> {
    let Some((rest, count)) = partition.split_last_chunk::<4>() else { return Vec::new() };
    let count = (u32::from_le_bytes(*count) as usize).min(rest.len() / 4).min(BLOCKS_MAX);
    let (entries, restarts) = rest.split_at(rest.len() - 4 * count);
    let place = |restart: &[u8; 4]| -> Option<Place> {
        let mut reader = Reader::new(entries.get(u32::from_le_bytes(*restart) as usize..)?);
        let (_, suffix, value) = (reader.varint().ok()?, reader.varint().ok()?, reader.varint().ok()?);
        reader.bytes(usize::try_from(suffix >> 1).ok()?).ok()?;
        let mut value = Reader::new(reader.bytes(usize::try_from(value).ok()?).ok()?);
        Some((value.varint().ok()?, value.varint().ok()?))
    };
    restarts.as_chunks::<4>().0.iter().filter_map(place).collect()
}

/// The same of an ordinal file.
fn ordinal_places(partition: &[u8]) -> Vec<Place> {
    let count = (partition.len().saturating_sub(8) / 12).min(BLOCKS_MAX);
    let offset = |block: usize| u64_at(partition, 4 * count + 8 * block);
    (0..count).map(|block| (offset(block), offset(block + 1).wrapping_sub(offset(block)))).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
