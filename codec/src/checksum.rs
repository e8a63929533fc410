//! Checksums that know where they stand.
//!
//! A checksum is seeded with the kind of thing that it covers, the file and the offset, so that a block which the
//! disk returned from another place, or two blocks that were exchanged, fail although their bytes are intact.

use crate::FileId;

/// What a checksum covers. The number is part of the file formats and is never used for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The header of a log segment.
    SegmentHeader = 1,
    /// A record of the write-ahead log.
    LogRecord = 2,
    /// A record of the manifest.
    ManifestRecord = 3,
    /// A data block of a keyed sstable.
    KeyedBlock = 4,
    /// A data block of an ordinal sstable.
    OrdinalBlock = 5,
    /// A block of an sstable's block index.
    IndexBlock = 6,
    /// A partition of an sstable's filter.
    FilterBlock = 7,
    /// The properties of an sstable.
    Properties = 8,
    /// The footer of an sstable.
    Footer = 9,
    /// The file that names the manifest in force.
    Current = 10,
    /// The header of an sstable.
    SstableHeader = 11,
    /// The header of a manifest segment.
    ManifestHeader = 12,
}

/// A 32-bit checksum (CRC-32, seeded).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checksum(pub u32);

/// The checksum of `parts`, one after the other, for something of `kind` at `offset` of `file`.
///
/// ```
/// use nyala_codec::{checksum, FileId, Kind};
/// let here = checksum(Kind::KeyedBlock, FileId(7), 4096, &[b"block"]);
/// assert_eq!(here, checksum(Kind::KeyedBlock, FileId(7), 4096, &[b"blo", b"ck"]));
/// assert_ne!(here, checksum(Kind::KeyedBlock, FileId(7), 8192, &[b"block"]));
/// ```
#[must_use]
pub fn checksum(kind: Kind, file: FileId, offset: u64, parts: &[&[u8]]) -> Checksum {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seed(kind, file, offset));
    for part in parts {
        hasher.update(part);
    }
    Checksum(hasher.finalize())
}

/// What a checksum takes in before the bytes.
fn seed(kind: Kind, file: FileId, offset: u64) -> [u8; 17] {
    let mut seed = [0; 17];
    seed[0] = kind as u8;
    seed[1..9].copy_from_slice(&file.0.to_le_bytes());
    seed[9..].copy_from_slice(&offset.to_le_bytes());
    seed
}

/// The same checksum, of bytes that come one after the other.
///
/// ```
/// use nyala_codec::{checksum, Checksummer, FileId, Kind};
///
/// let mut sum = Checksummer::new(Kind::KeyedBlock, FileId(7), 4096);
/// sum.push(b"blo");
/// sum.push(b"ck");
/// assert_eq!(sum.value(), checksum(Kind::KeyedBlock, FileId(7), 4096, &[b"block"]));
/// ```
#[derive(Clone, Debug)]
pub struct Checksummer(crc32fast::Hasher);

impl Checksummer {
    /// For something of `kind` at `offset` of `file`.
    #[must_use]
    pub fn new(kind: Kind, file: FileId, offset: u64) -> Checksummer {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&seed(kind, file, offset));
        Checksummer(hasher)
    }

    /// Takes in more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of the bytes so far.
    #[must_use]
    pub fn value(&self) -> Checksum {
        Checksum(self.0.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_place_counts() {
        let base = checksum(Kind::LogRecord, FileId(1), 2, &[b"x"]);
        assert_ne!(base, checksum(Kind::ManifestRecord, FileId(1), 2, &[b"x"]));
        assert_ne!(base, checksum(Kind::LogRecord, FileId(2), 2, &[b"x"]));
        assert_ne!(base, checksum(Kind::LogRecord, FileId(1), 3, &[b"x"]));
        assert_ne!(base, checksum(Kind::LogRecord, FileId(1), 2, &[b"y"]));
    }

    #[test]
    fn zeros_never_check_out() {
        // A hole in a file reads as zeros, and its checksum field too: that must not pass for a record.
        for length in 0..64 {
            let zeros = vec![0; length];
            assert_ne!(checksum(Kind::LogRecord, FileId(1), 64, &[&zeros]), Checksum(0));
        }
    }
}
