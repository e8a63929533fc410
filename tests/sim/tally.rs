//! What was covered: distinct disks, by the kind of the last change before the power went.
//!
//! Invariant: a disk that was met before, in whatever workload, does not count again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Mutex;

#[derive(Debug, Default)]
struct Counts {
    disks: HashSet<u64>,
    /// By kind of operation: how many distinct disks.
    kinds: BTreeMap<String, u64>,
    /// The same by workload.
    workloads: BTreeMap<&'static str, u64>,
    opens: u64,
    moments: u64,
    /// What came before the moments of the runs.
    met: BTreeSet<String>,
}

/// Shared by the threads of a test.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

impl Tally {
    /// Notes a disk that was opened and compared, and what happened last on it.
    pub(crate) fn note(&self, workload: &'static str, fingerprint: u64, after: &str) {
        let mut counts = self.0.lock().expect("no panics");
        counts.opens += 1;
        if counts.disks.insert(fingerprint) {
            *counts.workloads.entry(workload).or_default() += 1;
            match counts.kinds.get_mut(after) {
                Some(count) => *count += 1,
                None => {
                    counts.kinds.insert(after.to_owned(), 1);
                }
            }
        }
    }

    /// Notes the moments of a run, by the last change before each.
    pub(crate) fn note_moments<'a>(&self, moments: impl Iterator<Item = &'a str>) {
        let mut counts = self.0.lock().expect("no panics");
        for after in moments {
            counts.moments += 1;
            if !counts.met.contains(after) {
                counts.met.insert(after.to_owned());
            }
        }
    }

    pub(crate) fn states(&self) -> u64 {
        self.0.lock().expect("no panics").disks.len() as u64
    }

    /// The kinds of operations after which there was no state, of `wanted` and of those that the runs met.
    pub(crate) fn missing(&self, wanted: &[&str]) -> Vec<String> {
        let counts = self.0.lock().expect("no panics");
        let wanted = wanted.iter().copied().chain(counts.met.iter().map(String::as_str));
        wanted.filter(|kind| !counts.kinds.contains_key(*kind)).map(str::to_owned).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.lock().expect("no panics");
        let states = counts.disks.len();
        writeln!(
            f,
            "{states} distinct crash states, {} opened, at {} moments",
            counts.opens, counts.moments
        )?;
        writeln!(f, "by workload: {:?}", counts.workloads)?;
        writeln!(f, "by the last operation before the power went:")?;
        for (kind, count) in &counts.kinds {
            writeln!(f, "  {count:>8}  {kind}")?;
        }
        Ok(())
    }
}
