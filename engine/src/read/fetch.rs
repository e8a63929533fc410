//! Fetches the rows of a scan from the rowsets, each by a cursor that moves one way only.
//!
//! Invariant: a cursor is kept only while its rowset may still be asked for, so that their number is the overlap depth
//! and not the number of rowsets.

use std::sync::Arc;

use codec::{Location, RowsetId, SchemaVersion, Version};
use sstable::Direction;

use crate::error::{Error, Result};
use crate::rowset::{RowsetCursor, Rowsets};

/// The open rowset cursors of a scan.
#[derive(Debug)]
pub(super) struct RowFetcher {
    rowsets: Arc<Rowsets>,
    direction: Direction,
    /// Beside `cursors`: a handful of numbers that are searched for each row.
    ids: Vec<RowsetId>,
    cursors: Vec<RowsetCursor>,
}

impl RowFetcher {
    pub(super) fn new(rowsets: Arc<Rowsets>, direction: Direction) -> RowFetcher {
        RowFetcher { rowsets, direction, ids: Vec::new(), cursors: Vec::new() }
    }

    /// The row at `location`, which the entry of `key` says was written as `version`. Keys come in scan order.
    #[inline]
    pub(super) fn get(
        &mut self,
        key: &[u8],
        location: Location,
        version: Version,
    ) -> Result<(SchemaVersion, &[u8])> {
        let cursor = match self.ids.iter().position(|&id| id == location.rowset) {
            Some(cursor) => cursor,
            None => self.open(key, location)?,
        };
        self.cursors[cursor].get(location.rowid, version)
    }

    #[cold]
    fn open(&mut self, key: &[u8], location: Location) -> Result<usize> {
        self.close_passed(key);
        let Some(rowset) = self.rowsets.get(location.rowset) else { return Err(missing_rowset(location)) };
        self.ids.push(location.rowset);
        self.cursors.push(RowsetCursor::new(rowset, self.direction));
        Ok(self.cursors.len() - 1)
    }

    /// Closes the cursors of rowsets whose last row in scan order comes before `key`.
    fn close_passed(&mut self, key: &[u8]) {
        for cursor in (0..self.cursors.len()).rev() {
            let rowset = self.cursors[cursor].rowset();
            let passed = match self.direction {
                Direction::Forward => rowset.last_key() < key,
                Direction::Reverse => key < rowset.first_key(),
            };
            if passed {
                self.cursors.swap_remove(cursor);
                self.ids.swap_remove(cursor);
            }
        }
    }
}

/// An entry that leads nowhere.
#[cold]
pub(super) fn missing_rowset(location: Location) -> Error {
    Error::corruption(format!("an index entry names {location}, and the table has no such rowset"))
}
