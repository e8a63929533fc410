//! How many commits share a sync.
//!
//! Whoever waits for a sync comes back with the next commit soon after it. A sync that begins at once covers only those
//! who came during the last one, and those whom the last one let go wait for another: half of them each time. So a
//! sync begins when as many commits have come as the last one answered, or when the wait is no longer worth it: after a
//! quarter of what a sync takes. Who commits alone never waits.
//!
//! Invariant: it only ever delays a sync, and by no more than [`WAIT_MAX`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sync::thread;

use crate::runtime::Clock;

const WAIT_MAX: Duration = Duration::from_micros(500);

#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Commits that are in the log, want a sync, and came since the last one began.
    come: AtomicUsize,
    /// How many the last sync answered.
    answered: AtomicUsize,
    /// How long a sync takes, smoothed.
    sync_nanos: AtomicU64,
}

impl Gather {
    /// So many commits that want a sync are in the log.
    pub(super) fn note_appended(&self, commits: usize) {
        self.come.fetch_add(commits, Ordering::Relaxed);
    }

    /// Waits for as many commits as the last sync answered. The caller is the only one who may sync.
    pub(super) fn wait(&self, clock: &Clock) {
        let expected = self.answered.load(Ordering::Relaxed);
        if self.come.load(Ordering::Relaxed) < expected {
            let until = clock.now() + self.wait_max();
            while self.come.load(Ordering::Relaxed) < expected && clock.now() < until {
                // Those who are to come may need this processor.
                thread::yield_now();
            }
        }
        self.answered.store(self.come.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A sync took so long.
    pub(super) fn note_synced(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.sync_nanos.load(Ordering::Relaxed);
        let smoothed = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.sync_nanos.store(smoothed, Ordering::Relaxed);
    }

    fn wait_max(&self) -> Duration {
        Duration::from_nanos(self.sync_nanos.load(Ordering::Relaxed) / 4).min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn who_commits_alone_never_waits() {
        let (gather, clock) = (Gather::default(), Clock::manual());
        for _ in 0..10 {
            gather.note_appended(1);
            let start = clock.now();
            gather.wait(&clock);
            assert!(clock.now() - start <= Duration::from_micros(2));
            gather.note_synced(LONG);
        }
    }

    #[test]
    fn a_sync_waits_for_as_many_as_the_last_one_answered() {
        let (gather, clock) = (Gather::default(), Clock::real());
        gather.note_synced(Duration::from_secs(1));
        gather.note_appended(4);
        gather.wait(&clock);
        gather.note_appended(1);
        std::thread::scope(|scope| {
            scope.spawn(|| gather.note_appended(3));
            gather.wait(&clock);
        });
        // Whoever came late is left for the next, which then waits for no more than came now.
        let answered = gather.answered.load(Ordering::Relaxed) + gather.come.load(Ordering::Relaxed);
        assert_eq!(answered, 4);
    }

    #[test]
    fn those_who_do_not_come_back_are_waited_for_once_and_not_for_long() {
        let (gather, clock) = (Gather::default(), Clock::manual());
        gather.note_synced(LONG);
        gather.note_appended(8);
        gather.wait(&clock);
        for waits in [true, false, false] {
            gather.note_appended(2);
            let start = clock.now();
            gather.wait(&clock);
            let waited = clock.now() - start;
            assert_eq!(waited >= LONG / 4, waits, "{waited:?}");
            assert!(waited <= LONG / 2, "{waited:?}");
        }
    }
}
