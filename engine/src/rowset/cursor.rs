//! A cursor over one rowset that moves one way only.

use std::sync::Arc;

use codec::{Location, RowId, SchemaVersion, Version};
use sstable::{Caching, Direction, OrdinalCursor};

use super::{Rowset, StoredRow, corrupt};
use crate::error::Result;

/// Reads rows of one rowset in ascending or in descending order, with readahead. Each row lives until the next is asked
/// for.
#[derive(Debug)]
pub(crate) struct RowsetCursor {
    rowset: Arc<Rowset>,
    rows: OrdinalCursor,
    direction: Direction,
    last: Option<RowId>,
}

impl RowsetCursor {
    pub(crate) fn new(rowset: &Arc<Rowset>, direction: Direction) -> RowsetCursor {
        let rows = rowset.reader.cursor(direction);
        RowsetCursor { rowset: Arc::clone(rowset), rows, direction, last: None }
    }

    /// A forward cursor for one pass over rows that are about to move: what it reads stays out of the cache.
    pub(crate) fn for_moving(rowset: &Arc<Rowset>) -> RowsetCursor {
        let mut cursor = RowsetCursor::new(rowset, Direction::Forward);
        cursor.rows.set_caching(Caching::Leave);
        cursor
    }

    pub(crate) fn rowset(&self) -> &Rowset {
        &self.rowset
    }

    /// The row at `rowid`, which an index entry says was written as `expected`.
    ///
    /// # Errors
    /// `Corruption` if there is no such row, if it has another version, or if the index asks for rows out of order
    /// (rows of a rowset lie in key order, so an index in key order never does); `Io`.
    #[inline]
    pub(crate) fn get(&mut self, rowid: RowId, expected: Version) -> Result<(SchemaVersion, &[u8])> {
        self.rowset.check_rowid(rowid)?;
        let at = Location { rowset: self.rowset.id, rowid };
        if let Some(last) = self.last {
            let in_order = match self.direction {
                Direction::Forward => last < rowid,
                Direction::Reverse => rowid < last,
            };
            if !in_order {
                return Err(corrupt(
                    at,
                    &format_args!("the index asks for it after row {last}, out of order"),
                ));
            }
        }
        self.last = Some(rowid);
        let bytes = self.rows.get(rowid.0)?;
        let StoredRow { schema, row } = StoredRow::decode(bytes, at, expected)?;
        Ok((schema, &bytes[row]))
    }
}
