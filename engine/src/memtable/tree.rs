//! A B+tree of keys over an arena of records: the order of a memtable.
//!
//! The tree has one slot for each key; the key's versions hang below its first record ([`super::versions`]). Nodes
//! come from pools and records from an arena, so that an insert asks the allocator for nothing, save a chunk now and
//! then. It is built for few cache misses: slots hold windows of their keys, and a key above all others is put at
//! the end without a descent.
//!
//! Invariant: leaves are linked both ways in key order, and none is empty.
//! Invariant: all leaves have the same depth, `height`.
//! Invariant: a leaf's `newest` is at or above every version of its keys.
//! Nothing is ever removed, so addresses and node numbers stay good.

use std::ops::Bound;

use codec::Version;
use encoded_key::KeyRange;

use super::arena::{Address, Arena, Pool};
use super::node::{Inner, Leaf, NO_NODE};
use super::versions;
use super::{MemOp, Older};

/// Keys, their versions and rows, in order. Reached through [`super::Memtable::apply`].
pub(crate) struct Tree {
    arena: Arena,
    leaves: Pool<Leaf>,
    inners: Pool<Inner>,
    /// A leaf if `height` is 0, else an inner node; `NO_NODE` while empty.
    root: u32,
    height: u32,
    last_leaf: u32,
    /// The way of the last descent, root first. Kept for its memory.
    path: Vec<Step>,
    entries: u64,
    versions: Option<(Version, Version)>,
}

#[derive(Clone, Copy)]
struct Step {
    inner: u32,
    child: usize,
}

/// The place of one key. Good until the next insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    leaf: u32,
    slot: usize,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            arena: Arena::new(),
            leaves: Pool::new(),
            inners: Pool::new(),
            root: NO_NODE,
            height: 0,
            last_leaf: NO_NODE,
            path: Vec::new(),
            entries: 0,
            versions: None,
        }
    }

    /// The memory held beside the struct itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let path = self.path.capacity() * size_of::<Step>();
        self.arena.bytes() + self.leaves.bytes() + self.inners.bytes() + path
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn versions(&self) -> Option<(Version, Version)> {
        self.versions
    }

    /// Adds an operation. Versions come in ascending order over all keys, each once; keys and rows were checked
    /// against their limits.
    ///
    /// # Panics
    ///
    /// If `version` is not above all versions of its key.
    pub(crate) fn insert(&mut self, key: &[u8], version: Version, op: MemOp<'_>) {
        let first_version = match self.versions {
            Some((first, last)) => {
                debug_assert!(last < version, "versions ascend: {version} was applied after {last}");
                first
            }
            None => version,
        };
        self.place(key, version, op);
        self.versions = Some((first_version, version));
        self.entries += 1;
    }

    fn place(&mut self, key: &[u8], version: Version, op: MemOp<'_>) {
        if self.root == NO_NODE {
            self.root = self.leaves.push(Leaf::new());
            self.last_leaf = self.root;
        }
        let last = &self.leaves.get(self.last_leaf).keys;
        let appends = last.is_below(&self.arena, key);
        let (leaf, slot) = if appends && !last.is_full() {
            (self.last_leaf, last.len())
        } else {
            let leaf = self.descend(key);
            let (slot, found) = self.leaves.get(leaf).keys.search(&self.arena, key);
            if found {
                let node = self.leaves.get_mut(leaf);
                node.newest = version;
                versions::push_later(&mut self.arena, node.keys.first(slot), version, op);
                return;
            }
            (leaf, slot)
        };
        let first = versions::push_first(&mut self.arena, key, version, op);
        let node = self.leaves.get_mut(leaf);
        // Before a split, so that both parts have it.
        node.newest = version;
        if node.keys.is_full() {
            self.split(leaf, slot, key, first);
        } else {
            node.insert(slot, key, first);
        }
    }

    /// The leaf that `key` is routed to, with the way in `path`.
    fn descend(&mut self, key: &[u8]) -> u32 {
        self.path.clear();
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.get(node);
            let child = inner.route(&self.arena, key);
            self.path.push(Step { inner: node, child });
            node = inner.child(child);
        }
        node
    }

    /// Splits the full leaf at the end of `path`, with `key` put into one of the parts.
    fn split(&mut self, leaf: u32, slot: usize, key: &[u8], first: Address) {
        let (low, high) = self.fences();
        let node = self.leaves.get_mut(leaf);
        let mut upper = node.split_insert(slot, key, first);
        let separator = upper.keys.first(0);
        node.keys.narrow(&self.arena, low, Some(separator));
        upper.keys.narrow(&self.arena, Some(separator), high);
        let next = node.next;
        upper.previous = leaf;
        upper.next = next;
        let upper = self.leaves.push(upper);
        self.leaves.get_mut(leaf).next = upper;
        if next == NO_NODE {
            self.last_leaf = upper;
        } else {
            self.leaves.get_mut(next).previous = upper;
        }
        self.link(separator, upper);
    }

    /// Puts the new node `child` and the separator below it into the nodes along `path`, and splits those that are
    /// full.
    fn link(&mut self, mut separator: Address, mut child: u32) {
        while let Some(step) = self.path.pop() {
            let (low, high) = self.fences();
            let inner = self.inners.get_mut(step.inner);
            let key = versions::key(&self.arena, separator);
            if !inner.keys.is_full() {
                inner.insert(step.child, key, separator, child);
                return;
            }
            let (mut upper, between) = inner.split_insert(step.child, key, separator, child, high.is_none());
            inner.keys.narrow(&self.arena, low, Some(between));
            upper.keys.narrow(&self.arena, Some(between), high);
            separator = between;
            child = self.inners.push(upper);
        }
        let key = versions::key(&self.arena, separator);
        self.root = self.inners.push(Inner::root(self.root, key, separator, child));
        self.height += 1;
    }

    /// The fences of the node at the end of `path`: the separators next to the way, as deep down as there are any.
    fn fences(&self) -> (Option<Address>, Option<Address>) {
        let (mut low, mut high) = (None, None);
        for step in self.path.iter().rev() {
            let keys = &self.inners.get(step.inner).keys;
            if low.is_none() && step.child > 0 {
                low = Some(keys.first(step.child - 1));
            }
            if high.is_none() && step.child < keys.len() {
                high = Some(keys.first(step.child));
            }
        }
        (low, high)
    }

    /// The newest operation on `key` at or below `at`.
    pub(super) fn get(&self, key: &[u8], at: Version) -> Option<(Version, MemOp<'_>)> {
        let (position, found) = self.find(key)?;
        if found { self.visible(position, at) } else { None }
    }

    /// The place where `key` is or would be, which may be one behind the last slot of its leaf.
    fn find(&self, key: &[u8]) -> Option<(Position, bool)> {
        if self.root == NO_NODE {
            return None;
        }
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.get(node);
            node = inner.child(inner.route(&self.arena, key));
        }
        let (slot, found) = self.leaves.get(node).keys.search(&self.arena, key);
        Some((Position { leaf: node, slot }, found))
    }

    /// The first key within a lower bound.
    pub(super) fn first_within(&self, bound: Bound<&[u8]>) -> Option<Position> {
        let (key, excluded) = match bound {
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
            Bound::Unbounded => (&[][..], false),
        };
        let (mut position, found) = self.find(key)?;
        position.slot += usize::from(found && excluded);
        if position.slot < self.leaves.get(position.leaf).keys.len() {
            return Some(position);
        }
        self.first_of(self.leaves.get(position.leaf).next)
    }

    /// The last key within an upper bound.
    pub(super) fn last_within(&self, bound: Bound<&[u8]>) -> Option<Position> {
        let (key, excluded) = match bound {
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
            Bound::Unbounded => return self.last_of(self.last_leaf),
        };
        let (position, found) = self.find(key)?;
        if found && !excluded { Some(position) } else { self.before(position) }
    }

    /// The key above the one at `position`.
    #[inline]
    pub(super) fn after(&self, position: Position) -> Option<Position> {
        let leaf = self.leaves.get(position.leaf);
        let slot = position.slot + 1;
        if slot < leaf.keys.len() { Some(Position { slot, ..position }) } else { self.first_of(leaf.next) }
    }

    /// The key below the one at `position`.
    #[inline]
    pub(super) fn before(&self, position: Position) -> Option<Position> {
        match position.slot.checked_sub(1) {
            Some(slot) => Some(Position { slot, ..position }),
            None => self.last_of(self.leaves.get(position.leaf).previous),
        }
    }

    fn first_of(&self, leaf: u32) -> Option<Position> {
        (leaf != NO_NODE).then_some(Position { leaf, slot: 0 })
    }

    fn last_of(&self, leaf: u32) -> Option<Position> {
        (leaf != NO_NODE).then(|| Position { leaf, slot: self.leaves.get(leaf).keys.len() - 1 })
    }

    #[inline]
    pub(super) fn key(&self, position: Position) -> &[u8] {
        versions::key(&self.arena, self.leaves.get(position.leaf).keys.first(position.slot))
    }

    /// The newest operation on the key at `position` that is not above `at`.
    #[inline]
    pub(super) fn visible(&self, position: Position, at: Version) -> Option<(Version, MemOp<'_>)> {
        versions::visible(&self.arena, self.leaves.get(position.leaf).keys.first(position.slot), at)
    }

    /// A version above `at` of a key within `range`, if there is one.
    pub(super) fn newer_within(&self, range: &KeyRange, at: Version) -> Option<Version> {
        let mut next = self.first_within(range.start.as_ref().map(Vec::as_slice));
        while let Some(position) = next {
            if !range.contains(self.key(position)) {
                return None;
            }
            let leaf = self.leaves.get(position.leaf);
            if leaf.newest > at {
                for slot in position.slot..leaf.keys.len() {
                    let here = Position { slot, ..position };
                    if !range.contains(self.key(here)) {
                        return None;
                    }
                    let newest = self.visible(here, Version::MAX).map(|(version, _)| version);
                    if newest.is_some_and(|version| version > at) {
                        return newest;
                    }
                }
            }
            next = self.first_of(leaf.next);
        }
        None
    }

    /// Operations, key ascending, version descending, until `f` fails: all of a key until `f` wants no older ones. Each
    /// that is not looked at spares a wait for memory.
    pub(super) fn for_each<E>(
        &self,
        mut f: impl FnMut(&[u8], Version, MemOp<'_>) -> Result<Older, E>,
    ) -> Result<(), E> {
        let mut next = self.first_within(Bound::Unbounded).map(|position| position.leaf);
        while let Some(number) = next {
            let leaf = self.leaves.get(number);
            leaf.keys.touch_records(&self.arena);
            for slot in 0..leaf.keys.len() {
                let first = leaf.keys.first(slot);
                let key = versions::key(&self.arena, first);
                for (version, op) in versions::all(&self.arena, first) {
                    if f(key, version, op)? == Older::Unwanted {
                        break;
                    }
                }
            }
            next = (leaf.next != NO_NODE).then_some(leaf.next);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
