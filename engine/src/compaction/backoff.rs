//! When compactions begin again after the disk was full.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sync::Mutex;

/// A full disk backs off, so that trying again does not keep it full.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: AtomicU32,
    until: Mutex<Duration>,
}

impl Backoff {
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= *self.until.lock()
    }

    pub(super) fn failed(&self, now: Duration) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(10);
        *self.until.lock() = now + Duration::from_millis(100 << failures);
    }

    pub(super) fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }
}
