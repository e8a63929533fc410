//! Rows of a table, in any form, as they come.

use std::io::{self, Write};

use nyala::{Type, Value};

use super::csv::write_record;
use super::json::RowObject;
use super::table::{Align, Table};
use super::{Format, Style};
use crate::value::{BinaryText, show};

/// Writes rows of some columns.
pub(crate) struct RowWriter {
    form: Form,
    binary: BinaryText,
}

enum Form {
    Table(Table),
    /// What stands for a null.
    Csv(String),
    Json(RowObject),
}

impl RowWriter {
    /// Starts with the line of names, if the form has one.
    pub(crate) fn start(
        out: &mut dyn Write,
        format: Format,
        style: Style,
        columns: &[(&str, Type)],
        null: &str,
        binary: BinaryText,
    ) -> io::Result<RowWriter> {
        let form = match format {
            Format::Table => {
                let head = columns.iter().map(|(name, ty)| ((*name).to_owned(), align(*ty)));
                Form::Table(Table::new(head.collect(), style))
            }
            Format::Csv => {
                write_record(out, columns.iter().map(|(name, _)| name))?;
                Form::Csv(null.to_owned())
            }
            Format::Json => Form::Json(RowObject::new(columns.iter().map(|(name, _)| *name))),
        };
        Ok(RowWriter { form, binary })
    }

    pub(crate) fn row(&mut self, out: &mut dyn Write, values: &[Value<'_>]) -> io::Result<()> {
        let binary = self.binary;
        match &mut self.form {
            Form::Table(table) => {
                let cells = values.iter().map(|value| show(*value, binary).into_owned());
                table.row(out, &cells.collect::<Vec<_>>())
            }
            Form::Csv(null) => {
                let null = &*null;
                write_record(
                    out,
                    values.iter().map(|value| match value {
                        Value::Null => null.as_bytes().to_vec(),
                        value => show(*value, binary).into_owned().into_bytes(),
                    }),
                )
            }
            Form::Json(object) => object.write(out, values, binary),
        }
    }

    pub(crate) fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        match self.form {
            Form::Table(table) => table.finish(out),
            Form::Csv(_) | Form::Json(_) => Ok(()),
        }
    }
}

fn align(ty: Type) -> Align {
    match ty {
        Type::String | Type::Binary | Type::Bool | Type::Date | Type::Timestamp => Align::Left,
        _ => Align::Right,
    }
}
