//! A log on a simulated disk, for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::{FileId, Version};
use vfs::{Fs, SimFs};

use crate::{Appended, Flavor, Log, Options, Position, Record, Result, Scan, path, scan};

pub(crate) const SEGMENT_BYTES: u64 = 4096;
pub(crate) const RECORD_BYTES_MAX: u32 = 16 << 10;
pub(crate) const FIRST: FileId = FileId(3);

/// A disk with the folder of a log.
pub(crate) fn disk(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.create_dir_all(dir()).expect("an empty disk");
    fs.sync_dir(Path::new("/")).expect("an empty disk");
    fs
}

pub(crate) fn dir() -> &'static Path {
    Path::new("/log")
}

pub(crate) fn options(fs: &SimFs) -> Options {
    Options {
        fs: Arc::new(fs.clone()),
        dir: dir().to_owned(),
        flavor: Flavor::Wal,
        segment_bytes: SEGMENT_BYTES,
        record_bytes_max: RECORD_BYTES_MAX,
        trickle_bytes: 0,
    }
}

/// Numbers the segments, ahead or not.
pub(crate) fn numbers() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(FIRST.0 + 1))
}

pub(crate) fn next(numbers: &AtomicU64) -> FileId {
    FileId(numbers.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn create(options: Options, numbers: &Arc<AtomicU64>) -> Result<Log> {
    let numbers = numbers.clone();
    Log::create(options, FIRST, Box::new(move || next(&numbers)))
}

pub(crate) fn new_log(fs: &SimFs) -> Log {
    create(options(fs), &numbers()).expect("an empty disk")
}

/// The body of record `n`: different for each, and zeros in it.
pub(crate) fn body(n: u64, bytes: usize) -> Vec<u8> {
    let mut body = vec![0; bytes];
    for (index, byte) in body.iter_mut().enumerate() {
        if index % 3 != 2 {
            *byte = (n as usize * 31 + index * 7) as u8;
        }
    }
    body
}

pub(crate) fn append(log: &Log, bodies: &[Vec<u8>]) -> Appended {
    let record = |body| Record { first_version: Version(9), last_version: Version(9), body };
    let records: Vec<_> = bodies.iter().map(|body| record(body.as_slice())).collect();
    log.append(&records)
}

/// Appends one record that must succeed; gives its end.
pub(crate) fn append_one(log: &Log, n: u64, bytes: usize) -> Position {
    let appended = append(log, &[body(n, bytes)]);
    assert!(appended.error.is_none(), "{:?}", appended.error);
    appended.end
}

/// The segments in the folder.
pub(crate) fn present(fs: &SimFs) -> Vec<FileId> {
    let id = |path: PathBuf| {
        let is_wal = path.extension().is_some_and(|extension| extension == "wal");
        is_wal.then(|| FileId(path.file_stem().and_then(|stem| stem.to_str()).unwrap().parse().unwrap()))
    };
    fs.paths().into_iter().filter_map(id).collect()
}

pub(crate) fn scan_all(fs: &SimFs) -> Result<Scan> {
    scan(&options(fs), FIRST, &present(fs))
}

pub(crate) fn replay(scan: &Scan) -> Result<Vec<Vec<u8>>> {
    let mut replay = scan.replay();
    let mut bodies = Vec::new();
    while let Some(record) = replay.next()? {
        bodies.push(record.body.to_vec());
    }
    Ok(bodies)
}

/// What is in the log.
pub(crate) fn read_all(fs: &SimFs) -> Result<Vec<Vec<u8>>> {
    replay(&scan_all(fs)?)
}

pub(crate) fn file(id: FileId) -> PathBuf {
    path(dir(), Flavor::Wal, id)
}

/// Changes the bytes of a segment.
pub(crate) fn damage(fs: &SimFs, id: FileId, edit: impl FnOnce(&mut Vec<u8>)) {
    fs.damage(&file(id), edit).expect("the segment is there");
}
