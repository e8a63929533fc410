//! The log of an engine that nobody writes to: next to nothing of it is kept.
//!
//! Owns the decision that the log is idle. What is flushed needs no log, and space that was taken ahead helps nobody: a
//! small database would be mostly that. A little is kept, so that a commit now and then is synced without metadata.
//!
//! Invariant: done once for each time that the log falls idle, and once more if it was not all flushed then and is now.

use std::time::Duration;

use wal::Position;

use super::is_stopping;
use crate::core::Core;
use crate::error::Error;
use crate::flush;

/// The log is idle when nothing was appended for this long, and writers are idle by their own measure.
const IDLE_AFTER: Duration = Duration::from_millis(500);
/// The part of a segment that is kept past the end of the log, 1 MiB of 64, and the most.
const RESERVE_PART: u64 = 64;
const RESERVE_BYTES_MAX: u64 = 1 << 20;

/// Where the log ended when it was looked at, and since when.
#[derive(Debug)]
pub(super) struct IdleLog {
    end: Position,
    since: Duration,
    shrunk: Option<Shrunk>,
}

/// What was found when the log was shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shrunk {
    /// It was needed.
    Unflushed,
    /// No memtable needed it.
    Flushed,
}

impl IdleLog {
    pub(super) fn new(core: &Core) -> IdleLog {
        IdleLog { end: core.log.end(), since: core.clock.now(), shrunk: None }
    }

    /// Looks at the log, now and then, and shrinks it when it is idle.
    pub(super) fn look(&mut self, core: &Core) {
        let (now, end) = (core.clock.now(), core.log.end());
        if end != self.end {
            (self.end, self.since, self.shrunk) = (end, now, None);
        }
        let is_idle = now.saturating_sub(self.since) >= IDLE_AFTER && core.stall.is_idle(now);
        if is_idle && self.is_worth_it(core) && core.health.is_healthy() && !is_stopping(core) {
            let shrunk = shrink(core);
            // It may have begun a segment, which is no reason to shrink it again.
            (self.end, self.shrunk) = (core.log.end(), Some(shrunk));
        }
    }

    fn is_worth_it(&self, core: &Core) -> bool {
        match self.shrunk {
            None => true,
            Some(Shrunk::Unflushed) => is_flushed(core),
            Some(Shrunk::Flushed) => false,
        }
    }
}

fn is_flushed(core: &Core) -> bool {
    core.catalog.all().iter().all(|table| table.tablet.last_unflushed().is_none())
}

/// Leaves behind what is flushed, and gives back what was taken ahead.
pub(super) fn shrink(core: &Core) -> Shrunk {
    let reserve_bytes = (core.options.log_segment_bytes / RESERVE_PART).min(RESERVE_BYTES_MAX);
    // First, since what it gives back may be what the next segment needs.
    if let Err(error) = core.log.reserve(reserve_bytes) {
        tracing::debug!(%error, "an idle log could not give back its space");
    }
    if !is_flushed(core) {
        return Shrunk::Unflushed;
    }
    if core.log.total_bytes() > reserve_bytes
        && let Err(error) = leave_behind(core, reserve_bytes)
    {
        tracing::debug!(%error, "an idle log stays as long as it is");
        if let Some(failure) = core.log.failure() {
            core.health.fail(&failure.into());
        }
    }
    Shrunk::Flushed
}

/// Begins a segment with so much space, so that nothing is left to read of those before, and drops them as far as nobody
/// needs them.
pub(crate) fn leave_behind(core: &Core, reserve_bytes: u64) -> Result<(), Error> {
    core.log.sync(core.log.end())?;
    core.log.begin_segment(reserve_bytes)?;
    core.log.sync(core.log.end())?;
    flush::drop_unneeded_log(core)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use vfs::{Fs, SimFs};

    use super::*;
    use crate::{Durability, Engine, Options, RuntimeMode, Schema, Table, Type};

    const SEGMENT_BYTES: u64 = 1 << 20;
    const RESERVE_BYTES: u64 = SEGMENT_BYTES / RESERVE_PART;

    fn open(fs: &Arc<SimFs>) -> (Engine, Table) {
        let runtime = RuntimeMode::Inline { seed: 1 };
        let log_segment_bytes = SEGMENT_BYTES;
        let fs = Arc::clone(fs) as Arc<dyn Fs>;
        let options = Options { log_segment_bytes, runtime, fs, ..Options::default() };
        let engine = Engine::open("/db", options).expect("it opens");
        let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build();
        let table = engine.open_or_create_table("t", schema.expect("a schema")).expect("a table");
        engine.core().inline_turn.lock().only_on_demand = true;
        (engine, table)
    }

    /// The length of each segment.
    fn segments(fs: &SimFs) -> Vec<u64> {
        let entries = fs.list(Path::new("/db")).expect("it is there");
        let files = entries.iter().map(|entry| Path::new("/db").join(&entry.name));
        let segments = files.filter(|path| path.extension().is_some_and(|extension| extension == "wal"));
        segments.map(|path| fs.open(&path).and_then(|file| file.len()).expect("a good disk")).collect()
    }

    fn upsert(table: &Table, id: u64) {
        table.upsert((id, "t".repeat(1000))).expect("healthy");
    }

    #[test]
    fn an_idle_engine_keeps_a_little_of_the_log_and_all_that_it_needs() {
        let fs = Arc::new(SimFs::new(1));
        let (engine, table) = open(&fs);
        let core = engine.core();
        let mut idle_log = IdleLog::new(core);
        (0..100).for_each(|id| upsert(&table, id));
        table.flush().expect("healthy");
        (100..120).for_each(|id| upsert(&table, id));
        core.clock.sleep(Duration::from_secs(60));
        idle_log.look(core);
        assert_eq!(segments(&fs), [SEGMENT_BYTES], "it was not idle at the last look");
        idle_log.look(core);
        assert_eq!(segments(&fs), [SEGMENT_BYTES]);
        core.clock.sleep(IDLE_AFTER);
        idle_log.look(core);
        assert_eq!(segments(&fs), [core.log.end().offset + RESERVE_BYTES], "twenty rows are not flushed");

        table.flush().expect("healthy");
        core.clock.sleep(Duration::from_secs(60));
        idle_log.look(core);
        crate::background::keep_house(core);
        let end = core.log.end();
        assert_eq!(segments(&fs), [RESERVE_BYTES], "now they are");
        assert!(end.offset < 200, "an attestation only: {end:?}");
        core.clock.sleep(Duration::from_secs(60));
        idle_log.look(core);
        assert_eq!(core.log.end(), end, "once is enough");

        // It goes on, in a segment with space as soon as it is worth it.
        (120..130).for_each(|id| upsert(&table, id));
        crate::background::keep_house(core);
        (130..140).for_each(|id| upsert(&table, id));
        assert!(segments(&fs).contains(&SEGMENT_BYTES));
        let cut = fs.power_cut(&vfs::sim::PowerCut::keep_all());
        engine.close().expect("healthy");
        assert!(segments(&fs).iter().sum::<u64>() < 200, "{:?}", segments(&fs));
        for fs in [&fs, &Arc::new(cut)] {
            let (_engine, table) = open(fs);
            assert_eq!(table.count().expect("healthy"), 140);
        }
    }

    #[test]
    fn a_commit_that_is_synced_keeps_its_promise_across_a_shrunk_log() {
        let fs = Arc::new(SimFs::new(7));
        let (engine, table) = open(&fs);
        for id in 0..40 {
            let mut batch = engine.batch();
            batch.upsert(&table, (id, "t".repeat(700))).expect("it fits");
            batch.commit(Durability::Sync).expect("healthy");
            if id % 4 == 0 {
                table.flush().expect("healthy");
            }
            if id % 3 == 0 {
                shrink(engine.core());
            }
            let cut = Arc::new(fs.power_cut(&vfs::sim::PowerCut::lose_all()));
            assert_eq!(open(&cut).1.count().expect("healthy"), id + 1);
        }
    }
}
