//! A small seeded generator (splitmix64): the same seed gives the same run.
#![allow(dead_code, reason = "each test binary asks for a part of it")]

use std::ops::Range;

/// A source of numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// One of many that a seed has.
    pub(crate) fn stream(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed);
        Random(random.next() ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// A generator whose numbers follow from all of `parts`.
    pub(crate) fn of(parts: &[u64]) -> Random {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for part in parts {
            random.0 ^= part.wrapping_mul(0xff51_afd7_ed55_8ccd);
            random.0 = random.next();
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A place below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.number(bound as u64) as usize
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn number(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn within(&mut self, range: Range<i64>) -> i64 {
        range.start + self.below((range.end - range.start) as usize) as i64
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
