//! The primary-key index of the Nyala storage engine: sorted runs that map each encoded key to its versions, and each
//! version to where its row lies.
//!
//! Owns what an index file says ([`Entry`], [`Properties`]), how a key is looked up in a run ([`Run::lookup`]), the
//! one merge that scans and compaction share ([`Merge`]), which versions are needed ([`Retention`]), and how runs are
//! written ([`RunWriter`]), picked ([`pick`]) and merged into one ([`Compaction`]), and how much of a run is garbage
//! ([`Run::garbage_min`]).
//!
//! Never looks into a row, never reads the manifest, starts no thread: rows are moved by a hook ([`Relocate`]), slices
//! run on the caller's [`Executor`], and what comes out counts once the caller has installed it.
//!
//! ```
//! use std::path::{Path, PathBuf};
//! use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
//! use codec::{FileId, Location, RowId, RowsetId, Version, hash_key};
//! use nyala_pkindex::{Entry, IndexFile, Output, Run, RunOptions, RunWriter};
//! use vfs::Fs;
//!
//! /// Where files go: the engine has numbers of its own.
//! struct Files { fs: vfs::SimFs, next: AtomicU64 }
//! impl Output for Files {
//!     fn next_file(&self) -> std::io::Result<(FileId, PathBuf)> {
//!         let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
//!         Ok((id, PathBuf::from(format!("/db/{id}.idx"))))
//!     }
//!     fn fs(&self) -> &dyn Fs {
//!         &self.fs
//!     }
//! }
//!
//! let files = Files { fs: vfs::SimFs::new(0), next: AtomicU64::new(1) };
//! files.fs.create_dir_all(Path::new("/db"))?;
//! let options = RunOptions::default();
//! let mut writer = RunWriter::new(&files, &options);
//! let location = Location { rowset: RowsetId(0), rowid: RowId(0) };
//! writer.add(b"a", None, &[Entry::deletion(Version(5)), Entry::put(Version(2), location)])?;
//!
//! let cache = sstable::Cache::new(1 << 20);
//! let written = writer.finish()?;
//! let opened = written
//!     .iter()
//!     .map(|file| {
//!         let expect = (file.info.len, file.info.footer_checksum);
//!         IndexFile::open(&files.fs, &file.path, file.info.id, Arc::clone(&cache), expect)
//!     })
//!     .collect::<nyala_pkindex::Result<Vec<_>>>()?;
//! let run = Run::new(opened)?;
//! let hash = hash_key(b"a");
//! assert_eq!(run.lookup(b"a", hash, Version(4))?, Some(Entry::put(Version(2), location)));
//! assert_eq!(run.lookup(b"a", hash, Version(9))?, Some(Entry::deletion(Version(5))));
//! assert_eq!(run.lookup(b"a", hash, Version(1))?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod compaction;
mod cursor;
mod entry;
mod error;
mod file;
mod garbage;
mod loser_tree;
mod merge;
mod merger;
mod properties;
mod run;
mod stats;
mod stream;
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
pub use stream::RunStream;
pub use writer::{Output, RunOptions, RunWriter, WrittenFile};

#[cfg(test)]
mod model;
