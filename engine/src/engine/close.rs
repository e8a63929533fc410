//! Closes an engine: no more writes, then everything out, then the lock.
//!
//! Invariant: nothing writes to the directory once the lock is gone.
//!
//! Lock order: the lock's cell, for all of it but the last events; then callers, then the commit's stage.

use std::sync::Arc;

use crate::background::idle_log;
use crate::core::Core;
use crate::error::Error;
use crate::flush;
use crate::metrics;

/// Closes: no more writes, then everything out, then the lock.
pub(crate) fn close(core: &Core) -> Result<(), Error> {
    // Who holds the lock's cell closes; a second caller waits for the first.
    let mut lock = core.lock.lock();
    if lock.is_none() {
        return Ok(());
    }
    let is_read_only = core.health.is_read_only();
    let refused = core.health.check_writable().err();
    core.health.close();
    if is_read_only {
        *lock = None;
        return Ok(());
    }
    core.workers.stop();
    for table in core.catalog.all() {
        table.tablet.compacting.end();
    }
    core.signals.end();
    core.workers.join();
    core.stall.end();
    let callers = core.callers.write();
    // A worker that failed on its way out leaves nothing that could be gone on with.
    let refused = refused.or_else(|| core.health.is_poisoned().then(|| core.health.cause()).flatten());
    // A leader that was in the stage is through; whoever comes later is refused.
    let stage = core.commit.stage();
    let tablets: Vec<_> = core.catalog.all().iter().map(|table| Arc::clone(&table.tablet)).collect();
    for tablet in &tablets {
        tablet.seal();
    }
    drop(stage);
    let result = match refused {
        None => write_rest(core),
        Some(cause) if tablets.iter().any(|tablet| tablet.last_unflushed().is_some()) => Err(cause),
        Some(_) => Ok(()),
    };
    drop(callers);
    *lock = None;
    drop(lock);
    // With nothing held: a listener that closes as well finds it done.
    core.events.end();
    core.teller.stop();
    core.teller.join();
    core.events.deliver();
    metrics::publish(core, &core.published);
    result
}

/// Flushes what is left, and leaves a log that says that it is whole.
fn write_rest(core: &Core) -> Result<(), Error> {
    // The next open has nothing to read of what is flushed.
    let end_log = || idle_log::leave_behind(core, 0);
    let flushed = flush::flush_rest(core).and_then(|()| flush::patiently(core, end_log));
    if flushed.is_ok()
        && let Err(error) = core.log.reserve(0)
    {
        tracing::debug!(%error, "space that the log had taken ahead stays taken");
    }
    core.files.delete_obsolete(&core.cache, &core.events);
    flushed
}
