//! The live keys of a range, without their rows.

use encoded_key::KeyRange;
use sstable::Direction;

use super::ReadPoint;
use super::merged::MergedKeys;
use crate::error::Result;
use crate::memtable::Fetch;

/// Keys, one after the other, in key order.
#[derive(Debug, Default)]
pub(crate) struct LiveKeys {
    pub(crate) bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    pub(crate) ends: Vec<usize>,
}

impl LiveKeys {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// The first live keys of a range: at most `rows_max`, and so many that as deletions of a batch they take at most
/// `bytes_max`; but one, if there is any.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn live_keys(
    point: &ReadPoint,
    range: &KeyRange,
    rows_max: usize,
    bytes_max: usize,
) -> Result<LiveKeys> {
    let mut live = LiveKeys::default();
    if range.is_empty() {
        return Ok(live);
    }
    let mut keys = MergedKeys::new(point, range, Direction::Forward, Fetch::KeysOnly)?;
    while live.len() < rows_max
        && let Some(key) = keys.key()
    {
        if keys.visible()?.is_some() {
            let taken = live.bytes.len() + (live.len() + 1) * crate::batch::ops::HEAD_BYTES;
            if !live.is_empty() && taken + key.len() > bytes_max {
                break;
            }
            live.bytes.extend_from_slice(key);
            live.ends.push(live.bytes.len());
        }
        keys.advance()?;
    }
    Ok(live)
}
