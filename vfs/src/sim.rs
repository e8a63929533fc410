//! A simulated disk, in memory and deterministic: it keeps apart what is written and what is durable, cuts the power
//! and injects faults.
//!
//! [`SimFs`] is the handle: the [`Fs`] that the engine sees, and the levers that a test pulls. Beneath it, `disk`
//! holds the state, `pages` the contents (of `image`s), `directory` the names, `faults` says what fails and `power`
//! what survives.
//!
//! The model is harsher than any one file system: unsynced pages, lengths and names survive a power cut each on their
//! own, syncing a file does not save its name, and a sync that failed is never made good by a later one.
//! What it never does: reorder or tear what was synced, or lose one half of a rename.

mod directory;
mod disk;
mod faults;
mod image;
mod pages;
mod power;
mod random;

pub use faults::{FailedSync, Fault, FaultKind, OpKind, OpSet, Times};
pub use power::{Entries, LastWrite, Pages, PowerCut, Sizes};

use crate::error::failure;
use crate::fs::{Advice, Entry, File, Fs, Lock};
use crate::transfer;
use directory::FileNumber;
use disk::Disk;
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A simulated disk. Clones share it; [`SimFs::fork`] and [`SimFs::power_cut`] make new ones.
///
/// The same calls in the same order give the same results, faults included, for the same seed. Relative paths start
/// at the root.
///
/// ```
/// use nyala_vfs::{Fs, SimFs, sim::PowerCut};
/// # fn main() -> std::io::Result<()> {
/// let disk = SimFs::new(7);
/// disk.create_dir_all("/db".as_ref())?;
/// disk.sync_dir("/".as_ref())?;
/// let file = disk.create("/db/1.wal".as_ref())?;
/// file.write_all_at(b"hello", 0)?;
/// file.sync()?;
///
/// // The file is safe, its name is not yet.
/// let after = disk.power_cut(&PowerCut::lose_all());
/// assert!(after.list("/db".as_ref())?.is_empty());
///
/// disk.sync_dir("/db".as_ref())?;
/// let after = disk.power_cut(&PowerCut::lose_all());
/// assert_eq!(after.read("/db/1.wal".as_ref(), 100)?, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SimFs {
    disk: Arc<Mutex<Disk>>,
}

impl SimFs {
    /// An empty disk without limits or faults. The seed decides how much of a failing write is written.
    #[must_use]
    pub fn new(seed: u64) -> SimFs {
        SimFs::from_disk(Disk::new(seed))
    }

    fn from_disk(disk: Disk) -> SimFs {
        SimFs { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The disk as it is found after a power cut at this moment. This one goes on, also when it has halted.
    ///
    /// The new disk counts its operations from 0, and has no faults, locks or open files.
    #[must_use]
    pub fn power_cut(&self, policy: &PowerCut) -> SimFs {
        SimFs::from_disk(self.disk.lock().after_power_cut(policy))
    }

    /// An independent copy, with what is durable and what is not. It counts its operations from 0, and has no faults,
    /// locks or open files.
    #[must_use]
    pub fn fork(&self) -> SimFs {
        SimFs::from_disk(self.disk.lock().fork())
    }

    /// From now on keeps a copy of the disk as it is before each operation that can change what a power cut leaves. A
    /// copy is cheap: it shares all pages.
    pub fn record(&self) {
        self.disk.lock().recording.get_or_insert_default();
    }

    /// Ends [`SimFs::record`]. What it kept, each with the number of the operation before which it was taken, which is
    /// the same as after the last change.
    #[must_use]
    pub fn take_recording(&self) -> Vec<(u64, SimFs)> {
        let recording = self.disk.lock().recording.take();
        recording.unwrap_or_default()
    }

    /// How many operations there were. The next one has this number.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk.lock().control.operations()
    }

    /// The kinds of all operations so far.
    #[must_use]
    pub fn log(&self) -> Vec<OpKind> {
        self.disk.lock().control.kinds()
    }

    /// What operation `n` was, and on which path (of a rename or a link, the old one).
    #[must_use]
    pub fn operation(&self, n: u64) -> Option<(OpKind, PathBuf)> {
        self.disk.lock().control.operation(n)
    }

    /// The last operation that could change what a power cut leaves, if there was one.
    #[must_use]
    pub fn last_change(&self) -> Option<(OpKind, PathBuf)> {
        self.disk.lock().control.last_change()
    }

    /// From operation `n` on, every call fails and nothing changes any more, as if the process were gone. Several
    /// calls: the last one counts.
    pub fn halt_at(&self, n: u64) {
        self.disk.lock().control.halt_at(n);
    }

    /// Whether that moment has come: what is on the disk does not change any more.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.disk.lock().control.is_halted()
    }

    /// Makes the first operation fail that is of the fault's kinds and has at least number `n`.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        self.disk.lock().control.add_fault(n, fault);
    }

    /// Takes back all faults.
    pub fn clear_faults(&self) {
        self.disk.lock().control.clear_faults();
    }

    /// Limits the sum of the lengths of all files (those that are removed but open included). What would go above it
    /// fails with `StorageFull`; of a write, the part that fits is written.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk.lock().capacity = bytes;
    }

    /// The sum of the lengths of all files, those that are removed but open included.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.disk.lock().used()
    }

    /// The paths of all files, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk.lock().paths()
    }

    /// Changes a file behind everybody's back, as a bad disk would. The outcome is durable; it is no operation.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`.
    pub fn damage(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.disk.lock().damage(path, edit).map_err(|error| failure("damage", path, error))
    }

    /// A hash of all names and contents as they are seen, to count distinct states. Comparable within one build only.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.disk.lock().fingerprint()
    }

    /// Counts an operation, fails it if it is to fail, else performs it; and names its place in the error.
    fn operate<T>(
        &self,
        kind: OpKind,
        path: &Arc<Path>,
        name: impl FnOnce() -> String,
        perform: impl FnOnce(&mut Disk, Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.operate_bare(kind, path, perform).map_err(|error| failure(name(), path, error))
    }

    /// The same with the bare error.
    fn operate_bare<T>(
        &self,
        kind: OpKind,
        path: &Arc<Path>,
        perform: impl FnOnce(&mut Disk, Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut disk = self.disk.lock();
        if disk.recording.is_some() && kind.changes_disk() && !disk.control.is_halted() {
            let before = (disk.control.operations(), SimFs::from_disk(disk.fork()));
            disk.recording.get_or_insert_default().push(before);
        }
        let fault = disk.control.begin(kind, path)?;
        perform(&mut disk, fault)
    }

    /// The same for an operation of which a failure leaves nothing.
    fn operate_whole<T>(
        &self,
        kind: OpKind,
        path: &Arc<Path>,
        name: &str,
        perform: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        self.operate(
            kind,
            path,
            || name.to_owned(),
            |disk, fault| match fault {
                Some(fault) => Err(fault.error()),
                None => perform(disk),
            },
        )
    }

    fn handle(&self, file: FileNumber, path: Arc<Path>, access: Access) -> Arc<dyn File> {
        Arc::new(SimFile { fs: self.clone(), file, path, access })
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SimFs");
        if let Some(disk) = self.disk.try_lock() {
            out.field("operations", &disk.control.operations()).field("used_bytes", &disk.used());
        }
        out.finish_non_exhaustive()
    }
}

impl Fs for SimFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.operate_whole(OpKind::CreateDir, &dir.into(), "create directory", |disk| disk.make_dirs(dir))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let path: Arc<Path> = path.into();
        let file = self.operate_whole(OpKind::Create, &path, "create", |disk| {
            let file = disk.create(&path)?;
            disk.take_handle(file);
            Ok(file)
        })?;
        Ok(self.handle(file, path, Access::ReadWrite))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let path: Arc<Path> = path.into();
        let file = self.operate_whole(OpKind::Open, &path, "open", |disk| {
            let file = disk.resolve_file(&path)?;
            disk.take_handle(file);
            Ok(file)
        })?;
        Ok(self.handle(file, path, Access::Read))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate_whole(OpKind::Remove, &path.into(), "remove", |disk| disk.remove(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let name = || format!("rename to {} of", to.display());
        self.operate(OpKind::Rename, &from.into(), name, |disk, fault| match fault {
            Some(fault) => Err(fault.error()),
            None => disk.rename(from, to),
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let name = || format!("link as {} of", to.display());
        self.operate(OpKind::HardLink, &from.into(), name, |disk, fault| match fault {
            Some(fault) => Err(fault.error()),
            None => disk.hard_link(from, to),
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.operate_whole(OpKind::List, &dir.into(), "list", |disk| disk.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let name = || "sync directory".to_owned();
        self.operate(OpKind::SyncDir, &dir.into(), name, |disk, fault| match fault {
            Some(fault) => {
                disk.fail_sync_dir(dir, fault);
                Err(fault.error())
            }
            None => disk.sync_dir(dir),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = self.operate_whole(OpKind::Lock, &path.into(), "lock", |disk| disk.lock(path))?;
        Ok(Box::new(SimLock { fs: self.clone(), file }))
    }
}

#[derive(Debug)]
struct SimLock {
    fs: SimFs,
    file: FileNumber,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.fs.disk.lock().unlock(self.file);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    ReadWrite,
}

#[derive(Debug)]
struct SimFile {
    fs: SimFs,
    file: FileNumber,
    path: Arc<Path>,
    access: Access,
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => Err(rustix::io::Errno::BADF.into()),
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.fs.disk.lock().drop_handle(self.file);
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.fs.operate_whole(OpKind::Len, &self.path, "take the length of", |disk| Ok(disk.len(self.file)))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let len = buf.len();
        let read = |buf: &mut [u8], offset| {
            self.fs.operate_bare(OpKind::Read, &self.path, |disk, fault| {
                let len = match fault {
                    Some(fault) => fault.transfer(buf.len(), |end| disk.random().below(end))?,
                    None => buf.len(),
                };
                Ok(disk.read(self.file, &mut buf[..len], offset))
            })
        };
        transfer::read_exact(buf, offset, read)
            .map_err(|error| failure(format!("read {len} bytes at {offset} of"), &self.path, error))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let write = |buf: &[u8], offset| {
            self.fs.operate_bare(OpKind::Write, &self.path, |disk, fault| {
                self.check_writable()?;
                let Some(fault) = fault else { return disk.write(self.file, buf, offset) };
                let moved = fault.transfer(buf.len(), |end| disk.random().below(end));
                match moved {
                    Ok(len) => disk.write(self.file, &buf[..len], offset),
                    Err(error) => {
                        if fault.kind != FaultKind::Interrupted {
                            disk.write_some(self.file, buf, offset);
                        }
                        Err(error)
                    }
                }
            })
        };
        let name = || format!("write {} bytes at {offset} of", buf.len());
        transfer::write_once(buf, offset, write).map_err(|error| failure(name(), &self.path, error))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let name = || format!("preallocate {len} bytes of");
        self.fs.operate(OpKind::Preallocate, &self.path, name, |disk, fault| {
            self.check_writable()?;
            match fault {
                Some(fault) => {
                    disk.preallocate_some(self.file, len);
                    Err(fault.error())
                }
                None => disk.preallocate(self.file, len),
            }
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let name = || format!("truncate to {len} bytes");
        self.fs.operate(OpKind::Truncate, &self.path, name, |disk, fault| {
            self.check_writable()?;
            match fault {
                Some(fault) => Err(fault.error()),
                None => disk.truncate(self.file, len),
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.operate(
            OpKind::Sync,
            &self.path,
            || "sync".to_owned(),
            |disk, fault| match fault {
                Some(fault) => {
                    disk.fail_sync(self.file, fault);
                    Err(fault.error())
                }
                None => {
                    disk.sync(self.file);
                    Ok(())
                }
            },
        )
    }

    fn start_writeback(&self, _offset: u64, _len: u64) -> io::Result<()> {
        // Whether pages are written back before the next sync is for the power cut to decide.
        self.fs.operate_whole(OpKind::StartWriteback, &self.path, "write back", |_| Ok(()))
    }

    fn advise(&self, _advice: Advice, _offset: u64, _len: u64) {}
}
