//! `nyala compact`: merges what has piled up.

use std::path::PathBuf;

use anyhow::Result;

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Item, List, Output};

/// Merge all index runs of tables into one each, and leave the garbage behind
///
/// Databases compact by themselves while they are open; this is for before a long time of reading only.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The tables [default: all]
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let engine = open::for_writing(&args.dir)?;
    let names = if args.tables.is_empty() { engine.tables() } else { args.tables.clone() };
    let tables: Vec<_> = names.iter().map(|name| open::table(&engine, name)).collect::<Result<_>>()?;
    let mut list =
        List::new("tables", &["table", "index_runs_before", "index_runs", "bytes_before", "bytes"]);
    for table in tables {
        let before = table.stats();
        table.compact()?;
        let after = table.stats();
        list.push([
            table.name().into(),
            before.index_runs.into(),
            after.index_runs.into(),
            Item::Bytes(before.index_bytes + before.row_bytes),
            Item::Bytes(after.index_bytes + after.row_bytes),
        ]);
    }
    engine.close()?;
    let mut document = Document::default();
    document.list(list);
    out.document(&document)?;
    Ok(Exit::Done)
}
