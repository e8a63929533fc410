//! Numbers about the engine: what it did, how big it is, how far behind.
//!
//! Owns the counters that nothing else needs, and puts together what the other parts know. Reading them takes locks
//! only for a moment.

mod display;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use codec::Version;

use crate::catalog::TableCore;
use crate::compaction;
use crate::core::Core;
use crate::disk_usage::DiskUsage;
use crate::events::CompactionSummary;
use crate::health::Health;
use crate::rowset::Rowset;
use crate::stall::StallCause;
use crate::tablet::live_counts;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flushes: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) failed_compactions: Counter,
    compaction_entries_in: Counter,
    compaction_entries_dropped: Counter,
    compaction_bytes_in: Counter,
    compaction_bytes_out: Counter,
    moved_rows: Counter,
    moved_bytes: Counter,
    dropped_rowsets: Counter,
    compaction_nanos: Counter,
}

impl Counters {
    /// A compaction was installed.
    pub(crate) fn note_compaction(&self, done: &CompactionSummary) {
        self.moved_rows.add(done.moved_rows);
        self.moved_bytes.add(done.moved_bytes);
        self.dropped_rowsets.add(done.dropped_rowsets);
        self.compactions.add(1);
        self.compaction_entries_in.add(done.entries_in);
        self.compaction_entries_dropped.add(done.entries_dropped);
        self.compaction_bytes_in.add(done.bytes_in);
        self.compaction_bytes_out.add(done.bytes_out);
    }

    pub(crate) fn note_compaction_time(&self, took: Duration) {
        self.compaction_nanos.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// The engine at a moment. Counts are since it was opened; sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Whether it takes writes.
    pub health: Health,
    /// Why batches would be slowed now, if they would. Of an engine that is
    /// [open for reading only](crate::Engine::open_read_only): whether compaction slows those of its writer.
    pub slowed_by: Option<StallCause>,
    /// What the directory holds, each file counted once. `None` if it could not be listed.
    pub disk: Option<DiskUsage>,
    /// Commit groups, each one write to the log.
    pub commit_groups: u64,
    /// Batches committed; a single write is one.
    pub batches: u64,
    /// Operations committed.
    pub operations: u64,
    /// Bytes of keys and rows committed, as they stand in the log.
    pub committed_bytes: u64,
    /// The last visible version.
    pub visible_version: Version,
    /// Memory of memtables that are not flushed yet.
    pub memtable_bytes: u64,
    /// Memory of the block cache.
    pub cache_bytes: u64,
    /// Reads that found their block in the cache.
    pub cache_hits: u64,
    /// Reads that did not.
    pub cache_misses: u64,
    /// Flush jobs.
    pub flushes: u64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Compactions installed.
    pub compactions: u64,
    /// Compactions that failed; their inputs stay in force.
    pub failed_compactions: u64,
    /// Index entries that compactions read.
    pub compaction_entries_in: u64,
    /// Index entries that they dropped.
    pub compaction_entries_dropped: u64,
    /// Bytes of index files that they read.
    pub compaction_bytes_in: u64,
    /// Bytes of index files that they wrote.
    pub compaction_bytes_out: u64,
    /// Rows that they moved to new rowsets.
    pub moved_rows: u64,
    /// Bytes of these rowsets.
    pub moved_bytes: u64,
    /// Rowsets that left, since nothing pointed to them any more.
    pub dropped_rowsets: u64,
    /// The time that compactions took, from first to last, also those that failed.
    pub compaction_time: Duration,
    /// Threads that compact now.
    pub compaction_threads: u64,
    /// Tables with a compaction that waits for a thread.
    pub compactions_due: u64,
    /// By how many index runs the worst table is beyond what compaction leaves when it keeps up.
    pub debt_runs: u64,
    /// By how many rowsets over one key the worst table is beyond where writers are slowed, 6.
    pub debt_depth: u64,
    /// Bytes of the log up to its end. [`DiskUsage::log_bytes`] counts what is preallocated, too.
    pub log_bytes: u64,
    /// Bytes of the manifest's edits.
    pub manifest_bytes: u64,
    /// Bytes of index files in force.
    pub index_bytes: u64,
    /// Bytes of rowsets in force.
    pub row_bytes: u64,
    /// Files that left the view and wait for their last reader, or could not be deleted.
    pub obsolete_files: u64,
    /// Batches that were delayed, since flushes or compactions are behind.
    pub delayed_batches: u64,
    /// Batches that had to stop until a flush freed memory.
    pub stopped_batches: u64,
    /// The time that batches were delayed or stopped.
    pub stall_time: Duration,
    /// The longest of these times.
    pub longest_stall: Duration,
    /// Live snapshots.
    pub snapshots: u64,
    /// The version of the oldest one.
    pub oldest_snapshot: Option<Version>,
    /// Each table, by name.
    pub tables: Vec<TableStats>,
}

/// A table at a moment. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Memory of its memtables.
    pub memtable_bytes: u64,
    /// Memtables that are sealed and not flushed yet.
    pub sealed_memtables: u64,
    /// Index runs.
    pub index_runs: u64,
    /// Files of index runs.
    pub index_files: u64,
    /// Their bytes.
    pub index_bytes: u64,
    /// Index entries on disk: one a version, deletions included. An upper bound of the rows on disk.
    pub index_entries: u64,
    /// Deletions among them.
    pub index_deletions: u64,
    /// Rowsets.
    pub rowsets: u64,
    /// Their bytes.
    pub row_bytes: u64,
    /// Rows in them.
    pub stored_rows: u64,
    /// Rows that an index entry points to. The rest is garbage.
    pub live_rows: u64,
    /// How many bytes of the rowsets are garbage, about.
    pub garbage_bytes: u64,
    /// How many rowsets cover a key, at most: what a scan reads side by side.
    pub overlap_depth: u64,
    /// By how many index runs the table is beyond what compaction leaves when it keeps up.
    pub debt_runs: u64,
    /// By how many rowsets over one key it is beyond where writers are slowed.
    pub debt_depth: u64,
    /// Index runs that are being compacted now.
    pub compacting_runs: u64,
}

impl TableStats {
    /// Which part of the rowsets is garbage, from 0 to 1.
    #[must_use]
    pub fn garbage_share(&self) -> f64 {
        self.garbage_bytes as f64 / self.row_bytes.max(1) as f64
    }

    /// The bytes of its files: index runs and rowsets.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.index_bytes + self.row_bytes
    }

    pub(crate) fn of(table: &TableCore) -> TableStats {
        let view = table.tablet.view.pin();
        let memory = table.tablet.memory();
        let live = live_counts(&view);
        let (debt_runs, debt_depth) = table.tablet.compacting.debt();
        let garbage = |rowset: &Arc<Rowset>| {
            let info = rowset.info();
            let dead = info.entries - live.get(&rowset.id()).copied().unwrap_or(0).min(info.entries);
            let bytes = u128::from(info.len) * u128::from(dead) / u128::from(info.entries.max(1));
            u64::try_from(bytes).expect("a part of a u64")
        };
        let files = || view.runs.iter().flat_map(|run| run.files());
        TableStats {
            name: table.name.clone(),
            memtable_bytes: memory.bytes as u64,
            sealed_memtables: memory.sealed as u64,
            index_runs: view.runs.len() as u64,
            index_files: files().count() as u64,
            index_bytes: files().map(|file| file.info.len).sum(),
            index_entries: files().map(|file| file.properties.entries).sum(),
            index_deletions: files().map(|file| file.properties.deletions).sum(),
            rowsets: view.rowsets.len() as u64,
            row_bytes: view.rowsets.iter().map(|rowset| rowset.info().len).sum(),
            stored_rows: view.rowsets.iter().map(|rowset| rowset.info().entries).sum(),
            live_rows: live.values().sum(),
            garbage_bytes: view.rowsets.iter().map(garbage).sum(),
            overlap_depth: compaction::overlap_depth(&view) as u64,
            debt_runs: debt_runs as u64,
            debt_depth: debt_depth as u64,
            compacting_runs: table.tablet.compacting.lock().busy_runs() as u64,
        }
    }
}

impl Stats {
    pub(crate) fn of(core: &Core) -> Stats {
        let tables: Vec<TableStats> = core.catalog.all().iter().map(|table| TableStats::of(table)).collect();
        let cache = core.cache.stats();
        let (snapshots, oldest) = core.registry.live();
        let (debt_runs, debt_depth) = core.stall.debt();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            health: core.health.report(),
            slowed_by: core.stall.pressing(),
            disk: DiskUsage::of(core).ok(),
            commit_groups: load(&core.commit.groups),
            batches: load(&core.commit.batches),
            operations: load(&core.commit.operations),
            committed_bytes: load(&core.commit.bytes),
            visible_version: core.registry.visible(),
            memtable_bytes: core.stall.used() as u64,
            cache_bytes: cache.bytes_used,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            flushes: core.counters.flushes.get(),
            flushed_bytes: core.counters.flushed_bytes.get(),
            compactions: core.counters.compactions.get(),
            failed_compactions: core.counters.failed_compactions.get(),
            compaction_entries_in: core.counters.compaction_entries_in.get(),
            compaction_entries_dropped: core.counters.compaction_entries_dropped.get(),
            compaction_bytes_in: core.counters.compaction_bytes_in.get(),
            compaction_bytes_out: core.counters.compaction_bytes_out.get(),
            moved_rows: core.counters.moved_rows.get(),
            moved_bytes: core.counters.moved_bytes.get(),
            dropped_rowsets: core.counters.dropped_rowsets.get(),
            compaction_time: Duration::from_nanos(core.counters.compaction_nanos.get()),
            compaction_threads: core.compaction_permits.busy() as u64,
            compactions_due: compaction::due(core) as u64,
            debt_runs: debt_runs as u64,
            debt_depth: debt_depth as u64,
            log_bytes: core.log.total_bytes(),
            manifest_bytes: core.manifest.bytes(),
            index_bytes: tables.iter().map(|table| table.index_bytes).sum(),
            row_bytes: tables.iter().map(|table| table.row_bytes).sum(),
            obsolete_files: core.files.obsolete_count() as u64,
            delayed_batches: load(&core.stall.delays),
            stopped_batches: load(&core.stall.stops),
            stall_time: Duration::from_nanos(load(&core.stall.waited_nanos)),
            longest_stall: Duration::from_nanos(load(&core.stall.longest_nanos)),
            snapshots: snapshots as u64,
            oldest_snapshot: oldest,
            tables,
        }
    }
}
