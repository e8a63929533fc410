//! `nyala inspect`: what is in a database, without knowing the types of its rows.

use std::path::PathBuf;

use anyhow::Result;
use nyala::{ErrorKind, Table};

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, Item, List, Output};
use crate::value::{BinaryText, show};

/// Show the tables of a database: columns, rows, sizes, how they lie on the disk
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Only this table, with its columns
    #[arg(value_name = "TABLE")]
    table: Option<String>,

    /// Do not count rows, which reads the whole index
    #[arg(long)]
    no_count: bool,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let engine = open::for_reading(&args.dir)?;
    let tables = match &args.table {
        Some(name) => vec![open::table(&engine, name)?],
        None => engine.tables().iter().map(|name| open::table(&engine, name)).collect::<Result<_>>()?,
    };
    let stats = engine.stats();
    let report = engine.recovery_report();
    let mut document = Document::default();
    document.fact("directory", args.dir.to_string_lossy().into_owned());
    document.fact("tables", stats.tables.len());
    document.fact("version", stats.visible_version);
    document.fact("index_bytes", Item::Bytes(stats.index_bytes));
    document.fact("row_bytes", Item::Bytes(stats.row_bytes));
    document.fact("log_bytes", Item::Bytes(stats.log_bytes));
    document.fact("manifest_bytes", Item::Bytes(stats.manifest_bytes));
    document.fact("unflushed_operations", report.replayed_operations);
    document.fact("torn_log", report.torn.as_ref().map(ToString::to_string));
    let mut problems = List::new("problems", &["table", "problem"]);
    let (sizes, columns) = (sizes(&tables, args, &mut problems)?, columns(&tables));
    let is_damaged = !problems.is_empty();
    // The first list is what csv shows: of one table, its columns.
    match args.table {
        Some(_) => {
            document.list(columns);
            document.detail(sizes);
        }
        None => {
            document.list(sizes);
            document.detail(columns);
        }
    }
    document.detail(problems);
    if tables.is_empty() {
        document.remark("there are no tables");
    }
    if is_damaged {
        document.remark("\n`nyala check DIR` says all that is wrong");
    }
    out.document(&document)?;
    Ok(if is_damaged { Exit::Found } else { Exit::Done })
}

/// Where rows cannot be counted for damage, the rest is shown all the same.
fn sizes(tables: &[Table], args: &Args, problems: &mut List) -> Result<List> {
    let mut list = List::new(
        // Another name than that of the fact which counts them.
        "table_sizes",
        &[
            "table",
            "rows",
            "index_runs",
            "index_bytes",
            "rowsets",
            "row_bytes",
            "garbage_percent",
            "overlap_depth",
            "unflushed_bytes",
        ],
    );
    for table in tables {
        let counted = if args.no_count { Ok(None) } else { table.count().map(Some) };
        let rows = match counted {
            Ok(rows) => rows,
            Err(error) if error.kind() == ErrorKind::Corruption => {
                problems.push([table.name().into(), error.to_string().into()]);
                None
            }
            Err(error) => return Err(error.into()),
        };
        let stats = table.stats();
        list.push([
            table.name().into(),
            rows.into(),
            stats.index_runs.into(),
            Item::Bytes(stats.index_bytes),
            stats.rowsets.into(),
            Item::Bytes(stats.row_bytes),
            Item::Percent(stats.garbage_share() * 100.0),
            stats.overlap_depth.into(),
            Item::Bytes(stats.memtable_bytes),
        ]);
    }
    Ok(list)
}

fn columns(tables: &[Table]) -> List {
    let mut list =
        List::new("columns", &["table", "column", "type", "key", "descending", "nullable", "default"]);
    for table in tables {
        let schema = table.schema();
        for (at, column) in schema.columns().iter().enumerate() {
            let key = (at < schema.key_columns()).then_some(at + 1);
            list.push([
                table.name().into(),
                (&*column.name).into(),
                column.ty.to_string().into(),
                key.into(),
                column.descending.into(),
                column.nullable.into(),
                column.default_value().map(|value| show(value, BinaryText::Hex).into_owned()).into(),
            ]);
        }
    }
    list
}
