//! What can go wrong in the index. Errors name files and numbers, never keys.

use codec::{FileId, RowsetId, Version};
use std::{io, sync::Arc};
use thiserror::Error;

use crate::wire::WireError;

/// The error of a hook that the engine gave.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call on the index failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An index file could not be read or written.
    #[error(transparent)]
    Sstable(#[from] sstable::Error),
    /// A file could not be made.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The disk's answer.
        source: Arc<io::Error>,
    },
    /// The value of a key is not a list of entries as this crate writes it.
    #[error("index file {file}: the entries of a key are damaged: {reason}")]
    Entries {
        /// The file that holds the key.
        file: FileId,
        /// What is wrong.
        reason: WireError,
    },
    /// The same version of a key, or an older one, comes from a newer run.
    #[error(
        "version {newer} of a key comes from a newer run than its version {older}, which is in index file {file}"
    )]
    VersionOrder {
        /// The file of the older run.
        file: FileId,
        /// The last version of the newer run.
        newer: Version,
        /// The first version of the older run.
        older: Version,
    },
    /// The properties of an index file are missing, contradict themselves, or contradict the file.
    #[error("index file {file}: bad properties: {reason}")]
    Properties {
        /// The file.
        file: FileId,
        /// What is wrong.
        reason: String,
    },
    /// The files do not make up a run.
    #[error("index file {file} does not belong into the run after the files before it: {reason}")]
    Run {
        /// The first file that does not fit; 0 if there is none at all.
        file: FileId,
        /// What is wrong.
        reason: &'static str,
    },
    /// A key was to be written that does not come after the one before it.
    #[error("index file {file}: a key was to be written out of order")]
    KeyOrder {
        /// The file being written.
        file: FileId,
    },
    /// Counts that must agree do not. The inputs stay in force.
    #[error("compaction: {what}: {expected} expected, {found} found")]
    Count {
        /// What was counted.
        what: &'static str,
        /// What the inputs' properties say.
        expected: u64,
        /// What was seen.
        found: u64,
    },
    /// The entries that point into a rowset are not as many as the inputs' properties say.
    #[error(
        "compaction: entries that point into rowset {rowset}: {expected} expected from the files' properties, {found} read"
    )]
    RowsetCount {
        /// The rowset.
        rowset: RowsetId,
        /// What the inputs' properties say.
        expected: u64,
        /// What was read.
        found: u64,
    },
    /// The slices of a compaction leave a gap, overlap, or came out in disorder.
    #[error("compaction: slice {slice} of {slices}: {reason}")]
    Slices {
        /// The slice.
        slice: usize,
        /// How many there are.
        slices: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The hook that moves rows failed. Its own error is the source.
    #[error("a row could not be moved: {0}")]
    Relocate(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The hook moved a row into a rowset that is itself to be emptied.
    #[error("a row was moved into rowset {rowset}, which is being moved itself")]
    RelocatedInto {
        /// The rowset.
        rowset: RowsetId,
    },
    /// The compaction was told to stop.
    #[error("the compaction was cancelled")]
    Cancelled,
}

impl Error {
    /// Whether bytes on disk are not what this crate wrote. Trying again does not help then.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::Sstable(error) => error.is_corruption(),
            Error::Io { .. } | Error::Relocate(_) | Error::RelocatedInto { .. } | Error::Cancelled => false,
            Error::Entries { .. }
            | Error::VersionOrder { .. }
            | Error::Properties { .. }
            | Error::Run { .. }
            | Error::KeyOrder { .. }
            | Error::Count { .. }
            | Error::RowsetCount { .. }
            | Error::Slices { .. } => true,
        }
    }

    /// The disk's own error, if it was the disk.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Sstable(error) => error.io(),
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The error of the hook that moves rows, if it was that one.
    #[must_use]
    pub fn relocate(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        match self {
            Error::Relocate(source) => Some(source.as_ref()),
            _ => None,
        }
    }

    pub(crate) fn from_io(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { what, source: Arc::new(source) }
    }
}
