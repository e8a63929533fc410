//! What a log is told when it is made or read, and how a place in it is named.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use codec::{FileId, Kind};
use vfs::Fs;

/// What the log is for. It decides the file name, the magic and the seeds of the checksums, so that a segment of
/// one log is never taken for a segment of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// The write-ahead log: `N.wal`.
    Wal,
    /// The log of edits: `N.manifest`.
    Manifest,
}

impl Flavor {
    /// The extension of its files, without the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Flavor::Wal => "wal",
            Flavor::Manifest => "manifest",
        }
    }

    /// The first eight bytes of its files.
    #[must_use]
    pub fn magic(self) -> [u8; 8] {
        match self {
            Flavor::Wal => *b"NYALAWAL",
            Flavor::Manifest => *b"NYALAMAN",
        }
    }

    pub(crate) fn header_kind(self) -> Kind {
        match self {
            Flavor::Wal => Kind::SegmentHeader,
            Flavor::Manifest => Kind::ManifestHeader,
        }
    }

    pub(crate) fn record_kind(self) -> Kind {
        match self {
            Flavor::Wal => Kind::LogRecord,
            Flavor::Manifest => Kind::ManifestRecord,
        }
    }
}

/// Where a log lies and how it is cut.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk.
    pub fs: Arc<dyn Fs>,
    /// The folder of the segments. It must exist.
    pub dir: PathBuf,
    /// Which log it is.
    pub flavor: Flavor,
    /// The size at which a segment is full, in bytes; also what is preallocated. A record that does not fit an empty
    /// segment gets one of its own size.
    pub segment_bytes: u64,
    /// The longest body of a record, in bytes. Bounds what reading allocates; a longer record in a file is corruption,
    /// so it must never be made smaller for an existing log.
    pub record_bytes_max: u32,
    /// After so many bytes the operating system is asked to begin writing them, so that a sync has less to do.
    /// 0 leaves it alone.
    pub trickle_bytes: u64,
}

/// A place in the log. Segments are ordered by their number, so positions of one log are ordered too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The segment.
    pub segment: FileId,
    /// The byte in it.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}, byte {}", self.segment, self.offset)
    }
}

/// The path of a segment.
#[must_use]
pub fn path(dir: &Path, flavor: Flavor, id: FileId) -> PathBuf {
    dir.join(format!("{id}.{}", flavor.extension()))
}
