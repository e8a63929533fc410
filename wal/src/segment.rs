//! The header of a segment: the bytes that begin every file of a log.
//!
//! | bytes    | what                                                                          |
//! |----------|-------------------------------------------------------------------------------|
//! | 0 .. 8   | magic: `NYALAWAL` or `NYALAMAN`                                               |
//! | 8 .. 12  | format version, little-endian like all numbers here                           |
//! | 12 .. 16 | required features: a reader that does not know each bit must refuse           |
//! | 16 .. 24 | number of this segment                                                        |
//! | 24 .. 32 | number of the segment before it                                               |
//! | 32 .. 40 | the byte at which that one ends; 0 if there is none before                    |
//! | 40 .. 60 | zeros, for later                                                              |
//! | 60 .. 64 | checksum of bytes 0 .. 60, seeded with the kind, the number of this segment, 0 |
//!
//! Every later version keeps the place of magic, version, features and checksum, so that a newer file is told from a
//! damaged one. The header lies within one sector: it is there whole or not at all. A segment that was prepared and
//! never used has zeros, or nothing, in its place. Bytes of the segment before that lie past the end named here
//! belong to no record, whatever they look like.

use codec::{Checksum, FileId, Reader, checksum};

use crate::{Damage, Flavor, Position};

/// How long the header of a segment is. It is on disk before anything is written behind it.
pub const HEADER_BYTES: usize = 64;
/// Where the first record of a segment begins.
pub(crate) const RECORDS_START: u64 = HEADER_BYTES as u64;
pub(crate) const FORMAT_VERSION: u32 = 1;
pub(crate) const FEATURES_KNOWN: u32 = 0;

const CHECKED_BYTES: usize = HEADER_BYTES - 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: FileId,
    /// The segment before it, and where that one ends.
    pub(crate) predecessor: Option<Position>,
}

/// Why there is no header to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// Nothing was ever written there.
    Unused,
    Damaged(Damage),
    Unsupported {
        version: u32,
        features: u32,
    },
}

impl Header {
    pub(crate) fn encode(&self, flavor: Flavor) -> [u8; HEADER_BYTES] {
        let predecessor = self.predecessor.unwrap_or_default();
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&flavor.magic());
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&FEATURES_KNOWN.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&predecessor.segment.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&predecessor.offset.to_le_bytes());
        let Checksum(sum) = checksum(flavor.header_kind(), self.id, 0, &[&bytes[..CHECKED_BYTES]]);
        bytes[CHECKED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the header of segment `id`.
    pub(crate) fn decode(bytes: &[u8], flavor: Flavor, id: FileId) -> Result<Header, HeaderFault> {
        // A file shorter than a header was not written to: the header comes whole, with the first write.
        if bytes.len() < HEADER_BYTES || bytes[..HEADER_BYTES].iter().all(|byte| *byte == 0) {
            return Err(HeaderFault::Unused);
        }
        let Some(fields) = Fields::read(bytes) else {
            return Err(HeaderFault::Unused);
        };
        if fields.magic != flavor.magic() {
            let damage = Damage::Magic { expected: flavor.magic(), found: fields.magic };
            return Err(HeaderFault::Damaged(damage));
        }
        let Checksum(found) = checksum(flavor.header_kind(), fields.id, 0, &[&bytes[..CHECKED_BYTES]]);
        if found != fields.checksum {
            let damage = Damage::Checksum { what: "the header", expected: fields.checksum, found };
            return Err(HeaderFault::Damaged(damage));
        }
        if fields.version != FORMAT_VERSION || fields.features & !FEATURES_KNOWN != 0 {
            return Err(HeaderFault::Unsupported { version: fields.version, features: fields.features });
        }
        if fields.id != id {
            let found = Position { segment: fields.id, offset: 0 };
            return Err(HeaderFault::Damaged(Damage::Elsewhere { found }));
        }
        let before = fields.predecessor;
        if before == Position::default() {
            return Ok(Header { id, predecessor: None });
        }
        if before.offset < RECORDS_START || before.segment >= id {
            return Err(HeaderFault::Damaged(Damage::Predecessor { found: before }));
        }
        Ok(Header { id, predecessor: Some(before) })
    }
}

struct Fields {
    magic: [u8; 8],
    version: u32,
    features: u32,
    id: FileId,
    predecessor: Position,
    checksum: u32,
}

impl Fields {
    fn read(bytes: &[u8]) -> Option<Fields> {
        let mut reader = Reader::new(bytes);
        Some(Fields {
            magic: reader.array().ok()?,
            version: reader.u32().ok()?,
            features: reader.u32().ok()?,
            id: FileId(reader.u64().ok()?),
            predecessor: Position { segment: FileId(reader.u64().ok()?), offset: reader.u64().ok()? },
            checksum: {
                reader.bytes(CHECKED_BYTES - 40).ok()?;
                reader.u32().ok()?
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { id: FileId(7), predecessor: Some(Position { segment: FileId(5), offset: 4711 }) };

    #[test]
    fn headers_round_trip() {
        for header in [HEADER, Header { id: FileId(0), predecessor: None }] {
            for flavor in [Flavor::Wal, Flavor::Manifest] {
                assert_eq!(Header::decode(&header.encode(flavor), flavor, header.id), Ok(header));
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let bytes = HEADER.encode(Flavor::Wal);
        assert_eq!(&bytes[..8], b"NYALAWAL");
        assert_eq!(bytes[8..16], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], 7u64.to_le_bytes());
        assert_eq!(bytes[24..32], 5u64.to_le_bytes());
        assert_eq!(bytes[32..40], 4711u64.to_le_bytes());
        assert_eq!(bytes[40..60], [0; 20]);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = HEADER.encode(Flavor::Wal);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let fault = Header::decode(&bytes, Flavor::Wal, HEADER.id);
            assert!(matches!(fault, Err(HeaderFault::Damaged(_))), "bit {bit}: {fault:?}");
        }
    }

    #[test]
    fn a_header_of_another_log_or_file_is_refused() {
        let bytes = HEADER.encode(Flavor::Wal);
        assert!(matches!(
            Header::decode(&bytes, Flavor::Manifest, HEADER.id),
            Err(HeaderFault::Damaged(Damage::Magic { .. }))
        ));
        assert!(matches!(
            Header::decode(&bytes, Flavor::Wal, FileId(8)),
            Err(HeaderFault::Damaged(Damage::Elsewhere { .. }))
        ));
    }

    #[test]
    fn a_newer_version_or_an_unknown_feature_is_not_taken_for_damage() {
        for (at, version, features) in [(8, FORMAT_VERSION + 1, 0), (12, FORMAT_VERSION, 2)] {
            let mut bytes = HEADER.encode(Flavor::Wal);
            bytes[at] = 2;
            let Checksum(sum) = checksum(Flavor::Wal.header_kind(), HEADER.id, 0, &[&bytes[..CHECKED_BYTES]]);
            bytes[CHECKED_BYTES..].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(
                Header::decode(&bytes, Flavor::Wal, HEADER.id),
                Err(HeaderFault::Unsupported { version, features })
            );
        }
    }

    #[test]
    fn a_segment_without_a_header_is_unused() {
        assert_eq!(Header::decode(&[], Flavor::Wal, FileId(1)), Err(HeaderFault::Unused));
        assert_eq!(Header::decode(&[0; 64], Flavor::Wal, FileId(1)), Err(HeaderFault::Unused));
        let bytes = HEADER.encode(Flavor::Wal);
        assert_eq!(Header::decode(&bytes[..63], Flavor::Wal, HEADER.id), Err(HeaderFault::Unused));
    }
}
