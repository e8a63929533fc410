//! Which versions of a key somebody can still need. Flush and compaction ask the same question here.

use codec::Version;

use crate::entry::Entry;

/// What readers there are, and can be, when a flush or a compaction starts.
///
/// A version of a key is needed if it is above the floor, or the newest at or below it, or the newest at or below a
/// registered snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The version that is visible: later readers see this or a later one.
    pub floor: Version,
    /// The registered snapshots, ascending. Fixed together with the floor.
    pub snapshots: Vec<Version>,
}

impl Retention {
    /// Leaves of a key's entries, newest first, those that are needed.
    ///
    /// With `base`, nothing older of the key exists anywhere else, and deletions that end the list go too: who would
    /// have met them finds nothing instead. The list must then be the whole list of the key, or a row that a deletion
    /// covers comes back. The list may become empty.
    ///
    /// ```
    /// use codec::{Location, Version};
    /// use nyala_pkindex::{Entry, Retention};
    /// let retention = Retention { floor: Version(9), snapshots: vec![Version(4)] };
    /// let put = |version| Entry::put(Version(version), Location::default());
    /// let mut list = vec![put(12), put(8), put(7), put(3), Entry::deletion(Version(2))];
    /// retention.retain(&mut list, true);
    /// assert_eq!(list, [put(12), put(8), put(3)]);
    /// ```
    pub fn retain(&self, list: &mut Vec<Entry>, base: bool) {
        if self.needs_only_the_newest(list) {
            list.truncate(1);
        } else {
            let mut newer = None;
            list.retain(|entry| {
                let needed = self.needs(entry.version, newer);
                newer = Some(entry.version);
                needed
            });
        }
        if base {
            let kept = list.iter().rposition(|entry| !entry.is_deletion()).map_or(0, |last| last + 1);
            list.truncate(kept);
        }
    }

    /// Whether nobody can need any entry but the first: so it is mostly, and seen without a look at each. May say no
    /// although it is so.
    #[inline]
    fn needs_only_the_newest(&self, list: &[Entry]) -> bool {
        match (list.first(), list.last()) {
            (Some(newest), Some(oldest)) => {
                newest.version <= self.floor
                    && self.snapshots.last().is_none_or(|&snapshot| snapshot < oldest.version)
            }
            _ => true,
        }
    }

    /// Whether some reader finds `version` when the next newer version of the key is `newer`: one that reads at a
    /// point from `version` on and before `newer`.
    #[inline]
    #[must_use]
    pub fn needs(&self, version: Version, newer: Option<Version>) -> bool {
        let Some(newer) = newer else {
            return true;
        };
        if newer > self.floor {
            return true;
        }
        let first = self.snapshots.partition_point(|&snapshot| snapshot < version);
        self.snapshots.get(first).is_some_and(|&snapshot| snapshot < newer)
    }

    /// Whether some reader finds a version of the key that is older than `version`, if there is one.
    #[inline]
    #[must_use]
    pub fn needs_older_than(&self, version: Version) -> bool {
        version > self.floor || self.snapshots.first().is_some_and(|&snapshot| snapshot < version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{Location, RowId, RowsetId};
    use proptest::prelude::*;

    fn list() -> impl Strategy<Value = Vec<Entry>> {
        proptest::collection::btree_map(1u64..40, any::<bool>(), 0..12).prop_map(|versions| {
            versions
                .into_iter()
                .rev()
                .map(|(version, deleted)| {
                    if deleted {
                        Entry::deletion(Version(version))
                    } else {
                        let location = Location { rowset: RowsetId(1), rowid: RowId(version as u32) };
                        Entry::put(Version(version), location)
                    }
                })
                .collect()
        })
    }

    /// What a reader at `at` finds: a row, or nothing.
    fn read(list: &[Entry], at: Version) -> Option<Location> {
        list.iter().find(|entry| entry.version <= at)?.location()
    }

    proptest! {
        #[test]
        fn no_reader_sees_a_difference_and_nothing_more_is_kept(
            list in list(),
            floor in 0u64..45,
            snapshots in proptest::collection::btree_set(0u64..45, 0..5),
            base in any::<bool>(),
        ) {
            let floor = Version(floor);
            let snapshots: Vec<_> = snapshots.into_iter().map(Version).filter(|&s| s <= floor).collect();
            let retention = Retention { floor, snapshots: snapshots.clone() };
            let mut kept = list.clone();
            retention.retain(&mut kept, base);

            let readers: Vec<Version> = (floor.0..50).map(Version).chain(snapshots).collect();
            for &at in &readers {
                prop_assert_eq!(read(&kept, at), read(&list, at), "at {}", at);
            }
            if !base {
                // Also which version a reader finds, so that what is below stays hidden.
                for &at in &readers {
                    let find = |list: &[Entry]| list.iter().find(|entry| entry.version <= at).copied();
                    prop_assert_eq!(find(&kept), find(&list));
                }
            }
            // Each of the kept ones is found by some reader.
            for (index, entry) in kept.iter().enumerate() {
                let newer = index.checked_sub(1).map_or(Version::MAX, |newer| kept[newer].version);
                let found = |&at: &Version| entry.version <= at && at < newer;
                prop_assert!(readers.iter().any(found) || entry.version > floor, "{:?}", entry);
            }
            // Whoever stops where nothing older is needed misses nothing.
            if let Some(end) = list.iter().find(|entry| !retention.needs_older_than(entry.version)) {
                prop_assert!(kept.iter().all(|entry| entry.version >= end.version), "{:?}", end);
            }
            prop_assert!(!base || kept.last().is_none_or(|last| !last.is_deletion()));
        }
    }

    #[test]
    fn one_old_snapshot_keeps_one_version_of_a_hot_key() {
        let put = |version| Entry::put(Version(version), Location::default());
        let mut list: Vec<_> = (1..=100_000).rev().map(put).collect();
        let retention = Retention { floor: Version(100_000), snapshots: vec![Version(17)] };
        retention.retain(&mut list, false);
        assert_eq!(list, [put(100_000), put(17)]);
    }
}
