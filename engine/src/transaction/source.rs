//! What a scan of a transaction reads, and whom it tells how far it has come.

use std::sync::Arc;

use encoded_key::KeyRange;
use sstable::Direction;
use sync::Mutex;

use super::reads::{ReadSet, ScanReads};
use crate::catalog::TableCore;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::read::{OwnWrites, ReadPoint, ScanSource};
use crate::row::ReadSchema;
use crate::snapshot::Snapshot;
use crate::table::pin;

/// What a transaction's scans hold: they keep neither the engine nor the table open.
pub(super) struct Source {
    pub(super) core: Arc<Core>,
    pub(super) table: Arc<TableCore>,
    pub(super) snapshot: Snapshot,
    pub(super) own: Option<OwnWrites>,
    pub(super) reads: Arc<Mutex<ReadSet>>,
}

impl ScanSource for Source {
    fn reads(&self) -> &Arc<ReadSchema> {
        &self.table.reads
    }

    fn pin(&self, snapshot: Option<&Snapshot>) -> Result<ReadPoint> {
        if snapshot.is_some() {
            return Err(Error::invalid("the scan of a transaction sees what the transaction sees"));
        }
        let point = pin(&self.core, &self.table, Some(&self.snapshot))?;
        Ok(ReadPoint { own: self.own.clone(), ..point })
    }

    fn begin(&self, range: &KeyRange, direction: Direction) -> Result<Option<ScanReads>> {
        ScanReads::begin(&self.reads, &self.table, range, direction).map(Some)
    }

    fn check(&self) -> Result<()> {
        self.core.health.check_open()
    }
}
