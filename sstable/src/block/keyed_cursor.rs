//! A position in a keyed block that moves both ways.
//!
//! Forward, the current key is built from the one before it in one buffer. Backward, which prefix compression does not
//! allow for, the restart interval is decoded once into a second buffer and walked from there, so that a step back
//! costs as much as a step forward. Both buffers are kept from block to block.

use super::Block;
use super::keyed::{self, INTERVAL_ENTRIES_MAX, NO_VALUE};
use crate::entries::BlockEntries;
use crate::error::Result;

/// A decoded interval whose keys took more than this gives the memory back.
const INTERVAL_BYTES_KEPT_MAX: usize = 256 << 10;

/// Where it stands, as offsets into the block that every call is given. Meaningless before the first call that
/// positions it, and after one that failed, or that was to find a key and answered false.
#[derive(Debug, Default)]
pub(crate) struct KeyedCursor {
    /// The restart interval that the current entry lies in.
    restart: usize,
    /// Where that interval ends.
    limit: usize,
    mode: Mode,
    /// Forward: the current key.
    key: Vec<u8>,
    current: Span,
    /// Backward: the keys of the interval, one after the other.
    interval_keys: Vec<u8>,
    interval: Vec<IntervalEntry>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Forward,
    /// At this entry of the decoded interval.
    Interval(usize),
}

/// An entry's offsets in the block.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    at: usize,
    value_start: usize,
    value_end: usize,
}

#[derive(Clone, Copy, Debug)]
struct IntervalEntry {
    key_start: usize,
    key_end: usize,
    span: Span,
}

impl KeyedCursor {
    /// The current key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.mode {
            Mode::Forward => &self.key,
            Mode::Interval(index) => {
                let entry = &self.interval[index];
                &self.interval_keys[entry.key_start..entry.key_end]
            }
        }
    }

    /// Where the current value lies in the block.
    #[inline]
    pub(crate) fn value(&self) -> (usize, usize) {
        let span = match self.mode {
            Mode::Forward => &self.current,
            Mode::Interval(index) => &self.interval[index].span,
        };
        (span.value_start, span.value_end)
    }

    /// To the first entry.
    pub(crate) fn first(&mut self, block: &Block) -> Result<()> {
        self.enter(block, 0)
    }

    /// To the last entry.
    pub(crate) fn last(&mut self, block: &Block) -> Result<()> {
        self.decode_interval(block, block.items - 1)?;
        self.mode = Mode::Interval(self.interval.len() - 1);
        Ok(())
    }

    /// To the first entry at or above `key`; false if there is none.
    pub(crate) fn seek(&mut self, block: &Block, key: &[u8]) -> Result<bool> {
        let Some(restart) = keyed::restart_at_or_below(block, key)? else {
            self.first(block)?;
            return Ok(true);
        };
        self.enter(block, restart)?;
        while self.key() < key {
            if !self.next(block)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// To the last entry at or below `key`; false if there is none.
    pub(crate) fn seek_for_prev(&mut self, block: &Block, key: &[u8]) -> Result<bool> {
        let Some(restart) = keyed::restart_at_or_below(block, key)? else {
            return Ok(false);
        };
        self.decode_interval(block, restart)?;
        let keys = &self.interval_keys;
        let below = self.interval.partition_point(|entry| &keys[entry.key_start..entry.key_end] <= key);
        match below.checked_sub(1) {
            Some(index) => {
                self.mode = Mode::Interval(index);
                Ok(true)
            }
            None => Err(block.mismatch("entries at or below a restart point", 1, 0)),
        }
    }

    /// Appends its entry and those that follow to `entries`, and stands on the last of them.
    pub(crate) fn take_rest(&mut self, block: &Block, entries: &mut BlockEntries) -> Result<()> {
        while entries.push(self.key(), self.value()) && self.next(block)? {}
        Ok(())
    }

    /// To the next entry; false, where it stood, if there is none.
    #[inline(always)]
    pub(crate) fn next(&mut self, block: &Block) -> Result<bool> {
        match self.mode {
            Mode::Forward if self.current.value_end < self.limit => {
                let value_len = self.current.value_end - self.current.value_start;
                self.load(block, self.current.value_end, value_len)?;
                Ok(true)
            }
            Mode::Interval(index) if index + 1 < self.interval.len() => {
                self.mode = Mode::Interval(index + 1);
                Ok(true)
            }
            _ if self.restart + 1 < block.items => {
                self.enter(block, self.restart + 1)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// To the entry before; false if there is none.
    #[inline]
    pub(crate) fn prev(&mut self, block: &Block) -> Result<bool> {
        let index = match self.mode {
            Mode::Interval(index) => index,
            Mode::Forward => {
                let at = self.current.at;
                self.decode_interval(block, self.restart)?;
                self.interval.partition_point(|entry| entry.span.at < at)
            }
        };
        match (index.checked_sub(1), self.restart.checked_sub(1)) {
            (Some(index), _) => {
                self.mode = Mode::Interval(index);
                Ok(true)
            }
            (None, Some(restart)) => {
                self.decode_interval(block, restart)?;
                self.mode = Mode::Interval(self.interval.len() - 1);
                Ok(true)
            }
            (None, None) => Ok(false),
        }
    }

    /// To the first entry of a restart interval, forward.
    fn enter(&mut self, block: &Block, restart: usize) -> Result<()> {
        let (start, end) = keyed::interval(block, restart)?;
        self.mode = Mode::Forward;
        self.restart = restart;
        self.limit = end;
        self.key.clear();
        self.load(block, start, NO_VALUE)
    }

    /// Decodes the entry at `at`, which follows the current key.
    #[inline(always)]
    fn load(&mut self, block: &Block, at: usize, value_len: usize) -> Result<()> {
        let entry = keyed::entry(block, at, self.limit, value_len)?;
        if entry.shared > self.key.len() {
            return Err(block.mismatch("greatest count of shared bytes", self.key.len(), entry.shared));
        }
        self.key.truncate(entry.shared);
        keyed::append(&mut self.key, &block.bytes[entry.suffix_start..entry.value_start]);
        self.current = Span { at, value_start: entry.value_start, value_end: entry.value_end };
        Ok(())
    }

    /// Decodes a whole restart interval. The mode is the caller's to set.
    fn decode_interval(&mut self, block: &Block, restart: usize) -> Result<()> {
        let (start, end) = keyed::interval(block, restart)?;
        if self.interval_keys.capacity() > INTERVAL_BYTES_KEPT_MAX {
            self.interval_keys = Vec::new();
        }
        self.interval_keys.clear();
        self.interval.clear();
        self.restart = restart;
        self.limit = end;
        let (mut at, mut value_len) = (start, NO_VALUE);
        let (mut key_start, mut key_len) = (0, 0);
        while at < end {
            let entry = keyed::entry(block, at, end, value_len)?;
            if entry.shared > key_len {
                return Err(block.mismatch("greatest count of shared bytes", key_len, entry.shared));
            }
            if self.interval.len() == INTERVAL_ENTRIES_MAX {
                return Err(block.mismatch("greatest restart interval", INTERVAL_ENTRIES_MAX, end - at));
            }
            let next_start = self.interval_keys.len();
            self.interval_keys.extend_from_within(key_start..key_start + entry.shared);
            self.interval_keys.extend_from_slice(&block.bytes[entry.suffix_start..entry.value_start]);
            (key_start, key_len) = (next_start, self.interval_keys.len() - next_start);
            value_len = entry.value_len();
            self.interval.push(IntervalEntry {
                key_start,
                key_end: key_start + key_len,
                span: Span { at, value_start: entry.value_start, value_end: entry.value_end },
            });
            at = entry.value_end;
        }
        Ok(())
    }
}
