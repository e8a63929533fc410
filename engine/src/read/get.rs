//! Point reads: what a reader sees of one key.
//!
//! Owns the way from memtables to runs to the row. Invariant: the first version found at or below the reader's decides,
//! because memtables and runs are asked newest first and their versions never overlap.
//!
//! Allocates for the row that it returns, and for nothing else once its thread has read before.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use codec::{Location, SchemaVersion, Version};
use encoded_key::KeyProbe;
use pkindex::{Entry, Place};

use super::fetch::missing_rowset;
use super::{NOT_COMMITTED, OwnWrites, ReadPoint};
use crate::error::Result;
use crate::memtable::{Found, FoundOp};
use crate::row::{Projection, ReadSchema, Row, RowBatchBuilder};
use crate::rowset::RowHandle;
use crate::view::TabletView;

/// The row of a key, with the columns of `projection`.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn get<V: Deref<Target = TabletView>>(
    point: &ReadPoint<V>,
    reads: &Arc<ReadSchema>,
    projection: &Projection,
    probe: &KeyProbe<'_>,
) -> Result<Option<Row>> {
    // Made once it is known that there is a row: its parts are counted by all threads that read.
    let row = |bytes: &[u8], schema, version| {
        let mut batch = RowBatchBuilder::new(Arc::clone(reads), projection.clone());
        batch.push(probe.key(), bytes, schema, version)?;
        Ok(Some(Row::new(batch.finish(), 0)))
    };
    if !projection.needs_row() {
        return match latest(point, probe)? {
            Some((version, false)) => row(&[], reads.schema().version(), version),
            _ => Ok(None),
        };
    }
    with_scratch(|bytes| match find(point, probe, bytes)? {
        None => Ok(None),
        Some(Hit::Memory { schema, version }) => row(bytes, schema, version),
        Some(Hit::Disk { version, location }) => {
            let stored = fetch(&point.view, location, version)?;
            row(stored.bytes(), stored.schema(), version)
        }
    })
}

/// Whether a key has a row. Fetches none.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn exists<V: Deref<Target = TabletView>>(
    point: &ReadPoint<V>,
    probe: &KeyProbe<'_>,
) -> Result<bool> {
    Ok(latest(point, probe)?.is_some_and(|(_, is_deleted)| !is_deleted))
}

/// The newest version of a key that the reader sees, and whether it is a deletion. `None` if there never was one that
/// has not been forgotten: a deletion that nothing lies below is forgotten at some time.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn latest<V: Deref<Target = TabletView>>(
    point: &ReadPoint<V>,
    probe: &KeyProbe<'_>,
) -> Result<Option<(Version, bool)>> {
    let ReadPoint { view, at, own } = point;
    if let Some(OwnWrites { memtable, .. }) = own
        && let Some((_, is_deleted)) = memtable.newest(probe.key())
    {
        return Ok(Some((NOT_COMMITTED, is_deleted)));
    }
    for memtable in &view.memtables {
        match memtable.newest(probe.key()) {
            None => continue,
            Some((version, is_deleted)) if version <= *at => return Ok(Some((version, is_deleted))),
            Some(_) => {}
        }
        // Rare: overwritten since `at`. The row is copied for nothing.
        if let Some(Found { version, op }) = with_scratch(|row| memtable.get(probe.key(), *at, row)) {
            return Ok(Some((version, op == FoundOp::Delete)));
        }
    }
    Ok(find_entry(view, probe, *at)?.map(|entry| (entry.version, entry.is_deletion())))
}

/// Appends the row bytes of a key to `out`; tells their version and the schema that they were written with.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn row_bytes<V: Deref<Target = TabletView>>(
    point: &ReadPoint<V>,
    probe: &KeyProbe<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<(Version, SchemaVersion)>> {
    match find(point, probe, out)? {
        None => Ok(None),
        Some(Hit::Memory { version, schema }) => Ok(Some((version, schema))),
        Some(Hit::Disk { version, location }) => {
            let row = fetch(&point.view, location, version)?;
            out.extend_from_slice(row.bytes());
            Ok(Some((version, row.schema())))
        }
    }
}

/// Where a live row was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hit {
    /// In a memtable; its bytes were copied.
    Memory { version: Version, schema: SchemaVersion },
    /// In a rowset.
    Disk { version: Version, location: Location },
}

/// Finds the live row of a key. If it is in a memtable, its bytes are appended to `row`.
pub(super) fn find<V: Deref<Target = TabletView>>(
    point: &ReadPoint<V>,
    probe: &KeyProbe<'_>,
    row: &mut Vec<u8>,
) -> Result<Option<Hit>> {
    let ReadPoint { view, at, own } = point;
    let hit = |version, op| match op {
        FoundOp::Put { schema } => Some(Hit::Memory { version, schema }),
        FoundOp::Delete => None,
    };
    if let Some(own) = own
        && let Some(Found { op, .. }) = own.memtable.get(probe.key(), own.at, row)
    {
        return Ok(hit(NOT_COMMITTED, op));
    }
    for memtable in &view.memtables {
        if let Some(Found { version, op }) = memtable.get(probe.key(), *at, row) {
            return Ok(hit(version, op));
        }
    }
    let entry = find_entry(view, probe, *at)?;
    Ok(entry.and_then(|Entry { version, place }| match place {
        Place::At(location) => Some(Hit::Disk { version, location }),
        Place::Deleted => None,
    }))
}

/// The newest entry of a key at or below `at` in the index.
fn find_entry(view: &TabletView, probe: &KeyProbe<'_>, at: Version) -> Result<Option<Entry>> {
    for run in &view.runs {
        if run.versions().0 <= at
            && let Some(entry) = run.lookup(probe.key(), probe.hash(), at)?
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// The row that an entry names.
fn fetch(view: &TabletView, location: Location, version: Version) -> Result<RowHandle> {
    match view.rowsets.get(location.rowset) {
        Some(rowset) => rowset.get(location.rowid, version),
        None => Err(missing_rowset(location)),
    }
}

/// A scratch buffer that grew beyond this many bytes is not kept.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Calls `f` with an empty buffer of this thread's, so that a row's way out of a memtable costs no allocation.
pub(super) fn with_scratch<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // A thread that is ending has it no more, and may read nevertheless.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    scratch.clear();
    let result = f(&mut scratch);
    if scratch.capacity() <= SCRATCH_BYTES_MAX {
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
    result
}
