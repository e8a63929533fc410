//! A tournament of k contestants that remembers the losers: the winner is known at once, and after the winner has
//! changed, the next one costs one match on each level.
//!
//! Knows nothing of keys: who plays says how two contestants compare. Of two equal ones the lower number wins, and the
//! tree remembers that they were equal, so that all who are equal to the winner are found without a match.
//!
//! Layout: node `i` has the children `2i` and `2i + 1`; nodes `1..k` are matches, nodes `k..2k` the contestants. Node
//! `1` is the final.
//!
//! Invariant: each match was played between its loser and whoever came out of its other side.

use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, Default)]
struct Match {
    loser: usize,
    /// Whether the loser was equal to the winner.
    tie: bool,
}

#[derive(Debug)]
pub(crate) struct LoserTree {
    contestants: usize,
    matches: Vec<Match>,
    winner: usize,
}

impl LoserTree {
    /// Plays the whole tournament of `contestants`, at least one.
    pub(crate) fn new(contestants: usize, compare: impl Fn(usize, usize) -> Ordering) -> LoserTree {
        assert!(contestants > 0, "a tournament needs contestants");
        let mut tree = LoserTree { contestants, matches: vec![Match::default(); contestants], winner: 0 };
        // Who came out of each node, contestants included. Children have higher numbers than their parents.
        let mut out: Vec<usize> = vec![0; 2 * contestants];
        for (contestant, slot) in out[contestants..].iter_mut().enumerate() {
            *slot = contestant;
        }
        for node in (1..contestants).rev() {
            let (winner, result) = play(out[2 * node], out[2 * node + 1], &compare);
            out[node] = winner;
            tree.matches[node] = result;
        }
        tree.winner = if contestants == 1 { 0 } else { out[1] };
        tree
    }

    #[inline]
    pub(crate) fn winner(&self) -> usize {
        self.winner
    }

    /// Plays the winner's matches again, after its value has changed.
    #[inline]
    pub(crate) fn replay(&mut self, compare: impl Fn(usize, usize) -> Ordering) {
        let mut champion = self.winner;
        let mut node = (self.contestants + champion) / 2;
        while node > 0 {
            let (winner, result) = play(champion, self.matches[node].loser, &compare);
            champion = winner;
            self.matches[node] = result;
            node /= 2;
        }
        self.winner = champion;
    }

    /// Appends the winner and all that are equal to it to `equals`, in ascending order.
    #[inline]
    pub(crate) fn equals(&self, equals: &mut Vec<usize>) {
        let before = equals.len();
        equals.push(self.winner);
        self.tied_below(self.winner, 0, equals);
        if equals.len() - before > 2 {
            equals[before..].sort_unstable();
        }
    }

    /// Appends those that lost by a tie to `contestant`, or to one who did, in the matches below node `top`.
    ///
    /// Whoever is equal to the winner has lost one match, to one who is equal too, so that nobody is missed.
    fn tied_below(&self, contestant: usize, top: usize, equals: &mut Vec<usize>) {
        let mut node = (self.contestants + contestant) / 2;
        while node > top {
            let Match { loser, tie } = self.matches[node];
            if tie {
                equals.push(loser);
                self.tied_below(loser, node, equals);
            }
            node /= 2;
        }
    }
}

#[inline]
fn play(a: usize, b: usize, compare: &impl Fn(usize, usize) -> Ordering) -> (usize, Match) {
    match compare(a, b) {
        Ordering::Less => (a, Match { loser: b, tie: false }),
        Ordering::Greater => (b, Match { loser: a, tie: false }),
        Ordering::Equal => (a.min(b), Match { loser: a.max(b), tie: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_winner_is_the_smallest_and_its_equals_are_found(
            mut lists in proptest::collection::vec(proptest::collection::vec(0u8..12, 0..12), 1..20),
        ) {
            for list in &mut lists {
                list.sort_unstable_by(|a, b| b.cmp(a));
            }
            // `None` is what a contestant has when its list is used up: greater than all.
            let head = |lists: &[Vec<u8>], i: usize| lists[i].last().map_or(u32::MAX, |&v| u32::from(v));
            let mut tree = LoserTree::new(lists.len(), |a, b| head(&lists, a).cmp(&head(&lists, b)));
            let mut equals = Vec::new();
            for _ in 0..lists.iter().map(Vec::len).sum::<usize>() {
                let smallest = (0..lists.len()).map(|i| head(&lists, i)).min().expect("at least one list");
                let wanted: Vec<usize> = (0..lists.len()).filter(|&i| head(&lists, i) == smallest).collect();
                equals.clear();
                tree.equals(&mut equals);
                prop_assert_eq!(&equals, &wanted);
                prop_assert_eq!(tree.winner(), wanted[0]);
                lists[tree.winner()].pop();
                tree.replay(|a, b| head(&lists, a).cmp(&head(&lists, b)));
            }
            prop_assert!(lists.iter().all(Vec::is_empty));
        }
    }
}
