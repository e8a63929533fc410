//! `nyala stats`: how large a database is and how it lies on the disk, once or again and again.
//!
//! It looks from outside, opening for reading only each time, so it sees sizes and shapes; what only the process that
//! writes can count (cache hits, delays) is in that process's own `Engine::stats`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Format, Item, List, Output};

/// Show how large a database is, how far compaction is behind, and how much is not flushed yet
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
        out.document(&look_at(args)?)?;
    }
    Ok(Exit::Done)
}

fn look_at(args: &Args) -> Result<Document> {
    let engine = open::for_reading(&args.dir)?;
    let stats = engine.stats();
    let mut document = Document::default();
    document.fact("version", stats.visible_version);
    document.fact("index_bytes", Item::Bytes(stats.index_bytes));
    document.fact("row_bytes", Item::Bytes(stats.row_bytes));
    document.fact("log_bytes", Item::Bytes(stats.log_bytes));
    document.fact("manifest_bytes", Item::Bytes(stats.manifest_bytes));
    document.fact("unflushed_operations", engine.recovery_report().replayed_operations);
    document.fact("unflushed_bytes", Item::Bytes(stats.memtable_bytes));
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
        ]);
    }
    document.list(tables);
    Ok(document)
}
