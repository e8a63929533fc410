//! What the leader checks before a checked batch is written.
//!
//! A checked operation was evaluated by its caller at a pinned view, and carries what it saw. The leader compares
//! with the memtables alone, never with the disk: it refuses as stale if something newer may differ.

use std::ops::Range;

use codec::Version;

use super::{Refusal, Submission};
use crate::view::TabletView;

/// What a caller saw of one key.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    /// Which of the submission's targets.
    pub(crate) target: usize,
    /// Where the key lies in the submission's `seen_keys`.
    pub(crate) key: Range<usize>,
    /// The version of the live row, or absent.
    pub(crate) saw: Option<Version>,
    /// The version that it was read at.
    pub(crate) at: Version,
}

/// Checks every expectation of a submission. Nothing of its group is applied before it.
pub(super) fn validate(submission: &Submission) -> Result<(), Refusal> {
    for expectation in &submission.expectations {
        let view = submission.targets[expectation.target].tablet.view.pin();
        check(&view, &submission.seen_keys[expectation.key.clone()], expectation)?;
    }
    Ok(())
}

fn check(view: &TabletView, key: &[u8], expectation: &Expectation) -> Result<(), Refusal> {
    if view.flushed_through > expectation.at {
        // What was written since may have left the memtables already.
        return Err(Refusal::Stale(view.flushed_through));
    }
    let newest = view.memtables.iter().find_map(|memtable| memtable.newest(key));
    match newest {
        Some((version, is_deleted)) if version > expectation.at => {
            if is_deleted && expectation.saw.is_none() {
                return Ok(());
            }
            Err(Refusal::Stale(version))
        }
        _ => Ok(()),
    }
}
