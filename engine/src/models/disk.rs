//! The simulated disk, with a choice of who goes on before each change of it.
//!
//! Reads give no choice, but where a model says that nobody waits for another one's block: the cache makes others wait
//! by a lock of its own, which no model sees.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sync::choice_point;
use vfs::{Advice, Entry, File, Fs, Lock, SimFs};

/// See the module's head. Clones are the same disk.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) fs: SimFs,
    watch: Arc<Watch>,
}

/// Whether the disk may change, and whether it did nevertheless.
#[derive(Debug, Default)]
struct Watch {
    is_over: AtomicBool,
    reads_give_choices: AtomicBool,
    changed_late: AtomicBool,
}

impl Watch {
    fn change(&self) {
        choice_point();
        if self.is_over.load(Ordering::Relaxed) {
            // Told at the end: a panic in a thread of the engine's would be caught there.
            self.changed_late.store(true, Ordering::Relaxed);
        }
    }
}

impl Disk {
    pub(super) fn new() -> Disk {
        Disk::on(SimFs::new(1))
    }

    pub(super) fn on(fs: SimFs) -> Disk {
        Disk { fs, watch: Arc::default() }
    }

    pub(super) fn with_choices_at_reads(self) -> Disk {
        self.watch.reads_give_choices.store(true, Ordering::Relaxed);
        self
    }

    /// From now on nothing may change it.
    pub(super) fn end(&self) {
        self.watch.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn assert_unchanged_since_end(&self) {
        assert!(self.watch.is_over.load(Ordering::Relaxed), "an end");
        assert!(
            !self.watch.changed_late.load(Ordering::Relaxed),
            "the disk was changed after the engine was closed"
        );
    }
}

impl Fs for Disk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.fs.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.watch.change();
        Ok(Arc::new(Opened { file: self.fs.create(path)?, watch: Arc::clone(&self.watch) }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        choice_point();
        Ok(Arc::new(Opened { file: self.fs.open(path)?, watch: Arc::clone(&self.watch) }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.watch.change();
        self.fs.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.change();
        self.fs.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.change();
        self.fs.hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.fs.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.watch.change();
        self.fs.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.fs.lock(path)
    }
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn File>,
    watch: Arc<Watch>,
}

impl File for Opened {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.watch.reads_give_choices.load(Ordering::Relaxed) {
            choice_point();
        }
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.watch.change();
        self.file.write_at(buf, offset)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.watch.change();
        self.file.preallocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.watch.change();
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.watch.change();
        self.file.sync()
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(offset, len)
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.file.advise(advice, offset, len);
    }
}
