//! Background work: which there is, and who does it.
//!
//! With threads, one flushes, one or more compact and one keeps house, each woken by its signal; one more tells of
//! events, if anybody listens. In the inline mode callers' threads do the same work, one piece at a time, in a seeded
//! order.
//!
//! Invariant: a panic in a worker poisons the engine and wakes all that wait; it takes nothing else down.

pub(crate) mod idle_log;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use codec::FileId;
use sync::Mutex;
use sync::atomic::Ordering;

use self::idle_log::IdleLog;
use crate::compaction::Eagerness;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::manifest::Edit;
use crate::runtime::Workers;
use crate::{compaction, flush, metrics};

/// How often the house is kept without a signal.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_millis(50);
/// How often metrics are published.
const PUBLISHING_PERIOD: Duration = Duration::from_secs(1);
/// How long a worker sleeps without a signal.
const IDLE_PERIOD: Duration = Duration::from_millis(200);

/// Starts the threads.
pub(crate) fn start(core: &Arc<Core>) -> Result<(), Error> {
    if core.is_inline() {
        return Ok(());
    }
    spawn(core, &core.workers, "flush", |core| {
        core.signals.flush.wait(IDLE_PERIOD);
        run_flushes(core);
    })?;
    // While writers are slowed, compaction may have the whole machine: what it does not use is lost to all.
    for _ in 0..core.compaction_threads() {
        spawn(core, &core.workers, "compact", compact)?;
    }
    if core.events.are_wanted() {
        let last_published = Mutex::new(Duration::ZERO);
        spawn(core, &core.teller, "events", move |core| {
            core.events.signal.wait(PUBLISHING_PERIOD);
            core.events.deliver();
            publish_in_time(core, &mut last_published.lock());
        })?;
    }
    let last_sync = Mutex::new(core.clock.now());
    let idle_log = Mutex::new(IdleLog::new(core));
    spawn(core, &core.workers, "house", move |core| {
        core.signals.housekeeping.wait(HOUSEKEEPING_PERIOD);
        keep_house(core);
        sync_in_time(core, &mut last_sync.lock());
        idle_log.lock().look(core);
    })
}

fn compact(core: &Core) {
    core.signals.compaction.wait(IDLE_PERIOD);
    while !is_stopping(core) {
        let permit = compaction::Taken::new(&core.compaction_permits, 1, core.compaction_threads());
        if permit.count() == 0 {
            // The lanes of a large compaction have all threads. They do smaller ones in between.
            break;
        }
        let eagerness = if core.stall.is_idle(core.clock.now()) { Eagerness::Idle } else { Eagerness::Busy };
        let Some(job) = compaction::claim(core, eagerness) else { break };
        // A failure is counted and logged where it happens, and backs off.
        let _ = compaction::run(core, &job);
        drop(job);
        // Who waits for the end of this tablet's compactions waits for its job to be given up.
        core.health.progress.notify();
    }
}

/// Starts one of the threads of `workers`: it works until they are told to stop.
fn spawn(
    core: &Arc<Core>,
    workers: &Workers,
    name: &str,
    work: impl Fn(&Core) + Send + 'static,
) -> Result<(), Error> {
    let shared = Arc::clone(core);
    let stop = Arc::clone(workers.stopping());
    let body = move || {
        while !stop.load(Ordering::Acquire) {
            if catch_unwind(AssertUnwindSafe(|| work(&shared))).is_err() {
                shared.health.poison(&Error::new(ErrorKind::Io, "a background worker panicked"));
                break;
            }
        }
    };
    workers.spawn(name, body).map_err(|error| Error::io("starting a thread", error))
}

fn is_stopping(core: &Core) -> bool {
    core.workers.stopping().load(Ordering::Acquire)
}

/// Flushes until nothing is sealed, and seals by itself when memory is short although nothing is.
pub(crate) fn run_flushes(core: &Core) {
    while !is_stopping(core) {
        if let Some(job) = flush::claim(core) {
            flush::run(core, &job);
        } else if !(core.stall.is_above_soft() && core.health.is_healthy() && flush::seal_largest(core)) {
            break;
        }
    }
}

/// What has to be done now and then, whatever else happens.
pub(crate) fn keep_house(core: &Core) {
    core.files.delete_obsolete(&core.cache, &core.events);
    core.stall.end_if_over(core.clock.now());
    share_memory(core);
    if !core.health.is_healthy() {
        return;
    }
    if core.log.needs_segment() {
        let id = core.files.next_id();
        if let Err(error) = core.log.prepare(id) {
            // The append makes its own segment then, and meets the same error where it matters.
            tracing::debug!(%error, "the next log segment could not be prepared");
        }
    }
    if let Some(ceiling) = core.commit.ceiling_to_raise() {
        raise_ceiling(core, ceiling);
    }
    bound_log(core);
}

/// Lends the block cache what the memtables do not need of their half of the memory.
///
/// They get it back as soon as they grow, also while housekeeping is long in a sync: whoever commits looks, see
/// [`take_memory_back`]. They keep it until writers are idle. What is left to them is always a memtable more than there
/// is, so that it is not used up before somebody looks again.
fn share_memory(core: &Core) {
    let Some(_turn) = core.memory_turn.try_lock() else { return };
    let (memory, memtables_max) = (core.options.memory_bytes, core.options.memtable_bytes_max());
    // In steps, because a change goes through all of the cache.
    let step = (memtables_max / 8).max(1);
    let needed = memtables_need(core).next_multiple_of(step).min(memtables_max);
    let left = memory - core.cache.bytes_max();
    if needed > left || needed < left && core.stall.is_idle(core.clock.now()) {
        core.cache.set_bytes_max(memory - needed);
    }
}

/// What memtables hold, and one more.
fn memtables_need(core: &Core) -> usize {
    core.stall.used() + core.options.memtable_seal_bytes()
}

/// Called after each commit: takes back from the cache what memtables have grown into. Nearly always that is nothing,
/// which two loads tell.
#[inline]
pub(crate) fn take_memory_back(core: &Core) {
    let left = core.options.memory_bytes - core.cache.bytes_max();
    if memtables_need(core).min(core.options.memtable_bytes_max()) > left {
        share_memory(core);
    }
}

fn raise_ceiling(core: &Core, ceiling: codec::Version) {
    let edit = Edit { version_ceiling: Some(ceiling), ..Edit::default() };
    let installed =
        core.manifest.install(|_| Ok(Some(edit)), |state| core.commit.raise_ceiling(state.version_ceiling));
    if let Err(error) = installed {
        core.health.fail(&error);
    }
}

/// Flushes what keeps the log longer than its bound, however small it is.
fn bound_log(core: &Core) {
    let total = core.log.total_bytes();
    if total <= core.options.log_bytes_max {
        return;
    }
    let segments = core.log.segments();
    let mut excess = total - core.options.log_bytes_max;
    let mut keep = FileId(0);
    for segment in &segments {
        keep = segment.id;
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(segment.bytes);
    }
    flush::seal_older_than(core, keep);
    // A log that nothing needs any more goes without a flush.
    if let Err(error) = flush::drop_unneeded_log(core) {
        tracing::debug!(%error, "the log stays longer than its bound");
    }
}

fn publish_in_time(core: &Core, last: &mut Duration) {
    let now = core.clock.now();
    if now.saturating_sub(*last) >= PUBLISHING_PERIOD {
        *last = now;
        metrics::publish(core, &core.published);
    }
}

fn sync_in_time(core: &Core, last: &mut Duration) {
    let Some(interval) = core.options.background_sync_interval else { return };
    let now = core.clock.now();
    // However long an interval is asked for.
    if now.saturating_sub(*last) < interval || !core.health.is_healthy() {
        return;
    }
    *last = now;
    let end = core.log.end();
    if core.log.synced() < end {
        match core.log.sync(end).and_then(|()| core.log.attest()) {
            Ok(()) => {}
            Err(error) => core.health.fail(&error.into()),
        }
    }
}

/// Inline mode: does a piece of the work that waits, or leaves it for later, as the seed has it. Memory above its
/// bound, or the log above its own, leaves no choice.
pub(crate) fn run_some(core: &Core) {
    match core.chance.below(4) {
        0 => run_flushes(core),
        1 => {
            let eagerness = if core.chance.below(2) == 0 { Eagerness::Idle } else { Eagerness::Busy };
            if let Some(job) = compaction::claim(core, eagerness) {
                // Counted where it happens; the inputs stay in force.
                let _ = compaction::run(core, &job);
            }
        }
        2 => {
            keep_house(core);
            if core.chance.below(4) == 0 && core.health.is_healthy() {
                let _ = idle_log::shrink(core);
            }
        }
        _ => {}
    }
    if core.stall.is_above_soft() {
        run_flushes(core);
    }
}

#[cfg(test)]
mod tests {
    use vfs::SimFs;

    use super::*;
    use crate::{Durability, Engine, Options, RuntimeMode, Schema, Table, Type};

    const MEMORY: usize = 1 << 20;
    const MEMTABLE: usize = 64 << 10;

    #[test]
    fn the_longest_interval_between_syncs_is_one_that_never_passes() {
        let interval = Some(Duration::MAX);
        let fs = Arc::new(SimFs::new(1));
        let runtime = RuntimeMode::Inline { seed: 1 };
        let options = Options { background_sync_interval: interval, runtime, fs, ..Options::default() };
        let engine = Engine::open("/db", options).expect("it opens");
        let schema = Schema::builder().key("id", Type::U64).build().expect("a schema");
        engine.create_table("t", schema).and_then(|table| table.upsert((1,))).expect("healthy");
        let core = engine.core();
        let before = core.log.synced();
        let mut last = core.clock.now();
        core.clock.sleep(Duration::from_secs(3600));
        sync_in_time(core, &mut last);
        assert!(core.log.synced() == before && before < core.log.end());
        assert!(core.health.is_healthy());
    }

    #[test]
    fn the_cache_gives_back_what_it_borrows_although_nobody_keeps_house() {
        let (engine, tables) = engine_with_tables(3);
        let core = engine.core();
        core.clock.sleep(Duration::from_secs(60));
        keep_house(core);
        let left = || MEMORY - core.cache.bytes_max();
        assert_eq!(left(), MEMTABLE);
        let mut id = 0u64;
        while core.stall.used() < MEMORY / 2 {
            // In turn, so that what grows is not what is sealed.
            let table = &tables[usize::try_from(id / 100).expect("small") % tables.len()];
            let mut batch = engine.batch();
            for _ in 0..100 {
                batch.upsert(table, (id, "text")).expect("it fits");
                id += 1;
            }
            batch.commit(Durability::Buffered).expect("healthy");
            let used = core.stall.used();
            assert!(left() >= (used + MEMTABLE).min(MEMORY / 2), "{} for {used}", left());
        }
        let mut transaction = engine.transaction();
        transaction.upsert(&tables[0], (id, "text")).expect("it fits");
        transaction.commit(Durability::Buffered).expect("nobody else");
        assert_eq!(left(), MEMORY / 2);
    }

    fn engine_with_tables(count: usize) -> (Engine, Vec<Table>) {
        let engine = Engine::open(
            "/db",
            Options {
                memory_bytes: MEMORY,
                memtable_bytes: Some(MEMTABLE),
                runtime: RuntimeMode::Inline { seed: 1 },
                fs: Arc::new(SimFs::new(1)),
                ..Options::default()
            },
        )
        .expect("it opens");
        let schema = || Schema::builder().key("id", Type::U64).column("text", Type::String).build();
        let create = |number: usize| engine.create_table(&format!("t{number}"), schema()?);
        let tables = (0..count).map(create).collect::<Result<_, _>>().expect("they are new");
        engine.core().inline_turn.lock().only_on_demand = true;
        (engine, tables)
    }

    #[test]
    fn the_cache_borrows_what_the_memtables_leave_and_gives_it_back() {
        let (engine, tables) = engine_with_tables(1);
        let (core, table) = (engine.core(), &tables[0]);
        let left = || MEMORY - core.cache.bytes_max();
        assert_eq!(left(), MEMORY / 2);

        core.clock.sleep(Duration::from_secs(60));
        keep_house(core);
        assert_eq!(left(), MEMTABLE, "writers are idle, and room for a memtable is left to them");

        let mut id = 0u64;
        while core.stall.used() < MEMORY / 4 {
            let mut batch = engine.batch();
            for _ in 0..100 {
                batch.upsert(table, (id, "text")).expect("it fits");
                id += 1;
            }
            batch.commit(Durability::Buffered).expect("healthy");
            keep_house(core);
            assert!(left() >= (core.stall.used() + MEMTABLE).min(MEMORY / 2), "{}", left());
        }
        table.flush().expect("healthy");
        assert_eq!(core.stall.used(), 0);
        let lent = left();
        assert!(lent > MEMTABLE);
        keep_house(core);
        assert_eq!(left(), lent, "they may need it again soon");
        core.clock.sleep(Duration::from_secs(60));
        keep_house(core);
        assert_eq!(left(), MEMTABLE);
    }
}
