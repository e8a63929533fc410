//! The bytes of one record.
//!
//! | bytes            | what                                                                             |
//! |------------------|----------------------------------------------------------------------------------|
//! | 0                | kind: `d1` data, `8e` attestation                                                |
//! | 1 .. 5           | checksum of the head without these four bytes                                    |
//! | 5 .. 9           | length of the body, little-endian like all numbers here                          |
//! | 9 .. 13          | checksum of the body and the end mark                                            |
//! | 13 .. 21         | number of the segment                                                            |
//! | 21 .. 29         | the byte of the segment at which the record begins                               |
//! | 29 .. 37         | the first version that the record holds; 0 in an attestation                     |
//! | 37 .. 45         | segment of the attested position                                                 |
//! | 45 .. 53         | byte of the attested position                                                    |
//! | 53               | head mark `a6`                                                                   |
//! | 54 .. 54 + n     | body; empty in an attestation                                                    |
//! | 54 + n           | end mark `e9`                                                                    |
//!
//! Both checksums are seeded with the kind of log, the segment and the byte at which the record begins. The attested
//! position is the greatest that was known to be synced when the record was written.
//!
//! Head and record each begin and end with a byte that is not zero, so that a sector in which such a part lies, and
//! which reads as zeros, was not written. Such a byte may be alone in its sector, so each has several bits: one that
//! flips does not make it zero. The head has a checksum of its own: a length is believed, and memory taken
//! for it, only when the head is whole.

use codec::{Checksum, FileId, Reader, Version, checksum};

use crate::{Damage, Flavor, Position};

pub(crate) const HEAD_BYTES: usize = 54;
/// What a record takes beyond its body.
pub(crate) const OVERHEAD_BYTES: u64 = HEAD_BYTES as u64 + 1;

const HEAD_MARK: u8 = 0xa6;
const END_MARK: u8 = 0xe9;
const CHECKSUM_END: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    Data = 0xd1,
    Attestation = 0x8e,
}

/// Everything of a record but its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: RecordKind,
    pub(crate) body_bytes: u32,
    body_checksum: Checksum,
    /// Where it begins.
    pub(crate) at: Position,
    pub(crate) first_version: Version,
    pub(crate) attested: Position,
}

/// Appends a record for the place `at` to `out`. The caller has bounded the body.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    flavor: Flavor,
    kind: RecordKind,
    at: Position,
    attested: Position,
    first_version: Version,
    body: &[u8],
) {
    let body_bytes = u32::try_from(body.len()).expect("a body is within record_bytes_max");
    let body_checksum = body_checksum(flavor, at, body, END_MARK);
    let head = Head { kind, body_bytes, body_checksum, at, first_version, attested };
    out.extend_from_slice(&head.encode(flavor));
    out.extend_from_slice(body);
    out.push(END_MARK);
}

fn body_checksum(flavor: Flavor, at: Position, body: &[u8], end_mark: u8) -> Checksum {
    checksum(flavor.record_kind(), at.segment, at.offset, &[body, &[end_mark]])
}

fn head_checksum(flavor: Flavor, at: Position, head: &[u8]) -> Checksum {
    checksum(flavor.record_kind(), at.segment, at.offset, &[&head[..1], &head[CHECKSUM_END..HEAD_BYTES]])
}

impl Head {
    fn encode(&self, flavor: Flavor) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind as u8;
        bytes[5..9].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.body_checksum.0.to_le_bytes());
        bytes[13..21].copy_from_slice(&self.at.segment.0.to_le_bytes());
        bytes[21..29].copy_from_slice(&self.at.offset.to_le_bytes());
        bytes[29..37].copy_from_slice(&self.first_version.0.to_le_bytes());
        bytes[37..45].copy_from_slice(&self.attested.segment.0.to_le_bytes());
        bytes[45..53].copy_from_slice(&self.attested.offset.to_le_bytes());
        bytes[53] = HEAD_MARK;
        let Checksum(sum) = head_checksum(flavor, self.at, &bytes);
        bytes[1..5].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The head that begins `bytes`, which are at least [`HEAD_BYTES`], if it is whole; it may have been written for
    /// any place.
    fn decode_anywhere(bytes: &[u8], flavor: Flavor) -> Result<Head, Damage> {
        let short = |_| Damage::EndOfFile { wanted: HEAD_BYTES as u64, left: bytes.len() as u64 };
        let mut reader = Reader::new(bytes);
        let kind = reader.u8().map_err(short)?;
        let expected = reader.u32().map_err(short)?;
        let body_bytes = reader.u32().map_err(short)?;
        let body_checksum = Checksum(reader.u32().map_err(short)?);
        let at =
            Position { segment: FileId(reader.u64().map_err(short)?), offset: reader.u64().map_err(short)? };
        let first_version = Version(reader.u64().map_err(short)?);
        let attested =
            Position { segment: FileId(reader.u64().map_err(short)?), offset: reader.u64().map_err(short)? };
        let mark = reader.u8().map_err(short)?;
        let Checksum(found) = head_checksum(flavor, at, bytes);
        if found != expected {
            return Err(Damage::Checksum { what: "the head of a record", expected, found });
        }
        let kind = match kind {
            kind if kind == RecordKind::Data as u8 => RecordKind::Data,
            kind if kind == RecordKind::Attestation as u8 => RecordKind::Attestation,
            other => return Err(Damage::Kind(other)),
        };
        if mark != HEAD_MARK {
            return Err(Damage::Mark(mark));
        }
        Ok(Head { kind, body_bytes, body_checksum, at, first_version, attested })
    }

    /// The head at `at`.
    pub(crate) fn decode(bytes: &[u8], flavor: Flavor, at: Position) -> Result<Head, Damage> {
        let head = Head::decode_anywhere(bytes, flavor)?;
        if head.at != at {
            return Err(Damage::Elsewhere { found: head.at });
        }
        if head.attested > at {
            return Err(Damage::Attested { found: head.attested });
        }
        Ok(head)
    }

    /// The head that begins at the front of `bytes`, if there is one at all, whatever the place that it was written
    /// for. Cheap for bytes that do not look like one.
    pub(crate) fn find(bytes: &[u8], flavor: Flavor) -> Option<Head> {
        let looks_like_one = bytes.len() >= HEAD_BYTES
            && (bytes[0] == RecordKind::Data as u8 || bytes[0] == RecordKind::Attestation as u8)
            && bytes[HEAD_BYTES - 1] == HEAD_MARK;
        if looks_like_one { Head::decode_anywhere(bytes, flavor).ok() } else { None }
    }

    /// The length of the whole record.
    pub(crate) fn record_bytes(&self) -> u64 {
        OVERHEAD_BYTES + u64::from(self.body_bytes)
    }

    /// The body within the bytes of the whole record, checked.
    pub(crate) fn body<'a>(&self, record: &'a [u8], flavor: Flavor) -> Result<&'a [u8], Damage> {
        let body_end = HEAD_BYTES + self.body_bytes as usize;
        let (body, end_mark) = (&record[HEAD_BYTES..body_end], record[body_end]);
        let found = body_checksum(flavor, self.at, body, end_mark);
        if found != self.body_checksum || end_mark != END_MARK {
            let (expected, found) = (self.body_checksum.0, found.0);
            return Err(Damage::Checksum { what: "the body of a record", expected, found });
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: Position = Position { segment: FileId(3), offset: 64 };
    const ATTESTED: Position = Position { segment: FileId(2), offset: 99 };

    fn record(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes, Flavor::Wal, RecordKind::Data, AT, ATTESTED, Version(17), body);
        bytes
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let bytes = record(b"body");
        assert_eq!(bytes.len() as u64, OVERHEAD_BYTES + 4);
        assert_eq!(bytes[0], 0xd1);
        assert_eq!(bytes[5..9], 4u32.to_le_bytes());
        assert_eq!(bytes[13..21], 3u64.to_le_bytes());
        assert_eq!(bytes[21..29], 64u64.to_le_bytes());
        assert_eq!(bytes[29..37], 17u64.to_le_bytes());
        assert_eq!(bytes[37..45], 2u64.to_le_bytes());
        assert_eq!(bytes[45..53], 99u64.to_le_bytes());
        assert_eq!(&bytes[53..], b"\xa6body\xe9");
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_noticed() {
        let whole = record(b"some body");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let body = Head::decode(&bytes, Flavor::Wal, AT)
                .and_then(|head| head.body(&bytes, Flavor::Wal).map(<[u8]>::to_vec));
            assert!(body.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_another_place_or_log_is_refused() {
        let bytes = record(b"x");
        let elsewhere = Position { segment: AT.segment, offset: AT.offset + 1 };
        assert_eq!(Head::decode(&bytes, Flavor::Wal, elsewhere), Err(Damage::Elsewhere { found: AT }));
        assert!(matches!(Head::decode(&bytes, Flavor::Manifest, AT), Err(Damage::Checksum { .. })));
    }

    #[test]
    fn a_head_without_its_mark_is_refused_whatever_its_checksum() {
        // A search for heads would not find it, and what it attests would be lost.
        let mut bytes = record(b"x");
        bytes[HEAD_BYTES - 1] = HEAD_MARK ^ 1;
        let Checksum(sum) = head_checksum(Flavor::Wal, AT, &bytes);
        bytes[1..CHECKSUM_END].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Head::decode(&bytes, Flavor::Wal, AT), Err(Damage::Mark(HEAD_MARK ^ 1)));
        assert_eq!(Head::find(&bytes, Flavor::Wal), None);
    }

    #[test]
    fn a_record_cannot_attest_itself() {
        let mut bytes = Vec::new();
        let after = Position { segment: AT.segment, offset: AT.offset + 1 };
        encode(&mut bytes, Flavor::Wal, RecordKind::Data, AT, after, Version(1), b"");
        assert_eq!(Head::decode(&bytes, Flavor::Wal, AT), Err(Damage::Attested { found: after }));
    }

    proptest! {
        #[test]
        fn records_round_trip(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = record(&body);
            let head = Head::decode(&bytes, Flavor::Wal, AT).unwrap();
            prop_assert_eq!(Head::find(&bytes, Flavor::Wal), Some(head));
            prop_assert_eq!(head.record_bytes(), bytes.len() as u64);
            prop_assert_eq!(head.first_version, Version(17));
            prop_assert_eq!(head.attested, ATTESTED);
            prop_assert_eq!(head.body(&bytes, Flavor::Wal), Ok(&body[..]));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Head::decode(&bytes, Flavor::Wal, AT);
            let _ = Head::find(&bytes, Flavor::Wal);
        }
    }
}
