//! Stalls, as listeners hear of them.
//!
//! A stall is the time in which batches are slowed, with pauses shorter than a second. Owns which batches wait, and
//! what was told of it.
//!
//! Invariant: each stall that is told to begin is told to end. Listeners hear of both under the lock, so in order.
//!
//! Lock order: a leaf; nobody sleeps under it.

use std::sync::Arc;
use std::time::Duration;

use sync::Mutex;

use super::StallCause;
use crate::events::{Event, Events};

/// A stall has ended when nobody was slowed for so long.
pub(super) const STALL_OVER_AFTER: Duration = Duration::from_secs(1);
/// Between two causes of one stall that are told. They may alternate with every batch.
const STALL_CAUSE_AFTER: Duration = Duration::from_secs(1);

/// A time in which writers are slowed.
#[derive(Clone, Copy, Debug)]
struct Slowed {
    /// What was told last, and when.
    cause: StallCause,
    told: Duration,
    since: Duration,
    /// When the last batch was let go.
    last: Duration,
}

/// Which batches are slowed now.
#[derive(Clone, Copy, Debug, Default)]
struct Slowing {
    stall: Option<Slowed>,
    /// How many batches wait.
    waiting: usize,
    /// There will be no stall any more.
    is_over: bool,
}

/// Tells of stalls.
#[derive(Debug, Default)]
pub(super) struct Told {
    slowing: Mutex<Slowing>,
    events: Arc<Events>,
}

impl Told {
    pub(super) fn to(events: Arc<Events>) -> Told {
        Told { events, ..Told::default() }
    }

    /// A batch begins to wait. The first one begins a stall.
    pub(super) fn begin_wait(&self, cause: StallCause, now: Duration) {
        let mut slowing = self.slowing.lock();
        slowing.waiting += 1;
        if slowing.is_over {
            return;
        }
        let is_told = slowing.stall.is_some_and(|stall| {
            let is_stop = cause == StallCause::MemoryFull;
            cause == stall.cause || !is_stop && now.saturating_sub(stall.told) < STALL_CAUSE_AFTER
        });
        if !is_told {
            let since = slowing.stall.map_or(now, |stall| stall.since);
            slowing.stall = Some(Slowed { cause, told: now, since, last: now });
            self.events.raise(|| Event::StallBegun { cause });
        }
    }

    /// It has waited.
    pub(super) fn end_wait(&self, now: Duration) {
        let mut slowing = self.slowing.lock();
        slowing.waiting -= 1;
        if let Some(stall) = &mut slowing.stall {
            stall.last = stall.last.max(now);
        }
    }

    /// Ends a stall in which nobody waits, and nobody did for long. Called now and then.
    pub(super) fn end_if_over(&self, now: Duration) {
        let mut slowing = self.slowing.lock();
        let is_over = |stall: Slowed| now.saturating_sub(stall.last) >= STALL_OVER_AFTER;
        if slowing.waiting == 0 && slowing.stall.is_some_and(is_over) {
            self.end_stall(&mut slowing);
        }
    }

    /// Ends a stall, since there are no writers any more. None begins again.
    pub(super) fn end(&self) {
        let mut slowing = self.slowing.lock();
        slowing.is_over = true;
        self.end_stall(&mut slowing);
    }

    fn end_stall(&self, slowing: &mut Slowing) {
        if let Some(Slowed { since, last, .. }) = slowing.stall.take() {
            self.events.raise(|| Event::StallEnded { took: last.saturating_sub(since) });
        }
    }
}
