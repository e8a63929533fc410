//! The cache of blocks: its two pools stay within their total, whoever loads and forgets at a time.
//!
//! What is below it, the pools with a lock for each shard and one load for all who ask for a block, is another
//! library's, and no model sees it: here nobody asks for a block that another one loads. `tests/stress` does that, with
//! real threads.

use std::path::Path;
use std::sync::Arc;

use codec::{FileId, hash_key};
use sstable::{Cache, KeyedReader, KeyedWriter, OrdinalReader, OrdinalWriter, WriterOptions};
use vfs::SimFs;

use super::disk::Disk;
use super::runner::check;
use super::world::{join, spawn};

const ENTRIES: u32 = 120;
const CACHE_BYTES: usize = 24 << 10;

fn path(id: FileId) -> String {
    format!("/{id}.sst")
}

/// A keyed file, and two of rows.
fn files() -> SimFs {
    let fs = SimFs::new(1);
    let options = WriterOptions {
        block_bytes: 512,
        compression: sstable::Compression::None,
        ..WriterOptions::default()
    };
    let id = FileId(1);
    let mut keyed = KeyedWriter::create(&fs, Path::new(&path(id)), id, &options).expect("no fault");
    for entry in 0..ENTRIES {
        keyed.add(&entry.to_be_bytes(), None, &[7; 100]).expect("in order");
    }
    keyed.finish(b"").expect("no fault");
    for id in [FileId(2), FileId(3)] {
        let mut rows = OrdinalWriter::create(&fs, Path::new(&path(id)), id, &options).expect("no fault");
        for entry in 0..ENTRIES {
            rows.push(&[&entry.to_be_bytes(), &[7; 100]]).expect("it fits");
        }
        rows.finish(b"").expect("no fault");
    }
    fs
}

#[test]
fn both_pools_stay_within_their_total_while_blocks_are_loaded_and_forgotten() {
    let fs = files();
    check(move || {
        let disk = Disk::on(fs.clone()).with_choices_at_reads();
        let cache = Cache::new(CACHE_BYTES);
        let id = FileId(1);
        let keyed =
            KeyedReader::open(&disk, Path::new(&path(id)), id, Arc::clone(&cache), None).expect("sound");
        let index = spawn(move || {
            for entry in (0..ENTRIES).step_by(2) {
                let key = entry.to_be_bytes();
                let found = keyed.get(&key, hash_key(&key)).expect("sound").expect("it is there");
                assert_eq!(found.bytes(), [7; 100]);
            }
        });
        let readers = [FileId(2), FileId(3)].map(|id| {
            let cache = Arc::clone(&cache);
            let rows = OrdinalReader::open(&disk, Path::new(&path(id)), id, Arc::clone(&cache), None)
                .expect("sound");
            spawn(move || {
                for entry in (0..ENTRIES).step_by(3) {
                    assert_eq!(rows.get(entry).expect("sound").bytes()[..4], entry.to_be_bytes());
                    if id == FileId(3) && entry % 30 == 0 {
                        cache.forget(id);
                    }
                }
            })
        });
        join(index);
        readers.into_iter().for_each(join);
        let stats = cache.stats();
        assert!(stats.bytes_used <= CACHE_BYTES as u64 && stats.index_bytes_used > 0, "{stats:?}");
        assert!(stats.bytes_used > stats.index_bytes_used, "rows are never left without: {stats:?}");
        (1..=3).for_each(|id| cache.forget(FileId(id)));
        assert_eq!(cache.stats().bytes_used, 0);
    });
}
