//! Inputs that are damaged or forged stop a compaction, and are named.

use std::collections::BTreeSet;

use codec::Location;
use prost::Message;
use sstable::KeyedWriter;

use super::{everyone_reads_the_newest, index_of, remove};
use crate::compaction::*;
use crate::model::{Disk, puts, tiny_compaction, tiny_files};
use crate::{Entry, pb};

// Case 56, as far as it is the index's.
#[test]
fn a_damaged_block_stops_the_compaction_and_every_read_of_it() {
    let index = index_of(&[puts(0..100), puts(0..100)]);
    let file = &index.runs[1].files()[0];
    index.disk.fs.damage(&Disk::path(file.id()), |bytes| bytes[100] ^= 1).expect("the file is there");
    let before = index.disk.fs.paths();
    let compaction = index.compaction(0..2, &everyone_reads_the_newest(&index));
    for _ in 0..2 {
        let error = index.run_compaction(&compaction).expect_err("damage");
        assert!(error.is_corruption(), "{error}");
        assert_eq!(index.disk.fs.paths(), before);
    }
    let key = &file.info.first_key;
    for _ in 0..2 {
        let error = index.runs[1].lookup(key, codec::hash_key(key), Version::MAX).expect_err("damage");
        assert!(error.is_corruption(), "{error}");
    }
    let last = &file.info.last_key;
    assert!(
        index.runs[1].lookup(last, codec::hash_key(last), Version::MAX).is_ok(),
        "other blocks read right"
    );
}

/// A merge that took damage for the end of a run would be told by the counts; they could not say where it lies.
#[test]
fn a_damaged_block_is_named_wherever_the_merge_meets_it() {
    let index = index_of(&[puts(0..100), puts(0..100)]);
    let compaction = index.compaction(0..2, &everyone_reads_the_newest(&index));
    let file = &index.runs[1].files()[0];
    let path = Disk::path(file.id());
    let flip = |at: u64| {
        let at = usize::try_from(at).expect("a small file");
        index.disk.fs.damage(&path, |bytes| bytes[at] ^= 1).expect("the file is there");
    };
    let mut named = BTreeSet::new();
    for at in (30..file.info.len).step_by(19) {
        flip(at);
        match index.run_compaction(&compaction) {
            Err(Error::Sstable(sstable::Error::Checksum { file: found, offset, .. })) => {
                assert!(found == file.id() && offset <= at, "byte {at}: {offset} in file {found}");
                named.insert(offset);
            }
            Err(error) => panic!("byte {at}: {error}"),
            // A filter, or what was read when the file was opened.
            Ok(outcome) => remove(&index.disk, &outcome.files),
        }
        flip(at);
    }
    assert!(named.len() > 5, "{named:?}");
}

type Change = fn(&mut pb::IndexFileProperties);

/// Writes a file with other lists or properties than a writer of ours would.
fn forge(
    disk: &Disk,
    lists: &[(&[u8], Vec<u8>)],
    change: impl FnOnce(&mut pb::IndexFileProperties),
) -> Result<Arc<IndexFile>> {
    let (id, path) = disk.next_file().expect("a number");
    let mut properties = pb::IndexFileProperties {
        keys: lists.len() as u64,
        entries: lists.len() as u64,
        deletions: 0,
        version_min: 1,
        version_max: 9,
        has_several: false,
        rowsets: vec![pb::RowsetEntries { rowset: 0, entries: lists.len() as u64 }],
        first_key: lists[0].0.to_vec(),
        last_key: lists[lists.len() - 1].0.to_vec(),
        owner: Vec::new(),
    };
    change(&mut properties);
    let mut writer = KeyedWriter::create(&disk.fs, &path, id, &tiny_files().file).expect("a new file");
    for (key, list) in lists {
        writer.add(key, None, list).expect("a disk without faults");
    }
    let info = writer.finish(&properties.encode_to_vec()).expect("a disk without faults");
    IndexFile::open(&disk.fs, &path, id, Arc::clone(&disk.cache), (info.len, info.footer_checksum))
}

fn list(version: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::wire::encode(&[Entry::put(Version(version), Location::default())], &mut bytes);
    bytes
}

fn compact_forged(disk: &Disk, files: Vec<Arc<IndexFile>>) -> Result<Outcome> {
    let compaction = Compaction {
        inputs: vec![Arc::new(Run::new(files)?)],
        base: true,
        retention: Retention { floor: Version(100), snapshots: Vec::new() },
        moving: Vec::new(),
        options: CompactionOptions { reuse_bytes_min: u64::MAX, ..tiny_compaction() },
    };
    let hook = |_: usize| -> Box<dyn Relocate> { unreachable!("nothing moves") };
    compaction.run(disk, &InlineExecutor, &hook, &AtomicBool::new(false))
}

// Case 62: counts.
#[test]
fn properties_that_do_not_match_what_is_read_stop_the_compaction() {
    let disk = Disk::new();
    let lists = [(&b"a"[..], list(3)), (b"b", list(4)), (b"c", list(5))];
    let sound = forge(&disk, &lists, |_| {}).expect("sound");
    assert_eq!(compact_forged(&disk, vec![sound]).expect("sound").stats.entries_out, 3);
    let changes: [(Change, &str); 3] = [
        (|p| p.rowsets[0].rowset = 7, "rowset"),
        (
            |p| {
                p.entries = 4;
                p.has_several = true;
                p.rowsets[0].entries = 4;
            },
            "entries",
        ),
        (
            |p| {
                p.deletions = 1;
                p.rowsets[0].entries = 2;
            },
            "deletions",
        ),
    ];
    for (change, name) in changes {
        let forged = forge(&disk, &lists, change).expect("the properties agree with themselves");
        let before = disk.fs.paths();
        let error = compact_forged(&disk, vec![forged]).expect_err("wrong counts");
        assert!(error.is_corruption() && error.to_string().contains(name), "{error}");
        assert_eq!(disk.fs.paths(), before);
    }
}

// Case 16, as far as it is the index's.
#[test]
fn a_file_is_refused_that_is_not_what_it_is_expected_to_be() {
    let disk = Disk::new();
    let lists = [(&b"a"[..], list(3)), (b"b", list(4))];
    assert!(forge(&disk, &lists, |p| p.last_key = b"c".to_vec()).is_err_and(|error| error.is_corruption()));
    assert!(forge(&disk, &lists, |p| p.first_key.clear()).is_err_and(|error| error.is_corruption()));
    let three = |p: &mut pb::IndexFileProperties| {
        (p.keys, p.entries) = (3, 3);
        p.rowsets[0].entries = 3;
    };
    assert!(forge(&disk, &lists, three).is_err_and(|error| error.is_corruption()));
    let file = forge(&disk, &lists, |_| {}).expect("sound");
    let cache = Arc::clone(&disk.cache);
    let path = Disk::path(file.id());
    let expect = (file.info.len, file.info.footer_checksum ^ 1);
    let error = IndexFile::open(&disk.fs, &path, file.id(), cache, expect).expect_err("another file");
    assert!(error.is_corruption(), "{error}");
}

#[test]
fn damaged_lists_are_errors_and_never_guesses() {
    let disk = Disk::new();
    let twice = [list(4), list(4)].concat();
    for bad in [&b""[..], &twice, b"\x0a\x04\x08\x03\x10\x01", b"\x0a\x02\x08\x03\x12\x00"] {
        let file = forge(&disk, &[(b"a", list(3)), (b"b", bad.to_vec())], |_| {}).expect("sound properties");
        let id = file.id();
        let run = Arc::new(Run::new(vec![Arc::clone(&file)]).expect("one file"));
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let mut cursor = run.cursor(sstable::Direction::Forward, &all).expect("sound blocks");
        crate::Source::advance(&mut cursor).expect("sound blocks");
        let mut entries = Vec::new();
        for error in [
            compact_forged(&disk, vec![file]).expect_err("damage"),
            cursor.entries(&mut entries).expect_err("damage"),
        ] {
            assert!(matches!(error, Error::Entries { file, .. } if file == id), "{error}");
        }
        assert!(entries.is_empty());
    }
    let empty = forge(&disk, &[(b"a", Vec::new())], |_| {}).expect("sound properties");
    let run = Run::new(vec![empty]).expect("one file");
    let error = run.lookup(b"a", codec::hash_key(b"a"), Version(9)).expect_err("an empty list is damage");
    assert!(error.is_corruption());
}
