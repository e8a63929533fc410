use std::sync::Arc;

use codec::{Location, RowId, RowsetId, SchemaVersion, Version};
use proptest::prelude::*;
use sstable::{Cache, Direction};
use vfs::SimFs;
use vfs::sim::{Fault, OpSet};

use super::{Rowset, RowsetOptions, RowsetWriter, Rowsets, StoredRow, WrittenRowset, rowset_id};
use crate::ErrorKind;
use crate::error::Result;
use crate::read::tests::world::{Numbers, World, tiny_files};

const SCHEMA: SchemaVersion = SchemaVersion(1);

fn options(rowset_bytes: u64) -> RowsetOptions {
    RowsetOptions { rowset_bytes, file: tiny_files(), owner: Arc::default() }
}

fn open(disk: &SimFs, written: &WrittenRowset) -> Result<Arc<Rowset>> {
    let WrittenRowset { info, first_key, last_key } = written.clone();
    let path = Numbers::path(info.id);
    Rowset::open(disk, &path, info, first_key, last_key, Cache::new(1 << 20))
}

fn id(written: &WrittenRowset) -> RowsetId {
    rowset_id(written.info.id).expect("it was given as a rowset's")
}

/// Rows as they are pushed: key, version, row.
type Pushed = (Vec<u8>, Version, Vec<u8>);

fn write(disk: &Arc<SimFs>, rowset_bytes: u64, rows: &[Pushed]) -> (Vec<WrittenRowset>, Vec<Location>) {
    let numbers = Numbers::new(disk);
    let mut writer = RowsetWriter::new(&numbers, options(rowset_bytes));
    let push = |(key, version, row): &Pushed| writer.push(key, *version, SCHEMA, row).expect("no fault");
    let locations = rows.iter().map(push).collect();
    (writer.finish().expect("no fault"), locations)
}

#[test]
fn no_rows_make_no_rowset() {
    let disk = World::empty_disk();
    assert!(write(&disk, 1, &[]).0.is_empty());
    assert!(disk.paths().is_empty());
}

#[test]
fn all_versions_of_a_key_are_in_one_rowset() {
    let disk = World::empty_disk();
    let versions = (1..=50).rev().map(|version| (b"b".to_vec(), Version(version), vec![b'x'; 100]));
    let mut rows = vec![(b"a".to_vec(), Version(7), b"row".to_vec())];
    rows.extend(versions);
    rows.push((b"c".to_vec(), Version(3), Vec::new()));
    let (written, locations) = write(&disk, 1, &rows);
    let spans: Vec<(&[u8], &[u8], u64)> = written
        .iter()
        .map(|rowset| (rowset.first_key.as_slice(), rowset.last_key.as_slice(), rowset.info.entries))
        .collect();
    assert_eq!(spans, [(&b"a"[..], &b"a"[..], 1), (b"b", b"b", 50), (b"c", b"c", 1)]);
    assert!(locations[1..51].iter().all(|location| location.rowset == id(&written[1])));
}

/// A compaction takes rows in the order of an index that may be damaged behind its checksums.
#[test]
fn rows_out_of_order_are_refused_as_damage() {
    for (key, version) in [(b"b", 1), (b"b", 2), (b"a", 0)] {
        let disk = World::empty_disk();
        let numbers = Numbers::new(&disk);
        let mut writer = RowsetWriter::new(&numbers, options(1 << 20));
        writer.push(b"b", Version(1), SCHEMA, b"").expect("the first");
        let error = writer.push(key, Version(version), SCHEMA, b"").expect_err("not after the one before");
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_rowset_opens_only_as_the_one_that_was_written() {
    let disk = World::empty_disk();
    let (written, _) = write(&disk, 1 << 20, &[(b"a".to_vec(), Version(1), b"row".to_vec())]);
    assert!(open(&disk, &written[0]).is_ok());
    let mut other = written[0].clone();
    other.info.footer_checksum ^= 1;
    assert_eq!(open(&disk, &other).expect_err("another file").kind(), ErrorKind::Corruption);
    let mut other = written[0].clone();
    other.info.entries += 1;
    let error = open(&disk, &other).expect_err("another number of rows");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("2 rows expected, 1 found"), "{error}");
}

#[test]
fn a_full_disk_is_told_and_other_failures_too() {
    let rows: Vec<Pushed> =
        (0..200u8).map(|key| (vec![key], Version(1), vec![key.wrapping_mul(31); 40])).collect();
    for (fault, kind) in [(Fault::enospc(), ErrorKind::NoSpace), (Fault::eio(), ErrorKind::Io)] {
        let disk = World::empty_disk();
        disk.fail_at(disk.operations() + 3, fault.on(OpSet::CHANGES).forever());
        let numbers = Numbers::new(&disk);
        let mut writer = RowsetWriter::new(&numbers, options(1 << 10));
        let pushed =
            rows.iter().try_for_each(|(key, version, row)| writer.push(key, *version, SCHEMA, row).map(drop));
        let error = pushed.and_then(|()| writer.finish().map(drop)).expect_err("the disk fails");
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_file_number_above_32_bits_is_refused() {
    assert_eq!(rowset_id(codec::FileId(u32::MAX.into())).ok(), Some(RowsetId(u32::MAX)));
    assert!(rowset_id(codec::FileId(1 << 32)).is_err());
}

#[test]
fn a_set_finds_its_rowsets_by_number() {
    let disk = World::empty_disk();
    let rows: Vec<Pushed> = (0..40u8).map(|key| (vec![key], Version(1), vec![0; 100])).collect();
    let (written, _) = write(&disk, 1, &rows);
    let opened: Vec<Arc<Rowset>> =
        written.iter().map(|written| open(&disk, written).expect("no fault")).collect();
    let all = Rowsets::new(opened.iter().rev().cloned().collect());
    assert_eq!(all.len(), 40);
    for rowset in &opened {
        assert!(all.get(rowset.id()).is_some_and(|found| Arc::ptr_eq(found, rowset)));
    }
    assert!(all.get(RowsetId(0)).is_none() && all.get(RowsetId(4711)).is_none());
    let fewer = all.with(&[id(&written[3]), id(&written[5])], [Arc::clone(&opened[5])]);
    assert_eq!(fewer.len(), 39);
    assert!(fewer.get(id(&written[3])).is_none() && fewer.get(id(&written[5])).is_some());
    assert!(fewer.iter().is_sorted_by_key(|rowset| rowset.id()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_come_back_from_where_they_were_put(
        keys in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..4), 1..4u64, 0..60),
        row_bytes in prop::collection::vec(0..300usize, 1..7),
        rowset_bytes in 1..4000u64,
    ) {
        let mut rows: Vec<Pushed> = Vec::new();
        for (key, versions) in keys {
            for version in (1..=versions).rev() {
                let len = row_bytes[rows.len() % row_bytes.len()];
                rows.push((key.clone(), Version(version << (version * 9)), vec![rows.len() as u8; len]));
            }
        }
        let disk = World::empty_disk();
        let (written, locations) = write(&disk, rowset_bytes, &rows);
        prop_assert!(written.is_sorted_by(|a, b| a.last_key < b.first_key), "they share no key");
        let total: u64 = written.iter().map(|rowset| rowset.info.entries).sum();
        prop_assert_eq!(total, rows.len() as u64);
        let opened = written.iter().map(|written| open(&disk, written).expect("no fault"));
        let rowsets = Rowsets::new(opened.collect());
        for ((key, version, row), location) in rows.iter().zip(&locations) {
            let rowset = rowsets.get(location.rowset).expect("every location is in a rowset");
            prop_assert!(rowset.first_key() <= key.as_slice() && key.as_slice() <= rowset.last_key());
            let found = rowset.get(location.rowid, *version).expect("no fault");
            prop_assert_eq!(found.bytes(), row.as_slice());
            prop_assert_eq!(found.schema(), SCHEMA);
            prop_assert!(rowset.get(location.rowid, version.next()).is_err());
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            for rowset in rowsets.iter() {
                let mut cursor = super::RowsetCursor::new(rowset, direction);
                let mut mine: Vec<_> =
                    rows.iter().zip(&locations).filter(|(_, location)| location.rowset == rowset.id()).collect();
                if direction == Direction::Reverse {
                    mine.reverse();
                }
                for ((_, version, row), location) in mine {
                    let (_, found) = cursor.get(location.rowid, *version).expect("no fault");
                    prop_assert_eq!(found, row.as_slice());
                }
            }
        }
    }

    #[test]
    fn no_stored_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..24), version in 0..300u64) {
        let at = Location { rowset: RowsetId(1), rowid: RowId(2) };
        if let Ok(StoredRow { schema, row }) = StoredRow::decode(&bytes, at, Version(version)) {
            let mut again = Vec::new();
            StoredRow::encode_head(Version(version), schema, &mut again);
            prop_assert_eq!(again.as_slice(), &bytes[..row.start]);
            prop_assert_eq!(row.end, bytes.len());
        }
    }
}
