//! Comma-separated values: a line a record, quotes where they are needed (RFC 4180, lines end with a line feed).

use std::io::{self, Write};

/// Writes one record.
pub(crate) fn write_record<F: AsRef<[u8]>>(
    out: &mut dyn Write,
    fields: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    let mut writer = ::csv::WriterBuilder::new().has_headers(false).flexible(true).from_writer(out);
    writer.write_record(fields).map_err(io_error)?;
    writer.flush()
}

fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
