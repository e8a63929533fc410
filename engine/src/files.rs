//! The names of files, and the deletion of those that nobody needs any more.
//!
//! Owns the one counter of file numbers and the list of obsolete files. A file is named by its number and kind alone;
//! no path ever comes from the contents of a file.
//!
//! Invariant: a number is given out once in the life of a database.
//! Invariant: a file is deleted only after an edit without it is durable, and after the last view that names it is
//! gone, and while nobody holds deletions back. Deletion happens here, called by a worker, never in a reader's drop.
//!
//! Lock order: the lock on the obsolete list is a leaf and is not held while a file is deleted.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::FileId;
use pkindex::IndexFile;
use sync::Mutex;
use vfs::Fs;

use crate::error::Error;
use crate::events::{Event, Events};
use crate::rowset::Rowset;

/// The kinds of our numbered files, by their extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Manifest,
    Log,
    Index,
    Rows,
}

impl FileKind {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            FileKind::Manifest => "manifest",
            FileKind::Log => "wal",
            FileKind::Index => "idx",
            FileKind::Rows => "row",
        }
    }
}

/// The file that says which manifest is in force.
pub(crate) const CURRENT: &str = "CURRENT";
/// What becomes [`CURRENT`] by a rename.
pub(crate) const CURRENT_TEMPORARY: &str = "CURRENT.tmp";
/// The file whose lock makes us the only writer.
pub(crate) const LOCK: &str = "LOCK";

/// No number above this is ever given out, so that none that is counted from one overflows.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// Parses `17.idx`. Leading zeros, signs, numbers that are never given out and anything else that we never write are
/// foreign.
pub(crate) fn parse_name(name: &str) -> Option<(FileId, FileKind)> {
    let (number, extension) = name.split_once('.')?;
    let kind = [FileKind::Manifest, FileKind::Log, FileKind::Index, FileKind::Rows]
        .into_iter()
        .find(|kind| kind.extension() == extension)?;
    let id: u64 = number.parse().ok()?;
    (id <= NUMBER_MAX && id.to_string() == number).then_some((FileId(id), kind))
}

/// A file that has left the view in force. It is held until no older view names it.
#[derive(Debug)]
enum Obsolete {
    Index(Arc<IndexFile>),
    Rows(Arc<Rowset>),
    /// A file that no view ever named.
    Unnamed(FileId, FileKind),
    /// A file that is being deleted.
    Deleting(FileId, FileKind),
    /// A file that could not be deleted, and stays until the next open.
    Stuck(FileId, FileKind),
}

impl Obsolete {
    fn file(&self) -> (FileId, FileKind) {
        match self {
            Obsolete::Index(file) => (file.info.id, FileKind::Index),
            Obsolete::Rows(rowset) => (rowset.id().into(), FileKind::Rows),
            Obsolete::Unnamed(id, kind) | Obsolete::Deleting(id, kind) | Obsolete::Stuck(id, kind) => {
                (*id, *kind)
            }
        }
    }

    fn is_free(&self) -> bool {
        match self {
            Obsolete::Index(file) => Arc::strong_count(file) == 1,
            Obsolete::Rows(rowset) => Arc::strong_count(rowset) == 1,
            Obsolete::Unnamed(..) => true,
            Obsolete::Deleting(..) | Obsolete::Stuck(..) => false,
        }
    }
}

/// The directory of a database: numbers, paths, deletion.
pub(crate) struct Files {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    /// The first number that was given out here. Files of lower numbers are older.
    first: FileId,
    next: AtomicU64,
    obsolete: Mutex<Vec<Obsolete>>,
    /// How many want obsolete files to stay.
    holds: AtomicU64,
}

/// As long as it lives no obsolete file is deleted.
#[derive(Debug)]
pub(crate) struct DeletionHold<'a>(&'a AtomicU64);

impl Drop for DeletionHold<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Files {
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: &Path, next: FileId) -> Files {
        Files {
            fs,
            dir: dir.to_owned(),
            first: next,
            next: AtomicU64::new(next.0),
            obsolete: Mutex::default(),
            holds: AtomicU64::new(0),
        }
    }

    /// A number that no file has or had.
    pub(crate) fn next_id(&self) -> FileId {
        FileId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Above every number given out so far.
    pub(crate) fn next_unused(&self) -> FileId {
        FileId(self.next.load(Ordering::Relaxed))
    }

    pub(crate) fn path(&self, id: FileId, kind: FileKind) -> PathBuf {
        path(&self.dir, id, kind)
    }

    pub(crate) fn sync_dir(&self) -> Result<(), Error> {
        self.fs.sync_dir(&self.dir).map_err(|e| Error::sync("syncing the directory", e))
    }

    pub(crate) fn retire_index(&self, file: Arc<IndexFile>) {
        self.obsolete.lock().push(Obsolete::Index(file));
    }

    pub(crate) fn retire_rows(&self, rowset: Arc<Rowset>) {
        self.obsolete.lock().push(Obsolete::Rows(rowset));
    }

    pub(crate) fn retire_unnamed(&self, id: FileId, kind: FileKind) {
        self.obsolete.lock().push(Obsolete::Unnamed(id, kind));
    }

    /// Whether a number lies above all that were there before.
    pub(crate) fn is_new(&self, id: FileId) -> bool {
        id >= self.first
    }

    /// Whether a file was there before and nobody is about to delete it.
    pub(crate) fn is_leftover(&self, id: FileId, kind: FileKind) -> bool {
        let goes = |file: &Obsolete| file.file() == (id, kind) && !matches!(file, Obsolete::Stuck(..));
        !self.is_new(id) && !self.obsolete.lock().iter().any(goes)
    }

    /// How many files nothing names and are there.
    pub(crate) fn obsolete_count(&self) -> usize {
        self.obsolete.lock().len()
    }

    /// Holds back deletions. What an edit takes away from now on keeps its name until this is dropped.
    pub(crate) fn hold_deletions(&self) -> DeletionHold<'_> {
        self.holds.fetch_add(1, Ordering::AcqRel);
        DeletionHold(&self.holds)
    }

    /// The files that nothing names and are there.
    pub(crate) fn obsolete(&self) -> BTreeSet<(FileId, FileKind)> {
        self.obsolete.lock().iter().map(Obsolete::file).collect()
    }

    /// Deletes the obsolete files that no view names, unless deletions are held back. A deletion that fails is logged
    /// and not tried again before the next open, which removes every file that the manifest does not name.
    pub(crate) fn delete_obsolete(&self, cache: &sstable::Cache, events: &Events) {
        let (free, names) = {
            let mut obsolete = self.obsolete.lock();
            // Under the lock: who holds deletions back did so before what must stay was pushed.
            if self.holds.load(Ordering::Acquire) > 0 {
                return;
            }
            let (free, held): (Vec<Obsolete>, _) = obsolete.drain(..).partition(Obsolete::is_free);
            let names: BTreeSet<(FileId, FileKind)> = free.iter().map(Obsolete::file).collect();
            *obsolete = held;
            // Until they are gone they are known to be about to go.
            obsolete.extend(names.iter().map(|&(id, kind)| Obsolete::Deleting(id, kind)));
            (free, names)
        };
        let mut stuck = Vec::new();
        for file in free {
            let (id, kind) = file.file();
            drop(file);
            cache.forget(id);
            match self.fs.remove(&self.path(id, kind)) {
                Ok(()) => events.raise(|| Event::FileDeleted { name: file_name(id, kind) }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let extension = kind.extension();
                    tracing::warn!(%id, extension, %error, "an obsolete file stays until the next open");
                    stuck.push(Obsolete::Stuck(id, kind));
                }
            }
        }
        if !names.is_empty() {
            let mut obsolete = self.obsolete.lock();
            obsolete.retain(|file| !names.contains(&file.file()));
            obsolete.extend(stuck);
        }
    }

    /// Removes files that a failed job wrote. They were never named by an edit.
    pub(crate) fn remove_unfinished(&self, files: impl IntoIterator<Item = (FileId, FileKind)>) {
        for (id, kind) in files {
            match self.fs.remove(&self.path(id, kind)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // One that stays is an orphan, which the next open removes.
                Err(_) => self.obsolete.lock().push(Obsolete::Stuck(id, kind)),
            }
        }
    }
}

/// The name of a numbered file.
pub(crate) fn file_name(id: FileId, kind: FileKind) -> String {
    format!("{id}.{}", kind.extension())
}

/// The path of a numbered file in `dir`.
pub(crate) fn path(dir: &Path, id: FileId, kind: FileKind) -> PathBuf {
    dir.join(file_name(id, kind))
}

/// Gives numbers and paths of one kind of file to a writer, and remembers them, so that a job that fails can remove
/// what it wrote.
#[derive(Debug)]
pub(crate) struct Outputs {
    files: Arc<Files>,
    kind: FileKind,
    given: Mutex<Vec<FileId>>,
}

impl Outputs {
    pub(crate) fn new(files: &Arc<Files>, kind: FileKind) -> Outputs {
        Outputs { files: Arc::clone(files), kind, given: Mutex::default() }
    }

    /// Removes every file that was given out here.
    pub(crate) fn discard(&self) {
        let given = std::mem::take(&mut *self.given.lock());
        self.files.remove_unfinished(given.into_iter().map(|id| (id, self.kind)));
    }
}

impl pkindex::Output for Outputs {
    fn next_file(&self) -> io::Result<(FileId, PathBuf)> {
        let id = self.files.next_id();
        self.given.lock().push(id);
        Ok((id, self.files.path(id, self.kind)))
    }

    fn fs(&self) -> &dyn Fs {
        &*self.files.fs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_write_are_ours() {
        assert_eq!(parse_name("17.idx"), Some((FileId(17), FileKind::Index)));
        assert_eq!(parse_name("0.wal"), Some((FileId(0), FileKind::Log)));
        for foreign in [
            "017.idx",
            "+1.row",
            "1.sst",
            "1.idx.bak",
            ".idx",
            "x.wal",
            "1",
            "CURRENT",
            "99999999999999999999.row",
            "18446744073709551615.wal",
        ] {
            assert_eq!(parse_name(foreign), None, "{foreign}");
        }
    }
}
