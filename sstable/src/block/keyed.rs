//! A block of keys and values, in key order: builder, entry, search.
//!
//! The payload: entries, then the restart points.
//!
//! | bytes | what |
//! |---|---|
//! | entry: varint | how many bytes its key shares with the key before it, as many as there are; 0 at a restart point |
//! | varint | twice the length of the rest of the key, plus 1 if the value is as long as the value before it |
//! | varint | the value's length; absent if it is as long as the one before; always there at a restart point |
//! | n | the rest of the key |
//! | n | the value |
//! | ... | the next entry |
//! | 4 each | offsets of the restart points, the first is 0 |
//! | 4 | how many restart points |
//!
//! Invariant: at least one entry; at most [`INTERVAL_ENTRIES_MAX`] from one restart point to the next, so that an
//! interval that is decoded for a step back stays small.

use std::cmp::Ordering;

use codec::{ReadError, Reader, put_varint};

use super::Block;
use crate::error::Result;

/// The longest key.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 16;

/// The longest value: a row of 64 MiB, with what its owner adds to it.
pub(crate) const VALUE_BYTES_MAX: usize = (64 << 20) + (64 << 10);

/// The greatest restart interval.
pub(crate) const INTERVAL_ENTRIES_MAX: usize = 128;

/// What an entry has beside its bytes, at most: three varints of at most 28 bits.
const ENTRY_HEAD_BYTES_MAX: usize = 12;

/// A buffer that outgrew this gives the memory back after the block.
const BYTES_KEPT_MAX: usize = 1 << 20;

/// As a length of the value before: there is none.
pub(crate) const NO_VALUE: usize = usize::MAX;

/// Writes one block after the other, in buffers that it keeps.
#[derive(Debug)]
pub(crate) struct KeyedBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: usize,
    since_restart: usize,
    value_len: usize,
}

impl Default for KeyedBuilder {
    fn default() -> KeyedBuilder {
        KeyedBuilder::new(1)
    }
}

impl KeyedBuilder {
    pub(crate) fn new(restart_interval: usize) -> KeyedBuilder {
        KeyedBuilder {
            bytes: Vec::new(),
            restarts: Vec::new(),
            restart_interval: restart_interval.clamp(1, INTERVAL_ENTRIES_MAX),
            since_restart: 0,
            value_len: NO_VALUE,
        }
    }

    /// Begins the first block of a file.
    pub(crate) fn begin(&mut self, restart_interval: usize) {
        self.clear();
        self.restart_interval = restart_interval.clamp(1, INTERVAL_ENTRIES_MAX);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// What [`KeyedBuilder::finish`] would give, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// An upper bound of [`KeyedBuilder::len`] after one more entry.
    pub(crate) fn len_with(&self, key: &[u8], shared: usize, value: &[u8]) -> usize {
        self.len() + 4 + ENTRY_HEAD_BYTES_MAX + key.len() - shared + value.len()
    }

    /// Appends an entry. `shared` is how much `key` has in common with the one before it, which is less.
    pub(crate) fn add(&mut self, key: &[u8], shared: usize, value: &[u8]) {
        let mut shared = shared;
        if self.is_empty() || self.since_restart == self.restart_interval {
            let at = u32::try_from(self.bytes.len()).expect("the writer cuts blocks long before 4 GiB");
            self.restarts.push(at);
            self.since_restart = 0;
            self.value_len = NO_VALUE;
            shared = 0;
        }
        let same = value.len() == self.value_len;
        let rest = (key.len() - shared) << 1 | usize::from(same);
        if shared | rest | value.len() < 0x80 {
            // Whether the length stands there cannot be foreseen, so that it is not branched on.
            let head = shared | rest << 8 | value.len() << 16;
            let head_len = 3 - usize::from(same);
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&(head as u32).to_le_bytes());
            self.bytes.truncate(start + head_len);
        } else {
            put_varint(&mut self.bytes, shared as u64);
            put_varint(&mut self.bytes, rest as u64);
            if !same {
                put_varint(&mut self.bytes, value.len() as u64);
            }
        }
        append(&mut self.bytes, &key[shared..]);
        append(&mut self.bytes, value);
        self.value_len = value.len();
        self.since_restart += 1;
    }

    /// The payload. [`KeyedBuilder::clear`] begins the next.
    pub(crate) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        let count = u32::try_from(self.restarts.len()).expect("fewer restart points than bytes");
        self.bytes.extend_from_slice(&count.to_le_bytes());
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.since_restart = 0;
        // What a large value left behind.
        self.bytes.shrink_to(BYTES_KEPT_MAX);
    }
}

/// Checks the restart points' count and finds where they start.
pub(crate) fn parse(block: &mut Block) -> Result<()> {
    let len = block.bytes.len();
    if len < 4 {
        return Err(block.mismatch("least length of a keyed block", 4, len));
    }
    let count = block.u32_at(len - 4) as usize;
    match count.checked_mul(4).and_then(|bytes| (len - 4).checked_sub(bytes)) {
        Some(tail) if count > 0 && tail > 0 => {
            block.items = count;
            block.tail = tail;
            Ok(())
        }
        _ => Err(block.mismatch("greatest count of restart points", (len - 4) / 4, count)),
    }
}

/// One entry, as offsets into its block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) shared: usize,
    pub(crate) suffix_start: usize,
    pub(crate) value_start: usize,
    /// Where the next entry starts.
    pub(crate) value_end: usize,
}

impl Entry {
    #[inline]
    pub(crate) fn value_len(&self) -> usize {
        self.value_end - self.value_start
    }
}

/// Decodes the entry at `at`, which must end at `limit` or before. `value_len` is that of the entry before it, or
/// [`NO_VALUE`] at a restart point.
#[inline]
pub(crate) fn entry(block: &Block, at: usize, limit: usize, value_len: usize) -> Result<Entry> {
    let (shared, rest, value_len, head) = match block.bytes[at..limit] {
        [shared, rest, ..] if shared | rest < 0x80 && rest & 1 == 1 => {
            (u64::from(shared), u64::from(rest), value_len as u64, 2)
        }
        [shared, rest, len, ..] if shared | rest | len < 0x80 => {
            (u64::from(shared), u64::from(rest), u64::from(len), 3)
        }
        _ => long_head(block, at, limit, value_len)?,
    };
    let suffix_start = at + head;
    let left = (limit - suffix_start) as u64;
    let suffix_len = rest >> 1;
    // `suffix_len` is at most 63 bits, so that only the value's length needs care.
    if shared + suffix_len <= KEY_BYTES_MAX as u64 && suffix_len <= left && value_len <= left - suffix_len {
        let value_start = suffix_start + suffix_len as usize;
        let value_end = value_start + value_len as usize;
        return Ok(Entry { shared: shared as usize, suffix_start, value_start, value_end });
    }
    let wanted = suffix_len.saturating_add(value_len);
    Err(block.malformed("an entry", ReadError::Short { at, wanted, left: left as usize }))
}

/// An entry's head with varints of any length: shared, rest, value length, bytes of the head.
#[cold]
fn long_head(block: &Block, at: usize, limit: usize, value_len: usize) -> Result<(u64, u64, u64, usize)> {
    let mut reader = Reader::new(&block.bytes[at..limit]);
    let mut head = || {
        let shared = reader.varint()?;
        let rest = reader.varint()?;
        let len = if rest & 1 == 1 { value_len as u64 } else { reader.varint()? };
        if shared > KEY_BYTES_MAX as u64 {
            return Err(ReadError::Short { at: 0, wanted: shared, left: KEY_BYTES_MAX });
        }
        Ok((shared, rest, len))
    };
    match head() {
        Ok((shared, rest, len)) => Ok((shared, rest, len, reader.position())),
        Err(source) => Err(block.malformed("an entry's head", source)),
    }
}

/// Where the entries of a restart interval start and end.
#[inline]
pub(crate) fn interval(block: &Block, restart: usize) -> Result<(usize, usize)> {
    let start = block.u32_at(block.tail + 4 * restart) as usize;
    let end = if restart + 1 < block.items {
        block.u32_at(block.tail + 4 * restart + 4) as usize
    } else {
        block.tail
    };
    if start < end && end <= block.tail && (restart > 0 || start == 0) {
        return Ok((start, end));
    }
    Err(block.mismatch("end of a restart interval", block.tail, end))
}

/// The first entry of a restart interval, whose key is whole.
#[inline]
pub(crate) fn restart_entry(block: &Block, restart: usize) -> Result<Entry> {
    let (start, end) = interval(block, restart)?;
    let entry = entry(block, start, end, NO_VALUE)?;
    if entry.shared > 0 {
        return Err(block.mismatch("shared bytes at a restart point", 0, entry.shared));
    }
    Ok(entry)
}

/// The key at a restart point.
#[inline]
pub(crate) fn restart_key(block: &Block, restart: usize) -> Result<&[u8]> {
    let entry = restart_entry(block, restart)?;
    Ok(&block.bytes[entry.suffix_start..entry.value_start])
}

/// How many of `items` restart points have keys for which `before` holds; it holds for a prefix of them.
#[inline]
fn restart_partition(block: &Block, mut before: impl FnMut(&[u8]) -> bool) -> Result<usize> {
    let (mut low, mut high) = (0, block.items);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(restart_key(block, middle)?) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The last restart point whose key is at or below `key`.
#[inline]
pub(crate) fn restart_at_or_below(block: &Block, key: &[u8]) -> Result<Option<usize>> {
    Ok(restart_partition(block, |at| at <= key)?.checked_sub(1))
}

/// The first restart point whose key is at or above `key`; the count of restart points if there is none. For blocks
/// where each entry is one.
#[inline]
pub(crate) fn restart_at_or_above(block: &Block, key: &[u8]) -> Result<usize> {
    restart_partition(block, |at| at < key)
}

/// The value of `key`, as a range of the block. Builds no key: it follows how far the entries agree with `key`.
pub(crate) fn find(block: &Block, key: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(restart) = restart_at_or_below(block, key)? else {
        return Ok(None);
    };
    let (mut at, limit) = interval(block, restart)?;
    let mut value_len = NO_VALUE;
    // The entry before is less than `key` and agrees with it in so many bytes.
    let mut agreed = 0;
    while at < limit {
        let entry = entry(block, at, limit, value_len)?;
        // An entry that shares more than that with the one before is less than `key` at the same byte.
        match entry.shared.cmp(&agreed) {
            Ordering::Less => return Ok(None),
            Ordering::Equal => {
                let suffix = &block.bytes[entry.suffix_start..entry.value_start];
                let rest = &key[agreed..];
                let common = common_prefix(suffix, rest);
                if common == rest.len() {
                    let found = common == suffix.len();
                    return Ok(found.then_some((entry.value_start, entry.value_end)));
                }
                if common < suffix.len() && suffix[common] > rest[common] {
                    return Ok(None);
                }
                agreed += common;
            }
            Ordering::Greater => {}
        }
        value_len = entry.value_len();
        at = entry.value_end;
    }
    Ok(None)
}

/// Appends a few bytes. What a key does not share with the one before, and most values, are shorter than a call to copy
/// them is worth.
#[inline(always)]
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        4..=7 => append_ends::<4>(out, bytes),
        8..=16 => append_ends::<8>(out, bytes),
        17..=32 => append_ends::<16>(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends `N` to `2 * N` bytes as their first and their last `N`.
#[inline(always)]
fn append_ends<const N: usize>(out: &mut Vec<u8>, bytes: &[u8]) {
    let end = out.len() + bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        // The two may overlap: the second writes over the end of the first.
        out.extend_from_slice(first);
        out.truncate(end - N);
        out.extend_from_slice(last);
    }
}

/// How many bytes `a` and `b` begin with in common.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().expect("eight bytes"));
        let y = u64::from_le_bytes(y.try_into().expect("eight bytes"));
        if x != y {
            return common + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        common += 8;
    }
    common + a[common..].iter().zip(&b[common..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn bytes_of_every_length_are_appended_and_nothing_else() {
        for len in 0..70u8 {
            let bytes: Vec<u8> = (1..=len).collect();
            let mut out = vec![0, 9];
            append(&mut out, &bytes);
            append(&mut out, &bytes);
            assert_eq!(out, [&[0, 9][..], &bytes, &bytes].concat());
        }
    }
}
