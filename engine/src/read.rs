//! The read path: from a pinned view to rows.
//!
//! Owns point reads (`get`, `multi_get`) and scans. Every read goes the same way: memtables newest first, then the
//! index, newest run first; the first version that the reader may see decides; only then is a row fetched. So get,
//! scan, exists and count cannot disagree.
//!
//! Never writes, never takes a lock that a writer holds across disk work, and never decides which version a reader
//! sees: that comes with the [`ReadPoint`].

mod bounds;
mod fetch;
mod get;
mod keys;
mod literal;
mod live;
mod merged;
mod multi_get;
mod partition;
mod pipeline;
mod predicate;
mod records;
mod rows;
mod scan;
mod since;

use std::ops::Deref;
use std::sync::Arc;

use codec::Version;

use crate::memtable::Memtable;
use crate::view::TabletView;

pub(crate) use bounds::range as key_range;
pub(crate) use get::{exists, get, latest, row_bytes};
pub(crate) use live::{LiveKeys, live_keys};
pub(crate) use multi_get::multi_get;
pub use predicate::{ColumnExpr, Predicate, column};
pub use records::Records;
pub use rows::{Batches, Cursor, Rows};
pub use scan::Scan;
pub(crate) use scan::ScanSource;
pub(crate) use since::{key_in_memory_since, key_since, range_in_memory_since, range_since};

/// What a read sees: a view, and the versions up to `at`; and in a transaction what it has written itself.
#[derive(Clone, Debug)]
pub(crate) struct ReadPoint<V = Arc<TabletView>> {
    /// Pinned: its files stay while this lives. A single read pins a [`Look`](crate::view::Look).
    pub(crate) view: V,
    /// The last version seen.
    pub(crate) at: Version,
    /// Above all that the view holds.
    pub(crate) own: Option<OwnWrites>,
}

impl<V: Deref<Target = TabletView>> ReadPoint<V> {
    pub(crate) fn new(view: V, at: Version) -> ReadPoint<V> {
        ReadPoint { view, at, own: None }
    }
}

/// What a transaction has written to one table, up to a moment.
#[derive(Clone, Debug)]
pub(crate) struct OwnWrites {
    /// Its operations, with their numbers in the place of versions.
    pub(crate) memtable: Arc<Memtable>,
    /// The last that is seen.
    pub(crate) at: Version,
}

/// In the place of the version of what a transaction has written itself: it has none yet.
const NOT_COMMITTED: Version = Version(0);

#[cfg(test)]
pub(crate) mod tests;
