//! Commits what a buffer holds.
//!
//! Owns what comes before and after the commit's queue: the wait for memory, the evaluation of checked operations, and
//! another try when what they saw has moved.

use std::sync::Arc;

use codec::Version;

use super::buffer::Buffer;
use super::{evaluate, ops};
use crate::background::take_memory_back;
use crate::catalog::TableCore;
use crate::commit::{Expectation, Refusal, Saw, Submission};
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::options::Durability;
use crate::read::LiveKeys;
use ops::OpKind;

/// Commits a buffer and empties it. Returns the last version, and how many operations were written: those that
/// `insert_ignore` left out are not.
pub(crate) fn commit(
    core: &Core,
    buffer: &mut Buffer,
    durability: Durability,
) -> Result<(Version, u32), Error> {
    core.health.check_writable()?;
    if buffer.operations == 0 {
        return Ok((core.last_committed(), 0));
    }
    core.door(|| {
        core.stall.admit(buffer.body.len(), &core.clock, &core.health, || core.wake_flush())?;
        let committed = if buffer.checks.is_empty() {
            commit_blind(core, buffer, durability)
        } else {
            commit_checked(core, buffer, durability)
        };
        take_memory_back(core);
        core.run_inline_work();
        committed
    })
}

fn commit_blind(core: &Core, buffer: &mut Buffer, durability: Durability) -> Result<(Version, u32), Error> {
    let operations = buffer.operations;
    let submission = Box::new(Submission {
        body: std::mem::take(&mut buffer.body),
        operations,
        targets: std::mem::take(&mut buffer.targets),
        expectations: Vec::new(),
        ranges: Vec::new(),
        seen_keys: Vec::new(),
        wants_sync: durability == Durability::Sync,
    });
    let (result, submission) = core.commit.submit(core, submission);
    if let Some(submission) = submission {
        buffer.body = submission.body;
        buffer.targets = submission.targets;
    }
    match result {
        Ok(version) => {
            buffer.clear();
            Ok((version, operations))
        }
        Err(Refusal::Failed(error)) => Err(error),
        Err(Refusal::Stale(_)) => unreachable!("only a checked batch can be stale"),
    }
}

fn commit_checked(core: &Core, buffer: &mut Buffer, durability: Durability) -> Result<(Version, u32), Error> {
    loop {
        let resolved = evaluate::evaluate(core, buffer)?;
        if resolved.operations == 0 {
            buffer.clear();
            return Ok((core.last_committed(), 0));
        }
        let operations = resolved.operations;
        let submission = Box::new(Submission {
            body: resolved.body,
            operations,
            targets: buffer.targets.clone(),
            expectations: resolved.expectations,
            ranges: Vec::new(),
            seen_keys: resolved.seen_keys,
            wants_sync: durability == Durability::Sync,
        });
        let (result, _) = core.commit.submit(core, submission);
        match result {
            Ok(version) => {
                buffer.clear();
                return Ok((version, operations));
            }
            // A column was dropped since the evaluation. The next one says whether the batch needs it.
            Err(Refusal::Failed(error)) if error.kind() == ErrorKind::SchemaMismatch => {}
            Err(Refusal::Failed(error)) => return Err(error),
            Err(Refusal::Stale(version)) => core.wait_visible(version)?,
        }
    }
}

/// Deletes keys as they were seen by a read at `at`, all or none. If one of them was written since, answers with a
/// version to wait for before looking again.
pub(crate) fn delete_seen(
    core: &Core,
    table: &Arc<TableCore>,
    seen: LiveKeys,
    at: Version,
    durability: Durability,
) -> Result<Result<(), Version>, Error> {
    core.health.check_writable()?;
    let mut body = Vec::with_capacity(seen.bytes.len() + seen.len() * ops::HEAD_BYTES);
    let mut expectations = Vec::with_capacity(seen.len());
    let mut start = 0;
    for &end in &seen.ends {
        let (kind, schema, key) = (OpKind::Delete, table.schema.version(), &seen.bytes[start..end]);
        ops::put(&mut body, &ops::Op { kind, table: table.id, schema, key, row: &[] });
        expectations.push(Expectation { target: 0, key: start..end, saw: Saw::Row, at });
        start = end;
    }
    let operations = u32::try_from(seen.len()).expect("a batch has fewer operations");
    let submission = Box::new(Submission {
        body,
        operations,
        targets: vec![Arc::clone(table)],
        expectations,
        ranges: Vec::new(),
        seen_keys: seen.bytes,
        wants_sync: durability == Durability::Sync,
    });
    core.door(|| {
        core.stall.admit(submission.body.len(), &core.clock, &core.health, || core.wake_flush())?;
        let (result, _) = core.commit.submit(core, submission);
        take_memory_back(core);
        core.run_inline_work();
        match result {
            Ok(_) => Ok(Ok(())),
            Err(Refusal::Stale(version)) => Ok(Err(version)),
            Err(Refusal::Failed(error)) => Err(error),
        }
    })
}
