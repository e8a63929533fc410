//! Reads many keys at once.
//!
//! The keys are looked up in their order, so that neighbours find index blocks warm, and the rows are fetched in the
//! order in which they lie, so that neighbours share a block. The answers come in the order of the keys asked.

use std::sync::Arc;

use codec::{Location, Version};
use encoded_key::KeyProbe;
use sstable::Direction;

use super::ReadPoint;
use super::fetch::missing_rowset;
use super::get::{Hit, find, latest, with_scratch};
use crate::error::Result;
use crate::row::{Projection, ReadSchema, Row, RowBatchBuilder};
use crate::rowset::RowsetCursor;

/// The rows of encoded `keys`, with the columns of `projection`, in the order of `keys`. A key may stand there several
/// times.
///
/// # Errors
/// `Corruption`, `Io`: of any key, for all of them.
pub(crate) fn multi_get(
    point: &ReadPoint,
    reads: &Arc<ReadSchema>,
    projection: &Projection,
    keys: &[&[u8]],
) -> Result<Vec<Option<Row>>> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|&asked| keys[asked]);
    let mut batch = RowBatchBuilder::new(Arc::clone(reads), projection.clone());
    // Where in the batch the row of each key asked is.
    let mut places: Vec<Option<usize>> = vec![None; keys.len()];
    let mut on_disk: Vec<OnDisk> = Vec::new();
    for same in order.chunk_by(|&a, &b| keys[a] == keys[b]) {
        let asked = same[0];
        let probe = KeyProbe::new(keys[asked]);
        if projection.needs_row() {
            let hit = with_scratch(|row| {
                let hit = find(point, &probe, row)?;
                if let Some(Hit::Memory { schema, version }) = hit {
                    batch.push(probe.key(), row, schema, version)?;
                }
                Ok::<_, crate::Error>(hit)
            })?;
            match hit {
                None => {}
                Some(Hit::Memory { .. }) => places[asked] = Some(batch.len() - 1),
                Some(Hit::Disk { version, location }) => on_disk.push(OnDisk { location, version, asked }),
            }
        } else if let Some((version, false)) = latest(point, &probe)? {
            batch.push(probe.key(), &[], reads.schema().version(), version)?;
            places[asked] = Some(batch.len() - 1);
        }
    }
    fetch(point, keys, on_disk, &mut batch, &mut places)?;
    for same in order.chunk_by(|&a, &b| keys[a] == keys[b]) {
        for &again in &same[1..] {
            places[again] = places[same[0]];
        }
    }
    let batch = batch.finish();
    Ok(places.into_iter().map(|place| place.map(|index| Row::new(Arc::clone(&batch), index))).collect())
}

/// A row still to be fetched, for the key at `asked`.
struct OnDisk {
    location: Location,
    version: Version,
    asked: usize,
}

fn fetch(
    point: &ReadPoint,
    keys: &[&[u8]],
    mut on_disk: Vec<OnDisk>,
    batch: &mut RowBatchBuilder,
    places: &mut [Option<usize>],
) -> Result<()> {
    on_disk.sort_unstable_by_key(|row| row.location);
    for rows in on_disk.chunk_by(|a, b| a.location.rowset == b.location.rowset) {
        let first = rows[0].location;
        let Some(rowset) = point.view.rowsets.get(first.rowset) else { return Err(missing_rowset(first)) };
        let mut cursor = RowsetCursor::new(rowset, Direction::Forward);
        for &OnDisk { location, version, asked } in rows {
            let (schema, row) = cursor.get(location.rowid, version)?;
            batch.push(keys[asked], row, schema, version)?;
            places[asked] = Some(batch.len() - 1);
        }
    }
    Ok(())
}
