//! How flushes come, and whether writers have gone quiet by that.

use std::time::Duration;

/// Writers are idle when no flush came for this long at least.
const IDLE_AFTER_MIN: Duration = Duration::from_millis(500);
/// A longer time between flushes counts as this.
const FLUSH_GAP_MAX: Duration = Duration::from_secs(5);

/// How flushes come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rhythm {
    /// When the last one ended.
    last: Duration,
    /// The time from one to the next, smoothed.
    gap: Duration,
}

impl Rhythm {
    /// A flush has ended.
    pub(super) fn note(&mut self, end: Duration) {
        let gap = end.saturating_sub(self.last).min(FLUSH_GAP_MAX);
        self.gap = (self.gap * 3 + gap) / 4;
        self.last = end;
    }

    /// Whether the next one would be late if writers went on as before.
    pub(super) fn is_late(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= IDLE_AFTER_MIN.max(self.gap * 2)
    }
}
