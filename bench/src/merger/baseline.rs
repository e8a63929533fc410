//! What is compared with: a merger that decodes and encodes every key as a message, once with everything new for each
//! key, and once with everything kept.
//!
//! Written after how StarRocks does it (`KeyValueMerger`, before and after its pull request 72843): the merger is given
//! one key and value after the other, holds the key that is being merged, and writes it when another one comes. What
//! the C++ library allocates beyond this (an object for each version within a message) has no counterpart here.

use std::sync::Arc;

use codec::{Location, RowId, RowsetId, Version};
use pkindex::{CursorOptions, Direction, Entry, Merge, Place, Retention, Run, RunCursor, Source};
use prost::Message;
use sstable::{Caching, FileInfo};

use super::output::FileSequence;

/// `IndexValueWithVer` of `pkindex/proto/index.proto`. Equal outputs show that it is the same.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueWithVersion {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(uint32, optional, tag = "2")]
    rowset: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    rowid: Option<u32>,
}

/// `IndexValuesWithVer`.
#[derive(Clone, PartialEq, Message)]
struct ValuesWithVersion {
    #[prost(message, repeated, tag = "1")]
    values: Vec<ValueWithVersion>,
}

impl ValueWithVersion {
    #[inline]
    fn to_entry(self) -> anyhow::Result<Entry> {
        let version = Version(self.version);
        match (self.rowset, self.rowid) {
            (Some(rowset), Some(rowid)) => {
                Ok(Entry::put(version, Location { rowset: RowsetId(rowset), rowid: RowId(rowid) }))
            }
            (None, None) => Ok(Entry::deletion(version)),
            _ => anyhow::bail!("half a location"),
        }
    }

    #[inline]
    fn of(entry: &Entry) -> ValueWithVersion {
        let (rowset, rowid) = match entry.place {
            Place::At(location) => (Some(location.rowset.0), Some(location.rowid.0)),
            Place::Deleted => (None, None),
        };
        ValueWithVersion { version: entry.version.0, rowset, rowid }
    }
}

/// Merges keys and values that come in order, equal keys newest first.
pub(super) trait KeyMerger {
    /// Takes the next key and value.
    fn merge(&mut self, key: &[u8], value: &[u8], out: &mut FileSequence<'_>) -> anyhow::Result<()>;

    /// Writes the key that is being merged.
    fn flush(&mut self, out: &mut FileSequence<'_>) -> anyhow::Result<()>;
}

/// Merges whole runs, the newest first, and gives the files and how many keys were read.
pub(super) fn merge_runs(
    runs: &[Arc<Run>],
    readahead_bytes: usize,
    merger: &mut impl KeyMerger,
    mut out: FileSequence<'_>,
) -> anyhow::Result<(Vec<FileInfo>, u64)> {
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let reading = CursorOptions { readahead_bytes, caching: Caching::Leave };
    let cursors = runs
        .iter()
        .map(|run| run.cursor_with(Direction::Forward, &everything, reading))
        .collect::<pkindex::Result<Vec<RunCursor>>>()?;
    let mut merge = Merge::new(cursors, Direction::Forward);
    let mut keys = 0;
    while let Some(key) = merge.key() {
        for &source in merge.group() {
            let cursor = merge.source(source);
            debug_assert_eq!(cursor.key(), Some(key));
            merger.merge(key, cursor.value(), &mut out)?;
            keys += 1;
        }
        merge.advance()?;
    }
    merge.advance()?;
    merger.flush(&mut out)?;
    Ok((out.finish()?, keys))
}

/// Everything new for each key.
pub(super) struct Fresh<'a> {
    retention: &'a Retention,
    key: Vec<u8>,
    list: Vec<Entry>,
}

impl<'a> Fresh<'a> {
    pub(super) fn new(retention: &'a Retention) -> Fresh<'a> {
        Fresh { retention, key: Vec::new(), list: Vec::new() }
    }
}

impl KeyMerger for Fresh<'_> {
    #[inline]
    fn merge(&mut self, key: &[u8], value: &[u8], out: &mut FileSequence<'_>) -> anyhow::Result<()> {
        let key = key.to_vec();
        let value = value.to_vec();
        let message = ValuesWithVersion::decode(&value[..])?;
        if self.key != key {
            self.flush(out)?;
            self.key = key;
        }
        for value in &message.values {
            self.list.push(value.to_entry()?);
        }
        Ok(())
    }

    #[inline]
    fn flush(&mut self, out: &mut FileSequence<'_>) -> anyhow::Result<()> {
        let mut list = std::mem::take(&mut self.list);
        self.retention.retain(&mut list, true);
        if list.is_empty() {
            return Ok(());
        }
        let mut message = ValuesWithVersion::default();
        for entry in &list {
            message.values.push(ValueWithVersion::of(entry));
        }
        out.add(&self.key, &message.encode_to_vec())
    }
}

/// Everything kept from key to key.
pub(super) struct Reused<'a> {
    retention: &'a Retention,
    key: Vec<u8>,
    list: Vec<Entry>,
    read: ValuesWithVersion,
    written: ValuesWithVersion,
    bytes: Vec<u8>,
}

impl<'a> Reused<'a> {
    pub(super) fn new(retention: &'a Retention) -> Reused<'a> {
        Reused {
            retention,
            key: Vec::new(),
            list: Vec::new(),
            read: ValuesWithVersion::default(),
            written: ValuesWithVersion::default(),
            bytes: Vec::new(),
        }
    }
}

impl KeyMerger for Reused<'_> {
    #[inline]
    fn merge(&mut self, key: &[u8], value: &[u8], out: &mut FileSequence<'_>) -> anyhow::Result<()> {
        self.read.clear();
        self.read.merge(value)?;
        if self.key != key {
            self.flush(out)?;
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        for value in &self.read.values {
            self.list.push(value.to_entry()?);
        }
        Ok(())
    }

    #[inline]
    fn flush(&mut self, out: &mut FileSequence<'_>) -> anyhow::Result<()> {
        self.retention.retain(&mut self.list, true);
        if self.list.is_empty() {
            return Ok(());
        }
        self.written.clear();
        self.written.values.extend(self.list.iter().map(ValueWithVersion::of));
        self.list.clear();
        self.bytes.clear();
        self.written.encode(&mut self.bytes)?;
        out.add(&self.key, &self.bytes)
    }
}
