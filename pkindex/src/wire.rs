//! The value of a key in an index file, read and written without building a message.
//!
//! Owns the bytes of `IndexValuesWithVer` (`proto/index.proto`). Never allocates, and never guesses: there is one
//! form for a list, and every other is an error, whatever protobuf would make of it.
//!
//! | bytes | what |
//! |---|---|
//! | `0a` | field 1 of the list, a message |
//! | varint, one byte | how many bytes follow for this version: 2 to 23 |
//! | `08`, varint | field 1, the version, above 0 |
//! | `10`, varint | field 2, the rowset, at most 32 bits; absent for a deletion |
//! | `18`, varint | field 3, the rowid, at most 32 bits; absent for a deletion |
//!
//! repeated for each version, newest first. Varints have their shortest form.
//!
//! Invariant: versions descend strictly, and there is at least one.
//! Invariant: `encode` gives what prost gives for the same message, and `decode` accepts nothing else.

use codec::{Location, RowId, RowsetId, Version};
use thiserror::Error;

use crate::entry::{Entry, Place};

const VALUES: u8 = 1 << 3 | 2;
const VERSION: u8 = 1 << 3;
const ROWSET: u8 = 2 << 3;
const ROWID: u8 = 3 << 3;

/// The most that one version takes: its frame, a 64-bit varint and two of 32 bits, with their tags.
pub const ENTRY_BYTES_MAX: usize = 2 + 11 + 6 + 6;

/// What is wrong with a list of entries. Offsets count from the start of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A list without a version.
    #[error("the list is empty")]
    Empty,
    /// The bytes end within a version.
    #[error("cut at byte {at}")]
    Short {
        /// Where the missing part starts.
        at: usize,
    },
    /// A varint that is too long, or too great for its field.
    #[error("a bad number at byte {at}")]
    Number {
        /// Where.
        at: usize,
    },
    /// A field that is unknown, repeated, missing or out of order.
    #[error("an unexpected field {tag:#04x} at byte {at}")]
    Field {
        /// Where.
        at: usize,
        /// The byte found there.
        tag: u8,
    },
    /// A rowset without a rowid, or a rowid without a rowset.
    #[error("half a location at byte {at}")]
    HalfLocation {
        /// Where the version starts.
        at: usize,
    },
    /// Version 0, which no operation has.
    #[error("version 0 at byte {at}")]
    VersionZero {
        /// Where the version starts.
        at: usize,
    },
    /// A version that is not older than the one before it.
    #[error("version {found} after version {before}")]
    Order {
        /// The version before.
        before: Version,
        /// The one that follows.
        found: Version,
    },
}

/// What a look at the front of a list tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// The list is this entry.
    One(Entry),
    /// The list starts with this entry and goes on.
    Several(Entry),
}

/// Looks at a list without decoding more than its newest entry.
///
/// # Errors
/// [`WireError`] if the list is empty or its first version is damaged.
#[inline]
pub fn peek(list: &[u8]) -> Result<Peek, WireError> {
    match only_entry(list) {
        Some(entry) => Ok(Peek::One(entry)),
        None => peek_with_care(list),
    }
}

/// What [`peek`] says of a list with several versions, with a number of many bytes, or with damage.
fn peek_with_care(list: &[u8]) -> Result<Peek, WireError> {
    let mut entries = Entries::new(list);
    let first = entries.next_entry()?.ok_or(WireError::Empty)?;
    Ok(if entries.at == list.len() { Peek::One(first) } else { Peek::Several(first) })
}

/// The entry of a list that is one version with a location, of at least 8 bytes, and with a version of at most five:
/// what most lists are. `None` if there is anything else about it: the other functions then tell what.
///
/// How long its numbers are cannot be foreseen, so that it is computed and not branched on.
#[inline(always)]
pub(crate) fn only_entry(list: &[u8]) -> Option<Entry> {
    let last = list.len().checked_sub(8)?;
    // The bytes from a place on, up to eight; zeros behind the end.
    let from = |at: usize| -> Option<u64> {
        let start = at.min(last);
        let bytes = list.get(start..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes).wrapping_shr(8 * (at - start) as u32))
    };
    let head = from(0)?;
    let frame = u64::from(VALUES) | (last as u64 + 6) << 8 | u64::from(VERSION) << 16;
    let version = ShortVarint::read(head >> 24);
    let rowset_at = 3 + version.len;
    let bytes = from(rowset_at)?;
    let rowset_tag = bytes & 0xff;
    let rowset = ShortVarint::read(bytes >> 8);
    let rowid_at = rowset_at + 1 + rowset.len;
    let bytes = from(rowid_at)?;
    let rowid_tag = bytes & 0xff;
    let rowid = ShortVarint::read(bytes >> 8);
    let is_one = (head & 0xff_ffff == frame)
        & version.is_sound
        & (version.value > 0)
        & (rowset_tag == u64::from(ROWSET))
        & rowset.is_sound
        & (rowid_tag == u64::from(ROWID))
        & rowid.is_sound
        & (rowid_at + 1 + rowid.len == list.len())
        & ((rowset.value | rowid.value) >> 32 == 0);
    let location = Location { rowset: RowsetId(rowset.value as u32), rowid: RowId(rowid.value as u32) };
    is_one.then_some(Entry::put(Version(version.value), location))
}

/// A varint of at most five bytes.
struct ShortVarint {
    value: u64,
    len: usize,
    /// Whether it ends within five bytes and is in its shortest form. If not, the others say nothing.
    is_sound: bool,
}

impl ShortVarint {
    /// Reads the varint at the front of these bytes.
    #[inline(always)]
    fn read(bytes: u64) -> ShortVarint {
        // The bits of the bytes that do not go on; the sixth ends it in any case.
        let ends = (!bytes & 0x80_8080_8080) | 1 << 47;
        let bits = ends.trailing_zeros() + 1;
        // From the front to where it ends.
        let mask = ends ^ (ends - 1);
        let within = bytes & mask;
        let value = (within & 0x7f)
            | (within >> 1 & 0x7f << 7)
            | (within >> 2 & 0x7f << 14)
            | (within >> 3 & 0x7f << 21)
            | (within >> 4 & 0x7f << 28);
        let is_shortest = (bits == 8) | (within > mask >> 8);
        ShortVarint { value, len: bits as usize / 8, is_sound: (bits <= 40) & is_shortest }
    }
}

/// The newest entry of a list that a reader at `at` sees; deletions are entries too.
///
/// Reads no further than that entry.
///
/// # Errors
/// [`WireError`] if the list is empty, or damaged as far as it was read.
#[inline]
pub fn visible(list: &[u8], at: Version) -> Result<Option<Entry>, WireError> {
    let mut entries = Entries::new(list);
    while let Some(entry) = entries.next_entry()? {
        if entry.version <= at {
            return Ok(Some(entry));
        }
    }
    if list.is_empty() { Err(WireError::Empty) } else { Ok(None) }
}

/// Appends the entries of a list to `entries`, newest first, and leaves what it holds already alone.
///
/// # Errors
/// [`WireError`]; `entries` is then as before.
#[inline]
pub fn decode(list: &[u8], entries: &mut Vec<Entry>) -> Result<(), WireError> {
    if let Some(entry) = only_entry(list) {
        entries.push(entry);
        return Ok(());
    }
    let before = entries.len();
    let mut reader = Entries::new(list);
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) if entries.len() == before => return Err(WireError::Empty),
            Ok(None) => return Ok(()),
            Err(error) => {
                entries.truncate(before);
                return Err(error);
            }
        }
    }
}

/// Appends the bytes of a list to `out`.
///
/// The entries are a list as the index keeps it: not empty, newest first, no version 0. Other lists are written too,
/// but [`decode`] refuses them.
#[inline]
pub fn encode(entries: &[Entry], out: &mut Vec<u8>) {
    for entry in entries {
        out.push(VALUES);
        let frame = out.len();
        out.push(0);
        if entry.version.0 != 0 {
            out.push(VERSION);
            codec::put_varint(out, entry.version.0);
        }
        if let Place::At(location) = entry.place {
            out.push(ROWSET);
            codec::put_varint(out, u64::from(location.rowset.0));
            out.push(ROWID);
            codec::put_varint(out, u64::from(location.rowid.0));
        }
        let length = out.len() - frame - 1;
        out[frame] = u8::try_from(length).expect("an entry takes at most 23 bytes");
    }
}

/// Walks a list from its newest version on.
struct Entries<'a> {
    list: &'a [u8],
    at: usize,
    newer: Option<Version>,
}

impl<'a> Entries<'a> {
    #[inline]
    fn new(list: &'a [u8]) -> Entries<'a> {
        Entries { list, at: 0, newer: None }
    }

    #[inline]
    fn next_entry(&mut self) -> Result<Option<Entry>, WireError> {
        let start = self.at;
        let Some(&tag) = self.list.get(start) else {
            return Ok(None);
        };
        if tag != VALUES {
            return Err(WireError::Field { at: start, tag });
        }
        let &length = self.list.get(start + 1).ok_or(WireError::Short { at: start + 1 })?;
        let (body, end) = (start + 2, start + 2 + usize::from(length));
        if usize::from(length) > ENTRY_BYTES_MAX - 2 {
            return Err(WireError::Number { at: start + 1 });
        }
        if end > self.list.len() {
            return Err(WireError::Short { at: body });
        }
        let mut fields = Fields { list: &self.list[..end], at: body };
        let entry = fields.entry(start)?;
        if let Some(before) = self.newer
            && entry.version >= before
        {
            return Err(WireError::Order { before, found: entry.version });
        }
        self.newer = Some(entry.version);
        self.at = end;
        Ok(Some(entry))
    }
}

/// Reads the fields of one version. `list` ends where the version ends.
struct Fields<'a> {
    list: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    #[inline]
    fn entry(&mut self, start: usize) -> Result<Entry, WireError> {
        let version = match self.field(VERSION)? {
            Some(0) => return Err(WireError::VersionZero { at: start }),
            Some(version) => Version(version),
            // A version of 0 is left out by protobuf; then the next field follows, or nothing.
            None => match self.list.get(self.at) {
                None | Some(&(ROWSET | ROWID)) => return Err(WireError::VersionZero { at: start }),
                Some(_) => return Err(self.unexpected()),
            },
        };
        let rowset = self.field_u32(ROWSET)?;
        let rowid = self.field_u32(ROWID)?;
        if self.at < self.list.len() {
            return Err(self.unexpected());
        }
        let place = match (rowset, rowid) {
            (Some(rowset), Some(rowid)) => {
                Place::At(Location { rowset: RowsetId(rowset), rowid: RowId(rowid) })
            }
            (None, None) => Place::Deleted,
            _ => return Err(WireError::HalfLocation { at: start }),
        };
        Ok(Entry { version, place })
    }

    /// The number of the field with this tag, if it comes next.
    #[inline]
    fn field(&mut self, tag: u8) -> Result<Option<u64>, WireError> {
        if self.list.get(self.at) != Some(&tag) {
            return Ok(None);
        }
        let at = self.at + 1;
        let mut reader = codec::Reader::new(&self.list[at..]);
        let value = reader.varint().map_err(|error| match error {
            codec::ReadError::Short { .. } => WireError::Short { at },
            _ => WireError::Number { at },
        })?;
        self.at = at + reader.position();
        Ok(Some(value))
    }

    #[inline]
    fn field_u32(&mut self, tag: u8) -> Result<Option<u32>, WireError> {
        let at = self.at + 1;
        match self.field(tag)? {
            Some(value) => u32::try_from(value).map(Some).map_err(|_| WireError::Number { at }),
            None => Ok(None),
        }
    }

    fn unexpected(&self) -> WireError {
        WireError::Field { at: self.at, tag: self.list[self.at] }
    }
}

#[cfg(test)]
mod tests;
