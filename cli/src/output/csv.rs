//! Comma-separated values: a line a record, quotes where they are needed (RFC 4180, lines end with a line feed).
//!
//! Never flushes what it writes to: that may pack, and would pack record by record.

use std::io::{self, Write};

/// Writes one record, with commas.
pub(crate) fn write_record<F: AsRef<[u8]>>(
    out: &mut dyn Write,
    fields: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    write_delimited(out, b',', fields)
}

/// Writes one record with this between its fields.
pub(crate) fn write_delimited<F: AsRef<[u8]>>(
    out: &mut dyn Write,
    delimiter: u8,
    fields: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    let mut writer = ::csv::WriterBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .flexible(true)
        .buffer_capacity(512)
        .from_writer(Vec::with_capacity(512));
    writer.write_record(fields).map_err(io_error)?;
    let record = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(&record)
}

fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
