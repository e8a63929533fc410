//! The engine's numbers for the facade of the crate `metrics`, with the feature of that name; without it, nothing.
//!
//! Owns the names. All numbers come from [`Stats`](crate::Stats) and from events: nothing is counted here. Called by the
//! thread that tells listeners, so a slow recorder slows nobody else.

use crate::core::Core;
use crate::events::Event;

/// Records how long something took, once it has ended.
#[cfg(not(feature = "metrics"))]
pub(crate) fn note(_: &Event) {}

/// Publishes the numbers of now.
#[cfg(not(feature = "metrics"))]
pub(crate) fn publish(_: &Core) {}

#[cfg(feature = "metrics")]
pub(crate) use facade::{note, publish};

#[cfg(feature = "metrics")]
mod facade {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use metrics::{counter, gauge, histogram};

    use super::{Core, Event};
    use crate::health::Health;
    use crate::stats::Stats;

    pub(crate) fn note(event: &Event) {
        match event {
            Event::FlushEnded { took, .. } => histogram!("nyala_flush_seconds").record(*took),
            Event::CompactionEnded { took, .. } => histogram!("nyala_compaction_seconds").record(*took),
            Event::StallEnded { took, .. } => histogram!("nyala_stall_seconds").record(*took),
            _ => {}
        }
    }

    pub(crate) fn publish(core: &Core) {
        // A recorder is foreign code, as a listener is.
        let published = catch_unwind(AssertUnwindSafe(|| {
            record(&core.files.dir.display().to_string(), &Stats::of(core));
        }));
        if published.is_err() {
            tracing::error!("a recorder of metrics panicked");
        }
    }

    fn record(database: &str, stats: &Stats) {
        let micros = u64::try_from(stats.stall_time.as_micros()).unwrap_or(u64::MAX);
        let read = stats.compaction_bytes_in;
        let written = stats.compaction_bytes_out + stats.moved_bytes;
        for (name, value) in [
            ("nyala_batches_total", stats.batches),
            ("nyala_operations_total", stats.operations),
            ("nyala_committed_bytes_total", stats.committed_bytes),
            ("nyala_commit_groups_total", stats.commit_groups),
            ("nyala_flushes_total", stats.flushes),
            ("nyala_flushed_bytes_total", stats.flushed_bytes),
            ("nyala_compactions_total", stats.compactions),
            ("nyala_compaction_failures_total", stats.failed_compactions),
            ("nyala_compaction_read_bytes_total", read),
            ("nyala_compaction_written_bytes_total", written),
            ("nyala_cache_hits_total", stats.cache_hits),
            ("nyala_cache_misses_total", stats.cache_misses),
            ("nyala_delayed_batches_total", stats.delayed_batches),
            ("nyala_stopped_batches_total", stats.stopped_batches),
            ("nyala_stall_microseconds_total", micros),
        ] {
            counter!(name, "database" => database.to_owned()).absolute(value);
        }
        let healthy = u64::from(matches!(stats.health, Health::Healthy));
        let disk = stats.disk.map_or(0, |disk| disk.total_bytes());
        for (name, value) in [
            ("nyala_healthy", healthy),
            ("nyala_memtable_bytes", stats.memtable_bytes),
            ("nyala_cache_bytes", stats.cache_bytes),
            ("nyala_log_bytes", stats.log_bytes),
            ("nyala_disk_bytes", disk),
            ("nyala_obsolete_files", stats.obsolete_files),
            ("nyala_compactions_due", stats.compactions_due),
            ("nyala_debt_runs", stats.debt_runs),
            ("nyala_debt_depth", stats.debt_depth),
            ("nyala_snapshots", stats.snapshots),
        ] {
            gauge!(name, "database" => database.to_owned()).set(value as f64);
        }
        for table in &stats.tables {
            for (name, value) in [
                ("nyala_table_index_bytes", table.index_bytes),
                ("nyala_table_row_bytes", table.row_bytes),
                ("nyala_table_garbage_bytes", table.garbage_bytes),
                ("nyala_table_live_rows", table.live_rows),
                ("nyala_table_index_runs", table.index_runs),
                ("nyala_table_overlap_depth", table.overlap_depth),
            ] {
                gauge!(name, "database" => database.to_owned(), "table" => table.name.clone())
                    .set(value as f64);
            }
        }
    }
}
