//! Filters: whether a key is surely absent, by its hash, without a look at the keys.
//!
//! One partition of a filter, for the keys of one partition of the block index (a binary fuse filter of `xorf`):
//!
//! | bytes | what |
//! |---|---|
//! | 8 | seed |
//! | 4 | segment length, a power of two |
//! | 4 | segment length - 1 |
//! | 4 | length of all segments but the last two |
//! | n | fingerprints, one byte each |
//!
//! Never answers "absent" for a key that was put in.

mod fuse;

use codec::KeyHash;
use xorf::{BinaryFuse8, BinaryFuse8Ref, DmaSerializable, Filter, FilterRef};

use crate::block::Block;
use crate::error::Result;
use fuse::FuseBuilder;

const DESCRIPTOR_BYTES: usize = BinaryFuse8::DESCRIPTOR_LEN;
const _: () = assert!(DESCRIPTOR_BYTES == 20);

/// After so many keys a partition is cut. What building a filter of so many works in, some 700 KB, fits the cache of a
/// core; a filter of four times as many would take 4 % fewer bytes, and near twice the time.
pub(crate) const PARTITION_KEYS_MAX: usize = 1 << 14;

/// Collects the hashes of a partition's keys.
#[derive(Debug, Default)]
pub(crate) struct FilterBuilder {
    hashes: Vec<u64>,
    fuse: FuseBuilder,
    payload: Vec<u8>,
}

impl FilterBuilder {
    #[inline]
    pub(crate) fn add(&mut self, hash: KeyHash) {
        self.hashes.push(hash.0);
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
    }

    /// The partition's payload, and begins the next. `None` if no filter can be built, which readers take for "maybe".
    pub(crate) fn finish(&mut self) -> Option<&[u8]> {
        if self.hashes.is_empty() {
            return None;
        }
        self.payload.clear();
        self.payload.resize(DESCRIPTOR_BYTES, 0);
        let built = self.fuse.build(&mut self.hashes, &mut self.payload);
        self.hashes.clear();
        let layout = built?;
        self.payload[..8].copy_from_slice(&layout.seed.to_le_bytes());
        for (at, number) in [(8, layout.segment), (12, layout.segment - 1), (16, layout.before_last_two)] {
            self.payload[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        Some(&self.payload)
    }
}

/// Checks that no probe can reach beyond the fingerprints.
pub(crate) fn parse(block: &Block) -> Result<()> {
    let len = block.bytes.len();
    if len < DESCRIPTOR_BYTES {
        return Err(block.mismatch("least length of a filter", DESCRIPTOR_BYTES, len));
    }
    let segment = u64::from(block.u32_at(8));
    let mask = u64::from(block.u32_at(12));
    let before_last_two = u64::from(block.u32_at(16));
    if !segment.is_power_of_two() || mask != segment - 1 || before_last_two % segment != 0 {
        return Err(block.mismatch("mask of a filter's segments", segment as usize, mask as usize));
    }
    let fingerprints = (len - DESCRIPTOR_BYTES) as u64;
    let expected = before_last_two + 2 * segment;
    // A probe computes with 32 bits.
    if expected != fingerprints || before_last_two == 0 || u32::try_from(expected).is_err() {
        return Err(block.mismatch(
            "count of a filter's fingerprints",
            expected as usize,
            fingerprints as usize,
        ));
    }
    Ok(())
}

/// Whether a key with this hash may be among those of a partition.
#[inline]
pub(crate) fn may_contain(block: &Block, hash: KeyHash) -> bool {
    let (descriptor, fingerprints) = block.bytes.split_at(DESCRIPTOR_BYTES);
    BinaryFuse8Ref::from_dma(descriptor, fingerprints).contains(&hash.0)
}

#[cfg(test)]
mod tests {
    use codec::FileId;

    use super::*;

    fn block(bytes: Vec<u8>) -> Block {
        Block { bytes, items: 0, tail: 0, file: FileId(1), offset: 0 }
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        let mut builder = FilterBuilder::default();
        assert!(builder.finish().is_none());
        for count in [1u64, 2, 3, 10, 100, 1000, 5000] {
            let hash = |i: u64| codec::hash_key(&i.to_le_bytes());
            for i in 0..count {
                builder.add(hash(i));
                builder.add(hash(i));
            }
            let block = block(builder.finish().expect("distinct hashes build").to_vec());
            parse(&block).expect("what was built is sound");
            assert!((0..count).all(|i| may_contain(&block, hash(i))));
            let wrong = (count..count + 10_000).filter(|&i| may_contain(&block, hash(i))).count();
            assert!(wrong < 150, "{wrong} of 10000 with {count} keys");
        }
    }

    #[test]
    fn a_probe_never_leaves_a_filter_that_was_let_in() {
        let mut builder = FilterBuilder::default();
        (0..50u64).for_each(|i| builder.add(codec::hash_key(&i.to_le_bytes())));
        let sound = builder.finish().expect("it builds").to_vec();
        for at in 8..DESCRIPTOR_BYTES {
            for value in [0, 1, 2, 3, 8, 0x7f, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] = value;
                let block = block(bytes);
                if parse(&block).is_ok() {
                    (0..1000u64).for_each(|i| {
                        may_contain(&block, codec::hash_key(&i.to_le_bytes()));
                    });
                }
            }
        }
        for len in 0..sound.len() {
            assert!(parse(&block(sound[..len].to_vec())).is_err(), "{len}");
        }
    }
}
