//! Runs the slices of a compaction: on the thread that has the job, and on as many more as are free.
//!
//! Owns the order. Each lane works through neighbouring slices in key order, so that what one slice leaves open the
//! next goes on with; a lane that is done takes the back half of the longest other one.
//!
//! Between two slices a lane steps aside: a flush that is behind has the machine first, and smaller compactions go
//! before the rest of a larger one, so that runs do not pile up behind a merge that takes minutes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pkindex::Executor;
use sync::Mutex;

use crate::core::Core;
use crate::runtime;

use super::{Eagerness, claim, run};

/// How many threads compact.
#[derive(Debug, Default)]
pub(crate) struct Permits(AtomicUsize);

impl Permits {
    /// Takes up to `wanted` of what `all` leaves. Says how many.
    pub(crate) fn take(&self, wanted: usize, all: usize) -> usize {
        let mut taken = 0;
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |busy| {
            taken = wanted.min(all.saturating_sub(busy));
            (taken > 0).then_some(busy + taken)
        });
        taken
    }

    pub(crate) fn give_back(&self, permits: usize) {
        self.0.fetch_sub(permits, Ordering::AcqRel);
    }

    /// How many threads compact now.
    pub(crate) fn busy(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Permits that are given back when this goes.
pub(crate) struct Taken<'a> {
    permits: &'a Permits,
    count: usize,
}

impl<'a> Taken<'a> {
    pub(crate) fn new(permits: &'a Permits, wanted: usize, all: usize) -> Taken<'a> {
        Taken { permits, count: permits.take(wanted, all) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.permits.give_back(self.count);
    }
}

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs the slices of a compaction of so many bytes.
pub(crate) struct Lanes<'a> {
    pub(crate) core: &'a Core,
    pub(crate) bytes: u64,
}

/// A compaction goes before the rest of one this many times larger.
const SMALLER: u64 = 4;
/// How long a lane waits for a flush between two slices, at most, and in which steps.
const FLUSH_WAIT_STEPS: u32 = 20;
const FLUSH_WAIT_STEP: Duration = Duration::from_millis(1);

impl Lanes<'_> {
    fn step_aside(&self) {
        let core = self.core;
        if !core.is_inline() {
            for _ in 0..FLUSH_WAIT_STEPS {
                if !core.stall.is_flush_first() {
                    break;
                }
                core.clock.sleep(FLUSH_WAIT_STEP);
            }
        }
        while let Some(job) = claim(core, Eagerness::Below(self.bytes / SMALLER)) {
            // Counted, and backed off, where it happens.
            let _ = run(core, &job);
        }
    }
}

impl Executor for Lanes<'_> {
    fn run<'a>(&self, jobs: Vec<Job<'a>>) {
        let core = self.core;
        let more = if core.is_inline() { 0 } else { jobs.len().saturating_sub(1) };
        let taken = Taken::new(&core.compaction_permits, more, core.compaction_threads());
        let queues = Queues::new(jobs, 1 + taken.count());
        runtime::in_parallel("compact-slice", taken.count(), |lane| {
            let mut is_first = true;
            while let Some(job) = queues.next(lane) {
                if !std::mem::take(&mut is_first) {
                    self.step_aside();
                }
                job();
            }
        });
    }
}

/// The slices that wait, by lane.
struct Queues<'a>(Mutex<Vec<VecDeque<Job<'a>>>>);

impl<'a> Queues<'a> {
    fn new(jobs: Vec<Job<'a>>, lanes: usize) -> Queues<'a> {
        let each = jobs.len().div_ceil(lanes).max(1);
        let mut queues: Vec<VecDeque<Job<'a>>> = Vec::new();
        queues.resize_with(lanes, VecDeque::new);
        for (index, job) in jobs.into_iter().enumerate() {
            queues[index / each].push_back(job);
        }
        Queues(Mutex::new(queues))
    }

    fn next(&self, lane: usize) -> Option<Job<'a>> {
        let mut queues = self.0.lock();
        if queues[lane].is_empty() {
            let longest = (0..queues.len()).max_by_key(|&other| queues[other].len())?;
            let keep = queues[longest].len() / 2;
            queues[lane] = queues[longest].split_off(keep);
        }
        queues[lane].pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slice_runs_once_and_a_lane_goes_in_order() {
        for (slices, lanes) in [(0, 1), (1, 3), (7, 2), (32, 5)] {
            let ran = Mutex::new(Vec::new());
            let ran = &ran;
            let jobs = (0..slices).map(|slice| -> Job<'_> { Box::new(move || ran.lock().push(slice)) });
            let queues = Queues::new(jobs.collect(), lanes);
            // One lane alone does the work of all of them.
            while let Some(job) = queues.next(lanes - 1) {
                job();
            }
            let mut ran = std::mem::take(&mut *ran.lock());
            ran.sort_unstable();
            assert_eq!(ran, (0..slices).collect::<Vec<_>>());
        }
    }

    #[test]
    fn permits_never_exceed_what_there_is() {
        let permits = Permits::default();
        let first = Taken::new(&permits, 5, 3);
        assert_eq!((first.count(), permits.take(1, 3)), (3, 0));
        drop(first);
        assert_eq!((permits.busy(), permits.take(2, 3)), (0, 2));
    }
}
