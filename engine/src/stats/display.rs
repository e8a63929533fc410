//! The engine's numbers for people: how big, how far behind, why slow, whether healthy.

use std::fmt;

use super::{Stats, TableStats};
use crate::health::Health;
use crate::stall::StallCause;

/// A size as people read it.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut size = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while size >= 1023.95 && unit + 1 < UNITS.len() {
            size /= 1024.0;
            unit += 1;
        }
        write!(f, "{size:.1} {}", UNITS[unit])
    }
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StallCause::Memory => "flushes are behind",
            StallCause::MemoryFull => "memory is full until a flush ends",
            StallCause::Compaction => "compaction is behind",
        })
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Health::Healthy => f.write_str("healthy"),
            Health::ReadOnly => f.write_str("open for reading only"),
            Health::NoSpace(cause) => write!(f, "no space, writes are refused: {cause}"),
            Health::Poisoned(cause) => write!(f, "writes are refused until it is opened again: {cause}"),
            Health::Closed => f.write_str("closed"),
        }
    }
}

impl fmt::Display for Stats {
    /// Some lines for people; their form may change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "health: {}", self.health)?;
        match &self.disk {
            Some(disk) => writeln!(
                f,
                "disk: {} in {} files: index {}, rows {}, log {}, manifest {}, obsolete {}, being written {}, other {}",
                Size(disk.total_bytes()),
                disk.files,
                Size(disk.index_bytes),
                Size(disk.row_bytes),
                Size(disk.log_bytes),
                Size(disk.manifest_bytes),
                Size(disk.obsolete_bytes),
                Size(disk.unfinished_bytes),
                Size(disk.other_bytes),
            )?,
            None => writeln!(f, "disk: the directory cannot be listed")?,
        }
        writeln!(
            f,
            "memory: memtables {}, cache {} ({} hits, {} misses)",
            Size(self.memtable_bytes),
            Size(self.cache_bytes),
            self.cache_hits,
            self.cache_misses,
        )?;
        writeln!(
            f,
            "behind: {} tables to compact, {} runs and {} rowsets over one key too many, log of {}",
            self.compactions_due,
            self.debt_runs,
            self.debt_depth,
            Size(self.log_bytes),
        )?;
        let now = match self.slowed_by {
            Some(cause) => format!("slowed now: {cause}"),
            None => "not slowed now".to_owned(),
        };
        writeln!(
            f,
            "writers: {now}; {} batches delayed, {} stopped, {:.1?} in all, {:.1?} at most",
            self.delayed_batches, self.stopped_batches, self.stall_time, self.longest_stall,
        )?;
        writeln!(
            f,
            "work: {} operations in {} batches; {} flushes wrote {}; {} compactions, {} failed, {} running",
            self.operations,
            self.batches,
            self.flushes,
            Size(self.flushed_bytes),
            self.compactions,
            self.failed_compactions,
            self.compaction_threads,
        )?;
        self.tables.iter().try_for_each(|table| writeln!(f, "{table}"))
    }
}

impl fmt::Display for TableStats {
    /// A line for people; its form may change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {}: {} on disk ({} garbage), {} in memory, {} entries in {} runs, {} rows in {} rowsets, at most {} over \
             one key",
            self.name,
            Size(self.disk_bytes()),
            Size(self.garbage_bytes),
            Size(self.memtable_bytes),
            self.index_entries,
            self.index_runs,
            self.stored_rows,
            self.rowsets,
            self.overlap_depth,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_right() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (64 << 20, "64.0 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn each_question_has_its_line() {
        let stats = Stats {
            slowed_by: Some(StallCause::Compaction),
            tables: vec![TableStats { name: "metrics".into(), ..TableStats::default() }],
            ..Stats::default()
        };
        let text = stats.to_string();
        let heads: Vec<&str> = text.lines().map(|line| line.split(':').next().expect("a head")).collect();
        assert_eq!(heads, ["health", "disk", "memory", "behind", "writers", "work", "table metrics"]);
        assert!(text.contains("slowed now: compaction is behind"), "{text}");
    }
}
