//! An index run: key-disjoint index files, in key order, and the look-up of one key in it.
//!
//! Invariant: each file's last key is before the next file's first key.
//! Runs of a tablet have version ranges that do not overlap; a run does not know the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{FileId, KeyHash, RowsetId, Version};

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::file::IndexFile;
use crate::wire;

/// Key-disjoint index files in key order. There is at least one.
#[derive(Debug)]
pub struct Run {
    files: Vec<Arc<IndexFile>>,
    versions: (Version, Version),
}

impl Run {
    /// A run of these files, given in key order.
    ///
    /// # Errors
    /// [`Error::Run`] if there is none, or if they overlap or are out of order.
    pub fn new(files: Vec<Arc<IndexFile>>) -> Result<Run> {
        if let Some(pair) = files.windows(2).find(|pair| pair[0].last_key() >= pair[1].first_key()) {
            return Err(Error::Run { file: pair[1].id(), reason: "its keys do not come after theirs" });
        }
        let min = files.iter().map(|file| file.properties.versions.0).min();
        let max = files.iter().map(|file| file.properties.versions.1).max();
        match (min, max) {
            (Some(min), Some(max)) => Ok(Run { files, versions: (min, max) }),
            _ => Err(Error::Run { file: FileId(0), reason: "there is no file" }),
        }
    }

    /// Its files, in key order.
    #[must_use]
    pub fn files(&self) -> &[Arc<IndexFile>] {
        &self.files
    }

    /// The smallest and the greatest version of an entry.
    #[must_use]
    pub fn versions(&self) -> (Version, Version) {
        self.versions
    }

    /// Its length on disk, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.info.len).sum()
    }

    /// How many keys it has.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.files.iter().map(|file| file.properties.keys).sum()
    }

    /// How many entries it has, deletions among them.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.files.iter().map(|file| file.properties.entries).sum()
    }

    /// How many of its entries are deletions.
    #[must_use]
    pub fn deletions(&self) -> u64 {
        self.files.iter().map(|file| file.properties.deletions).sum()
    }

    /// Adds to `counts` how many entries point into each rowset. Summed over the runs of a view, these are the live
    /// counts of its rowsets.
    pub fn count_rowsets(&self, counts: &mut BTreeMap<RowsetId, u64>) {
        for &(rowset, entries) in self.files.iter().flat_map(|file| &file.properties.per_rowset) {
            *counts.entry(rowset).or_default() += entries;
        }
    }

    /// The newest entry of `key` that a reader at version `at` sees; a deletion is an entry too.
    ///
    /// Reads at most one file. `hash` is [`codec::hash_key`] of the key.
    ///
    /// # Errors
    /// [`Error::Sstable`], [`Error::Entries`]: damage is never taken for an absent key.
    #[inline]
    pub fn lookup(&self, key: &[u8], hash: KeyHash, at: Version) -> Result<Option<Entry>> {
        let Some(file) = self.file_for(key) else {
            return Ok(None);
        };
        match file.reader.get(key, hash)? {
            Some(list) => {
                wire::visible(list.bytes(), at).map_err(|reason| Error::Entries { file: file.id(), reason })
            }
            None => Ok(None),
        }
    }

    /// The only file that can hold `key`.
    #[inline]
    fn file_for(&self, key: &[u8]) -> Option<&IndexFile> {
        let index = self.files.partition_point(|file| file.last_key() < key);
        self.files.get(index).map(Arc::as_ref).filter(|file| file.first_key() <= key)
    }
}
