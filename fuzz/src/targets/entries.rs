//! The value of a key in an index file, and the properties of such a file.
//!
//! Input: a byte of flags, then bytes. Even: an `IndexValuesWithVer`. Odd: an `IndexFileProperties`, as the properties
//! of a file whose keys and entries stand before it: a byte of how many keys.
//!
//! Asked of a list: what `wire` accepts is what protobuf accepts, with the same meaning; it is the one form that either
//! encodes; and every list that protobuf reads, that makes sense and that has that form is accepted. Peeking and
//! looking for a version give what decoding gives. Asked of properties: no file that opens contradicts them.

use std::path::Path;

use codec::{FileId, Version};
use pkindex::wire::{self, Peek};
use pkindex::{Entry, IndexFile};
use prost::Message;
use sstable::{Cache, KeyedWriter, WriterOptions};

use crate::Verdict;
use crate::disk::Disk;
use crate::input::Input;

#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]
pub(crate) mod pb {
    include!("../../../pkindex/src/pb/index.rs");
}

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 { list(input.rest()) } else { properties(input) }
}

fn list(bytes: &[u8]) -> Verdict {
    let mut entries = Vec::new();
    let decoded = wire::decode(bytes, &mut entries);
    let message = pb::IndexValuesWithVer::decode(bytes);
    if decoded.is_ok() {
        let mut encoded = Vec::new();
        wire::encode(&entries, &mut encoded);
        assert_eq!(encoded, bytes, "there is one form for a list");
        let message = message.as_ref().expect("protobuf reads what wire reads");
        let meant: Option<Vec<Entry>> = message.values.iter().map(entry).collect();
        assert_eq!(meant.as_ref(), Some(&entries), "protobuf means the same");
        assert_eq!(message.encode_to_vec(), bytes, "protobuf writes the same");
    } else {
        assert!(entries.is_empty(), "an error leaves nothing behind");
        let is_sound = message.is_ok_and(|message| {
            let meant: Option<Vec<Entry>> = message.values.iter().map(entry).collect();
            let descends =
                |entries: Vec<Entry>| entries.windows(2).all(|pair| pair[0].version > pair[1].version);
            message.encode_to_vec() == bytes && !bytes.is_empty() && meant.is_some_and(descends)
        });
        assert!(!is_sound, "wire refuses a sound list");
    }
    ask(bytes, decoded.is_ok().then_some(&entries));
    Verdict::of(&decoded)
}

fn entry(value: &pb::IndexValueWithVer) -> Option<Entry> {
    let version = Version(value.version);
    match (value.version, value.rowset, value.rowid) {
        (0, ..) => None,
        (_, None, None) => Some(Entry::deletion(version)),
        (_, Some(rowset), Some(rowid)) => {
            let location = codec::Location { rowset: codec::RowsetId(rowset), rowid: codec::RowId(rowid) };
            Some(Entry::put(version, location))
        }
        _ => None,
    }
}

/// Peeking and looking for versions, against all entries. Both read from the front and see later damage late or never,
/// so they may give an answer where decoding gives none.
fn ask(bytes: &[u8], entries: Option<&Vec<Entry>>) {
    let peeked = wire::peek(bytes);
    let versions = [0, 1, 2, 1 << 20, u64::MAX / 2, u64::MAX].into_iter().map(Version);
    let Some(entries) = entries else {
        for version in versions {
            let _ = wire::visible(bytes, version);
        }
        return;
    };
    match peeked.expect("a sound list has a front") {
        Peek::One(entry) => assert_eq!(entries[..], [entry]),
        Peek::Several(entry) => assert!(entries.len() > 1 && entries[0] == entry),
    }
    let own = entries.iter().flat_map(|entry| [entry.version, Version(entry.version.0 - 1)]);
    for version in versions.chain(own.take(64)) {
        let expected = entries.iter().find(|entry| entry.version <= version).copied();
        assert_eq!(wire::visible(bytes, version).expect("a sound list"), expected);
    }
}

fn properties(mut input: Input<'_>) -> Verdict {
    let keys = u64::from(input.u8());
    let user = input.rest();
    let disk = Disk::new();
    let path = Path::new("/7.idx");
    let mut writer =
        KeyedWriter::create(&disk, path, FileId(7), &WriterOptions::default()).expect("a good disk");
    let mut value = Vec::new();
    wire::encode(&[Entry::deletion(Version(1))], &mut value);
    for key in 0..keys {
        writer.add(&key.to_be_bytes(), None, &value).expect("keys ascend");
    }
    let info = writer.finish(user).expect("a good disk");
    let opened =
        IndexFile::open(&disk, path, FileId(7), Cache::new(1 << 16), (info.len, info.footer_checksum));
    if let Ok(file) = &opened {
        let says = &file.properties;
        let message = pb::IndexFileProperties::decode(user).expect("protobuf reads what is accepted");
        let counted: u128 = message.rowsets.iter().map(|rowset| u128::from(rowset.entries)).sum();
        assert_eq!(says.keys, keys);
        assert_eq!(u128::from(says.entries), counted + u128::from(says.deletions));
        assert!(says.entries >= says.keys && says.has_several == (says.entries > says.keys));
        assert!(Version(0) < says.versions.0 && says.versions.0 <= says.versions.1);
        assert!(says.per_rowset.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!((&info.first_key, &info.last_key), (&says.first_key, &says.last_key));
    }
    Verdict::of(&opened)
}
