//! The three ways in: checked batches, checked single rows, blind batches.

use std::error::Error;

use nyala::{Durability, Engine, ErrorKind, Table, WriteBatch};

use crate::input::{Rows, Source};

const BATCH_ROWS: usize = 1000;

/// Inserts all rows in batches, and returns how many there are.
///
/// # Errors
/// The source or the engine failed, or a key comes twice.
pub(crate) fn in_batches(engine: &Engine, table: &Table, source: &Source) -> Result<u64, Box<dyn Error>> {
    let mut rows = Rows::open(source, table.schema())?;
    let mut batch = engine.batch();
    let mut lines = Vec::with_capacity(BATCH_ROWS);
    let mut count = 0;
    while let Some(row) = rows.next()? {
        batch.insert(table, row)?;
        lines.push(rows.line());
        count += 1;
        if batch.len() == BATCH_ROWS {
            commit_inserts(&mut batch, source, &mut lines)?;
        }
    }
    commit_inserts(&mut batch, source, &mut lines)?;
    Ok(count)
}

/// Commits a batch of rows that stand in these lines.
fn commit_inserts(
    batch: &mut WriteBatch,
    source: &Source,
    lines: &mut Vec<u64>,
) -> Result<(), Box<dyn Error>> {
    batch.commit(Durability::Buffered).map_err(|error| match error.operation() {
        // The error tells which operation of the batch it was.
        Some(operation) => format!("{source}, line {}: {error}", lines[operation]),
        None => format!("{source}: {error}"),
    })?;
    lines.clear();
    Ok(())
}

/// What became of rows that were inserted one by one.
#[derive(Debug)]
pub(crate) struct Inserted {
    /// Rows in the source.
    pub(crate) rows: u64,
    /// Where those are whose key was there already, and what the key is.
    pub(crate) duplicates: Vec<String>,
}

/// Inserts all rows one by one. A row whose key is there already is left out and reported.
///
/// # Errors
/// The source or the engine failed.
pub(crate) fn one_by_one(table: &Table, source: &Source) -> Result<Inserted, Box<dyn Error>> {
    let mut rows = Rows::open(source, table.schema())?;
    let mut inserted = Inserted { rows: 0, duplicates: Vec::new() };
    while let Some(row) = rows.next()? {
        inserted.rows += 1;
        match table.insert(&row) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                let columns = &table.schema().columns()[..table.schema().key_columns()];
                let key = columns.iter().zip(&row).map(|(column, value)| format!("{} {value}", column.name));
                let key = key.collect::<Vec<_>>().join(", ");
                inserted.duplicates.push(format!("{source}, line {}: {key}", rows.line()));
            }
            Err(error) => return Err(format!("{source}, line {}: {error}", rows.line()).into()),
        }
    }
    Ok(inserted)
}

/// Upserts all rows in batches: of several rows with the same key the last stays.
///
/// # Errors
/// The source or the engine failed.
pub(crate) fn with_upsert(engine: &Engine, table: &Table, source: &Source) -> Result<(), Box<dyn Error>> {
    let mut rows = Rows::open(source, table.schema())?;
    let mut batch = engine.batch();
    while let Some(row) = rows.next()? {
        batch.upsert(table, row)?;
        if batch.len() == BATCH_ROWS {
            batch.commit(Durability::Buffered)?;
        }
    }
    batch.commit(Durability::Buffered)?;
    Ok(())
}
