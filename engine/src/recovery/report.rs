//! What an open tells of itself.
//!
//! Owns the report and its words. Decides nothing: the steps of the recovery fill it in.

use std::fmt;
use std::time::Duration;

use codec::Version;

/// What the last open found and did. It is kept for as long as the engine is open.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// let engine = nyala::Engine::open(dir.path(), nyala::Options::default())?;
/// let report = engine.recovery_report();
/// assert!(report.torn.is_none() && report.replayed_operations == 0);
/// println!("{report}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether there was no database, and one was made.
    pub is_new: bool,
    /// Segments of the log that were read.
    pub log_segments: u64,
    /// Bytes of the records in them, from the start of the log to its end.
    pub log_bytes: u64,
    /// Batches in the log.
    pub batches: u64,
    /// Operations of the log that were not flushed before, and are now.
    pub replayed_operations: u64,
    /// The first and the last version of these operations.
    pub replayed_versions: Option<(Version, Version)>,
    /// The last commit that was found, in the log or elsewhere: it and all before it have survived.
    pub recovered_to: Version,
    /// Operations of the log that were in rowsets already, or belonged to a dropped table.
    pub skipped_operations: u64,
    /// Index runs that were written of what was replayed.
    pub flushed_runs: u64,
    /// Index files and rowsets that were written of it.
    pub flushed_files: u64,
    /// The bytes of these files.
    pub flushed_bytes: u64,
    /// What was cut off the end of the log: bytes of a write that never finished, and that was never acknowledged.
    pub torn: Option<TornTail>,
    /// Files of ours that nothing named, removed.
    pub orphans_removed: u64,
    /// Their names.
    pub orphans: Vec<String>,
    /// Files of ours that nothing names and that could not be removed. They do no harm, and the next open tries again.
    pub orphans_left: Vec<String>,
    /// How long it took, from the look at the directory to the first new log and manifest.
    pub duration: Duration,
}

/// The end of a log that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The number of the log segment.
    pub segment: u64,
    /// Where in it the log ends, in bytes.
    pub offset: u64,
    /// What stands there instead of a record.
    pub reason: String,
    /// How many bytes were cut off: up to the last one that is not zero, later segments included.
    pub bytes: u64,
    /// The file in the directory that the bytes were saved to; none if they are all zero, or if they could not be
    /// saved.
    pub saved_as: Option<String>,
    /// How many bytes were saved: at most 64 MiB.
    pub saved_bytes: u64,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_new {
            return write!(f, "a new database, made in {:.3} s", self.duration.as_secs_f64());
        }
        write!(
            f,
            "{} batches in {} bytes of {} log segments; {} operations replayed",
            self.batches, self.log_bytes, self.log_segments, self.replayed_operations
        )?;
        if let Some((first, last)) = self.replayed_versions {
            write!(f, " (versions {first} to {last})")?;
        }
        write!(f, ", {} skipped", self.skipped_operations)?;
        if self.flushed_runs > 0 {
            let (runs, files, bytes) = (self.flushed_runs, self.flushed_files, self.flushed_bytes);
            write!(f, "; written as {runs} index runs in {files} files of {bytes} bytes")?;
        }
        write!(f, "; the last commit is {}", self.recovered_to)?;
        write!(f, "; {} orphans removed", self.orphans_removed)?;
        if !self.orphans_left.is_empty() {
            write!(f, ", {} left: {}", self.orphans_left.len(), self.orphans_left.join(", "))?;
        }
        write!(f, "; {:.3} s", self.duration.as_secs_f64())?;
        match &self.torn {
            Some(torn) => write!(f, "; {torn}"),
            None => Ok(()),
        }
    }
}

impl TornTail {
    pub(crate) fn not_saved(torn: &wal::Torn) -> TornTail {
        TornTail {
            segment: torn.at.segment.0,
            offset: torn.at.offset,
            reason: torn.reason.clone(),
            bytes: torn.bytes,
            saved_bytes: 0,
            saved_as: None,
        }
    }
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { segment, offset, reason, bytes, .. } = self;
        write!(f, "the log ends at byte {offset} of {segment}.wal ({reason}); {bytes} bytes were cut off")?;
        match &self.saved_as {
            Some(name) => write!(f, ", {} saved as {name}", self.saved_bytes),
            None => f.write_str(", none saved"),
        }
    }
}
