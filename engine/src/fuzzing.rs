//! Doors for `nyala-fuzz` to the decoders that lie behind the checksums of a directory's files.
//!
//! Only there with the feature `fuzzing`, which nothing but that package asks for. No part of the API: no promise
//! holds for it. Decodes and encodes, and owns nothing.

use std::path::Path;
use std::sync::Arc;

use codec::{FileId, SchemaVersion, TableId};
use encoded_key::Value;
use vfs::Fs;

use crate::batch::ops;
use crate::error::{Error, Result};
use crate::manifest::{self, Edit, State};
use crate::row::RowWriter;
use crate::schema::Schema;

/// The manifest that a `CURRENT` of these bytes names.
///
/// # Errors
/// Those of an open.
pub fn parse_current(bytes: &[u8]) -> Result<u64> {
    manifest::parse_current(bytes).map(|id| id.0)
}

/// The `CURRENT` that names a manifest.
#[must_use]
pub fn current_line(manifest: u64) -> String {
    manifest::current_line(FileId(manifest))
}

/// An edit's bytes, decoded and encoded again.
///
/// # Errors
/// `Corruption`.
pub fn recode_edit(body: &[u8]) -> Result<Vec<u8>> {
    Ok(Edit::decode(body)?.encode())
}

/// The one edit that says what these edits add up to.
///
/// # Errors
/// `Corruption`.
pub fn add_up_edits<'a>(bodies: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let mut state = State::default();
    for body in bodies {
        state.apply(&Edit::decode(body)?)?;
    }
    state.check_whole()?;
    Ok(state.to_edit().encode())
}

/// The one edit that says what the manifest that begins with segment `id` adds up to.
///
/// # Errors
/// Those of an open.
pub fn load_manifest(fs: &Arc<dyn Fs>, dir: &Path, id: u64, present: &[u64]) -> Result<Vec<u8>> {
    let present: Vec<FileId> = present.iter().copied().map(FileId).collect();
    Ok(manifest::load(fs, dir, FileId(id), &present)?.to_edit().encode())
}

/// A schema from its bytes in the manifest.
///
/// # Errors
/// `Corruption`, `UnsupportedFormat`.
pub fn decode_schema(bytes: &[u8]) -> Result<Schema> {
    Schema::decode(bytes)
}

/// A schema as bytes of the manifest.
#[must_use]
pub fn encode_schema(schema: &Schema) -> Vec<u8> {
    schema.encode_to_vec()
}

/// Checks the bytes of a row, its key columns not counted, as `Engine::check` does.
///
/// # Errors
/// `Corruption`.
pub fn verify_row(schema: &Schema, row: &[u8]) -> Result<()> {
    schema.row_layout().verify(row)
}

/// The values of a row's columns, its key columns not counted, as a reader gets them.
///
/// # Errors
/// `Corruption` for each column in which damage shows.
pub fn row_values<'a>(schema: &Schema, row: &'a [u8]) -> Vec<Result<Value<'a>>> {
    let layout = schema.row_layout();
    (0..layout.columns()).map(|column| layout.get(row, column)).collect()
}

/// The bytes of a row with these values, its key columns not counted.
///
/// # Errors
/// `InvalidArgument` if they do not fit the schema.
pub fn encode_row(schema: &Schema, values: &[Value<'_>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = RowWriter::new(schema.row_layout(), &mut out);
    for value in values {
        writer.push(*value)?;
    }
    writer.finish()?;
    Ok(out)
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op<'a> {
    /// 1 put, 2 delete, 3 update.
    pub kind: u8,
    /// The table's id.
    pub table: u32,
    /// The schema version of the row.
    pub schema: u32,
    /// The encoded key.
    pub key: &'a [u8],
    /// The row; empty for a delete.
    pub row: &'a [u8],
}

/// The operations of a log record's body.
///
/// # Errors
/// `Corruption`.
pub fn decode_batch(body: &[u8]) -> Result<Vec<Op<'_>>> {
    ops::Ops::new(body)
        .map(|op| {
            let op = op.map_err(|error| Error::corruption(error.to_string()))?;
            Ok(Op { kind: op.kind as u8, table: op.table.0, schema: op.schema.0, key: op.key, row: op.row })
        })
        .collect()
}

/// The body of a log record of these operations.
///
/// # Panics
/// If a kind is none.
#[must_use]
pub fn encode_batch(ops: &[Op<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for op in ops {
        let kind = match op.kind {
            1 => ops::OpKind::Put,
            2 => ops::OpKind::Delete,
            3 => ops::OpKind::Update,
            other => panic!("{other} is no kind of operation"),
        };
        let (table, schema) = (TableId(op.table), SchemaVersion(op.schema));
        ops::put(&mut body, &ops::Op { kind, table, schema, key: op.key, row: op.row });
    }
    body
}
