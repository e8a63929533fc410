//! How much of an index nobody needs any more, as far as counts tell: without reading an entry, and without knowing
//! what there was when a run was written, so that the answer is the same after a reopen.
//!
//! For whoever decides what to compact: a snapshot that is dropped leaves old versions behind in runs that nothing else
//! would be a reason to touch.

use codec::Version;

use crate::merger::Retention;
use crate::properties::Properties;
use crate::run::Run;

impl Properties {
    /// At least so many of the file's entries are needed by nobody, and go when the file is compacted, alone or with
    /// others. `base` says that it belongs to the oldest run.
    ///
    /// Of each key one version is needed, and one more for each snapshot that lies between two of the file's versions.
    /// Once the file has been compacted with the same `retention` this is 0, for each file that comes out.
    #[must_use]
    pub fn garbage_min(&self, retention: &Retention, base: bool) -> u64 {
        let (min, max) = self.versions;
        if max > retention.floor {
            // How many are above the floor, and thus needed, is not known.
            return 0;
        }
        let before = |version: Version| retention.snapshots.partition_point(|&snapshot| snapshot < version);
        let snapshots = (before(max) - before(min)) as u64;
        let several = self.entries.saturating_sub(self.keys.saturating_mul(1 + snapshots));
        // Without snapshots only the newest version of a key stays, and at the base no deletion does.
        if base && snapshots == 0 { several.max(self.deletions) } else { several }
    }
}

impl Run {
    /// The sum of [`Properties::garbage_min`] over its files. `base` says that it is the oldest run.
    #[must_use]
    pub fn garbage_min(&self, retention: &Retention, base: bool) -> u64 {
        self.files().iter().map(|file| file.properties.garbage_min(retention, base)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Index, delete, ops, put, puts};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    // Case 19: the space comes back, because somebody notices.
    #[test]
    fn what_a_dropped_snapshot_held_is_noticed_from_the_counts() {
        let mut index = Index::new();
        index.flush(&[puts(0..40), vec![delete("000007")]].concat());
        let snapshot = index.version();
        index.flush(&puts(0..30));
        let mut retention = Retention { floor: index.version(), snapshots: vec![snapshot] };
        index.compact(0..2, &retention);
        assert_eq!(index.runs[0].garbage_min(&retention, true), 0, "a snapshot holds it");
        retention.snapshots.clear();
        let run = &index.runs[0];
        let surplus = run.entries() - run.keys();
        assert!(surplus >= 29, "{surplus}");
        assert_eq!(run.garbage_min(&retention, true), surplus);
        retention.floor = Version(5);
        assert_eq!(run.garbage_min(&retention, true), 0, "all may be needed above the floor");
        retention.floor = index.version();
        let stats = index.compact(0..1, &retention);
        assert_eq!(stats.entries_dropped, surplus);
        assert_eq!(index.runs[0].garbage_min(&retention, true), 0);
        index.check([index.version()]);
    }

    #[test]
    fn deletions_at_the_base_are_garbage() {
        let mut index = Index::new();
        index.flush(&[put("a"), delete("b"), delete("c")]);
        let retention = Retention { floor: index.version(), snapshots: Vec::new() };
        assert_eq!(index.runs[0].garbage_min(&retention, false), 0);
        assert_eq!(index.runs[0].garbage_min(&retention, true), 2);
        index.compact(0..1, &retention);
        assert_eq!((index.runs[0].garbage_min(&retention, true), index.runs[0].entries()), (0, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        // Case 52: compacting for garbage makes progress, and ends after one time.
        #[test]
        fn garbage_that_is_counted_is_there_and_gone_after_one_compaction(
            flushes in proptest::collection::vec(ops(1..60), 2..5),
            snapshots in proptest::collection::btree_set(0u64..150, 0..6),
            dropped in any::<u8>(),
            base in any::<bool>(),
        ) {
            let mut index = Index::new();
            for flush in &flushes {
                index.flush(flush);
            }
            let floor = index.version();
            let snapshots: BTreeSet<Version> =
                snapshots.into_iter().map(Version).filter(|&at| at <= floor).collect();
            let range = if base { 0..index.runs.len() } else { 0..index.runs.len() - 1 };
            let mut retention = Retention { floor, snapshots: snapshots.iter().copied().collect() };
            index.compact(range, &retention);
            let mut number = 0;
            retention.snapshots.retain(|_| { number += 1; dropped >> (number % 8) & 1 == 0 });
            if index.runs.is_empty() {
                return Ok(());
            }
            let is_base = index.runs.len() == 1;
            let garbage = index.runs[0].garbage_min(&retention, is_base);
            let stats = index.compact(0..1, &retention);
            prop_assert!(stats.entries_dropped >= garbage, "{} of {}", stats.entries_dropped, garbage);
            // Nothing may be left of a base.
            let left = index.runs.first().map_or(0, |run| run.garbage_min(&retention, is_base));
            prop_assert_eq!(left, 0);
            index.check(retention.snapshots.iter().copied().chain([floor]));
        }
    }
}
