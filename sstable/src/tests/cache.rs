//! The cache: its bounds, and what it keeps first.

use codec::hash_key;
use vfs::SimFs;
use vfs::sim::OpKind;

use super::*;

const ROWS: u32 = 20_000;

fn disk() -> SimFs {
    let fs = SimFs::new(1);
    let options = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
    let keys: Vec<[u8; 4]> = (0..ROWS).map(u32::to_be_bytes).collect();
    write_keyed(&fs, &path(), &options, keys.iter().map(|key| (&key[..], &[7; 14][..])));
    let mut writer =
        OrdinalWriter::create(&fs, "/8.sst".as_ref(), codec::FileId(8), &options).expect("create");
    for i in 0..ROWS {
        writer.push(&[&i.to_be_bytes(), &[1; 196]]).expect("push");
    }
    writer.finish(b"").expect("finish");
    fs
}

fn reads(fs: &SimFs) -> usize {
    fs.log().iter().filter(|kind| **kind == OpKind::Read).count()
}

#[test]
fn a_scan_of_rows_larger_than_the_cache_leaves_the_index_in_it() {
    let fs = disk();
    let cache = Cache::new(1 << 20);
    let keyed = KeyedReader::open(&fs, &path(), ID, Arc::clone(&cache), None).expect("open");
    let rows = OrdinalReader::open(&fs, "/8.sst".as_ref(), codec::FileId(8), Arc::clone(&cache), None);
    let rows = rows.expect("open");
    assert!(keyed.file_len() < 600 << 10 && rows.file_len() > 3 << 20);
    let read_index = || {
        for i in (0..ROWS).step_by(100) {
            let key = i.to_be_bytes();
            assert!(keyed.get(&key, hash_key(&key)).expect("sound file").is_some());
        }
    };
    read_index();
    let before = reads(&fs);
    read_index();
    assert_eq!(reads(&fs), before, "all of the index is cached");
    for i in 0..ROWS {
        assert_eq!(rows.get(i).expect("sound file").bytes()[..4], i.to_be_bytes());
        assert!(cache.stats().bytes_used <= 1 << 20, "{:?}", cache.stats());
    }
    let before = reads(&fs);
    read_index();
    assert_eq!(reads(&fs), before, "and stays there");
    let stats = cache.stats();
    assert!(stats.bytes_used > 900 << 10, "rows have what the index leaves: {stats:?}");
    assert!(stats.hits > 0 && stats.misses > 0);
}

#[test]
fn an_index_larger_than_the_cache_leaves_rows_a_part() {
    let fs = disk();
    let cache = Cache::new(256 << 10);
    let keyed = KeyedReader::open(&fs, &path(), ID, Arc::clone(&cache), None).expect("open");
    let rows = OrdinalReader::open(&fs, "/8.sst".as_ref(), codec::FileId(8), Arc::clone(&cache), None);
    let rows = rows.expect("open");
    let mut iter = keyed.iter();
    for _ in 0..2 {
        iter.seek_to_first().expect("sound file");
        while iter.valid() {
            iter.next().expect("sound file");
            assert!(cache.stats().bytes_used <= 256 << 10);
        }
        for i in 0..ROWS {
            rows.get(i).expect("sound file");
            assert!(cache.stats().bytes_used <= 256 << 10);
        }
    }
    let stats = cache.stats();
    assert!(stats.index_bytes_used > 128 << 10 && stats.bytes_used > stats.index_bytes_used, "{stats:?}");
}

#[test]
fn a_forgotten_file_takes_no_memory() {
    let fs = disk();
    let cache = Cache::new(8 << 20);
    let keyed = KeyedReader::open(&fs, &path(), ID, Arc::clone(&cache), None).expect("open");
    keyed.iter().seek_to_last().expect("sound file");
    assert!(keyed.get(&[0; 4], hash_key(&[0; 4])).expect("sound file").is_some());
    let used = cache.stats().bytes_used;
    cache.forget(codec::FileId(8));
    assert_eq!(cache.stats().bytes_used, used);
    cache.forget(ID);
    let stats = cache.stats();
    assert!(stats.pinned_bytes > 0 && stats.bytes_used == stats.pinned_bytes, "{stats:?}");
    assert!(keyed.get(&[0; 4], hash_key(&[0; 4])).expect("it is read anew").is_some());
    cache.forget(ID);
    drop(keyed);
    assert_eq!(cache.stats().bytes_used, 0, "what a file pins goes with its reader");
}

#[test]
fn files_pin_at_most_half_and_the_rest_goes_through_the_cache() {
    let fs = disk();
    let cache = Cache::new(32 << 10);
    let keyed = KeyedReader::open(&fs, &path(), ID, Arc::clone(&cache), None).expect("open");
    for _ in 0..2 {
        for i in 0..ROWS {
            let key = i.to_be_bytes();
            assert!(keyed.get(&key, hash_key(&key)).expect("sound file").is_some());
            let stats = cache.stats();
            assert!(stats.pinned_bytes <= 16 << 10 && stats.bytes_used <= 32 << 10, "{stats:?}");
        }
    }
    let pinned = cache.stats().pinned_bytes;
    assert!(pinned > 0);
    cache.set_bytes_max(8 << 10);
    assert_eq!(cache.stats().pinned_bytes, pinned, "what is pinned stays, whatever the total");
    drop(keyed);
    assert_eq!(cache.stats().pinned_bytes, 0);
}

#[test]
fn the_total_may_change_at_any_time() {
    let fs = disk();
    let cache = Cache::new(256 << 10);
    let rows = OrdinalReader::open(&fs, "/8.sst".as_ref(), codec::FileId(8), Arc::clone(&cache), None);
    let rows = rows.expect("open");
    let read_all =
        || (0..ROWS).for_each(|i| assert_eq!(rows.get(i).expect("sound").bytes()[..4], i.to_be_bytes()));
    for total in [256u64 << 10, 6 << 20, 64 << 10, 1 << 20] {
        cache.set_bytes_max(total as usize);
        assert!(cache.stats().bytes_used <= total, "what is too much goes at once");
        read_all();
        let stats = cache.stats();
        assert!(stats.bytes_used <= total && stats.bytes_max == total, "{stats:?}");
        assert!(stats.bytes_used > total / 8 * 5, "what there is, is used: {stats:?}");
    }
}

#[test]
fn a_full_cache_keeps_what_is_asked_for_again() {
    let fs = disk();
    let cache = Cache::new(512 << 10);
    let rows = OrdinalReader::open(&fs, "/8.sst".as_ref(), codec::FileId(8), Arc::clone(&cache), None);
    let rows = rows.expect("open");
    // Each of these is in a block of its own.
    let one_a_block = || (0..ROWS).step_by(40);
    one_a_block().for_each(|i| drop(rows.get(i).expect("sound")));
    let last = one_a_block().next_back().expect("there are some");
    for round in 0..4 {
        let before = reads(&fs);
        drop(rows.get(last).expect("sound"));
        let is_read = reads(&fs) > before;
        assert_eq!(
            is_read,
            round == 0,
            "its block was asked for once, when the cache was full: round {round}"
        );
    }
}

#[test]
fn a_block_that_many_ask_for_is_read_once() {
    let fs = disk();
    let keyed = KeyedReader::open(&fs, &path(), ID, Cache::new(8 << 20), None).expect("open");
    let before = reads(&fs);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut iter = keyed.iter();
                iter.seek_to_first().expect("sound file");
                let mut count = 0;
                while iter.valid() {
                    count += 1;
                    iter.next().expect("sound file");
                }
                assert_eq!(count, ROWS);
            });
        }
    });
    let count = reads(&fs) - before;
    let blocks = keyed.verify().expect("sound file").blocks as usize;
    assert_eq!(count, blocks + keyed.root().partitions().len());
}

/// Whoever keeps a reader in a variable of a thread may read with it when the thread ends, after ours are gone.
#[test]
fn a_thread_that_ends_may_still_read() {
    struct AtTheEnd(Arc<KeyedReader>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            for i in (0..ROWS).step_by(100) {
                let key = i.to_be_bytes();
                assert!(self.0.get(&key, hash_key(&key)).expect("sound file").is_some());
            }
        }
    }
    thread_local! {
        static KEPT: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) };
    }
    let fs = disk();
    let keyed = KeyedReader::open(&fs, &path(), ID, Cache::new(0), None).expect("open");
    let reading = std::thread::spawn(move || {
        KEPT.set(Some(AtTheEnd(Arc::clone(&keyed))));
        assert!(keyed.get(&[0; 4], hash_key(&[0; 4])).expect("sound file").is_some());
    });
    reading.join().expect("it reads to its end");
}
