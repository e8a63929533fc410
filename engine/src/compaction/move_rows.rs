//! Moves rows of a few rowsets in the pass that merges their index runs.
//!
//! Owns the new rowsets of one compaction while they are written. As the merge comes to a kept entry that points into a
//! rowset that is being moved, the row's bytes are copied, unread but for its version, and the entry gets the new
//! place. The rows come in key order, so there is nothing to sort and nothing to compare.
//!
//! A [`Mover`] goes on from one slice to the next if that begins after it on the same lane, so that there are about as
//! many new rowsets as their bytes need, and not one for each slice.
//!
//! Invariant: no new rowset spans a gap between moved ones in which another rowset has keys: a move never leaves more
//! rowsets over a key than there were.
//! Never touches an old rowset, and removes nothing: when the compaction fails, its job discards what was written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codec::{Location, RowsetId};
use pkindex::{BoxError, Entry, Relocate};
use sync::Mutex;

use crate::error::{Error, Result};
use crate::files::Outputs;
use crate::rowset::{Rowset, RowsetCursor, RowsetOptions, RowsetWriter, Rowsets, WrittenRowset};
use crate::runtime;

use super::shape::union;

/// After so many rows a mover looks whether a flush needs the machine.
const ROWS_BETWEEN_PAUSES: u32 = 256;
/// How long it lets the flush have it.
const PAUSE: Duration = Duration::from_micros(300);

/// What the movers of one compaction share.
#[derive(Debug)]
pub(crate) struct Moving {
    /// The rowsets that are moved.
    rowsets: BTreeMap<RowsetId, Arc<Rowset>>,
    outputs: Arc<Outputs>,
    options: RowsetOptions,
    /// The keys from which on a new rowset must begin, ascending.
    cuts: Vec<Vec<u8>>,
    /// The movers of slices that are done, by slice.
    parked: Mutex<BTreeMap<usize, Mover>>,
    /// Set while a flush should have the machine; `None` where nobody sleeps.
    flush_first: Option<Arc<AtomicBool>>,
}

impl Moving {
    /// Prepares to move the rows of `moving`, all of them in `rowsets`, about `bytes` of them.
    pub(crate) fn new(
        rowsets: &Rowsets,
        moving: &[RowsetId],
        bytes: u64,
        outputs: Arc<Outputs>,
        options: RowsetOptions,
        flush_first: Option<Arc<AtomicBool>>,
    ) -> Arc<Moving> {
        let cuts = cuts(rowsets, moving);
        let find = |id: &RowsetId| {
            let rowset = rowsets.get(*id).expect("what is moved is in the view that it was picked from");
            (*id, Arc::clone(rowset))
        };
        Arc::new(Moving {
            rowsets: moving.iter().map(find).collect(),
            outputs,
            options: RowsetOptions { rowset_bytes: even_size(bytes, options.rowset_bytes), ..options },
            cuts,
            parked: Mutex::default(),
            flush_first,
        })
    }

    /// The hook for a slice. It goes on where the one before it has ended, if that is so.
    pub(crate) fn slice(self: &Arc<Moving>, slice: usize) -> Box<dyn Relocate> {
        let parked = slice.checked_sub(1).and_then(|before| self.parked.lock().remove(&before));
        let mover = parked.unwrap_or_else(|| Mover {
            cursors: BTreeMap::new(),
            writer: RowsetWriter::new(Arc::clone(&self.outputs), self.options.clone()),
            next_cut: 0,
            rows: 0,
            until_pause: ROWS_BETWEEN_PAUSES,
        });
        Box::new(MoveSlice { moving: Arc::clone(self), slice, mover })
    }

    /// Ends and syncs the new rowsets and tells of them in key order, with the number of rows moved. All slices must be
    /// done.
    pub(crate) fn finish(&self) -> Result<(Vec<WrittenRowset>, u64)> {
        let mut written = Vec::new();
        let mut rows = 0;
        for mover in std::mem::take(&mut *self.parked.lock()).into_values() {
            rows += mover.rows;
            written.extend(mover.writer.finish()?);
        }
        written.sort_by(|a, b| a.first_key.cmp(&b.first_key));
        assert!(
            written.is_sorted_by(|a, b| a.last_key < b.first_key),
            "slices share no keys, nor do the rowsets that they write"
        );
        Ok((written, rows))
    }
}

/// The size at which to cut so that all pieces are about equal, and none is much larger than `rowset_bytes`.
fn even_size(bytes: u64, rowset_bytes: u64) -> u64 {
    let pieces = bytes.div_ceil(rowset_bytes.max(1)).max(1);
    let even = bytes / pieces;
    (even + even / 32 + 1).max(rowset_bytes / 2)
}

/// Where a new rowset must begin, since another one has keys in the gap before.
fn cuts(rowsets: &Rowsets, moving: &[RowsetId]) -> Vec<Vec<u8>> {
    let keys = |rowset: &Arc<Rowset>| (rowset.first_key().to_vec(), rowset.last_key().to_vec());
    let is_moving = |rowset: &&Arc<Rowset>| moving.binary_search(&rowset.id()).is_ok();
    let parts = union(rowsets.iter().filter(is_moving).map(keys).collect());
    let others = union(rowsets.iter().filter(|rowset| !is_moving(rowset)).map(keys).collect());
    parts
        .windows(2)
        .filter(|pair| {
            let (gap_start, gap_end) = (&pair[0].1, &pair[1].0);
            // The first of the others that ends after the gap begins.
            let next = others.partition_point(|(_, last)| last <= gap_start);
            others.get(next).is_some_and(|(first, _)| first < gap_end)
        })
        .map(|pair| pair[1].0.clone())
        .collect()
}

/// Copies rows, in key order.
struct Mover {
    cursors: BTreeMap<RowsetId, RowsetCursor>,
    writer: RowsetWriter<Arc<Outputs>>,
    /// The first of the cuts that is not passed.
    next_cut: usize,
    rows: u64,
    until_pause: u32,
}

impl fmt::Debug for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mover").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// The hook of one slice.
#[derive(Debug)]
struct MoveSlice {
    moving: Arc<Moving>,
    slice: usize,
    mover: Mover,
}

impl MoveSlice {
    fn copy(&mut self, key: &[u8], entry: Entry, from: Location) -> Result<Location> {
        let Moving { rowsets, cuts, .. } = &*self.moving;
        let Mover { cursors, writer, next_cut, rows, .. } = &mut self.mover;
        let cursor = match cursors.get_mut(&from.rowset) {
            Some(cursor) => cursor,
            None => {
                let rowset = rowsets.get(&from.rowset).ok_or_else(|| {
                    Error::corruption(format!("{from} is asked to be moved, but its rowset is not moved"))
                })?;
                cursors.entry(from.rowset).or_insert(RowsetCursor::for_moving(rowset))
            }
        };
        let (schema, row) = cursor.get(from.rowid, entry.version)?;
        if cuts.get(*next_cut).is_some_and(|cut| key >= cut.as_slice()) {
            writer.cut()?;
            *next_cut = cuts.partition_point(|cut| cut.as_slice() <= key);
        }
        *rows += 1;
        writer.push(key, entry.version, schema, row)
    }

    fn pause(&mut self) {
        self.mover.until_pause -= 1;
        if self.mover.until_pause == 0 {
            self.mover.until_pause = ROWS_BETWEEN_PAUSES;
            if self.moving.flush_first.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                runtime::give_way(PAUSE);
            }
        }
    }
}

impl Relocate for MoveSlice {
    fn relocate(
        &mut self,
        key: &[u8],
        entry: Entry,
        from: Location,
    ) -> std::result::Result<Location, BoxError> {
        self.pause();
        Ok(self.copy(key, entry, from)?)
    }

    /// Only parks: the rowset that is open is ended when the compaction is, or by a later slice. Nothing counts before
    /// the compaction's edit, which comes after.
    fn finish(self: Box<Self>) -> std::result::Result<(), BoxError> {
        let MoveSlice { moving, slice, mover } = *self;
        moving.parked.lock().insert(slice, mover);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_even_and_not_much_too_large() {
        assert_eq!(even_size(0, 1000), 500);
        for bytes in [1u64, 999, 1000, 1001, 1500, 2001, 123_456] {
            let size = even_size(bytes, 1000);
            assert!((500..=1032).contains(&size), "{bytes}: {size}");
            assert!(bytes.div_ceil(size) <= bytes.div_ceil(1000).max(1), "{bytes}: {size}");
        }
    }
}
