//! What a batch is built in.
//!
//! Owns the buffer that keys and rows are encoded into, once, where they stay until they are in the log and in the
//! memtables. Encoding checks types and limits at the door, so a batch that could be built can be written.
//!
//! Invariant: the buffer holds whole operations; one that fails to encode leaves no trace.

use std::ops::Range;
use std::sync::Arc;

use codec::Version;
use sync::Mutex;

use super::Changes;
use super::ops::{self, OpKind};
use crate::catalog::TableCore;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::record::{Record, encode_key, encode_record};

/// What has to hold for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The key is absent, or the batch fails.
    Absent,
    /// The key is absent, or the operation is left out.
    AbsentOrSkip,
    /// The key is live, or the batch fails; the row is made from it.
    Live,
    /// The live row of the key has this version, or the key is absent, or the batch fails.
    Version(Option<Version>),
}

/// A batch's operations and where they go. Kept and reused.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) body: Vec<u8>,
    pub(crate) operations: u32,
    pub(crate) targets: Vec<Arc<TableCore>>,
    /// The checked operations, by position.
    pub(crate) checks: Vec<(u32, Check)>,
}

/// A place in a buffer, between two operations.
#[derive(Debug)]
pub(crate) struct Mark {
    bytes: usize,
    operations: u32,
    targets: usize,
}

impl Mark {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A buffer that outgrew this is not kept.
const KEEP_BYTES: usize = 1 << 20;

impl Buffer {
    /// Empties it and keeps its memory, unless that is an outlier's.
    pub(crate) fn clear(&mut self) {
        if self.body.capacity() > KEEP_BYTES {
            self.body = Vec::new();
        }
        self.body.clear();
        self.operations = 0;
        self.targets.clear();
        self.checks.clear();
    }

    /// Where the next operation goes.
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.body.len(), operations: self.operations, targets: self.targets.len() }
    }

    /// Takes back the operations pushed since. None of them may be a checked one.
    pub(crate) fn back_to(&mut self, mark: &Mark) {
        self.body.truncate(mark.bytes);
        self.operations = mark.operations;
        self.targets.truncate(mark.targets);
    }

    fn push(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        kind: OpKind,
        check: Option<Check>,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(Range<usize>, Range<usize>), Error>,
    ) -> Result<(), Error> {
        if self.operations as usize >= core.options.batch_operations_max {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("a batch holds at most {} operations", core.options.batch_operations_max),
            ));
        }
        let start = ops::begin(&mut self.body, kind, table.id, table.schema.version());
        let encoded = encode(&mut self.body).and_then(|ranges| {
            if self.body.len() > core.options.batch_bytes_max {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("a batch holds at most {} bytes", core.options.batch_bytes_max),
                ));
            }
            Ok(ranges)
        });
        match encoded {
            Ok((key, row)) => ops::end(&mut self.body, start, &key, &row),
            Err(error) => {
                self.body.truncate(start);
                return Err(error);
            }
        }
        if let Some(check) = check {
            self.checks.push((self.operations, check));
        }
        self.operations += 1;
        // A table that was altered between two operations stands there as each of its handles shows it.
        if !self.targets.iter().any(|target| Arc::ptr_eq(target, table)) {
            self.targets.push(Arc::clone(table));
        }
        Ok(())
    }

    /// A row that is encoded already.
    pub(crate) fn put_encoded(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        key: &[u8],
        row: &[u8],
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Put, None, |body| {
            let start = body.len();
            body.extend_from_slice(key);
            let end = body.len();
            body.extend_from_slice(row);
            Ok((start..end, end..body.len()))
        })
    }

    pub(crate) fn put(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        record: &impl Record,
        check: Option<Check>,
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Put, check, |body| encode_record(&table.schema, record, body))
    }

    pub(crate) fn delete(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        key: &impl Record,
        check: Option<Check>,
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Delete, check, |body| {
            let key = encode_key(&table.schema, key, body)?;
            let end = key.end;
            Ok((key, end..end))
        })
    }

    pub(crate) fn update(
        &mut self,
        core: &Core,
        table: &Arc<TableCore>,
        key: &impl Record,
        changes: &Changes,
        check: Check,
    ) -> Result<(), Error> {
        self.push(core, table, OpKind::Update, Some(check), |body| {
            let key = encode_key(&table.schema, key, body)?;
            let start = key.end;
            body.extend_from_slice(changes.bytes());
            Ok((key, start..body.len()))
        })
    }
}

/// Buffers of single writes and of keys that are looked up, for the next ones.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<Vec<Buffer>>);

/// More than as many threads as a machine has are rarely at it at once.
const POOL_MAX: usize = 64;

impl BufferPool {
    pub(crate) fn take(&self) -> Buffer {
        self.0.lock().pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut buffer: Buffer) {
        buffer.clear();
        let mut pool = self.0.lock();
        if pool.len() < POOL_MAX {
            pool.push(buffer);
        }
    }
}
