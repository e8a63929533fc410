//! Things with the same facts each, in any form, as they come. For lists that may be long; others are in a document.

use std::io::{self, Write};

use super::csv::write_record;
use super::document::{Item, write_object};
use super::table::{Align, Table};
use super::{Format, Style};

/// Writes things.
pub(crate) struct ItemWriter {
    columns: Vec<String>,
    form: Form,
}

enum Form {
    Table(Table),
    Csv,
    Json,
}

impl ItemWriter {
    /// Starts with the line of names, if the form has one.
    pub(crate) fn start(
        out: &mut dyn Write,
        format: Format,
        style: Style,
        columns: &[&str],
    ) -> io::Result<ItemWriter> {
        let form = match format {
            Format::Table => {
                let head = columns.iter().map(|name| (name.replace('_', " "), Align::Left));
                Form::Table(Table::new(head.collect(), style))
            }
            Format::Csv => {
                write_record(out, columns)?;
                Form::Csv
            }
            Format::Json => Form::Json,
        };
        Ok(ItemWriter { columns: columns.iter().map(|name| (*name).to_owned()).collect(), form })
    }

    pub(crate) fn row(&mut self, out: &mut dyn Write, items: &[Item]) -> io::Result<()> {
        match &mut self.form {
            Form::Table(table) => {
                let cells: Vec<String> = items.iter().map(Item::for_people).collect();
                table.row(out, &cells)
            }
            Form::Csv => write_record(out, items.iter().map(Item::for_programs)),
            Form::Json => {
                write_object(out, self.columns.iter().zip(items))?;
                out.write_all(b"\n")
            }
        }
    }

    pub(crate) fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        match self.form {
            Form::Table(table) => table.finish(out),
            Form::Csv | Form::Json => Ok(()),
        }
    }
}
