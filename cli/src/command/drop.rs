//! `nyala drop`: a table goes, with all its rows.

use anyhow::Result;
use nyala::{ErrorKind, Table};

use crate::failure::{Exit, Failure};
use crate::open::{self, TableOf};
use crate::output::{Document, Item, Output};

/// Drop a table with all its rows, for ever
///
/// Without --yes nothing is dropped: what would be is said, and the exit code is 2. With it the database is opened for
/// writing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: TableOf,

    /// Do it; nothing is asked
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    if !args.yes {
        let (_engine, table) = args.of.for_reading()?;
        return Err(refusal(table.name(), rows(&table)?).into());
    }
    let engine = open::for_writing(&args.of.dir)?;
    let table = open::table(&engine, &args.of.table)?;
    let (rows, stats) = (rows(&table)?, table.stats());
    engine.drop_table(&args.of.table)?;
    engine.close()?;
    let mut document = Document::default();
    document.fact("dropped", args.of.table.as_str());
    document.fact("rows", rows);
    document.fact("bytes", Item::Bytes(stats.index_bytes + stats.row_bytes));
    out.document(&document)?;
    Ok(Exit::Done)
}

/// How many rows go with a table. None if damage keeps them from being counted: such a table can be dropped, too.
fn rows(table: &Table) -> Result<Option<u64>> {
    match table.count() {
        Ok(rows) => Ok(Some(rows)),
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn refusal(table: &str, rows: Option<u64>) -> Failure {
    let rows = match rows {
        None => "rows that cannot be counted for damage".to_owned(),
        Some(1) => "1 row".to_owned(),
        Some(rows) => format!("{} rows", Item::Count(rows).for_people()),
    };
    Failure::usage(format!("nothing was dropped: table {table:?} has {rows}, and --yes is missing"))
        .advise("--yes drops it for ever; `nyala export` writes its rows to a file")
}
