//! What is in one segment of a log: batches, and gaps where something cannot be read.

use std::ops::ControlFlow;
use std::path::Path;

use codec::{SchemaVersion, Version};
use wal::Piece;

use super::Place;
use crate::batch::ops::{OpKind, Ops};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::options::Options;
use crate::recovery::{hold_segment, log_options};

/// A part of a log segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogPiece<'a> {
    /// A batch that is whole.
    Batch(LogBatch<'a>),
    /// Bytes that are none.
    Gap(Gap),
}

/// A part of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Whether nothing that can be read follows: an interrupted write looks so.
    pub is_tail: bool,
    /// What stands there instead.
    pub why: String,
}

/// A batch as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogBatch<'a> {
    /// Where its record begins, in bytes.
    pub offset: u64,
    /// The version of its first operation; the others count up.
    pub first_version: Version,
    /// Its operations, as far as they can be read.
    pub operations: Vec<LogOperation<'a>>,
    /// Why the rest cannot be read, if there is a rest.
    pub damage: Option<String>,
}

/// An operation as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogOperation<'a> {
    /// Its version.
    pub version: Version,
    /// The id of the table.
    pub table: u32,
    /// The version of the table's schema that the row follows.
    pub schema_version: SchemaVersion,
    /// The encoded key.
    pub key: &'a [u8],
    /// The row; `None` if the key was deleted.
    pub row: Option<&'a [u8]>,
}

/// Reads a log segment, `17.wal`, and gives its pieces in order, until `visit` breaks off. Of a segment that is being
/// written it gives what was there at the call.
///
/// # Errors
/// `InvalidArgument` if the file is not named so; `UnsupportedFormat`, `Io`.
pub fn read_log(
    path: impl AsRef<Path>,
    options: &Options,
    mut visit: impl FnMut(LogPiece<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let place = Place::of(path.as_ref(), FileKind::Log)?;
    must_be_there(options, path.as_ref())?;
    let fs = hold_segment(&options.fs, &place.dir, place.id, FileKind::Log);
    let options = Options { fs, ..options.clone() };
    let mut flow = ControlFlow::Continue(());
    wal::salvage(&log_options(&options, &place.dir), &[place.id], &mut |piece| {
        if flow.is_continue() {
            flow = visit(match piece {
                Piece::Record(record) => {
                    LogPiece::Batch(batch(record.position.offset, record.first_version, record.body))
                }
                Piece::Gap(gap) => LogPiece::Gap(gap.into()),
            });
        }
    })?;
    Ok(())
}

fn batch(offset: u64, first_version: Version, body: &[u8]) -> LogBatch<'_> {
    let mut operations = Vec::new();
    let mut damage = None;
    for (op, version) in Ops::new(body).zip(first_version.0..) {
        match op {
            Ok(op) => operations.push(LogOperation {
                version: Version(version),
                table: op.table.0,
                schema_version: op.schema,
                key: op.key,
                row: (op.kind != OpKind::Delete).then_some(op.row),
            }),
            Err(error) => damage = Some(error.to_string()),
        }
    }
    LogBatch { offset, first_version, operations, damage }
}

impl From<wal::Gap> for Gap {
    fn from(gap: wal::Gap) -> Gap {
        let wal::Gap { at, bytes, is_tail, why, .. } = gap;
        Gap { offset: at.offset, bytes, is_tail, why }
    }
}

/// A salvage takes a missing segment for a gap; here it is a mistake of whoever asks.
pub(super) fn must_be_there(options: &Options, path: &Path) -> Result<()> {
    let opened = options.fs.open(path);
    opened.map(drop).map_err(|error| Error::io(format_args!("opening {}", path.display()), error))
}
