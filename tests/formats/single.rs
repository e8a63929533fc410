//! Each kind of file, opened by the crate that owns its format, without an engine.

use std::sync::Arc;

use codec::FileId;
use nyala::vfs::{Fs, OsFs};
use sstable::{Cache, KeyedReader, OrdinalReader};

use crate::fixtures::Fixture;

fn id(name: &str) -> FileId {
    FileId(name.split('.').next().and_then(|number| number.parse().ok()).expect("a number"))
}

#[test]
fn every_index_file_opens_as_an_sstable_and_as_entries() {
    let mut blocks = 0;
    for fixture in Fixture::all() {
        let dir = fixture.unpack();
        for name in fixture.names_with(".idx") {
            let path = dir.path().join(name);
            let open = || KeyedReader::open(&OsFs, &path, id(name), Cache::new(1 << 20), None);
            let reader = open().unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
            let report = reader.verify().unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
            assert_eq!((report.bytes, report.filtered), (reader.file_len(), reader.entries()));
            blocks += report.blocks;
            let properties =
                pkindex::Properties::decode(id(name), reader.user_properties()).expect("healthy");
            let (mut iter, mut keys, mut entries) = (reader.iter(), 0, Vec::new());
            iter.seek_to_first().expect("healthy");
            assert_eq!(iter.key(), properties.first_key);
            while iter.valid() {
                pkindex::wire::decode(iter.value(), &mut entries).expect("a list of versions");
                let found = reader.get(iter.key(), codec::hash_key(iter.key())).expect("healthy");
                assert_eq!(found.expect("a key that is there").bytes(), iter.value());
                keys += 1;
                iter.next().expect("healthy");
            }
            assert_eq!((keys, entries.len() as u64), (properties.keys, properties.entries));
        }
    }
    assert!(blocks > 50, "{blocks} blocks in all index files");
}

#[test]
fn every_rowset_opens_as_an_sstable() {
    let mut blocks = 0;
    for fixture in Fixture::all() {
        let dir = fixture.unpack();
        for name in fixture.names_with(".row") {
            let path = dir.path().join(name);
            let reader = OrdinalReader::open(&OsFs, &path, id(name), Cache::new(1 << 20), None)
                .unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
            let report = reader.verify().unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
            assert_eq!((report.bytes, report.entries), (reader.file_len(), u64::from(reader.rows())));
            blocks += report.blocks;
        }
    }
    assert!(blocks > 50, "{blocks} blocks in all rowsets");
}

#[test]
fn every_log_and_every_manifest_opens_as_a_log() {
    let (mut records, mut segments) = (0, [0, 0]);
    for fixture in Fixture::all() {
        let dir = fixture.unpack();
        for (kind, flavor, ending) in [(0, wal::Flavor::Wal, ".wal"), (1, wal::Flavor::Manifest, ".manifest")]
        {
            let options = wal::Options {
                fs: Arc::new(OsFs) as Arc<dyn Fs>,
                dir: dir.path().to_owned(),
                flavor,
                segment_bytes: 64 << 10,
                record_bytes_max: 1 << 30,
                trickle_bytes: 0,
            };
            let present: Vec<FileId> = fixture.names_with(ending).map(|name| id(name)).collect();
            let start = *present.iter().min().expect("there is one");
            let scan = wal::scan(&options, start, &present)
                .unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
            assert_eq!(scan.torn.is_some(), fixture.name == "torn" && kind == 0, "{}", fixture.name);
            segments[kind] = segments[kind].max(scan.segments.len());
            let mut replay = scan.replay();
            while replay.next().expect("healthy").is_some() {
                records += 1;
            }
        }
    }
    assert!(records > 100, "{records} records in all logs");
    assert!(segments[0] > 2 && segments[1] > 1, "{segments:?} segments in a log and a manifest, at most");
}
