//! The page states: what a power cut may leave of what was not synced.
//!
//! Each state of the list has a reason; after them come random ones for as long as anybody asks.

use nyala::vfs::sim::{Entries, LastWrite, Pages, PowerCut, Sizes};

/// How many have a name.
pub(crate) const NAMED: usize = 16;

/// The page state with this number, with its lots drawn by `seed`.
pub(crate) fn page_state(number: usize, seed: u64) -> (&'static str, PowerCut) {
    let lose = PowerCut { seed, ..PowerCut::lose_all() };
    let keep = PowerCut { seed, ..PowerCut::keep_all() };
    match number {
        0 => ("nothing unsynced kept", lose),
        1 => ("all kept", keep),
        2 => ("last write torn at the end", PowerCut { last_write: LastWrite::TornPrefix, ..keep }),
        3 => ("last write torn anywhere", PowerCut { last_write: LastWrite::TornSectors, ..keep }),
        4 => ("sizes without data", PowerCut { pages: Pages::None, ..keep }),
        5 => ("data without sizes", PowerCut { sizes: Sizes::Lost, ..keep }),
        6 => (
            "all up to a moment",
            PowerCut { pages: Pages::Prefix, sizes: Sizes::WithData, entries: Entries::Prefix, ..keep },
        ),
        7 => ("any pages", PowerCut { pages: Pages::Random, sizes: Sizes::WithData, ..keep }),
        8 => ("any pages, any sizes", PowerCut { pages: Pages::Random, sizes: Sizes::Random, ..keep }),
        9 => ("directory entries lost from the end", PowerCut { entries: Entries::Prefix, ..keep }),
        10 => ("directory entries lost anywhere", PowerCut { entries: Entries::Random, ..keep }),
        11 => ("directory entries lost", PowerCut { entries: Entries::Lost, ..keep }),
        12 => ("unlinks undone", PowerCut { entries: Entries::UnlinksUndone, ..keep }),
        13 => ("unlinks undone, data lost", PowerCut { entries: Entries::UnlinksUndone, ..lose }),
        14 => ("renames undone", PowerCut { entries: Entries::RenamesUndone, ..keep }),
        15 => ("directory entries kept, data lost", PowerCut { entries: Entries::Kept, ..lose }),
        _ => ("random", PowerCut::random(seed)),
    }
}
