//! What many tests need: small options, a plain table, copies of directories as a kill leaves them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gate::GateFs;
use nyala::vfs::{Fs, SimFs};
use nyala::{Engine, Error, ErrorKind, Options, Row, Schema, Table, Type};

pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Thresholds so small that a hundred rows make every structure.
pub(crate) fn tiny() -> Options {
    Options {
        memory_bytes: 256 << 10,
        memtable_bytes: Some(8 << 10),
        log_segment_bytes: 4096,
        log_bytes_max: 32 << 10,
        index_block_bytes: 128,
        row_block_bytes: 256,
        index_file_bytes: 2048,
        rowset_bytes: 4096,
        background_threads: 2,
        ..on(Arc::new(GateFs::unsynced()), Options::default())
    }
}

/// Nothing is flushed unless it is asked for, and nothing is synced by itself.
pub(crate) fn lazy() -> Options {
    // Small segments, since each open makes one and fills it with zeros.
    Options {
        background_sync_interval: None,
        log_segment_bytes: 64 << 10,
        ..on(Arc::new(GateFs::unsynced()), Options::default())
    }
}

/// The same on another file system.
pub(crate) fn on(fs: Arc<dyn Fs>, options: Options) -> Options {
    Options { fs, ..options }
}

pub(crate) fn simulated(disk: &SimFs, options: Options) -> Options {
    on(Arc::new(disk.clone()), options)
}

/// `id -> number, text`.
pub(crate) fn plain() -> Schema {
    let builder = Schema::builder().key("id", Type::U32).column("number", Type::I64);
    builder.column("text", Type::String.nullable()).build().expect("a good schema")
}

pub(crate) fn plain_table(engine: &Engine) -> Table {
    engine.open_or_create_table("t", plain()).expect("a table")
}

/// The ids and numbers of all rows, in key order.
pub(crate) fn rows(table: &Table) -> Vec<(u32, i64)> {
    table.scan().rows().expect("a scan").map(|row| pair(&row.expect("a row"))).collect()
}

pub(crate) fn pair(row: &Row) -> (u32, i64) {
    (row.get("id").expect("an id"), row.get("number").expect("a number"))
}

pub(crate) fn assert_clean(engine: &Engine) {
    let report = engine.check().expect("everything can be read");
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// The kind and the text of what must be an error.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, Error>, kind: ErrorKind, says: &[&str]) {
    let error = match result {
        Ok(_) => panic!("it must be refused as {kind:?}"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), kind, "{error}");
    for word in says {
        assert!(error.to_string().contains(word), "{word:?} is not in {error}");
    }
}

/// A `CURRENT` as a newer version writes it.
pub(crate) fn newer_current() -> Vec<u8> {
    let text = "nyala 2 0 7 ";
    let sum = codec::checksum(codec::Kind::Current, codec::FileId(0), 0, &[text.as_bytes()]).0;
    format!("{text}{sum:08x}\n").into_bytes()
}

/// Copies a directory as it is: what a kill at this moment would leave. If background work changes it meanwhile, once
/// more.
pub(crate) fn as_after_a_kill(dir: &Path) -> tempfile::TempDir {
    loop {
        let copy = scratch();
        let before = state(dir);
        let copied = files(dir)
            .iter()
            .filter(|path| path.is_file())
            .all(|file| std::fs::copy(file, copy.path().join(file.file_name().expect("a file"))).is_ok());
        if copied && state(dir) == before {
            return copy;
        }
    }
}

/// Names, lengths and times of all files.
fn state(dir: &Path) -> Vec<(PathBuf, Option<(u64, std::time::SystemTime)>)> {
    let of = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    files(dir).into_iter().map(|path| (path.clone(), of(&path))).collect()
}

/// All files of a directory, sorted.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// Those with this extension, by number.
pub(crate) fn files_of(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        files(dir).into_iter().filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort_by_key(|path| {
        path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok())
    });
    files
}

/// Names and contents of a directory.
pub(crate) fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files(dir).into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

/// Changes the bytes of a file.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("a file");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("it can be written");
}

/// Waits until it holds, or fails with what it says.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} does not come true");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs something that must not hang.
pub(crate) fn in_time<T: Send + 'static>(
    what: &str,
    limit: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || drop(sender.send(run())));
    match receiver.recv_timeout(limit) {
        Ok(result) => {
            thread.join().expect("it has sent its result");
            result
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs: not done after {limit:?}"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

/// How many times as long as usual: more behind `NYALA_LONG=1`.
pub(crate) fn effort() -> u32 {
    if std::env::var_os("NYALA_LONG").is_some() { 10 } else { 1 }
}
