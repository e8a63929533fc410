//! How much of what is written takes the place of something older: told by a few keys of each flush, which are looked
//! up in the oldest run.
//!
//! The merges themselves tell it too, but too late: those of newer runs see few keys twice, and the one of all runs
//! is what the answer is wanted for.
//!
//! Invariant: the cost of a flush for this is bounded, however large it is.

use codec::{Version, hash_key};

use crate::tablet::Tablet;

/// How many keys of a flush are looked up, about: enough to tell a tenth from a half.
const KEYS: u64 = 32;
/// Fewer say nothing.
const KEYS_MIN: usize = 8;

/// Keys of a memtable, evenly from all of it.
#[derive(Debug)]
pub(crate) struct KeySample {
    every: u64,
    seen: u64,
    keys: Vec<Vec<u8>>,
}

impl KeySample {
    /// A sample of about so many keys.
    pub(crate) fn of(keys: u64) -> KeySample {
        KeySample { every: keys.div_ceil(KEYS).max(1), seen: 0, keys: Vec::new() }
    }

    /// Takes the next key, or lets it pass.
    #[inline]
    pub(crate) fn offer(&mut self, key: &[u8]) {
        if self.seen.is_multiple_of(self.every) {
            self.keys.push(key.to_vec());
        }
        self.seen += 1;
    }
}

/// Looks up the keys of a flush that was installed in the tablet's oldest run, and notes how many are there.
pub(crate) fn note_overwrites(tablet: &Tablet, sample: &KeySample) {
    let view = tablet.view.pin();
    let [_, .., oldest] = view.runs.as_slice() else { return };
    if sample.keys.len() < KEYS_MIN {
        return;
    }
    let mut found = 0;
    for key in &sample.keys {
        match oldest.lookup(key, hash_key(key), Version::MAX) {
            Ok(entry) => found += u64::from(entry.is_some()),
            Err(error) => {
                // Whoever needs the block will meet the same; here nothing depends on it.
                tracing::debug!(%error, tablet = %tablet.id, "the oldest run cannot be looked at");
                return;
            }
        }
    }
    tablet.compacting.note_overwrites(found, sample.keys.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_small_and_from_everywhere() {
        for count in [1u64, 31, 32, 33, 1000, 1_000_000] {
            let mut sample = KeySample::of(count);
            (0..count).for_each(|key| sample.offer(&key.to_be_bytes()));
            let keys: Vec<u64> =
                sample.keys.iter().map(|key| u64::from_be_bytes(key[..].try_into().expect("8"))).collect();
            assert!(keys.len() as u64 <= KEYS && keys.len() as u64 >= count.min(KEYS / 2), "{}", keys.len());
            assert!(keys.last().is_some_and(|&last| last + count.div_ceil(KEYS) >= count), "{keys:?}");
        }
    }
}
