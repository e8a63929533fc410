//! `nyala checkpoint`: a copy of a database that can be opened.

use std::path::PathBuf;

use anyhow::Result;

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Item, Output};

/// Make an openable copy of a database, which shares files with it where that is possible
///
/// Opens the database for writing. A program that has it open makes its own with `Engine::checkpoint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The directory of the copy: missing or empty
    #[arg(value_name = "NEW_DIR")]
    target: PathBuf,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let engine = open::for_writing(&args.dir)?;
    let report = engine.checkpoint(&args.target)?;
    engine.close()?;
    let mut document = Document::default();
    document.fact("checkpoint", args.target.to_string_lossy().into_owned());
    document.fact("version", report.version);
    document.fact("linked_files", report.linked_files);
    document.fact("linked_bytes", Item::Bytes(report.linked_bytes));
    document.fact("copied_files", report.copied_files);
    document.fact("copied_bytes", Item::Bytes(report.copied_bytes));
    document.fact("log_segments", report.log_segments);
    document.fact("log_bytes", Item::Bytes(report.log_bytes));
    out.document(&document)?;
    Ok(Exit::Done)
}
