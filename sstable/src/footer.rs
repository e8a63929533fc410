//! The end of a file: where the index and the properties lie, and one checksum that stands for all of it.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | offset of the root of the block index |
//! | 8 | 4 | its length, trailer included |
//! | 12 | 4 | length of the properties, trailer included |
//! | 16 | 8 | offset of the properties |
//! | 24 | 8 | length of the file |
//! | 32 | 8 | the file's number |
//! | 40 | 4 | contents: the checksums of all blocks in file order, chained (see [`chain`]) |
//! | 44 | 4 | required features, as in the header |
//! | 48 | 2 | format version, as in the header |
//! | 50 | 1 | kind of file, as in the header |
//! | 51 | 1 | 0 |
//! | 52 | 4 | checksum of the bytes before |
//! | 56 | 8 | magic `tsslayn\n` |
//!
//! All numbers are little-endian. The checksum covers `contents`, so that two files that differ anywhere differ in it:
//! who names a file by length and footer checksum cannot be given another.

use codec::{FileId, Kind, checksum};

use crate::block::Handle;
use crate::error::{Error, Result};
use crate::header::{self, FEATURES, FORMAT_VERSION, FileKind, HEADER_BYTES};

/// How long a footer is.
pub(crate) const FOOTER_BYTES: usize = 64;
const FOOTER_MAGIC: [u8; 8] = *b"tsslayn\n";
const CHECKSUM_AT: usize = 52;
const MAGIC_AT: usize = 56;

/// What a footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) root: Handle,
    pub(crate) properties: Handle,
    pub(crate) file_len: u64,
    pub(crate) contents: u32,
}

/// Takes the checksum of the block at `offset` into the chain.
pub(crate) fn chain(contents: u32, file: FileId, offset: u64, block: u32) -> u32 {
    checksum(Kind::Footer, file, offset, &[&contents.to_le_bytes(), &block.to_le_bytes()]).0
}

impl Footer {
    /// The bytes, and their checksum.
    pub(crate) fn encode(&self, kind: FileKind, file: FileId) -> ([u8; FOOTER_BYTES], u32) {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.root.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.root.len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.properties.len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.properties.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.file_len.to_le_bytes());
        bytes[32..40].copy_from_slice(&file.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.contents.to_le_bytes());
        bytes[44..48].copy_from_slice(&FEATURES.to_le_bytes());
        bytes[48..50].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[50] = kind as u8;
        let sum = checksum(Kind::Footer, file, self.offset(), &[&bytes[..CHECKSUM_AT]]).0;
        bytes[CHECKSUM_AT..MAGIC_AT].copy_from_slice(&sum.to_le_bytes());
        bytes[MAGIC_AT..].copy_from_slice(&FOOTER_MAGIC);
        (bytes, sum)
    }

    /// Decodes the footer of a file that is `file_len` bytes long. Gives its checksum too.
    pub(crate) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        kind: FileKind,
        file: FileId,
        file_len: u64,
    ) -> Result<(Footer, u32)> {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let start = file_len - FOOTER_BYTES as u64;
        let mismatch = |at: u64, what, expected, found| Error::Mismatch {
            file,
            offset: start + at,
            what,
            expected,
            found,
        };
        if bytes[MAGIC_AT..] != FOOTER_MAGIC {
            let expected = u64::from_le_bytes(FOOTER_MAGIC);
            return Err(mismatch(
                MAGIC_AT as u64,
                "magic at the end of an sstable",
                expected,
                u64_at(MAGIC_AT),
            ));
        }
        let sum = u32_at(CHECKSUM_AT);
        let found = checksum(Kind::Footer, file, start, &[&bytes[..CHECKSUM_AT]]).0;
        if sum != found {
            let kind = Kind::Footer;
            return Err(Error::Checksum { file, offset: start, kind, expected: sum, found });
        }
        let version = u16::from_le_bytes(bytes[48..50].try_into().expect("two bytes"));
        header::check_version(file, version, u32_at(44))?;
        if u64_at(24) != file_len {
            return Err(mismatch(24, "length of the file", u64_at(24), file_len));
        }
        if u64_at(32) != file.0 {
            return Err(mismatch(32, "file number", file.0, u64_at(32)));
        }
        if bytes[50] != kind as u8 {
            return Err(mismatch(50, "kind of sstable", kind as u64, u64::from(bytes[50])));
        }
        let footer = Footer {
            root: Handle { offset: u64_at(0), len: u32_at(8) },
            properties: Handle { offset: u64_at(16), len: u32_at(12) },
            file_len,
            contents: u32_at(40),
        };
        Ok((footer, sum))
    }

    fn offset(&self) -> u64 {
        self.file_len - FOOTER_BYTES as u64
    }
}

/// The shortest file there can be.
pub(crate) const FILE_BYTES_MIN: u64 = (HEADER_BYTES + FOOTER_BYTES) as u64;
