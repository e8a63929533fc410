//! How much memory and compaction press, and how fast batches may come by that.
//!
//! Owns the marks of debt and the curves between the marks. Keeps no state.
//!
//! Invariant: the pace falls without a step, and is never nothing: pressure alone stops nobody.

use super::StallCause;

/// Runs that a tablet has beyond what compaction leaves when it keeps up: from where writers begin to be slowed, and
/// where the slowing is strongest.
pub(super) const RUNS_SOFT: usize = 4;
pub(super) const RUNS_HARD: usize = 40;
/// The same for rowsets over one key, counted from well below the bound of their depth.
const DEPTH_SOFT: usize = 0;
const DEPTH_HARD: usize = 18;
/// How often the rate is halved where debt slows most.
const DEBT_HALVINGS: f64 = 12.0;

/// How far each is between its marks: 0 at the soft one or below it, 1 at the hard one or above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    memory: f64,
    debt: f64,
}

impl Pressure {
    /// Memory that is in use, between the marks of it; and by how many runs, and by how many rowsets over one key, the
    /// worst tablet is behind.
    pub(super) fn of(used: usize, (soft, hard): (usize, usize), (runs, depth): (usize, usize)) -> Pressure {
        Pressure {
            memory: between(used, soft, hard),
            debt: between(runs, RUNS_SOFT, RUNS_HARD).max(between(depth, DEPTH_SOFT, DEPTH_HARD)),
        }
    }

    /// Whether the debt of compaction presses.
    pub(super) fn is_from_debt(self) -> bool {
        self.debt > 0.0
    }

    /// How fast batches may come, as a multiple of what the flushes manage; `None` if as fast as they like.
    ///
    /// Twice it where memory or debt begin to press; for memory a quarter of it at the hard mark, for debt less and
    /// less. It equals what is worked off somewhere between, and settles there.
    pub(super) fn pace(self) -> Option<f64> {
        (!self.is_none()).then(|| self.pace_for_memory().min(self.pace_for_debt()))
    }

    /// Which of the two slows batches more, if either does.
    pub(super) fn presses(self) -> Option<StallCause> {
        if self.is_none() {
            None
        } else if self.pace_for_memory() < self.pace_for_debt() {
            Some(StallCause::Memory)
        } else {
            Some(StallCause::Compaction)
        }
    }

    fn is_none(self) -> bool {
        self.memory == 0.0 && self.debt == 0.0
    }

    fn pace_for_memory(self) -> f64 {
        2.0 - 1.75 * self.memory
    }

    fn pace_for_debt(self) -> f64 {
        2.0 * (-DEBT_HALVINGS * self.debt).exp2()
    }
}

/// How far a value is between two marks: 0 at the first or below it, 1 at the second or above it.
fn between(value: usize, soft: usize, hard: usize) -> f64 {
    (value.saturating_sub(soft) as f64 / (hard - soft).max(1) as f64).min(1.0)
}
