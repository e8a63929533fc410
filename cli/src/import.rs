//! Files to rows: reading csv and lines of JSON, finding out what types they hold, and writing them in batches.
//!
//! A file goes `source` (bytes, unpacked) -> `records` (csv or JSON) -> `infer` (once, if the table is new) -> `load`
//! (values, batches) or `rejects`.

mod infer;
mod load;
pub(crate) mod progress;
mod records;
mod rejects;
mod source;

use std::path::Path;

pub(crate) use infer::{ColumnKey, Guesses, Inferred};
pub(crate) use load::{Loaded, Loader};
pub(crate) use records::{Field, Records};
pub(crate) use rejects::{Existing, Rejects};
pub(crate) use source::Source;

/// The form of a file of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileForm {
    /// Comma-separated values with a line of names.
    Csv,
    /// A JSON object a line.
    Jsonl,
}

impl FileForm {
    /// What the name of a file says, but for a `.gz` at its end.
    pub(crate) fn of_name(path: &Path) -> Option<FileForm> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "csv" => Some(FileForm::Csv),
            "json" | "jsonl" | "ndjson" => Some(FileForm::Jsonl),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
