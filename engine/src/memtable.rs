//! What has been written and not yet flushed: every version of every key of one tablet, in order, in memory.
//!
//! Owns the lock around the [`Tree`], and the few numbers that are read without it. A commit group takes the
//! lock once; a point read takes it shared once; a [`MemCursor`] takes it shared for one chunk at a time.
//!
//! Invariant: order is key ascending, then version descending.
//! Invariant: nothing is removed or changed; memory only grows, until the whole memtable is dropped.
//! Invariant: versions come in ascending order, so a reader at a published version never sees a part of a group
//! that is still being applied: all of it lies above the version the reader reads at.
//!
//! Never logs, never decides when it is full, never tells a deletion from an absence on a reader's behalf.

mod arena;
mod cursor;
mod node;
mod tree;
mod versions;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use codec::{SchemaVersion, Version};
use encoded_key::KeyRange;
use pkindex::Direction;
use sync::RwLock;

pub(crate) use cursor::{Fetch, MemCursor};
pub(crate) use tree::Tree;

/// A memtable must be sealed before its [`Memtable::bytes`] plus the next commit group exceed this: the addresses
/// inside reach no further.
pub(crate) const MEMTABLE_BYTES_MAX: usize = 8 << 30;

/// Whether whoever walks a memtable wants the older versions of a key, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    Wanted,
    Unwanted,
}

/// What one operation does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemOp<'a> {
    /// The key has this row from now on.
    Put {
        /// The schema that `row` was written with.
        schema: SchemaVersion,
        /// The encoded row. May be empty, which is not the same as absent.
        row: &'a [u8],
    },
    /// The key is absent from now on.
    Delete,
}

/// What a reader found for a key; the row's bytes travel apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The version of the operation found.
    pub(crate) version: Version,
    /// What it did.
    pub(crate) op: FoundOp,
}

/// [`MemOp`] without the row's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundOp {
    /// A row.
    Put {
        /// The schema that the row was written with.
        schema: SchemaVersion,
    },
    /// A deletion: no older version counts, here or on disk.
    Delete,
}

/// One tablet's writes since the last seal. See the module's head.
pub(crate) struct Memtable {
    id: u64,
    /// The numbers below repeat what the tree knows, as of the last group applied.
    bytes: AtomicUsize,
    entries: AtomicU64,
    /// 0 before the first operation: no operation has version 0.
    first_version: AtomicU64,
    last_version: AtomicU64,
    tree: RwLock<Tree>,
}

impl Memtable {
    /// An empty one, which holds no memory but itself. `id` is the caller's name for it.
    pub(crate) fn new(id: u64) -> Memtable {
        Memtable {
            id,
            bytes: AtomicUsize::new(size_of::<Memtable>()),
            entries: AtomicU64::new(0),
            first_version: AtomicU64::new(0),
            last_version: AtomicU64::new(0),
            tree: RwLock::new(Tree::new()),
        }
    }

    /// The name given to [`Memtable::new`].
    #[cfg(test)]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The memory held, in bytes, unused parts of chunks included. Takes no lock.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many operations were applied; one for each key and version. Takes no lock.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Whether nothing was applied yet. Takes no lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The first and the last version applied; `None` while empty. Takes no lock.
    pub(crate) fn versions(&self) -> Option<(Version, Version)> {
        // The first version is stored before the last one, so a last version is never seen without it.
        let last = self.last_version.load(Ordering::Acquire);
        let first = self.first_version.load(Ordering::Acquire);
        (last > 0).then_some((Version(first), Version(last)))
    }

    /// Runs `f` under the write lock: one call for a whole commit group. `f` must not call back into this memtable.
    pub(crate) fn apply<R>(&self, f: impl FnOnce(&mut Tree) -> R) -> R {
        let mut tree = self.tree.write();
        let result = f(&mut tree);
        if let Some((first, last)) = tree.versions() {
            self.first_version.store(first.0, Ordering::Release);
            self.last_version.store(last.0, Ordering::Release);
        }
        self.entries.store(tree.entries(), Ordering::Release);
        self.bytes.store(size_of::<Memtable>() + tree.bytes(), Ordering::Relaxed);
        result
    }

    /// The newest operation on `key` at or below `at`; a row's bytes are appended to `row`.
    pub(crate) fn get(&self, key: &[u8], at: Version, row: &mut Vec<u8>) -> Option<Found> {
        // What is visible was counted before. So those who read where nothing is written share no lock.
        if self.is_empty() {
            return None;
        }
        let tree = self.tree.read();
        let (version, op) = tree.get(key, at)?;
        Some(Found { version, op: copy_row(op, row) })
    }

    /// The version of the newest operation on `key`, published or not, and whether it is a deletion.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<(Version, bool)> {
        if self.is_empty() {
            return None;
        }
        let tree = self.tree.read();
        let (version, op) = tree.get(key, Version::MAX)?;
        Some((version, op == MemOp::Delete))
    }

    /// A version above `at` of a key within `range`, published or not; `None` if there is none. Passes over what is
    /// older a leaf at a time.
    pub(crate) fn newer_within(&self, range: &KeyRange, at: Version) -> Option<Version> {
        self.tree.read().newer_within(range, at)
    }

    /// Its first and its last key; `None` if it is empty.
    pub(crate) fn ends(self: &Arc<Self>) -> Option<(Vec<u8>, Vec<u8>)> {
        let end = |direction| {
            let all = KeyRange::all();
            let cursor =
                MemCursor::with_fetch(Arc::clone(self), direction, &all, Version(u64::MAX), Fetch::KeysOnly);
            cursor.key().map(<[u8]>::to_vec)
        };
        Some((end(Direction::Forward)?, end(Direction::Reverse)?))
    }

    /// Gives operations to `f`, key ascending, version descending: all of a key until `f` wants no older ones. Stops at
    /// its first error. For the flush: it holds the read lock throughout, so the memtable should be sealed, and `f`
    /// must not call back into it.
    pub(crate) fn for_each_sorted<E>(
        &self,
        f: impl FnMut(&[u8], Version, MemOp<'_>) -> Result<Older, E>,
    ) -> Result<(), E> {
        self.tree.read().for_each(f)
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("id", &self.id)
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .field("versions", &self.versions())
            .finish_non_exhaustive()
    }
}

/// Appends the bytes of `op`'s row to `row`, and tells the rest.
fn copy_row(op: MemOp<'_>, row: &mut Vec<u8>) -> FoundOp {
    match op {
        MemOp::Put { schema, row: bytes } => {
            row.extend_from_slice(bytes);
            FoundOp::Put { schema }
        }
        MemOp::Delete => FoundOp::Delete,
    }
}
