//! The engine's numbers for the facade of the crate `metrics`, with the feature of that name; without it, nothing.
//!
//! Owns the names, and what was published before. All numbers come from [`Stats`](crate::Stats) and from events:
//! nothing is counted here. Called by the thread that tells listeners, so a slow recorder slows nobody else.
//!
//! Invariant: counters of the recorder only grow, also over several opens of a database in one process: they are told
//! what has come since the last time.
//! Invariant: the labels are bounded: a database's directory, three causes, and so many tables.
//!
//! Lock order: what was published before is locked while the recorder is called, by whoever gets the lock; nobody
//! waits.

use crate::core::Core;
use crate::events::Event;

#[cfg(not(feature = "metrics"))]
mod facade {
    /// Nothing is published.
    #[derive(Debug, Default)]
    pub(crate) struct Published {}

    /// Records how long something took, once it has ended.
    pub(crate) fn note(_: &str, _: &super::Event) {}

    /// Publishes the numbers of now.
    pub(crate) fn publish(_: &super::Core, _: &Published) {}
}

pub(crate) use facade::{Published, note, publish};

#[cfg(feature = "metrics")]
mod facade {
    use std::collections::{BTreeMap, BTreeSet};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use metrics::{counter, gauge, histogram};
    use sync::Mutex;

    use super::{Core, Event};
    use crate::health::Health;
    use crate::stall::StallCause;
    use crate::stats::{Stats, TableStats};

    /// So many tables of an engine have numbers of their own, since it was opened.
    const TABLES_MAX: usize = 100;
    /// The label of the others. No table has such a name.
    const OTHER_TABLES: &str = "/others";

    /// What was published before.
    #[derive(Debug, Default)]
    pub(crate) struct Published(Mutex<Before>);

    #[derive(Debug, Default)]
    struct Before {
        counters: BTreeMap<&'static str, u64>,
        tables: BTreeSet<String>,
    }

    pub(crate) fn note(database: &str, event: &Event) {
        let (name, took) = match event {
            Event::FlushEnded { took, .. } => ("nyala_flush_seconds", took),
            Event::CompactionEnded { took, .. } => ("nyala_compaction_seconds", took),
            Event::StallEnded { took, .. } => ("nyala_stall_seconds", took),
            _ => return,
        };
        histogram!(name, "database" => database.to_owned()).record(*took);
    }

    pub(crate) fn publish(core: &Core, published: &Published) {
        // A recorder that closes the engine comes here again from below itself.
        let Some(mut before) = published.0.try_lock() else { return };
        // A recorder is foreign code, as a listener is.
        let published = catch_unwind(AssertUnwindSafe(|| {
            record(&core.files.dir.display().to_string(), &Stats::of(core), &mut before);
        }));
        if published.is_err() {
            tracing::error!("a recorder of metrics panicked");
        }
    }

    fn record(database: &str, stats: &Stats, before: &mut Before) {
        for (name, value) in counters(stats) {
            let last = before.counters.entry(name).or_default();
            let more = value.saturating_sub(*last);
            *last = value;
            counter!(name, "database" => database.to_owned()).increment(more);
        }
        for (name, value) in gauges(stats) {
            gauge!(name, "database" => database.to_owned()).set(value as f64);
        }
        for (label, cause) in [
            ("memory", StallCause::Memory),
            ("memory full", StallCause::MemoryFull),
            ("compaction", StallCause::Compaction),
        ] {
            let is_it = stats.slowed_by == Some(cause);
            gauge!("nyala_slowed", "database" => database.to_owned(), "cause" => label)
                .set(f64::from(u8::from(is_it)));
        }
        let mut others = TableStats::default();
        let mut gone = before.tables.clone();
        for table in &stats.tables {
            gone.remove(&table.name);
            if before.tables.contains(&table.name) || before.tables.len() < TABLES_MAX {
                before.tables.insert(table.name.clone());
                record_table(database, &table.name, table);
            } else {
                others = sum(&others, table);
            }
        }
        // What is dropped takes nothing any more.
        for name in &gone {
            record_table(database, name, &TableStats::default());
        }
        if before.tables.len() == TABLES_MAX {
            record_table(database, OTHER_TABLES, &others);
        }
    }

    fn counters(stats: &Stats) -> [(&'static str, u64); 15] {
        let micros = u64::try_from(stats.stall_time.as_micros()).unwrap_or(u64::MAX);
        let written = stats.compaction_bytes_out + stats.moved_bytes;
        [
            ("nyala_batches_total", stats.batches),
            ("nyala_operations_total", stats.operations),
            ("nyala_committed_bytes_total", stats.committed_bytes),
            ("nyala_commit_groups_total", stats.commit_groups),
            ("nyala_flushes_total", stats.flushes),
            ("nyala_flushed_bytes_total", stats.flushed_bytes),
            ("nyala_compactions_total", stats.compactions),
            ("nyala_compaction_failures_total", stats.failed_compactions),
            ("nyala_compaction_read_bytes_total", stats.compaction_bytes_in),
            ("nyala_compaction_written_bytes_total", written),
            ("nyala_cache_hits_total", stats.cache_hits),
            ("nyala_cache_misses_total", stats.cache_misses),
            ("nyala_delayed_batches_total", stats.delayed_batches),
            ("nyala_stopped_batches_total", stats.stopped_batches),
            ("nyala_stall_microseconds_total", micros),
        ]
    }

    fn gauges(stats: &Stats) -> impl Iterator<Item = (&'static str, u64)> {
        let healthy = u64::from(matches!(stats.health, Health::Healthy));
        // A directory that could not be listed is not empty.
        let disk = stats.disk.map(|disk| ("nyala_disk_bytes", disk.total_bytes()));
        disk.into_iter().chain([
            ("nyala_healthy", healthy),
            ("nyala_memtable_bytes", stats.memtable_bytes),
            ("nyala_cache_bytes", stats.cache_bytes),
            ("nyala_log_bytes", stats.log_bytes),
            ("nyala_obsolete_files", stats.obsolete_files),
            ("nyala_compactions_due", stats.compactions_due),
            ("nyala_debt_runs", stats.debt_runs),
            ("nyala_debt_depth", stats.debt_depth),
            ("nyala_snapshots", stats.snapshots),
        ])
    }

    fn record_table(database: &str, label: &str, table: &TableStats) {
        for (name, value) in [
            ("nyala_table_index_bytes", table.index_bytes),
            ("nyala_table_row_bytes", table.row_bytes),
            ("nyala_table_garbage_bytes", table.garbage_bytes),
            ("nyala_table_live_rows", table.live_rows),
            ("nyala_table_index_runs", table.index_runs),
            ("nyala_table_overlap_depth", table.overlap_depth),
        ] {
            gauge!(name, "database" => database.to_owned(), "table" => label.to_owned()).set(value as f64);
        }
    }

    /// Sizes add up; of what a read meets in one table the worst counts.
    fn sum(left: &TableStats, right: &TableStats) -> TableStats {
        TableStats {
            index_bytes: left.index_bytes + right.index_bytes,
            row_bytes: left.row_bytes + right.row_bytes,
            garbage_bytes: left.garbage_bytes + right.garbage_bytes,
            live_rows: left.live_rows + right.live_rows,
            index_runs: left.index_runs.max(right.index_runs),
            overlap_depth: left.overlap_depth.max(right.overlap_depth),
            ..TableStats::default()
        }
    }
}
