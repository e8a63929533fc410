//! Folders of index files: where inputs lie and outputs go, and the writer of the variants that are compared with.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::FileId;
use pkindex::{Output, RunOptions};
use sstable::{Cache, FileInfo, KeyedReader, KeyedWriter};
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

/// Writes encoded lists into files of a target size: [`pkindex::RunWriter`] without the count of entries of each
/// rowset, which only the engine needs. What is compared with it thus does a little less.
pub(crate) struct FileSequence<'a> {
    folder: &'a Folder,
    options: &'a RunOptions,
    open: Option<KeyedWriter>,
    finished: Vec<FileInfo>,
}

impl<'a> FileSequence<'a> {
    pub(crate) fn new(folder: &'a Folder, options: &'a RunOptions) -> FileSequence<'a> {
        FileSequence { folder, options, open: None, finished: Vec::new() }
    }

    /// Writes a key, which must come after the one before.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], list: &[u8]) -> anyhow::Result<()> {
        if self.open.is_none() {
            let (id, path) = self.folder.next_file()?;
            self.open = Some(KeyedWriter::create(&self.folder.fs, &path, id, &self.options.file)?);
        }
        let writer = self.open.as_mut().expect("a file was opened");
        writer.add(key, None, list)?;
        if writer.written_bytes() >= self.options.file_bytes {
            self.close()?;
        }
        Ok(())
    }

    /// Ends and syncs the last file.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<FileInfo>> {
        self.close()?;
        Ok(self.finished)
    }

    fn close(&mut self) -> anyhow::Result<()> {
        if let Some(writer) = self.open.take() {
            self.finished.push(writer.finish(&[])?);
        }
        Ok(())
    }
}
