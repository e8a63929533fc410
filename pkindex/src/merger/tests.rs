use super::*;
use codec::{RowId, Version};

fn at(rowset: u32, rowid: u32) -> Location {
    Location { rowset: RowsetId(rowset), rowid: RowId(rowid) }
}

fn put(version: u64, rowset: u32) -> Entry {
    Entry::put(Version(version), at(rowset, 1))
}

fn encoded(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(entries, &mut bytes);
    bytes
}

/// Moves every row to rowset 100 and remembers what it was asked.
#[derive(Default)]
struct ToHundred(Vec<(Entry, Location)>);

impl Relocate for ToHundred {
    fn relocate(&mut self, _key: &[u8], entry: Entry, from: Location) -> Result<Location, BoxError> {
        self.0.push((entry, from));
        Ok(at(100, from.rowid.0))
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Case<'a> {
    retention: Retention,
    base: bool,
    moving: &'a [RowsetId],
}

impl Case<'_> {
    /// What is written for lists that come from the files 1, 2, ..., newest first.
    fn merge(&self, lists: &[&[Entry]]) -> Result<(Vec<Entry>, MergeCounts, bool)> {
        let encoded: Vec<_> = lists.iter().map(|list| encoded(list)).collect();
        let mut merger = KeyValueMerger::new(&self.retention, self.base, self.moving);
        let lists = encoded.iter().enumerate().map(|(index, list)| (FileId(index as u64 + 1), &list[..]));
        let (out, passed) = match merger.merge(b"key", lists, &mut ToHundred::default())? {
            Merged::Pass(entry) => (vec![entry], true),
            Merged::List(list) => (list.to_vec(), false),
            Merged::Nothing => (Vec::new(), false),
        };
        let counts = merger.into_counts();
        assert_eq!(counts.entries_in, counts.entries_dropped + out.len() as u64);
        Ok((out, counts, passed))
    }
}

fn case(base: bool) -> Case<'static> {
    Case { retention: Retention { floor: Version(1000), snapshots: Vec::new() }, base, moving: &[] }
}

#[test]
fn a_single_version_of_one_source_passes_as_bytes() {
    for (base, entry) in [(true, put(3, 1)), (false, put(3, 1)), (false, Entry::deletion(Version(3)))] {
        let (out, counts, passed) = case(base).merge(&[&[entry]]).expect("a sound list");
        assert_eq!((out, passed), (vec![entry], true));
        assert_eq!(counts.keys_passed, 1);
    }
}

#[test]
fn a_deletion_goes_only_at_the_base_and_only_with_all_that_it_covers() {
    let deletion = Entry::deletion(Version(5));
    assert_eq!(case(true).merge(&[&[deletion]]).expect("sound").0, []);
    assert_eq!(case(true).merge(&[&[deletion], &[put(4, 1)]]).expect("sound").0, []);
    assert_eq!(case(false).merge(&[&[deletion], &[put(4, 1)]]).expect("sound").0, [deletion]);
    // A snapshot still needs what the deletion covers: the deletion stays too.
    let mut snapshot = case(true);
    snapshot.retention.snapshots.push(Version(4));
    assert_eq!(snapshot.merge(&[&[deletion], &[put(4, 1)]]).expect("sound").0, [deletion, put(4, 1)]);
}

#[test]
fn equal_versions_and_versions_out_of_order_between_sources_are_corruption() {
    for older in [5, 6] {
        let error = case(false).merge(&[&[put(5, 1)], &[put(older, 2)]]).expect_err("not older");
        assert!(error.is_corruption());
        assert!(matches!(error, Error::VersionOrder { file: FileId(2), .. }), "{error}");
    }
}

#[test]
fn damaged_lists_name_their_file() {
    let retention = case(false).retention;
    for (lists, file) in [
        (vec![&b""[..]], 1),
        (vec![b"\x0a\x02\x08\x07", b""], 2),
        (vec![b"\x0a\x02\x08\x07", b"\x0a\x04\x08\x03\x10\x01"], 2),
        (vec![b"\x0a\x04\x08\x03\x20\x01"], 1),
        (vec![b"\x0a\x02\x08\x07\x0a\x02\x08\x07"], 1),
    ] {
        let mut merger = KeyValueMerger::new(&retention, true, &[]);
        let lists = lists.into_iter().enumerate().map(|(index, list)| (FileId(index as u64 + 1), list));
        let error = merger.merge(b"key", lists, &mut ToHundred::default()).expect_err("damage");
        assert!(matches!(error, Error::Entries { file: FileId(found), .. } if found == file), "{error}");
    }
}

#[test]
fn only_kept_rows_of_moving_rowsets_are_moved() {
    let moving = [RowsetId(2), RowsetId(4)];
    let mut case = Case { moving: &moving, ..case(false) };
    case.retention.snapshots.push(Version(6));
    let (out, counts, _) = case.merge(&[&[put(9, 2), put(8, 4)], &[put(6, 3)], &[put(5, 4)]]).expect("sound");
    assert_eq!(out, [Entry::put(Version(9), at(100, 1)), put(6, 3)]);
    assert_eq!((counts.entries_moved, counts.entries_dropped), (1, 2));
    assert_eq!(counts.rowsets_in.into_list(), [(RowsetId(2), 1), (RowsetId(3), 1), (RowsetId(4), 2)]);

    let (out, counts, passed) = case.merge(&[&[put(9, 4)]]).expect("sound");
    assert_eq!((out, passed), (vec![Entry::put(Version(9), at(100, 1))], false));
    assert_eq!(counts.entries_moved, 1);

    let moving = [RowsetId(4), RowsetId(100)];
    let error = Case { moving: &moving, ..case }.merge(&[&[put(9, 4)]]).expect_err("moved in circles");
    assert!(matches!(error, Error::RelocatedInto { rowset: RowsetId(100) }));
}
