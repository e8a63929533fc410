use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

struct Keys {
    keys: Vec<Vec<u8>>,
    at: usize,
}

impl Source for Keys {
    type Error = Infallible;

    fn key(&self) -> Option<&[u8]> {
        self.keys.get(self.at).map(Vec::as_slice)
    }

    fn advance(&mut self) -> Result<(), Infallible> {
        self.at += 1;
        Ok(())
    }

    fn next_key(&self) -> Option<&[u8]> {
        // As between blocks, it does not always know.
        if self.at % 4 == 3 { None } else { self.keys.get(self.at + 1).map(Vec::as_slice) }
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Keys that share heads, are prefixes of one another, or differ by trailing zeros only.
    let tail = proptest::collection::vec(prop_oneof![Just(0u8), Just(1u8), Just(0xff)], 0..4);
    (prop_oneof![Just(0usize), Just(15), Just(16), Just(17), 0usize..20], tail).prop_map(|(zeros, tail)| {
        let mut key = vec![if zeros % 2 == 0 { 0 } else { 0xff }; zeros];
        key.extend(tail);
        key
    })
}

/// All keys, with their sources; `takes_alone` says whether those of one source are taken as they are by a compaction.
fn merged(
    sources: &[BTreeSet<Vec<u8>>],
    direction: Direction,
    takes_alone: bool,
) -> Vec<(Vec<u8>, Vec<usize>)> {
    let sources = sources
        .iter()
        .map(|keys| {
            let mut keys: Vec<_> = keys.iter().cloned().collect();
            if direction == Direction::Reverse {
                keys.reverse();
            }
            Keys { keys, at: 0 }
        })
        .collect();
    let mut merge = Merge::new(sources, direction);
    let mut out = Vec::new();
    loop {
        if takes_alone {
            let group = merge.group().to_vec();
            let Ok(taken) = merge.take_alone(|key, source| {
                assert_eq!(source.key(), Some(key));
                (key.to_vec(), group)
            });
            if let Some(taken) = taken {
                out.push(taken);
                continue;
            }
        }
        let Some(key) = merge.key() else { break };
        out.push((key.to_vec(), merge.group().to_vec()));
        let Ok(()) = merge.advance();
    }
    let Ok(()) = merge.advance();
    assert!(merge.key().is_none() && merge.group().is_empty(), "it stays at its end");
    out
}

proptest! {
    #[test]
    fn every_key_comes_once_in_order_with_its_sources_newest_first(
        sources in proptest::collection::vec(proptest::collection::btree_set(key(), 0..30), 0..9),
    ) {
        let mut wanted: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (index, keys) in sources.iter().enumerate() {
            for key in keys {
                wanted.entry(key.clone()).or_default().push(index);
            }
        }
        let mut wanted: Vec<_> = wanted.into_iter().collect();
        for takes_alone in [false, true] {
            prop_assert_eq!(&merged(&sources, Direction::Forward, takes_alone), &wanted);
        }
        wanted.reverse();
        for takes_alone in [false, true] {
            prop_assert_eq!(&merged(&sources, Direction::Reverse, takes_alone), &wanted);
        }
    }
}

/// Fails at a key, as a damaged block does.
struct Failing {
    left: usize,
    key: [u8; 1],
    failed: bool,
}

impl Source for Failing {
    type Error = &'static str;

    fn key(&self) -> Option<&[u8]> {
        (!self.failed).then_some(&self.key)
    }

    fn advance(&mut self) -> Result<(), &'static str> {
        if self.left == 0 {
            self.failed = true;
            return Err("damaged");
        }
        self.left -= 1;
        self.key[0] += 1;
        Ok(())
    }
}

#[test]
fn a_source_that_fails_ends_the_merge_with_its_error_again_and_again() {
    let source = |left| Failing { left, key: [0], failed: false };
    let mut merge = Merge::new(vec![source(5), source(2), source(9)], Direction::Forward);
    assert_eq!(merge.group(), [0, 1, 2]);
    assert_eq!(merge.advance(), Ok(()));
    assert_eq!(merge.advance(), Ok(()));
    assert_eq!(merge.key(), Some(&[2][..]));
    for _ in 0..3 {
        assert_eq!(merge.advance(), Err("damaged"));
        assert_eq!(merge.key(), None);
    }
}
