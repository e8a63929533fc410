//! The real disk.
//!
//! The only place of the workspace that calls the operating system's files. Adds nothing to it but retries of short
//! and interrupted calls, and errors that name their place. Never caches, never orders: what must be durable before
//! what is the caller's business.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the module that the rest of the workspace must go through"
)]

mod lock;

use crate::error::failure;
use crate::fs::{Advice, Entry, File, Fs, Lock};
use crate::transfer;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The real disk, through the operating system. Has no state: every value is the same.
///
/// ```
/// use nyala_vfs::{Fs, OsFs};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let disk = OsFs::new();
/// let file = disk.create(&dir.join("1.wal"))?;
/// file.write_all_at(b"hello", 0)?;
/// file.sync()?;
/// disk.sync_dir(dir)?;
/// assert_eq!(disk.read(&dir.join("1.wal"), 100)?, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFs;

impl OsFs {
    /// The real disk.
    #[must_use]
    pub fn new() -> OsFs {
        OsFs
    }
}

impl Fs for OsFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir).map_err(|error| failure("create directory", dir, error))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|error| failure("create", path, error))?;
        Ok(Arc::new(OsFile { file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let open = || {
            let file = std::fs::File::open(path)?;
            if file.metadata()?.is_dir() {
                // Opening a directory succeeds, and only reading it would not.
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Ok(file)
        };
        let file = open().map_err(|error| failure("open", path, error))?;
        Ok(Arc::new(OsFile { file, path: path.to_owned() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path).map_err(|error| failure("remove", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
            .map_err(|error| failure(format!("rename to {} of", to.display()), from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
            .map_err(|error| failure(format!("link as {} of", to.display()), from, error))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let list = || {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(dir)? {
                let entry = entry?;
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    // Removed since its name was read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                let is_file = metadata.is_file();
                let len = if is_file { metadata.len() } else { 0 };
                entries.push(Entry { name: entry.file_name(), len, is_file });
            }
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        list().map_err(|error| failure("list", dir, error))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let sync = || match lock::open_directory(dir) {
            // The handle that has been open since the lock was taken: it is told of every failure since, and there is
            // no descriptor to be short of.
            Some(handle) => handle.sync_all(),
            None => std::fs::File::open(dir)?.sync_all(),
        };
        sync().map_err(|error| failure("sync directory", dir, error))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let guard = lock::Guard::take(path).map_err(|error| failure("lock", path, error))?;
        Ok(Box::new(guard))
    }
}

#[derive(Debug)]
struct OsFile {
    file: std::fs::File,
    path: PathBuf,
}

impl OsFile {
    fn failure(&self, operation: impl Into<String>, error: io::Error) -> io::Error {
        failure(operation, &self.path, error)
    }

    fn extend_with_zeros(&self, len: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let mut at = self.file.metadata()?.len();
        while at < len {
            let step = (len - at).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..step as usize], at)?;
            at += step;
        }
        Ok(())
    }
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        match self.file.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) => Err(self.failure("take the length of", error)),
        }
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let len = buf.len();
        transfer::read_exact(buf, offset, |buf, offset| self.file.read_at(buf, offset))
            .map_err(|error| self.failure(format!("read {len} bytes at {offset} of"), error))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        transfer::write_once(buf, offset, |buf, offset| self.file.write_at(buf, offset))
            .map_err(|error| self.failure(format!("write {} bytes at {offset} of", buf.len()), error))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let take = || match allocate(&self.file, len) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.extend_with_zeros(len),
            result => result,
        };
        take().map_err(|error| self.failure(format!("preallocate {len} bytes of"), error))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(|error| self.failure(format!("truncate to {len} bytes"), error))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| self.failure("sync", error))
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        start_writeback(&self.file, offset, len)
            .map_err(|error| self.failure(format!("write back {len} bytes at {offset} of"), error))
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        advise(&self.file, advice, offset, len);
    }
}

/// Takes the space from the file's end to `len`, as zeros. `Unsupported` where the file system cannot.
#[cfg(target_os = "linux")]
fn allocate(file: &std::fs::File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    let len_now = file.metadata()?.len();
    if len <= len_now {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::empty(), len_now, len - len_now) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Err(io::ErrorKind::Unsupported.into()),
            result => return Ok(result?),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &std::fs::File, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux begins to write the dirty pages of a range that is declared not needed, without waiting, and leaves in the
/// cache those that are on their way. `sync_file_range` would say the same more plainly, but has no safe binding.
#[cfg(target_os = "linux")]
fn start_writeback(file: &std::fs::File, offset: u64, len: u64) -> io::Result<()> {
    match NonZeroU64::new(len) {
        Some(len) => Ok(rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::DontNeed)?),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn start_writeback(_file: &std::fs::File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn advise(file: &std::fs::File, advice: Advice, offset: u64, len: u64) {
    let advice = match advice {
        Advice::Random => rustix::fs::Advice::Random,
        Advice::Sequential => rustix::fs::Advice::Sequential,
        Advice::WillNeed => rustix::fs::Advice::WillNeed,
        Advice::DontNeed => rustix::fs::Advice::DontNeed,
    };
    // A hint that is refused changes no result.
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), advice);
}

#[cfg(not(target_os = "linux"))]
fn advise(_file: &std::fs::File, _advice: Advice, _offset: u64, _len: u64) {}

#[cfg(test)]
mod tests;
