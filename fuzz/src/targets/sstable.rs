//! One sstable, keyed or ordinal, read in every way there is.
//!
//! Input: a byte of flags, then the bytes of the file. Flags: 1 ordinal; 2 checksums are put right; 4 the reader has a
//! cache that holds nothing.
//!
//! Asked: whatever the file, every read ends, and a walk over it shows no more than it can hold. If `verify` finds
//! nothing wrong, walks in both directions, look-ups, cursors and counts agree, keys ascend, and a file that is written
//! from what came out reads the same.

use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use codec::{FileId, hash_key};
use sstable::{
    Cache, Caching, Direction, FileInfo, KeyedIter, KeyedReader, KeyedWriter, OrdinalReader, OrdinalWriter,
    Result, WriterOptions,
};

use crate::Verdict;
use crate::disk::Disk;
use crate::fix;
use crate::fix::sstable::FileKind;

const ID: FileId = FileId(7);
const PATH: &str = "/7.sst";

/// More than this is not compared: keys that share what is before them can be far longer together than the file.
const COMPARED_BYTES_MAX: usize = 1 << 20;
const COMPARED_MAX: usize = 4096;

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let Some((&flags, file)) = data.split_first() else { return Verdict::Refused };
    let mut bytes = file.to_vec();
    let kind = if flags & 1 != 0 { FileKind::Ordinal } else { FileKind::Keyed };
    if flags & 2 != 0 {
        fix::sstable::fix(&mut bytes, kind, ID.0);
    }
    let disk = Disk::with([(PATH.into(), bytes)]);
    let cache = Cache::new(if flags & 4 != 0 { 0 } else { 1 << 16 });
    match kind {
        FileKind::Keyed => match KeyedReader::open(&disk, Path::new(PATH), ID, cache, None) {
            Ok(reader) => keyed(&disk, &reader),
            Err(_) => Verdict::Refused,
        },
        FileKind::Ordinal => match OrdinalReader::open(&disk, Path::new(PATH), ID, cache, None) {
            Ok(reader) => ordinal(&disk, &reader),
            Err(_) => Verdict::Refused,
        },
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// What a walk showed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Walked {
    entries: u64,
    /// Keys with a digest of their values, up to some.
    some: Vec<(Vec<u8>, u64)>,
    bytes: usize,
    ascends: bool,
}

impl Walked {
    fn is_all(&self) -> bool {
        self.entries == self.some.len() as u64
    }
}

fn walk(iter: &mut KeyedIter, direction: Direction, file_len: u64) -> Result<Walked> {
    let mut walked = Walked { ascends: true, ..Walked::default() };
    match direction {
        Direction::Forward => iter.seek_to_first()?,
        Direction::Reverse => iter.seek_to_last()?,
    }
    let mut before: Option<Vec<u8>> = None;
    while iter.valid() {
        walked.entries += 1;
        assert!(walked.entries <= file_len, "a walk shows more entries than the file has bytes");
        let key = iter.key();
        if let Some(before) = &mut before {
            walked.ascends &= match direction {
                Direction::Forward => before.as_slice() < key,
                Direction::Reverse => key < before.as_slice(),
            };
            before.clear();
            before.extend_from_slice(key);
        } else {
            before = Some(key.to_vec());
        }
        walked.bytes = walked.bytes.saturating_add(key.len());
        if walked.bytes <= COMPARED_BYTES_MAX && walked.some.len() < COMPARED_MAX {
            walked.some.push((key.to_vec(), digest(iter.value())));
        }
        match direction {
            Direction::Forward => iter.next()?,
            Direction::Reverse => iter.prev()?,
        }
    }
    Ok(walked)
}

fn keyed(disk: &Disk, reader: &Arc<KeyedReader>) -> Verdict {
    let verified = reader.verify();
    let len = reader.file_len();
    let walks: Vec<Result<Walked>> = [
        (Direction::Forward, Caching::Fill, 0),
        (Direction::Reverse, Caching::Fill, 0),
        (Direction::Forward, Caching::Leave, 4096),
        (Direction::Reverse, Caching::Leave, 4096),
    ]
    .into_iter()
    .map(|(direction, caching, readahead)| {
        let mut iter = reader.iter();
        iter.set_caching(caching);
        iter.set_readahead(readahead);
        let walked = walk(&mut iter, direction, len);
        if walked.is_err() {
            assert!(
                !iter.valid() && iter.next().is_err() && iter.prev().is_err(),
                "an error is not forgotten"
            );
        }
        walked
    })
    .collect();
    let boundaries = reader.block_boundaries();
    let probes: [&[u8]; 6] = [b"", b"\0", b"k", b"key 5", &[0xff; 9], reader.last_key()];
    let found: Vec<_> = probes.iter().map(|key| reader.get(key, hash_key(key))).collect();
    let mut iter = reader.iter();
    for key in probes {
        if iter.seek(key).is_ok() && iter.valid() {
            let _ = iter.prev().and_then(|()| iter.next());
        }
        if iter.seek_for_prev(key).is_ok() && iter.valid() {
            let _ = iter.next().and_then(|()| iter.prev());
        }
    }
    let Ok(report) = verified else { return Verdict::Refused };

    // From here on everything must agree.
    let walks: Vec<Walked> =
        walks.into_iter().map(|walk| walk.expect("a sound file can be walked")).collect();
    let forward = &walks[0];
    for walked in &walks {
        assert!(walked.ascends, "keys ascend");
        assert_eq!(walked.entries, reader.entries(), "a walk shows every entry");
    }
    assert_eq!(walks[2].some, forward.some, "past the cache as through it");
    assert_eq!((report.entries, report.bytes), (reader.entries(), len));
    let boundaries = boundaries.expect("a sound file has a sound index");
    assert_eq!(boundaries.len() as u64, report.blocks);
    assert!(boundaries.windows(2).all(|pair| pair[0].0 < pair[1].0), "separators ascend");
    assert!(boundaries.iter().map(|(_, bytes)| bytes).sum::<u64>() < len);
    for found in found {
        found.expect("a sound file answers");
    }
    look_up(reader, forward);
    if !forward.is_all() {
        return Verdict::Accepted;
    }
    for reverse in [&walks[1], &walks[3]] {
        assert!(reverse.some.iter().rev().eq(&forward.some), "backwards as forwards");
    }
    assert_eq!(forward.some.first().map_or(&b""[..], |(key, _)| key), reader.first_key());
    assert_eq!(forward.some.last().map_or(&b""[..], |(key, _)| key), reader.last_key());
    rewrite_keyed(disk, reader, forward);
    Verdict::Accepted
}

/// Each key is found by each way to look for it.
fn look_up(reader: &Arc<KeyedReader>, forward: &Walked) {
    let mut iter = reader.iter();
    let step = forward.some.len() / 256 + 1;
    for (at, (key, value)) in forward.some.iter().enumerate().step_by(step) {
        let found = reader.get(key, hash_key(key)).expect("a sound file").expect("a key that is there");
        assert_eq!(digest(found.bytes()), *value);
        iter.seek(key).expect("a sound file");
        assert!(iter.valid() && iter.key() == key && digest(iter.value()) == *value);
        iter.seek_for_prev(key).expect("a sound file");
        assert!(iter.valid() && iter.key() == key && digest(iter.value()) == *value);
        // The key right after it.
        let mut after = key.clone();
        after.push(0);
        let next = forward.some.get(at + 1).map(|(key, _)| key);
        if at + 1 < forward.some.len() || forward.is_all() {
            iter.seek(&after).expect("a sound file");
            assert_eq!(iter.valid().then(|| iter.key()), next.map(Vec::as_slice));
            let is_there = next.is_some_and(|next| *next == after);
            let got = reader.get(&after, hash_key(&after)).expect("a sound file");
            assert_eq!(got.is_some(), is_there, "a key that is not there is not found");
        }
    }
}

fn rewrite_keyed(disk: &Disk, reader: &Arc<KeyedReader>, forward: &Walked) {
    let options = WriterOptions { block_bytes: 256, index_block_bytes: 256, ..WriterOptions::default() };
    let mut iter = reader.iter();
    iter.seek_to_first().expect("it was walked");
    let path = Path::new("/8.sst");
    let mut writer = KeyedWriter::create(disk, path, FileId(8), &options).expect("a good disk");
    while iter.valid() {
        writer.add(iter.key(), None, iter.value()).expect("keys ascend, and nothing is too large");
        iter.next().expect("it was walked");
    }
    let info = writer.finish(reader.user_properties()).expect("a good disk");
    let again = KeyedReader::open(disk, path, FileId(8), Cache::new(0), expect(&info)).expect("just written");
    again.verify().expect("just written");
    let walked = walk(&mut again.iter(), Direction::Forward, u64::MAX).expect("just written");
    assert_eq!(&walked, forward, "written again, it reads the same");
    assert_eq!(again.user_properties(), reader.user_properties());
}

#[expect(clippy::unnecessary_wraps, reason = "what a reader is opened with")]
fn expect(info: &FileInfo) -> Option<(u64, u32)> {
    Some((info.len, info.footer_checksum))
}

fn ordinal(disk: &Disk, reader: &Arc<OrdinalReader>) -> Verdict {
    let verified = reader.verify();
    let rows = reader.rows();
    // All of a small file; of one that claims more some at both ends and between.
    let some: Vec<u32> = if u64::from(rows) <= COMPARED_MAX as u64 {
        (0..rows).collect()
    } else {
        let step = rows / 1024;
        (0..256).chain((0..1024).map(|at| at * step)).chain(rows - 256..rows).collect()
    };
    let got: Vec<Result<u64>> =
        some.iter().map(|row| reader.get(*row).map(|row| digest(row.bytes()))).collect();
    let mut walks = Vec::new();
    for (direction, caching) in [
        (Direction::Forward, Caching::Fill),
        (Direction::Reverse, Caching::Fill),
        (Direction::Forward, Caching::Leave),
        (Direction::Reverse, Caching::Leave),
    ] {
        let mut cursor = reader.cursor(direction);
        cursor.set_caching(caching);
        let mut walked: Vec<Result<u64>> = match direction {
            Direction::Forward => some.iter().map(|row| cursor.get(*row).map(digest)).collect(),
            Direction::Reverse => some.iter().rev().map(|row| cursor.get(*row).map(digest)).collect(),
        };
        if direction == Direction::Reverse {
            walked.reverse();
        }
        walks.push(walked);
    }
    for row in [rows, u32::MAX] {
        assert!(reader.get(row).is_err() || row < rows, "a row beyond the end");
    }
    let Ok(report) = verified else { return Verdict::Refused };

    let got: Vec<u64> = got.into_iter().map(|row| row.expect("a sound file has its rows")).collect();
    for walked in walks {
        let walked: Vec<u64> =
            walked.into_iter().map(|row| row.expect("a sound file has its rows")).collect();
        assert_eq!(walked, got, "a cursor reads what a get reads");
    }
    assert_eq!((report.entries, report.bytes), (u64::from(rows), reader.file_len()));
    if some.len() == rows as usize {
        rewrite_ordinal(disk, reader, &got);
    }
    Verdict::Accepted
}

fn rewrite_ordinal(disk: &Disk, reader: &Arc<OrdinalReader>, got: &[u64]) {
    let options = WriterOptions { block_bytes: 256, index_block_bytes: 256, ..WriterOptions::default() };
    let path = Path::new("/8.sst");
    let mut writer = OrdinalWriter::create(disk, path, FileId(8), &options).expect("a good disk");
    let mut cursor = reader.cursor(Direction::Forward);
    for row in 0..reader.rows() {
        writer.push(&[cursor.get(row).expect("it was read")]).expect("nothing is too large");
    }
    let info = writer.finish(reader.user_properties()).expect("a good disk");
    let again =
        OrdinalReader::open(disk, path, FileId(8), Cache::new(0), expect(&info)).expect("just written");
    again.verify().expect("just written");
    let read: Vec<u64> =
        (0..again.rows()).map(|row| digest(again.get(row).expect("just written").bytes())).collect();
    assert_eq!(read, got, "written again, it reads the same");
}
