//! Cuts a range of keys into disjoint ranges of similar size, to be scanned in parallel.
//!
//! Sizes are estimated from the block boundaries of the index and, where the memtables hold a good part of the range,
//! from a walk over their keys. Invariant: the ranges are disjoint and together cover the range, in key order, whatever
//! the estimates.

use std::ops::Bound;
use std::sync::Arc;

use encoded_key::KeyRange;
use sstable::Direction;

use super::ReadPoint;
use crate::error::Result;
use crate::memtable::{Fetch, MemCursor};

/// What an entry of a memtable weighs beside the bytes of an index block.
const ENTRY_BYTES: u64 = 24;
/// Memtables are walked if they hold more than this part of what the index holds.
const MEMORY_PART: u64 = 8;

/// Up to here, from the sample before, there are some `weight` bytes.
struct Sample {
    key: Vec<u8>,
    weight: u64,
}

/// Cuts `range` into at most `parts` ranges, at least one. There are fewer if there are too few keys to tell apart.
pub(super) fn split(point: &ReadPoint, range: &KeyRange, parts: usize) -> Result<Vec<KeyRange>> {
    let mut samples = sample_runs(point, range)?;
    let in_runs: u64 = samples.iter().map(|sample| sample.weight).sum();
    let in_memory = point.view.memtables.iter().map(|memtable| memtable.entries() * ENTRY_BYTES).sum::<u64>();
    if in_memory > in_runs / MEMORY_PART {
        sample_memtables(point, range, parts, &mut samples);
    }
    samples.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(cut(range, &cuts(samples, parts)))
}

fn sample_runs(point: &ReadPoint, range: &KeyRange) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let files = point.view.runs.iter().flat_map(|run| run.files());
    for file in files {
        let properties = &file.properties;
        let all = KeyRange {
            start: Bound::Included(properties.first_key.clone()),
            end: Bound::Included(properties.last_key.clone()),
        };
        if all.intersect(range).is_empty() {
            continue;
        }
        for (key, weight) in file.reader.block_boundaries()? {
            if range.contains(&key) {
                samples.push(Sample { key, weight });
            }
        }
    }
    Ok(samples)
}

fn sample_memtables(point: &ReadPoint, range: &KeyRange, parts: usize, samples: &mut Vec<Sample>) {
    let entries: u64 = point.view.memtables.iter().map(|memtable| memtable.entries()).sum();
    // A part is then right to some percents.
    let step = (entries / (parts as u64).saturating_mul(64)).max(1);
    for memtable in &point.view.memtables {
        let mut cursor =
            MemCursor::with_fetch(Arc::clone(memtable), Direction::Forward, range, point.at, Fetch::KeysOnly);
        let mut passed = 0;
        while let Some(key) = cursor.key() {
            passed += 1;
            if passed == step {
                samples.push(Sample { key: key.to_vec(), weight: step * ENTRY_BYTES });
                passed = 0;
            }
            cursor.advance();
        }
    }
}

/// At most `parts` - 1 keys, ascending: each is the last of its part.
fn cuts(samples: Vec<Sample>, parts: usize) -> Vec<Vec<u8>> {
    let total: u128 = samples.iter().map(|sample| u128::from(sample.weight)).sum();
    let parts = parts as u128;
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let (mut below, mut part) = (0, 1);
    for Sample { key, weight } in samples {
        below += u128::from(weight);
        if part < parts && below * parts >= total * part {
            part = below * parts / total.max(1) + 1;
            if below < total && cuts.last() != Some(&key) {
                cuts.push(key);
            }
        }
    }
    cuts
}

/// The parts of `range` between the cuts.
fn cut(range: &KeyRange, cuts: &[Vec<u8>]) -> Vec<KeyRange> {
    let starts = std::iter::once(range.start.clone()).chain(cuts.iter().cloned().map(Bound::Excluded));
    let ends = cuts.iter().cloned().map(Bound::Included).chain([range.end.clone()]);
    starts.zip(ends).map(|(start, end)| KeyRange { start, end }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(weights: &[u64]) -> Vec<Sample> {
        weights.iter().zip(b'a'..).map(|(&weight, key)| Sample { key: vec![key], weight }).collect()
    }

    #[test]
    fn parts_are_of_similar_weight() {
        assert_eq!(cuts(samples(&[1; 6]), 3), [b"b", b"d"]);
        assert_eq!(cuts(samples(&[1; 6]), 1), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(samples(&[10, 1, 1, 1]), 3), [b"a"]);
        assert_eq!(cuts(samples(&[1, 1, 10, 1]), 3), [b"c"]);
        assert_eq!(cuts(samples(&[]), 4), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(samples(&[0, 0]), 4), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(samples(&[1, 1]), 1000), [b"a"]);
    }

    #[test]
    fn cutting_covers_the_range_without_overlap() {
        let range = KeyRange { start: Bound::Included(b"b".to_vec()), end: Bound::Excluded(b"x".to_vec()) };
        let parts = cut(&range, &[b"d".to_vec(), b"m".to_vec()]);
        assert_eq!(parts.len(), 3);
        for key in b'a'..=b'z' {
            let holding = parts.iter().filter(|part| part.contains(&[key])).count();
            assert_eq!(holding, usize::from(range.contains(&[key])), "{}", char::from(key));
        }
    }
}
