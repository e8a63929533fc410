//! `nyala check`: reads all of a database, and says what is wrong with it.

use std::path::PathBuf;

use anyhow::Result;

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Item, List, Output};

/// Read every byte of a database and check that it is what was written; changes nothing
///
/// Exit code 4 if there are problems, 6 if the database is so damaged that it does not open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let engine = open::for_reading(&args.dir)?;
    let report = engine.check()?;
    let mut document = Document::default();
    document.fact("is_clean", report.is_clean());
    document.fact("tables", report.tables);
    document.fact("index_files", report.index_files);
    document.fact("rowsets", report.rowsets);
    document.fact("entries", report.entries);
    document.fact("rows", report.rows);
    document.fact("manifest_edits", report.edits);
    document.fact("log_segments", report.log_segments);
    document.fact("log_batches", report.log_batches);
    document.fact("bytes", Item::Bytes(report.bytes));
    let mut problems =
        List::new("problems", &["kind", "table", "file", "offset", "what", "expected", "found"]);
    for problem in &report.problems {
        problems.push([
            problem.kind.to_string().into(),
            problem.table.clone().into(),
            problem.file.map(Item::Number).into(),
            problem.offset.map(Item::Number).into(),
            problem.what.clone().into(),
            problem.expected.clone().into(),
            problem.found.clone().into(),
        ]);
    }
    document.list(problems);
    let mut extra = List::new("extra_files", &["file"]);
    for name in &report.extra_files {
        extra.push([name.as_str().into()]);
    }
    document.detail(extra);
    if !report.is_clean() {
        document.remark("\n`nyala repair DIR NEW_DIR --dry-run` says what can be had of it");
    }
    out.document(&document)?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::Found })
}
