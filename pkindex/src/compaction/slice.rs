//! One slice of a compaction: a range of keys, merged from all the inputs into files of its own.
//!
//! Has its own cursors, buffers, writer and hook, and shares nothing that is written to with other slices. The memory
//! of its cursors and its writer goes on to a slice that begins later.

use codec::Location;
use sstable::{Caching, Direction, WriterScratch};

use crate::cursor::CursorOptions;
use crate::entry::Entry;
use crate::error::{BoxError, Error, Result};
use crate::merge::Merge;
use crate::merger::{KeyValueMerger, MergeCounts, Merged, Relocate};
use crate::stream::{RunStream, StreamScratch};
use crate::writer::{RunWriter, WrittenFile};

use super::Shared;
use super::split::Range;

/// What a slice gave.
#[derive(Debug)]
pub(super) struct SliceOutcome {
    pub(super) files: Vec<WrittenFile>,
    pub(super) counts: MergeCounts,
}

/// The memory that a slice works with. There are as many as slices at the same time.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    streams: Vec<StreamScratch>,
    writer: WriterScratch,
}

/// Every how many keys a slice looks whether it shall go on.
const KEYS_BETWEEN_CHECKS: u32 = 256;

/// Merges the keys of `range`. Leaves no file behind if it fails.
pub(super) fn run(shared: &Shared<'_>, index: usize, range: &Range) -> Result<SliceOutcome> {
    let compaction = shared.compaction;
    shared.check_cancelled()?;
    let mut relocate: Box<dyn Relocate> = match compaction.moving.is_empty() {
        true => Box::new(NothingMoves),
        false => (shared.relocate)(index),
    };
    let Scratch { mut streams, writer } = shared.take_scratch();
    let mut merger = KeyValueMerger::new(&compaction.retention, compaction.base, &compaction.moving);
    let mut writer = RunWriter::with_scratch(shared.output, &compaction.options.run, writer);
    let merged = merge_range(shared, range, &mut streams, &mut merger, relocate.as_mut(), &mut writer);
    // Rows first: an index file that is there in full never points to rows that are not.
    let merged = merged.and_then(|()| relocate.finish().map_err(|error| Error::Relocate(error.into())));
    let (files, writer) = match merged {
        Ok(()) => writer.finish_with_scratch(),
        Err(error) => (Err(error), writer.abandon_with_scratch()),
    };
    shared.give_scratch(Scratch { streams, writer });
    Ok(SliceOutcome { files: files?, counts: merger.into_counts() })
}

fn merge_range(
    shared: &Shared<'_>,
    range: &Range,
    scratch: &mut Vec<StreamScratch>,
    merger: &mut KeyValueMerger<'_>,
    relocate: &mut dyn Relocate,
    writer: &mut RunWriter<'_>,
) -> Result<()> {
    let compaction = shared.compaction;
    // What a compaction reads is about to go: the cache is for those who read.
    let reading =
        CursorOptions { readahead_bytes: compaction.options.readahead_bytes, caching: Caching::Leave };
    let streams = compaction
        .inputs
        .iter()
        .map(|run| {
            let StreamScratch { iter, entries } = scratch.pop().unwrap_or_default();
            let cursor = run.cursor_reusing(Direction::Forward, &range.bounds(), reading, iter)?;
            RunStream::reusing(cursor, entries)
        })
        .collect::<Result<Vec<RunStream>>>()?;
    let mut merge = Merge::new(streams, Direction::Forward);
    let mut until_check = KEYS_BETWEEN_CHECKS;
    loop {
        let taken = merge.take_alone(|key, stream| -> Result<()> {
            let list = stream.value();
            match merger.pass(list) {
                Some(entry) => writer.add_encoded(key, list, &[entry]),
                None => write(key, std::iter::once(stream), merger, relocate, writer),
            }
        })?;
        match taken {
            Some(written) => written?,
            None => {
                let Some(key) = merge.key() else { break };
                let streams = merge.group().iter().map(|&source| merge.source(source));
                write(key, streams, merger, relocate, writer)?;
                merge.advance()?;
            }
        }
        until_check -= 1;
        if until_check == 0 {
            shared.check_cancelled()?;
            until_check = KEYS_BETWEEN_CHECKS;
        }
    }
    // A source that cannot go on has no key either; its error comes again when it is asked.
    merge.advance()?;
    scratch.extend(merge.into_sources().into_iter().map(RunStream::into_scratch));
    Ok(())
}

/// Merges the lists of a key, which these streams stand on, the newest first, and writes what is left.
#[inline]
fn write<'s>(
    key: &[u8],
    streams: impl ExactSizeIterator<Item = &'s RunStream> + Clone,
    merger: &mut KeyValueMerger<'_>,
    relocate: &mut dyn Relocate,
    writer: &mut RunWriter<'_>,
) -> Result<()> {
    let lists = streams.clone().map(|stream| (stream.file(), stream.value()));
    match merger.merge(key, lists, relocate)? {
        Merged::Pass(entry) => {
            let newest = streams.map(RunStream::value).next().expect("a key has a list");
            writer.add_encoded(key, newest, &[entry])
        }
        Merged::List(entries) => writer.add(key, None, entries),
        Merged::Nothing => Ok(()),
    }
}

/// The hook of a compaction that moves no rows.
struct NothingMoves;

impl Relocate for NothingMoves {
    fn relocate(&mut self, _key: &[u8], _entry: Entry, from: Location) -> Result<Location, BoxError> {
        unreachable!("no rowset is being moved, not that of {from} either")
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}
