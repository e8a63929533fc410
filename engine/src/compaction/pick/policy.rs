//! The numbers that picking keeps within bounds, and their defaults.
//!
//! `simulation` says what these numbers give together with the pace of writers.

use pkindex::pick::{self as index, Load};

use crate::compaction::shape::Shape;

/// What to keep within bounds in one state of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// More rowsets over a key than this are a reason for a compaction.
    pub(crate) depth_max: usize,
    /// More than this are reason enough to move rows in a compaction that runs anyway.
    pub(crate) depth_merge: usize,
    /// A move goes on until no more than this are left.
    pub(crate) depth_goal: usize,
    /// More garbage than this, in percent of the rowsets' bytes, is a reason for a compaction.
    pub(crate) garbage_percent_max: u64,
    /// More than this, with what the newer runs overwrite, is a reason to merge all runs.
    pub(crate) garbage_percent_to_come: u64,
    /// So is more than this of the oldest run's entries that the newer runs overwrite.
    pub(crate) overwritten_percent_max: u64,
    /// In a compaction that runs anyway, rows are moved until no more than this is left.
    pub(crate) garbage_percent_goal: u64,
    /// More small rowsets than this are a reason to join some: each is a file to keep open.
    pub(crate) small_max: usize,
    /// More than this in rowsets that are not compressed, in percent of the rowsets' bytes, is a reason to compress
    /// some.
    pub(crate) raw_percent_max: u64,
}

/// When to compact what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// The rules for index runs.
    pub(crate) index: index::Policy,
    /// How large a rowset gets.
    pub(crate) rowset_bytes: u64,
    /// How many threads may move rows at the same time, each into rowsets of its own.
    pub(crate) lanes: usize,
    /// How much of the rowsets' bytes one compaction moves at most, in percent.
    pub(crate) moved_percent_max: u64,
    /// While others need the disk. The bound of the depth is 12: a reason for a compaction comes well before it, since
    /// more rowsets come while one runs.
    pub(crate) busy: Limits,
    /// When nobody does.
    pub(crate) idle: Limits,
}

impl Policy {
    /// The defaults, for rowsets of this size.
    pub(crate) fn new(rowset_bytes: u64) -> Policy {
        Policy {
            // All runs are merged by what the newer ones overwrite, not by how large they are: where keys are only
            // added, there is nothing to be gained in the oldest.
            index: index::Policy {
                upper_percent_max: u64::MAX,
                upper_percent_max_idle: u64::MAX,
                ..index::Policy::default()
            },
            rowset_bytes,
            lanes: 1,
            moved_percent_max: 50,
            busy: Limits {
                depth_max: 8,
                depth_merge: 6,
                depth_goal: 4,
                garbage_percent_max: 30,
                garbage_percent_to_come: 22,
                overwritten_percent_max: 20,
                garbage_percent_goal: 15,
                small_max: 256,
                raw_percent_max: 100,
            },
            idle: Limits {
                depth_max: DEPTH_MAX_IDLE,
                depth_merge: 3,
                depth_goal: 2,
                garbage_percent_max: 15,
                garbage_percent_to_come: 15,
                overwritten_percent_max: 15,
                garbage_percent_goal: 8,
                small_max: 128,
                raw_percent_max: 10,
            },
        }
    }

    pub(super) fn limits(&self, load: Load) -> &Limits {
        match load {
            Load::Busy => &self.busy,
            Load::Idle => &self.idle,
        }
    }

    /// How many bytes of rows one compaction moves at most, if it moves more than one rowset.
    pub(super) fn moved_bytes_max(&self, shape: &Shape) -> u64 {
        self.rowset_bytes.max(shape.row_bytes() / 100 * self.moved_percent_max)
    }
}

/// More rowsets than this over a key never stay.
pub(crate) const DEPTH_MAX_IDLE: usize = 4;
/// A rowset with less garbage than this, in percent, is not moved for its garbage.
pub(super) const GARBAGE_PERCENT_MIN: u64 = 10;
/// A rowset is small if it has less than this part of the size of a full one.
pub(super) const SMALL_PART: u64 = 4;
/// Fewer small rowsets than this are not joined.
pub(super) const SMALL_LEAST: usize = 8;
/// A run is merged alone if more of its entries than this, in percent, can go since a snapshot was dropped.
pub(super) const FREED_PERCENT_MIN: u64 = 15;
/// Writers are slowed when more rowsets than this lie over a key: so far below the 12 that are the bound that the pace
/// meets what compaction manages before the bound. At first it is faster than most write.
pub(super) const DEPTH_SLOWED: usize = 6;
