//! The option sets: thresholds so small that a few hundred writes exercise every structure, and larger ones.

use std::time::Duration;

use nyala::{Durability, Options, RuntimeMode};

/// Which disk an engine runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `vfs::SimFs`, which can lose power.
    Simulated,
    /// A temporary directory.
    Real,
}

/// An option set, and how many steps it runs by default.
pub(crate) struct Setting {
    /// The name of its test.
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) steps: usize,
    pub(crate) options: Options,
}

impl Setting {
    /// Whether background work is done by the callers: then a run is the same every time, and waits for nothing.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.options.runtime, RuntimeMode::Inline { .. })
    }
}

/// Thresholds of some hundred bytes: a memtable takes a few kilobytes of rows, since its first chunks do, and a flush
/// makes several blocks and files.
fn tiny() -> Options {
    Options {
        memory_bytes: 256 << 10,
        memtable_bytes: Some(8 << 10),
        log_bytes_max: 32 << 10,
        log_segment_bytes: 4 << 10,
        index_block_bytes: 128,
        row_block_bytes: 128,
        index_file_bytes: 1 << 10,
        rowset_bytes: 1 << 10,
        background_threads: 1,
        ..Options::default()
    }
}

/// A memtable is sealed after every batch.
fn each_batch() -> Options {
    Options { memtable_bytes: Some(1 << 10), ..tiny() }
}

/// A few times larger: several memtables' worth of rows a file.
fn small() -> Options {
    Options {
        memtable_bytes: Some(24 << 10),
        log_bytes_max: 128 << 10,
        log_segment_bytes: 16 << 10,
        index_block_bytes: 256,
        row_block_bytes: 256,
        index_file_bytes: 4 << 10,
        rowset_bytes: 4 << 10,
        ..tiny()
    }
}

/// Most of the data stays in memory and in the log.
fn roomy() -> Options {
    Options {
        memory_bytes: 4 << 20,
        memtable_bytes: Some(256 << 10),
        log_bytes_max: 1 << 20,
        log_segment_bytes: 64 << 10,
        index_block_bytes: 4 << 10,
        row_block_bytes: 4 << 10,
        index_file_bytes: 1 << 20,
        rowset_bytes: 1 << 20,
        ..tiny()
    }
}

fn inline(options: Options) -> Options {
    Options { runtime: RuntimeMode::Inline { seed: 0 }, ..options }
}

pub(crate) fn inline_each_batch() -> Setting {
    Setting { name: "inline_each_batch", place: Place::Simulated, steps: 2000, options: inline(each_batch()) }
}

pub(crate) fn inline_tiny() -> Setting {
    Setting { name: "inline_tiny", place: Place::Simulated, steps: 3000, options: inline(tiny()) }
}

pub(crate) fn inline_small_sync() -> Setting {
    let options = Options { default_durability: Durability::Sync, ..inline(small()) };
    Setting { name: "inline_small_sync", place: Place::Simulated, steps: 3000, options }
}

pub(crate) fn inline_roomy() -> Setting {
    Setting { name: "inline_roomy", place: Place::Simulated, steps: 3000, options: inline(roomy()) }
}

pub(crate) fn threads_tiny() -> Setting {
    let options = Options { background_sync_interval: Some(Duration::from_millis(1)), ..tiny() };
    Setting { name: "threads_tiny", place: Place::Simulated, steps: 3000, options }
}

pub(crate) fn threads_small() -> Setting {
    let options = Options { background_sync_interval: None, ..small() };
    Setting { name: "threads_small", place: Place::Simulated, steps: 3000, options }
}

pub(crate) fn threads_tiny_on_disk() -> Setting {
    Setting { name: "threads_tiny_on_disk", place: Place::Real, steps: 1500, options: tiny() }
}
