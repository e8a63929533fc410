//! Records into a table, in batches.
//!
//! Invariant: what [`Loaded`] counts as written is there. Each row is an upsert, so an import that ended early can be run
//! again from the beginning, and ends with the same table.
//! Invariant: the file of rejects has every record that was rejected before a row that is written, however the process
//! ends. So it is always written first.

use anyhow::{Context, Result};
use nyala::{Column, Durability, Engine, Schema, Table, WriteBatch};

use super::records::Fields;
use super::{Field, Records, Rejects};
use crate::interrupt;
use crate::value::{Owned, borrow, from_json, parse};

/// A batch is written when it has so many bytes, or as many rows as asked for.
const BATCH_BYTES: usize = 4 << 20;

/// Writes the records of a file to a table.
pub(crate) struct Loader<'a> {
    engine: &'a Engine,
    table: &'a Table,
    nulls: &'a [String],
    batch_rows: usize,
    /// For each name of the file, the column of the table.
    columns: Vec<Option<usize>>,
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) is_interrupted: bool,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        table: &'a Table,
        nulls: &'a [String],
        batch_rows: usize,
    ) -> Loader<'a> {
        Loader { engine, table, nulls, batch_rows, columns: Vec::new() }
    }

    /// Reads to the end, or until interrupted. What was written before an error stays; `loaded` counts it.
    pub(crate) fn load(
        &mut self,
        records: &mut Records<'_>,
        rejects: &mut Rejects,
        loaded: &mut Loaded,
    ) -> Result<()> {
        let mut batch = self.engine.batch();
        let read = self.read(records, rejects, &mut batch, loaded);
        // Also after an error: what was read before it is good.
        let last = commit(&mut batch, rejects, loaded);
        let synced = if last.is_ok() { self.sync(rejects) } else { Ok(()) };
        read.and(last).and(synced)
    }

    fn read(
        &mut self,
        records: &mut Records<'_>,
        rejects: &mut Rejects,
        batch: &mut WriteBatch,
        loaded: &mut Loaded,
    ) -> Result<()> {
        while let Some(fields) = records.next().with_context(|| format!("after line {}", records.line()))? {
            loaded.read += 1;
            let row = self.row(fields, records.names());
            // The engine's own limits: long keys, large rows.
            let added =
                row.and_then(|row| batch.upsert(self.table, borrow(&row)).map_err(|error| error.to_string()));
            if let Err(reason) = added {
                rejects.reject(records.line(), &reason, &records.raw())?;
            }
            if batch.len() >= self.batch_rows || batch.bytes() >= BATCH_BYTES {
                commit(batch, rejects, loaded)?;
            }
            if interrupt::has_come() {
                loaded.is_interrupted = true;
                return Ok(());
            }
        }
        Ok(())
    }

    fn sync(&self, rejects: &mut Rejects) -> Result<()> {
        rejects.sync()?;
        Ok(self.engine.sync()?)
    }

    fn row(&mut self, fields: Fields, names: &[String]) -> Result<Vec<Owned>, String> {
        let fields = fields?;
        let schema = self.table.schema();
        for name in &names[self.columns.len()..] {
            self.columns.push(schema.column_index(name));
        }
        let mut row = vec![None; schema.columns().len()];
        for (name, field) in fields {
            let at =
                self.columns[name].ok_or_else(|| format!("the table has no column {:?}", names[name]))?;
            row[at] = Some(self.value(schema, at, &field)?);
        }
        let columns = schema.columns();
        row.into_iter()
            .zip(columns)
            .map(|(value, column)| value.map_or_else(|| missing(column), Ok))
            .collect()
    }

    fn value(&self, schema: &Schema, at: usize, field: &Field) -> Result<Owned, String> {
        let column = &schema.columns()[at];
        let value = match field {
            // Where no null can be, a text that stands for one is a text.
            Field::Text(text) if self.nulls.contains(text) && (column.nullable || !column.ty.is_text()) => {
                None
            }
            Field::Text(text) => {
                Some(parse(text, column.ty).map_err(|why| format!("column {}: {why}", column.name))?)
            }
            Field::Json(raw) => {
                from_json(raw, column.ty).map_err(|why| format!("column {}: {why}", column.name))?
            }
        };
        match value {
            Some(value) => Ok(value),
            None if column.nullable => Ok(Owned::NULL),
            None => Err(format!("column {}: it cannot be null", column.name)),
        }
    }
}

/// What a column holds of which the record says nothing.
fn missing(column: &Column) -> Result<Owned, String> {
    match column.default_value() {
        Some(value) => Ok(value.into()),
        None if column.nullable => Ok(Owned::NULL),
        None => Err(format!("column {}: no value, and it has no default", column.name)),
    }
}

fn commit(batch: &mut WriteBatch, rejects: &mut Rejects, loaded: &mut Loaded) -> Result<()> {
    rejects.flush()?;
    let rows = batch.len() as u64;
    batch.commit(Durability::Buffered)?;
    loaded.written += rows;
    Ok(())
}
