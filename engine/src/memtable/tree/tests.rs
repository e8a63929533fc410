//! The shape of the tree: its invariants under all kinds of key order, and how full it gets.

use codec::SchemaVersion;
use proptest::prelude::*;

use super::*;

impl Tree {
    /// Asserts every invariant of the shape.
    pub(in crate::memtable) fn check(&self) {
        if self.root == NO_NODE {
            assert_eq!(self.entries, 0);
            return;
        }
        let mut leaves = Vec::new();
        self.check_node(self.root, self.height, None, None, &mut leaves);
        let mut previous = NO_NODE;
        for (index, leaf) in leaves.iter().enumerate() {
            let node = self.leaves.get(*leaf);
            assert!(node.keys.len() > 0, "no leaf is empty");
            assert_eq!(node.previous, previous);
            assert_eq!(node.next, leaves.get(index + 1).copied().unwrap_or(NO_NODE));
            previous = *leaf;
        }
        assert_eq!(self.last_leaf, previous);
    }

    fn check_node(
        &self,
        node: u32,
        height: u32,
        low: Option<Address>,
        high: Option<Address>,
        leaves: &mut Vec<u32>,
    ) {
        if height == 0 {
            let leaf = self.leaves.get(node);
            leaf.keys.check(&self.arena, low, high);
            let newest = (0..leaf.keys.len()).filter_map(|slot| {
                self.visible(Position { leaf: node, slot }, Version::MAX).map(|(version, _)| version)
            });
            assert!(newest.max() <= Some(leaf.newest));
            leaves.push(node);
            return;
        }
        let inner = self.inners.get(node);
        inner.keys.check(&self.arena, low, high);
        for child in 0..=inner.keys.len() {
            let child_low = if child == 0 { low } else { Some(inner.keys.first(child - 1)) };
            let child_high = if child == inner.keys.len() { high } else { Some(inner.keys.first(child)) };
            self.check_node(inner.child(child), height - 1, child_low, child_high, leaves);
        }
    }

    /// Keys and leaves.
    fn fill(&self) -> (usize, usize) {
        let (mut keys, mut leaves) = (0, 0);
        let mut leaf = self.first_within(Bound::Unbounded).map_or(NO_NODE, |position| position.leaf);
        while leaf != NO_NODE {
            keys += self.leaves.get(leaf).keys.len();
            leaves += 1;
            leaf = self.leaves.get(leaf).next;
        }
        (keys, leaves)
    }
}

fn tree_of(keys: impl IntoIterator<Item = Vec<u8>>) -> Tree {
    let mut tree = Tree::new();
    for (index, key) in keys.into_iter().enumerate() {
        tree.insert(&key, Version(index as u64 + 1), MemOp::Put { schema: SchemaVersion(1), row: &key });
    }
    tree.check();
    for position in std::iter::successors(tree.first_within(Bound::Unbounded), |at| tree.after(*at)) {
        let key = tree.key(position);
        let (_, op) = tree.get(key, Version::MAX).expect("a key that was walked over is found");
        assert_eq!(op, MemOp::Put { schema: SchemaVersion(1), row: key });
    }
    tree
}

/// A permutation of `0..count`, for a `count` that is a power of two.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (count - 1))
}

/// Numbers without order, each different (the finisher of splitmix64, which is a bijection).
fn mixed(i: u64) -> u64 {
    let i = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let i = (i ^ (i >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    i ^ (i >> 31)
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let tree = tree_of((0..20_000_u64).map(|i| i.to_be_bytes().to_vec()));
    let (keys, leaves) = tree.fill();
    assert_eq!(keys, 20_000);
    assert_eq!(leaves, keys.div_ceil(crate::memtable::node::LEAF_KEYS));
}

#[test]
fn descending_keys_fill_their_leaves() {
    let tree = tree_of((0..20_000_u64).rev().map(|i| i.to_be_bytes().to_vec()));
    let (keys, leaves) = tree.fill();
    assert_eq!(leaves, keys.div_ceil(crate::memtable::node::LEAF_KEYS));
}

#[test]
fn several_ascending_streams_fill_their_leaves() {
    let key = |host: u64, time: u64| [host.to_be_bytes(), time.to_be_bytes()].concat();
    let tree = tree_of((0..30_000_u64).map(|i| key(i % 10, i)));
    let (keys, leaves) = tree.fill();
    assert!(leaves * crate::memtable::node::LEAF_KEYS < keys * 11 / 10, "{keys} keys in {leaves} leaves");
}

#[test]
fn shuffled_keys_fill_their_leaves_by_two_thirds() {
    let tree = tree_of((1..=1 << 15).map(|i| mixed(i).to_be_bytes().to_vec()));
    let (keys, leaves) = tree.fill();
    assert_eq!(keys, 1 << 15);
    assert!(leaves * crate::memtable::node::LEAF_KEYS < keys * 8 / 5, "{keys} keys in {leaves} leaves");
}

#[test]
fn long_common_prefixes_are_skipped() {
    let tree =
        tree_of(shuffled(1 << 14).map(|i| format!("https://example.org/a/long/path/{i:06}").into_bytes()));
    let mut narrowed = 0;
    let mut leaves = 0;
    let mut leaf = tree.first_within(Bound::Unbounded).expect("not empty").leaf;
    while leaf != NO_NODE {
        leaves += 1;
        narrowed += usize::from(tree.leaves.get(leaf).keys.skip() >= 32);
        leaf = tree.leaves.get(leaf).next;
    }
    assert_eq!(narrowed, leaves - 2, "all but the first and the last leaf");
}

#[test]
fn keys_that_differ_only_in_trailing_zeros_keep_their_order() {
    for prefix in [0, 7, 15, 16, 17, 40] {
        let key = |i: u64| [vec![7; prefix], vec![0; usize::try_from(i).expect("small")]].concat();
        let tree = tree_of(shuffled(256).map(key));
        let mut position = tree.first_within(Bound::Unbounded);
        for i in 0..256 {
            let here = position.expect("256 keys");
            assert_eq!(tree.key(here), key(i));
            position = tree.after(here);
        }
        assert_eq!(position, None);
    }
}

#[test]
#[should_panic(expected = "versions ascend")]
fn a_version_that_is_not_above_the_keys_versions_is_our_own_bug() {
    let mut tree = Tree::new();
    tree.insert(b"k", Version(2), MemOp::Delete);
    tree.insert(b"k", Version(2), MemOp::Delete);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Enough keys for three levels, in stretches that ascend, descend or jump about.
    #[test]
    fn the_shape_holds_for_mixed_orders_and_shared_prefixes(
        stretches in prop::collection::vec((0..3_u8, 0..5_u64, any::<u64>(), 1..1500_u64), 1..12),
        prefix in prop::sample::select(vec![0_usize, 3, 8, 21]),
    ) {
        let mut keys = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for (order, host, start, count) in stretches {
            for i in 0..count {
                let number = match order {
                    0 => start.wrapping_add(i),
                    1 => start.wrapping_sub(i),
                    _ => mixed(start.wrapping_add(i)),
                };
                let key = [&vec![b'p'; prefix][..], &host.to_be_bytes(), &number.to_be_bytes(), b"tail"].concat();
                if seen.insert(key.clone()) {
                    keys.push(key);
                }
            }
        }
        let tree = tree_of(keys);
        let walk = std::iter::successors(tree.first_within(Bound::Unbounded), |at| tree.after(*at));
        prop_assert!(walk.map(|at| tree.key(at)).eq(seen.iter().map(Vec::as_slice)));
        let back = std::iter::successors(tree.last_within(Bound::Unbounded), |at| tree.before(*at));
        prop_assert!(back.map(|at| tree.key(at)).eq(seen.iter().rev().map(Vec::as_slice)));
    }
}
