//! Folders of index files: where inputs lie and outputs go.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::FileId;
use pkindex::Output;
use sstable::{Cache, FileInfo, KeyedReader};
use vfs::{Fs, OsFs};

/// A folder, and the numbers of its files.
pub(crate) struct Folder {
    fs: OsFs,
    path: PathBuf,
    next: AtomicU64,
}

impl Folder {
    /// A folder, made if it is missing; new files get numbers from `first` on.
    pub(crate) fn new(path: &Path, first: u64) -> io::Result<Folder> {
        let fs = OsFs::new();
        fs.create_dir_all(path)?;
        Ok(Folder { fs, path: path.to_owned(), next: AtomicU64::new(first) })
    }

    pub(crate) fn file(&self, id: FileId) -> PathBuf {
        self.path.join(format!("{id}.idx"))
    }

    pub(crate) fn open(&self, file: &FileInfo, cache: &Arc<Cache>) -> sstable::Result<Arc<KeyedReader>> {
        let expect = Some((file.len, file.footer_checksum));
        KeyedReader::open(&self.fs, &self.file(file.id), file.id, Arc::clone(cache), expect)
    }

    pub(crate) fn remove(&self, files: &[FileInfo]) -> io::Result<()> {
        files.iter().try_for_each(|file| self.fs.remove(&self.file(file.id)))
    }
}

impl Output for Folder {
    fn next_file(&self) -> io::Result<(FileId, PathBuf)> {
        let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
        Ok((id, self.file(id)))
    }

    fn fs(&self) -> &dyn Fs {
        &self.fs
    }
}
