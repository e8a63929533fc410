//! Which keys a scan covers, as bounds of bytes.
//!
//! All the keys that start with some bytes lie between those bytes and the least bytes that are greater than all of
//! them. If there are none (the bytes are all `ff`), the upper side is unbounded: nothing is ever "incremented or
//! failed".
//!
//! Invariant: a range made here that contradicts itself is in one form, from the empty key inclusive to the empty key
//! exclusive, which ordered maps take without a panic.
//! Knows the order of keys, not of values: in a descending column greater values come first.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use crate::builder::{put_columns, put_text_open};
use crate::{KeyError, KeyLayout, Value};

/// The keys between two bounds of bytes.
///
/// ```
/// use nyala_encoded_key::{KeyError, KeyLayout, KeyRange, Type, Value};
/// use std::ops::Bound;
/// let layout = KeyLayout::new(vec![Type::U8.into(), Type::String.into()])?;
///
/// let range = KeyRange::prefix(&layout, [Value::Int(255)])?;
/// assert!(range.contains(b"\xff") && range.contains(b"\xffzebra") && !range.contains(b"\xfezebra"));
/// assert_eq!(range.end, Bound::Unbounded);
///
/// let range = KeyRange::starts_with(&layout, [Value::Int(1)], Value::String("ab"))?;
/// assert!(range.contains(b"\x01abc") && !range.contains(b"\x01b"));
///
/// let range = KeyRange::range(
///     &layout,
///     Bound::Excluded(vec![Value::Int(3)]),
///     Bound::Included(vec![Value::Int(5), Value::String("m")]),
/// )?;
/// assert!(!range.contains(b"\x03z") && range.contains(b"\x04") && range.contains(b"\x05m"));
/// assert!(!range.contains(b"\x05ma"));
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it starts.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub const fn all() -> KeyRange {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// No key.
    #[must_use]
    pub const fn none() -> KeyRange {
        KeyRange { start: Bound::Included(Vec::new()), end: Bound::Excluded(Vec::new()) }
    }

    /// This key alone.
    #[must_use]
    pub fn point(key: &[u8]) -> KeyRange {
        KeyRange { start: Bound::Included(key.to_vec()), end: Bound::Included(key.to_vec()) }
    }

    /// The keys whose first columns have these values: all keys if there are none, at most one key if all columns are
    /// given.
    ///
    /// # Errors
    /// As [`crate::KeyBuilder::push`].
    pub fn prefix<'v, V>(
        layout: &KeyLayout,
        values: impl IntoIterator<Item = V>,
    ) -> Result<KeyRange, KeyError>
    where
        V: Borrow<Value<'v>>,
    {
        let tuple = Tuple::encode(layout, values)?;
        Ok(KeyRange::between(tuple.clone().cut_before(), tuple.cut_after()))
    }

    /// The keys whose first columns have these values and whose next column, a string or a binary, starts with `text`.
    ///
    /// # Errors
    /// As [`crate::KeyBuilder::push`]; [`KeyError::NotText`] if the column has another type, and
    /// [`KeyError::MissingColumn`] if there is none.
    pub fn starts_with<'v, V>(
        layout: &KeyLayout,
        values: impl IntoIterator<Item = V>,
        text: Value<'_>,
    ) -> Result<KeyRange, KeyError>
    where
        V: Borrow<Value<'v>>,
    {
        let mut bytes = Vec::new();
        let column = put_columns(layout, values, &mut bytes)?;
        put_text_open(layout, column, &text, &mut bytes)?;
        let all_with_it = Tuple { bytes, complete: false };
        Ok(KeyRange::between(all_with_it.clone().cut_before(), all_with_it.cut_after()))
    }

    /// The keys from `lower` to `upper`, in the order of keys: where a column is descending, from its greater values to
    /// its smaller ones. A bound may have fewer columns than the key; it then stands for all the keys that start with
    /// its columns, and includes or excludes all of them.
    ///
    /// # Errors
    /// As [`crate::KeyBuilder::push`]. Bounds that contradict each other are no error but an empty range.
    pub fn range<'v, I, V>(layout: &KeyLayout, lower: Bound<I>, upper: Bound<I>) -> Result<KeyRange, KeyError>
    where
        I: IntoIterator<Item = V>,
        V: Borrow<Value<'v>>,
    {
        let start = match lower {
            Bound::Unbounded => Cut::Start,
            Bound::Included(values) => Tuple::encode(layout, values)?.cut_before(),
            Bound::Excluded(values) => Tuple::encode(layout, values)?.cut_after(),
        };
        let end = match upper {
            Bound::Unbounded => Cut::End,
            Bound::Included(values) => Tuple::encode(layout, values)?.cut_after(),
            Bound::Excluded(values) => Tuple::encode(layout, values)?.cut_before(),
        };
        Ok(KeyRange::between(start, end))
    }

    /// Whether `key` lies between the bounds.
    ///
    /// ```
    /// use nyala_encoded_key::KeyRange;
    /// assert!(KeyRange::all().contains(b"") && KeyRange::point(b"a").contains(b"a"));
    /// assert!(!KeyRange::none().contains(b"") && !KeyRange::point(b"a").contains(b"a\0"));
    /// ```
    #[must_use]
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains(self, key)
    }

    /// Whether no key can lie between the bounds.
    ///
    /// ```
    /// use nyala_encoded_key::KeyRange;
    /// use std::ops::Bound::{Excluded, Included};
    /// let range = |start: &[u8], end: &[u8]| KeyRange { start: Excluded(start.into()), end: Excluded(end.into()) };
    /// assert!(range(b"b", b"a").is_empty() && range(b"a", b"a").is_empty());
    /// assert!(range(b"a", b"a\0").is_empty() && !range(b"a", b"a\x01").is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded | Bound::Included(_), Bound::Unbounded) => false,
            // The empty key comes first of all.
            (Bound::Unbounded, Bound::Included(_)) => false,
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start), Bound::Excluded(end)) => start >= end,
            (Bound::Excluded(_), Bound::Unbounded) => false,
            (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            // The key right after `start` is `start` and a NUL byte.
            (Bound::Excluded(start), Bound::Excluded(end)) => {
                start >= end || (end.starts_with(start) && end[start.len()..] == [0])
            }
        }
    }

    /// The keys that lie in both ranges.
    ///
    /// ```
    /// use nyala_encoded_key::{KeyLayout, KeyRange, Type, Value};
    /// let layout = KeyLayout::new(vec![Type::String.into()])?;
    /// let start = |text| KeyRange::starts_with(&layout, [] as [Value<'_>; 0], Value::String(text));
    /// assert_eq!(start("a")?.intersect(&start("ab")?), start("ab")?);
    /// assert!(start("a")?.intersect(&start("b")?).is_empty());
    /// # Ok::<(), nyala_encoded_key::KeyError>(())
    /// ```
    #[must_use]
    pub fn intersect(&self, other: &KeyRange) -> KeyRange {
        let start =
            if compare_starts(&self.start, &other.start).is_ge() { &self.start } else { &other.start };
        let end = if compare_ends(&self.end, &other.end).is_le() { &self.end } else { &other.end };
        KeyRange { start: start.clone(), end: end.clone() }.normalized()
    }

    /// Which range starts later.
    #[must_use]
    pub fn compare_starts(&self, other: &KeyRange) -> Ordering {
        compare_starts(&self.start, &other.start)
    }

    /// Takes in `other` if no key lies between the two, and says whether it did. Neither may be empty.
    ///
    /// ```
    /// use nyala_encoded_key::KeyRange;
    /// use std::ops::Bound::{Excluded, Included, Unbounded};
    /// let mut pages = KeyRange { start: Included(b"a".into()), end: Included(b"m".into()) };
    /// assert!(!pages.join(&KeyRange { start: Included(b"n".into()), end: Unbounded }));
    /// assert!(pages.join(&KeyRange { start: Excluded(b"m".into()), end: Unbounded }));
    /// assert_eq!(pages, KeyRange { start: Included(b"a".into()), end: Unbounded });
    /// ```
    pub fn join(&mut self, other: &KeyRange) -> bool {
        debug_assert!(!self.is_empty() && !other.is_empty(), "an empty range touches nothing");
        if !reaches(&self.end, &other.start) || !reaches(&other.end, &self.start) {
            return false;
        }
        if compare_starts(&self.start, &other.start).is_gt() {
            self.start.clone_from(&other.start);
        }
        if compare_ends(&self.end, &other.end).is_lt() {
            self.end.clone_from(&other.end);
        }
        true
    }

    fn between(start: Cut, end: Cut) -> KeyRange {
        let start = match start {
            Cut::Start => Bound::Unbounded,
            Cut::Before(bytes) => Bound::Included(bytes),
            Cut::After(bytes) => Bound::Excluded(bytes),
            Cut::End => return KeyRange::none(),
        };
        let end = match end {
            Cut::Start => return KeyRange::none(),
            Cut::Before(bytes) => Bound::Excluded(bytes),
            Cut::After(bytes) => Bound::Included(bytes),
            Cut::End => Bound::Unbounded,
        };
        KeyRange { start, end }.normalized()
    }

    /// With one form for an empty range and one for an open start.
    fn normalized(self) -> KeyRange {
        if self.is_empty() {
            return KeyRange::none();
        }
        match self.start {
            Bound::Included(start) if start.is_empty() => KeyRange { start: Bound::Unbounded, end: self.end },
            start => KeyRange { start, end: self.end },
        }
    }
}

impl RangeBounds<[u8]> for KeyRange {
    /// For the range of an ordered map. Beware: maps panic on bounds that contradict each other, which ranges that were
    /// put together by hand may have; ask [`KeyRange::is_empty`] first.
    fn start_bound(&self) -> Bound<&[u8]> {
        self.start.as_ref().map(Vec::as_slice)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        self.end.as_ref().map(Vec::as_slice)
    }
}

/// A place between keys.
enum Cut {
    Start,
    /// Before the key of these bytes.
    Before(Vec<u8>),
    /// After the key of these bytes, and before all others that start with them.
    After(Vec<u8>),
    End,
}

/// The first columns of a key, encoded.
#[derive(Clone)]
struct Tuple {
    bytes: Vec<u8>,
    /// Whether these are all the columns, so that the bytes are a key and not the beginning of many.
    complete: bool,
}

impl Tuple {
    fn encode<'v, V>(layout: &KeyLayout, values: impl IntoIterator<Item = V>) -> Result<Tuple, KeyError>
    where
        V: Borrow<Value<'v>>,
    {
        let mut bytes = Vec::with_capacity(layout.bytes_min());
        let columns = put_columns(layout, values, &mut bytes)?;
        Ok(Tuple { bytes, complete: columns == layout.columns().len() })
    }

    /// Before all the keys that it stands for.
    fn cut_before(self) -> Cut {
        Cut::Before(self.bytes)
    }

    /// After all the keys that it stands for.
    fn cut_after(self) -> Cut {
        if self.complete {
            return Cut::After(self.bytes);
        }
        successor(self.bytes).map_or(Cut::End, Cut::Before)
    }
}

/// The least bytes that are greater than all bytes that start with `bytes`; `None` if there are none.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if let Some(greater) = last.checked_add(1) {
            bytes.push(greater);
            return Some(bytes);
        }
    }
    None
}

/// Which start comes later.
fn compare_starts(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
    fn rank(bound: &Bound<Vec<u8>>) -> (Option<&[u8]>, bool) {
        match bound {
            Bound::Unbounded => (None, false),
            Bound::Included(key) => (Some(key), false),
            Bound::Excluded(key) => (Some(key), true),
        }
    }
    rank(a).cmp(&rank(b))
}

/// Which end comes later.
fn compare_ends(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
    fn rank(bound: &Bound<Vec<u8>>) -> (bool, &[u8], bool) {
        match bound {
            Bound::Unbounded => (true, &[], false),
            Bound::Included(key) => (false, key, true),
            Bound::Excluded(key) => (false, key, false),
        }
    }
    rank(a).cmp(&rank(b))
}

/// Whether no key lies behind `end` and before `start`.
fn reaches(end: &Bound<Vec<u8>>, start: &Bound<Vec<u8>>) -> bool {
    match (end, start) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(end), Bound::Excluded(start)) => start < end,
        (Bound::Included(end), Bound::Excluded(start)) => start <= end,
        (Bound::Excluded(end), Bound::Included(start)) => start <= end,
        // The key right after `end` is `end` and a NUL byte.
        (Bound::Included(end), Bound::Included(start)) => {
            start <= end || (start.starts_with(end) && start[end.len()..] == [0])
        }
    }
}

#[cfg(test)]
mod tests;
