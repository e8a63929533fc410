//! A file system on which a test can hold up single calls, to bring two threads to a certain place.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use nyala::vfs::{Advice, Entry, File, Fs, Lock};

/// The calls that can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    Open,
    Write,
    Sync,
    Remove,
    Link,
}

#[derive(Debug)]
struct Gate {
    call: Call,
    /// What the path ends with.
    suffix: &'static str,
    /// What the name of the calling thread starts with.
    thread: &'static str,
    is_reached: bool,
    is_open: bool,
}

#[derive(Debug, Default)]
struct Gates {
    gates: Mutex<Vec<Gate>>,
    changed: Condvar,
}

impl Gates {
    fn pass(&self, call: Call, path: &Path) {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("");
        let path = path.to_string_lossy();
        let mut gates = self.gates.lock().expect("no panics");
        let holds = |gate: &Gate| {
            gate.call == call
                && path.ends_with(gate.suffix)
                && thread.starts_with(gate.thread)
                && !gate.is_open
        };
        while let Some(gate) = gates.iter_mut().find(|gate| holds(gate)) {
            gate.is_reached = true;
            self.changed.notify_all();
            gates = self.changed.wait(gates).expect("no panics");
        }
    }
}

/// Passes all calls on to another file system, those that are held up later.
#[derive(Clone, Debug)]
pub(crate) struct GateFs {
    inner: Arc<dyn Fs>,
    gates: Arc<Gates>,
    /// Whether syncs reach the disk.
    syncs: bool,
}

/// A call that is held up, until this is opened or dropped.
#[derive(Debug)]
pub(crate) struct Held {
    gates: Arc<Gates>,
    index: usize,
}

impl GateFs {
    pub(crate) fn new(inner: impl Fs) -> GateFs {
        GateFs { inner: Arc::new(inner), gates: Arc::default(), syncs: true }
    }

    /// The real disk without syncs: quick, and no different as long as the power stays.
    pub(crate) fn unsynced() -> GateFs {
        GateFs { syncs: false, ..GateFs::new(nyala::vfs::OsFs) }
    }

    /// Holds up such calls from now on.
    pub(crate) fn hold(&self, call: Call, suffix: &'static str, thread: &'static str) -> Held {
        let mut gates = self.gates.gates.lock().expect("no panics");
        gates.push(Gate { call, suffix, thread, is_reached: false, is_open: false });
        Held { gates: Arc::clone(&self.gates), index: gates.len() - 1 }
    }

    fn file(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        let gates = Arc::clone(&self.gates);
        Arc::new(GateFile { inner: file, path: path.to_owned(), gates, syncs: self.syncs })
    }
}

impl Held {
    /// Waits until a thread stands before it.
    pub(crate) fn wait_reached(&self) {
        assert!(self.is_reached_within(Duration::from_secs(20)), "nobody comes to the gate");
    }

    pub(crate) fn is_reached_within(&self, limit: Duration) -> bool {
        let gates = self.gates.gates.lock().expect("no panics");
        let (gates, _) = self
            .gates
            .changed
            .wait_timeout_while(gates, limit, |gates| !gates[self.index].is_reached)
            .expect("no panics");
        gates[self.index].is_reached
    }

    pub(crate) fn open(&self) {
        self.gates.gates.lock().expect("no panics")[self.index].is_open = true;
        self.gates.changed.notify_all();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open();
    }
}

impl Fs for GateFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.gates.pass(Call::Create, path);
        Ok(self.file(self.inner.create(path)?, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.gates.pass(Call::Open, path);
        Ok(self.file(self.inner.open(path)?, path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.gates.pass(Call::Remove, path);
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.gates.pass(Call::Link, from);
        self.inner.hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.syncs { self.inner.sync_dir(dir) } else { Ok(()) }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.inner.lock(path)
    }
}

struct GateFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    gates: Arc<Gates>,
    syncs: bool,
}

impl fmt::Debug for GateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl File for GateFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.gates.pass(Call::Write, &self.path);
        self.inner.write_at(buf, offset)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.inner.preallocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.gates.pass(Call::Sync, &self.path);
        if self.syncs { self.inner.sync() } else { Ok(()) }
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.start_writeback(offset, len)
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.inner.advise(advice, offset, len);
    }
}

/// The real disk, mounted read-only.
#[derive(Debug)]
pub(crate) struct ReadOnlyFs;

#[derive(Debug)]
struct ReadOnlyFile(Arc<dyn File>);

fn read_only<T>(what: &str, path: &Path) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, format!("{what} {}: read-only", path.display())))
}

impl Fs for ReadOnlyFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() { Ok(()) } else { read_only("make", dir) }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        read_only("create", path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(ReadOnlyFile(nyala::vfs::OsFs.open(path)?)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        read_only("remove", path)
    }

    fn rename(&self, from: &Path, _to: &Path) -> io::Result<()> {
        read_only("rename", from)
    }

    fn hard_link(&self, from: &Path, _to: &Path) -> io::Result<()> {
        read_only("link", from)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        nyala::vfs::OsFs.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        nyala::vfs::OsFs.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        read_only("lock", path)
    }
}

impl File for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn preallocate(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn truncate(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.start_writeback(offset, len)
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.0.advise(advice, offset, len);
    }
}
