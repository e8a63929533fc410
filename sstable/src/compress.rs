//! LZ4 for blocks, where it pays, and its undoing within bounds.
//!
//! A compressed body: the length of the payload (u32), then an LZ4 block. Never expands more than it was told to
//! expect, nor more than LZ4 can.

use codec::FileId;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::error::{Error, Result};
use crate::options::Compression;

/// A body that is the payload itself.
pub(crate) const TAG_RAW: u8 = 0;
/// A body compressed with LZ4.
pub(crate) const TAG_LZ4: u8 = 1;

/// No LZ4 sequence yields more bytes than this for each of its own.
const LZ4_RATIO_MAX: usize = 255;

/// Compresses blocks, one after the other, in buffers that it keeps.
pub(crate) struct Compressor {
    compression: Compression,
    table: CompressTable,
    output: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> Compressor {
        Compressor { compression, table: CompressTable::small(), output: Vec::new() }
    }

    /// What it was made for.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// The compressed body of `payload`, if that saves an eighth.
    pub(crate) fn compress(&mut self, payload: &[u8]) -> Option<&[u8]> {
        if self.compression == Compression::None {
            return None;
        }
        let length = u32::try_from(payload.len()).ok()?;
        let room = 4 + get_maximum_output_size(payload.len());
        if self.output.len() < room {
            self.output.resize(room, 0);
        }
        self.output[..4].copy_from_slice(&length.to_le_bytes());
        let compressed = compress_into_with_table(payload, &mut self.output[4..], &mut self.table).ok()?;
        let body = 4 + compressed;
        (body <= payload.len() - payload.len() / 8).then(|| &self.output[..body])
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("compression", &self.compression).finish_non_exhaustive()
    }
}

/// The payload of a compressed body whose checksum held, at most `bytes_max` bytes. `payload` is memory to use, with
/// anything in it.
pub(crate) fn expand(
    file: FileId,
    offset: u64,
    body: &[u8],
    bytes_max: usize,
    mut payload: Vec<u8>,
) -> Result<Vec<u8>> {
    let mismatch = |what, expected: usize, found: usize| Error::Mismatch {
        file,
        offset,
        what,
        expected: expected as u64,
        found: found as u64,
    };
    let Some((length, compressed)) = body.split_first_chunk::<4>() else {
        return Err(mismatch("least length of a compressed block", 4, body.len()));
    };
    let length = u32::from_le_bytes(*length) as usize;
    let bytes_max = bytes_max.min(compressed.len().saturating_mul(LZ4_RATIO_MAX));
    if length > bytes_max {
        return Err(mismatch("greatest length of an expanded block", bytes_max, length));
    }
    payload.resize(length, 0);
    match decompress_into(compressed, &mut payload) {
        Ok(found) if found == length => Ok(payload),
        Ok(found) => Err(mismatch("length of an expanded block", length, found)),
        Err(_) => Err(mismatch("length of an expanded block (LZ4 cannot be decoded)", length, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_only_where_it_saves_an_eighth() {
        let mut compressor = Compressor::new(Compression::Lz4);
        let repeated = b"nyala ".repeat(100);
        let body = compressor.compress(&repeated).expect("repeats compress").to_vec();
        for memory in [Vec::new(), vec![1; 10], vec![1; 10_000]] {
            assert_eq!(expand(FileId(1), 0, &body, 1 << 20, memory).expect("it expands"), repeated);
        }
        let noise: Vec<u8> =
            (0u64..75).flat_map(|i| codec::hash_key(&i.to_le_bytes()).0.to_le_bytes()).collect();
        assert!(compressor.compress(&noise).is_none());
        assert!(Compressor::new(Compression::None).compress(&repeated).is_none());
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut body = u32::MAX.to_le_bytes().to_vec();
        body.extend_from_slice(&[0x10, b'x']);
        assert!(expand(FileId(1), 0, &body, usize::MAX, Vec::new()).is_err_and(|e| e.is_corruption()));
        let mut compressor = Compressor::new(Compression::Lz4);
        let body = compressor.compress(&[7; 1000]).expect("sevens compress").to_vec();
        assert!(expand(FileId(1), 0, &body, 999, Vec::new()).is_err());
        for length in [0u32, 1, 999, 1001] {
            let mut wrong = body.clone();
            wrong[..4].copy_from_slice(&length.to_le_bytes());
            assert!(expand(FileId(1), 0, &wrong, 1 << 20, Vec::new()).is_err(), "{length}");
        }
    }
}
