//! The regions of an index file or a rowset.

use std::ops::Range;

use super::{Region, number, take, varint};

const HEADER_BYTES: usize = 28;
const FOOTER_BYTES: usize = 64;
/// Tag and checksum.
const TRAILER_BYTES: usize = 5;

#[derive(Default)]
pub(super) struct Sstable {
    pub(super) regions: Vec<Region>,
    pub(super) blocks: Vec<Range<usize>>,
    pub(super) several_versions: usize,
    pub(super) deletions: usize,
}

impl Sstable {
    pub(super) fn read(bytes: &[u8], is_keyed: bool) -> Sstable {
        assert_eq!(&bytes[..8], b"NYALASST");
        let mut found = Sstable::default();
        found.region(0..HEADER_BYTES, "header");
        let footer = bytes.len() - FOOTER_BYTES;
        found.region(footer..bytes.len(), "footer");
        let root = place(number::<8>(bytes, footer), number::<4>(bytes, footer + 8));
        let properties = place(number::<8>(bytes, footer + 16), number::<4>(bytes, footer + 12));
        found.block(properties, "properties");
        let mut rest = &bytes[root.start..root.end - TRAILER_BYTES];
        found.block(root, "root of the block index");
        for _ in 0..varint(&mut rest) {
            let index = place(varint(&mut rest), varint(&mut rest));
            let filter = place(varint(&mut rest), varint(&mut rest));
            let blocks = varint(&mut rest);
            varint(&mut rest);
            let separator_bytes = varint(&mut rest);
            take(&mut rest, separator_bytes as usize);
            let partition = &bytes[index.start..index.end - TRAILER_BYTES];
            let data = if is_keyed {
                keyed_partition(partition)
            } else {
                ordinal_partition(partition, blocks as usize)
            };
            assert_eq!(data.len() as u64, blocks);
            for block in data {
                let is_lz4 = bytes[block.end - TRAILER_BYTES] == 1;
                if is_keyed {
                    let body = &bytes[block.start..block.end - TRAILER_BYTES];
                    if is_lz4 { found.entries(&expand(body)) } else { found.entries(body) }
                }
                found.block(block, if is_lz4 { "data block, lz4" } else { "data block, raw" });
            }
            found.block(index, "partition of the block index");
            if !filter.is_empty() {
                found.block(filter, "filter");
            }
        }
        assert!(rest.is_empty());
        found.regions.sort_by_key(|region| region.range.start);
        found.blocks.sort_by_key(|block| block.start);
        found
    }

    fn region(&mut self, range: Range<usize>, what: &'static str) {
        self.regions.push(Region { range, what });
    }

    fn block(&mut self, range: Range<usize>, what: &'static str) {
        self.blocks.push(range.clone());
        self.region(range.start..range.end - TRAILER_BYTES, what);
        self.region(range.end - TRAILER_BYTES..range.end, "trailer of a block");
    }

    /// Counts what the values of an index block say.
    fn entries(&mut self, payload: &[u8]) {
        for (_, mut value) in keyed_entries(payload) {
            let mut versions = 0;
            while !value.is_empty() {
                assert_eq!(take(&mut value, 1), [0x0a]);
                let count = varint(&mut value) as usize;
                let mut version = take(&mut value, count);
                assert_eq!(take(&mut version, 1), [0x08]);
                varint(&mut version);
                versions += 1;
                self.deletions += usize::from(version.is_empty());
            }
            self.several_versions += usize::from(versions > 1);
        }
    }
}

/// What a compressed body holds: its length comes first.
fn expand(body: &[u8]) -> Vec<u8> {
    let length = number::<4>(body, 0) as usize;
    lz4_flex::block::decompress(&body[4..], length).expect("what was written is sound")
}

fn place(offset: u64, len: u64) -> Range<usize> {
    offset as usize..(offset + len) as usize
}

/// The keys and values of a keyed block.
fn keyed_entries(payload: &[u8]) -> Vec<(Vec<u8>, &[u8])> {
    let restarts = number::<4>(payload, payload.len() - 4) as usize;
    let mut rest = &payload[..payload.len() - 4 - 4 * restarts];
    let mut entries: Vec<(Vec<u8>, &[u8])> = Vec::new();
    while !rest.is_empty() {
        let shared = varint(&mut rest) as usize;
        let key_bytes = varint(&mut rest);
        let value_bytes = match entries.last() {
            Some((_, before)) if key_bytes & 1 == 1 => before.len(),
            _ => varint(&mut rest) as usize,
        };
        let before = entries.last().map_or(&[][..], |(key, _)| key);
        let key = [&before[..shared], take(&mut rest, key_bytes as usize / 2)].concat();
        entries.push((key, take(&mut rest, value_bytes)));
    }
    entries
}

fn keyed_partition(payload: &[u8]) -> Vec<Range<usize>> {
    keyed_entries(payload)
        .into_iter()
        .map(|(_, mut value)| place(varint(&mut value), varint(&mut value)))
        .collect()
}

fn ordinal_partition(payload: &[u8], blocks: usize) -> Vec<Range<usize>> {
    let end = |index: usize| number::<8>(payload, 4 * blocks + 8 * index) as usize;
    (0..blocks).map(|index| end(index)..end(index + 1)).collect()
}
