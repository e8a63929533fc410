//! The bytes of a batch: operations one after the other. They are the body of its record in the log.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind: 1 put, 2 delete; 3 update, only before the commit, never in the log |
//! | 4 | table id, little-endian |
//! | 4 | schema version of the row, little-endian |
//! | 2 | length of the key |
//! | 4 | length of the row |
//! | | the encoded key |
//! | | the row (empty for a delete) |
//!
//! The key and the row are encoded where they lie: the head is written first, with room for the two lengths.
//! The n-th operation of a record has the record's first version plus n.

use std::ops::Range;

use codec::{ReadError, Reader, SchemaVersion, TableId};

/// The bytes before the key.
pub(crate) const HEAD_BYTES: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OpKind {
    Put = 1,
    Delete = 2,
    /// The row is a list of changes. [`super::evaluate`] turns it into a put.
    Update = 3,
}

/// One operation, borrowed from a batch's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) kind: OpKind,
    pub(crate) table: TableId,
    pub(crate) schema: SchemaVersion,
    pub(crate) key: &'a [u8],
    pub(crate) row: &'a [u8],
}

/// Writes the head of an operation. The key follows, then the row, then [`end`].
pub(crate) fn begin(body: &mut Vec<u8>, kind: OpKind, table: TableId, schema: SchemaVersion) -> usize {
    let start = body.len();
    let mut head = [0; HEAD_BYTES];
    head[0] = kind as u8;
    head[1..5].copy_from_slice(&table.0.to_le_bytes());
    head[5..9].copy_from_slice(&schema.0.to_le_bytes());
    body.extend_from_slice(&head);
    start
}

/// Fills in the lengths of the operation that began at `start`.
pub(crate) fn end(body: &mut [u8], start: usize, key: &Range<usize>, row: &Range<usize>) {
    debug_assert_eq!(key.start, start + HEAD_BYTES);
    debug_assert_eq!(key.end, row.start);
    debug_assert_eq!(row.end, body.len());
    let key = u16::try_from(key.len()).expect("the key builder checks the limit");
    let row = u32::try_from(row.len()).expect("the row writer checks the limit");
    body[start + 9..start + 11].copy_from_slice(&key.to_le_bytes());
    body[start + 11..start + 15].copy_from_slice(&row.to_le_bytes());
}

/// Appends a whole operation.
pub(crate) fn put(body: &mut Vec<u8>, op: &Op<'_>) {
    let start = begin(body, op.kind, op.table, op.schema);
    body.extend_from_slice(op.key);
    let key = start + HEAD_BYTES..body.len();
    body.extend_from_slice(op.row);
    let row = key.end..body.len();
    end(body, start, &key, &row);
}

/// The operations in `body`, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Ops<'a> {
    reader: Reader<'a>,
}

/// Why a batch's bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("at byte {at}: {found} is no kind of operation")]
    Kind { at: usize, found: u8 },
    #[error("at byte {at}: a delete with a row")]
    DeleteWithRow { at: usize },
}

impl<'a> Ops<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Ops<'a> {
        Ops { reader: Reader::new(body) }
    }

    fn read(&mut self) -> Result<Op<'a>, OpError> {
        let at = self.reader.position();
        let kind = match self.reader.u8()? {
            1 => OpKind::Put,
            2 => OpKind::Delete,
            3 => OpKind::Update,
            found => return Err(OpError::Kind { at, found }),
        };
        let table = TableId(self.reader.u32()?);
        let schema = SchemaVersion(self.reader.u32()?);
        let key = usize::from(self.reader.u16()?);
        let row = self.reader.u32()? as usize;
        let key = self.reader.bytes(key)?;
        let row = self.reader.bytes(row)?;
        if kind == OpKind::Delete && !row.is_empty() {
            return Err(OpError::DeleteWithRow { at });
        }
        Ok(Op { kind, table, schema, key, row })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>, OpError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.left() == 0 {
            return None;
        }
        let op = self.read();
        if op.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn operations_round_trip(ops in proptest::collection::vec(
            (any::<bool>(), any::<u32>(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..20), proptest::collection::vec(any::<u8>(), 0..20)), 0..10)) {
            let mut body = Vec::new();
            let ops: Vec<_> = ops.iter().map(|(is_put, table, schema, key, row)| Op {
                kind: if *is_put { OpKind::Put } else { OpKind::Delete },
                table: TableId(*table), schema: SchemaVersion(*schema), key,
                row: if *is_put { row } else { &[] },
            }).collect();
            for op in &ops {
                put(&mut body, op);
            }
            let read: Vec<_> = Ops::new(&body).map(|op| op.expect("just written")).collect();
            prop_assert_eq!(read, ops);
        }

        #[test]
        fn no_bytes_make_it_panic_or_run_on(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Ops::new(&bytes).count() <= bytes.len());
        }
    }
}
