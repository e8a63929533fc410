//! `nyala get`: one row, by its key.

use anyhow::Result;
use nyala::Type;

use crate::failure::{Exit, Failure};
use crate::open::TableOf;
use crate::output::{Document, Format, List, Output, RowWriter};
use crate::selection::whole_key;
use crate::value::{BinaryText, borrow, show};

/// Print the row with this key
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: TableOf,

    /// A value for each column of the key, in their order. Negative numbers are fine; put -- before other values that
    /// begin with a hyphen, such as -inf
    #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
    key: Vec<String>,

    /// How binaries are written
    #[arg(long, value_enum, value_name = "FORM", default_value = "hex")]
    binary: BinaryText,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let (_engine, table) = args.of.for_reading()?;
    let schema = table.schema();
    let key =
        whole_key(schema, args.key.iter().map(String::as_str)).map_err(|failure| match failure.advice {
            Some(_) => failure,
            None => failure.advise("`nyala scan --prefix` prints all rows whose key begins with some values"),
        })?;
    let Some(row) = table.get(borrow(&key))? else {
        return Err(Failure::new(
            Exit::NotFound,
            format!("table {:?} has no row with this key", args.of.table),
        )
        .into());
    };
    let values = row.to_values()?;
    if out.format == Format::Table {
        let mut list = List::new("", &["column", "value"]);
        for (column, value) in schema.columns().iter().zip(values) {
            list.push([(&*column.name).into(), show(value, args.binary).into_owned().into()]);
        }
        let mut document = Document::default();
        document.list(list);
        out.document(&document)?;
        return Ok(Exit::Done);
    }
    let columns: Vec<(&str, Type)> =
        schema.columns().iter().map(|column| (&*column.name, column.ty)).collect();
    let (format, style) = (out.format, out.style);
    let mut writer = RowWriter::start(out.writer(), format, style, &columns, "", args.binary)?;
    writer.row(out.writer(), &values)?;
    writer.finish(out.writer())?;
    Ok(Exit::Done)
}
