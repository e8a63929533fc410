//! An exclusive lock on a file, against other processes and against this one; and, as long as it is held, an open
//! handle of the file's directory, so that syncing it needs no new descriptor.
//!
//! Invariant: a path is in the registry exactly while a [`Guard`] of it lives, or is being taken.
//! Invariant: the registry is entered before the operating system's lock is taken, and left after that is released.

use crate::fs::Lock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What this process holds, with the directory of each file once that is open. Some systems' file locks belong to the
/// process and would let it in twice.
static HELD: Mutex<BTreeMap<PathBuf, Option<Arc<File>>>> = Mutex::new(BTreeMap::new());

/// The open handle of a directory in which this process holds a lock.
pub(super) fn open_directory(dir: &Path) -> Option<Arc<File>> {
    let dir = dir.canonicalize().ok()?;
    let held = HELD.lock();
    held.iter().find(|(path, _)| path.parent() == Some(&dir)).and_then(|(_, handle)| handle.clone())
}

/// A held lock.
#[derive(Debug)]
pub(super) struct Guard {
    // The fields are dropped in this order.
    file: File,
    _registration: Registration,
}

impl Lock for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread is starting shares the open file until it runs its
        // program. A failure leaves it to the closing, which then ends the lock a moment later.
        let _ = self.file.unlock();
    }
}

impl Guard {
    /// Takes the lock, or fails with `WouldBlock`.
    pub(super) fn take(path: &Path) -> io::Result<Guard> {
        // Registered before the file is opened: closing a second handle would end a lock that belongs to the process.
        let registration = Registration::enter(path)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                registration.open_directory()?;
                Ok(Guard { file, _registration: registration })
            }
            Err(TryLockError::WouldBlock) => Err(held("by another process")),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct Registration {
    path: PathBuf,
}

impl Registration {
    fn enter(path: &Path) -> io::Result<Registration> {
        let path = canonical(path)?;
        match HELD.lock().entry(path.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(None);
                Ok(Registration { path })
            }
            Entry::Occupied(_) => Err(held("in this process")),
        }
    }

    fn open_directory(&self) -> io::Result<()> {
        let handle = File::open(self.path.parent().unwrap_or(Path::new("/")))?;
        HELD.lock().insert(self.path.clone(), Some(Arc::new(handle)));
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        HELD.lock().remove(&self.path);
    }
}

/// One name for one file, also before it exists: its directory's true path, and its own name there.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    Ok(dir.canonicalize()?.join(name))
}

fn held(by: &str) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("it is held {by}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_open_as_long_as_the_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open_directory(dir.path()).is_none());
        let guard = Guard::take(&dir.path().join("LOCK")).unwrap();
        open_directory(dir.path()).expect("it is held").sync_all().unwrap();
        drop(guard);
        assert!(open_directory(dir.path()).is_none());
    }

    #[test]
    fn a_lock_that_is_dropped_is_free_although_a_child_process_shares_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let guard = Guard::take(&path).unwrap();
        // What a child has between its fork and its exec.
        let shared = guard.file.try_clone().unwrap();
        assert_eq!(Guard::take(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(guard);
        Guard::take(&path).unwrap();
        drop(shared);
    }
}
