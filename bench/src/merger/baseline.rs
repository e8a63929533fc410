//! What is compared with: a merger that decodes and encodes every key as a message, once with everything new for each
//! key, and once with everything kept.
//!
//! Written after how StarRocks does it (`KeyValueMerger`, before and after its pull request 72843): the merger is given
//! one key and value after the other, holds the key that is being merged, and writes it when another one comes. What
//! stands for what in [`Fresh`]:
//!
//! | there, for each key and value | here |
//! |---|---|
//! | `iter_ptr->key().to_string()`, `iter_ptr->value().to_string()` | [`CxxString::new`] |
//! | `IndexValuesWithVerPB index_value_ver`, `ParseFromString`: an array, and an object for each version | [`BoxedValues`], `decode` |
//! | `_key = key`: into the memory that `_key` has | `extend_from_slice` |
//! | `_index_value_vers.emplace_front`: a node of a `std::list` | `push_back` of a [`LinkedList`] |
//! | `IndexValuesWithVerPB index_value_pb`, `add_values`: an array, and an object for each version | [`BoxedValues`], `push` |
//! | `SerializeAsString` | [`CxxString::of`] |
//! | `_index_value_vers.clear()`, and the end of all the others | `clear`, and drop |
//!
//! A key of 26 bytes with one version of 15 or less thus takes six allocations: its string, two arrays, two objects,
//! and a node. Longer lists take one more for the value and one for the serialised string. [`Reused`] does the same
//! with messages, lists and strings that are cleared and kept, and takes none.

use std::collections::LinkedList;
use std::sync::Arc;

use codec::{Location, RowId, RowsetId, Version};
use pkindex::{CursorOptions, Direction, Entry, Merge, Place, Retention, Run, RunStream, RunWriter};
use prost::Message;
use sstable::{Caching, FileInfo};

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

/// The same message, each of its versions an object of its own.
#[expect(clippy::vec_box, reason = "that is what it stands for")]
#[derive(Clone, PartialEq, Message)]
struct BoxedValues {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Box<ValueWithVersion>>,
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
    fn merge(&mut self, key: &[u8], value: &[u8], out: &mut RunWriter<'_>) -> anyhow::Result<()>;

    /// Writes the key that is being merged.
    fn flush(&mut self, out: &mut RunWriter<'_>) -> anyhow::Result<()>;
}

/// Merges whole runs, the newest first, and gives the files and how many keys were read.
pub(super) fn merge_runs(
    runs: &[Arc<Run>],
    readahead_bytes: usize,
    merger: &mut impl KeyMerger,
    mut out: RunWriter<'_>,
) -> anyhow::Result<(Vec<FileInfo>, u64)> {
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let reading = CursorOptions { readahead_bytes, caching: Caching::Leave };
    let streams = runs
        .iter()
        .map(|run| RunStream::new(run.cursor_with(Direction::Forward, &everything, reading)?))
        .collect::<pkindex::Result<Vec<RunStream>>>()?;
    let mut merge = Merge::new(streams, Direction::Forward);
    let mut keys = 0;
    loop {
        match merge.take_alone(|key, stream| merger.merge(key, stream.value(), &mut out))? {
            Some(merged) => {
                merged?;
                keys += 1;
            }
            None => {
                let Some(key) = merge.key() else { break };
                for &source in merge.group() {
                    merger.merge(key, merge.source(source).value(), &mut out)?;
                    keys += 1;
                }
                merge.advance()?;
            }
        }
    }
    merge.advance()?;
    merger.flush(&mut out)?;
    Ok((out.finish()?.into_iter().map(|file| file.info).collect(), keys))
}

/// What `std::string` is in the C++ library: up to 15 bytes lie in the string itself, more on the heap.
enum CxxString {
    Within(u8, [u8; 15]),
    Heap(Vec<u8>),
}

impl CxxString {
    #[inline]
    fn new(bytes: &[u8]) -> CxxString {
        match u8::try_from(bytes.len()) {
            Ok(len @ ..=15) => {
                let mut within = [0; 15];
                within[..bytes.len()].copy_from_slice(bytes);
                CxxString::Within(len, within)
            }
            _ => CxxString::Heap(bytes.to_vec()),
        }
    }

    /// The message's bytes.
    #[inline]
    fn of(message: &BoxedValues) -> anyhow::Result<CxxString> {
        let len = message.encoded_len();
        Ok(match u8::try_from(len) {
            Ok(len @ ..=15) => {
                let mut within = [0; 15];
                message.encode(&mut &mut within[..])?;
                CxxString::Within(len, within)
            }
            _ => CxxString::Heap(message.encode_to_vec()),
        })
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            CxxString::Within(len, bytes) => &bytes[..usize::from(*len)],
            CxxString::Heap(bytes) => bytes,
        }
    }
}

/// Everything new for each key.
pub(super) struct Fresh<'a> {
    retention: &'a Retention,
    key: Vec<u8>,
    list: LinkedList<Entry>,
    /// What the writer counts by.
    kept: Vec<Entry>,
}

impl<'a> Fresh<'a> {
    pub(super) fn new(retention: &'a Retention) -> Fresh<'a> {
        Fresh { retention, key: Vec::new(), list: LinkedList::new(), kept: Vec::new() }
    }
}

impl KeyMerger for Fresh<'_> {
    #[inline]
    fn merge(&mut self, key: &[u8], value: &[u8], out: &mut RunWriter<'_>) -> anyhow::Result<()> {
        let key = CxxString::new(key);
        let value = CxxString::new(value);
        let message = BoxedValues::decode(value.bytes())?;
        if self.key != key.bytes() {
            self.flush(out)?;
            self.key.clear();
            self.key.extend_from_slice(key.bytes());
        }
        for value in &message.values {
            self.list.push_back(value.to_entry()?);
        }
        Ok(())
    }

    #[inline]
    fn flush(&mut self, out: &mut RunWriter<'_>) -> anyhow::Result<()> {
        self.kept.clear();
        self.kept.extend(&self.list);
        self.retention.retain(&mut self.kept, true);
        if !self.kept.is_empty() {
            let mut message = BoxedValues::default();
            for entry in &self.kept {
                message.values.push(Box::new(ValueWithVersion::of(entry)));
            }
            out.add_encoded(&self.key, CxxString::of(&message)?.bytes(), &self.kept)?;
        }
        self.list.clear();
        Ok(())
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
    fn merge(&mut self, key: &[u8], value: &[u8], out: &mut RunWriter<'_>) -> anyhow::Result<()> {
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
    fn flush(&mut self, out: &mut RunWriter<'_>) -> anyhow::Result<()> {
        self.retention.retain(&mut self.list, true);
        if self.list.is_empty() {
            return Ok(());
        }
        self.written.clear();
        self.written.values.extend(self.list.iter().map(ValueWithVersion::of));
        self.bytes.clear();
        self.written.encode(&mut self.bytes)?;
        out.add_encoded(&self.key, &self.bytes, &self.list)?;
        self.list.clear();
        Ok(())
    }
}
