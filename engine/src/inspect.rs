//! Looks into single files of a database, and into encoded keys and rows: for tools, such as the command `nyala`.
//!
//! Reads one file at a time, as it lies there, and changes nothing; takes no lock. What it shows is what stands in the
//! file, which is not what is in force: a log holds what has been flushed, an index file what has been replaced.
//!
//! Index files and rowsets say themselves whose they are and what the columns were when they were written. What a log
//! speaks of, [`tables`] tells from the directory's manifest.
//!
//! ```
//! # fn main() -> Result<(), nyala::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let dir = dir.path();
//! use nyala::{Engine, Options, Schema, Type, inspect};
//! let schema = Schema::builder().key("id", Type::U32).column("name", Type::String).build()?;
//!
//! let key = inspect::encode_key(&schema, 17u32)?;
//! assert_eq!(key, [0, 0, 0, 17]);
//! let mut values = Vec::new();
//! inspect::decode_key(&schema, &key, |column, value| values.push(format!("{column}: {value}")))?;
//! assert_eq!(values, ["id: 17"]);
//!
//! let engine = Engine::open(dir, Options::default())?;
//! engine.create_table("people", schema)?.upsert((17u32, "Ada"))?;
//! engine.close()?;
//! let tables = inspect::tables(dir, &Options::default())?;
//! assert_eq!((tables[0].name.as_str(), tables[0].schema.key_columns()), ("people", 1));
//! # Ok(()) }
//! ```

mod log;
mod manifest;
mod sstables;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use codec::{FileId, SchemaVersion};
use encoded_key::{KeyDecoder, Value};

pub use log::{Gap, LogBatch, LogOperation, LogPiece, read_log};
pub use manifest::{ManifestEdit, ManifestPiece, TabletChange, read_manifest};
pub use sstables::{IndexEntry, IndexFile, RowFile, StoredRow};

use crate::error::{Error, Result};
use crate::files::{FileKind, parse_name};
use crate::manifest as engine_manifest;
use crate::options::Options;
use crate::record::{Record, encode_key as encode};
use crate::recovery::Listing;
use crate::row::RowLayout;
use crate::schema::{Schema, unknown_version};

/// A table, as the manifest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InspectedTable {
    /// What it is called by in logs and files.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: Schema,
}

/// The tables that the manifest in force names, by their ids.
///
/// # Errors
/// `InvalidArgument` if there is no database in `dir`; `Corruption`, `UnsupportedFormat`, `Io`.
pub fn tables(dir: impl AsRef<Path>, options: &Options) -> Result<Vec<InspectedTable>> {
    let dir = dir.as_ref();
    let current = engine_manifest::read_current(&*options.fs, dir)?;
    let current =
        current.ok_or_else(|| Error::invalid(format!("there is no database in {}", dir.display())))?;
    let present = Listing::read(&*options.fs, dir)?.of(FileKind::Manifest);
    let state = engine_manifest::load(&options.fs, dir, current, &present)?;
    let tables = state.tables.values().map(|table| {
        Ok(InspectedTable {
            id: table.id.0,
            name: table.name.clone(),
            schema: Schema::decode(&table.schema)?,
        })
    });
    tables.collect()
}

/// The bytes of a key.
///
/// # Errors
/// `InvalidArgument` that names the column which does not fit.
pub fn encode_key(schema: &Schema, key: impl Record) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let range = encode(schema, &key, &mut bytes)?;
    bytes.truncate(range.end);
    Ok(bytes)
}

/// The values of a key, in order, each with its column's name.
///
/// # Errors
/// `InvalidArgument` if the bytes are no key of this schema.
pub fn decode_key(schema: &Schema, key: &[u8], mut each: impl FnMut(&str, Value<'_>)) -> Result<()> {
    let mut decoder = KeyDecoder::new(schema.key_layout(), key);
    let mut scratch = Vec::new();
    for column in &schema.columns()[..schema.key_columns()] {
        let value = decoder.next_column(&mut scratch).map_err(|error| {
            Error::invalid(format!("these bytes are no key: column {:?}: {error}", column.name))
        })?;
        each(&column.name, value);
    }
    decoder.finish().map_err(|error| Error::invalid(format!("these bytes are no key: {error}")))
}

/// The values of a row outside its key, as it was written with that version of the schema, each with its column's name.
///
/// # Errors
/// `Corruption` if the bytes are no row of this version, or if the schema is older than it.
pub fn decode_row(
    schema: &Schema,
    version: SchemaVersion,
    row: &[u8],
    mut each: impl FnMut(&str, Value<'_>),
) -> Result<()> {
    let columns = schema.value_columns_at(version);
    let columns = columns.ok_or_else(|| unknown_version(version, schema.version()))?;
    let layout = RowLayout::new(columns.iter().copied());
    layout.verify(row)?;
    for (at, column) in columns.iter().enumerate() {
        each(&column.name, layout.get(row, at)?);
    }
    Ok(())
}

/// Where a file lies, and its number, with which its checksums are made.
struct Place {
    dir: PathBuf,
    id: FileId,
}

impl Place {
    /// The place of a file of this kind, by its name.
    fn of(path: &Path, kind: FileKind) -> Result<Place> {
        let extension = kind.extension();
        let parsed = path.file_name().and_then(|name| name.to_str()).and_then(parse_name);
        match parsed {
            Some((id, found)) if found == kind => {
                let dir = path.parent().map(Path::to_owned).unwrap_or_default();
                // "17.wal" lies in the directory ".".
                let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
                Ok(Place { dir, id })
            }
            _ => Err(Error::invalid(format!(
                "{} is not named as such a file is: its number, as in 17.{extension}, is a part of its checksums",
                path.display()
            ))),
        }
    }
}
