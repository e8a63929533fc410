//! Commits a transaction: checks what it has read, and writes if all of it is as it was.
//!
//! Protocol. The caller's thread checks the read set against a view that it pins, outside the commit's queue: nothing
//! may have been written there since the snapshot. Then all of it is known to be unchanged up to the version at which
//! it was pinned, and the leader checks only what came after, against memtables alone. If a flush has taken something
//! out of the memtables meanwhile, or something was written there, the leader refuses; the caller checks again, and
//! only what came since the last time.
//!
//! Invariant: a conflict is told once what moved is visible, so that another try sees it.
//! Invariant: the snapshot is registered until the end: what was written over what it sees is not forgotten.

use std::sync::Arc;

use codec::Version;
use encoded_key::KeyProbe;

use super::reads::Reads;
use crate::background::take_memory_back;
use crate::batch::Buffer;
use crate::catalog::TableCore;
use crate::commit::{Expectation, RangeExpectation, Refusal, Submission};
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::options::Durability;
use crate::read::{self, ReadPoint};
use crate::row::show_key;
use crate::snapshot::Snapshot;

/// Commits the operations of `buffer`, which holds some, if nothing of `reads` has changed since `snapshot`. Returns
/// the last version.
///
/// # Errors
/// `Conflict`; those of a batch's commit.
pub(super) fn commit(
    core: &Core,
    buffer: &mut Buffer,
    reads: Reads,
    snapshot: &Snapshot,
    durability: Durability,
) -> Result<Version, Error> {
    core.health.check_writable()?;
    core.door(|| {
        core.stall.admit(buffer.body.len(), &core.clock, &core.health, || core.wake_flush())?;
        let committed = validate_and_submit(core, buffer, reads, snapshot, durability);
        take_memory_back(core);
        core.run_inline_work();
        committed
    })
}

fn validate_and_submit(
    core: &Core,
    buffer: &mut Buffer,
    reads: Reads,
    snapshot: &Snapshot,
    durability: Durability,
) -> Result<Version, Error> {
    // What was read comes first, so that the numbers of its tables are those of the targets.
    let mut targets = reads.tables.clone();
    let written = std::mem::take(&mut buffer.targets);
    targets.extend(
        written.into_iter().filter(|table| reads.tables.iter().all(|read| !Arc::ptr_eq(read, table))),
    );
    let mut submission = Box::new(Submission {
        body: std::mem::take(&mut buffer.body),
        operations: buffer.operations,
        targets,
        expectations: expectations(&reads, snapshot.at()),
        ranges: ranges(&reads, snapshot.at()),
        seen_keys: reads.keys,
        wants_sync: durability == Durability::Sync,
    });
    loop {
        check_reads(core, &mut submission)?;
        let (result, returned) = core.commit.submit(core, submission);
        match result {
            Ok(version) => return Ok(version),
            Err(Refusal::Failed(error)) => return Err(as_conflict(error)),
            Err(Refusal::Stale(version)) => core.wait_visible(version)?,
        }
        submission = returned.expect("a leader gives a stale submission back");
    }
}

/// A column that was dropped since a row was written here is a conflict with whoever dropped it: each verb has checked
/// that the row fitted, and another run sees what moved.
fn as_conflict(error: Error) -> Error {
    match error.kind() {
        ErrorKind::SchemaMismatch => error.with_kind(ErrorKind::Conflict),
        _ => error,
    }
}

fn expectations(reads: &Reads, at: Version) -> Vec<Expectation> {
    let expectation = |read: &super::reads::KeyRead| Expectation {
        target: read.table,
        key: read.key.clone(),
        saw: read.saw,
        at,
    };
    reads.key_reads.iter().map(expectation).collect()
}

fn ranges(reads: &Reads, at: Version) -> Vec<RangeExpectation> {
    let expectation =
        |(table, range): &(usize, _)| RangeExpectation { target: *table, range: Clone::clone(range), at };
    reads.ranges.iter().map(expectation).collect()
}

/// Checks that nothing that was read has changed since it was last known to be as it was, and notes up to which version
/// that is known now.
fn check_reads(core: &Core, submission: &mut Submission) -> Result<(), Error> {
    let Submission { targets, expectations, ranges, seen_keys, .. } = submission;
    let points: Vec<ReadPoint> = targets.iter().map(|table| core.read_point(&table.tablet)).collect();
    // After the pins: the view of a dropped table is empty, and must not be taken for one in which nothing was written.
    for table in &*targets {
        table.tablet.check_not_dropped()?;
    }
    for Expectation { target, key, saw, at } in expectations {
        let (point, key) = (&points[*target], &seen_keys[key.clone()]);
        let newer = read::key_since(&point.view, &KeyProbe::new(key), *at)?;
        if let Some((version, is_deleted)) = newer
            && !saw.allows(is_deleted)
        {
            return conflict(core, &targets[*target], Some(key), version);
        }
        *at = point.at.max(*at);
    }
    for RangeExpectation { target, range, at } in ranges {
        let point = &points[*target];
        if let Some(version) = read::range_since(&point.view, range, *at)? {
            return conflict(core, &targets[*target], None, version);
        }
        *at = point.at.max(*at);
    }
    Ok(())
}

/// Waits until what moved is visible, and says so.
#[cold]
fn conflict(core: &Core, table: &Arc<TableCore>, key: Option<&[u8]>, version: Version) -> Result<(), Error> {
    core.wait_visible(version)?;
    let what = if key.is_some() { "a key" } else { "a range" };
    let text =
        format!("{what} of table {:?} that the transaction had read was written meanwhile", table.name);
    let error = Error::new(ErrorKind::Conflict, text);
    Err(match key {
        Some(key) if core.options.keys_in_errors => error.with_key(show_key(&table.schema, key)),
        _ => error,
    })
}
