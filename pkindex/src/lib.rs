//! The primary-key index of the Nyala storage engine: sorted runs that map each encoded key to its versions, and each
//! version to where its row lies.
//!
//! Owns what an index file says ([`Entry`], [`Properties`]), how a key is looked up in a run ([`Run::lookup`]), the
//! one merge that scans and compaction share ([`Merge`]), which versions are needed ([`Retention`]), and how runs are
//! written ([`RunWriter`]), picked ([`pick`]) and merged into one ([`Compaction`]).
//!
//! Never looks into a row, never reads the manifest, starts no thread: rows are moved by a hook ([`Relocate`]), slices
//! run on the caller's [`Executor`], and what comes out counts once the caller has installed it.
#![forbid(unsafe_code)]

mod compaction;
mod cursor;
mod entry;
mod error;
mod file;
mod loser_tree;
mod merge;
mod merger;
mod properties;
mod run;
mod stats;
pub mod wire;
mod writer;

/// The messages of `proto/index.proto`, generated. A key's list is read and written by `wire`; its message is what that
/// is tested against.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]
mod pb {
    include!("pb/index.rs");
}

pub use compaction::{Compaction, CompactionOptions, Executor, InlineExecutor, NewRelocate, Outcome, pick};
pub use cursor::{Bounds, CursorOptions, RunCursor};
pub use entry::{Entry, Place};
pub use error::{BoxError, Error, Result};
pub use file::IndexFile;
pub use merge::{Merge, Source};
pub use merger::{KeyValueMerger, MergeCounts, Merged, Relocate, Retention};
pub use properties::Properties;
pub use run::Run;
pub use sstable::Direction;
pub use stats::CompactionStats;
pub use writer::{Output, RunOptions, RunWriter, WrittenFile};

#[cfg(test)]
mod model;
