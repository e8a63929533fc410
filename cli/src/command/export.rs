//! `nyala export`: rows of a table to a file that `nyala import` reads again.
//!
//! Invariant: a file under its own name is whole. It is written beside it under a name that no file has, and renamed
//! at the end.
//! Invariant: no file is touched that this did not make, but for the one that `--force` replaces.
//! Invariant: nothing is exported that an import would read as something else.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use nyala::{Table, Type, Value};
use tempfile::{NamedTempFile, PersistError};

use crate::failure::{Exit, Failure};
use crate::import::{FileForm, progress};
use crate::interrupt;
use crate::open::TableOf;
use crate::output::{Document, Format, Item, Output, RowWriter, Style};
use crate::selection::Selection;
use crate::value::{BinaryText, show};

/// Of the name of a file that is not whole yet.
const PREFIX: &str = "nyala-export-";
const SUFFIX: &str = ".unfinished";

/// Write rows of a table to a file, as csv or as lines of JSON
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: TableOf,

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
    let (_engine, table) = args.of.for_reading()?;
    if args.file.as_os_str() == "-" {
        export(args, &table, out.writer())?;
        return Ok(Exit::Done);
    }
    check_target(args)?;
    // Before there is a file that could be left over.
    interrupt::watch(out.format, || {
        let failure = interrupt::failure("the file is not written");
        failure.advise(format!("{PREFIX}*{SUFFIX} may be left over in its directory: delete it"))
    })?;
    let mut beside = create_beside(&args.file)?;
    let written = write_file(args, &table, &mut beside);
    let (rows, bytes) = put_in_place(args, beside, written)?;
    let mut document = Document::default();
    document.fact("file", args.file.to_string_lossy().into_owned());
    document.fact("rows", rows);
    document.fact("file_bytes", Item::Bytes(bytes));
    out.document(&document)?;
    Ok(Exit::Done)
}

/// Before anything is written. What else is wrong with the name is told when the file beside it is made.
fn check_target(args: &Args) -> Result<(), Failure> {
    match args.file.metadata() {
        Ok(found) if !found.is_file() => {
            Err(Failure::new(Exit::Failed, format!("{} is there, and is no file", args.file.display()))
                .advise("without a file rows go to standard output"))
        }
        Ok(_) if !args.force => Err(is_there(&args.file)),
        _ => Ok(()),
    }
}

fn is_there(file: &Path) -> Failure {
    Failure::new(Exit::Failed, format!("{} is there already", file.display())).advise("--force replaces it")
}

/// `nyala-export-x4Tk9a.unfinished`, a file that was not there. Its name is short, since that of `file` may be as long as
/// a name can be.
fn create_beside(file: &Path) -> Result<NamedTempFile> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    // Whoever may read a new file may read this one: temporary files are for their owner only.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(dir).with_context(|| format!("a new file beside {}", file.display()))
}

/// Gives what was written its name, or deletes it if anything failed.
fn put_in_place(args: &Args, beside: NamedTempFile, written: Result<(u64, u64)>) -> Result<(u64, u64)> {
    let (beside, error) = match written {
        Err(error) => (beside, error),
        Ok(written) => {
            let put = match args.force {
                true => beside.persist(&args.file),
                // A file may have come since we looked.
                false => beside.persist_noclobber(&args.file),
            };
            match put {
                Ok(_) => return Ok(written),
                Err(PersistError { error, file }) => (file, in_place_error(&args.file, error)),
            }
        }
    };
    let name = beside.path().display().to_string();
    Err(match beside.close() {
        Ok(()) => error,
        Err(why) => error.context(format!("{name} is left over ({why})")),
    })
}

fn in_place_error(file: &Path, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(file).into(),
        _ => anyhow::Error::from(error).context(file.display().to_string()),
    }
}

/// How many rows, and how many bytes the file has.
fn write_file(args: &Args, table: &Table, file: &mut NamedTempFile) -> Result<(u64, u64)> {
    let named = || args.file.display().to_string();
    // An error of the database is not one of the file.
    let in_file = |error: anyhow::Error| match error.downcast_ref::<io::Error>() {
        Some(_) => error.context(named()),
        None => error,
    };
    let mut writer = BufWriter::with_capacity(256 << 10, file.as_file_mut());
    let rows = if args.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
        let mut encoder = GzEncoder::new(&mut writer, Compression::default());
        let rows = export(args, table, &mut encoder).map_err(in_file)?;
        encoder.finish().with_context(named)?;
        rows
    } else {
        export(args, table, &mut writer).map_err(in_file)?
    };
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error).with_context(named)?;
    file.sync_all().with_context(named)?;
    Ok((rows, file.metadata().with_context(named)?.len()))
}

fn export(args: &Args, table: &Table, out: &mut dyn Write) -> Result<u64> {
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
        if interrupt::has_come() {
            return Err(interrupt::failure("the file is not written").into());
        }
    }
    writer.finish(out)?;
    bar.finish_and_clear();
    Ok(rows)
}
