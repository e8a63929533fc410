//! What the leader checks before a checked batch is written.
//!
//! A checked operation, or what a transaction has read, was evaluated by its caller at a pinned view, and carries what
//! it saw. The leader compares with the memtables alone, never with the disk: it refuses as stale if something newer
//! may differ.

use std::ops::Range;
use std::sync::Arc;

use codec::Version;
use encoded_key::KeyRange;

use super::{Refusal, Submission};
use crate::read;
use crate::view::TabletView;

/// What a caller saw of one key.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    /// Which of the submission's targets.
    pub(crate) target: usize,
    /// Where the key lies in the submission's `seen_keys`.
    pub(crate) key: Range<usize>,
    pub(crate) saw: Saw,
    /// The version that it was read at.
    pub(crate) at: Version,
}

/// What a caller saw of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saw {
    /// A row, and what is in it.
    Row,
    /// That there is a row, and nothing of what is in it.
    SomeRow,
    Nothing,
}

impl Saw {
    /// Of a read that tells what is in the row.
    pub(crate) fn row<T>(found: Option<&T>) -> Saw {
        if found.is_some() { Saw::Row } else { Saw::Nothing }
    }

    /// Of a read that tells only whether there is a row.
    pub(crate) fn existence(is_there: bool) -> Saw {
        if is_there { Saw::SomeRow } else { Saw::Nothing }
    }

    /// Whether what was seen is still so although something was written since, last a deletion or not.
    pub(crate) fn allows(self, is_deleted: bool) -> bool {
        match self {
            Saw::Row => false,
            Saw::SomeRow => !is_deleted,
            Saw::Nothing => is_deleted,
        }
    }
}

/// A range that a caller has read, and in which nothing may have been written since.
#[derive(Clone, Debug)]
pub(crate) struct RangeExpectation {
    /// Which of the submission's targets.
    pub(crate) target: usize,
    pub(crate) range: KeyRange,
    /// The version that it was read at.
    pub(crate) at: Version,
}

/// Checks every expectation of a submission. Nothing of its group is applied before it.
pub(super) fn validate(submission: &Submission) -> Result<(), Refusal> {
    let mut views = Views { submission, last: None };
    for Expectation { target, key, saw, at } in &submission.expectations {
        let view = views.of(*target);
        check_flushed(view, *at)?;
        let newer = read::key_in_memory_since(view, &submission.seen_keys[key.clone()], *at);
        if let Some((version, is_deleted)) = newer
            && !saw.allows(is_deleted)
        {
            return Err(Refusal::Stale(version));
        }
    }
    for RangeExpectation { target, range, at } in &submission.ranges {
        let view = views.of(*target);
        check_flushed(view, *at)?;
        if let Some(version) = read::range_in_memory_since(view, range, *at) {
            return Err(Refusal::Stale(version));
        }
    }
    Ok(())
}

/// The views of a submission's targets. What is asked for in a row is pinned once: in the stage nothing changes but by
/// a flush, which takes out what is old.
struct Views<'a> {
    submission: &'a Submission,
    last: Option<(usize, Arc<TabletView>)>,
}

impl Views<'_> {
    fn of(&mut self, target: usize) -> &TabletView {
        if self.last.as_ref().is_none_or(|(of, _)| *of != target) {
            self.last = Some((target, self.submission.targets[target].tablet.view.pin()));
        }
        let (_, view) = self.last.as_ref().expect("just pinned");
        view
    }
}

/// What was written since may have left the memtables already.
fn check_flushed(view: &TabletView, at: Version) -> Result<(), Refusal> {
    if view.flushed_through > at { Err(Refusal::Stale(view.flushed_through)) } else { Ok(()) }
}
