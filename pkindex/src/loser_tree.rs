//! A tournament of k contestants that remembers the losers: the winner is known at once, and after the winner has
//! changed, the next one costs one match on each level.
//!
//! A contestant is known by its head, a number: the smaller one wins. Only for equal heads those who play are asked how
//! they compare. Of two equal contestants the lower number wins, and the tree remembers that they were equal, so that
//! all who are equal to the winner are found without a match.
//!
//! Which of two different heads is smaller cannot be foreseen, so it is not branched on.
//!
//! Layout: node `i` has the children `2i` and `2i + 1`; nodes `1..k` are matches, nodes `k..2k` the contestants. Node
//! `1` is the final.
//!
//! Invariant: each match was played between its loser and whoever came out of its other side.

use std::cmp::Ordering;

/// A contestant with its head.
#[derive(Clone, Copy, Debug, Default)]
struct Player {
    head: u128,
    contestant: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Match {
    loser: Player,
    /// Whether the loser was equal to the winner.
    tie: bool,
}

#[derive(Debug)]
pub(crate) struct LoserTree {
    contestants: usize,
    matches: Vec<Match>,
    winner: usize,
    winner_head: u128,
    /// The matches that ended in a tie, by their nodes' numbers, as far as bits reach. The first bit, of a node that
    /// there is not, says that there are more matches than bits.
    ties: u64,
    /// The matches that each contestant can come to play, likewise.
    paths: Vec<u64>,
}

impl LoserTree {
    /// Plays the whole tournament of contestants with these heads, at least one. `compare` is asked for two of the same
    /// head.
    pub(crate) fn new(heads: &[u128], compare: impl Fn(usize, usize) -> Ordering) -> LoserTree {
        let contestants = heads.len();
        assert!(contestants > 0, "a tournament needs contestants");
        let mut tree = LoserTree {
            contestants,
            matches: vec![Match::default(); contestants],
            winner: 0,
            winner_head: 0,
            ties: u64::from(contestants > u64::BITS as usize),
            paths: (0..contestants).map(|contestant| path(contestants, contestant)).collect(),
        };
        // Who came out of each node, contestants included. Children have higher numbers than their parents.
        let mut out = vec![Player::default(); 2 * contestants];
        for (contestant, &head) in heads.iter().enumerate() {
            out[contestants + contestant] = Player { head, contestant };
        }
        for node in (1..contestants).rev() {
            let (winner, result) = play(out[2 * node], out[2 * node + 1], &compare);
            out[node] = winner;
            tree.matches[node] = result;
            tree.ties |= bit(node) * u64::from(result.tie);
        }
        (tree.winner, tree.winner_head) = (out[1].contestant, out[1].head);
        tree
    }

    #[inline]
    pub(crate) fn winner(&self) -> usize {
        self.winner
    }

    #[inline]
    pub(crate) fn winner_head(&self) -> u128 {
        self.winner_head
    }

    /// Plays the winner's matches again, after its head has changed to this one.
    #[inline]
    pub(crate) fn replay(&mut self, head: u128, compare: impl Fn(usize, usize) -> Ordering) {
        let mut champion = Player { head, contestant: self.winner };
        let mut node = (self.contestants + champion.contestant) / 2;
        let mut ties = self.ties & (!self.paths[self.winner] | 1);
        while node > 0 {
            let place = &mut self.matches[node];
            let (winner, result) = play(champion, place.loser, &compare);
            champion = winner;
            *place = result;
            ties |= bit(node) * u64::from(result.tie);
            node /= 2;
        }
        self.ties = ties;
        (self.winner, self.winner_head) = (champion.contestant, champion.head);
    }

    /// Whether nobody is equal to the winner. May say no although it is so.
    #[inline]
    fn is_alone(&self) -> bool {
        self.ties & self.paths[self.winner] == 0
    }

    /// Appends the winner and all that are equal to it to `equals`, in ascending order.
    #[inline]
    pub(crate) fn equals(&self, equals: &mut Vec<usize>) {
        let before = equals.len();
        equals.push(self.winner);
        if self.is_alone() {
            return;
        }
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
                equals.push(loser.contestant);
                self.tied_below(loser.contestant, node, equals);
            }
            node /= 2;
        }
    }
}

/// The bit of a node; none if bits do not reach so far.
#[inline]
fn bit(node: usize) -> u64 {
    u64::from(node < u64::BITS as usize) << (node % u64::BITS as usize)
}

/// The bits of the nodes that a contestant can come to, and the first one.
fn path(contestants: usize, contestant: usize) -> u64 {
    let nodes = std::iter::successors(Some((contestants + contestant) / 2), |node| Some(node / 2));
    nodes.take_while(|&node| node > 0).fold(1, |path, node| path | bit(node))
}

#[inline]
fn play(a: Player, b: Player, compare: &impl Fn(usize, usize) -> Ordering) -> (Player, Match) {
    if a.head != b.head {
        let wins = a.head < b.head;
        let pick = |wins: bool| Player {
            head: if wins { a.head } else { b.head },
            contestant: if wins { a.contestant } else { b.contestant },
        };
        return (pick(wins), Match { loser: pick(!wins), tie: false });
    }
    match compare(a.contestant, b.contestant) {
        Ordering::Less => (a, Match { loser: b, tie: false }),
        Ordering::Greater => (b, Match { loser: a, tie: false }),
        Ordering::Equal if a.contestant < b.contestant => (a, Match { loser: b, tie: true }),
        Ordering::Equal => (b, Match { loser: a, tie: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_winner_is_the_smallest_and_its_equals_are_found(
            mut lists in prop_oneof![
                proptest::collection::vec(proptest::collection::vec(0u8..12, 0..12), 1..20),
                proptest::collection::vec(proptest::collection::vec(0u8..40, 0..3), 60..70),
            ],
        ) {
            for list in &mut lists {
                list.sort_unstable_by(|a, b| b.cmp(a));
            }
            // `None` is what a contestant has when its list is used up: greater than all. Heads tell values apart only
            // by pairs, as the first bytes of keys do.
            let value = |lists: &[Vec<u8>], i: usize| lists[i].last().map_or(u32::MAX, |&v| u32::from(v));
            let head = |lists: &[Vec<u8>], i: usize| u128::from(value(lists, i) / 2);
            let heads: Vec<u128> = (0..lists.len()).map(|i| head(&lists, i)).collect();
            let mut tree = LoserTree::new(&heads, |a, b| value(&lists, a).cmp(&value(&lists, b)));
            let mut equals = Vec::new();
            for _ in 0..lists.iter().map(Vec::len).sum::<usize>() {
                let smallest = (0..lists.len()).map(|i| value(&lists, i)).min().expect("at least one list");
                let wanted: Vec<usize> = (0..lists.len()).filter(|&i| value(&lists, i) == smallest).collect();
                equals.clear();
                tree.equals(&mut equals);
                prop_assert_eq!(&equals, &wanted);
                prop_assert_eq!(tree.winner(), wanted[0]);
                lists[tree.winner()].pop();
                let next = head(&lists, tree.winner());
                tree.replay(next, |a, b| value(&lists, a).cmp(&value(&lists, b)));
            }
            prop_assert!(lists.iter().all(Vec::is_empty));
        }
    }
}
