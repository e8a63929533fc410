//! `nyala export`: rows of a table to a file that `nyala import` reads again.
//!
//! Invariant: a file under its own name is whole. It is written beside it, and renamed at the end.
//! Invariant: nothing is exported that an import would read as something else.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use nyala::{Type, Value};

use crate::failure::{Exit, Failure};
use crate::import::{FileForm, progress};
use crate::open;
use crate::output::{Document, Format, Output, RowWriter, Style};
use crate::selection::Selection;
use crate::value::{BinaryText, show};

/// Write rows of a table to a file, as csv or as lines of JSON
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The table
    #[arg(value_name = "TABLE")]
    table: String,

    /// The file: .csv, .jsonl, with .gz behind it if it is to be compressed; - or nothing for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    #[command(flatten)]
    selection: Selection,

    /// The form of the file [default: what its name says, else csv]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<FileForm>,

    /// What stands for a null in csv
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,

    /// How binaries are written
    #[arg(long, value_enum, value_name = "FORM", default_value = "hex")]
    binary: BinaryText,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let engine = open::for_reading(&args.dir)?;
    let table = open::table(&engine, &args.table)?;
    let is_stdout = args.file.as_os_str() == "-";
    if is_stdout {
        export(args, &table, out.writer())?;
        return Ok(Exit::Done);
    }
    if args.file.exists() && !args.force {
        let failure = Failure::new(Exit::Failed, format!("{} is there already", args.file.display()));
        return Err(failure.advise("--force replaces it").into());
    }
    let unfinished = unfinished_name(&args.file);
    let written = write_file(args, &table, &unfinished).and_then(|rows| {
        fs::rename(&unfinished, &args.file).with_context(|| args.file.display().to_string())?;
        Ok(rows)
    });
    let rows = written.inspect_err(|_| {
        let _ = fs::remove_file(&unfinished);
    })?;
    let mut document = Document::default();
    document.fact("file", args.file.to_string_lossy().into_owned());
    document.fact("rows", rows);
    document.fact("file_bytes", crate::output::Item::Bytes(fs::metadata(&args.file)?.len()));
    out.document(&document)?;
    Ok(Exit::Done)
}

fn write_file(args: &Args, table: &nyala::Table, path: &Path) -> Result<u64> {
    let named = || path.display().to_string();
    // An error of the database is not one of the file.
    let in_file = |error: anyhow::Error| match error.downcast_ref::<io::Error>() {
        Some(_) => error.context(named()),
        None => error,
    };
    let file = File::create(path).with_context(named)?;
    let mut writer = BufWriter::with_capacity(256 << 10, file);
    let rows = if args.file.extension().is_some_and(|extension| extension == "gz") {
        let mut encoder = GzEncoder::new(&mut writer, Compression::default());
        let rows = export(args, table, &mut encoder).map_err(in_file)?;
        encoder.finish().with_context(named)?;
        rows
    } else {
        export(args, table, &mut writer).map_err(in_file)?
    };
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error).with_context(named)?;
    file.sync_all().with_context(named)?;
    Ok(rows)
}

fn export(args: &Args, table: &nyala::Table, out: &mut dyn Write) -> Result<u64> {
    let form = args.format.or_else(|| FileForm::of_name(&args.file)).unwrap_or(FileForm::Csv);
    let format = match form {
        FileForm::Csv => Format::Csv,
        FileForm::Jsonl => Format::Json,
    };
    let (scan, columns) = args.selection.scan(table)?;
    let schema = table.schema();
    // Where a null can be, a text that looks like one would be read as one.
    let null = match form {
        FileForm::Csv => Some(args.null.as_str()),
        FileForm::Jsonl => None,
    };
    let nullable: Vec<bool> = columns
        .iter()
        .map(|(name, _)| schema.column_index(name).is_some_and(|at| schema.columns()[at].nullable))
        .collect();
    let columns: Vec<(&str, Type)> = columns.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
    let bar = progress::of_rows();
    let mut cursor = scan.cursor()?;
    let mut writer = RowWriter::start(out, format, Style::Plain, &columns, &args.null, args.binary)?;
    let mut rows = 0;
    while let Some(row) = cursor.next()? {
        let values = row.to_values()?;
        if let Some(null) = null {
            for ((value, is_nullable), (name, _)) in values.iter().zip(&nullable).zip(&columns) {
                if *is_nullable && *value != Value::Null && show(*value, args.binary) == null {
                    return Err(Failure::new(
                        Exit::Failed,
                        format!(
                            "row {}: the text of column {name} is {null:?}, which stands for a null",
                            rows + 1
                        ),
                    )
                    .advise("choose another text for nulls, such as --null '\\N', or --format jsonl")
                    .into());
                }
            }
        }
        writer.row(out, &values)?;
        rows += 1;
        bar.set_position(rows);
    }
    writer.finish(out)?;
    bar.finish_and_clear();
    Ok(rows)
}

/// `flights.csv.unfinished`
fn unfinished_name(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".unfinished");
    name.into()
}
