//! Counts what became of damages, by file and region.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::judge::{Damage, Outcome};

const OUTCOMES: [Outcome; 5] =
    [Outcome::ByOpen, Outcome::ByRead, Outcome::ByCheck, Outcome::Harmless, Outcome::Legal];

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    regions: BTreeMap<(&'static str, &'static str), [u64; OUTCOMES.len()]>,
}

impl Tally {
    pub(crate) fn note(&mut self, damage: &Damage, outcome: Outcome) {
        let place = OUTCOMES.iter().position(|known| *known == outcome).expect("all are known");
        self.regions.entry(damage.region).or_default()[place] += 1;
    }

    pub(crate) fn add(&mut self, other: Tally) {
        for (region, counts) in other.regions {
            let own = self.regions.entry(region).or_default();
            own.iter_mut().zip(counts).for_each(|(own, more)| *own += more);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.regions.values().flatten().sum()
    }

    pub(crate) fn of(&self, outcome: Outcome) -> u64 {
        let place = OUTCOMES.iter().position(|known| *known == outcome).expect("all are known");
        self.regions.values().map(|counts| counts[place]).sum()
    }

    /// The regions in which some damage had this outcome.
    pub(crate) fn regions_with(&self, outcome: Outcome) -> BTreeSet<(&'static str, &'static str)> {
        let place = OUTCOMES.iter().position(|known| *known == outcome).expect("all are known");
        self.regions.iter().filter(|(_, counts)| counts[place] > 0).map(|(region, _)| *region).collect()
    }

    /// All regions.
    pub(crate) fn regions(&self) -> BTreeSet<(&'static str, &'static str)> {
        self.regions.keys().copied().collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<9} {:<34} {:>8} {:>8} {:>8} {:>9} {:>6}",
            "file", "region", "by open", "by read", "by check", "harmless", "legal"
        )?;
        for ((file, region), [open, read, check, harmless, legal]) in &self.regions {
            writeln!(f, "{file:<9} {region:<34} {open:>8} {read:>8} {check:>8} {harmless:>9} {legal:>6}")?;
        }
        Ok(())
    }
}
