//! Whether a block was asked for before, and not long ago.
//!
//! Remembers the last few thousand blocks that were asked for and not held, each in the place that its hash gives,
//! where the next with the same place takes over. So it forgets by itself, the sooner the more different blocks are
//! asked for, and needs no lock. It may forget early, and it may mix up two blocks: both cost a little time, nothing
//! else.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many blocks it remembers at most: few against the blocks of a cache of usual size, so that of many blocks which
/// are asked for equally often only few get in.
const PLACES: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct Doorkeeper {
    seen: Box<[AtomicU32]>,
}

impl Default for Doorkeeper {
    fn default() -> Doorkeeper {
        Doorkeeper { seen: (0..PLACES).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Doorkeeper {
    /// Whether it remembers the block with this hash. If not, it does from now on.
    #[inline]
    pub(super) fn knows(&self, hash: u64) -> bool {
        let place = &self.seen[hash as usize % PLACES];
        let tag = (hash >> 32) as u32;
        if place.load(Ordering::Relaxed) == tag {
            return true;
        }
        place.store(tag, Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        codec::hash_key(&number.to_le_bytes()).0
    }

    #[test]
    fn a_block_is_known_the_second_time() {
        let doorkeeper = Doorkeeper::default();
        assert!(!doorkeeper.knows(hash(1)));
        assert!(doorkeeper.knows(hash(1)));
        assert!(!doorkeeper.knows(hash(2)));
    }

    #[test]
    fn many_blocks_that_come_in_turn_stay_unknown() {
        let doorkeeper = Doorkeeper::default();
        let blocks = 20 * PLACES as u64;
        let known = (0..3).flat_map(|_| 0..blocks).filter(|&block| doorkeeper.knows(hash(block))).count();
        assert!(known < 100, "{known}");
    }
}
