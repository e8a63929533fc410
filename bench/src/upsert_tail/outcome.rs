//! What came of one distribution: numbers, the time series as CSV, and what is plotted of it.

use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use serde_json::{Value, json};

use crate::args::{Distribution, UpsertTailArgs};
use crate::measure::write_file;
use crate::plot::{Line, Mark, Panel};

use super::sampler::{Phase, Sample};
use super::writers::{SlowBatch, Written};

/// What one distribution gave.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) distribution: Distribution,
    pub(super) load_rows_per_second: f64,
    pub(super) load: Written,
    pub(super) rows_per_second: f64,
    /// How long the upserts took.
    pub(super) seconds: f64,
    pub(super) threads: u64,
    pub(super) upserts: Written,
    /// Of index and rows right after the load, when nothing was there twice.
    pub(super) live_bytes: u64,
    pub(super) stall_seconds: f64,
    pub(super) longest_stall: Duration,
    pub(super) delayed_batches: u64,
    pub(super) stopped_batches: u64,
    pub(super) flushed_bytes: u64,
    pub(super) compaction_bytes_out: u64,
    /// Of rowsets that compactions wrote.
    pub(super) moved_bytes: u64,
    pub(super) compaction_seconds: f64,
    pub(super) compactions: u64,
    /// Whether the engine had nothing left to do at the end.
    pub(super) is_idle: bool,
    pub(super) series: Vec<Sample>,
}

impl Outcome {
    fn during_upserts(&self) -> impl Iterator<Item = &Sample> {
        self.series.iter().filter(|sample| sample.phase == Phase::Upserts)
    }

    /// The greatest of something while upserts ran.
    fn most(&self, what: impl Fn(&Sample) -> u64) -> u64 {
        self.during_upserts().map(what).max().unwrap_or(0)
    }

    fn ratio(&self, bytes: u64) -> f64 {
        bytes as f64 / self.live_bytes.max(1) as f64
    }

    pub(super) fn micros(&self, quantile: f64) -> f64 {
        self.upserts.latencies.value_at_quantile(quantile) as f64 / 1e3
    }

    pub(super) fn runs_max(&self) -> u64 {
        self.most(|sample| sample.runs)
    }

    /// The part of the writing threads' time that was delay.
    pub(super) fn stall_share(&self) -> f64 {
        self.stall_seconds / (self.seconds * self.threads as f64).max(1e-9)
    }

    pub(super) fn depth_max(&self) -> u64 {
        self.most(|sample| sample.depth)
    }

    pub(super) fn rowsets_max(&self) -> u64 {
        self.most(|sample| sample.rowsets)
    }

    pub(super) fn disk_ratio_max(&self) -> f64 {
        self.ratio(self.most(|sample| sample.data_bytes))
    }

    pub(super) fn resident_max(&self) -> u64 {
        self.series.iter().map(|sample| sample.resident_bytes).max().unwrap_or(0)
    }

    pub(super) fn load_ratio(&self) -> f64 {
        self.rows_per_second / self.load_rows_per_second.max(1e-9)
    }

    /// The last sample: the engine when it had nothing left to do.
    pub(super) fn at_end(&self) -> Option<&Sample> {
        self.series.last()
    }

    pub(super) fn disk_ratio_idle(&self) -> f64 {
        self.ratio(self.at_end().map_or(0, |sample| sample.data_bytes))
    }

    pub(super) fn to_json(&self) -> Value {
        let slow = |batch: &SlowBatch| {
            json!({
                "at_s": batch.at,
                "took_us": micros(batch.took),
                "cpu_us": micros(batch.cpu),
                "wait_for_cpu_us": micros(batch.wait_for_cpu),
                "blocked_us": micros(batch.blocked()),
            })
        };
        let end = self.at_end();
        json!({
            "rows_per_s": self.rows_per_second,
            "p50_us": self.micros(0.5),
            "p99_us": self.micros(0.99),
            "p999_us": self.micros(0.999),
            "max_us": self.micros(1.0),
            "stall_seconds": self.stall_seconds,
            "stall_share": self.stall_share(),
            "runs_max": self.runs_max(),
            "depth_max": self.depth_max(),
            "rowsets_max": self.rowsets_max(),
            "debt_runs_max": self.most(|sample| sample.debt_runs),
            "debt_depth_max": self.most(|sample| sample.debt_depth),
            "disk_ratio_max": self.disk_ratio_max(),
            "disk_with_log_ratio_max": self.ratio(self.most(|sample| sample.disk_bytes)),
            "disk_ratio_idle": self.disk_ratio_idle(),
            "runs_idle": end.map(|sample| sample.runs),
            "depth_idle": end.map(|sample| sample.depth),
            "rowsets_idle": end.map(|sample| sample.rowsets),
            "is_idle": self.is_idle,
            "load_rows_per_s": self.load_rows_per_second,
            "load_max_us": self.load.latencies.max() as f64 / 1e3,
            "ratio_to_load": self.load_ratio(),
            "seconds": self.seconds,
            "live_bytes": self.live_bytes,
            "resident_bytes_max": self.resident_max(),
            "delayed_batches": self.delayed_batches,
            "stopped_batches": self.stopped_batches,
            "longest_stall_us": micros(self.longest_stall),
            "flushed_bytes": self.flushed_bytes,
            "compactions": self.compactions,
            "compaction_bytes_out": self.compaction_bytes_out,
            "moved_bytes": self.moved_bytes,
            "compaction_seconds": self.compaction_seconds,
            "slowest": self.upserts.slowest.iter().map(slow).collect::<Vec<_>>(),
        })
    }

    pub(super) fn write_csv(&self, path: &Path) -> anyhow::Result<()> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record([
            "seconds",
            "phase",
            "rows",
            "rows_per_s",
            "slowest_batch_ms",
            "stall_ms_per_s",
            "runs",
            "depth",
            "rowsets",
            "debt_runs",
            "debt_depth",
            "sealed_memtables",
            "memtable_bytes",
            "index_bytes",
            "row_bytes",
            "garbage_rows",
            "data_file_bytes",
            "disk_bytes",
            "resident_bytes",
            "compactions",
        ])?;
        for sample in &self.series {
            csv.write_record([
                format!("{:.3}", sample.at),
                sample.phase.name().to_owned(),
                sample.rows.to_string(),
                format!("{:.0}", sample.rows_per_second),
                format!("{:.3}", sample.slowest_ms),
                format!("{:.3}", sample.stall_ms_per_second),
                sample.runs.to_string(),
                sample.depth.to_string(),
                sample.rowsets.to_string(),
                sample.debt_runs.to_string(),
                sample.debt_depth.to_string(),
                sample.sealed_memtables.to_string(),
                sample.memtable_bytes.to_string(),
                sample.index_bytes.to_string(),
                sample.row_bytes.to_string(),
                sample.garbage_rows.to_string(),
                sample.data_bytes.to_string(),
                sample.disk_bytes.to_string(),
                sample.resident_bytes.to_string(),
                sample.compactions.to_string(),
            ])?;
        }
        write_file(path, &csv.into_inner()?)?;
        Ok(())
    }

    pub(super) fn title(&self, args: &UpsertTailArgs) -> String {
        format!(
            "{} upserts ({}) of {} rows, {} threads, batches of {}, {} of memory",
            args.upserts,
            self.distribution.name(),
            args.rows,
            args.threads,
            args.batch,
            args.memory
        )
    }

    /// Where a phase begins.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        for sample in &self.series {
            if marks.last().is_none_or(|mark| mark.label != sample.phase.name()) {
                marks.push(Mark { at: sample.at, label: sample.phase.name() });
            }
        }
        marks
    }

    pub(super) fn panels(&self) -> Vec<Panel> {
        let line = |name, value: &dyn Fn(&Sample) -> f64| Line {
            name,
            points: self.series.iter().map(|sample| (sample.at, value(sample))).collect(),
        };
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        // Before the load is over there is no live data to compare with.
        let ratio = |name, bytes: &dyn Fn(&Sample) -> u64| {
            let later = self.series.iter().filter(|sample| sample.phase != Phase::Load);
            Line { name, points: later.map(|sample| (sample.at, self.ratio(bytes(sample)))).collect() }
        };
        vec![
            Panel { title: "rows/s", lines: vec![line("written", &|sample| sample.rows_per_second)] },
            Panel { title: "slowest batch, ms", lines: vec![line("in 250 ms", &|sample| sample.slowest_ms)] },
            Panel {
                title: "stalls, ms per s",
                lines: vec![line("all threads", &|sample| sample.stall_ms_per_second)],
            },
            Panel {
                title: "index runs, overlap depth",
                lines: vec![
                    line("runs", &|sample| sample.runs as f64),
                    line("depth", &|sample| sample.depth as f64),
                    line("sealed memtables", &|sample| sample.sealed_memtables as f64),
                ],
            },
            Panel {
                title: "debt",
                lines: vec![
                    line("in runs", &|sample| sample.debt_runs as f64),
                    line("in depth", &|sample| sample.debt_depth as f64),
                ],
            },
            Panel { title: "rowsets", lines: vec![line("rowsets", &|sample| sample.rowsets as f64)] },
            Panel {
                title: "disk / live data",
                lines: vec![
                    ratio("data files", &|sample| sample.data_bytes),
                    ratio("in force", &|sample| sample.index_bytes + sample.row_bytes),
                    ratio("with the log", &|sample| sample.disk_bytes),
                ],
            },
            Panel {
                title: "memory, MiB",
                lines: vec![
                    line("resident", &|sample| mib(sample.resident_bytes)),
                    line("memtables", &|sample| mib(sample.memtable_bytes)),
                ],
            },
        ]
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    ByteSize::b(bytes).to_string()
}
