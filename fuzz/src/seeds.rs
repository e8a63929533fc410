//! The inputs that the corpus begins with: real bytes, made by the engine's own writers, always the same.
//!
//! Written to `fuzz/corpus` when `NYALA_FUZZ_WRITE` is set. What a seed says is whole unless its name begins with
//! `damaged`: a test holds the corpus to that, so that a change of a format cannot leave a corpus of refused inputs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::{FileId, Location, RowId, RowsetId, Version};
use nyala::{ColumnType, Schema, Type, Value, fuzzing};
use pkindex::{Entry, wire};
use sstable::{Compression, KeyedWriter, OrdinalWriter, WriterOptions};
use wal::{Flavor, Log, Options, Record};

use crate::base;
use crate::disk::Disk;
use crate::fix::log::{self, OwnedRecord, Segment};
use crate::targets::directory::change::{Change, Op, piece_names};

/// One input.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The target's name.
    pub target: &'static str,
    /// The file's name in the corpus.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Inputs of one target, by name.
type Named = Vec<(String, Vec<u8>)>;

/// All of them.
#[must_use]
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target, make: fn(&mut Named)| {
        let mut made = Named::new();
        make(&mut made);
        seeds.extend(made.into_iter().map(|(name, bytes)| Seed { target, name, bytes }));
    };
    add("wal", wal);
    add("sstable", sstables);
    add("manifest", manifests);
    add("key", keys);
    add("entries", entries);
    add("row", rows);
    add("batch", batches);
    add("directory", directories);
    for (target, name, bytes) in regressions() {
        seeds.push(Seed { target, name: format!("damaged-{name}"), bytes });
    }
    seeds
}

fn with_flags(flags: u8, bytes: &[u8]) -> Vec<u8> {
    [&[flags], bytes].concat()
}

/// The files of a log of records with these lengths; what is synced is attested by a later record.
fn log_files(lengths: &[usize], flavor: Flavor) -> Vec<(u64, Vec<u8>)> {
    let disk = Disk::new();
    let options = Options {
        fs: Arc::new(disk.clone()),
        dir: "/log".into(),
        flavor,
        segment_bytes: 600,
        record_bytes_max: 1 << 20,
        trickle_bytes: 0,
    };
    let next = AtomicU64::new(2);
    let next_id = move || FileId(next.fetch_add(1, Ordering::Relaxed));
    let log = Log::create(options, FileId(1), Box::new(next_id)).expect("a good disk");
    for (number, length) in lengths.iter().enumerate() {
        let body: Vec<u8> = (0..*length).map(|at| (at * 7 + number + 1).to_le_bytes()[0]).collect();
        let first_version = Version(10 * (number as u64 + 1));
        let appended = log.append(&[Record { first_version, last_version: first_version, body: &body }]);
        assert!(appended.error.is_none());
        if number % 3 == 1 {
            log.sync(appended.end).expect("a good disk");
        }
    }
    log.attest().expect("a good disk");
    let of_segment = |segment: FileId| {
        let path = wal::path(Path::new("/log"), flavor, segment);
        (segment.0, disk.files().remove(&path).expect("a segment of the log"))
    };
    log.segments().into_iter().map(|segment| of_segment(segment.id)).collect()
}

fn wal(seeds: &mut Named) {
    for (name, lengths) in [
        ("empty", &[][..]),
        ("one", &[20]),
        ("several", &[0, 1, 40, 100]),
        ("segments", &[100, 200, 300, 50, 60, 0, 10]),
        ("long", &[900, 10]),
    ] {
        let files = log_files(lengths, Flavor::Wal);
        let input = log::to_input(&files);
        seeds.push((format!("{name}-as-it-lies"), with_flags(0, &input)));
        seeds.push((format!("{name}-checksums"), with_flags(1, &input)));
        seeds.push((format!("{name}-places"), with_flags(3, &input)));
        seeds.push((format!("{name}-lengths"), with_flags(7, &input)));
        seeds.push((format!("{name}-limit"), with_flags(11, &input)));
    }
    let mut torn = log_files(&[30, 500, 40], Flavor::Wal);
    let last = &mut torn.last_mut().expect("a segment").1;
    last.truncate(150);
    seeds.push(("torn".to_owned(), with_flags(0, &log::to_input(&torn))));
    let mut damaged = log_files(&[30, 40], Flavor::Wal);
    damaged[0].1[70] ^= 1;
    seeds.push(("damaged-head".to_owned(), with_flags(0, &log::to_input(&damaged))));
    let attested = [&[17][..], &1u32.to_le_bytes(), &64u32.to_le_bytes()].concat();
    seeds.push((
        "attested".to_owned(),
        [&attested[..], &log::to_input(&log_files(&[30], Flavor::Wal))].concat(),
    ));
}

fn sstables(seeds: &mut Named) {
    let small = WriterOptions {
        block_bytes: 128,
        index_block_bytes: 96,
        restart_interval: 4,
        ..WriterOptions::default()
    };
    let plain = WriterOptions { filter: false, ..small.clone() };
    let mut put = |name: &str, flags: u8, bytes: &[u8]| {
        seeds.push((format!("{name}-as-it-lies"), with_flags(flags, bytes)));
        seeds.push((format!("{name}-fixed"), with_flags(flags | 2, bytes)));
    };
    for (name, entries, options) in [
        ("keyed-empty", 0, &small),
        ("keyed-one", 1, &small),
        ("keyed-filter", 60, &small),
        ("keyed-plain", 40, &plain),
        ("keyed-default", 80, &WriterOptions::default()),
    ] {
        put(name, 0, &keyed(entries, options));
    }
    let raw = WriterOptions { compression: Compression::None, ..small.clone() };
    for (name, rows, options) in [
        ("ordinal-empty", 0, &small),
        ("ordinal-one", 1, &small),
        ("ordinal-lz4", 60, &small),
        ("ordinal-raw", 40, &raw),
        ("ordinal-default", 80, &WriterOptions::default()),
    ] {
        put(name, 1, &ordinal(rows, options));
    }
    seeds.push(("keyed-uncached".to_owned(), with_flags(6, &keyed(50, &small))));
    seeds.push(("ordinal-uncached".to_owned(), with_flags(7, &ordinal(50, &small))));
}

fn keyed(entries: u32, options: &WriterOptions) -> Vec<u8> {
    let disk = Disk::new();
    let path = Path::new("/7.sst");
    let mut writer = KeyedWriter::create(&disk, path, FileId(7), options).expect("a good disk");
    for number in 0..entries {
        let key = format!("key {:03} of {}", number, "a".repeat(number as usize % 7));
        let mut value = Vec::new();
        let location = Location { rowset: RowsetId(number / 10), rowid: RowId(number) };
        wire::encode(&[Entry::put(Version(u64::from(number) + 1), location)], &mut value);
        writer.add(key.as_bytes(), None, &value).expect("keys ascend");
    }
    writer.finish(b"what its owner says").expect("a good disk");
    disk.files().remove(path).expect("just written")
}

fn ordinal(rows: u32, options: &WriterOptions) -> Vec<u8> {
    let disk = Disk::new();
    let path = Path::new("/7.sst");
    let mut writer = OrdinalWriter::create(&disk, path, FileId(7), options).expect("a good disk");
    for number in 0..rows {
        let row = "row ".repeat(number as usize % 6);
        writer.push(&[&number.to_le_bytes()[..], row.as_bytes()]).expect("it fits");
    }
    writer.finish(b"").expect("a good disk");
    disk.files().remove(path).expect("just written")
}

/// The bodies of the edits of a base's manifest.
fn edits(base: &base::Base) -> Vec<Vec<u8>> {
    let (name, bytes) = base.files.iter().find(|(name, _)| name.ends_with(".manifest")).expect("it has one");
    let id = name.trim_end_matches(".manifest").parse().expect("a number");
    let segment = Segment::take_apart(bytes, log::Flavor::Manifest, id).expect("a whole manifest");
    segment.records.into_iter().map(|record| record.body).collect()
}

fn manifests(seeds: &mut Named) {
    for (number, base) in base::all().iter().enumerate() {
        let bodies = edits(base);
        let mut input = vec![1];
        for body in &bodies {
            input.extend_from_slice(&u16::try_from(body.len()).expect("a short edit").to_le_bytes());
            input.extend_from_slice(body);
        }
        seeds.push((format!("edits-{number}"), input));
        let record = |body| OwnedRecord { kind: log::DATA, first_version: 0, attested: (3, 64), body };
        let records = bodies.into_iter().map(record).collect();
        let segment = Segment { predecessor: (0, 0), records, tail: vec![0; 9] };
        let files = [(3, segment.put_together(log::Flavor::Manifest, 3))];
        let input = log::to_input(&files);
        seeds.push((format!("segments-{number}-as-it-lies"), with_flags(0, &input)));
        seeds.push((format!("segments-{number}-fixed"), with_flags(4 | 8, &input)));
    }
    for manifest in [1, 4711, u64::MAX] {
        let line = fuzzing::current_line(manifest);
        seeds.push((format!("current-{manifest}-as-it-lies"), with_flags(2, line.as_bytes())));
        seeds.push((format!("current-{manifest}-fixed"), with_flags(6, line.as_bytes())));
    }
}

/// Columns as [`crate::columns::column`] reads them: number of the type, flags, and two more for a decimal.
const COLUMNS: [&[u8]; 20] = [
    &[0, 0],
    &[1, 0],
    &[2, 2],
    &[3, 0],
    &[4, 2],
    &[5, 0],
    &[6, 0],
    &[7, 2],
    &[8, 0],
    &[9, 0],
    &[10, 2],
    &[11, 0, 8, 2],
    &[11, 2, 17, 4],
    &[11, 0, 37, 10],
    &[12, 0],
    &[13, 2],
    &[14, 0],
    &[14, 2],
    &[15, 0],
    &[15, 3],
];

fn keys(seeds: &mut Named) {
    let filler: Vec<u8> = (0..96u8).map(|at| at.wrapping_mul(37)).collect();
    for (number, first) in COLUMNS.iter().enumerate() {
        let second = COLUMNS[(number + 7) % COLUMNS.len()];
        // One column, and two, both keys as values.
        let values = [b"\x05\x00ab\0c!\x02\x00zz", &filler[..]].concat();
        seeds.push((format!("values-{number}"), [&[0], *first, &[0], &values].concat()));
        seeds.push((format!("values-{number}-and-another"), [&[1], *first, second, &[0], &values].concat()));
    }
    for (name, columns, key) in [
        (
            "golden-tuple",
            &[&[1, 0][..], &[14, 0], &[3, 0]][..],
            &[0x7b, 0x61, 0x62, 0x00, 0x01, 0x63, 0x00, 0x00, 0x80, 0x00, 0x00, 0x07][..],
        ),
        ("golden-empty-text", &[&[14, 0], &[4, 0]], &[0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ("golden-date", &[&[12, 0]], &[0x80, 0, 0x48, 0x14]),
        ("golden-decimal", &[&[11, 0, 8, 2]], &[0x7f, 0xff, 0xcf, 0xc7]),
    ] {
        let mut input = vec![u8::try_from(columns.len() - 1).expect("few")];
        columns.iter().for_each(|column| input.extend_from_slice(column));
        input.push(3);
        for _ in 0..2 {
            input.extend_from_slice(&u16::try_from(key.len()).expect("short").to_le_bytes());
            input.extend_from_slice(key);
        }
        seeds.push((name.to_owned(), input));
    }
}

fn entries(seeds: &mut Named) {
    let at = |rowset, rowid| Location { rowset: RowsetId(rowset), rowid: RowId(rowid) };
    for (name, list) in [
        ("put", vec![Entry::put(Version(5), at(0, 0))]),
        ("deletion", vec![Entry::deletion(Version(300))]),
        (
            "several",
            vec![
                Entry::deletion(Version(1 << 40)),
                Entry::put(Version(77), at(3, 70_000)),
                Entry::put(Version(1), at(1, 2)),
            ],
        ),
        (
            "greatest",
            vec![Entry::put(Version(u64::MAX), at(u32::MAX, u32::MAX)), Entry::deletion(Version(1))],
        ),
    ] {
        let mut bytes = Vec::new();
        wire::encode(&list, &mut bytes);
        seeds.push((format!("list-{name}"), with_flags(0, &bytes)));
    }
    for (number, base) in base::all().iter().enumerate() {
        let index_file = base.files.iter().find(|(name, _)| name.ends_with(".idx"));
        let Some((name, bytes)) = index_file else { continue };
        let disk = Disk::with([("/file".into(), bytes.clone())]);
        let id = FileId(name.trim_end_matches(".idx").parse().expect("a number"));
        let cache = sstable::Cache::new(0);
        let reader =
            sstable::KeyedReader::open(&disk, Path::new("/file"), id, cache, None).expect("a base is whole");
        let keys = u8::try_from(reader.entries()).expect("a small base");
        // Its keys are not those of the target's file: it is refused at the last step.
        seeds.push((format!("damaged-properties-{number}"), [&[1, keys], reader.user_properties()].concat()));
    }
    // One step beside what is accepted.
    let near: [(&str, &[u8]); 8] = [
        ("equal-versions", b"\x0a\x02\x08\x05\x0a\x02\x08\x05"),
        ("ascending-versions", b"\x0a\x02\x08\x05\x0a\x02\x08\x06"),
        ("version-zero", b"\x0a\x02\x08\x00"),
        ("no-version", b"\x0a\x04\x10\x01\x18\x01"),
        ("half-location", b"\x0a\x04\x08\x05\x10\x01"),
        ("long-varint", b"\x0a\x03\x08\x85\x00"),
        ("unknown-field", b"\x0a\x04\x08\x05\x20\x01"),
        ("rowset-beyond-32-bits", b"\x0a\x0a\x08\x05\x10\x80\x80\x80\x80\x10\x18\x01"),
    ];
    for (name, list) in near {
        seeds.push((format!("damaged-list-{name}"), with_flags(0, list)));
    }
    // Two keys, 0 and 1, in big-endian.
    let properties = b"\x08\x02\x10\x02\x18\x01\x20\x01\x28\x02\x3a\x04\x08\x05\x10\x01\x42\x08\0\0\0\0\0\0\0\0\x4a\x08\0\0\0\0\0\0\0\x01";
    seeds.push(("properties".to_owned(), [&[1, 2], &properties[..]].concat()));
}

fn rows(seeds: &mut Named) {
    let filler: Vec<u8> = (0..200u8).map(|at| at.wrapping_mul(29)).collect();
    for (number, first) in COLUMNS.iter().enumerate() {
        let nullable = [first[0], first[1] | 1];
        let nullable = [&nullable[..], &first[2..]].concat();
        let second = COLUMNS[(number + 5) % COLUMNS.len()];
        let values = [b"\x02\x00ab\0\x01\x00c", &filler[..]].concat();
        seeds.push((format!("values-{number}"), [&[0, 3], *first, &nullable, second, &values].concat()));
    }
    let altered = base::altered_schema();
    let length = u16::try_from(altered.len()).expect("short").to_le_bytes();
    // A name, a unit and a null, as row bytes and as values.
    let row = b"\x01\0\0\x04\0\0\0namemetre";
    seeds.push(("altered-row".to_owned(), [&[3], &length[..], &altered, row].concat()));
    seeds.push(("altered-values".to_owned(), [&[1], &length[..], &altered, &filler].concat()));
    let schema = Schema::builder()
        .key("id", Type::U64)
        .column("a", Type::I16)
        .column("b", ColumnType { ty: Type::String, nullable: true, descending: false })
        .column("c", Type::Decimal { precision: 9, scale: 2 }.nullable())
        .column("d", Type::Binary)
        .build()
        .expect("a legal schema");
    let bytes = fuzzing::encode_schema(&schema);
    let prefix = [&u16::try_from(bytes.len()).expect("short").to_le_bytes(), &bytes[..]].concat();
    for (name, values) in [
        (
            "full",
            vec![
                Value::Int(-3),
                Value::String("text"),
                Value::Decimal(decimal(12_345)),
                Value::Binary(b"\0\xff"),
            ],
        ),
        ("nulls", vec![Value::Int(0), Value::Null, Value::Null, Value::Binary(b"")]),
    ] {
        let row = fuzzing::encode_row(&schema, &values).expect("they fit");
        seeds.push((format!("schema-{name}"), [&[3], &prefix[..], &row].concat()));
        // One step beside: a bit of the padding, a null with a value, a text that ends before it begins.
        let mut padding = row.clone();
        padding[0] ^= 0x80;
        seeds.push((format!("damaged-padding-{name}"), [&[3], &prefix[..], &padding].concat()));
        let mut value = row.clone();
        value[0] ^= 0x02;
        seeds.push((format!("damaged-null-{name}"), [&[3], &prefix[..], &value].concat()));
        seeds.push((format!("damaged-long-{name}"), [&[3], &prefix[..], &row[..row.len() / 2]].concat()));
    }
}

fn decimal(unscaled: i128) -> nyala::Decimal {
    nyala::Decimal { unscaled, scale: 2 }
}

fn batches(seeds: &mut Named) {
    let put = fuzzing::Op { kind: 1, table: 3, schema: 1, key: b"key", row: b"a row" };
    let delete = fuzzing::Op { kind: 2, row: b"", ..put };
    let empty = fuzzing::Op { key: b"", row: b"", ..put };
    let update = fuzzing::Op { kind: 3, ..put };
    for (name, ops) in [
        ("nothing", vec![]),
        ("put", vec![put]),
        ("delete", vec![delete]),
        ("several", vec![put, delete, empty, put]),
        ("update", vec![update]),
    ] {
        seeds.push((name.to_owned(), fuzzing::encode_batch(&ops)));
    }
    for (number, base) in base::all().iter().enumerate() {
        for (name, bytes) in base.files.iter().filter(|(name, _)| name.ends_with(".wal")) {
            let id = name.trim_end_matches(".wal").parse().expect("a number");
            let Some(segment) = Segment::take_apart(bytes, log::Flavor::Wal, id) else { continue };
            if let Some(record) = segment.records.iter().rfind(|record| record.kind == log::DATA) {
                seeds.push((format!("real-{number}-{id}"), record.body.clone()));
            }
        }
    }
}

/// A base taken apart, with bytes written over a piece whose name begins and ends like this; the last such piece.
#[must_use]
pub fn behind(base: usize, piece: (&str, &str), op: Op, at: u16, bytes: &[u8]) -> Vec<u8> {
    let names = piece_names(&base::all()[base].files);
    let is_it = |name: &&String| name.contains(piece.0) && name.contains(piece.1);
    let name = names.iter().rfind(is_it).expect("the base has such a piece");
    let piece = names.iter().position(|other| other == name).expect("it was found");
    let change = Change { piece: u8::try_from(piece).expect("few"), op, at, bytes };
    [&[u8::try_from(base).expect("few"), 3], &change.to_input()[..]].concat()
}

/// An index file of the first base says that its entries point into a rowset of another number.
fn pointing_nowhere() -> Vec<u8> {
    // Field 7 of the properties: its length, then the rowset as field 1.
    let field = |bytes: &[u8]| bytes.windows(3).rposition(|bytes| matches!(bytes, [0x3a, 4, 0x08]));
    let mut files = base::all()[0].files.iter().filter(|(name, _)| name.ends_with(".idx")).rev();
    let (name, at) = files.find_map(|(name, bytes)| Some((name, field(bytes)? + 3))).expect("one does");
    behind(0, (name, ""), Op::Set, u16::try_from(at).expect("a small file"), &[0x7f])
}

/// In the first index file of the second base a byte of a key grows by one.
fn keys_out_of_order() -> Vec<u8> {
    let names = piece_names(&base::all()[1].files);
    let piece = names.iter().position(|name| name.ends_with(".idx")).expect("one is there");
    let change = Change { piece: u8::try_from(piece).expect("few"), op: Op::Add, at: 40, bytes: &[1] };
    [&[1, 3], &change.to_input()[..]].concat()
}

/// Inputs that once found a fault, by what was wrong.
#[must_use]
pub fn regressions() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let far = u64::MAX.to_le_bytes();
    let back = 1u64.to_le_bytes();
    vec![
        ("manifest", "current-with-a-word-more", with_flags(6, b"nyala 1 0 4711 more 00000000\n")),
        ("manifest", "current-with-a-leading-zero", with_flags(6, b"nyala 1 0 04711 00000000\n")),
        ("manifest", "current-of-version-zero", with_flags(6, b"nyala 0 0 4711 00000000\n")),
        // Field 99, a number: it was skipped, and the next manifest was written without it.
        ("manifest", "edit-with-an-unknown-field", with_flags(1, &[3, 0, 0x98, 0x06, 1])),
        // The mark at the end of the first record's head, behind a checksum that is right.
        ("wal", "head-without-its-mark", {
            let mut input = with_flags(1, &log::to_input(&log_files(&[20], Flavor::Wal)));
            input[1 + 5 + log::HEADER_BYTES + log::HEAD_BYTES - 1] ^= 1;
            input
        }),
        ("directory", "log-versions-go-back", behind(2, (".wal", "head"), Op::Set, 1, &back)),
        ("directory", "log-versions-end", behind(2, (".wal", "head"), Op::Set, 1, &far)),
        // An index file says that its entries point into another rowset, which is not there. A compaction then
        // panicked.
        ("directory", "index-file-points-nowhere", pointing_nowhere()),
        // A byte of an index block grows by one, and keys do not ascend any more. A compaction then panicked.
        ("directory", "index-keys-out-of-order", keys_out_of_order()),
        // "Bonn" becomes "Bo", and two bytes are left over at the end of the key.
        ("directory", "key-with-bytes-too-many", vec![5, 3, 10, 1, 1, 0x55, 2, 0, 0]),
    ]
}

fn directories(seeds: &mut Named) {
    for number in 0..base::all().len() {
        let base = u8::try_from(number).expect("few");
        for (name, flags) in [("as-it-lies", 0), ("apart", 1), ("written", 2), ("apart-written", 3)] {
            seeds.push((format!("base-{number}-{name}"), vec![base, flags]));
        }
        for (index, op) in Op::ALL.into_iter().enumerate() {
            for flags in [0, 3] {
                let piece = u8::try_from(index).expect("few");
                let at = u16::try_from(31 * (index + 1)).expect("few");
                let change = Change { piece, op, at, bytes: &[1, 2] };
                let input = [&[base, flags], &change.to_input()[..]].concat();
                seeds.push((format!("damaged-{number}-{flags}-{index}"), input));
            }
        }
    }
}
