//! A directory as it was at one moment, although somebody else goes on writing to it.
//!
//! Owns open handles of the files that matter and what was listed. A name that is gone meanwhile still opens here; a
//! log that has grown ends where it ended. Nothing is ever changed: every call that would is refused.
//!
//! Where a log ended. A log is appended to, segment by segment, within files that are filled with zeros ahead. So the
//! segments are looked at from the last to the first, and each from its end to its beginning, up to the last byte that
//! is not zero, with which every record ends: whatever was seen of a later place, all that was written before it is
//! found when the earlier places are looked at. A look in the other direction could see a record without its
//! predecessor.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use codec::FileId;
use sync::Mutex;
use vfs::{Advice, Entry, File, Fs, Lock};

use crate::files::{self, FileKind};

/// What is read in one call in the search for the end of a segment.
const WINDOW_BYTES: u64 = 256 << 10;

/// A directory that stands still.
#[derive(Debug)]
pub(super) struct Frozen {
    inner: Arc<dyn Fs>,
    dir: PathBuf,
    listing: Mutex<Vec<Entry>>,
    held: Mutex<BTreeMap<PathBuf, Arc<dyn File>>>,
}

impl Frozen {
    /// Nothing is held yet; what is opened is held from then on.
    pub(super) fn new(inner: Arc<dyn Fs>, dir: &Path) -> Frozen {
        Frozen { inner, dir: dir.to_owned(), listing: Mutex::default(), held: Mutex::default() }
    }

    /// Lists the directory anew. Until the next time that is what there is.
    pub(super) fn look(&self) -> io::Result<Vec<Entry>> {
        let listing = self.inner.list(&self.dir)?;
        *self.listing.lock() = listing.clone();
        Ok(listing)
    }

    /// Holds these segments of a log, which ascend, as they are. Tells how long each is.
    pub(super) fn hold_log(&self, segments: &[FileId], kind: FileKind) -> io::Result<Vec<u64>> {
        let mut lens = Vec::with_capacity(segments.len());
        for id in segments.iter().rev() {
            let path = files::path(&self.dir, *id, kind);
            let file = self.inner.open(&path)?;
            let len = written_bytes(&*file)?;
            self.held.lock().insert(path, Arc::new(Prefix { file, len }));
            lens.push(len);
        }
        Ok(lens)
    }
}

/// Up to the last byte that is not zero, and to the end of the header, which may end in zeros, if there is one.
fn written_bytes(file: &dyn File) -> io::Result<u64> {
    let len = file.len()?;
    let mut end = len;
    let mut window = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(WINDOW_BYTES);
        window.resize(usize::try_from(end - start).expect("a window"), 0);
        file.read_exact_at(&mut window, start)?;
        if let Some(last) = window.iter().rposition(|byte| *byte != 0) {
            return Ok((start + last as u64 + 1).max(wal::HEADER_BYTES as u64).min(len));
        }
        end = start;
    }
    Ok(0)
}

fn refused<T>(what: &str, path: &Path) -> io::Result<T> {
    let text = format!("{what} {}: it is open for reading only", path.display());
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text))
}

impl Fs for Frozen {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        refused("make", dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        refused("create", path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.held.lock().get(path) {
            return Ok(Arc::clone(file));
        }
        let file = self.inner.open(path)?;
        Ok(Arc::clone(self.held.lock().entry(path.to_owned()).or_insert(file)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        refused("remove", path)
    }

    fn rename(&self, from: &Path, _to: &Path) -> io::Result<()> {
        refused("rename", from)
    }

    fn hard_link(&self, from: &Path, _to: &Path) -> io::Result<()> {
        refused("link", from)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        if dir == self.dir { Ok(self.listing.lock().clone()) } else { self.inner.list(dir) }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        refused("sync", dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        refused("lock", path)
    }
}

/// A file that ends where it ended.
#[derive(Debug)]
struct Prefix {
    file: Arc<dyn File>,
    len: u64,
}

impl File for Prefix {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn preallocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn start_writeback(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.file.advise(advice, offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::SimFs;

    fn disk() -> SimFs {
        let disk = SimFs::new(1);
        disk.create_dir_all("/db".as_ref()).expect("a good disk");
        disk
    }

    #[test]
    fn a_log_that_grows_ends_where_it_ended_and_a_file_that_goes_stays() {
        let disk = disk();
        let path = Path::new("/db/3.wal");
        let file = disk.create(path).expect("a good disk");
        file.preallocate(700 << 10).expect("a good disk");
        file.write_all_at(&[7; 300], 0).expect("a good disk");
        let frozen = Frozen::new(Arc::new(disk.clone()), "/db".as_ref());
        assert_eq!(frozen.look().expect("a good disk").len(), 1);
        assert_eq!(frozen.hold_log(&[FileId(3)], FileKind::Log).expect("a good disk"), [300]);
        file.write_all_at(&[8; 300], 300).expect("a good disk");
        disk.create("/db/4.wal".as_ref()).expect("a good disk");
        disk.remove(path).expect("a good disk");
        assert_eq!(frozen.read(path, 1000).expect("it is held"), [7; 300]);
        assert_eq!(frozen.list("/db".as_ref()).expect("as it was").len(), 1);
        let held = frozen.open(path).expect("it is held");
        let error = held.read_exact_at(&mut [0; 2], 299).expect_err("there it ended");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// A disk on which somebody writes on between a reader's first and second open.
    #[derive(Debug)]
    struct Racing {
        disk: SimFs,
        opens: std::sync::atomic::AtomicU32,
    }

    impl Fs for Racing {
        fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
            self.disk.create_dir_all(dir)
        }

        fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
            self.disk.create(path)
        }

        fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
            if self.opens.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
                // The end of one segment, and the beginning of the next, which was made ahead.
                for (name, len) in [("/db/1.wal", 300), ("/db/2.wal", 100)] {
                    let before = self.disk.read(name.as_ref(), 1 << 20)?;
                    self.disk.remove(name.as_ref())?;
                    let file = self.disk.create(name.as_ref())?;
                    file.write_all_at(&before, 0)?;
                    file.write_all_at(&vec![7; len], 0)?;
                }
            }
            self.disk.open(path)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.disk.remove(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.disk.rename(from, to)
        }

        fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.disk.hard_link(from, to)
        }

        fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
            self.disk.list(dir)
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            self.disk.sync_dir(dir)
        }

        fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
            self.disk.lock(path)
        }
    }

    #[test]
    fn no_segment_is_seen_with_bytes_that_were_written_after_the_end_of_the_one_before() {
        let disk = disk();
        for (name, len) in [("/db/1.wal", 200), ("/db/2.wal", 0)] {
            let file = disk.create(name.as_ref()).expect("a good disk");
            file.preallocate(4096).expect("a good disk");
            file.write_all_at(&vec![7; len], 0).expect("a good disk");
        }
        let racing = Racing { disk, opens: std::sync::atomic::AtomicU32::new(0) };
        let frozen = Frozen::new(Arc::new(racing), "/db".as_ref());
        frozen.hold_log(&[FileId(1), FileId(2)], FileKind::Log).expect("a good disk");
        let len = |name: &str| frozen.open(name.as_ref()).and_then(|file| file.len()).expect("it is held");
        assert_eq!((len("/db/1.wal"), len("/db/2.wal")), (300, 0));
    }

    #[test]
    fn empty_and_unwritten_segments_have_no_bytes() {
        let disk = disk();
        for (id, len) in [(1, 0), (2, 600 << 10)] {
            let file =
                disk.create(&files::path("/db".as_ref(), FileId(id), FileKind::Log)).expect("a good disk");
            file.preallocate(len).expect("a good disk");
        }
        let frozen = Frozen::new(Arc::new(disk), "/db".as_ref());
        assert_eq!(frozen.hold_log(&[FileId(1), FileId(2)], FileKind::Log).expect("a good disk"), [0, 0]);
    }

    #[test]
    fn a_header_that_ends_in_zeros_is_whole() {
        let disk = disk();
        let path = Path::new("/db/1.wal");
        let file = disk.create(path).expect("a good disk");
        file.preallocate(4096).expect("a good disk");
        file.write_all_at(&[9; 61], 0).expect("a good disk");
        let frozen = Frozen::new(Arc::new(disk), "/db".as_ref());
        assert_eq!(frozen.hold_log(&[FileId(1)], FileKind::Log).expect("a good disk"), [64]);
    }

    #[test]
    fn nothing_is_changed_through_it() {
        let disk = disk();
        let path = Path::new("/db/1.wal");
        disk.create(path).and_then(|file| file.write_all_at(&[1; 10], 0)).expect("a good disk");
        let frozen = Frozen::new(Arc::new(disk.clone()), "/db".as_ref());
        frozen.hold_log(&[FileId(1)], FileKind::Log).expect("a good disk");
        let before = disk.fingerprint();
        let held = frozen.open(path).expect("it is held");
        let refusals = [
            frozen.create_dir_all("/db/x".as_ref()).map(drop),
            frozen.create("/db/x".as_ref()).map(drop),
            frozen.remove(path),
            frozen.rename(path, "/db/x".as_ref()),
            frozen.hard_link(path, "/db/x".as_ref()),
            frozen.sync_dir("/db".as_ref()),
            frozen.lock("/db/LOCK".as_ref()).map(drop),
            held.write_at(&[2], 0).map(drop),
            held.preallocate(100),
            held.truncate(0),
            held.sync(),
        ];
        for refusal in refusals {
            assert_eq!(refusal.expect_err("it would change it").kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(disk.fingerprint(), before);
    }
}
