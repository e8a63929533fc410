//! The nodes of the tree, and the search within one: a sorted array of keys, each known by a window of its bytes.
//!
//! A slot holds 8 bytes of the key (big-endian, so that they compare as a number), its length, and the address of
//! its first record. The record is looked at only where windows tie and both keys go on behind them. A window begins
//! after the bytes that the node's two fences have in common: every key that is routed here shares them.
//!
//! Invariant: `skip` is at most the length of the common prefix of the fences; a node with an open side has skip 0.
//! Invariant: the slots' keys strictly ascend.

use std::cmp::Ordering;

use codec::Version;

use super::arena::{Address, Arena};
use super::versions;

/// Slots of a leaf, and separators of an inner node. Measured: windows of 16 bytes take 12 bytes more for an entry and
/// were mostly slower; 32, 48 or 64 slots differ by less than the noise.
pub(super) const LEAF_KEYS: usize = 48;
pub(super) const INNER_KEYS: usize = 32;

/// The bytes of a key that its slot holds.
type Window = u64;
const WINDOW_BYTES: usize = size_of::<Window>();
/// Of the processor's cache, or near enough.
const LINE_BYTES: usize = 64;
/// Windows are made anew, which reads every key of the node, only if they begin this much further on.
const SKIP_GAIN_MIN: usize = WINDOW_BYTES / 4;

/// For links and children that are not in use.
pub(super) const NO_NODE: u32 = u32::MAX;

/// A sorted array of at most `N` keys.
pub(super) struct Keys<const N: usize> {
    len: u16,
    skip: u16,
    windows: [Window; N],
    firsts: [Address; N],
    lens: [u16; N],
}

impl<const N: usize> Keys<N> {
    fn new(skip: u16) -> Keys<N> {
        Keys { len: 0, skip, windows: [0; N], firsts: [Address::NONE; N], lens: [0; N] }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() == N
    }

    /// The address of the first record of slot `slot`'s key.
    #[inline]
    pub(super) fn first(&self, slot: usize) -> Address {
        self.firsts[..self.len()][slot]
    }

    /// Loads what the slots lead to, all at once. Records lie in the order of their writing, so that each is a miss of
    /// its own; when they are read one after the other, each waits for the one before.
    pub(super) fn touch_records(&self, arena: &Arena) {
        let touched = self.firsts[..self.len()].iter().fold(0, |sum, first| sum ^ arena.touch(*first));
        std::hint::black_box(touched);
    }

    /// The first slot whose key is at or above `key` (`len()` if there is none), and whether it is equal.
    #[inline]
    pub(super) fn search(&self, arena: &Arena, key: &[u8]) -> (usize, bool) {
        let skip = usize::from(self.skip);
        let window = window_of(key, skip);
        let windows = &self.windows[..self.len()];
        // Loads every line of the windows at once. The search alone would wait for one after the other.
        std::hint::black_box(
            windows.iter().step_by(LINE_BYTES / WINDOW_BYTES).fold(0, |sum, other| sum ^ other),
        );
        let mut low = windows.partition_point(|other| *other < window);
        if windows.get(low) != Some(&window) {
            return (low, false);
        }
        let mut high = low + 1;
        if windows.get(high) == Some(&window) {
            high += windows[high..].partition_point(|other| *other == window);
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.compare_tied(arena, middle, key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// Whether `key` lies above every key here. For a node without an upper fence.
    #[inline]
    pub(super) fn is_below(&self, arena: &Arena, key: &[u8]) -> bool {
        let Some(last) = self.len().checked_sub(1) else {
            return false;
        };
        match self.windows[last].cmp(&window_of(key, usize::from(self.skip))) {
            Ordering::Less => true,
            Ordering::Equal => self.compare_tied(arena, last, key) == Ordering::Less,
            Ordering::Greater => false,
        }
    }

    /// Compares slot `slot`'s key with `key` where their windows are equal.
    fn compare_tied(&self, arena: &Arena, slot: usize, key: &[u8]) -> Ordering {
        let behind = usize::from(self.skip) + WINDOW_BYTES;
        let len = usize::from(self.lens[slot]);
        if len.min(key.len()) <= behind {
            // One of them ends within the window, which is filled up with zeros: it is the other's prefix.
            return len.cmp(&key.len());
        }
        versions::key(arena, self.firsts[slot])[behind..].cmp(&key[behind..])
    }

    /// Puts `key` into slot `slot` and moves those behind it up.
    #[inline]
    fn insert(&mut self, slot: usize, key: &[u8], first: Address) {
        let len = self.len();
        let window = window_of(key, usize::from(self.skip));
        self.windows[..=len].copy_within(slot..len, slot + 1);
        self.firsts[..=len].copy_within(slot..len, slot + 1);
        self.lens[..=len].copy_within(slot..len, slot + 1);
        self.windows[slot] = window;
        self.firsts[slot] = first;
        self.lens[slot] = u16::try_from(key.len()).expect("keys are at most KEY_BYTES_MAX");
        self.len += 1;
    }

    /// Moves the slots from `from` on to a new array, and leaves those below `keep`.
    fn split(&mut self, keep: usize, from: usize) -> Keys<N> {
        let len = self.len();
        let count = len - from;
        let mut upper = Keys::new(self.skip);
        upper.windows[..count].copy_from_slice(&self.windows[from..len]);
        upper.firsts[..count].copy_from_slice(&self.firsts[from..len]);
        upper.lens[..count].copy_from_slice(&self.lens[from..len]);
        upper.len = u16::try_from(count).expect("N is small");
        self.len = u16::try_from(keep).expect("N is small");
        upper
    }

    /// Lets the windows begin behind what the fences have in common, where that is worth it.
    pub(super) fn narrow(&mut self, arena: &Arena, low: Option<Address>, high: Option<Address>) {
        let (Some(low), Some(high)) = (low, high) else {
            return;
        };
        let common = common_prefix(versions::key(arena, low), versions::key(arena, high));
        if common < usize::from(self.skip) + SKIP_GAIN_MIN {
            return;
        }
        self.skip = u16::try_from(common).expect("keys are at most KEY_BYTES_MAX");
        let len = self.len();
        for (window, first) in self.windows[..len].iter_mut().zip(&self.firsts) {
            *window = window_of(versions::key(arena, *first), common);
        }
    }
}

/// A node of the lowest level: the keys themselves.
pub(super) struct Leaf {
    pub(super) keys: Keys<LEAF_KEYS>,
    pub(super) next: u32,
    pub(super) previous: u32,
    /// No version below this leaf is above it.
    pub(super) newest: Version,
    /// Where the last key was inserted, and how many in a row were inserted each just behind the one before
    /// (positive) or just below it (negative).
    last_slot: u16,
    streak: i16,
}

/// Insertions in a row that make a leaf split where the next one goes, instead of in the middle. So a leaf is left
/// at least this full, and ends all full where keys come in order.
const STREAK_MIN: i16 = LEAF_KEYS as i16 / 4;

impl Leaf {
    pub(super) fn new() -> Leaf {
        Leaf {
            keys: Keys::new(0),
            next: NO_NODE,
            previous: NO_NODE,
            newest: Version(0),
            last_slot: 0,
            streak: 0,
        }
    }

    /// Puts `key` into slot `slot`. The leaf must not be full.
    #[inline]
    pub(super) fn insert(&mut self, slot: usize, key: &[u8], first: Address) {
        let last_slot = usize::from(self.last_slot);
        self.streak = if slot == last_slot + 1 {
            self.streak.max(0).saturating_add(1)
        } else if slot == last_slot {
            self.streak.min(0).saturating_sub(1)
        } else {
            0
        };
        self.last_slot = u16::try_from(slot).expect("LEAF_KEYS is small");
        self.keys.insert(slot, key, first);
    }

    /// Splits a full leaf and puts `key`, whose place was `slot`, into one of the parts. Returns the upper part, not
    /// linked yet. Neither part is empty.
    pub(super) fn split_insert(&mut self, slot: usize, key: &[u8], first: Address) -> Leaf {
        let last_slot = usize::from(self.last_slot);
        let ascending = self.streak >= STREAK_MIN && slot == last_slot + 1;
        let descending = self.streak <= -STREAK_MIN && slot == last_slot;
        let (middle, to_upper) = if ascending {
            (slot, slot == LEAF_KEYS)
        } else if descending {
            (slot, slot > 0)
        } else {
            (LEAF_KEYS / 2, slot > LEAF_KEYS / 2)
        };
        let mut upper = Leaf { keys: self.keys.split(middle, middle), newest: self.newest, ..Leaf::new() };
        let (part, slot) = if to_upper { (&mut upper, slot - middle) } else { (&mut *self, slot) };
        part.insert(slot, key, first);
        if ascending {
            part.streak = STREAK_MIN;
        } else if descending {
            part.streak = -STREAK_MIN;
        } else {
            part.streak = 0;
        }
        upper
    }
}

/// A node above the leaves. Child `i` holds the keys from separator `i - 1` (included) to separator `i` (excluded).
pub(super) struct Inner {
    pub(super) keys: Keys<INNER_KEYS>,
    children: [u32; INNER_KEYS + 1],
}

impl Inner {
    /// A root over two nodes.
    pub(super) fn root(low: u32, separator: &[u8], first: Address, high: u32) -> Inner {
        let mut inner = Inner { keys: Keys::new(0), children: [NO_NODE; INNER_KEYS + 1] };
        inner.children[0] = low;
        inner.insert(0, separator, first, high);
        inner
    }

    #[inline]
    pub(super) fn child(&self, index: usize) -> u32 {
        self.children[..=self.keys.len()][index]
    }

    /// The index of the child that `key` is routed to.
    #[inline]
    pub(super) fn route(&self, arena: &Arena, key: &[u8]) -> usize {
        let (slot, equal) = self.keys.search(arena, key);
        slot + usize::from(equal)
    }

    /// Puts a separator into slot `slot`, and the child above it behind child `slot`. The node must not be full.
    pub(super) fn insert(&mut self, slot: usize, separator: &[u8], first: Address, child: u32) {
        let len = self.keys.len();
        self.children[..=len + 1].copy_within(slot + 1..=len, slot + 2);
        self.children[slot + 1] = child;
        self.keys.insert(slot, separator, first);
    }

    /// Splits a full node and puts the separator and the child above it into one of the parts. Returns the upper
    /// part and the separator that belongs between the parts. At the open end of a level (`at_end`) the lower part
    /// stays full, for keys that come in order.
    pub(super) fn split_insert(
        &mut self,
        slot: usize,
        separator: &[u8],
        first: Address,
        child: u32,
        at_end: bool,
    ) -> (Inner, Address) {
        let mut upper = Inner { keys: Keys::new(self.keys.skip), children: [NO_NODE; INNER_KEYS + 1] };
        if at_end && slot == INNER_KEYS {
            upper.children[0] = child;
            return (upper, first);
        }
        let middle = INNER_KEYS / 2;
        let between = self.keys.first(middle);
        upper.children[..INNER_KEYS - middle].copy_from_slice(&self.children[middle + 1..]);
        upper.keys = self.keys.split(middle, middle + 1);
        if slot <= middle {
            self.insert(slot, separator, first, child);
        } else {
            upper.insert(slot - middle - 1, separator, first, child);
        }
        (upper, between)
    }
}

/// The window of `key` that begins after `skip` bytes, filled up with zeros.
#[inline]
fn window_of(key: &[u8], skip: usize) -> Window {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return Window::from_be_bytes(*bytes);
    }
    let mut bytes = [0; WINDOW_BYTES];
    bytes[..rest.len()].copy_from_slice(rest);
    Window::from_be_bytes(bytes)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
impl<const N: usize> Keys<N> {
    /// Asserts the invariants of a node between the fences given.
    pub(super) fn check(&self, arena: &Arena, low: Option<Address>, high: Option<Address>) {
        let skip = usize::from(self.skip);
        let (low, high) = (low.map(|at| versions::key(arena, at)), high.map(|at| versions::key(arena, at)));
        match (low, high) {
            (Some(low), Some(high)) => assert!(skip <= common_prefix(low, high)),
            _ => assert_eq!(skip, 0),
        }
        let keys: Vec<_> = self.firsts[..self.len()].iter().map(|at| versions::key(arena, *at)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        for (slot, key) in keys.into_iter().enumerate() {
            assert!(low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high));
            assert_eq!(self.windows[slot], window_of(key, skip));
            assert_eq!(usize::from(self.lens[slot]), key.len());
            assert_eq!(self.search(arena, key), (slot, true));
        }
    }

    pub(super) fn skip(&self) -> usize {
        usize::from(self.skip)
    }
}
