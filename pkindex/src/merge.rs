//! The merge: many sorted sources read as one. Scans and compaction share it.
//!
//! Yields each key once, with all the sources that stand on it, newest first. Sources are told apart by their place in
//! the list that the merge was made of, the newest first; the merge itself knows no versions.
//!
//! A source's key is looked at once when the source moves: its first 16 bytes are kept as a number, and only keys that
//! share those are compared in full.
//!
//! Invariant: keys come in strict order of the direction, as long as each source's own keys do.

use std::cmp::Ordering;

use sstable::Direction;

use crate::loser_tree::LoserTree;

/// Something that stands on one key after the other. It is on its first key when it is made.
pub trait Source {
    /// Why it cannot go on.
    type Error;

    /// The key that it stands on; `None` behind the last.
    fn key(&self) -> Option<&[u8]>;

    /// Goes to the next key. Behind the last it does nothing.
    ///
    /// # Errors
    /// If the next key cannot be read. It goes on saying so, and has no key any more.
    fn advance(&mut self) -> Result<(), Self::Error>;

    /// The key after the one that it stands on, if it is at hand already: to go there cannot fail then.
    fn next_key(&self) -> Option<&[u8]> {
        None
    }
}

/// Many sources read as one.
#[derive(Debug)]
pub struct Merge<S> {
    sources: Vec<S>,
    direction: Direction,
    tree: Option<LoserTree>,
    group: Vec<usize>,
}

impl<S: Source> Merge<S> {
    /// A merge of these sources, newest first, which all run in this direction. It stands on the first key.
    #[must_use]
    pub fn new(sources: Vec<S>, direction: Direction) -> Merge<S> {
        let heads: Vec<u128> = sources.iter().map(|source| head(source.key(), direction)).collect();
        let tree =
            (!sources.is_empty()).then(|| LoserTree::new(&heads, |a, b| compare(&sources, direction, a, b)));
        let group = Vec::with_capacity(sources.len());
        let mut merge = Merge { sources, direction, tree, group };
        merge.find_group();
        merge
    }

    /// The key that it stands on; `None` behind the last.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.sources[*self.group.first()?].key()
    }

    /// The sources that stand on this key, newest first; none behind the last key.
    #[must_use]
    #[inline]
    pub fn group(&self) -> &[usize] {
        &self.group
    }

    /// A source, by its place in the list that the merge was made of.
    #[must_use]
    #[inline]
    pub fn source(&self, index: usize) -> &S {
        &self.sources[index]
    }

    /// Its sources, newest first.
    #[must_use]
    pub fn into_sources(self) -> Vec<S> {
        self.sources
    }

    /// Goes to the next key: all the sources of the group move on.
    ///
    /// # Errors
    /// The first error of a source. The merge then has no key, and another call asks the source again.
    #[inline]
    pub fn advance(&mut self) -> Result<(), S::Error> {
        let Merge { sources, direction, tree: Some(tree), group } = self else {
            return Ok(());
        };
        for done in 0..group.len() {
            // The members are equal and come newest first, which is how the tree ranks them.
            let index = group[done];
            debug_assert_eq!(index, tree.winner(), "the next of the group is the winner");
            if let Err(error) = sources[index].advance() {
                group.drain(..done);
                return Err(error);
            }
            let head = head(sources[index].key(), *direction);
            tree.replay(head, |a, b| compare(sources, *direction, a, b));
        }
        self.find_group();
        Ok(())
    }

    /// Hands the key that it stands on to `work`, with its source, and goes to the next key: if only one source stands
    /// on it, and knows its next one. If not, `work` is not called, and the merge stays.
    ///
    /// Does the same as [`Merge::key`] and [`Merge::advance`], but finds out first who comes next, so that a processor
    /// does not have to wait for that when the work is done.
    ///
    /// # Errors
    /// As [`Merge::advance`], after `work`.
    #[inline]
    pub fn take_alone<R>(&mut self, work: impl FnOnce(&[u8], &S) -> R) -> Result<Option<R>, S::Error> {
        let Merge { sources, direction, tree: Some(tree), group } = self else {
            return Ok(None);
        };
        let ([alone], direction) = (&group[..], *direction) else {
            return Ok(None);
        };
        let source = &sources[*alone];
        let (Some(key), Some(next)) = (source.key(), source.next_key()) else {
            return Ok(None);
        };
        let key_of = |index: usize| if index == *alone { Some(next) } else { sources[index].key() };
        tree.replay(head(Some(next), direction), |a, b| compare_keys(key_of(a), key_of(b), direction));
        let done = work(key, source);
        sources[*alone].advance()?;
        self.find_group();
        Ok(Some(done))
    }

    #[inline]
    fn find_group(&mut self) {
        self.group.clear();
        // A key may have the greatest head there is, but only then there may be none.
        if let Some(tree) = &self.tree
            && (tree.winner_head() != u128::MAX || self.sources[tree.winner()].key().is_some())
        {
            tree.equals(&mut self.group);
        }
    }
}

const HEAD_BYTES: usize = 16;

/// The first bytes of a key as a number that is smaller for a key that comes earlier; the greatest without a key.
#[inline]
fn head(key: Option<&[u8]>, direction: Direction) -> u128 {
    let Some(key) = key else {
        return u128::MAX;
    };
    let bytes = match key.first_chunk::<HEAD_BYTES>() {
        Some(bytes) => *bytes,
        None => {
            let mut bytes = [0; HEAD_BYTES];
            bytes[..key.len()].copy_from_slice(key);
            bytes
        }
    };
    let number = u128::from_be_bytes(bytes);
    match direction {
        Direction::Forward => number,
        Direction::Reverse => !number,
    }
}

fn compare<S: Source>(sources: &[S], direction: Direction, a: usize, b: usize) -> Ordering {
    compare_keys(sources[a].key(), sources[b].key(), direction)
}

/// Compares what has the same head. A short key's head is filled up with zeros, so that a longer key may share it.
fn compare_keys(a: Option<&[u8]>, b: Option<&[u8]>, direction: Direction) -> Ordering {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, None) => return Ordering::Equal,
        (None, Some(_)) => return Ordering::Greater,
        (Some(_), None) => return Ordering::Less,
    };
    let order = match (a.get(HEAD_BYTES..), b.get(HEAD_BYTES..)) {
        (Some(a), Some(b)) => a.cmp(b),
        _ => a.cmp(b),
    };
    match direction {
        Direction::Forward => order,
        Direction::Reverse => order.reverse(),
    }
}

#[cfg(test)]
mod tests;
