//! The largest keys and values, and disks that fail under the writer.

use codec::hash_key;
use vfs::SimFs;
use vfs::sim::{Fault, OpKind, OpSet};

use super::*;
use crate::block::keyed::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::{Direction, Error};

#[test]
fn keys_of_64_kib() {
    let keys: Vec<Vec<u8>> = (0u8..40)
        .map(|i| {
            let mut key = vec![0xff; KEY_BYTES_MAX - usize::from(i % 2)];
            let at = key.len() - 2;
            key[at] = i;
            key
        })
        .collect();
    let mut keys = keys;
    keys.sort();
    for block_bytes in [128, 1 << 20] {
        let options = WriterOptions { block_bytes, ..WriterOptions::default() };
        let fs = SimFs::new(1);
        write_keyed(&fs, &path(), &options, keys.iter().map(|key| (key.as_slice(), &b"v"[..])));
        let reader = open_keyed(&fs, &path()).expect("open");
        assert_eq!(reader.verify().expect("sound file").entries, 40);
        let mut iter = reader.iter();
        iter.seek_to_last().expect("sound file");
        for key in keys.iter().rev() {
            assert_eq!(iter.key(), key.as_slice());
            iter.prev().expect("sound file");
            assert!(reader.get(key, hash_key(key)).expect("sound file").is_some());
        }
    }
}

#[test]
fn one_byte_above_a_limit_is_refused_and_the_next_call_works() {
    let fs = SimFs::new(1);
    let mut writer = KeyedWriter::create(&fs, &path(), ID, &tiny()).expect("create");
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    assert!(matches!(writer.add(&long, None, b""), Err(Error::TooLarge { .. })));
    assert!(matches!(writer.add(b"k", None, &vec![0; VALUE_BYTES_MAX + 1]), Err(Error::TooLarge { .. })));
    assert_eq!((writer.entries(), writer.last_key()), (0, None));
    writer.add(&long[1..], None, b"fits").expect("add");
    writer.finish(b"").expect("finish");
    assert_eq!(open_keyed(&fs, &path()).expect("open").verify().expect("sound file").entries, 1);
}

#[test]
fn a_row_of_64_mib_among_small_ones() {
    let large = vec![3u8; 64 << 20];
    for compression in [Compression::Lz4, Compression::None] {
        let fs = SimFs::new(1);
        let options = WriterOptions { compression, ..WriterOptions::default() };
        let rows: [&[u8]; 5] = [b"a", b"", &large, b"b", b""];
        write_ordinal(&fs, &path(), &options, rows);
        let reader = open_ordinal(&fs, &path()).expect("open");
        let mut cursor = reader.cursor(Direction::Forward);
        for (ordinal, row) in rows.iter().enumerate() {
            assert!(reader.get(ordinal as u32).expect("sound file").bytes() == *row);
            assert!(cursor.get(ordinal as u32).expect("sound file") == *row);
        }
        // It does not fit the cache, and drives nothing out.
        let stats = reader.input().cache().stats();
        assert!(stats.bytes_used > 0 && stats.bytes_used <= 1 << 20, "{stats:?}");
        assert_eq!(reader.verify().expect("sound file").entries, 5);
    }
}

#[test]
fn any_failure_of_the_disk_fails_the_writer_for_good() {
    let rows: Vec<Vec<u8>> =
        (0..40u32).map(|i| [i.to_le_bytes().to_vec(), vec![1; 30 << 10]].concat()).collect();
    let options = WriterOptions { compression: Compression::None, writeback_bytes: 300 << 10, ..tiny() };
    let write = |fs: &SimFs| -> crate::Result<FileInfo> {
        let mut writer = OrdinalWriter::create(fs, &path(), ID, &options)?;
        let mut first: Option<Error> = None;
        for row in &rows {
            let pushed = writer.push(&[row]).map(|_| ());
            match (&first, pushed) {
                (Some(first), Ok(())) => panic!("a push after a failure: {first}"),
                (None, Err(error)) => first = Some(error),
                _ => {}
            }
        }
        let finished = writer.finish(b"");
        assert!(first.is_none() || finished.is_err());
        finished
    };
    let fs = SimFs::new(1);
    write(&fs).expect("no fault, no failure");
    let kinds = fs.log();
    assert!(kinds.iter().filter(|kind| **kind == OpKind::Write).count() > 3);
    assert!(kinds.contains(&OpKind::StartWriteback) && kinds.contains(&OpKind::Sync));
    assert!(!kinds.contains(&OpKind::SyncDir), "the directory is the caller's");
    for n in 0..kinds.len() as u64 {
        let fs = SimFs::new(1);
        fs.fail_at(n, Fault::eio());
        let error = write(&fs).expect_err("a failure that nobody saw");
        assert!(error.io().is_some(), "{error}");
    }
    let fs = SimFs::new(1);
    fs.fail_at(3, Fault::enospc().on(OpSet::of(OpKind::Write)));
    let error = write(&fs).expect_err("a full disk");
    assert_eq!(error.io().map(std::io::Error::kind), Some(std::io::ErrorKind::StorageFull));
}

#[test]
fn an_abandoned_file_is_no_sstable() {
    let fs = SimFs::new(1);
    let raw = WriterOptions { compression: Compression::None, ..tiny() };
    let mut writer = KeyedWriter::create(&fs, &path(), ID, &raw).expect("create");
    for i in 0..1000u32 {
        writer.add(&i.to_be_bytes(), Some(hash_key(&i.to_be_bytes())), &[0; 1000]).expect("add");
    }
    assert!(writer.written_bytes() > 1000 * 1000);
    writer.abandon();
    assert!(open_keyed(&fs, &path()).is_err_and(|error| error.is_corruption()));
    assert!(KeyedWriter::create(&fs, &path(), ID, &tiny()).is_err(), "a file is never written over");
}
