//! Damaged, cut, exchanged and forged files: an error or the right answer, never a wrong one.

mod forged;

use std::path::Path;

use codec::{FileId, hash_key};
use vfs::sim::{Fault, OpKind, OpSet};
use vfs::{Fs, SimFs};

use super::*;
use crate::{Caching, Direction, Error, KeyedIter};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(count: u32) -> Entries {
    (0..count).map(|i| (format!("key{:04}", i * 3).into_bytes(), format!("{i}").into_bytes())).collect()
}

fn rows(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("row {i} row row {i}").repeat(1 + i as usize % 3).into_bytes()).collect()
}

fn write_entries(fs: &SimFs, path: &Path, entries: &Entries) -> FileInfo {
    write_keyed(fs, path, &tiny(), entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))
}

fn bytes_of(fs: &SimFs, path: &Path) -> Vec<u8> {
    fs.read(path, 1 << 30).expect("the file is there")
}

fn disk_with(path: &Path, bytes: &[u8]) -> SimFs {
    let fs = SimFs::new(1);
    fs.create(path).expect("create").write_all_at(bytes, 0).expect("write");
    fs
}

/// Whether every answer is right or an error. Gives how many errors there were.
fn ask_keyed(reader: &Arc<KeyedReader>, entries: &Entries) -> usize {
    let mut errors = 0;
    for (i, (key, value)) in entries.iter().enumerate() {
        match reader.get(key, hash_key(key)) {
            Ok(found) => assert_eq!(found.expect("it was added").bytes(), value.as_slice()),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                assert!(reader.get(key, hash_key(key)).is_err(), "the error goes on");
                errors += 1;
            }
        }
        if i % 8 == 0 {
            let absent = format!("key{:04}", i * 3 + 1).into_bytes();
            if let Ok(found) = reader.get(&absent, hash_key(&absent)) {
                assert!(found.is_none());
            }
            errors += usize::from(!seek_around(reader, entries, i));
        }
    }
    errors += usize::from(!scan(reader, entries, Direction::Forward, 0));
    errors += usize::from(!scan(reader, entries, Direction::Reverse, 0));
    errors += usize::from(!scan(reader, entries, Direction::Forward, 500));
    errors += usize::from(!scan(reader, entries, Direction::Reverse, 500));
    errors
}

fn seek_around(reader: &Arc<KeyedReader>, entries: &Entries, i: usize) -> bool {
    let mut iter = reader.iter();
    let between = format!("key{:04}", i * 3 + 1).into_bytes();
    let above = iter.seek(&between).is_ok();
    if above {
        assert_eq!(iter.valid().then(|| iter.key()), entries.get(i + 1).map(|entry| entry.0.as_slice()));
    }
    let below = iter.seek_for_prev(&between).is_ok();
    if below {
        assert_eq!(iter.key(), entries[i].0.as_slice());
    }
    above && below
}

/// Walks all entries; false if an error came, after which it must go on coming.
fn scan(reader: &Arc<KeyedReader>, entries: &Entries, direction: Direction, readahead: usize) -> bool {
    let mut iter = reader.iter();
    iter.set_readahead(readahead);
    iter.set_caching(if readahead > 0 { Caching::Leave } else { Caching::Fill });
    let step = if direction == Direction::Forward { KeyedIter::next } else { KeyedIter::prev };
    let mut moved = match direction {
        Direction::Forward => iter.seek_to_first(),
        Direction::Reverse => iter.seek_to_last(),
    };
    for i in 0..entries.len() {
        if moved.is_err() {
            for _ in 0..3 {
                assert!(!iter.valid());
                assert!(step(&mut iter).is_err(), "the error goes on");
            }
            return false;
        }
        let entry = if direction == Direction::Forward { i } else { entries.len() - 1 - i };
        assert_eq!((iter.key(), iter.value()), (entries[entry].0.as_slice(), entries[entry].1.as_slice()));
        moved = step(&mut iter);
    }
    assert!(moved.is_ok() && !iter.valid());
    true
}

fn ask_ordinal(reader: &Arc<OrdinalReader>, rows: &[Vec<u8>]) -> usize {
    let mut errors = 0;
    let mut cursors = [reader.cursor(Direction::Forward), reader.cursor(Direction::Reverse)];
    cursors[1].set_caching(Caching::Leave);
    for i in 0..rows.len() {
        match reader.get(i as u32) {
            Ok(row) => assert_eq!(row.bytes(), rows[i].as_slice()),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                errors += 1;
            }
        }
        for (cursor, ordinal) in cursors.iter_mut().zip([i, rows.len() - 1 - i]) {
            match cursor.get(ordinal as u32) {
                Ok(row) => assert_eq!(row, rows[ordinal].as_slice()),
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    assert!(cursor.get(ordinal as u32).is_err(), "the error goes on");
                    errors += 1;
                }
            }
        }
    }
    errors
}

#[test]
fn any_flipped_byte_of_a_keyed_file_is_an_error_where_it_matters_and_never_a_wrong_answer() {
    let entries = entries(120);
    let fs = SimFs::new(1);
    write_entries(&fs, &path(), &entries);
    let sound = bytes_of(&fs, &path());
    assert!(open_keyed(&fs, &path()).expect("open").root().partitions().len() > 2);
    let mut refused = 0;
    for at in 0..sound.len() {
        for flip in [0x01, 0x80, 0xff] {
            fs.damage(&path(), |bytes| bytes[at] ^= flip).expect("damage");
            match open_keyed(&fs, &path()) {
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    refused += 1;
                }
                Ok(reader) => {
                    assert!(ask_keyed(&reader, &entries) > 0, "byte {at} is used by nobody");
                    let error = reader.verify().expect_err("every byte is checked");
                    assert!(error.is_corruption(), "{error}");
                }
            }
            fs.damage(&path(), |bytes| bytes[at] ^= flip).expect("damage");
        }
    }
    assert!(refused > 3 * 90 && refused < 3 * sound.len() / 2, "{refused} of {}", sound.len());
}

#[test]
fn any_flipped_byte_of_an_ordinal_file_is_an_error_and_never_a_wrong_row() {
    let rows = rows(60);
    let fs = SimFs::new(1);
    write_ordinal(&fs, &path(), &tiny(), rows.iter().map(Vec::as_slice));
    for at in 0..bytes_of(&fs, &path()).len() {
        for flip in [0x01, 0x80] {
            fs.damage(&path(), |bytes| bytes[at] ^= flip).expect("damage");
            match open_ordinal(&fs, &path()) {
                Err(error) => assert!(error.is_corruption(), "{error}"),
                Ok(reader) => {
                    assert!(ask_ordinal(&reader, &rows) > 0, "byte {at} is used by nobody");
                    assert!(reader.verify().is_err_and(|error| error.is_corruption()));
                }
            }
            fs.damage(&path(), |bytes| bytes[at] ^= flip).expect("damage");
        }
    }
}

#[test]
fn a_damaged_data_block_leaves_the_others_readable() {
    let entries = entries(60);
    let fs = SimFs::new(1);
    write_entries(&fs, &path(), &entries);
    fs.damage(&path(), |bytes| bytes[40] ^= 1).expect("damage");
    let reader = open_keyed(&fs, &path()).expect("open");
    let error = reader.get(&entries[0].0, hash_key(&entries[0].0)).expect_err("damaged");
    assert!(matches!(error, Error::Checksum { file: ID, offset: 28, .. }), "{error}");
    let wrong = entries.iter().filter(|entry| reader.get(&entry.0, hash_key(&entry.0)).is_err()).count();
    assert!(wrong > 0 && wrong < 20, "{wrong}");
    // An iterator can be positioned anew beyond the damage, and before it fails again.
    let mut iter = reader.iter();
    assert!(iter.seek_to_first().is_err());
    iter.seek(&entries[40].0).expect("another block");
    assert_eq!(iter.key(), entries[40].0.as_slice());
    while iter.valid() && iter.prev().is_ok() {}
    assert!(!iter.valid() && iter.prev().is_err(), "never a short scan");
}

#[test]
fn a_file_cut_at_any_length_is_refused() {
    let fs = SimFs::new(1);
    let info = write_entries(&fs, &path(), &entries(30));
    let sound = bytes_of(&fs, &path());
    for len in 0..sound.len() {
        let fs = disk_with(&path(), &sound[..len]);
        assert!(open_keyed(&fs, &path()).is_err_and(|error| error.is_corruption()), "{len}");
    }
    let mut longer = sound.clone();
    longer.push(0);
    assert!(open_keyed(&disk_with(&path(), &longer), &path()).is_err_and(|error| error.is_corruption()));
    // Cut after it was opened: the blocks that are gone are errors.
    let reader = KeyedReader::open(&fs, &path(), ID, Cache::new(0), Some((info.len, info.footer_checksum)));
    let reader = reader.expect("open");
    fs.damage(&path(), |bytes| bytes.truncate(100)).expect("damage");
    assert!(reader.iter().seek_to_last().is_err_and(|error| error.is_corruption()));
    assert!(reader.verify().is_err_and(|error| error.is_corruption()));
}

#[test]
fn swapped_blocks_are_noticed() {
    let mut values = entries(64);
    values.iter_mut().for_each(|entry| entry.1 = vec![b'v'; 40]);
    let fs = SimFs::new(1);
    write_entries(&fs, &path(), &values);
    let reader = open_keyed(&fs, &path()).expect("open");
    let partition = reader.partition(0).expect("sound file");
    let handle = |entry| reader.handle(&partition, entry).expect("sound file");
    let (a, b) = (handle(0), handle(1));
    assert_eq!(a.len, b.len, "blocks alike in all but their keys");
    fs.damage(&path(), |bytes| {
        let (head, tail) = bytes.split_at_mut(b.offset as usize);
        head[a.offset as usize..][..a.len as usize].swap_with_slice(&mut tail[..b.len as usize]);
    })
    .expect("damage");
    let reader = open_keyed(&fs, &path()).expect("open");
    for (key, _) in &values[..4] {
        assert!(matches!(reader.get(key, hash_key(key)), Err(Error::Checksum { .. })));
    }
    assert!(ask_keyed(&reader, &values) > 0);
    assert!(reader.verify().is_err());
}

#[test]
fn swapped_files_are_noticed() {
    let fs = SimFs::new(1);
    let info = write_entries(&fs, &path(), &entries(30));
    let other = Path::new("/8.sst");
    let mut writer = KeyedWriter::create(&fs, other, FileId(8), &tiny()).expect("create");
    entries(30).iter().for_each(|(key, value)| writer.add(key, None, value).expect("add"));
    writer.finish(b"user").expect("finish");
    // Another number.
    let open = |path: &Path, id, expect| KeyedReader::open(&fs, path, id, Cache::new(1 << 20), expect);
    let error = open(other, ID, None).expect_err("another file");
    assert!(matches!(error, Error::Mismatch { what: "file number", expected: 7, found: 8, .. }), "{error}");
    // The same number, the same length, an older version of the file.
    let older = Path::new("/older.sst");
    let mut changed = entries(30);
    changed[7].1[0] ^= 1;
    let older_info = write_entries(&fs, older, &changed);
    assert_eq!(info.len, older_info.len);
    assert!(open(older, ID, None).is_ok());
    assert!(
        open(older, ID, Some((info.len, info.footer_checksum))).is_err_and(|error| error.is_corruption())
    );
    assert!(open(&path(), ID, Some((info.len, info.footer_checksum))).is_ok());
    assert!(open(&path(), ID, Some((info.len + 1, info.footer_checksum))).is_err());
    // Another kind of file; no file.
    assert!(open_ordinal(&fs, &path()).is_err_and(|error| error.is_corruption()));
    let missing = open_keyed(&fs, Path::new("/9.sst")).expect_err("no such file");
    assert_eq!(missing.io().map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
    assert!(!missing.is_corruption());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    for (at, value, what) in [(8, 2, "sstable format version"), (12, 4, "set of required sstable features")] {
        let fs = SimFs::new(1);
        write_entries(&fs, &path(), &entries(3));
        fs.damage(&path(), |bytes| {
            bytes[at] = value;
            let sum = codec::checksum(codec::Kind::SstableHeader, ID, 0, &[&bytes[..24]]);
            bytes[24..28].copy_from_slice(&sum.0.to_le_bytes());
        })
        .expect("damage");
        let error = open_keyed(&fs, &path()).expect_err("too new");
        assert!(error.is_unsupported() && !error.is_corruption(), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn a_failing_disk_is_an_error_and_no_corruption() {
    let entries = entries(30);
    let fs = SimFs::new(1);
    write_entries(&fs, &path(), &entries);
    let reader = KeyedReader::open(&fs, &path(), ID, Cache::new(0), None).expect("open");
    let mut iter = reader.iter();
    iter.seek_to_first().expect("sound file");
    fs.fail_at(0, Fault::eio().on(OpSet::of(OpKind::Read)).forever());
    while iter.valid() && iter.next().is_ok() {}
    let error = iter.next().expect_err("the disk fails");
    assert!(error.io().is_some() && !error.is_corruption(), "{error}");
    fs.clear_faults();
    assert!(iter.next().is_err(), "the error goes on");
    assert_eq!(ask_keyed(&reader, &entries), 0);

    // Nor is a failed readahead the error of the block that was asked for: that is read again by itself.
    let rows = rows(60);
    let fs = SimFs::new(1);
    write_ordinal(&fs, &path(), &tiny(), rows.iter().map(Vec::as_slice));
    let reader = open_ordinal(&fs, &path()).expect("open");
    let mut cursor = reader.cursor(Direction::Forward);
    for (ordinal, row) in rows.iter().enumerate() {
        // The index is at hand, so that the next read is one of rows.
        fs.clear_faults();
        reader.partition(reader.find_partition(ordinal as u32).expect("it exists")).expect("sound file");
        fs.fail_at(fs.operations(), Fault::eio().on(OpSet::of(OpKind::Read)));
        let before = fs.log().len();
        match cursor.get(ordinal as u32) {
            Ok(found) => {
                assert_eq!(found, row.as_slice());
                assert_ne!(fs.log().len() - before, 1, "one read, and that one failed");
            }
            Err(error) => {
                assert!(error.io().is_some(), "{error}");
                assert_eq!(cursor.get(ordinal as u32).expect("the disk is well again"), row.as_slice());
            }
        }
    }
}
