//! Changes to the files of a directory, as they lie or behind their checksums.

use std::collections::BTreeMap;

use prost::Message;

use super::flavor;
use crate::base::Files;
use crate::fix::log::{Flavor, Segment};
use crate::fix::sstable::FileKind;
use crate::input::Input;
use crate::{fix, pb};

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Which piece: a file, or behind the checksums a header or a record of a log.
    pub piece: u8,
    /// What is done.
    pub op: Op,
    /// Where in it.
    pub at: u16,
    /// The bytes that come with it.
    pub bytes: &'a [u8],
}

/// What can be done to a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The bytes are flipped into it.
    Xor,
    /// The bytes are written over what is there.
    Set,
    /// The bytes are put in.
    Insert,
    /// As many bytes as the first byte says are taken out.
    Remove,
    /// The first two bytes say from where, the third how many: copied within the piece.
    Copy,
    /// Everything from there on is cut off.
    Cut,
    /// As many bytes as the first byte says become zeros.
    Zero,
    /// The piece goes.
    Drop,
    /// The piece changes places with the one that the first byte says.
    Swap,
    /// The first byte is added to a number of eight bytes, or taken from it if it is above 127.
    Add,
    /// The piece is put behind the one that the first byte says, a second time.
    Twice,
}

impl Op {
    /// All of them, as they are numbered.
    pub const ALL: [Op; 11] = [
        Op::Xor,
        Op::Set,
        Op::Insert,
        Op::Remove,
        Op::Copy,
        Op::Cut,
        Op::Zero,
        Op::Drop,
        Op::Swap,
        Op::Add,
        Op::Twice,
    ];
}

impl<'a> Change<'a> {
    /// Piece (1 byte), operation (1), place (2), bytes with their number before (1).
    pub fn read(input: &mut Input<'a>) -> Change<'a> {
        let piece = input.u8();
        let op = Op::ALL[usize::from(input.u8()) % Op::ALL.len()];
        let at = input.u16();
        let length = input.u8();
        Change { piece, op, at, bytes: input.bytes(usize::from(length)) }
    }

    /// What [`Change::read`] reads.
    #[must_use]
    pub fn to_input(&self) -> Vec<u8> {
        let op = Op::ALL.iter().position(|op| *op == self.op).expect("all are listed");
        let mut input = vec![self.piece, u8::try_from(op).expect("few")];
        input.extend_from_slice(&self.at.to_le_bytes());
        input.push(u8::try_from(self.bytes.len()).expect("at most 255 bytes"));
        input.extend_from_slice(self.bytes);
        input
    }

    fn first(&self) -> usize {
        usize::from(self.bytes.first().copied().unwrap_or(0))
    }

    /// Changes one of the pieces, and perhaps another one.
    fn apply(&self, pieces: &mut [Vec<u8>]) {
        let count = pieces.len();
        if count == 0 {
            return;
        }
        let number = usize::from(self.piece) % count;
        match self.op {
            Op::Swap => pieces.swap(number, self.first() % count),
            Op::Twice => {
                let copy = pieces[number].clone();
                pieces[self.first() % count].extend_from_slice(&copy);
            }
            _ => self.apply_to(&mut pieces[number]),
        }
    }

    fn apply_to(&self, piece: &mut Vec<u8>) {
        let len = piece.len();
        let at = usize::from(self.at) % (len + 1);
        let count = self.first().min(len - at);
        match self.op {
            Op::Xor => piece[at..].iter_mut().zip(self.bytes).for_each(|(byte, by)| *byte ^= by),
            Op::Set => piece[at..].iter_mut().zip(self.bytes).for_each(|(byte, by)| *byte = *by),
            Op::Insert => {
                piece.splice(at..at, self.bytes.iter().copied());
            }
            Op::Remove => {
                piece.drain(at..at + count);
            }
            Op::Copy => {
                let mut from = Input::new(self.bytes);
                let from = usize::from(from.u16()) % (len + 1);
                let count = usize::from(self.bytes.get(2).copied().unwrap_or(1)).min(len - at.max(from));
                piece.copy_within(from..from + count, at);
            }
            Op::Cut => piece.truncate(at),
            Op::Zero => piece[at..at + count].fill(0),
            Op::Add => {
                if let Some(number) = piece.get_mut(at..at + 8) {
                    let by = i64::from(self.bytes.first().copied().unwrap_or(1).cast_signed());
                    let sum = u64::from_le_bytes((&*number).try_into().expect("eight bytes"));
                    number.copy_from_slice(&sum.wrapping_add_signed(by).to_le_bytes());
                }
            }
            Op::Drop | Op::Swap | Op::Twice => {}
        }
    }
}

/// The files with these changes, their checksums left as they are.
#[must_use]
pub fn as_they_lie(before: &Files, changes: &[Change<'_>]) -> Files {
    let names: Vec<String> = before.keys().cloned().collect();
    let mut pieces: Vec<Vec<u8>> = before.values().cloned().collect();
    let mut dropped = vec![false; pieces.len()];
    for change in changes {
        if change.op == Op::Drop && !pieces.is_empty() {
            dropped[usize::from(change.piece) % pieces.len()] = true;
        }
        change.apply(&mut pieces);
    }
    let files = names.into_iter().zip(pieces).zip(dropped);
    files.filter(|(_, dropped)| !dropped).map(|(file, _)| file).collect()
}

/// A file taken apart into pieces, and how it is put together again.
enum Parts {
    Whole,
    Log(Flavor, u64, Segment),
}

/// What the pieces are that a [`Change`] behind the checksums counts.
#[must_use]
pub fn piece_names(before: &Files) -> Vec<String> {
    let mut names = Vec::new();
    for (name, bytes) in before {
        match flavor(name).and_then(|(flavor, id)| Segment::take_apart(bytes, flavor, id)) {
            None => names.push(name.clone()),
            Some(segment) => {
                names.push(format!("{name} header"));
                for number in 0..segment.records.len() {
                    names.push(format!("{name} head {number}"));
                    names.push(format!("{name} body {number}"));
                }
            }
        }
    }
    names
}

/// The bytes of a record's head that can be changed: kind, first version, attested position.
const HEAD_BYTES: usize = 25;

/// The files with these changes, and everything that stands for their contents put right.
#[must_use]
pub fn behind_checksums(before: &Files, changes: &[Change<'_>]) -> Files {
    let mut pieces = Vec::new();
    let mut parts = Vec::new();
    for (name, bytes) in before {
        let log = flavor(name)
            .and_then(|(flavor, id)| Some(Parts::Log(flavor, id, Segment::take_apart(bytes, flavor, id)?)));
        let part = log.unwrap_or(Parts::Whole);
        match &part {
            Parts::Whole => pieces.push(bytes.clone()),
            Parts::Log(_, _, segment) => pieces.extend(to_pieces(segment)),
        }
        parts.push((name, part));
    }
    let mut dropped = vec![false; pieces.len()];
    for change in changes {
        if change.op == Op::Drop && !pieces.is_empty() {
            dropped[usize::from(change.piece) % pieces.len()] = true;
        }
        change.apply(&mut pieces);
    }
    let mut pieces = pieces.into_iter().zip(dropped);
    let mut files = Files::new();
    for (name, part) in parts {
        match part {
            Parts::Whole => {
                if let Some((bytes, false)) = pieces.next() {
                    files.insert(name.clone(), bytes);
                }
            }
            Parts::Log(flavor, id, mut segment) => {
                if from_pieces(&mut segment, &mut pieces) {
                    files.insert(name.clone(), segment.put_together(flavor, id));
                }
            }
        }
    }
    put_right(&mut files);
    files
}

/// The header, then for each record its head and its body.
fn to_pieces(segment: &Segment) -> Vec<Vec<u8>> {
    let mut header = segment.predecessor.0.to_le_bytes().to_vec();
    header.extend_from_slice(&segment.predecessor.1.to_le_bytes());
    let mut pieces = vec![header];
    for record in &segment.records {
        let mut head = vec![record.kind];
        for number in [record.first_version, record.attested.0, record.attested.1] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(head.len(), HEAD_BYTES);
        pieces.push(head);
        pieces.push(record.body.clone());
    }
    pieces
}

/// The other way round. False if the header was dropped, and with it the file.
fn from_pieces(segment: &mut Segment, pieces: &mut impl Iterator<Item = (Vec<u8>, bool)>) -> bool {
    let (header, is_dropped) = pieces.next().expect("as many as were made");
    let mut header = Input::new(&header);
    segment.predecessor = (header.u64(), header.u64());
    for mut record in std::mem::take(&mut segment.records) {
        let (head, head_dropped) = pieces.next().expect("as many as were made");
        let (body, body_dropped) = pieces.next().expect("as many as were made");
        let mut head = Input::new(&head);
        record.kind = head.u8();
        record.first_version = head.u64();
        record.attested = (head.u64(), head.u64());
        record.body = body;
        if !head_dropped && !body_dropped {
            segment.records.push(record);
        }
    }
    !is_dropped
}

/// Puts checksums of sstables and `CURRENT` right, and in the edits of manifests the lengths and checksums of the files
/// that they name.
fn put_right(files: &mut Files) {
    let mut known = BTreeMap::new();
    for (name, bytes) in files.iter_mut() {
        if name == "CURRENT" {
            *bytes = fix::current::fixed(bytes);
        }
        let Some((number, extension)) = name.split_once('.') else { continue };
        let Ok(id) = number.parse::<u64>() else { continue };
        let kind = match extension {
            "idx" => FileKind::Keyed,
            "row" => FileKind::Ordinal,
            _ => continue,
        };
        let sum = fix::sstable::fix(bytes, kind, id);
        known.insert(id, (bytes.len() as u64, sum));
    }
    for (name, bytes) in files.iter_mut() {
        let Some((Flavor::Manifest, id)) = flavor(name) else { continue };
        let Some(mut segment) = Segment::take_apart(bytes, Flavor::Manifest, id) else { continue };
        for record in &mut segment.records {
            let Ok(mut edit) = pb::Edit::decode(&record.body[..]) else { continue };
            let named = edit.tablets.iter_mut().flat_map(|tablet| {
                let runs = tablet.added_runs.iter_mut().flat_map(|run| &mut run.files);
                runs.chain(tablet.added_rowsets.iter_mut().filter_map(|rowset| rowset.file.as_mut()))
            });
            let mut is_changed = false;
            for file in named {
                if let Some(&(length, sum)) = known.get(&file.id) {
                    is_changed |= (file.length, file.footer_checksum) != (length, sum);
                    (file.length, file.footer_checksum) = (length, sum);
                }
            }
            if is_changed {
                record.body = edit.encode_to_vec();
            }
        }
        *bytes = segment.put_together(Flavor::Manifest, id);
    }
}
