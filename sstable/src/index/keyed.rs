//! A partition of the block index of a keyed file, and separators.
//!
//! A keyed block (see [`crate::block::keyed`]) in which every entry is a restart point. One entry a data block: the
//! key is at or above all of the block's and below those of the next; the value is the block's offset and length,
//! trailer included, as varints.

use codec::{ReadError, Reader, put_varint};

use crate::block::keyed::{self, KeyedBuilder};
use crate::block::{Block, Handle};
use crate::error::Result;

/// Writes one partition after the other, in buffers that it keeps.
#[derive(Debug)]
pub(crate) struct KeyedIndexBuilder {
    block: KeyedBuilder,
    handle: Vec<u8>,
    blocks: u64,
}

impl Default for KeyedIndexBuilder {
    fn default() -> KeyedIndexBuilder {
        KeyedIndexBuilder { block: KeyedBuilder::new(1), handle: Vec::new(), blocks: 0 }
    }
}

impl KeyedIndexBuilder {
    pub(crate) fn len(&self) -> usize {
        self.block.len()
    }

    /// How many data blocks the partition names by now.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(crate) fn add(&mut self, separator: &[u8], block: Handle) {
        self.handle.clear();
        put_varint(&mut self.handle, block.offset);
        put_varint(&mut self.handle, u64::from(block.len));
        self.block.add(separator, 0, &self.handle);
        self.blocks += 1;
    }

    pub(crate) fn finish(&mut self) -> &[u8] {
        self.block.finish()
    }

    pub(crate) fn clear(&mut self) {
        self.block.clear();
        self.blocks = 0;
    }
}

/// The data block that an entry of a partition names.
pub(crate) fn handle(partition: &Block, entry: usize) -> Result<Handle> {
    let entry = keyed::restart_entry(partition, entry)?;
    let mut reader = Reader::new(&partition.bytes[entry.value_start..entry.value_end]);
    let mut decode =
        || -> std::result::Result<(u64, u64), ReadError> { Ok((reader.varint()?, reader.varint()?)) };
    let malformed = |source| partition.malformed("the place of a block", source);
    let (offset, len) = decode().map_err(malformed)?;
    reader.finish().map_err(malformed)?;
    match u32::try_from(len) {
        Ok(len) => Ok(Handle { offset, len }),
        Err(_) => Err(partition.mismatch("greatest length of a block", u32::MAX as usize, len as usize)),
    }
}

/// Puts into `out` a short key at or above `last` and below `next`, where `last < next`.
pub(crate) fn separate(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let common = keyed::common_prefix(last, next);
    // Where `last` is a prefix of `next`, or one byte longer than what they share, nothing is shorter.
    if common + 1 < last.len() {
        let byte = last[common];
        if next.len() > common + 1 {
            out.extend_from_slice(&next[..=common]);
            return;
        }
        if byte + 1 < next[common] {
            out.extend_from_slice(&last[..common]);
            out.push(byte + 1);
            return;
        }
    }
    out.extend_from_slice(last);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn separators_are_short() {
        let separate = |last: &[u8], next: &[u8]| {
            let mut out = Vec::new();
            super::separate(last, next, &mut out);
            out
        };
        assert_eq!(separate(b"host17-cpu", b"host18-cpu"), b"host18");
        assert_eq!(separate(b"abcdef", b"ae"), b"ac");
        assert_eq!(separate(b"abcdef", b"ac"), b"abcdef");
        assert_eq!(separate(b"", b"\0"), b"");
        assert_eq!(separate(b"a", b"a\0"), b"a");
        assert_eq!(separate(b"a\xff\xff", b"b"), b"a\xff\xff");
    }

    proptest! {
        #[test]
        fn a_separator_separates(
            a in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff)], 0..6),
            b in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff)], 0..6),
        ) {
            prop_assume!(a != b);
            let (last, next) = if a < b { (a, b) } else { (b, a) };
            let mut out = vec![9];
            separate(&last, &next, &mut out);
            prop_assert!(last <= out && out < next);
            prop_assert!(out.len() <= last.len());
        }
    }
}
