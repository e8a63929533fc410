//! Seeded randomness whose sequence never changes, so that a seed in a failure report replays for ever.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// One sequence for each pair of numbers.
    pub(super) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed);
        Random(random.next() ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..end`; 0 if that is empty. The bias is far below what a test could see.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
