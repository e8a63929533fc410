//! `nyala import`: rows of a file into a table, which is made if it is not there.

use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use nyala::{Column, Engine, ErrorKind, Table};

use crate::failure::{Exit, Failure};
use crate::import::{
    ColumnKey, Existing, FileForm, Guesses, Inferred, Loaded, Loader, Records, Rejects, Source, progress,
};
use crate::interrupt;
use crate::list;
use crate::open::{self, Directory};
use crate::output::{Document, List, Output};
use crate::selection::unknown_column;
use crate::value::ColumnSpec;

/// Of what can be read only once, so much is looked at for its types.
const SAMPLE_BYTES: usize = 4 << 20;

const SAMPLED: &str = "the types of columns were found out from the first 4 MiB; where they are not those of the rest, \
     import to another table with --type NAME=TYPE";

const AGAIN: &str = "run it again: rows replace those of the same key";

/// Write the rows of a file to a table; rows whose keys are there already are replaced
///
/// The database and the table are made if they are not there: then --key says which columns are the key, and the types
/// of the columns are found out from the file, all of it (of standard input its first 4 MiB). Since rows replace those
/// of the same key, an import that was interrupted is simply run again.
///
/// A record that cannot be a row ends the import, unless --rejects names a file for such records: then the exit code is 4
/// if there were any.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the database; it is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The table
    #[arg(value_name = "TABLE")]
    table: String,

    /// The file: csv with a line of names, or a JSON object a line; gzip is noticed; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The columns of the key of a new table, in order; name:desc sorts from the greatest to the least. A name with a
    /// comma goes in double quotes
    #[arg(long, value_name = "NAME,..")]
    key: Option<list::List<ColumnKey>>,

    /// The type of a column of a new table, if not the one that is found: u16, decimal(9,2), string?; ? for one that can
    /// be null. Can be repeated
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<ColumnSpec>,

    /// A text of csv that stands for a null. Can be repeated [default: the empty text]
    #[arg(long, value_name = "TEXT")]
    null: Vec<String>,

    /// The form of the file [default: what its name says, else csv]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<FileForm>,

    /// What stands between the fields of csv: one character, or "tab"
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,

    /// Set records that cannot be rows aside, to this csv file of lines, reasons and records, and go on
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// Replace the file of rejects if it is there
    #[arg(long, requires = "rejects")]
    force: bool,

    /// Rows in a batch
    #[arg(long, value_name = "ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
}

impl Args {
    /// The columns that were given; none if none were.
    fn key(&self) -> &[ColumnKey] {
        self.key.as_ref().map_or(&[], |list| &list.0)
    }

    fn nulls(&self) -> Vec<String> {
        if self.null.is_empty() { vec![String::new()] } else { self.null.clone() }
    }

    fn existing_rejects(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("give one character of ASCII that is no quote, or \"tab\"".to_owned()),
    }
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let source = Source::of(&args.file);
    let form = args.format.or_else(|| FileForm::of_name(&args.file)).unwrap_or(FileForm::Csv);
    let nulls = args.nulls();
    // Before a database is made for a file that is not there.
    let bar = progress::of_bytes(source.bytes());
    let mut bytes = source.open(&bar)?;
    let mut rejects = Rejects::new(args.rejects.as_deref(), args.existing_rejects(), &source)?;
    interrupt::watch(out.format, || interrupt::failure("what was written stays").advise(AGAIN))?;
    let mut found_out = match open::look(&args.dir)? {
        // No database is made for a file of which no table can be.
        Directory::Missing | Directory::Empty => Some(find_out(args, &source, form, &mut bytes, &bar)?),
        _ => None,
    };
    let engine = open::or_create(&args.dir)?;
    let mut hints = Vec::new();
    let (table, is_new) = match engine.existing_table(&args.table) {
        Ok(table) => {
            check_given(args, &table)?;
            (table, false)
        }
        Err(error) if error.kind() == ErrorKind::NoSuchTable => {
            let inferred = match found_out.take() {
                Some(inferred) => inferred,
                None => find_out(args, &source, form, &mut bytes, &bar)?,
            };
            hints = inferred.hints;
            (engine.create_table(&args.table, inferred.schema)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    let mut records = records(args, form, bytes)?;
    check_names(records.names(), &table)?;
    let mut loaded = Loaded::default();
    let result = Loader::new(&engine, &table, &nulls, args.batch as usize).load(
        &mut records,
        &mut rejects,
        &mut loaded,
    );
    bar.finish_and_clear();
    let result = result.map_err(|error| with_hints(error, &hints).context(so_far(&loaded)));
    finish(&engine, result)?;
    out.document(&report(args, &table, is_new, &loaded, &rejects, hints))?;
    if loaded.is_interrupted {
        return Err(interrupt::failure(so_far(&loaded)).advise(AGAIN).into());
    }
    Ok(if rejects.count() > 0 { Exit::Found } else { Exit::Done })
}

/// The schema of a table that is not there yet. `bytes` are at their beginning, before and after.
fn find_out(
    args: &Args,
    source: &Source,
    form: FileForm,
    bytes: &mut Box<dyn Read>,
    bar: &ProgressBar,
) -> Result<Inferred> {
    let given = std::mem::replace(bytes, Box::new(io::empty()));
    if source.can_repeat() {
        let inferred = infer(args, form, given)?;
        bar.reset();
        *bytes = source.open(bar)?;
        return Ok(inferred);
    }
    let mut given = given;
    let sample = sample(&mut given)?;
    let mut inferred = infer(args, form, Box::new(Cursor::new(whole_lines(&sample))))?;
    if sample.len() == SAMPLE_BYTES {
        inferred.hints.push(SAMPLED.to_owned());
    }
    *bytes = Box::new(Cursor::new(sample).chain(given));
    Ok(inferred)
}

fn so_far(loaded: &Loaded) -> String {
    match loaded.written {
        0 => "nothing is written".to_owned(),
        1 => "1 row is written, and stays".to_owned(),
        rows => format!("{rows} rows are written, and stay"),
    }
}

/// What was found out may be why records cannot be rows.
fn with_hints(mut error: anyhow::Error, hints: &[String]) -> anyhow::Error {
    if let Some(failure) = error.downcast_mut::<Failure>() {
        let advice = failure.advice.take().into_iter().chain(hints.iter().cloned());
        failure.advice = advice.reduce(|advice, hint| format!("{advice}; {hint}"));
    }
    error
}

/// The first failure counts.
fn finish(engine: &Engine, result: Result<()>) -> Result<()> {
    let closed = engine.close();
    result?;
    Ok(closed?)
}

fn records<'r>(args: &Args, form: FileForm, bytes: Box<dyn Read + 'r>) -> Result<Records<'r>> {
    Records::new(bytes, form, args.delimiter).with_context(|| args.file.display().to_string())
}

fn infer<'r>(args: &Args, form: FileForm, bytes: Box<dyn Read + 'r>) -> Result<Inferred> {
    if args.key().is_empty() {
        let records = records(args, form, bytes)?;
        let failure = Failure::usage(format!(
            "table {:?} is not there yet: --key says which columns are its key",
            args.table
        ));
        let names = match records.names() {
            [] => "such as --key id".to_owned(),
            names => format!("the file has: {}", names.join(", ")),
        };
        return Err(failure.advise(names).into());
    }
    let nulls = args.nulls();
    let mut records = records(args, form, bytes)?;
    let mut guesses = Guesses::default();
    let mut first_wrong = None;
    while let Some(fields) = records.next().with_context(|| format!("after line {}", records.line()))? {
        match fields {
            Ok(fields) => fields.iter().for_each(|(column, field)| guesses.see(*column, field, &nulls)),
            // It is told when it is loaded.
            Err(why) => first_wrong = first_wrong.or(Some(format!("line {}: {why}", records.line()))),
        }
        if interrupt::has_come() {
            return Err(interrupt::failure("nothing is written yet").into());
        }
    }
    if records.names().is_empty() {
        let why = first_wrong.unwrap_or_else(|| "it is empty".to_owned());
        return Err(Failure::usage(format!("no column is found in {}: {why}", args.file.display()))
            .advise(
                "a file is csv with a line of names, or has a JSON object on each line; --format says which",
            )
            .into());
    }
    guesses.schema(records.names(), args.key(), &args.types)
}

fn sample(bytes: &mut dyn Read) -> Result<Vec<u8>> {
    let mut sample = Vec::new();
    bytes.take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
    Ok(sample)
}

/// Up to the end of the last whole line, if the sample is not all there is.
fn whole_lines(sample: &[u8]) -> &[u8] {
    if sample.len() < SAMPLE_BYTES {
        return sample;
    }
    let end = sample.iter().rposition(|byte| *byte == b'\n').map_or(sample.len(), |at| at + 1);
    &sample[..end]
}

/// What was said of a new table must be so of one that is there.
fn check_given(args: &Args, table: &Table) -> Result<()> {
    let schema = table.schema();
    let key = &schema.columns()[..schema.key_columns()];
    let is_same = key.len() == args.key().len()
        && key
            .iter()
            .zip(args.key())
            .all(|(column, given)| *column.name == *given.name && (column.descending || !given.descending));
    if !args.key().is_empty() && !is_same {
        let names: Vec<&str> = key.iter().map(|column| &*column.name).collect();
        return Err(Failure::usage(format!(
            "table {:?} is there, and has the key {}",
            args.table,
            names.join(",")
        ))
        .advise("leave --key out, or give another table")
        .into());
    }
    for given in &args.types {
        let at = schema.column_index(&given.name).ok_or_else(|| unknown_column(schema, &given.name))?;
        let column = &schema.columns()[at];
        if column.ty != given.ty.ty {
            let message =
                format!("table {:?} is there, and its column {} is {column}", args.table, given.name);
            return Err(Failure::usage(message).advise("leave --type out, or give another table").into());
        }
    }
    Ok(())
}

/// The columns of a csv file are those of the table; what the file lacks has a default, or can be null.
fn check_names(names: &[String], table: &Table) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let schema = table.schema();
    if let Some(name) = names.iter().find(|name| schema.column_index(name).is_none()) {
        let columns: Vec<&str> = schema.columns().iter().map(|column| &*column.name).collect();
        return Err(Failure::usage(format!("the table has no column {name:?}, which the file has"))
            .advise(format!("the table has: {}", columns.join(", ")))
            .into());
    }
    let is_needed = |column: &&Column| !column.nullable && column.default_value().is_none();
    let missing = schema
        .columns()
        .iter()
        .filter(is_needed)
        .find(|column| !names.iter().any(|name| *name == *column.name));
    match missing {
        Some(column) => Err(Failure::usage(format!(
            "the file has no column {}, which cannot be null and has no default",
            column.name
        ))
        .advise(format!("the file has: {}", names.join(", ")))
        .into()),
        None => Ok(()),
    }
}

fn report(
    args: &Args,
    table: &Table,
    is_new: bool,
    loaded: &Loaded,
    rejects: &Rejects,
    hints: Vec<String>,
) -> Document {
    let mut document = Document::default();
    document.fact("table", table.name());
    document.fact("is_new", is_new);
    document.fact("records_read", loaded.read);
    document.fact("rows_written", loaded.written);
    document.fact("records_rejected", rejects.count());
    if rejects.count() > 0 {
        document.fact("rejects", args.rejects.as_ref().map(|path| path.to_string_lossy().into_owned()));
    }
    if is_new {
        let mut list = List::new("columns", &["column", "type", "key"]);
        let schema = table.schema();
        for (at, column) in schema.columns().iter().enumerate() {
            let key = (at < schema.key_columns()).then_some(at + 1);
            list.push([(&*column.name).into(), column.to_string().into(), key.into()]);
        }
        document.detail(list);
    }
    let mut list = List::new("hints", &["hint"]);
    for hint in hints {
        list.push([hint.into()]);
    }
    document.detail(list);
    document
}
