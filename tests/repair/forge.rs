//! Changes files and puts their checksums right again, so that nothing but what is meant is wrong.
//!
//! Follows `docs/file-formats.md`, and shares no code with what reads the files but the checksum itself.

use std::ops::Range;
use std::path::Path;

use codec::{FileId, Kind, checksum};
use nyala::vfs::SimFs;

use crate::support::{files, number, read};

/// What a block of an sstable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Data,
    Filter,
    Index,
    Properties,
    Root,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) part: Part,
    pub(crate) offset: usize,
    /// With the trailer of five bytes.
    pub(crate) len: usize,
}

/// The bytes of an sstable, and where its blocks lie.
pub(crate) struct Sstable {
    pub(crate) bytes: Vec<u8>,
    file: FileId,
    is_keyed: bool,
    /// In the order of the file.
    pub(crate) blocks: Vec<Block>,
}

const TRAILER: usize = 5;

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// A varint, which `at` is moved past.
fn varint(bytes: &[u8], at: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

impl Sstable {
    pub(crate) fn parse(path: &Path, bytes: Vec<u8>) -> Sstable {
        let footer = bytes.len() - 64;
        let is_keyed = bytes[10] == 1;
        let root =
            Block { part: Part::Root, offset: u64_at(&bytes, footer), len: u32_at(&bytes, footer + 8) };
        let properties = Block {
            part: Part::Properties,
            offset: u64_at(&bytes, footer + 16),
            len: u32_at(&bytes, footer + 12),
        };
        let mut table = Sstable { bytes, file: FileId(number(path)), is_keyed, blocks: Vec::new() };
        let payload = table.payload(&root).to_vec();
        let mut at = 0;
        for _ in 0..varint(&payload, &mut at) {
            let numbers: Vec<usize> = (0..6).map(|_| varint(&payload, &mut at)).collect();
            let separator = varint(&payload, &mut at);
            at += separator;
            let index = Block { part: Part::Index, offset: numbers[0], len: numbers[1] };
            let data = table.named(&index);
            table.blocks.extend(data);
            if numbers[3] > 0 {
                table.blocks.push(Block { part: Part::Filter, offset: numbers[2], len: numbers[3] });
            }
            table.blocks.push(index);
        }
        table.blocks.extend([properties, root]);
        assert!(table.blocks.is_sorted_by_key(|block| block.offset));
        table
    }

    pub(crate) fn load(disk: &SimFs, path: &Path) -> Sstable {
        Sstable::parse(path, read(disk, path))
    }

    /// The data blocks that an index partition names.
    fn named(&self, index: &Block) -> Vec<Block> {
        let payload = self.payload(index);
        if self.is_keyed {
            let entry = |entry: &Entry| {
                let (mut at, value) = (0, &payload[entry.value.clone()]);
                Block { part: Part::Data, offset: varint(value, &mut at), len: varint(value, &mut at) }
            };
            return entries(payload).iter().map(entry).collect();
        }
        let count = (payload.len() - 8) / 12;
        let offset = |n: usize| u64_at(payload, 4 * count + 8 * n);
        (0..count)
            .map(|n| Block { part: Part::Data, offset: offset(n), len: offset(n + 1) - offset(n) })
            .collect()
    }

    pub(crate) fn payload(&self, block: &Block) -> &[u8] {
        &self.bytes[block.offset..block.offset + block.len - TRAILER]
    }

    pub(crate) fn of(&self, part: Part) -> Vec<Block> {
        self.blocks.iter().copied().filter(|block| block.part == part).collect()
    }

    /// Changes a block's payload in place, and puts its checksum right.
    pub(crate) fn edit(&mut self, block: &Block, edit: impl FnOnce(&mut [u8])) {
        let end = block.offset + block.len;
        edit(&mut self.bytes[block.offset..end - TRAILER]);
        let kind = match block.part {
            Part::Data if self.is_keyed => Kind::KeyedBlock,
            Part::Data => Kind::OrdinalBlock,
            Part::Filter => Kind::FilterBlock,
            Part::Index | Part::Root => Kind::IndexBlock,
            Part::Properties => Kind::Properties,
        };
        let covered = &self.bytes[block.offset..end - 4];
        let sum = checksum(kind, self.file, block.offset as u64, &[covered]).0;
        self.bytes[end - 4..end].copy_from_slice(&sum.to_le_bytes());
    }

    pub(crate) fn footer_checksum(&self) -> [u8; 4] {
        let at = self.bytes.len() - 12;
        self.bytes[at..at + 4].try_into().expect("four bytes")
    }

    /// Puts the footer right.
    fn seal(&mut self) {
        let mut contents = 0u32;
        for block in &self.blocks {
            let end = block.offset + block.len;
            let sum: [u8; 4] = self.bytes[end - 4..end].try_into().expect("four bytes");
            let parts = [&contents.to_le_bytes()[..], &sum];
            contents = checksum(Kind::Footer, self.file, block.offset as u64, &parts).0;
        }
        let footer = self.bytes.len() - 64;
        self.bytes[footer + 40..footer + 44].copy_from_slice(&contents.to_le_bytes());
        let covered = &self.bytes[footer..footer + 52];
        let sum = checksum(Kind::Footer, self.file, footer as u64, &[covered]).0;
        self.bytes[footer + 52..footer + 56].copy_from_slice(&sum.to_le_bytes());
    }
}

/// An entry of a keyed block.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// The part of the key that stands here.
    pub(crate) rest: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The entries of a keyed block.
pub(crate) fn entries(payload: &[u8]) -> Vec<Entry> {
    let restarts = u32_at(payload, payload.len() - 4);
    let tail = payload.len() - 4 - 4 * restarts;
    let starts: Vec<usize> = (0..restarts).map(|n| u32_at(payload, tail + 4 * n)).collect();
    let mut found: Vec<Entry> = Vec::new();
    let mut at = 0;
    while at < tail {
        let is_restart = starts.contains(&at);
        let shared = varint(payload, &mut at);
        let rest = varint(payload, &mut at);
        let before = found.last();
        let value = if rest.is_multiple_of(2) || is_restart {
            varint(payload, &mut at)
        } else {
            before.expect("not the first").value.len()
        };
        let mut key = before.map_or(Vec::new(), |before| before.key[..shared].to_vec());
        let rest = at..at + rest / 2;
        key.extend_from_slice(&payload[rest.clone()]);
        let value = rest.end..rest.end + value;
        at = value.end;
        found.push(Entry { key, rest, value });
    }
    found
}

/// Changes an sstable, puts its checksums right, and those of the manifest that names it.
pub(crate) fn forge(disk: &SimFs, path: &Path, edit: impl FnOnce(&mut Sstable)) {
    let mut table = Sstable::load(disk, path);
    let before = table.footer_checksum();
    edit(&mut table);
    table.seal();
    let after = table.footer_checksum();
    disk.damage(path, |bytes| *bytes = table.bytes).expect("it is there");
    for manifest in files(disk, "manifest") {
        forge_log(disk, &manifest, |body| {
            for at in 0..body.len().saturating_sub(3) {
                if body[at..at + 4] == before {
                    body[at..at + 4].copy_from_slice(&after);
                }
            }
        });
    }
}

/// A record of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) offset: usize,
    pub(crate) body: usize,
    pub(crate) end: usize,
}

/// The records of a log segment, attestations included.
pub(crate) fn records(bytes: &[u8]) -> Vec<Record> {
    let mut found = Vec::new();
    let mut offset = 64;
    while bytes.get(offset).is_some_and(|kind| *kind == 0xd1 || *kind == 0x8e) {
        let body = offset + 54;
        let end = body + u32_at(bytes, offset + 5) + 1;
        found.push(Record { offset, body, end });
        offset = end;
    }
    found
}

/// Changes the bodies of a log segment's records, and puts their checksums right.
pub(crate) fn forge_log(disk: &SimFs, path: &Path, mut edit: impl FnMut(&mut [u8])) {
    let file = FileId(number(path));
    let is_manifest = path.extension().is_some_and(|kind| kind == "manifest");
    let kind = if is_manifest { Kind::ManifestRecord } else { Kind::LogRecord };
    disk.damage(path, |bytes| {
        for record in records(bytes) {
            edit(&mut bytes[record.body..record.end - 1]);
            let at = record.offset as u64;
            let sum = checksum(kind, file, at, &[&bytes[record.body..record.end]]).0;
            bytes[record.offset + 9..record.offset + 13].copy_from_slice(&sum.to_le_bytes());
            let head = &bytes[record.offset..record.body];
            let sum = checksum(kind, file, at, &[&head[..1], &head[5..]]).0;
            bytes[record.offset + 1..record.offset + 5].copy_from_slice(&sum.to_le_bytes());
        }
    })
    .expect("it is there");
}
