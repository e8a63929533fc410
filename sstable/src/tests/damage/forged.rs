//! Files that no writer wrote, under checksums that are right.

use codec::hash_key;
use vfs::SimFs;

use super::{bytes_of, entries, write_entries};
use crate::block::{Handle, Shape, TRAILER_BYTES};
use crate::compress::TAG_RAW;
use crate::header::{FileKind, HEADER_BYTES};
use crate::index::keyed::KeyedIndexBuilder;
use crate::index::root::Root;
use crate::output::Output;
use crate::properties::Properties;
use crate::tests::*;
use crate::{Caching, Direction, Error};

/// A file whose checksums hold, with these bytes for its blocks.
fn forge(kind: FileKind, blocks: &[(Shape, Vec<u8>)], root: &[u8], properties: &[u8]) -> SimFs {
    let fs = SimFs::new(1);
    let mut output = Output::create(&fs, &path(), ID, kind, &tiny(), Vec::new()).expect("create");
    for (shape, payload) in blocks {
        output.block(*shape, TAG_RAW, payload).expect("block");
    }
    output.finish_raw(root, properties).expect("finish");
    fs
}

#[test]
fn a_small_file_that_claims_gigabytes_takes_no_memory() {
    // Handles that point beyond the file, in the root: one partition of 4 GiB at byte 28.
    let mut root = vec![1, 28];
    codec::put_varint(&mut root, u64::from(u32::MAX));
    root.extend_from_slice(&[0, 0, 1, 1, 1, b'k']);
    let fs = forge(FileKind::Keyed, &[], &root, &[1, 1, 1, 1, b'k', 1, b'k', 0]);
    assert!(bytes_of(&fs, &path()).len() < 150);
    let reader = open_keyed(&fs, &path()).expect("the handle is not followed yet");
    for result in [reader.get(b"k", hash_key(b"k")).map(|_| ()), reader.iter().seek_to_first()] {
        let error = result.expect_err("beyond the file");
        assert!(matches!(error, Error::Mismatch { what: "greatest length of a block", .. }), "{error}");
    }
    assert!(reader.verify().is_err_and(|error| error.is_corruption()));

    // Counts that would be reserved.
    for root in [vec![0xff, 0xff, 0xff, 0xff, 0x0f], vec![2, 28, 9, 0, 0, 1, 1, 0]] {
        let fs = forge(FileKind::Keyed, &[], &root, &[0, 0, 1, 0, 0, 0]);
        assert!(open_keyed(&fs, &path()).is_err_and(|error| error.is_corruption()));
    }
    // A footer that claims.
    let fs = SimFs::new(1);
    write_entries(&fs, &path(), &entries(3));
    for at in [8, 12] {
        fs.damage(&path(), |bytes| {
            let start = bytes.len() - 64;
            bytes[start + at..start + at + 4].fill(0xff);
            let sum = codec::checksum(codec::Kind::Footer, ID, start as u64, &[&bytes[start..start + 52]]);
            bytes[start + 52..start + 56].copy_from_slice(&sum.0.to_le_bytes());
        })
        .expect("damage");
        assert!(open_keyed(&fs, &path()).is_err_and(|error| error.is_corruption()));
    }
}

#[test]
fn more_entries_than_the_bytes_can_hold_are_refused() {
    for (kind, key) in [(FileKind::Keyed, &b"k"[..]), (FileKind::Ordinal, &b""[..])] {
        for (entries, is_refused) in [(1u64 << 20, true), (u64::MAX, true), (9, false)] {
            let mut root = vec![1, 28, 9, 0, 0, 1];
            codec::put_varint(&mut root, entries);
            root.push(key.len() as u8);
            root.extend_from_slice(key);
            let mut properties = Vec::new();
            let ends = Properties { first_key: key.into(), last_key: key.into(), ..Properties::default() };
            Properties { entries, blocks: 1, ..ends }.encode(&mut properties);
            let fs = forge(kind, &[], &root, &properties);
            let error = match kind {
                FileKind::Keyed => open_keyed(&fs, &path()).err(),
                FileKind::Ordinal => open_ordinal(&fs, &path()).err(),
            };
            assert_eq!(error.is_some_and(|error| error.is_corruption()), is_refused, "{kind:?}, {entries}");
        }
    }
}

#[test]
fn a_walk_ends_although_the_index_names_blocks_again_and_again() {
    let sound = vec![0, 2, 1, b'a', b'1', 0, 3, b'b', b'2', 0, 0, 0, 0, 1, 0, 0, 0];
    let len = |payload: usize| u32::try_from(payload + TRAILER_BYTES).expect("small");
    let block = Handle { offset: HEADER_BYTES as u64, len: len(sound.len()) };
    let mut index = KeyedIndexBuilder::default();
    for number in 0..100 {
        index.add(&[b'b', number], block);
    }
    let index = index.finish().to_vec();
    let mut root = Root::default();
    root.push(Handle { offset: block.end(), len: len(index.len()) }, None, 100, 200, &[b'b', 99]);
    let (mut root_bytes, mut properties) = (Vec::new(), Vec::new());
    root.encode(&mut root_bytes);
    let ends = Properties { first_key: b"a".into(), last_key: b"b".into(), ..Properties::default() };
    Properties { entries: 200, blocks: 100, ..ends }.encode(&mut properties);
    let blocks = [(Shape::Keyed, sound), (Shape::KeyedIndex, index)];
    let fs = forge(FileKind::Keyed, &blocks, &root_bytes, &properties);
    let reader = open_keyed(&fs, &path()).expect("the blocks are not read yet");
    for (caching, readahead) in [(Caching::Fill, 0), (Caching::Leave, 4096)] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut iter = reader.iter();
            iter.set_caching(caching);
            iter.set_readahead(readahead);
            let mut moved = match direction {
                Direction::Forward => iter.seek_to_first(),
                Direction::Reverse => iter.seek_to_last(),
            };
            let mut steps = 0;
            while moved.is_ok() {
                steps += 1;
                moved = if direction == Direction::Forward { iter.next() } else { iter.prev() };
            }
            assert_eq!(steps, 2, "the entries of one block");
            assert!(moved.is_err_and(|error| error.is_corruption()));
        }
    }
    assert!(reader.verify().is_err_and(|error| error.is_corruption()));
}

#[test]
fn forged_blocks_are_errors_and_no_panics() {
    // Every payload of a small file, with every byte replaced in turn, under checksums that hold.
    let sound = vec![0, 2, 1, b'a', b'1', 0, 3, b'b', b'2', 0, 0, 0, 0, 1, 0, 0, 0];
    let index = |len: usize| {
        let mut payload = vec![0, 2, 2, b'b', 28];
        codec::put_varint(&mut payload, len as u64 + 5);
        payload[2] = payload.len() as u8 - 4;
        payload.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        payload
    };
    let build = |data: Vec<u8>, index: Vec<u8>| {
        let (index_at, index_len) = (28 + data.len() + 5, index.len() + 5);
        let mut root = vec![1, index_at as u8, index_len as u8, 0, 0, 1, 2, 1, b'b'];
        root[0] = 1;
        let blocks = [(Shape::Keyed, data), (Shape::KeyedIndex, index)];
        forge(FileKind::Keyed, &blocks, &root, &[2, 1, 1, 1, b'a', 1, b'b', 0])
    };
    let touch = |fs: &SimFs| {
        let reader = open_keyed(fs, &path())?;
        let mut iter = reader.iter();
        let _ = iter.seek_to_first();
        let _ = iter.next();
        let _ = iter.seek_to_last();
        let _ = iter.prev();
        let _ = iter.seek(b"aa");
        let _ = iter.seek_for_prev(b"aa");
        let _ = reader.get(b"b", hash_key(b"b"));
        let _ = reader.block_boundaries();
        reader.verify()
    };
    let report = touch(&build(sound.clone(), index(sound.len()))).expect("the forger knows the format");
    assert_eq!((report.entries, report.blocks), (2, 1));
    let mut refused = 0;
    for at in 0..sound.len() {
        for byte in [0, 1, 2, 3, 7, 0x7f, 0x80, 0xff] {
            let mut data = sound.clone();
            data[at] = byte;
            refused += usize::from(touch(&build(data, index(sound.len()))).is_err());
            let mut wrong = index(sound.len());
            let at = at % wrong.len();
            wrong[at] = byte;
            refused += usize::from(touch(&build(sound.clone(), wrong)).is_err());
        }
    }
    assert!(refused > 150, "{refused}");
    for len in 0..sound.len() {
        let data = sound[..len].to_vec();
        assert!(touch(&build(data.clone(), index(data.len()))).is_err(), "{len}");
    }
}

#[test]
fn forged_ordinal_blocks_are_errors_and_no_panics() {
    let sound = vec![b'x', b'y', 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0];
    let index = |len: usize| {
        let mut payload = vec![0, 0, 0, 0];
        payload.extend_from_slice(&28u64.to_le_bytes());
        payload.extend_from_slice(&(28 + len as u64 + 5).to_le_bytes());
        payload
    };
    let touch = |data: Vec<u8>, index: Vec<u8>| {
        let root = vec![1, (28 + data.len() + 5) as u8, index.len() as u8 + 5, 0, 0, 1, 2, 0];
        let blocks = [(Shape::Ordinal, data), (Shape::OrdinalIndex, index)];
        let fs = forge(FileKind::Ordinal, &blocks, &root, &[2, 1, 1, 0, 0, 0]);
        let reader = open_ordinal(&fs, &path())?;
        for ordinal in 0..3 {
            let _ = reader.get(ordinal);
            let _ = reader.cursor(Direction::Reverse).get(ordinal);
        }
        reader.verify()
    };
    assert_eq!(touch(sound.clone(), index(sound.len())).expect("the forger knows the format").entries, 2);
    for at in 0..sound.len() {
        for byte in [3, 4, 9, 0x7f, 0xff] {
            let mut data = sound.clone();
            data[at] = byte;
            assert!(touch(data, index(sound.len())).is_err() || at < 2, "{at}");
            let mut wrong = index(sound.len());
            let at = at % wrong.len();
            wrong[at] = byte;
            assert!(touch(sound.clone(), wrong).is_err(), "{at}");
        }
    }
}

/// Whoever compresses in another way sets a feature.
#[test]
fn an_unknown_kind_of_compression_is_damage() {
    let mut stored = b"payload".to_vec();
    crate::block::seal(codec::Kind::KeyedBlock, ID, 99, 2, &mut stored, 0);
    let error = crate::block::Block::open(Shape::Keyed, ID, 99, stored).expect_err("nobody knows it");
    assert!(error.is_corruption() && error.to_string().contains("tag of a block"), "{error}");
}
