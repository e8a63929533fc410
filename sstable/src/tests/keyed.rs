//! A keyed file against an ordered map.

use std::collections::BTreeMap;
use std::ops::Bound;

use codec::hash_key;
use proptest::prelude::*;
use vfs::SimFs;

use super::*;
use crate::{BlockEntries, Caching, KeyedIter};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of few letters and uneven lengths, so that they share prefixes and one is often the start of another.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![4 => Just(0u8), 4 => Just(1), 2 => Just(b'k'), 2 => Just(0xfe), 4 => Just(0xff)];
    prop_oneof![
        4 => proptest::collection::vec(letter, 0..8),
        2 => (any::<u16>(), any::<u8>()).prop_map(|(host, time)| format!("host{host:05}/{time}").into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 12),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => proptest::collection::vec(any::<u8>(), 0..700),
    ]
}

fn options() -> impl Strategy<Value = WriterOptions> {
    (0usize..300, 0usize..400, 0usize..20, any::<bool>()).prop_map(
        |(block_bytes, index_block_bytes, restart_interval, filter)| WriterOptions {
            block_bytes,
            index_block_bytes,
            restart_interval,
            filter,
            ..tiny()
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next(usize),
    Prev(usize),
    Readahead(usize, Caching),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::First),
        1 => Just(Step::Last),
        3 => key().prop_map(Step::Seek),
        3 => key().prop_map(Step::SeekForPrev),
        4 => (1usize..60).prop_map(Step::Next),
        4 => (1usize..60).prop_map(Step::Prev),
        1 => (0usize..4000).prop_map(|bytes| Step::Readahead(bytes, Caching::Fill)),
        1 => (0usize..4000).prop_map(|bytes| Step::Readahead(bytes, Caching::Leave)),
    ]
}

fn write(fs: &SimFs, options: &WriterOptions, model: &Model) -> FileInfo {
    write_keyed(fs, &path(), options, model.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))
}

/// Takes a step with the iterator and with a key of the model, and compares after each move.
fn take(step: &Step, iter: &mut KeyedIter, at: &mut Option<Vec<u8>>, model: &Model) {
    let above = |key: &[u8]| model.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).next();
    let below = |key: &[u8]| model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).next_back();
    let name = |entry: Option<(&Vec<u8>, &Vec<u8>)>| entry.map(|(key, _)| key.clone());
    let compare = |iter: &KeyedIter, at: &Option<Vec<u8>>| {
        assert_eq!(iter.valid(), at.is_some(), "{step:?}");
        if let Some(key) = at {
            assert_eq!((iter.key(), iter.value()), (key.as_slice(), model[key].as_slice()), "{step:?}");
        }
    };
    match step {
        Step::First => {
            iter.seek_to_first().expect("sound file");
            *at = name(model.first_key_value());
        }
        Step::Last => {
            iter.seek_to_last().expect("sound file");
            *at = name(model.last_key_value());
        }
        Step::Seek(key) => {
            iter.seek(key).expect("sound file");
            *at = name(model.range::<[u8], _>((Bound::Included(key.as_slice()), Bound::Unbounded)).next());
        }
        Step::SeekForPrev(key) => {
            iter.seek_for_prev(key).expect("sound file");
            *at =
                name(model.range::<[u8], _>((Bound::Unbounded, Bound::Included(key.as_slice()))).next_back());
        }
        Step::Next(count) => {
            for _ in 0..*count {
                iter.next().expect("sound file");
                *at = at.as_deref().and_then(|key| name(above(key)));
                compare(iter, at);
            }
        }
        Step::Prev(count) => {
            for _ in 0..*count {
                iter.prev().expect("sound file");
                *at = at.as_deref().and_then(|key| name(below(key)));
                compare(iter, at);
            }
        }
        Step::Readahead(bytes, caching) => {
            iter.set_readahead(*bytes);
            iter.set_caching(*caching);
        }
    }
    compare(iter, at);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reads_like_an_ordered_map(
        model in proptest::collection::btree_map(key(), value(), 0..200),
        options in options(),
        steps in proptest::collection::vec(step(), 1..30),
        others in proptest::collection::vec(key(), 0..50),
        cache_bytes in prop_oneof![Just(0usize), Just(4 << 10), Just(1 << 20)],
    ) {
        let fs = SimFs::new(1);
        let info = write(&fs, &options, &model);
        let expect = Some((info.len, info.footer_checksum));
        let cache = Cache::new(cache_bytes);
        let reader = KeyedReader::open(&fs, &path(), ID, Arc::clone(&cache), expect).expect("open");
        prop_assert_eq!(reader.info(), info);
        prop_assert_eq!(reader.entries(), model.len() as u64);
        prop_assert_eq!(reader.user_properties(), b"user");
        prop_assert_eq!(reader.first_key(), model.keys().next().map_or(&[][..], |key| key));
        prop_assert_eq!(reader.last_key(), model.keys().next_back().map_or(&[][..], |key| key));
        for (key, value) in &model {
            let found = reader.get(key, hash_key(key)).expect("sound file").expect("it was added");
            prop_assert_eq!(found.bytes(), value.as_slice());
        }
        for key in &others {
            let found = reader.get(key, hash_key(key)).expect("sound file");
            prop_assert_eq!(found.as_ref().map(|slice| slice.bytes()), model.get(key).map(Vec::as_slice));
        }
        let (mut iter, mut at) = (reader.iter(), None);
        for step in &steps {
            take(step, &mut iter, &mut at, &model);
        }
        let (mut iter, mut entries) = (reader.iter(), BlockEntries::default());
        for start in std::iter::once(&vec![]).chain(&others).take(5) {
            let mut expected = model.range::<Vec<u8>, _>(start..);
            iter.seek(start).expect("sound file");
            while iter.valid() {
                iter.take_block(&mut entries).expect("sound file");
                prop_assert!(!entries.is_empty());
                for index in 0..entries.len() {
                    let found = entries.key(index).zip(entries.value(index));
                    prop_assert_eq!(found, expected.next().map(|(key, value)| (&key[..], &value[..])));
                }
                prop_assert_eq!(entries.key(entries.len() - 1), Some(iter.key()));
                prop_assert_eq!(entries.key(entries.len()), None);
                entries.clear();
                iter.next().expect("sound file");
            }
            prop_assert!(expected.next().is_none());
        }
        iter.take_block(&mut entries).expect("nowhere");
        prop_assert!(entries.is_empty());
        let report = reader.verify().expect("sound file");
        prop_assert_eq!((report.entries, report.bytes), (model.len() as u64, reader.file_len()));
        prop_assert_eq!(report.filtered, if options.filter { report.entries } else { 0 });
        prop_assert!(cache.stats().bytes_used <= cache_bytes as u64);
    }

    #[test]
    fn boundaries_lie_between_the_blocks(
        model in proptest::collection::btree_map(key(), value(), 1..200),
        options in options(),
    ) {
        let fs = SimFs::new(1);
        write(&fs, &options, &model);
        let reader = open_keyed(&fs, &path()).expect("open");
        let boundaries = reader.block_boundaries().expect("sound file");
        prop_assert_eq!(boundaries.len() as u64, reader.verify().expect("sound file").blocks);
        prop_assert!(boundaries.is_sorted_by(|a, b| a.0 < b.0));
        prop_assert_eq!(boundaries[boundaries.len() - 1].0.as_slice(), reader.last_key());
        let mut start = Bound::Unbounded;
        for (boundary, bytes) in &boundaries {
            prop_assert!(model.range::<[u8], _>((start, Bound::Included(boundary.as_slice()))).next().is_some());
            prop_assert!(*bytes > 0 && *bytes < reader.file_len());
            start = Bound::Excluded(boundary.as_slice());
        }
    }
}

#[test]
fn long_keys_of_one_block_are_taken_a_few_at_a_time() {
    let key = |i: u32| [vec![b'k'; 3000], i.to_be_bytes().to_vec()].concat();
    let keys: Vec<Vec<u8>> = (0..500).map(key).collect();
    let fs = SimFs::new(1);
    let options = WriterOptions { block_bytes: 1 << 20, restart_interval: 128, ..WriterOptions::default() };
    write_keyed(&fs, &path(), &options, keys.iter().map(|key| (&key[..], &key[2998..])));
    let reader = open_keyed(&fs, &path()).expect("open");
    assert_eq!(reader.verify().expect("sound file").blocks, 1);
    let (mut iter, mut entries, mut at) = (reader.iter(), BlockEntries::default(), 0);
    iter.seek_to_first().expect("sound file");
    while iter.valid() {
        iter.take_block(&mut entries).expect("sound file");
        assert!((1..30).contains(&entries.len()), "{} keys of 3000 bytes", entries.len());
        for index in 0..entries.len() {
            assert_eq!(entries.key(index), Some(&keys[at][..]));
            assert_eq!(entries.value(index), Some(&keys[at][2998..]));
            at += 1;
        }
        iter.next().expect("sound file");
    }
    assert_eq!(at, keys.len());
    iter.seek_to_first().expect("sound file");
    iter.take_block(&mut entries).expect("sound file");
    entries.cut(|key| key > &keys[4][..]);
    assert_eq!(entries.len(), 5);
}

#[test]
fn many_partitions_with_default_blocks() {
    let entries: Vec<(Vec<u8>, [u8; 14])> =
        (0u64..200_000).map(|i| ((i * 7).to_be_bytes().to_vec(), [i as u8; 14])).collect();
    let fs = SimFs::new(1);
    let info = write_keyed(
        &fs,
        &path(),
        &WriterOptions::default(),
        entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())),
    );
    let reader = open_keyed(&fs, &path()).expect("open");
    assert!(reader.root().partitions().len() > 2);
    assert!(info.len < 200_000 * 20, "{} bytes an entry", info.len / 200_000);
    let report = reader.verify().expect("sound file");
    assert_eq!((report.entries, report.filtered), (200_000, 200_000));
    let mut iter = reader.iter();
    iter.set_readahead(256 << 10);
    iter.seek_to_last().expect("sound file");
    for (key, value) in entries.iter().rev() {
        assert_eq!((iter.key(), iter.value()), (key.as_slice(), value.as_slice()));
        iter.prev().expect("sound file");
    }
    assert!(!iter.valid());
    let wrong = (0u64..10_000).filter(|i| i % 7 != 0).filter(|i| {
        let key = i.to_be_bytes();
        reader.get(&key, hash_key(&key)).expect("sound file").is_some()
    });
    assert_eq!(wrong.count(), 0);
}

#[test]
fn empty_file_empty_key_empty_value() {
    let fs = SimFs::new(1);
    let info = write_keyed(&fs, &path(), &tiny(), []);
    assert_eq!((info.entries, info.first_key, info.last_key), (0, vec![], vec![]));
    let reader = open_keyed(&fs, &path()).expect("open");
    assert!(reader.get(b"", hash_key(b"")).expect("sound file").is_none());
    assert!(reader.block_boundaries().expect("sound file").is_empty());
    let mut iter = reader.iter();
    for seek in [KeyedIter::seek_to_first, KeyedIter::seek_to_last] {
        seek(&mut iter).expect("sound file");
        assert!(!iter.valid());
    }
    iter.seek_for_prev(b"x").expect("sound file");
    assert!(!iter.valid());
    assert_eq!(reader.verify().expect("sound file").entries, 0);

    let fs = SimFs::new(1);
    write_keyed(&fs, &path(), &tiny(), [(&b""[..], &b""[..])]);
    let reader = open_keyed(&fs, &path()).expect("open");
    assert_eq!(reader.get(b"", hash_key(b"")).expect("sound file").expect("it was added").bytes(), b"");
    assert!(reader.get(b"\0", hash_key(b"\0")).expect("sound file").is_none());
    let mut iter = reader.iter();
    iter.seek_for_prev(b"\xff\xff").expect("sound file");
    assert_eq!((iter.key(), iter.value()), (&b""[..], &b""[..]));
    assert_eq!(reader.verify().expect("sound file").entries, 1);
}

#[test]
fn off_the_end_is_the_end_again() {
    let fs = SimFs::new(1);
    write_keyed(&fs, &path(), &tiny(), [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    let mut iter = open_keyed(&fs, &path()).expect("open").iter();
    assert!(!iter.valid());
    iter.next().expect("a step from nowhere");
    iter.seek(b"b").expect("sound file");
    for _ in 0..3 {
        iter.next().expect("sound file");
        assert!(!iter.valid());
    }
    iter.seek_for_prev(b"a").expect("sound file");
    for _ in 0..3 {
        iter.prev().expect("sound file");
        assert!(!iter.valid());
    }
}

#[test]
#[should_panic(expected = "ascending order")]
fn keys_out_of_order_are_our_bug() {
    let mut writer = KeyedWriter::create(&SimFs::new(1), &path(), ID, &tiny()).expect("create");
    writer.add(b"b", None, b"").expect("add");
    let _ = writer.add(b"b", None, b"");
}

#[test]
fn reverse_through_the_longest_intervals() {
    // An interval that is asked for is cut to what a step back may decode.
    let options = WriterOptions {
        block_bytes: 1 << 20,
        restart_interval: 1000,
        filter: false,
        ..WriterOptions::default()
    };
    let keys: Vec<Vec<u8>> =
        (0u32..20_000).map(|i| [vec![b'k'; 200], i.to_be_bytes().to_vec()].concat()).collect();
    let fs = SimFs::new(1);
    write_keyed(&fs, &path(), &options, keys.iter().map(|key| (key.as_slice(), &b"v"[..])));
    let mut iter = open_keyed(&fs, &path()).expect("open").iter();
    iter.seek_to_last().expect("sound file");
    for key in keys.iter().rev() {
        assert_eq!(iter.key(), key.as_slice());
        iter.prev().expect("sound file");
    }
    assert!(!iter.valid());
}
