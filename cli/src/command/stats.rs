//! `nyala stats`: how large a database is, how it lies on the disk, how far it is behind and in which state it was left, once
//! or again and again.
//!
//! It looks from outside, opening for reading only each time, so it sees files, shapes and what is due; what only the process
//! that writes can count (cache hits, delays, what memory does) is in that process's own `Engine::stats`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nyala::{RecoveryReport, Timestamp};

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Format, Item, List, Output, Turn};

/// Show how large a database is, each file counted, how far it is behind, and what is not flushed yet
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Look again every so many seconds, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,

    /// With --watch: stop after so many looks
    #[arg(long, value_name = "LOOKS", requires = "watch")]
    looks: Option<u64>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let looks = match args.watch {
        None => 1,
        Some(_) => args.looks.unwrap_or(u64::MAX),
    };
    for look in 0..looks {
        if look > 0 {
            thread::sleep(args.watch.unwrap_or_default());
            if out.format == Format::Table {
                writeln!(out.writer())?;
            }
        }
        let mut document = look_at(args)?;
        if args.watch.is_some() {
            let turn = if look == 0 { Turn::First } else { Turn::Later };
            document.one_of_several(turn, "time", Timestamp::now().to_string());
        }
        out.document(&document)?;
    }
    Ok(Exit::Done)
}

fn look_at(args: &Args) -> Result<Document> {
    let engine = open::for_reading(&args.dir)?;
    let (stats, report) = (engine.stats(), engine.recovery_report());
    let disk = stats.disk.unwrap_or_default();
    let mut document = Document::default();
    document.fact("version", stats.visible_version);
    document.fact("health", health(report));
    document.fact("torn_log", report.torn.as_ref().map(ToString::to_string));
    // All files, and then their parts, which add up.
    document.fact("disk_bytes", Item::Bytes(disk.total_bytes()));
    document.fact("files", disk.files);
    document.fact("index_bytes", Item::Bytes(disk.index_bytes));
    document.fact("row_bytes", Item::Bytes(disk.row_bytes));
    document.fact("log_file_bytes", Item::Bytes(disk.log_bytes));
    document.fact("manifest_file_bytes", Item::Bytes(disk.manifest_bytes));
    document.fact("obsolete_bytes", Item::Bytes(disk.obsolete_bytes));
    document.fact("unfinished_bytes", Item::Bytes(disk.unfinished_bytes));
    document.fact("other_bytes", Item::Bytes(disk.other_bytes));
    // Of the files of log and manifest, what is written.
    document.fact("log_bytes", Item::Bytes(stats.log_bytes));
    document.fact("manifest_bytes", Item::Bytes(stats.manifest_bytes));
    document.fact("unflushed_operations", report.replayed_operations);
    document.fact("unflushed_bytes", Item::Bytes(stats.memtable_bytes));
    document.fact("compactions_due", stats.compactions_due);
    document.fact("debt_runs", stats.debt_runs);
    document.fact("debt_depth", stats.debt_depth);
    document.fact("slowed_by", stats.slowed_by.map(|cause| cause.to_string()));
    let mut tables = List::new(
        "tables",
        &[
            "table",
            "index_runs",
            "index_files",
            "index_entries",
            "index_deletions",
            "index_bytes",
            "rowsets",
            "stored_rows",
            "live_rows",
            "row_bytes",
            "garbage_bytes",
            "overlap_depth",
            "debt_runs",
            "debt_depth",
            "unflushed_bytes",
        ],
    );
    for table in &stats.tables {
        tables.push([
            table.name.as_str().into(),
            table.index_runs.into(),
            table.index_files.into(),
            table.index_entries.into(),
            table.index_deletions.into(),
            Item::Bytes(table.index_bytes),
            table.rowsets.into(),
            table.stored_rows.into(),
            table.live_rows.into(),
            Item::Bytes(table.row_bytes),
            Item::Bytes(table.garbage_bytes),
            table.overlap_depth.into(),
            table.debt_runs.into(),
            table.debt_depth.into(),
            Item::Bytes(table.memtable_bytes),
        ]);
    }
    document.list(tables);
    document.all_in_csv();
    Ok(document)
}

/// In which state the next open for writing would find it.
fn health(report: &RecoveryReport) -> &'static str {
    if report.torn.is_some() {
        "the log is torn"
    } else if report.replayed_operations > 0 {
        "in use or not closed"
    } else {
        "all is flushed"
    }
}
