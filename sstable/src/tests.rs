//! Tests of whole files, on the simulated disk, with blocks so small that every structure has many parts.

mod cache;
mod damage;
mod golden;
mod keyed;
mod limits;
mod ordinal;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codec::FileId;
use vfs::SimFs;

use crate::{
    Cache, Compression, FileInfo, KeyedReader, KeyedWriter, OrdinalReader, OrdinalWriter, WriterOptions,
};

pub(super) const ID: FileId = FileId(7);

pub(super) fn path() -> PathBuf {
    PathBuf::from("/7.sst")
}

/// Options with which a few hundred entries make several partitions.
pub(super) fn tiny() -> WriterOptions {
    WriterOptions {
        block_bytes: 128,
        index_block_bytes: 64,
        restart_interval: 4,
        compression: Compression::Lz4,
        filter: true,
        writeback_bytes: 1 << 10,
        sync_bytes: 4 << 10,
    }
}

pub(super) fn write_keyed<'a>(
    fs: &SimFs,
    path: &Path,
    options: &WriterOptions,
    entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> FileInfo {
    let mut writer = KeyedWriter::create(fs, path, ID, options).expect("create");
    for (key, value) in entries {
        writer.add(key, None, value).expect("add");
    }
    writer.finish(b"user").expect("finish")
}

pub(super) fn write_ordinal<'a>(
    fs: &SimFs,
    path: &Path,
    options: &WriterOptions,
    rows: impl IntoIterator<Item = &'a [u8]>,
) -> FileInfo {
    let mut writer = OrdinalWriter::create(fs, path, ID, options).expect("create");
    for (ordinal, row) in rows.into_iter().enumerate() {
        let (head, tail) = row.split_at(row.len() / 2);
        assert_eq!(writer.push(&[head, tail]).expect("push"), ordinal as u32);
    }
    writer.finish(b"user").expect("finish")
}

pub(super) fn open_keyed(fs: &SimFs, path: &Path) -> crate::Result<Arc<KeyedReader>> {
    KeyedReader::open(fs, path, ID, Cache::new(1 << 20), None)
}

pub(super) fn open_ordinal(fs: &SimFs, path: &Path) -> crate::Result<Arc<OrdinalReader>> {
    OrdinalReader::open(fs, path, ID, Cache::new(1 << 20), None)
}
