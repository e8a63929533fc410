//! The seam between the engine and a disk: every call that the engine makes on files, and no other.
//!
//! Owns the promises below; knows no file format and holds no state.
//!
//! What an implementation promises, and what it does not:
//! * A write is readable at once, through every handle. It survives a power cut only after [`File::sync`].
//! * A file's entry in its directory (its creation, link, rename or removal) survives a power cut only after
//!   [`Fs::sync_dir`] of that directory; syncing the file alone does not save its name.
//! * A failed write may have written any prefix of its bytes. A failed sync says nothing about what is durable, then
//!   or later: a second sync that succeeds does not heal it.
//! * Every error names the operation and the path, and keeps the [`io::ErrorKind`].

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::transfer;

/// A file system, real or simulated. Handles are shared between threads.
pub trait Fs: Send + Sync + fmt::Debug + 'static {
    /// Makes `dir` and what is missing above it. No error if it is there already. The new entries survive a power
    /// cut once the directories that hold them are synced.
    ///
    /// # Errors
    /// `NotADirectory` or `AlreadyExists` if a file is in the way; any error of the disk.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes a new, empty file and opens it for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, `NotFound` without its directory; any error of the disk.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading only.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`; any error of the disk.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Removes a file's name. Who has it open reads on.
    ///
    /// # Errors
    /// `NotFound`; any error of the disk. Directories are refused.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file; a file that is named `to` already is replaced in the same step, so that `to` names the old or
    /// the new one at every moment, also across a power cut.
    ///
    /// # Errors
    /// `NotFound` without `from`; any error of the disk.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, in the same directory or another of the same file system. Both stand for the same
    /// bytes from then on; removing one leaves the other. The new name survives a power cut only after
    /// [`Fs::sync_dir`] of its directory.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, `NotFound` without the file or the directory; what
    /// [`is_not_linkable`](crate::is_not_linkable) tells if there can be no such name; any error of the disk.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// What is in a directory, sorted by name.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`; any error of the disk.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Makes all that was done to the entries of `dir` durable.
    ///
    /// # Errors
    /// Any error of the disk; what is durable is then unknown, for good.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes an exclusive lock on a file, which is created if missing and never removed. The lock ends when the
    /// returned guard is dropped, or the process ends.
    ///
    /// # Errors
    /// `WouldBlock` if anyone holds it, in this process or another; any error of the disk.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// The whole of a small file.
    ///
    /// # Errors
    /// `InvalidData` if it is longer than `len_max` bytes, before anything is allocated; those of [`Fs::open`] and
    /// [`File::read_exact_at`].
    fn read(&self, path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let len = file.len()?;
        let too_long = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("read {}: {len} bytes long, at most {len_max} expected", path.display()),
            )
        };
        if len > len_max {
            return Err(too_long());
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| too_long())?];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// An open file. All calls take the offset, so that threads share one handle without a lock.
#[expect(clippy::len_without_is_empty, reason = "a length that can fail has no use for a second question")]
pub trait File: Send + Sync + fmt::Debug + 'static {
    /// Its length, in bytes.
    ///
    /// # Errors
    /// Any error of the disk.
    fn len(&self) -> io::Result<u64>;

    /// Fills `buf` from `offset` on. Short reads and interruptions are retried.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; any error of the disk. The contents of `buf` are then unspecified.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes `buf` at `offset` in one call, and says how many bytes of it, from the first on, the disk took: as a rule
    /// all, fewer when it is about to be full. A gap before `offset` reads as zeros. Interruptions are retried.
    ///
    /// # Errors
    /// `StorageFull` when the disk is full; `WriteZero` if it takes nothing and names no reason; any error of the disk.
    /// Some prefix of `buf` may then be written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `buf` at `offset`, in as many calls of [`File::write_at`] as it takes. A power cut may keep the
    /// bytes of a later call without those of an earlier one, also within a sector.
    ///
    /// # Errors
    /// Those of [`File::write_at`].
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        transfer::write_all(buf, offset, |buf, offset| self.write_at(buf, offset))
    }

    /// Extends the file with zeros to `len` bytes, and takes the space, so that a later [`File::sync`] within has
    /// little metadata to write. A file that is as long already keeps its length.
    ///
    /// # Errors
    /// `StorageFull`; any error of the disk. The file may then be longer than before.
    fn preallocate(&self, len: u64) -> io::Result<()>;

    /// Cuts the file to `len` bytes, or extends it with zeros.
    ///
    /// # Errors
    /// Any error of the disk.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Makes the data durable, and what is needed to read it back (its length, not its times).
    ///
    /// # Errors
    /// Any error of the disk. What is durable is then unknown, and a later sync that succeeds does not tell.
    fn sync(&self) -> io::Result<()>;

    /// Asks the disk to begin writing a range, so that a later sync has less to wait for. Promises nothing.
    ///
    /// # Errors
    /// Any error of the disk.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Tells how a range will be read. A hint: never fails, may do nothing. A `len` of 0 means to the end.
    fn advise(&self, advice: Advice, offset: u64, len: u64);
}

/// Held while the lock is; dropping it lets go.
pub trait Lock: Send + Sync + fmt::Debug {}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its directory.
    pub name: OsString,
    /// Its length in bytes; 0 if it is no file.
    pub len: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// How a range of a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// Here and there: read nothing ahead.
    Random,
    /// From front to back: read ahead.
    Sequential,
    /// Soon: begin to read.
    WillNeed,
    /// Not again: drop it from the page cache.
    DontNeed,
}
