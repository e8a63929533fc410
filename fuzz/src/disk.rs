//! A disk in memory that takes about as much memory as its files are long, and that nothing ever fails on.
//!
//! The simulated disk of `vfs` knows what is durable and keeps a history, which costs time and memory that a fuzz
//! target does not want counted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vfs::{Advice, Entry, File, Fs, Lock};

/// A file that is written beyond this is refused: no target has a reason to.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// The disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<Contents>>,
    locked: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct Contents(Mutex<Vec<u8>>);

/// What was half done when a thread panicked is in memory only, and each input has a disk of its own.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Disk {
        Disk::default()
    }

    /// A disk with these files.
    #[must_use]
    pub fn with(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Disk {
        let disk = Disk::new();
        for (path, bytes) in files {
            disk.put(&path, bytes);
        }
        disk
    }

    /// Puts a file there, in the place of what was.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        locked(&self.state).files.insert(path.to_owned(), Arc::new(Contents(Mutex::new(bytes))));
    }

    /// All files, with their contents.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = locked(&self.state);
        state.files.iter().map(|(path, contents)| (path.clone(), locked(&contents.0).clone())).collect()
    }

    fn find(&self, path: &Path) -> io::Result<Arc<Contents>> {
        locked(&self.state).files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Fs for Disk {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = locked(&self.state);
        if state.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let contents = Arc::new(Contents::default());
        state.files.insert(path.to_owned(), Arc::clone(&contents));
        Ok(contents)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.find(path)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match locked(&self.state).files.remove(path) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        let contents = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        let contents = state.files.get(from).cloned().ok_or(io::ErrorKind::NotFound)?;
        if state.files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let state = locked(&self.state);
        let below = state.files.iter().filter(|(path, _)| path.parent() == Some(dir));
        Ok(below
            .filter_map(|(path, contents)| {
                let len = locked(&contents.0).len() as u64;
                Some(Entry { name: path.file_name()?.to_owned(), len, is_file: true })
            })
            .collect())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        if !locked(&self.state).locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Held { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct Held {
    disk: Disk,
    path: PathBuf,
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        locked(&self.disk.state).locked.remove(&self.path);
    }
}

impl File for Contents {
    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.0).len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = locked(&self.0);
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = locked(&self.0);
        let end = offset.saturating_add(buf.len() as u64);
        let (start, end) = (usize_of(offset)?, usize_of(end)?);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(buf);
        Ok(buf.len())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut bytes = locked(&self.0);
        let len = usize_of(len)?.max(bytes.len());
        bytes.resize(len, 0);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        locked(&self.0).resize(usize_of(len)?, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn advise(&self, _: Advice, _: u64, _: u64) {}
}

fn usize_of(at: u64) -> io::Result<usize> {
    match usize::try_from(at) {
        Ok(at) if at as u64 <= FILE_BYTES_MAX => Ok(at),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}
