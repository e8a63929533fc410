//! A tablet's files, its index runs and its rowsets: how they are written, what the manifest says of them, and how they
//! are opened by it.
//!
//! Owns what every writer and every opener of such files has to agree on. Reads and writes no rows and no entries.
//!
//! Invariant: a rowset's file knows no keys. The manifest names those of its first and last row, and whoever opens it
//! gives it these.

use std::sync::Arc;

use pkindex::{IndexFile, Run, RunOptions};
use sstable::{Cache, FileInfo, WriterOptions};

use crate::error::Error;
use crate::events::{Event, Events};
use crate::files::{FileKind, Files, file_name};
use crate::options::{Compression, Options};
use crate::rowset::{Rowset, RowsetOptions, WrittenRowset};

fn compression(options: &Options) -> sstable::Compression {
    match options.compression {
        Compression::None => sstable::Compression::None,
        Compression::Lz4 => sstable::Compression::Lz4,
    }
}

/// The options of the files of a table's oldest index run: most of the index, and written least often, so that it pays
/// to make it smaller.
pub(crate) fn base_run_options(options: &Options, owner: &Arc<[u8]>) -> RunOptions {
    let mut run = run_options(options, owner);
    run.file.compression = compression(options);
    run
}

/// The options of index files that will soon be merged with others.
pub(crate) fn run_options(options: &Options, owner: &Arc<[u8]>) -> RunOptions {
    RunOptions {
        file: WriterOptions {
            block_bytes: options.index_block_bytes,
            compression: sstable::Compression::None,
            ..WriterOptions::default()
        },
        file_bytes: options.index_file_bytes,
        owner: Arc::clone(owner),
    }
}

/// The options of rowsets.
pub(crate) fn rowset_options(options: &Options, owner: &Arc<[u8]>) -> RowsetOptions {
    RowsetOptions {
        rowset_bytes: options.rowset_bytes,
        file: WriterOptions {
            block_bytes: options.row_block_bytes,
            compression: compression(options),
            filter: false,
            ..WriterOptions::default()
        },
        owner: Arc::clone(owner),
    }
}

/// The manifest's description of a rowset: its file, with the keys of its first and last row.
pub(crate) fn rowset_info(rowset: &WrittenRowset) -> FileInfo {
    FileInfo { first_key: rowset.first_key.clone(), last_key: rowset.last_key.clone(), ..rowset.info.clone() }
}

/// Opens the rowset that `info` describes.
pub(crate) fn open_rowset(files: &Files, cache: &Arc<Cache>, info: &FileInfo) -> Result<Arc<Rowset>, Error> {
    let path = files.path(info.id, FileKind::Rows);
    let (first, last) = (info.first_key.clone(), info.last_key.clone());
    let info = FileInfo { first_key: Vec::new(), last_key: Vec::new(), ..info.clone() };
    Rowset::open(&*files.fs, &path, info, first, last, Arc::clone(cache))
}

/// Opens index files.
pub(crate) fn open_index_files(
    files: &Files,
    cache: &Arc<Cache>,
    descriptions: &[FileInfo],
) -> Result<Vec<Arc<IndexFile>>, Error> {
    let open = |info: &FileInfo| {
        let path = files.path(info.id, FileKind::Index);
        IndexFile::open(&*files.fs, &path, info.id, Arc::clone(cache), (info.len, info.footer_checksum))
    };
    Ok(descriptions.iter().map(open).collect::<Result<Vec<_>, _>>()?)
}

/// Opens the run whose files are described.
pub(crate) fn open_run(
    files: &Files,
    cache: &Arc<Cache>,
    descriptions: &[FileInfo],
) -> Result<Arc<Run>, Error> {
    Ok(Arc::new(Run::new(open_index_files(files, cache, descriptions)?)?))
}

/// Tells of files that come into force.
pub(crate) fn tell_files<'a>(events: &Events, files: impl Iterator<Item = &'a FileInfo>, kind: FileKind) {
    for info in files {
        events.raise(|| Event::FileMade { name: file_name(info.id, kind), bytes: info.len });
    }
}
