//! Whether anything was written since a version: what a transaction asks of what it has read.
//!
//! Invariant: whatever was applied before the view was pinned is seen, published or not; nothing that a view holds
//! above a version is missed. (A key that came and went again may be forgotten by then; its reader saw what is there
//! now.)
//!
//! Memtables and runs without a version above the one asked for are not looked at, so that a question about the last
//! moments touches memory alone.

use std::sync::Arc;

use codec::Version;
use encoded_key::{KeyProbe, KeyRange};
use pkindex::{CursorOptions, Run, Source};
use sstable::Direction;

use crate::error::Result;
use crate::memtable::Memtable;
use crate::view::TabletView;

/// How far the check of a range reads ahead in each run.
const READAHEAD_BYTES: usize = 64 << 10;

/// The newest version of a key above `since`, and whether it is a deletion; `None` if there is none.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn key_since(
    view: &TabletView,
    probe: &KeyProbe<'_>,
    since: Version,
) -> Result<Option<(Version, bool)>> {
    if let Some((version, is_deleted)) = key_in_memory_since(view, probe.key(), since) {
        return Ok(Some((version, is_deleted)));
    }
    for run in runs_since(view, since) {
        if let Some(entry) = run.lookup(probe.key(), probe.hash(), Version::MAX)? {
            return Ok((entry.version > since).then_some((entry.version, entry.is_deletion())));
        }
    }
    Ok(None)
}

/// [`key_since`] of the memtables alone.
pub(crate) fn key_in_memory_since(view: &TabletView, key: &[u8], since: Version) -> Option<(Version, bool)> {
    memtables_since(view, since)
        .find_map(|memtable| memtable.newest(key))
        .filter(|(version, _)| *version > since)
}

/// A version above `since` of a key within `range`; `None` if there is none.
///
/// # Errors
/// `Corruption`, `Io`.
pub(crate) fn range_since(view: &TabletView, range: &KeyRange, since: Version) -> Result<Option<Version>> {
    if let Some(version) = range_in_memory_since(view, range, since) {
        return Ok(Some(version));
    }
    let bounds = (range.start.as_ref().map(Vec::as_slice), range.end.as_ref().map(Vec::as_slice));
    let options = CursorOptions { readahead_bytes: READAHEAD_BYTES, ..CursorOptions::default() };
    for run in runs_since(view, since) {
        let mut cursor = run.cursor_with(Direction::Forward, &bounds, options)?;
        while cursor.key().is_some() {
            if let Some(entry) = cursor.visible(Version::MAX)?
                && entry.version > since
            {
                return Ok(Some(entry.version));
            }
            cursor.advance()?;
        }
    }
    Ok(None)
}

/// [`range_since`] of the memtables alone.
pub(crate) fn range_in_memory_since(view: &TabletView, range: &KeyRange, since: Version) -> Option<Version> {
    memtables_since(view, since).find_map(|memtable| memtable.newer_within(range, since))
}

fn memtables_since(view: &TabletView, since: Version) -> impl Iterator<Item = &Arc<Memtable>> {
    view.memtables.iter().filter(move |memtable| memtable.versions().is_some_and(|(_, last)| last > since))
}

fn runs_since(view: &TabletView, since: Version) -> impl Iterator<Item = &Arc<Run>> {
    view.runs.iter().filter(move |run| run.versions().1 > since)
}
