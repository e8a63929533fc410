//! Deletes the rows of a range: a scan of its keys, and one batch of deletions that holds only if the scan still does.
//!
//! There are no range tombstones: each key gets its deletion, so the work is bounded by a limit.

use std::ops::RangeBounds;

use super::{Table, pin};
use crate::batch;
use crate::error::Error;
use crate::read;
use crate::record::Record;

impl Table {
    /// Deletes the first rows with keys in `range`, at most `limit` of them, in one step, and answers how many. It is 0
    /// once there is none left, so a range of any size is emptied by asking again. The ends of the range are those of
    /// [`Scan::range`](crate::Scan::range).
    ///
    /// Exactly those rows are deleted that were there at one moment: if one of them is written or deleted by somebody
    /// else meanwhile, it looks again. A row that comes into the range after that moment stays, as one does that comes
    /// after the call.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("host", Type::U32).key("time", Type::U64).build()?;
    /// # let events = engine.open_or_create_table("events", schema)?;
    /// # for time in 0..25 { events.upsert((17, time))?; events.upsert((18, time))?; }
    /// // All events of host 17 before time 20, ten at a time.
    /// while events.delete_range((17, 0)..(17, 20), 10)? > 0 {}
    /// assert_eq!(events.count()?, 30);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if an end does not fit the key, or if `limit` is 0 or above
    /// [`Options::batch_operations_max`](crate::Options::batch_operations_max); else as for [`Table::upsert`] and
    /// [`Table::get`].
    pub fn delete_range<R: Record>(&self, range: impl RangeBounds<R>, limit: usize) -> Result<usize, Error> {
        let core = &*self.handle.core;
        core.health.check_writable()?;
        let most = core.options.batch_operations_max;
        if limit == 0 || limit > most {
            return Err(Error::invalid(format!(
                "a limit of {limit} rows; a step deletes 1 to {most}, as many as a batch holds"
            )));
        }
        let range = read::key_range(&self.core.schema, range.start_bound(), range.end_bound())?;
        loop {
            let point = pin(core, &self.core, None)?;
            let keys = read::live_keys(&point, &range, limit, core.options.batch_bytes_max)?;
            if keys.is_empty() {
                return Ok(0);
            }
            let (count, at) = (keys.len(), point.at);
            // The view's files are not needed while the batch waits.
            drop(point);
            match batch::delete_seen(core, &self.core, keys, at, core.options.default_durability)? {
                Ok(()) => return Ok(count),
                Err(changed) => core.wait_visible(changed)?,
            }
        }
    }
}
