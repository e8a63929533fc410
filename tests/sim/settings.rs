//! Options so small that a few writes exercise every structure, and that an engine opens in no time.

use std::sync::{Arc, LazyLock};

use nyala::vfs::SimFs;
use nyala::{Options, RuntimeMode};

/// Opens are most of the work: no more memory than must be.
pub(crate) fn roomy() -> Options {
    // The defaults ask the system for its processors, which takes longer than the rest.
    static DEFAULT: LazyLock<Options> = LazyLock::new(Options::default);
    Options {
        memory_bytes: 256 << 10,
        memtable_bytes: Some(64 << 10),
        log_bytes_max: 256 << 10,
        log_segment_bytes: 16 << 10,
        index_block_bytes: 128,
        row_block_bytes: 128,
        index_file_bytes: 4 << 10,
        rowset_bytes: 4 << 10,
        background_threads: 1,
        ..DEFAULT.clone()
    }
}

/// A memtable is sealed after a batch or two, files are cut after some rows, and the log has many segments.
pub(crate) fn tiny() -> Options {
    Options {
        memtable_bytes: Some(4 << 10),
        log_bytes_max: 32 << 10,
        log_segment_bytes: 4 << 10,
        index_file_bytes: 1 << 10,
        rowset_bytes: 1 << 10,
        ..roomy()
    }
}

/// A memtable is sealed after every batch, and the log is bounded by two segments.
pub(crate) fn each_batch() -> Options {
    Options { memtable_bytes: Some(1 << 10), log_bytes_max: 8 << 10, ..tiny() }
}

/// These options on a disk, with background work in the order of a seed.
pub(crate) fn on(options: &Options, disk: &SimFs, seed: u64) -> Options {
    Options { fs: Arc::new(disk.clone()), runtime: RuntimeMode::Inline { seed }, ..options.clone() }
}
