//! Power cuts: which of the things that were not durable are on the disk afterwards.
//!
//! Owns the policies, and turns one into a decision for each file and each directory operation. What was synced is
//! never up for decision. Never touches bytes: [`super::pages`] and [`super::directory`] apply the decisions.

use super::directory::{DirOp, DirOpKind};
use super::pages::{Content, Survival, Torn};
use super::random::Random;

/// What a power cut leaves. The four parts are independent; where they draw lots, `seed` decides.
///
/// ```
/// use nyala_vfs::sim::{Entries, Pages, PowerCut, Sizes};
/// let cut = PowerCut { sizes: Sizes::Kept, entries: Entries::Kept, ..PowerCut::lose_all() };
/// assert_eq!(cut.pages, Pages::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PowerCut {
    /// The pages of files that were written since their last sync.
    pub pages: Pages,
    /// The last write to the disk, if it was not synced.
    pub last_write: LastWrite,
    /// The lengths of files that changed since their last sync.
    pub sizes: Sizes,
    /// The directory operations since the last sync of their directory.
    pub entries: Entries,
    /// For the lots.
    pub seed: u64,
}

/// Which unsynced pages of 4 KiB are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pages {
    /// None: the disk has only what was synced.
    None,
    /// All, as last written.
    All,
    /// All writes up to some moment, the same for all files, and none after it.
    Prefix,
    /// Each page on its own: not at all, as last written, or as it was in between.
    Random,
}

/// What becomes of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastWrite {
    /// What becomes of its pages.
    AsPages,
    /// A front part of it is there, in whole sectors of 512 bytes.
    TornPrefix,
    /// Some of its sectors of 512 bytes are there.
    TornSectors,
}

/// Which length an unsynced file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sizes {
    /// As of the last change that is on the disk.
    WithData,
    /// As of the last sync: data beyond it is lost with it.
    Lost,
    /// As last seen: data that is not on the disk reads as zeros.
    Kept,
    /// As of some moment since the last sync.
    Random,
}

/// Which unsynced directory operations are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entries {
    /// None.
    Lost,
    /// All.
    Kept,
    /// All up to some moment.
    Prefix,
    /// Each on its own, but those on one name in order.
    Random,
    /// All but removals: those come undone, unless the name was used again.
    UnlinksUndone,
    /// All but renames: those come undone, unless one of the names was used again.
    RenamesUndone,
}

impl PowerCut {
    /// The disk as last synced.
    #[must_use]
    pub fn lose_all() -> PowerCut {
        PowerCut {
            pages: Pages::None,
            last_write: LastWrite::AsPages,
            sizes: Sizes::Lost,
            entries: Entries::Lost,
            seed: 0,
        }
    }

    /// The disk as last seen: what a mere crash of the process leaves.
    #[must_use]
    pub fn keep_all() -> PowerCut {
        PowerCut {
            pages: Pages::All,
            last_write: LastWrite::AsPages,
            sizes: Sizes::Kept,
            entries: Entries::Kept,
            seed: 0,
        }
    }

    /// One of all combinations, drawn by lot.
    #[must_use]
    pub fn random(seed: u64) -> PowerCut {
        let mut random = Random::new(seed, 0);
        let mut draw = |end| random.below(end) as usize;
        PowerCut {
            pages: [Pages::None, Pages::All, Pages::Prefix, Pages::Random, Pages::Random][draw(5)],
            last_write: [LastWrite::AsPages, LastWrite::TornPrefix, LastWrite::TornSectors][draw(3)],
            sizes: [Sizes::WithData, Sizes::Lost, Sizes::Kept, Sizes::Random][draw(4)],
            entries: [
                Entries::Lost,
                Entries::Kept,
                Entries::Prefix,
                Entries::Random,
                Entries::Random,
                Entries::UnlinksUndone,
                Entries::RenamesUndone,
            ][draw(7)],
            seed,
        }
    }
}

/// The decisions of one power cut.
pub(super) struct Decisions<'a> {
    policy: &'a PowerCut,
    random: Random,
    /// Everything of at least this order is lost, where the policy is a prefix.
    moment: u64,
    /// The order of the write that is torn.
    torn: Option<u64>,
}

impl<'a> Decisions<'a> {
    /// For a disk whose changes have orders in `0..order_end`. The unsynced ones start at `order_first`; the last of
    /// them that is a write is `last_write`.
    pub(super) fn new(
        policy: &'a PowerCut,
        order_first: u64,
        order_end: u64,
        last_write: Option<u64>,
    ) -> Decisions<'a> {
        let mut random = Random::new(policy.seed, 1);
        let moment = order_first + random.below(order_end.saturating_sub(order_first) + 1);
        let torn = match policy.last_write {
            LastWrite::AsPages => None,
            LastWrite::TornPrefix | LastWrite::TornSectors => last_write,
        };
        Decisions { policy, random, moment, torn }
    }

    /// Whether a directory operation is on the disk.
    pub(super) fn keeps(&mut self, operation: &DirOp) -> bool {
        match self.policy.entries {
            Entries::Lost => false,
            Entries::Kept => true,
            Entries::Prefix => operation.order < self.moment,
            Entries::Random => self.random.coin(),
            Entries::UnlinksUndone => operation.kind != DirOpKind::Unlink,
            Entries::RenamesUndone => operation.kind != DirOpKind::Rename,
        }
    }

    /// What is left of a file.
    pub(super) fn survival(&mut self, content: &Content) -> Survival {
        let changes = content.changes();
        let all = changes.len();
        let moment = changes.partition_point(|change| change.order < self.moment);
        let mut survival = Survival::default();
        for page in content.dirty_pages() {
            let through = match self.policy.pages {
                Pages::None => 0,
                Pages::All => all,
                Pages::Prefix => moment,
                Pages::Random => match self.random.below(3) {
                    0 => 0,
                    1 => all,
                    _ => self.random.below(all as u64 + 1) as usize,
                },
            };
            survival.pages.insert(page, through);
        }
        let torn = self.torn.and_then(|order| changes.iter().position(|change| change.order == order));
        if let Some(at) = torn {
            self.tear(content, at, &mut survival);
        }
        survival.len_through = match self.policy.sizes {
            Sizes::Lost => 0,
            Sizes::Kept => all,
            Sizes::Random => self.random.below(all as u64 + 1) as usize,
            Sizes::WithData => self.len_with_data(content, &survival, moment),
        };
        survival
    }

    /// Chooses the sectors of change `at` that are there, and takes the change out of its pages.
    fn tear(&mut self, content: &Content, at: usize, survival: &mut Survival) {
        for page in content.pages_of(at) {
            let through = survival.pages.entry(page).or_default();
            *through = (*through).min(at);
        }
        let sectors = content.sectors_of(at);
        let sectors = match self.policy.last_write {
            LastWrite::TornPrefix => {
                let count = self.random.below(sectors.end - sectors.start + 1);
                sectors.take(count as usize).collect()
            }
            _ => sectors.filter(|_| self.random.coin()).collect(),
        };
        survival.torn = Some(Torn { through: at + 1, sectors });
    }

    /// Through the last change of which something is there. A change of the length alone counts like a page of its
    /// own.
    fn len_with_data(&mut self, content: &Content, survival: &Survival, moment: usize) -> usize {
        let changes = content.changes();
        let mut len_through = 0;
        for (at, change) in changes.iter().enumerate() {
            let is_there = if change.is_write() {
                let torn = survival.torn.as_ref();
                let in_torn = torn.is_some_and(|torn| torn.through == at + 1 && !torn.sectors.is_empty());
                in_torn || content.pages_of(at).any(|page| at < survival.pages[&page])
            } else {
                match self.policy.pages {
                    Pages::None => false,
                    Pages::All => true,
                    Pages::Prefix => at < moment,
                    Pages::Random => self.random.coin(),
                }
            };
            if is_there {
                len_through = at + 1;
            }
        }
        len_through
    }
}
