//! What can go wrong with a log, and the evidence. Cheap to clone, because the first failure of a log is latched
//! and given to everybody who comes later.

use std::io;
use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use thiserror::Error;

use crate::Position;

/// The result of a call to a log.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call to a log failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk refused. The log is as it was before.
    #[error("{doing} {} at byte {offset}: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        file: Arc<Path>,
        /// Where in it.
        offset: u64,
        /// What the disk said.
        source: Arc<io::Error>,
    },
    /// The disk refused, and so that what is on it is no longer known: the log is closed for good. Latched; every
    /// later call answers with the first such failure.
    #[error("the log has failed: {doing} {} at byte {offset}: {source}", file.display())]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        file: Arc<Path>,
        /// Where in it.
        offset: u64,
        /// What the disk said.
        source: Arc<io::Error>,
    },
    /// A thread panicked while it wrote or synced the log, so that what is on disk is unknown. Latched.
    #[error("the log in {} has failed: writing was interrupted by a panic", dir.display())]
    Interrupted {
        /// The folder of the log.
        dir: Arc<Path>,
    },
    /// The file is damaged, and not as an interrupted write would leave it.
    #[error("{} is damaged at byte {offset}: {damage} (the log is known to be durable up to {attested})", file.display())]
    Corruption {
        /// The segment.
        file: Arc<Path>,
        /// Where in it.
        offset: u64,
        /// What was expected and found.
        damage: Damage,
        /// The greatest position that is known to have been synced.
        attested: Position,
        /// The number of the segment.
        segment: FileId,
    },
    /// The file was written by a newer version, or needs a feature that this one lacks.
    #[error(
        "{} has format version {version} with features {features:#x}, this program knows version {version_known} \
         with features {features_known:#x}; a newer version of Nyala wrote it: open it with that one, or one later still",
        file.display()
    )]
    UnsupportedFormat {
        /// The segment.
        file: Arc<Path>,
        /// Its format version.
        version: u32,
        /// The version known here.
        version_known: u32,
        /// The features that it requires.
        features: u32,
        /// The features known here.
        features_known: u32,
    },
    /// The log was read and is not written to. Nothing is wrong with it.
    #[error("the log in {} is open for reading only", dir.display())]
    ReadOnly {
        /// The folder of the log.
        dir: Arc<Path>,
    },
    /// A record is longer than the options allow. Nothing of it was written, and the log is well.
    #[error("a log record of {bytes} bytes: at most {bytes_max} are allowed")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
}

/// What is wrong with a segment's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Damage {
    /// The segment is not there.
    #[error("the segment is missing")]
    Missing,
    /// Where the header should be are zeros, or nothing.
    #[error("the header is missing")]
    HeaderMissing,
    /// It begins with other bytes than such a file does.
    #[error("magic {expected:02x?} expected, {found:02x?} found")]
    Magic {
        /// What such a file begins with.
        expected: [u8; 8],
        /// What this one begins with.
        found: [u8; 8],
    },
    /// The bytes are not those that were written.
    #[error("{what}: checksum {expected:#010x} expected, {found:#010x} found")]
    Checksum {
        /// The part that is damaged.
        what: &'static str,
        /// What stands in the file.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// The bytes are whole, but belong to another place.
    #[error("what stands here was written for {found}")]
    Elsewhere {
        /// The place that they name.
        found: Position,
    },
    /// The header names something that cannot come before it.
    #[error("the header names {found} as the end of what comes before")]
    Predecessor {
        /// What it names.
        found: Position,
    },
    /// Nothing was written here.
    #[error("zeros where a record should begin")]
    Zeros,
    /// A record that is not all there.
    #[error("{wanted} bytes wanted, {left} left in the file")]
    EndOfFile {
        /// How many bytes there should be at least.
        wanted: u64,
        /// How many there are.
        left: u64,
    },
    /// A kind of record that is not known.
    #[error("a record of the unknown kind {0}")]
    Kind(u8),
    /// The head of a record ends in another byte than its mark.
    #[error("a record whose head ends in {0:#04x} instead of its mark")]
    Mark(u8),
    /// A record longer than any that is written.
    #[error("a record of {bytes} bytes, at most {bytes_max} expected")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A record claims that what comes after it is on disk.
    #[error("the record attests what comes after it, up to {found}")]
    Attested {
        /// What it attests.
        found: Position,
    },
    /// A record passes the place at which the next segment says that this one ends.
    #[error("a record ends at byte {end}, after byte {segment_end} where the segment ends")]
    PassesEnd {
        /// Where the record ends.
        end: u64,
        /// Where the segment ends.
        segment_end: u64,
    },
}

impl Error {
    /// Whether the disk, or the quota, was full, and the log goes on once there is space again.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::Io { source, .. } if is_no_space(source))
    }

    /// Whether the process had too many files open to open or make one more. The log goes on; it may work a moment later.
    #[must_use]
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { source, .. } if vfs::is_out_of_descriptors(source))
    }

    /// Whether a file is damaged.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption { .. })
    }

    /// Whether a newer version is needed to read a file.
    #[must_use]
    pub fn is_unsupported_format(&self) -> bool {
        matches!(self, Error::UnsupportedFormat { .. })
    }

    /// What the disk said, if it was the disk.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Io { source, .. } | Error::Failed { source, .. } => Some(source),
            _ => None,
        }
    }

    pub(crate) fn from_io(doing: &'static str, file: &Arc<Path>, offset: u64, source: io::Error) -> Error {
        Error::Io { doing, file: file.clone(), offset, source: Arc::new(source) }
    }

    /// The same failure, as one after which the log is closed for good.
    pub(crate) fn for_good(self) -> Error {
        match self {
            Error::Io { doing, file, offset, source } => Error::Failed { doing, file, offset, source },
            other => other,
        }
    }
}

pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
