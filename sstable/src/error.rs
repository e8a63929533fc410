//! What can go wrong with an sstable, with the evidence: file, offset, expected, found. Never key or value bytes.

use std::io;
use std::sync::Arc;

use codec::{FileId, Kind, ReadError};
use thiserror::Error;

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be written or read. Cheap to clone.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk said no.
    #[error("file {file}: {during} at byte {offset}: {source}")]
    Io {
        /// Which file.
        file: FileId,
        /// Where in it.
        offset: u64,
        /// What was being done.
        during: &'static str,
        /// What the disk said.
        source: Arc<io::Error>,
    },
    /// The bytes are not those that were written there.
    #[error("file {file}: checksum of {kind:?} at byte {offset}: expected {expected:08x}, found {found:08x}")]
    Checksum {
        /// Which file.
        file: FileId,
        /// Where the covered bytes start.
        offset: u64,
        /// What should stand there.
        kind: Kind,
        /// The checksum that is stored beside the bytes.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A number in the file contradicts the file or what the caller knows of it.
    #[error("file {file}: {what} at byte {offset}: expected {expected}, found {found}")]
    Mismatch {
        /// Which file.
        file: FileId,
        /// Where the block or field starts.
        offset: u64,
        /// Which number, and how expected is meant.
        what: &'static str,
        /// What it should be, or its bound.
        expected: u64,
        /// What it is.
        found: u64,
    },
    /// Bytes whose checksum holds cannot be decoded.
    #[error("file {file}: {what} at byte {offset}: {source}")]
    Malformed {
        /// Which file.
        file: FileId,
        /// Where the block starts; the source counts from there.
        offset: u64,
        /// What was being decoded.
        what: &'static str,
        /// How it failed.
        source: ReadError,
    },
    /// The file was written by a newer version of this crate. It is intact as far as one can tell.
    #[error(
        "file {file}: {what} {found}, this program knows {supported}; a newer version of Nyala wrote it: open it \
         with that one, or one later still"
    )]
    UnsupportedFormat {
        /// Which file.
        file: FileId,
        /// The format version, or a set of required features.
        what: &'static str,
        /// What the file asks for.
        found: u32,
        /// What this version knows.
        supported: u32,
    },
    /// Something to be written is larger than the format allows. Nothing was written of it.
    #[error("file {file}: {what} of {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Which file.
        file: FileId,
        /// What is too large.
        what: &'static str,
        /// How large it is.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The caller asked for a row that the file does not have.
    #[error("file {file}: row {ordinal} asked for, the file has {rows}")]
    NoSuchRow {
        /// Which file.
        file: FileId,
        /// The ordinal asked for.
        ordinal: u32,
        /// How many rows there are.
        rows: u64,
    },
}

impl Error {
    /// Whether bytes on disk are not what was written. [`Error::NoSuchRow`] counts: only a damaged reference asks for
    /// a row that is not there.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::Checksum { .. }
            | Error::Mismatch { .. }
            | Error::Malformed { .. }
            | Error::NoSuchRow { .. } => true,
            // The length is checked at open, so that a read past the end means that the file shrank since.
            Error::Io { source, .. } => source.kind() == io::ErrorKind::UnexpectedEof,
            Error::UnsupportedFormat { .. } | Error::TooLarge { .. } => false,
        }
    }

    /// The error of the disk, if it was one.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether the file was written by a newer version.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Error::UnsupportedFormat { .. })
    }

    /// The file that it is about.
    #[must_use]
    pub fn file(&self) -> FileId {
        match self {
            Error::Io { file, .. }
            | Error::Checksum { file, .. }
            | Error::Mismatch { file, .. }
            | Error::Malformed { file, .. }
            | Error::UnsupportedFormat { file, .. }
            | Error::TooLarge { file, .. }
            | Error::NoSuchRow { file, .. } => *file,
        }
    }

    pub(crate) fn io_at(file: FileId, offset: u64, during: &'static str, source: io::Error) -> Error {
        Error::Io { file, offset, during, source: Arc::new(source) }
    }
}
