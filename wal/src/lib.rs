//! A durable, ordered log of opaque records in segments. The engine keeps two: the write-ahead log and the manifest.
//!
//! [`Log`] writes: it appends groups of records, rotates, and syncs. [`scan()`] reads: it learns where a log ends, after
//! a close, a kill or a power cut, and tells a torn tail from corruption; [`Scan::replay`] then gives the records.
//! A log that was read is never appended to: the engine starts a new one and drops the old.
//!
//! Never looks into a record's body. Knows no rows, tables or versions beyond the number that a record starts with.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use codec::{FileId, Version};
//! use nyala_wal::{Flavor, Log, Options, Record};
//!
//! let options = Options {
//!     fs: std::sync::Arc::new(vfs::OsFs::new()),
//!     dir: dir.path().to_owned(),
//!     flavor: Flavor::Wal,
//!     segment_bytes: 1 << 20,
//!     record_bytes_max: 1 << 20,
//!     trickle_bytes: 0,
//! };
//! let log = Log::create(options.clone(), FileId(1), Box::new(|| FileId(2)))?;
//! let appended = log.append(&[Record { first_version: Version(1), last_version: Version(1), body: b"first" }]);
//! assert_eq!(appended.complete, 1);
//! log.sync(appended.end)?;
//!
//! let scan = nyala_wal::scan(&options, FileId(1), &[FileId(1)])?;
//! assert_eq!(scan.end, appended.end);
//! let mut replay = scan.replay();
//! assert_eq!(replay.next()?.map(|record| record.body.to_vec()), Some(b"first".to_vec()));
//! assert!(replay.next()?.is_none());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod error;
mod log;
mod options;
mod read;
mod record;
mod salvage;
mod scan;
mod segment;
#[cfg(test)]
mod testing;
mod verify;

pub use error::{Damage, Error, Result};
pub use log::{Appended, Log, NextId, Record, SegmentInfo};
pub use options::{Flavor, Options, Position, path};
pub use salvage::{Gap, Piece, salvage};
pub use scan::{Replay, ReplayRecord, Scan, Torn, scan, scan_attested};
pub use segment::HEADER_BYTES;
pub use verify::{Verifier, verify};
