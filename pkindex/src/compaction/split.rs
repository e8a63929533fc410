//! Cuts a compaction into slices: ranges of keys that are merged apart from each other.
//!
//! First come the files that move whole; what lies between them is cut at the ends of blocks, so that slices are of
//! about the same size without reading a single entry. Any key would be a legal cut: what a slice covers is decided by
//! its bounds, never by the samples.
//!
//! Invariant: the pieces cover all keys, from no lower bound to no upper one, each key once.
//! Invariant: no file that is merged has keys within a file that moves whole.

use std::ops::Bound;
use std::sync::Arc;

use sstable::Caching;

use crate::cursor::Bounds;
use crate::error::{Error, Result};
use crate::file::IndexFile;

use super::Compaction;

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: Bound<Vec<u8>>,
    pub(super) end: Bound<Vec<u8>>,
}

impl Range {
    pub(super) fn bounds(&self) -> Bounds<'_> {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }

    fn is_above_start(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) => &start[..] <= key,
            Bound::Excluded(start) => &start[..] < key,
        }
    }

    fn is_below_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= &end[..],
            Bound::Excluded(end) => key < &end[..],
        }
    }

    fn overlaps(&self, file: &IndexFile) -> bool {
        self.is_above_start(file.last_key()) && self.is_below_end(file.first_key())
    }
}

/// A part of the key space.
#[derive(Debug)]
pub(super) enum Piece {
    /// To be merged.
    Slice(Range),
    /// No input has keys here.
    Empty(Range),
    /// This file, as it is.
    Whole(Arc<IndexFile>),
}

/// The pieces of a compaction, in key order.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) pieces: Vec<Piece>,
    /// The files that are merged.
    pub(super) merged: Vec<Arc<IndexFile>>,
}

/// The end of a block or of several, and how many bytes they take.
#[derive(Debug)]
struct Sample {
    last_key: Vec<u8>,
    bytes: u64,
}

/// How many samples a slice should have at least, so that slices come out even.
const SAMPLES_A_SLICE: u64 = 16;

impl Plan {
    pub(super) fn new(compaction: &Compaction) -> Result<Plan> {
        let (whole, merged) = choose_whole(compaction);
        let options = &compaction.options;
        let bytes: u64 = merged.iter().map(|file| file.info.len).sum();
        // A slice a little smaller than a file, so that it does not end in a file and a crumb.
        let slice_bytes_max = (options.run.file_bytes / 8 * 7).max(options.slice_bytes_min);
        let slice_bytes =
            (bytes / options.slices.max(1) as u64).clamp(options.slice_bytes_min, slice_bytes_max).max(1);
        let samples = sample(&merged, slice_bytes)?;

        let mut pieces = Vec::new();
        let mut start = Bound::Unbounded;
        for file in whole {
            let end = Bound::Excluded(file.first_key().to_vec());
            let next = Bound::Excluded(file.last_key().to_vec());
            cut(Range { start, end }, &merged, &samples, slice_bytes, &mut pieces);
            pieces.push(Piece::Whole(file));
            start = next;
        }
        cut(Range { start, end: Bound::Unbounded }, &merged, &samples, slice_bytes, &mut pieces);
        Ok(Plan { pieces, merged })
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = &Range> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Slice(range) => Some(range),
            Piece::Empty(_) | Piece::Whole(_) => None,
        })
    }

    /// The files that move whole, in key order.
    pub(super) fn whole(&self) -> impl Iterator<Item = &Arc<IndexFile>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Whole(file) => Some(file),
            Piece::Slice(_) | Piece::Empty(_) => None,
        })
    }

    /// Checks that the pieces cover all keys, each once, and that what is taken for empty is.
    pub(super) fn check_coverage(&self) -> Result<()> {
        let slices = self.pieces.len();
        let mut next = Bound::Unbounded;
        for (slice, piece) in self.pieces.iter().enumerate() {
            let wrong = |reason| Err(Error::Slices { slice, slices, reason });
            let (start, end) = match piece {
                Piece::Slice(range) | Piece::Empty(range) => range.bounds(),
                Piece::Whole(file) => (Bound::Included(file.first_key()), Bound::Included(file.last_key())),
            };
            if start != next {
                return wrong("it does not begin where the one before it ends");
            }
            next = match end {
                Bound::Included(key) => Bound::Excluded(key),
                Bound::Excluded(key) => Bound::Included(key),
                Bound::Unbounded if slice + 1 == slices => return Ok(()),
                Bound::Unbounded => return wrong("it has no end but is not the last"),
            };
            match piece {
                Piece::Empty(range) if self.merged.iter().any(|file| range.overlaps(file)) => {
                    return wrong("it is taken for empty, but an input has keys there");
                }
                _ => {}
            }
        }
        Err(Error::Slices { slice: slices, slices, reason: "the last one has an end" })
    }
}

/// The inputs' files that move whole, and those that are merged; both in key order.
fn choose_whole(compaction: &Compaction) -> (Vec<Arc<IndexFile>>, Vec<Arc<IndexFile>>) {
    let mut files: Vec<&Arc<IndexFile>> = compaction.inputs.iter().flat_map(|run| run.files()).collect();
    files.sort_by(|a, b| a.first_key().cmp(b.first_key()));
    let mut whole = Vec::new();
    let mut merged = Vec::new();
    // The greatest key of the files so far: a file that starts above it overlaps none of them.
    let mut greatest: Option<&[u8]> = None;
    for (index, file) in files.iter().enumerate() {
        let alone_before = greatest.is_none_or(|greatest| greatest < file.first_key());
        let alone_after = files.get(index + 1).is_none_or(|next| file.last_key() < next.first_key());
        greatest = greatest.max(Some(file.last_key()));
        if alone_before && alone_after && compaction.can_move_whole(file) {
            whole.push(Arc::clone(file));
        } else {
            merged.push(Arc::clone(file));
        }
    }
    (whole, merged)
}

/// The ends of the blocks of `files`, thinned out, in key order.
fn sample(files: &[Arc<IndexFile>], slice_bytes: u64) -> Result<Vec<Sample>> {
    let sample_bytes = slice_bytes / SAMPLES_A_SLICE;
    let mut samples = Vec::new();
    for file in files {
        let mut bytes = 0;
        file.reader.for_each_block(Caching::Leave, |last_key, block_bytes| {
            bytes += block_bytes;
            if bytes >= sample_bytes {
                samples.push(Sample { last_key: last_key.to_vec(), bytes });
                bytes = 0;
            }
        })?;
        if bytes > 0 {
            samples.push(Sample { last_key: file.last_key().to_vec(), bytes });
        }
    }
    samples.sort_by(|a, b| a.last_key.cmp(&b.last_key));
    Ok(samples)
}

/// Cuts a range into slices of about `slice_bytes` and appends them to `pieces`.
fn cut(
    range: Range,
    merged: &[Arc<IndexFile>],
    samples: &[Sample],
    slice_bytes: u64,
    pieces: &mut Vec<Piece>,
) {
    // `merged` is in order of first keys only, so that all are asked.
    if !merged.iter().any(|file| range.overlaps(file)) {
        pieces.push(Piece::Empty(range));
        return;
    }
    let within = &samples[samples.partition_point(|sample| !range.is_above_start(&sample.last_key))..];
    let within = &within[..within.partition_point(|sample| range.is_below_end(&sample.last_key))];
    let mut left: u64 = within.iter().map(|sample| sample.bytes).sum();
    let mut start = range.start;
    let mut bytes = 0;
    for sample in within {
        bytes += sample.bytes;
        left -= sample.bytes;
        // A last slice of less than half the size is left with its neighbour.
        if bytes < slice_bytes || left < slice_bytes / 2 || is_excluded(&start, &sample.last_key) {
            continue;
        }
        let end = Bound::Included(sample.last_key.clone());
        pieces.push(Piece::Slice(Range { start, end }));
        start = Bound::Excluded(sample.last_key.clone());
        bytes = 0;
    }
    pieces.push(Piece::Slice(Range { start, end: range.end }));
}

/// Whether a slice from `start` through `key` would have no keys.
fn is_excluded(start: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    matches!(start, Bound::Excluded(start) if &start[..] >= key)
}

#[cfg(test)]
mod tests;
