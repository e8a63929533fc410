//! Flushes: sealed memtables become rowsets and an index run each, in one pass and one edit.
//!
//! Owns the choice of what to flush together, and when a flush that failed is tried again. How a memtable becomes files
//! is in `write`, how these come into force in `install`, what of the log may go then in `log_start`. Looks nothing up:
//! a flush writes what the memtable holds on top of the index.
//!
//! Invariant: flushes of a tablet are installed in seal order; there is one flush job at a time.

mod install;
mod log_start;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codec::Version;

use crate::core::Core;
use crate::error::Error;
use crate::events::{Event, FlushSummary};
use crate::tablet::{Tablet, Unflushed};

use install::write_and_install;

pub(crate) use log_start::{drop_unneeded_log, seal_older_than};
pub(crate) use write::{Flushed, write_memtable};

/// The memtables of one job, oldest first within a tablet.
#[derive(Debug)]
pub(crate) struct FlushJob {
    memtables: Vec<(Arc<Tablet>, Unflushed)>,
}

impl FlushJob {
    /// The memory of its memtables.
    fn bytes(&self) -> usize {
        self.memtables.iter().map(|(_, slot)| slot.counted).sum()
    }
}

/// Takes the memtables to flush next: sealed ones, oldest first, until they are worth a sync together.
pub(crate) fn claim(core: &Core) -> Option<FlushJob> {
    if core.health.is_healthy() { claim_sealed(core) } else { None }
}

fn claim_sealed(core: &Core) -> Option<FlushJob> {
    let mut memtables = Vec::new();
    let mut bytes = 0;
    for table in core.catalog.all() {
        let mut held = 0;
        while bytes < core.options.memtable_seal_bytes() {
            let Some(slot) = table.tablet.claim_sealed(held) else { break };
            held += 1;
            bytes += slot.counted;
            memtables.push((Arc::clone(&table.tablet), slot));
        }
    }
    (!memtables.is_empty()).then_some(FlushJob { memtables })
}

/// Runs a job. When it fails, the memtables stay where they are, and the engine's health says why.
pub(crate) fn run(core: &Core, job: &FlushJob) {
    let start = core.clock.now();
    match write_and_tell(core, job) {
        Ok(()) => core.stall.note_flush(job.bytes(), start, core.clock.now()),
        Err(error) => {
            give_back(job);
            let error = error.context("a flush failed");
            // Writers cannot wait for ever for descriptors to come back; a close tries once more.
            if !error.is_transient() {
                core.health.fail(&error);
            } else if !core.workers.stopping().load(Ordering::Acquire) {
                core.health.poison(&error);
            }
        }
    }
    core.health.progress.notify();
}

/// Writes and installs a job, and tells of it.
fn write_and_tell(core: &Core, job: &FlushJob) -> Result<(), Error> {
    let _span = tracing::info_span!("flush", memtables = job.memtables.len(), bytes = job.bytes()).entered();
    // Looked up once: a table that is dropped meanwhile is the same one at the end.
    let tables: Vec<String> = if core.events.are_wanted() {
        core.catalog.names_of(job.memtables.iter().map(|(tablet, _)| tablet))
    } else {
        Vec::new()
    };
    core.events.raise(|| Event::FlushBegun { tables: tables.clone(), memtable_bytes: job.bytes() as u64 });
    let start = core.clock.now();
    let mut summary = FlushSummary::default();
    let result = patiently(core, || {
        summary = write_and_install(core, job)?;
        Ok(())
    });
    core.events.raise(|| Event::FlushEnded {
        tables,
        took: core.clock.now().saturating_sub(start),
        result: result.clone().map(|()| summary),
    });
    result
}

fn give_back(job: &FlushJob) {
    for (tablet, slot) in &job.memtables {
        tablet.unclaim(&slot.memtable);
    }
}

/// How long a flush that lacks file descriptors waits before it is tried again, at first; twice as long each time.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(10);
/// And at last: after two and a half seconds in all it is a failure like any other.
const RETRY_AFTER_MAX: Duration = Duration::from_millis(1280);

/// Does something again and again, later each time, as long as it lacks file descriptors.
pub(crate) fn patiently(core: &Core, mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut delay = RETRY_AFTER_MIN;
    loop {
        match work() {
            Err(error) if error.is_transient() && delay <= RETRY_AFTER_MAX => {
                tracing::warn!(%error, ?delay, "this is tried again");
                core.clock.sleep(delay);
                delay *= 2;
            }
            done => return done,
        }
    }
}

/// Seals the largest memtable; false if all are empty. Called when writers are slowed although no sealed memtable
/// waits.
pub(crate) fn seal_largest(core: &Core) -> bool {
    let largest = core
        .catalog
        .all()
        .into_iter()
        .map(|table| (table.tablet.memory().active_bytes, table))
        .max_by_key(|(bytes, _)| *bytes);
    let Some((_, table)) = largest else { return false };
    let _stage = core.commit.stage();
    table.tablet.seal()
}

/// Flushes everything that was applied before the call, and waits for it.
pub(crate) fn flush_and_wait(core: &Core, tablets: &[Arc<Tablet>]) -> Result<(), Error> {
    core.door(|| seal_and_wait(core, tablets))
}

fn seal_and_wait(core: &Core, tablets: &[Arc<Tablet>]) -> Result<(), Error> {
    let goals: Vec<(Arc<Tablet>, Version)> = {
        let _stage = core.commit.stage();
        tablets
            .iter()
            .filter_map(|tablet| {
                let last = tablet.last_unflushed()?;
                tablet.seal();
                Some((Arc::clone(tablet), last))
            })
            .collect()
    };
    core.signals.flush.set();
    core.run_inline_flushes();
    let is_done =
        |(tablet, goal): &(Arc<Tablet>, Version)| tablet.is_gone() || !tablet.has_unflushed_through(*goal);
    core.health.progress.wait_for(Duration::from_millis(100), || {
        if goals.iter().all(is_done) {
            return Some(Ok(()));
        }
        core.health.check_writable().err().map(Err)
    })
}

/// Writes out what is sealed when the engine closes and nobody else flushes any more.
pub(crate) fn flush_rest(core: &Core) -> Result<(), Error> {
    while let Some(job) = claim_sealed(core) {
        if let Err(error) = write_and_tell(core, &job) {
            give_back(&job);
            return Err(error.context("the last flush failed"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
