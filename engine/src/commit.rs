//! Commits batches: the only way bytes enter the store.
//!
//! Owns the queue, the stage in which a leader works for a group, and the order of publication.
//!
//! Protocol. A thread queues its batch. Without a leader it becomes one: it takes what waits, and in the *stage*
//! validates, gives out versions, appends one record a batch to the log, and applies the operations to the
//! memtables, unpublished. Then it hands the stage to the first that waits, syncs the log if its group asks for it,
//! publishes its group after all earlier ones, and wakes the group. So one group's sync overlaps the next one's work.
//!
//! Invariant: log order is version order is apply order.
//! Invariant: a batch becomes visible whole, after it is logged.
//! Invariant: a batch lies whole in one memtable of each of its tables; memtables switch between groups only.
//! Invariant: a version is given out once, also if its write fails.
//!
//! Never reads an sstable, never waits for the manifest, never decides when to compact.
//!
//! Lock order: stage, then a tablet's unflushed list, then a memtable's tree or the view cell. The queue's lock and a
//! waiter's are leaves. The stage is held across the append to the log (a write into the page cache, and now and then
//! the switch to a segment that was prepared before), never across a sync: only when the disk is full is what was torn
//! cut off, and the cut synced, in the stage.

mod gather;
mod publish;
mod validate;
mod waiter;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::{FileId, Version};
use sync::{Mutex, MutexGuard};
use wal::{Position, Record};

pub(crate) use validate::{Expectation, RangeExpectation, Saw};
pub(crate) use waiter::Refusal;
use waiter::{Told, Waiter};

use crate::batch::ops::{Op, OpKind, Ops};
use crate::catalog::TableCore;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::memtable::MemOp;
use gather::Gather;
use publish::Publisher;

/// A group takes no further batch once it holds so many bytes.
const GROUP_BYTES: usize = 1 << 20;
/// How many versions the manifest keeps in reserve. At half of them the ceiling is raised in the background.
pub(crate) const VERSION_RESERVE: u64 = 1 << 28;

/// A batch on its way: its bytes, the tables it names, and what it was checked against.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) body: Vec<u8>,
    pub(crate) operations: u32,
    pub(crate) targets: Vec<Arc<TableCore>>,
    pub(crate) expectations: Vec<Expectation>,
    /// What a transaction has scanned.
    pub(crate) ranges: Vec<RangeExpectation>,
    /// The keys that the expectations speak of.
    pub(crate) seen_keys: Vec<u8>,
    pub(crate) wants_sync: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Box<Submission>, Arc<Waiter>)>,
    has_leader: bool,
}

/// What only the holder of the stage may touch.
#[derive(Debug)]
pub(crate) struct Stage {
    next_version: Version,
    next_group: u64,
    /// The last commit since the open.
    last: Option<Version>,
}

impl Stage {
    /// The last commit that the log has taken since the open, visible or not yet.
    pub(crate) fn last_commit(&self) -> Option<Version> {
        self.last
    }
}

#[derive(Debug)]
pub(crate) struct Commit {
    queue: Mutex<Queue>,
    stage: Mutex<Stage>,
    publisher: Publisher,
    gather: Gather,
    /// No version above it is given out. Raised after the manifest says so.
    ceiling: AtomicU64,
    next_version: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) operations: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

struct Member {
    submission: Box<Submission>,
    waiter: Arc<Waiter>,
    first: Version,
    outcome: Result<Version, Refusal>,
}

impl Member {
    fn last(&self) -> Version {
        Version(self.first.0 + u64::from(self.submission.operations) - 1)
    }
}

/// What a group still needs after the stage.
struct Staged {
    group: u64,
    last: Version,
    sync_through: Option<Position>,
}

impl Commit {
    /// A queue that gives out versions from `first` up to `ceiling`.
    pub(crate) fn new(first: Version, ceiling: Version) -> Commit {
        Commit {
            queue: Mutex::default(),
            stage: Mutex::new(Stage { next_version: first, next_group: 0, last: None }),
            publisher: Publisher::default(),
            gather: Gather::default(),
            ceiling: AtomicU64::new(ceiling.0),
            next_version: AtomicU64::new(first.0),
            groups: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Holds the stage: no batch is between its versions and its memtables meanwhile.
    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock()
    }

    /// How many submissions wait for a leader or for the stage.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// The ceiling that the manifest should name next, if it is time to raise it.
    pub(crate) fn ceiling_to_raise(&self) -> Option<Version> {
        let next = self.next_version.load(Ordering::Relaxed);
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        (next + VERSION_RESERVE / 2 > ceiling).then(|| Version(next + VERSION_RESERVE))
    }

    /// The manifest names this ceiling, durably.
    pub(crate) fn raise_ceiling(&self, ceiling: Version) {
        self.ceiling.fetch_max(ceiling.0, Ordering::AcqRel);
    }

    /// Commits a submission. Returns the last version of the batch, and the buffers.
    pub(crate) fn submit(
        &self,
        core: &Core,
        submission: Box<Submission>,
    ) -> (Result<Version, Refusal>, Option<Box<Submission>>) {
        let waiter = Arc::new(Waiter::new());
        let leads = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back((submission, Arc::clone(&waiter)));
            !std::mem::replace(&mut queue.has_leader, true)
        };
        if leads {
            self.lead(core);
        }
        loop {
            match waiter.wait() {
                Told::Lead => self.lead(core),
                Told::Done(result, submission) => return (result, submission),
            }
        }
    }

    /// Works for one group, of which the caller's submission is the first. A panic on the way poisons the engine and
    /// fails the group, so that nobody waits for ever.
    fn lead(&self, core: &Core) {
        let mut members = Vec::new();
        let staged = catch_unwind(AssertUnwindSafe(|| {
            let mut stage = self.stage.lock();
            self.take_group(&mut members);
            self.run_stage(core, &mut stage, &mut members)
        }));
        let staged = staged.unwrap_or_else(|_| {
            let error = Error::new(ErrorKind::Io, "the leader of a commit panicked");
            core.health.poison(&error);
            for member in &mut members {
                member.outcome = Err(Refusal::Failed(error.clone()));
            }
            None
        });
        // After a panic the poison comes first: the next leader must not publish what this one left half applied.
        self.hand_over();
        if let Some(staged) = staged {
            if let Some(through) = staged.sync_through
                && let Err(error) = self.sync(core, through)
            {
                core.health.poison(&error);
                for member in members.iter_mut().filter(|member| member.submission.wants_sync) {
                    member.outcome = Err(Refusal::Failed(error.clone()));
                }
            }
            self.publisher.publish(staged.group, staged.last, &core.registry);
        }
        core.health.progress.notify();
        let poison = core.health.is_poisoned().then(|| core.health.check_writable());
        for mut member in members {
            if let (Err(Refusal::Stale(_)), Some(Err(error))) = (&member.outcome, &poison) {
                member.outcome = Err(Refusal::Failed(error.clone()));
            }
            member.waiter.finish(member.outcome, Some(member.submission));
        }
    }

    fn take_group(&self, members: &mut Vec<Member>) {
        let mut queue = self.queue.lock();
        let mut bytes = 0;
        while let Some((submission, _)) = queue.waiting.front() {
            // A checked batch is validated against the memtables alone, so no batch of its own group may go before it.
            if !members.is_empty() && (submission.is_checked() || bytes >= GROUP_BYTES) {
                break;
            }
            bytes += submission.body.len();
            let (submission, waiter) = queue.waiting.pop_front().expect("there is a front");
            // Until the stage has decided, the outcome is that of a leader that went away.
            let outcome = Err(Refusal::Failed(Error::new(ErrorKind::Io, "the commit was given up half-way")));
            members.push(Member { submission, waiter, first: Version(0), outcome });
        }
    }

    fn hand_over(&self) {
        let mut queue = self.queue.lock();
        match queue.waiting.front() {
            Some((_, waiter)) => waiter.promote(),
            None => queue.has_leader = false,
        }
    }

    fn run_stage(&self, core: &Core, stage: &mut Stage, members: &mut [Member]) -> Option<Staged> {
        let ceiling = Version(self.ceiling.load(Ordering::Acquire));
        for member in &mut *members {
            member.outcome = admit(core, stage, &member.submission, ceiling);
            if let Ok(last) = member.outcome {
                member.first = Version(last.0 + 1 - u64::from(member.submission.operations));
                stage.next_version = last.next();
            }
        }
        self.next_version.store(stage.next_version.0, Ordering::Relaxed);
        let first_segment = core.log.end().segment;
        let end = self.append(core, members)?;
        let mut last = None;
        let mut wanting_sync = 0;
        for member in members.iter().filter(|member| member.outcome.is_ok()) {
            apply(core, &member.submission, member.first, first_segment, end);
            last = member.outcome.as_ref().ok().copied();
            wanting_sync += usize::from(member.submission.wants_sync);
            self.batches.fetch_add(1, Ordering::Relaxed);
            self.operations.fetch_add(u64::from(member.submission.operations), Ordering::Relaxed);
            self.bytes.fetch_add(member.submission.body.len() as u64, Ordering::Relaxed);
        }
        let last = last?;
        stage.last = Some(last);
        self.groups.fetch_add(1, Ordering::Relaxed);
        seal_full(core, members);
        let group = stage.next_group;
        stage.next_group += 1;
        self.gather.note_appended(wanting_sync);
        Some(Staged { group, last, sync_through: (wanting_sync > 0).then_some(end) })
    }

    /// Appends the records of the members that are still good. Those that did not get into the log whole are failed.
    fn append(&self, core: &Core, members: &mut [Member]) -> Option<Position> {
        let records: Vec<Record<'_>> = members
            .iter()
            .filter(|member| member.outcome.is_ok())
            .map(|member| Record {
                first_version: member.first,
                last_version: member.last(),
                body: &member.submission.body,
            })
            .collect();
        if records.is_empty() {
            return None;
        }
        let appended = core.log.append(&records);
        if let Some(error) = appended.error {
            let error = Error::from(error);
            core.health.fail(&error);
            let torn = members.iter_mut().filter(|member| member.outcome.is_ok()).skip(appended.complete);
            for member in torn {
                member.outcome = Err(Refusal::Failed(error.clone()));
            }
        }
        Some(appended.end)
    }

    /// Syncs the log. A panic is told like a failure: the groups behind this one wait for it to be published.
    fn sync(&self, core: &Core, through: Position) -> Result<(), Error> {
        let mut began = None;
        let before = || {
            self.gather.wait(&core.clock);
            began = Some(core.clock.now());
        };
        let synced = catch_unwind(AssertUnwindSafe(|| core.log.sync_after(through, before)));
        if let Some(began) = began {
            self.gather.note_synced(core.clock.now().saturating_sub(began));
        }
        match synced {
            Ok(synced) => Ok(synced?),
            Err(_) => Err(Error::new(ErrorKind::Io, "the sync of a commit panicked")),
        }
    }
}

/// Decides whether a batch may be written now. Returns its last version.
fn admit(core: &Core, stage: &Stage, submission: &Submission, ceiling: Version) -> Result<Version, Refusal> {
    core.health.check_writable().map_err(Refusal::Failed)?;
    for table in &submission.targets {
        table.tablet.check_not_dropped().map_err(Refusal::Failed)?;
        if table.newest.has_dropped_since(table.schema.version()) {
            check_row_schemas(submission, table).map_err(Refusal::Failed)?;
        }
    }
    if submission.is_checked() {
        validate::validate(submission)?;
    }
    let last = Version(stage.next_version.0 + u64::from(submission.operations) - 1);
    if last > ceiling {
        let why = "the reserve of versions is used up since the manifest could not be written for long";
        return Err(Refusal::Failed(Error::new(ErrorKind::Io, why)));
    }
    Ok(last)
}

/// Checks that no row has a column that was dropped since the batch was built.
#[cold]
fn check_row_schemas(submission: &Submission, table: &TableCore) -> Result<(), Error> {
    let mut ops = Ops::new(&submission.body);
    while let Some(op) = next_op(&mut ops) {
        if op.table == table.id && op.kind == OpKind::Put {
            table.check_row_schema(op.schema)?;
        }
    }
    Ok(())
}

/// Puts a batch into the memtables, invisible as yet.
fn apply(core: &Core, submission: &Submission, first: Version, first_segment: FileId, end: Position) {
    let mut version = first;
    let mut ops = Ops::new(&submission.body);
    let mut next = next_op(&mut ops);
    while let Some(op) = next {
        let table = submission.table(op.table);
        let view = table.tablet.view.pin();
        // One lock for as many operations of one table as stand together: mostly the whole batch.
        next = view.active().apply(|tree| {
            let mut op = op;
            loop {
                tree.insert(op.key, version, mem_op(&op));
                version = version.next();
                match next_op(&mut ops) {
                    Some(following) if following.table == op.table => op = following,
                    other => return other,
                }
            }
        });
        core.stall.grow(table.tablet.note_applied(first_segment, end));
    }
}

fn next_op<'a>(ops: &mut Ops<'a>) -> Option<Op<'a>> {
    ops.next().map(|op| op.expect("a batch's bytes are written by the batch"))
}

/// The memtable's form of a logged operation.
pub(crate) fn mem_op<'a>(op: &Op<'a>) -> MemOp<'a> {
    match op.kind {
        OpKind::Put => MemOp::Put { schema: op.schema, row: op.row },
        OpKind::Delete => MemOp::Delete,
        OpKind::Update => unreachable!("updates are resolved before the commit"),
    }
}

fn seal_full(core: &Core, members: &[Member]) {
    let seal_bytes = core.options.memtable_seal_bytes();
    let mut sealed = false;
    for table in members.iter().flat_map(|member| &member.submission.targets) {
        if table.tablet.view.pin().active().bytes() >= seal_bytes {
            sealed |= table.tablet.seal();
        }
    }
    if sealed {
        core.signals.flush.set();
    }
    if core.log.needs_segment() {
        core.signals.housekeeping.set();
    }
}

impl Submission {
    fn is_checked(&self) -> bool {
        !self.expectations.is_empty() || !self.ranges.is_empty()
    }

    fn table(&self, id: codec::TableId) -> &Arc<TableCore> {
        self.targets.iter().find(|table| table.id == id).expect("a batch knows every table that it names")
    }
}
