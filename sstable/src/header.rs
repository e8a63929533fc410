//! The start of a file: what it is, so that a wrong or newer file is known before anything else is believed.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `NYALASST` |
//! | 8 | 2 | format version |
//! | 10 | 1 | kind of file: 1 keyed, 2 ordinal |
//! | 11 | 1 | 0 |
//! | 12 | 4 | required features, one bit each |
//! | 16 | 8 | the file's number |
//! | 24 | 4 | checksum of the bytes before |
//!
//! All numbers are little-endian. These bytes are laid out alike in every format version.

use codec::{FileId, Kind, checksum};

use crate::error::{Error, Result};

/// How long a header is.
pub(crate) const HEADER_BYTES: usize = 28;
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"NYALASST";

/// The format version that is written, and the newest that is read.
pub(crate) const FORMAT_VERSION: u16 = 1;
/// The features that are known.
pub(crate) const FEATURES: u32 = 0;

/// What a file's blocks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileKind {
    Keyed = 1,
    Ordinal = 2,
}

/// The header of a file of the current format version.
pub(crate) fn encode(kind: FileKind, file: FileId) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&HEADER_MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[10] = kind as u8;
    bytes[12..16].copy_from_slice(&FEATURES.to_le_bytes());
    bytes[16..24].copy_from_slice(&file.0.to_le_bytes());
    let sum = checksum(Kind::SstableHeader, file, 0, &[&bytes[..24]]).0;
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checks the header of the file that the caller knows as `file`.
pub(crate) fn check(bytes: &[u8; HEADER_BYTES], kind: FileKind, file: FileId) -> Result<()> {
    let mismatch = |offset, what, expected, found| Error::Mismatch { file, offset, what, expected, found };
    if bytes[..8] != HEADER_MAGIC {
        let found = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        return Err(mismatch(0, "magic of an sstable", u64::from_le_bytes(HEADER_MAGIC), found));
    }
    // The number comes first: with another one the checksum cannot hold, and the number says more.
    let found = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    if found != file.0 {
        return Err(mismatch(16, "file number", file.0, found));
    }
    let expected = u32::from_le_bytes(bytes[24..].try_into().expect("four bytes"));
    let found = checksum(Kind::SstableHeader, file, 0, &[&bytes[..24]]).0;
    if expected != found {
        return Err(Error::Checksum { file, offset: 0, kind: Kind::SstableHeader, expected, found });
    }
    let version = u16::from_le_bytes(bytes[8..10].try_into().expect("two bytes"));
    let features = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
    check_version(file, version, features)?;
    if bytes[10] != kind as u8 {
        return Err(mismatch(10, "kind of sstable", kind as u64, u64::from(bytes[10])));
    }
    Ok(())
}

/// Whether this version reads such a file.
pub(crate) fn check_version(file: FileId, version: u16, features: u32) -> Result<()> {
    if version > FORMAT_VERSION {
        return Err(Error::UnsupportedFormat {
            file,
            what: "sstable format version",
            found: u32::from(version),
            supported: u32::from(FORMAT_VERSION),
        });
    }
    if features & !FEATURES != 0 {
        return Err(Error::UnsupportedFormat {
            file,
            what: "set of required sstable features",
            found: features,
            supported: FEATURES,
        });
    }
    if version == 0 {
        return Err(Error::Mismatch {
            file,
            offset: 8,
            what: "least sstable format version",
            expected: 1,
            found: 0,
        });
    }
    Ok(())
}
