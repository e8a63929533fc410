//! Which neighbouring runs to merge next.
//!
//! Size-tiered: runs of about the same size are merged once there are four of them, so that an entry is written once
//! for each time that the data grows fourfold. A run counts as no smaller than any newer one, so that the tiers
//! ascend from the newest to the oldest run, and the number of runs stays below `ratio` for each tier. On top of that,
//! all is merged when the newer runs have become large against the oldest, because then much of what the oldest says is
//! out of date; and when there is nothing else to do, until few runs are left.
//!
//! Decides only. Knows no file and keeps no state: the same runs give the same answer, after a reopen too.
//!
//! Invariant: what is picked has at least two runs, none of them busy; so each merge leaves fewer runs, and picking
//! ends.
//! Invariant: as long as no run is busy and there are more than [`Policy::runs_max`], something is picked.

use std::ops::Range;

/// A run, as far as picking is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunShape {
    /// Its length on disk, in bytes.
    pub bytes: u64,
    /// Its entries.
    pub entries: u64,
    /// Whether it must not be merged now: it is being merged already, or has failed too often.
    pub busy: bool,
}

/// When to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many runs of a tier are merged into one of the next, and how much larger that one is. Default 4, at least
    /// 2: more means fewer writes and more runs to read.
    pub ratio: usize,
    /// The runs of the lowest tier are smaller than `ratio` times this, in bytes. Default 4 MiB, about what a flush
    /// writes.
    pub tier_bytes: u64,
    /// At most this many runs are merged at once. Default 16, at least `ratio`.
    pub inputs_max: usize,
    /// All is merged when the entries of the newer runs are more than this many percent of the oldest one's. Default
    /// 25: less means less garbage and more writes.
    pub upper_percent_max: u64,
    /// The same, when there is nothing else to do. Default 15.
    pub upper_percent_max_idle: u64,
    /// As long as the newer runs have fewer bytes than this, they never cause all to be merged while there is other
    /// work. Default 16 MiB.
    pub upper_bytes_min: u64,
    /// How many runs are left when there is nothing else to do. Default 3, at least 1.
    pub runs_max_idle: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            ratio: 4,
            tier_bytes: 4 << 20,
            inputs_max: 16,
            upper_percent_max: 25,
            upper_percent_max_idle: 15,
            upper_bytes_min: 16 << 20,
            runs_max_idle: 3,
        }
    }
}

impl Policy {
    /// The tier that a run of this size belongs to.
    fn tier(&self, bytes: u64) -> u32 {
        (bytes / self.tier_bytes.max(1)).checked_ilog(self.ratio() as u64).unwrap_or(0)
    }

    /// How many runs there can be at most when nothing is picked, the largest of which has this many bytes.
    #[must_use]
    pub fn runs_max(&self, bytes: u64) -> usize {
        (self.ratio() - 1) * (self.tier(bytes) as usize + 1)
    }

    fn ratio(&self) -> usize {
        self.ratio.max(2)
    }

    fn inputs_max(&self) -> usize {
        self.inputs_max.max(self.ratio())
    }
}

/// What else needs the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Readers and writers: only what must be done is worth it.
    Busy,
    /// Nobody: what only tidies up is worth it, too.
    Idle,
}

/// The runs to merge next, as a range of `runs`, which are given newest first; `None` if it is well as it is.
///
/// ```
/// use nyala_pkindex::pick::{Load, Policy, RunShape, pick};
/// let run = |mib: u64| RunShape { bytes: mib << 20, entries: mib << 15, busy: false };
/// let runs = [run(5), run(4), run(6), run(5), run(400)];
/// assert_eq!(pick(&runs, &Policy::default(), Load::Busy), Some(0..4));
/// assert_eq!(pick(&runs[1..], &Policy::default(), Load::Busy), None);
/// ```
#[must_use]
pub fn pick(runs: &[RunShape], policy: &Policy, load: Load) -> Option<Range<usize>> {
    pick_tier(runs, policy)
        .or_else(|| pick_all(runs, policy, load))
        .or_else(|| if load == Load::Idle { pick_few(runs, policy) } else { None })
}

/// The lowest tier with enough runs side by side.
fn pick_tier(runs: &[RunShape], policy: &Policy) -> Option<Range<usize>> {
    let mut start = 0;
    let mut tier = 0;
    for index in 0..=runs.len() {
        let next = runs.get(index).map(|run| (tier.max(policy.tier(run.bytes)), run.busy));
        if next == Some((tier, false)) {
            continue;
        }
        if index - start >= policy.ratio() {
            // The oldest: the newest may still be joined by smaller ones.
            return Some(start.max(index.saturating_sub(policy.inputs_max()))..index);
        }
        let (next_tier, busy) = next?;
        tier = next_tier;
        start = if busy { index + 1 } else { index };
    }
    None
}

/// Everything, if the newer runs are large against the oldest.
fn pick_all(runs: &[RunShape], policy: &Policy, load: Load) -> Option<Range<usize>> {
    let (base, upper) = runs.split_last()?;
    if upper.is_empty() || runs.iter().any(|run| run.busy) {
        return None;
    }
    let (percent_max, bytes_min) = match load {
        Load::Idle => (policy.upper_percent_max_idle, 0),
        Load::Busy => (policy.upper_percent_max, policy.upper_bytes_min),
    };
    let upper_entries: u128 = upper.iter().map(|run| u128::from(run.entries)).sum();
    let upper_bytes: u128 = upper.iter().map(|run| u128::from(run.bytes)).sum();
    let is_large = upper_entries * 100 > u128::from(base.entries) * u128::from(percent_max);
    (is_large && upper_bytes >= u128::from(bytes_min)).then_some(0..runs.len())
}

/// The neighbours that are cheapest to merge so that few enough runs are left.
fn pick_few(runs: &[RunShape], policy: &Policy) -> Option<Range<usize>> {
    let surplus = runs.len().checked_sub(policy.runs_max_idle.max(1)).filter(|&surplus| surplus > 0)?;
    let inputs = (surplus + 1).min(policy.inputs_max());
    (0..=runs.len() - inputs)
        .map(|start| start..start + inputs)
        .filter(|range| runs[range.clone()].iter().all(|run| !run.busy))
        .min_by_key(|range| runs[range.clone()].iter().map(|run| u128::from(run.bytes)).sum::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(bytes: u64) -> RunShape {
        RunShape { bytes, entries: bytes / 30, busy: false }
    }

    fn policy() -> Policy {
        Policy { tier_bytes: 1000, upper_bytes_min: 4000, ..Policy::default() }
    }

    fn runs() -> impl Strategy<Value = Vec<RunShape>> {
        let bytes = prop_oneof![0u64..5000, 0u64..1_000_000, any::<u32>().prop_map(u64::from)];
        let shape = (bytes, any::<u32>(), proptest::bool::weighted(0.1));
        proptest::collection::vec(
            shape.prop_map(|(bytes, entries, busy)| RunShape { bytes, entries: u64::from(entries), busy }),
            0..40,
        )
    }

    fn is_merge(runs: &[RunShape], range: &Range<usize>) -> bool {
        range.end <= runs.len() && range.len() >= 2 && runs[range.clone()].iter().all(|run| !run.busy)
    }

    /// Merges a range into one run, of which this many percent are kept.
    fn merge(runs: &mut Vec<RunShape>, range: Range<usize>, percent: u64) {
        let sum =
            |count: fn(&RunShape) -> u64| runs[range.clone()].iter().map(count).sum::<u64>() / 100 * percent;
        let merged = RunShape { bytes: sum(|run| run.bytes), entries: sum(|run| run.entries), busy: false };
        runs.splice(range, [merged]);
    }

    fn loads() -> impl Strategy<Value = Load> {
        prop_oneof![Just(Load::Busy), Just(Load::Idle)]
    }

    fn is_bounded(runs: &[RunShape], policy: &Policy, load: Load) -> bool {
        let largest = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
        let bound = if load == Load::Idle { policy.runs_max_idle } else { policy.runs_max(largest) };
        runs.len() <= bound
    }

    proptest! {
        #[test]
        fn what_is_picked_is_a_merge_and_too_many_runs_are_never_left_alone(runs in runs(), load in loads()) {
            let picked = pick(&runs, &policy(), load);
            if let Some(range) = &picked {
                prop_assert!(is_merge(&runs, range), "{:?}", range);
            }
            let is_free = runs.iter().all(|run| !run.busy);
            prop_assert!(picked.is_some() || !is_free || is_bounded(&runs, &policy(), load));
        }

        #[test]
        fn picking_ends_with_a_bounded_number_of_runs(
            mut runs in runs(),
            kept in proptest::collection::vec(0u64..=100, 40),
            load in loads(),
        ) {
            for run in &mut runs {
                run.busy = false;
            }
            let mut steps = 0;
            while let Some(range) = pick(&runs, &policy(), load) {
                prop_assert!(is_merge(&runs, &range));
                merge(&mut runs, range, kept[steps]);
                steps += 1;
                prop_assert!(steps < 40, "each merge leaves fewer runs");
            }
            prop_assert!(is_bounded(&runs, &policy(), load));
        }

        #[test]
        fn runs_stay_bounded_while_flushes_go_on(
            flushes in proptest::collection::vec((200u64..4000, 50u64..=100), 1..300),
        ) {
            let mut runs = Vec::new();
            for (bytes, kept) in flushes {
                runs.insert(0, run(bytes));
                while let Some(range) = pick(&runs, &policy(), Load::Busy) {
                    merge(&mut runs, range, kept);
                }
                prop_assert!(is_bounded(&runs, &policy(), Load::Busy));
                let (base, upper) = runs.split_last().expect("at least one");
                let sum = |count: fn(&RunShape) -> u64| upper.iter().map(count).sum::<u64>();
                prop_assert!(
                    sum(|run| run.bytes) < 4000 || sum(|run| run.entries) * 100 <= base.entries * 25
                );
            }
        }
    }

    /// How often a byte is written by merges, when `flushes` runs of the same size come one after the other.
    fn times_written(flushes: u64, policy: &Policy) -> f64 {
        let (mut runs, mut written) = (Vec::new(), 0);
        for _ in 0..flushes {
            runs.insert(0, run(10_000));
            while let Some(range) = pick(&runs, policy, Load::Busy) {
                written += runs[range.clone()].iter().map(|run| run.bytes).sum::<u64>();
                merge(&mut runs, range, 100);
            }
        }
        written as f64 / (flushes * 10_000) as f64
    }

    #[test]
    fn writes_grow_with_the_logarithm_of_the_data() {
        let tiers_only = Policy { upper_percent_max: u64::MAX, ..policy() };
        assert!(times_written(100, &tiers_only) < 3.5, "{}", times_written(100, &tiers_only));
        assert!(times_written(1600, &tiers_only) < 5.5, "{}", times_written(1600, &tiers_only));
        assert!(times_written(100, &policy()) < 7.0, "{}", times_written(100, &policy()));
    }

    #[test]
    fn busy_runs_are_merged_around() {
        let mut runs = vec![run(900); 9];
        runs[4].busy = true;
        assert_eq!(pick(&runs, &policy(), Load::Busy), Some(0..4));
        runs[1].busy = true;
        assert_eq!(pick(&runs, &policy(), Load::Busy), Some(5..9));
        runs[7].busy = true;
        assert_eq!(pick(&runs, &policy(), Load::Busy), None);
        assert_eq!(pick(&runs, &policy(), Load::Idle), None, "no seven neighbours are free");
    }

    #[test]
    fn nothing_is_picked_of_nothing_and_of_one_run() {
        for load in [Load::Busy, Load::Idle] {
            assert_eq!(pick(&[], &policy(), load), None);
            assert_eq!(pick(&[run(1 << 40)], &policy(), load), None);
        }
    }

    #[test]
    fn idle_time_is_used_until_three_runs_are_left() {
        let runs = [run(10), run(20), run(4000), run(70_000), run(1_000_000_000)];
        assert_eq!(pick(&runs, &policy(), Load::Busy), None);
        assert_eq!(pick(&runs, &policy(), Load::Idle), Some(0..3));
        assert_eq!(pick(&runs[2..], &policy(), Load::Idle), None);
    }
}
