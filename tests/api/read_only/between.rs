//! A writer that goes on between any two calls of the reader to the disk.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nyala::vfs::{Advice, Entry, File, Fs, Lock, SimFs};
use nyala::{Durability, Engine, Options, Schema, Type};

use super::{expected, filled, inline, prefix, upsert};
use crate::support::{assert_clean, plain, rows};

/// Lets a writer do something at chosen calls of a reader.
struct Between {
    inner: SimFs,
    calls: Arc<AtomicU64>,
    act: Arc<Mutex<dyn FnMut(u64) + Send>>,
    is_on: Arc<AtomicBool>,
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Between {
    fn call(&self) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_on.load(Ordering::Relaxed) {
            (self.act.lock().expect("no panics"))(call);
        }
    }

    fn twin(&self) -> Between {
        let Between { inner, calls, act, is_on } = self;
        Between { inner: inner.clone(), calls: calls.clone(), act: act.clone(), is_on: is_on.clone() }
    }
}

fn changes<T>() -> std::io::Result<T> {
    panic!("a reader changes nothing")
}

impl Fs for Between {
    fn create_dir_all(&self, _: &Path) -> std::io::Result<()> {
        changes()
    }
    fn create(&self, _: &Path) -> std::io::Result<Arc<dyn File>> {
        changes()
    }
    fn open(&self, path: &Path) -> std::io::Result<Arc<dyn File>> {
        self.call();
        Ok(Arc::new(BetweenFile { file: self.inner.open(path)?, fs: self.twin() }))
    }
    fn remove(&self, _: &Path) -> std::io::Result<()> {
        changes()
    }
    fn rename(&self, _: &Path, _: &Path) -> std::io::Result<()> {
        changes()
    }
    fn hard_link(&self, _: &Path, _: &Path) -> std::io::Result<()> {
        changes()
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<Entry>> {
        self.call();
        self.inner.list(dir)
    }
    fn sync_dir(&self, _: &Path) -> std::io::Result<()> {
        changes()
    }
    fn lock(&self, _: &Path) -> std::io::Result<Box<dyn Lock>> {
        changes()
    }
}

#[derive(Debug)]
struct BetweenFile {
    file: Arc<dyn File>,
    fs: Between,
}

impl File for BetweenFile {
    fn len(&self) -> std::io::Result<u64> {
        self.fs.call();
        self.file.len()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.fs.call();
        self.file.read_exact_at(buf, offset)
    }
    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<usize> {
        changes()
    }
    fn preallocate(&self, _: u64) -> std::io::Result<()> {
        changes()
    }
    fn truncate(&self, _: u64) -> std::io::Result<()> {
        changes()
    }
    fn sync(&self) -> std::io::Result<()> {
        changes()
    }
    fn start_writeback(&self, _: u64, _: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn advise(&self, _: Advice, _: u64, _: u64) {}
}

#[test]
fn whatever_the_writer_does_between_two_calls_a_prefix_is_seen() {
    let mut seen = std::collections::BTreeSet::new();
    let (mut n, mut calls) = (0, u64::MAX);
    while n < calls {
        let disk = SimFs::new(1);
        let (writer, table) = filled("/db".as_ref(), inline(&disk));
        let other = writer.create_table("v", plain()).expect("a new name");
        let upsert = {
            let (writer, table, other) = (writer.clone(), table.clone(), other.clone());
            move |ids: std::ops::Range<u32>| {
                for id in ids {
                    let mut batch = writer.batch();
                    for table in [&table, &other] {
                        batch.upsert(table, (id, i64::from(id), "x".repeat(90))).expect("it fits");
                    }
                    batch.commit(Durability::Buffered).expect("a good disk");
                }
            }
        };
        // All that a writer can do to the files that a reader wants.
        let act = move |call: u64| {
            if call != n {
                return;
            }
            upsert(60..90);
            // The rows of one table in files, those of the other in the log.
            table.flush().expect("a good disk");
            let schema = Schema::builder().key("id", Type::U32).build().expect("legal");
            writer.create_table("u", schema).expect("a new name").upsert((1,)).expect("a good disk");
            upsert(90..120);
            table.compact().expect("a good disk");
            writer.flush().expect("a good disk");
            upsert(120..125);
            table.flush().expect("a good disk");
            // Obsolete files are deleted by chance.
            for _ in 0..200 {
                if writer.stats().obsolete_files == 0 {
                    break;
                }
                writer.batch().commit(Durability::Buffered).expect("nothing to do");
                upsert(124..125);
            }
        };
        let (calls_made, is_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
        let between = Between {
            inner: disk.clone(),
            calls: calls_made.clone(),
            act: Arc::new(Mutex::new(act)),
            is_on: is_on.clone(),
        };
        let reader = Engine::open_read_only("/db", Options { fs: Arc::new(between), ..inline(&disk) });
        let reader = reader.unwrap_or_else(|error| panic!("call {n}: {error}"));
        is_on.store(false, Ordering::Relaxed);
        if n == 0 {
            // As many as the quietest open makes.
            calls = calls_made.load(Ordering::Relaxed);
        }
        let count = prefix(&reader);
        assert!(count >= 60, "call {n}: {count} rows of the 60 that were there before");
        seen.insert(count);
        assert_clean(&reader);
        n += 1;
    }
    assert!(seen.contains(&60) && seen.contains(&125), "states before and after: {seen:?}");
}

#[test]
fn a_log_that_grows_at_every_call_is_read_up_to_some_end() {
    for rows_per_call in [1, 3, 10] {
        let disk = SimFs::new(1);
        // Many segments, nothing is flushed.
        let options = Options {
            log_segment_bytes: 4 << 10,
            log_bytes_max: 1 << 30,
            memory_bytes: 1 << 30,
            memtable_bytes: None,
            ..inline(&disk)
        };
        let (_writer, table) = filled("/db".as_ref(), options.clone());
        let next = Arc::new(AtomicU64::new(60));
        let act = {
            let next = Arc::clone(&next);
            move |_| {
                let first = next.fetch_add(rows_per_call, Ordering::Relaxed) as u32;
                upsert(&table, first..first + rows_per_call as u32);
            }
        };
        let is_on = Arc::new(AtomicBool::new(true));
        let between = Between {
            inner: disk.clone(),
            calls: Arc::default(),
            act: Arc::new(Mutex::new(act)),
            is_on: is_on.clone(),
        };
        let reader = Engine::open_read_only("/db", Options { fs: Arc::new(between), ..options });
        is_on.store(false, Ordering::Relaxed);
        let reader = reader.unwrap_or_else(|error| panic!("{rows_per_call} rows a call: {error}"));
        let ids = rows(&reader.existing_table("t").expect("it is there"));
        assert_eq!(ids, expected(0..ids.len() as u32));
        assert!(ids.len() >= 60 && (ids.len() as u64) < next.load(Ordering::Relaxed), "{}", ids.len());
        assert_clean(&reader);
    }
}
