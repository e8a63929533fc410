//! What is compacted next, over all tablets, and by how much they are behind.
//!
//! Owns the way from a view to a registered job: the policy that follows from the options, the look at a tablet's
//! shape, the choice among tablets. Reads no file.
//!
//! Invariant: between the look and the registration a tablet's notes stay locked, so no run gets into two jobs.

use std::sync::Arc;

use pkindex::Retention;
use pkindex::pick::Load;

use super::CompactionJob;
use super::notes::{Noted, NotesAt};
use super::pick::{self, Policy, Work};
use super::shape::Shape;
use crate::core::Core;
use crate::options::{Compression, Options};
use crate::tablet::Tablet;
use crate::view::TabletView;

/// What is reason enough for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eagerness {
    /// What must be done, with others at work.
    Busy,
    /// What only tidies up, too.
    Idle,
    /// What must be done and reads no more than so many bytes.
    Below(u64),
}

impl Eagerness {
    fn load(self) -> Load {
        match self {
            Eagerness::Busy | Eagerness::Below(_) => Load::Busy,
            Eagerness::Idle => Load::Idle,
        }
    }
}

/// When to compact what, by the sizes of what flushes write.
pub(super) fn policy(options: &Options) -> Policy {
    let mut policy = Policy::new(options.rowset_bytes);
    let memtable_bytes = options.memtable_seal_bytes() as u64;
    // About the index run of a full memtable.
    policy.index.tier_bytes = (memtable_bytes / 8).max(1);
    policy.index.upper_bytes_min = memtable_bytes / 2;
    policy.lanes = options.background_threads;
    if options.compression == Compression::None {
        // Nothing would come of it.
        policy.idle.raw_percent_max = 100;
    }
    policy
}

/// What to do next in a tablet that is in the state of `view`.
fn look(
    core: &Core,
    tablet: &Tablet,
    view: &TabletView,
    noted: &mut Noted,
    retention: &Retention,
    eagerness: Eagerness,
) -> Option<Work> {
    let load = eagerness.load();
    if !noted.is_open() || noted.is_settled(&view.run_ids, load) {
        return None;
    }
    let notes = NotesAt { noted, retention, now: core.clock.now(), with_jobs: true };
    let shape = Shape::of(view, &notes, tablet.compacting.overwrite_percent());
    let work = pick::pick(&shape, &policy(&core.options), load);
    if work.is_none() && !shape.holds_old_versions() {
        noted.settle(&view.run_ids, load);
    }
    work.filter(|work| match eagerness {
        Eagerness::Below(bytes) => work.bytes <= bytes,
        Eagerness::Busy | Eagerness::Idle => true,
    })
}

/// Looks at one tablet, and registers what there is to do.
pub(super) fn claim_in(
    core: &Core,
    tablet: &Arc<Tablet>,
    retention: &Retention,
    eagerness: Eagerness,
) -> Option<CompactionJob> {
    if tablet.is_dropped() {
        return None;
    }
    let mut noted = tablet.compacting.lock();
    let view = tablet.view.pin();
    let work = look(core, tablet, &view, &mut noted, retention, eagerness)?;
    Some(register(tablet, view, &mut noted, work))
}

pub(super) fn register(
    tablet: &Arc<Tablet>,
    view: Arc<TabletView>,
    noted: &mut Noted,
    work: Work,
) -> CompactionJob {
    let run_ids = view.run_ids[work.inputs.clone()].to_vec();
    noted.register(&run_ids);
    CompactionJob { tablet: Arc::clone(tablet), view, work, run_ids }
}

/// Takes the next compaction: the smallest that has to be, over all tablets; else one that tidies up, if that is
/// wanted.
pub(crate) fn claim(core: &Core, eagerness: Eagerness) -> Option<CompactionJob> {
    if !core.health.is_healthy() || !core.backoff.is_over(core.clock.now()) {
        return None;
    }
    let retention = core.registry.retention();
    if eagerness == Eagerness::Idle {
        return claim_smallest(core, &retention, Eagerness::Busy)
            .or_else(|| claim_smallest(core, &retention, Eagerness::Idle));
    }
    claim_smallest(core, &retention, eagerness)
}

fn claim_smallest(core: &Core, retention: &Retention, eagerness: Eagerness) -> Option<CompactionJob> {
    loop {
        let smallest = core
            .catalog
            .all()
            .into_iter()
            .filter(|table| !table.tablet.is_dropped())
            .filter_map(|table| {
                let tablet = &table.tablet;
                let mut noted = tablet.compacting.lock();
                let view = tablet.view.pin();
                let work = look(core, tablet, &view, &mut noted, retention, eagerness)?;
                Some((work.bytes, Arc::clone(tablet)))
            })
            .min_by_key(|(bytes, _)| *bytes);
        let (_, tablet) = smallest?;
        // Others may have been faster; then there is something else, or nothing.
        if let Some(job) = claim_in(core, &tablet, retention, eagerness) {
            return Some(job);
        }
    }
}

/// How many tablets have a compaction that has to be and does not run yet.
pub(crate) fn due(core: &Core) -> usize {
    let retention = core.registry.retention();
    let is_due = |tablet: &Tablet| {
        let mut noted = tablet.compacting.lock();
        let view = tablet.view.pin();
        look(core, tablet, &view, &mut noted, &retention, Eagerness::Busy).is_some()
    };
    core.catalog.all().iter().filter(|table| is_due(&table.tablet)).count()
}

/// Finds out by how much these tablets are behind, and tells the backpressure about the worst of all.
pub(crate) fn note_debt<'a>(core: &Core, changed: impl IntoIterator<Item = &'a Arc<Tablet>>) {
    let retention = core.registry.retention();
    for tablet in changed {
        let noted = tablet.compacting.lock();
        let view = tablet.view.pin();
        let notes = NotesAt { noted: &noted, retention: &retention, now: core.clock.now(), with_jobs: false };
        let shape = Shape::of(&view, &notes, 0);
        tablet.compacting.set_debt(pick::debt(&shape, &policy(&core.options)));
    }
    let (mut runs, mut depth) = (0, 0);
    for table in core.catalog.all() {
        let debt = table.tablet.compacting.debt();
        runs = runs.max(debt.0);
        depth = depth.max(debt.1);
    }
    core.stall.set_debt(runs, depth);
}
