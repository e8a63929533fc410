//! What an index file says of itself: the user properties of its sstable.
//!
//! Owns the message `IndexFileProperties` (`proto/index.proto`) and the counts that go into it. A rowset's live count
//! is the sum of these counts over the files of a view, and is stored nowhere else.
//!
//! Invariant: the entries are the deletions and the entries of each rowset, together.
//! Invariant: some key has several versions exactly if there are more entries than keys.

use codec::{FileId, RowsetId, Version};
use prost::Message;

use crate::entry::{Entry, Place};
use crate::error::{Error, Result};
use crate::pb;

/// What an index file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Keys, each counted once.
    pub keys: u64,
    /// Versions of keys, deletions among them.
    pub entries: u64,
    /// Deletions.
    pub deletions: u64,
    /// The smallest and the greatest version of an entry.
    pub versions: (Version, Version),
    /// Whether some key has more than one version.
    pub has_several: bool,
    /// How many entries point into each rowset, ascending by rowset, no rowset with none.
    pub per_rowset: Vec<(RowsetId, u64)>,
    /// The first key.
    pub first_key: Vec<u8>,
    /// The last key.
    pub last_key: Vec<u8>,
    /// Whose file it is, as whoever wrote it said; empty if it did not.
    pub owner: Vec<u8>,
}

impl Properties {
    /// How many entries point into `rowset`.
    #[must_use]
    pub fn entries_in(&self, rowset: RowsetId) -> u64 {
        match self.per_rowset.binary_search_by_key(&rowset, |&(id, _)| id) {
            Ok(index) => self.per_rowset[index].1,
            Err(_) => 0,
        }
    }

    /// The form in a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        pb::IndexFileProperties {
            keys: self.keys,
            entries: self.entries,
            deletions: self.deletions,
            version_min: self.versions.0.0,
            version_max: self.versions.1.0,
            has_several: self.has_several,
            rowsets: self
                .per_rowset
                .iter()
                .map(|&(rowset, entries)| pb::RowsetEntries { rowset: rowset.0, entries })
                .collect(),
            first_key: self.first_key.clone(),
            last_key: self.last_key.clone(),
            owner: self.owner.clone(),
        }
        .encode_to_vec()
    }

    /// Reads the properties of `file` and checks that they agree with themselves.
    ///
    /// # Errors
    /// [`Error::Properties`].
    pub fn decode(file: FileId, bytes: &[u8]) -> Result<Properties> {
        let bad = |reason: String| Error::Properties { file, reason };
        let message = pb::IndexFileProperties::decode(bytes).map_err(|error| bad(error.to_string()))?;
        let properties = Properties {
            keys: message.keys,
            entries: message.entries,
            deletions: message.deletions,
            versions: (Version(message.version_min), Version(message.version_max)),
            has_several: message.has_several,
            per_rowset: message.rowsets.iter().map(|count| (RowsetId(count.rowset), count.entries)).collect(),
            first_key: message.first_key,
            last_key: message.last_key,
            owner: message.owner,
        };
        properties.contradiction().map_or(Ok(properties), |reason| Err(bad(reason)))
    }

    fn contradiction(&self) -> Option<String> {
        let (min, max) = self.versions;
        if self.keys == 0 || self.entries < self.keys {
            return Some(format!("{} entries of {} keys", self.entries, self.keys));
        }
        if self.has_several != (self.entries > self.keys) {
            return Some(format!(
                "{} entries of {} keys, and has_several is {}",
                self.entries, self.keys, self.has_several
            ));
        }
        if min == Version(0) || min > max {
            return Some(format!("versions from {min} to {max}"));
        }
        if self.first_key > self.last_key || (self.keys > 1 && self.first_key == self.last_key) {
            return Some("the first key is not before the last".to_owned());
        }
        if let Some(pair) = self.per_rowset.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Some(format!("rowset {} after rowset {}", pair[1].0, pair[0].0));
        }
        if let Some((rowset, _)) = self.per_rowset.iter().find(|&&(_, entries)| entries == 0) {
            return Some(format!("rowset {rowset} is named without entries"));
        }
        let counted = self.per_rowset.iter().try_fold(self.deletions, |sum, &(_, n)| sum.checked_add(n));
        if counted != Some(self.entries) {
            return Some(format!(
                "{} entries, but deletions and rowsets do not add up to them",
                self.entries
            ));
        }
        None
    }
}

/// Counts of entries by rowset. Neighbouring keys mostly point into the same few rowsets, so those are counted in
/// places of their own, by a hash, and go to the list when another rowset takes their place.
#[derive(Clone, Debug)]
pub(crate) struct RowsetCounts {
    /// Ascending by rowset. Without what is counted in `recent`.
    counts: Vec<(RowsetId, u64)>,
    recent: [(RowsetId, u64); RECENT],
}

const RECENT: usize = 64;

impl Default for RowsetCounts {
    fn default() -> RowsetCounts {
        RowsetCounts { counts: Vec::new(), recent: [(RowsetId(0), 0); RECENT] }
    }
}

impl RowsetCounts {
    #[inline]
    pub(crate) fn add(&mut self, rowset: RowsetId, entries: u64) {
        let place = &mut self.recent[rowset.0.wrapping_mul(0x9e37_79b9) as usize >> 26];
        if place.0 == rowset {
            place.1 += entries;
        } else {
            let (other, count) = std::mem::replace(place, (rowset, entries));
            self.insert(other, count);
        }
    }

    #[inline(never)]
    fn insert(&mut self, rowset: RowsetId, entries: u64) {
        if entries == 0 {
            return;
        }
        match self.counts.binary_search_by_key(&rowset, |&(id, _)| id) {
            Ok(index) => self.counts[index].1 += entries,
            Err(index) => self.counts.insert(index, (rowset, entries)),
        }
    }

    pub(crate) fn add_all(&mut self, counts: &[(RowsetId, u64)]) {
        for &(rowset, entries) in counts {
            self.add(rowset, entries);
        }
    }

    /// The counts, ascending by rowset, no rowset with none.
    pub(crate) fn into_list(mut self) -> Vec<(RowsetId, u64)> {
        for (rowset, entries) in self.recent {
            self.insert(rowset, entries);
        }
        self.counts
    }
}

/// Gathers the properties of a file while it is written.
#[derive(Debug, Default)]
pub(crate) struct PropertiesBuilder {
    keys: u64,
    entries: u64,
    deletions: u64,
    /// The smallest and the greatest version, the smallest as what is left of the greatest there can be.
    below_max: u64,
    version_max: u64,
    rowsets: RowsetCounts,
    first_key: Vec<u8>,
}

impl PropertiesBuilder {
    /// A key, with its versions.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], entries: &[Entry]) {
        self.add_key(key);
        for entry in entries {
            self.add_entry(entry);
        }
    }

    #[inline]
    fn add_key(&mut self, key: &[u8]) {
        if self.keys == 0 {
            self.first_key.extend_from_slice(key);
        }
        self.keys += 1;
    }

    #[inline]
    fn add_entry(&mut self, entry: &Entry) {
        self.entries += 1;
        self.below_max = self.below_max.max(u64::MAX - entry.version.0);
        self.version_max = self.version_max.max(entry.version.0);
        match &entry.place {
            Place::At(location) => self.rowsets.add(location.rowset, 1),
            Place::Deleted => self.deletions += 1,
        }
    }

    pub(crate) fn build(self, last_key: &[u8], owner: &[u8]) -> Properties {
        Properties {
            keys: self.keys,
            entries: self.entries,
            deletions: self.deletions,
            versions: (Version(u64::MAX - self.below_max), Version(self.version_max)),
            has_several: self.entries > self.keys,
            per_rowset: self.rowsets.into_list(),
            first_key: self.first_key,
            last_key: last_key.to_vec(),
            owner: owner.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{Location, RowId};

    fn put(version: u64, rowset: u32) -> Entry {
        Entry::put(Version(version), Location { rowset: RowsetId(rowset), rowid: RowId(0) })
    }

    fn sample() -> Properties {
        let mut builder = PropertiesBuilder::default();
        builder.add(b"a", &[put(9, 4), put(3, 2)]);
        builder.add(b"b", &[Entry::deletion(Version(5))]);
        builder.add(b"c", &[put(4, 2)]);
        builder.build(b"c", b"owner")
    }

    #[test]
    fn properties_count_what_was_added_and_come_back() {
        let properties = sample();
        assert_eq!((properties.keys, properties.entries, properties.deletions), (3, 4, 1));
        assert_eq!(properties.versions, (Version(3), Version(9)));
        assert_eq!(properties.per_rowset, [(RowsetId(2), 2), (RowsetId(4), 1)]);
        assert!(properties.has_several);
        assert_eq!(properties.entries_in(RowsetId(3)), 0);
        assert_eq!(
            Properties::decode(FileId(1), &properties.encode()).expect("what was written"),
            properties
        );
    }

    #[test]
    fn fields_that_are_not_known_are_skipped() {
        let properties = sample();
        let with_more = [&properties.encode()[..], &[0x98, 0x06, 1]].concat();
        assert_eq!(Properties::decode(FileId(1), &with_more).expect("no more than that"), properties);
    }

    #[test]
    fn rowsets_that_take_turns_are_all_counted() {
        let mut counts = RowsetCounts::default();
        for round in 0..3 {
            for rowset in (0..500).rev() {
                counts.add(RowsetId(rowset * 1000), u64::from(rowset % 7 + round));
            }
        }
        counts.add_all(&[(RowsetId(u32::MAX), 4), (RowsetId(0), 1)]);
        let mut expected: Vec<_> =
            (0..500).map(|rowset| (RowsetId(rowset * 1000), u64::from(rowset % 7 * 3 + 3))).collect();
        expected[0].1 += 1;
        expected.push((RowsetId(u32::MAX), 4));
        assert_eq!(counts.into_list(), expected);
    }

    #[test]
    fn properties_that_contradict_themselves_are_refused() {
        let changes: [fn(&mut Properties); 10] = [
            |p| p.keys = 0,
            |p| p.entries = 5,
            |p| p.deletions = 0,
            |p| p.has_several = false,
            |p| p.versions = (Version(0), Version(9)),
            |p| p.versions = (Version(9), Version(3)),
            |p| p.per_rowset.reverse(),
            |p| p.per_rowset.push((RowsetId(9), 0)),
            |p| p.per_rowset[0].1 = u64::MAX,
            |p| p.last_key = b"A".to_vec(),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut properties = sample();
            change(&mut properties);
            let error = Properties::decode(FileId(7), &properties.encode()).expect_err("a contradiction");
            assert!(error.is_corruption(), "change {index}");
            assert!(error.to_string().contains("index file 7"), "{error}");
        }
        assert!(Properties::decode(FileId(7), &[]).is_err());
        assert!(Properties::decode(FileId(7), b"\xff\xff").is_err());
    }
}
