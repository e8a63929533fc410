//! The records in the arena: a key with its versions.
//!
//! The first version of a key lies beside the key; later ones form a chain, newest first, that ends at the first.
//! So the tree has one slot for each key, however often the key is written, and an overwrite moves nothing.
//!
//! ```text
//! first record of a key            later record
//!  0  version         u64           0  version        u64
//!  8  shape           u32           8  shape          u32      row bytes; the top bit says deleted
//! 12  schema version  u32          12  schema version u32      0 if deleted
//! 16  newest record   u32          16  older record   u32      addresses
//! 20  key bytes       u16          20  jump           u32      a record further down, or the older one
//! 22  key, row                     24  depth          u32      steps down to the first record
//!                                  28  row
//! ```
//!
//! Numbers are little-endian. The jumps are those of a skew-binary list: finding a version takes a number of steps
//! logarithmic in the versions of the key, for one more address in each record.
//!
//! Invariant: versions strictly descend along a chain.

use codec::{SchemaVersion, Version};

use super::MemOp;
use super::arena::{Address, Arena};

const FIRST_BYTES: usize = 22;
const LATER_BYTES: usize = 28;
const DELETED: u32 = 1 << 31;

/// Writes the first record of `key`.
#[inline]
pub(super) fn push_first(arena: &mut Arena, key: &[u8], version: Version, op: MemOp<'_>) -> Address {
    let key_len = u16::try_from(key.len()).expect("keys are at most KEY_BYTES_MAX, checked at the door");
    let (shape, schema, row) = describe(op);
    let (address, out) = arena.allocate(FIRST_BYTES + key.len() + row.len());
    let mut header = [0; FIRST_BYTES];
    header[0..8].copy_from_slice(&version.0.to_le_bytes());
    header[8..12].copy_from_slice(&shape.to_le_bytes());
    header[12..16].copy_from_slice(&schema.to_le_bytes());
    header[16..20].copy_from_slice(&address.to_bytes());
    header[20..22].copy_from_slice(&key_len.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(key);
    out.extend_from_slice(row);
    address
}

/// Writes a version of the key at `first` that is newer than all it has.
pub(super) fn push_later(arena: &mut Arena, first: Address, version: Version, op: MemOp<'_>) {
    let older = newest(arena, first);
    let newest_version = version_of(arena, older);
    assert!(newest_version < version, "versions ascend: {version} was applied after {newest_version}");
    let (jump, depth) = descent(arena, first, older);
    let (shape, schema, row) = describe(op);
    let (address, out) = arena.allocate(LATER_BYTES + row.len());
    let mut header = [0; LATER_BYTES];
    header[0..8].copy_from_slice(&version.0.to_le_bytes());
    header[8..12].copy_from_slice(&shape.to_le_bytes());
    header[12..16].copy_from_slice(&schema.to_le_bytes());
    header[16..20].copy_from_slice(&older.to_bytes());
    header[20..24].copy_from_slice(&jump.to_bytes());
    header[24..28].copy_from_slice(&depth.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(row);
    arena.tail_mut(first)[16..20].copy_from_slice(&address.to_bytes());
}

fn describe(op: MemOp<'_>) -> (u32, u32, &[u8]) {
    match op {
        MemOp::Put { schema, row } => {
            let len = u32::try_from(row.len()).ok().filter(|len| len & DELETED == 0);
            (len.expect("rows are at most ROW_BYTES_MAX, checked at the door"), schema.0, row)
        }
        MemOp::Delete => (DELETED, 0, &[]),
    }
}

/// The key whose first record is at `first`.
#[inline]
pub(super) fn key(arena: &Arena, first: Address) -> &[u8] {
    let tail = arena.tail(first);
    let len = u16::from_le_bytes([tail[20], tail[21]]);
    &tail[FIRST_BYTES..FIRST_BYTES + usize::from(len)]
}

/// The newest version of the key at `first` that is not above `at`.
#[inline]
pub(super) fn visible(arena: &Arena, first: Address, at: Version) -> Option<(Version, MemOp<'_>)> {
    let mut record = newest(arena, first);
    loop {
        let version = version_of(arena, record);
        if version <= at {
            return Some((version, op(arena, first, record)));
        }
        if record == first {
            return None;
        }
        record = towards(arena, record, at);
    }
}

/// A record below a later one that is too new, and not below the newest at or below `at`.
fn towards(arena: &Arena, record: Address, at: Version) -> Address {
    let (older, jump, _) = links(arena, record);
    if version_of(arena, jump) > at { jump } else { older }
}

/// The versions of one key, newest first.
pub(super) struct Versions<'a> {
    arena: &'a Arena,
    first: Address,
    next: Option<Address>,
}

/// All versions of the key at `first`.
pub(super) fn all(arena: &Arena, first: Address) -> Versions<'_> {
    Versions { arena, first, next: Some(newest(arena, first)) }
}

impl<'a> Iterator for Versions<'a> {
    type Item = (Version, MemOp<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let record = self.next?;
        self.next = (record != self.first).then(|| links(self.arena, record).0);
        Some((version_of(self.arena, record), op(self.arena, self.first, record)))
    }
}

fn newest(arena: &Arena, first: Address) -> Address {
    Address::from_bytes(four(arena.tail(first), 16))
}

fn version_of(arena: &Arena, record: Address) -> Version {
    let bytes = arena.tail(record).first_chunk().expect("a record begins with its version");
    Version(u64::from_le_bytes(*bytes))
}

#[inline]
fn op(arena: &Arena, first: Address, record: Address) -> MemOp<'_> {
    let tail = arena.tail(record);
    let shape = u32::from_le_bytes(four(tail, 8));
    if shape & DELETED != 0 {
        return MemOp::Delete;
    }
    let schema = SchemaVersion(u32::from_le_bytes(four(tail, 12)));
    let start = if record == first {
        FIRST_BYTES + usize::from(u16::from_le_bytes([tail[20], tail[21]]))
    } else {
        LATER_BYTES
    };
    MemOp::Put { schema, row: &tail[start..start + shape as usize] }
}

/// Older record, jump and depth of a later record.
fn links(arena: &Arena, record: Address) -> (Address, Address, u32) {
    let tail = arena.tail(record);
    let older = Address::from_bytes(four(tail, 16));
    let jump = Address::from_bytes(four(tail, 20));
    (older, jump, u32::from_le_bytes(four(tail, 24)))
}

/// Jump and depth of a record that is to stand above `older`: it jumps past two jumps of equal length, and else
/// one step.
fn descent(arena: &Arena, first: Address, older: Address) -> (Address, u32) {
    let jump_and_depth = |record| {
        if record == first {
            return (first, 0);
        }
        let (_, jump, depth) = links(arena, record);
        (jump, depth)
    };
    let (jump, depth) = jump_and_depth(older);
    let (jump_jump, jump_depth) = jump_and_depth(jump);
    let (_, jump_jump_depth) = jump_and_depth(jump_jump);
    let target = if depth - jump_depth == jump_depth - jump_jump_depth { jump_jump } else { older };
    (target, depth + 1)
}

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    *bytes[at..].first_chunk().expect("records are longer than their numbers")
}

#[cfg(test)]
mod tests;
