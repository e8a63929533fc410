//! What a run took: the report for people, part by part as the parts are done, and the line for programs.

use std::fmt;
use std::path::Path;

use hdrhistogram::Histogram;
use nyala::{RecoveryReport, Stats};

use crate::args::Args;
use crate::reads::{GetFigures, ScanFigures};
use crate::verify::Verification;

/// What opening the directory took and found.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) seconds: f64,
    pub(crate) report: &'a RecoveryReport,
}

/// What the load took.
#[derive(Debug)]
pub(crate) struct LoadFigures {
    /// What was loaded, and how.
    pub(crate) kind: String,
    pub(crate) rows: u64,
    pub(crate) errors: u64,
    pub(crate) first_errors: Vec<String>,
    /// From the start to the last acknowledgement.
    pub(crate) seconds: f64,
    /// Of the whole process in that time, background work included.
    pub(crate) cpu_seconds: f64,
    /// What making a row costs without storing it.
    pub(crate) generator_nanos: f64,
    /// Nanoseconds of each commit.
    pub(crate) latencies: Histogram<u64>,
    /// When the last row was acknowledged.
    pub(crate) stats: Stats,
    /// Writing out what was in memory then. None if the load failed.
    pub(crate) flush_seconds: Option<f64>,
    /// After that.
    pub(crate) flushed: Stats,
    /// Bytes of memory after that.
    pub(crate) memory: Option<u64>,
}

/// All figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) load: Option<LoadFigures>,
    pub(crate) scan: Option<ScanFigures>,
    pub(crate) gets: Option<GetFigures>,
    /// After the reads.
    pub(crate) end: Stats,
    pub(crate) verification: Option<Verification>,
}

impl Report {
    /// Whether every row was taken and everything that was read is right.
    pub(crate) fn is_good(&self) -> bool {
        self.load.as_ref().is_none_or(|load| load.errors == 0)
            && self.scan.as_ref().is_none_or(|scan| scan.rows_expected.is_none())
            && self.gets.as_ref().is_none_or(|gets| gets.wrong == 0)
            && self.verification.as_ref().is_none_or(|verification| verification.wrong == 0)
    }

    /// The line for programs: a JSON object whose fields come in this order.
    pub(crate) fn json(&self) -> String {
        let load = self.load.as_ref();
        let seconds = |seconds: Option<f64>| format!("{:.6}", seconds.unwrap_or(0.0));
        let quantile = |quantile| micros(load.map_or(0, |load| load.latencies.value_at_quantile(quantile)));
        let verified = match &self.verification {
            None => "null",
            Some(verification) if verification.wrong == 0 => "true",
            Some(_) => "false",
        };
        let fields = [
            ("rows", load.map_or(0, |load| load.rows).to_string()),
            ("errors", load.map_or(0, |load| load.errors).to_string()),
            ("seconds", seconds(load.map(|load| load.seconds))),
            ("cpu_seconds", seconds(load.map(|load| load.cpu_seconds))),
            ("ns_per_row", format!("{:.1}", load.map_or(0.0, |load| per_row(load.seconds, load.rows)))),
            ("p50_us", format!("{:.3}", quantile(0.5))),
            ("p99_us", format!("{:.3}", quantile(0.99))),
            ("p999_us", format!("{:.3}", quantile(0.999))),
            ("max_us", format!("{:.3}", micros(load.map_or(0, |load| load.latencies.max())))),
            ("disk_bytes", disk_bytes(load.map_or(&self.end, |load| &load.flushed)).to_string()),
            ("stall_seconds", seconds(load.map(|load| load.stats.stall_time.as_secs_f64()))),
            ("verified", verified.to_owned()),
        ];
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", fields.join(", "))
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

/// Nanoseconds for each row; 0 if there is none.
fn per_row(seconds: f64, rows: u64) -> f64 {
    if rows == 0 { 0.0 } else { seconds * 1e9 / rows as f64 }
}

fn disk_bytes(stats: &Stats) -> u64 {
    stats.log_bytes + stats.manifest_bytes + stats.index_bytes + stats.row_bytes
}

/// Bytes written for each byte of keys and rows: to the log, by flushes and by compactions.
fn write_amplification(stats: &Stats) -> f64 {
    let written = stats.committed_bytes + stats.flushed_bytes + stats.compaction_bytes_out;
    written as f64 / stats.committed_bytes.max(1) as f64
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<16} {value}")
}

/// "insert of sequential int keys by 2 threads, .."
pub(crate) fn kind_of_load(args: &Args) -> String {
    let verb = if args.use_upsert { "upsert" } else { "insert" };
    let order = if args.use_random || args.use_random_pk { "random" } else { "sequential" };
    format!(
        "{verb} of {order} {} keys by {} threads, {} rows a batch, {}, {} of memory",
        args.key_shape.name(),
        args.num_threads,
        args.batch_rows,
        args.durability.name(),
        Bytes(Some(args.memory as u64)),
    )
}

impl fmt::Display for Opening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "directory", format_args!("{}, opened in {:.3} s", self.dir.display(), self.seconds))?;
        let report = self.report;
        if report.is_new {
            return Ok(());
        }
        line(
            f,
            "recovered",
            format_args!(
                "{} rows from {} batches in the log, {} were on disk already; {} orphans removed",
                Grouped(report.replayed_operations),
                Grouped(report.batches),
                Grouped(report.skipped_operations),
                report.orphans_removed,
            ),
        )?;
        match &report.torn {
            None => Ok(()),
            Some(torn) => {
                let (segment, offset, reason) = (torn.segment, torn.offset, &torn.reason);
                line(f, "", format_args!("the log ended at {offset} of segment {segment}: {reason}"))
            }
        }
    }
}

impl fmt::Display for LoadFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self;
        line(f, "load", &load.kind)?;
        line(f, "rows", format_args!("{} stored, {} errors", Grouped(load.rows), Grouped(load.errors)))?;
        for error in &load.first_errors {
            line(f, "", error)?;
        }
        let rate = if load.seconds > 0.0 { load.rows as f64 / load.seconds } else { 0.0 };
        let (wall, cpu) = (per_row(load.seconds, load.rows), per_row(load.cpu_seconds, load.rows));
        line(
            f,
            "wall time",
            format_args!("{:.3} s, {wall:.0} ns a row, {} rows/s", load.seconds, Grouped(rate as u64)),
        )?;
        line(
            f,
            "CPU time",
            format_args!(
                "{:.3} s, {cpu:.0} ns a row, of which the generator takes {:.0}",
                load.cpu_seconds, load.generator_nanos
            ),
        )?;
        line(f, "batch latency", Latencies(&load.latencies))?;
        let stats = &load.stats;
        line(
            f,
            "stalls",
            format_args!(
                "{:.3} s, {:.3} s the longest; {} batches delayed, {} stopped",
                stats.stall_time.as_secs_f64(),
                stats.longest_stall.as_secs_f64(),
                Grouped(stats.delayed_batches),
                Grouped(stats.stopped_batches),
            ),
        )?;
        match load.flush_seconds {
            Some(seconds) => line(f, "flush at the end", format_args!("{seconds:.3} s"))?,
            None => line(f, "flush at the end", "none, the load failed")?,
        }
        let written = &load.flushed;
        line(
            f,
            "written",
            format_args!(
                "{:.2} times the {} of keys and rows: {} by {} flushes, {} by {} compactions, the rest to the log",
                write_amplification(written),
                Bytes(Some(written.committed_bytes)),
                Bytes(Some(written.flushed_bytes)),
                Grouped(written.flushes),
                Bytes(Some(written.compaction_bytes_out)),
                Grouped(written.compactions),
            ),
        )?;
        line(
            f,
            "on disk",
            format_args!(
                "{}: {} of rows, {} of index, {} of log",
                Bytes(Some(disk_bytes(written))),
                Bytes(Some(written.row_bytes)),
                Bytes(Some(written.index_bytes)),
                Bytes(Some(written.log_bytes)),
            ),
        )?;
        line(f, "memory then", Bytes(load.memory))
    }
}
impl fmt::Display for ScanFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = self;
        line(
            f,
            "full scan",
            format_args!(
                "{} rows in {:.3} s, {:.0} ns a row; counted at {:.0} ns a row; memory {}",
                Grouped(scan.rows),
                scan.seconds,
                per_row(scan.seconds, scan.rows),
                per_row(scan.count_seconds, scan.rows),
                Bytes(scan.memory),
            ),
        )?;
        match scan.rows_expected {
            Some(expected) => line(f, "", format_args!("WRONG: there should be {} rows", Grouped(expected))),
            None => Ok(()),
        }
    }
}
impl fmt::Display for GetFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gets = self;
        let reads = gets.found + gets.absent + gets.wrong;
        line(
            f,
            "point reads",
            format_args!(
                "{} in {:.3} s, {:.0} ns each; {} found, {} absent; memory {}",
                Grouped(reads),
                gets.seconds,
                per_row(gets.seconds, reads),
                Grouped(gets.found),
                Grouped(gets.absent),
                Bytes(gets.memory),
            ),
        )?;
        if gets.wrong > 0 {
            line(f, "", format_args!("WRONG: {} are missing or differ", Grouped(gets.wrong)))?;
        }
        line(f, "", Latencies(&gets.latencies))
    }
}
/// How the tables lie on disk, and what the cache did.
pub(crate) struct Layout<'a>(pub(crate) &'a Stats);

impl fmt::Display for Layout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.0;
        for table in &stats.tables {
            line(
                f,
                "table",
                format_args!(
                    "{} index runs in {} files, {} rowsets; {} index entries, {} rows stored, {} of them live",
                    table.index_runs,
                    table.index_files,
                    table.rowsets,
                    Grouped(table.index_entries),
                    Grouped(table.stored_rows),
                    Grouped(table.live_rows),
                ),
            )?;
        }
        let reads = stats.cache_hits + stats.cache_misses;
        if reads > 0 {
            let share = stats.cache_hits as f64 * 100.0 / reads as f64;
            line(f, "block cache", format_args!("{}, {share:.1} % hits", Bytes(Some(stats.cache_bytes))))?;
        }
        Ok(())
    }
}
impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self;
        line(
            f,
            "opened again",
            format_args!("closed in {:.3} s, opened in {:.3} s", found.close_seconds, found.open_seconds),
        )?;
        let others = match found.others {
            0 => String::new(),
            others => format!(", {} of other runs not compared", Grouped(others)),
        };
        let rows = found.right + found.wrong + found.others;
        line(
            f,
            "verified",
            format_args!(
                "{} rows right, {} wrong{others}; {:.3} s, {:.0} ns a row; memory {}",
                Grouped(found.right),
                Grouped(found.wrong),
                found.seconds,
                per_row(found.seconds, rows),
                Bytes(found.memory),
            ),
        )?;
        found.first_wrong.iter().try_for_each(|wrong| line(f, "", wrong))
    }
}

/// The most memory that was used.
pub(crate) struct PeakMemory(pub(crate) Option<u64>);

impl fmt::Display for PeakMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "memory at most", Bytes(self.0))
    }
}

/// The percentiles of a histogram of nanoseconds.
struct Latencies<'a>(&'a Histogram<u64>);

impl fmt::Display for Latencies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            write!(f, "{name} {:.1}, ", micros(self.0.value_at_quantile(quantile)))?;
        }
        write!(f, "maximum {:.1} us", micros(self.0.max()))
    }
}

/// A number of bytes as people read it.
struct Bytes(Option<u64>);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("unknown"),
            Some(bytes) if bytes < 1 << 10 => write!(f, "{bytes} bytes"),
            Some(bytes) if bytes < 1 << 20 => write!(f, "{:.1} KiB", bytes as f64 / 1024.0),
            Some(bytes) if bytes < 1 << 30 => write!(f, "{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            Some(bytes) => write!(f, "{:.2} GiB", bytes as f64 / f64::from(1 << 30)),
        }
    }
}

/// A number with a comma after each three digits.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}
