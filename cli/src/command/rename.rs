//! `nyala rename`: another name for a table.

use std::path::PathBuf;

use anyhow::Result;

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Output};

/// Give a table another name; its rows are not touched
///
/// Opens the database for writing. A program that opens the table by its old name finds none from then on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The table
    #[arg(value_name = "OLD")]
    old: String,

    /// Its new name, which no table may have
    #[arg(value_name = "NEW")]
    new: String,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let engine = open::for_writing(&args.dir)?;
    // Looked up first for what is said of one that is not there.
    open::table(&engine, &args.old)?;
    let table = engine.rename_table(&args.old, &args.new)?;
    engine.close()?;
    let mut document = Document::default();
    document.fact("table", table.name());
    document.fact("old_name", args.old.as_str());
    out.document(&document)?;
    Ok(Exit::Done)
}
