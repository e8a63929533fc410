//! `nyala scan`: the rows of a table in key order.

use anyhow::Result;
use nyala::Type;

use crate::failure::Exit;
use crate::open::TableOf;
use crate::output::{Document, Output, RowWriter};
use crate::selection::Selection;
use crate::value::BinaryText;

/// Print rows of a table, in the order of their keys
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: TableOf,

    #[command(flatten)]
    selection: Selection,

    /// Print how many rows there are, and not the rows
    #[arg(long)]
    count: bool,

    /// What stands for a null in csv
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,

    /// How binaries are written
    #[arg(long, value_enum, value_name = "FORM", default_value = "hex")]
    binary: BinaryText,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let (_engine, table) = args.of.for_reading()?;
    let (scan, columns) = args.selection.scan(&table)?;
    if args.count {
        let mut document = Document::default();
        document.fact("rows", scan.count()?);
        out.document(&document)?;
        return Ok(Exit::Done);
    }
    let mut cursor = scan.cursor()?;
    let (format, style) = (out.format, out.style);
    let columns: Vec<(&str, Type)> = columns.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
    let mut writer = RowWriter::start(out.writer(), format, style, &columns, &args.null, args.binary)?;
    while let Some(row) = cursor.next()? {
        writer.row(out.writer(), &row.to_values()?)?;
    }
    writer.finish(out.writer())?;
    Ok(Exit::Done)
}
