//! `nyala key`: the bytes of keys, as they stand in files and messages, and back.

use std::path::PathBuf;

use anyhow::Result;
use nyala::{Schema, inspect};

use crate::failure::{Exit, Failure};
use crate::open;
use crate::output::{Document, Format, List, Output};
use crate::selection::whole_key;
use crate::value::{BinaryText, borrow, hex, parse_column_type, parse_hex, show};

/// Turn the values of a key into its bytes, and back
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the bytes of a key, in hexadecimal digits
    Encode {
        #[command(flatten)]
        columns: Columns,

        /// A value for each column of the key. Negative numbers are fine; put -- before other values that begin with a
        /// hyphen, such as -inf
        #[arg(value_name = "VALUE", required = true, allow_negative_numbers = true)]
        values: Vec<String>,
    },
    /// Print the values of a key
    Decode {
        #[command(flatten)]
        columns: Columns,

        /// The bytes, in hexadecimal digits, with or without 0x
        #[arg(value_name = "HEX")]
        bytes: String,
    },
}

/// Whose key it is.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Columns {
    /// The types of the key's columns: u32,timestamp:desc,string
    #[arg(long, value_name = "TYPE,..", conflicts_with_all = ["db", "table"])]
    types: Option<String>,

    /// The directory of a database that has the table
    #[arg(long, value_name = "DIR", requires = "table")]
    db: Option<PathBuf>,

    /// The table whose key it is
    #[arg(long, value_name = "TABLE", requires = "db")]
    table: Option<String>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    match &args.command {
        Command::Encode { columns, values } => {
            let schema = columns.schema()?;
            let key = whole_key(&schema, values.iter().map(String::as_str))?;
            let bytes = inspect::encode_key(&schema, borrow(&key))?;
            if out.format == Format::Table {
                writeln!(out.writer(), "{}", hex(&bytes))?;
                return Ok(Exit::Done);
            }
            let mut document = Document::default();
            document.fact("key", hex(&bytes));
            document.fact("bytes", bytes.len());
            out.document(&document)?;
        }
        Command::Decode { columns, bytes } => {
            let schema = columns.schema()?;
            let digits = bytes.strip_prefix("0x").unwrap_or(bytes);
            let bytes = parse_hex(digits).ok_or_else(|| {
                Failure::usage(format!("{bytes:?} is no key: give hexadecimal digits, two for each byte"))
            })?;
            let mut list = List::new("columns", &["column", "value"]);
            inspect::decode_key(&schema, &bytes, |column, value| {
                list.push([column.into(), show(value, BinaryText::Hex).into_owned().into()]);
            })?;
            let mut document = Document::default();
            document.list(list);
            out.document(&document)?;
        }
    }
    Ok(Exit::Done)
}

impl Columns {
    fn schema(&self) -> Result<Schema> {
        if let Some(types) = &self.types {
            let mut builder = Schema::builder();
            for (at, text) in split_types(types).enumerate() {
                let ty = parse_column_type(text).map_err(|why| Failure::usage(format!("--types: {why}")))?;
                builder = builder.key(format!("{}", at + 1), ty);
            }
            return Ok(builder.build()?);
        }
        let (Some(db), Some(table)) = (&self.db, &self.table) else {
            return Err(Failure::usage("give --types, or --db and --table").into());
        };
        let engine = open::for_reading(db)?;
        let table = open::table(&engine, table)?;
        Ok((**table.schema()).clone())
    }
}

/// At the commas, but not at those of `decimal(9,2)`.
fn split_types(types: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    types.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}
