//! What the command prints on its standard output: rows of a table, or a document (facts and lists).
//!
//! Owns the three forms: a table for people, csv and json for programs. Progress and errors go to standard error, and
//! are not of here.

mod csv;
mod document;
mod items;
mod json;
mod rows;
mod style;
mod table;

use std::io::{self, BufWriter, StdoutLock, Write};

pub(crate) use self::csv::{write_delimited as write_delimited_record, write_record as write_csv_record};
pub(crate) use document::{Document, Item, List, Turn};
pub(crate) use items::ItemWriter;
pub(crate) use json::write_string as write_json_string;
pub(crate) use rows::RowWriter;
pub(crate) use style::Style;

/// In which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns under one another, for people.
    #[default]
    Table,
    /// Comma-separated values with a line of names.
    Csv,
    /// A JSON object; for rows one a line.
    Json,
}

/// Standard output, in a form.
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) style: Style,
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn new(format: Format) -> Output {
        Output {
            format,
            style: Style::of_stdout(),
            out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
        }
    }

    /// Writes a document, and sends it off.
    pub(crate) fn document(&mut self, document: &Document) -> io::Result<()> {
        document.write(&mut self.out, self.format, self.style)?;
        self.out.flush()
    }

    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
