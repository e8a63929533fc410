//! The keys of a view in order, each with what the reader sees of it.
//!
//! Invariant: sources stand newest first, and all versions of a newer source are above those of an older one; so of the
//! sources that have a key, the first with a version at or below the reader's decides. What a transaction has written
//! itself stands before all of them, as one more memtable.

use std::sync::Arc;

use codec::{Location, SchemaVersion, Version};
use encoded_key::KeyRange;
use pkindex::{CursorOptions, Entry, Merge, Place, RunCursor, Source};
use sstable::Direction;

use super::{NOT_COMMITTED, ReadPoint};
use crate::error::{Error, Result};
use crate::memtable::{Fetch, FoundOp, MemCursor};

/// How far a scan reads ahead in each run. The first block after a seek comes alone, so short scans don't pay for it.
const INDEX_READAHEAD_BYTES: usize = 16 << 10;

/// One source of a scan's merge.
#[expect(
    clippy::large_enum_variant,
    reason = "runs, the larger ones, are the many; a box would be followed per key"
)]
pub(super) enum ViewSource {
    Memory(MemCursor),
    Run(RunCursor),
}

impl Source for ViewSource {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            ViewSource::Memory(cursor) => cursor.key(),
            ViewSource::Run(cursor) => cursor.key(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            ViewSource::Memory(cursor) => Source::advance(cursor),
            ViewSource::Run(cursor) => Ok(cursor.advance()?),
        }
    }
}

/// Where the visible row of a key is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Visible<'a> {
    /// In a memtable.
    Memory { version: Version, schema: SchemaVersion, row: &'a [u8] },
    /// In a rowset.
    Disk { version: Version, location: Location },
}

impl Visible<'_> {
    /// The version that the row was written as; [`NOT_COMMITTED`] if it has none yet.
    #[inline]
    pub(super) fn version(self) -> Version {
        let (Visible::Memory { version, .. } | Visible::Disk { version, .. }) = self;
        version
    }
}

/// The merge of a view's memtables and runs within bounds, one way.
pub(super) struct MergedKeys {
    merge: Merge<ViewSource>,
    /// Whether the first source is what a transaction has written itself.
    has_own: bool,
    at: Version,
}

impl MergedKeys {
    /// Stands at the first key, which need not be a visible one.
    pub(super) fn new(
        point: &ReadPoint,
        range: &KeyRange,
        direction: Direction,
        fetch: Fetch,
    ) -> Result<MergedKeys> {
        let ReadPoint { view, at, own } = point;
        let mut sources = Vec::with_capacity(1 + view.memtables.len() + view.runs.len());
        let has_own = own.as_ref().is_some_and(|own| !own.memtable.is_empty());
        let own = own.iter().map(|own| (&own.memtable, own.at));
        for (memtable, at) in own.chain(view.memtables.iter().map(|memtable| (memtable, *at))) {
            if !memtable.is_empty() {
                sources.push(ViewSource::Memory(MemCursor::with_fetch(
                    Arc::clone(memtable),
                    direction,
                    range,
                    at,
                    fetch,
                )));
            }
        }
        let bounds = (range.start.as_ref().map(Vec::as_slice), range.end.as_ref().map(Vec::as_slice));
        let options = CursorOptions { readahead_bytes: INDEX_READAHEAD_BYTES, ..CursorOptions::default() };
        for run in &view.runs {
            if run.versions().0 <= *at {
                sources.push(ViewSource::Run(run.cursor_with(direction, &bounds, options)?));
            }
        }
        Ok(MergedKeys { merge: Merge::new(sources, direction), has_own, at: *at })
    }

    /// The key it stands at; `None` at the end.
    #[inline]
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.merge.key()
    }

    /// What the reader sees of the key it stands at; `None` if nothing: deleted, or too new.
    #[inline]
    pub(super) fn visible(&self) -> Result<Option<Visible<'_>>> {
        for &source in self.merge.group() {
            match self.merge.source(source) {
                ViewSource::Memory(cursor) => {
                    let found = cursor.found();
                    let version = if self.has_own && source == 0 { NOT_COMMITTED } else { found.version };
                    return Ok(match found.op {
                        FoundOp::Put { schema } => {
                            Some(Visible::Memory { version, schema, row: cursor.row() })
                        }
                        FoundOp::Delete => None,
                    });
                }
                ViewSource::Run(cursor) => {
                    if let Some(Entry { version, place }) = cursor.visible(self.at)? {
                        return Ok(match place {
                            Place::At(location) => Some(Visible::Disk { version, location }),
                            Place::Deleted => None,
                        });
                    }
                }
            }
        }
        Ok(None)
    }

    /// Moves to the next key.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<()> {
        self.merge.advance()
    }
}
