//! One immutable file of blocks, read by key or by ordinal.
//!
//! A keyed file holds keys and values in key order, with a filter; an ordinal file holds rows that are found by their
//! place. Both are written once, front to back, and read by any number of threads through a [`Cache`] that all files
//! share. The layout of each part stands at the head of the file that encodes and decodes it.
//!
//! Never knows what a key, a value or a row means; never names, removes or renames a file; never starts a thread.
//!
//! * Every byte lies under a checksum that is seeded with the file's number, the offset and the kind of block, and
//!   that is checked on every read from the disk, before the bytes are used for anything.
//! * Damage is an error that names file and offset, never a wrong or a missing answer, never a panic, and it takes no
//!   more memory than the file is long.
#![forbid(unsafe_code)]

mod block;
mod cache;
mod compress;
mod cursor;
mod entries;
mod error;
mod filter;
mod footer;
mod header;
mod index;
mod input;
mod iter;
mod options;
mod output;
mod pinned;
mod properties;
mod readahead;
mod reader;
mod salvage;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use block::BlockSlice;
pub use cache::{Cache, CacheStats};
pub use cursor::{Direction, OrdinalCursor};
pub use entries::BlockEntries;
pub use error::{Error, Result};
pub use iter::KeyedIter;
pub use options::{Compression, FileInfo, WriterOptions};
pub use readahead::Caching;
pub use reader::{KeyedReader, OrdinalReader};
pub use salvage::{KeyedSalvage, LostEntries, OrdinalSalvage, RowBlock};
pub use verify::{FindingKind, Verifier, VerifyReport};
pub use writer::{KeyedWriter, OrdinalWriter, WriterScratch};
