//! Crash enumeration: the power is cut at every operation of the disk, and what is left is opened.
//!
//! A workload is a named script and a seed; it runs on the simulated disk with background work inline, so that it is
//! the same every time. The disk is kept as it is before every operation that changes it. Each of these moments is then
//! cut in several page states: nothing unsynced kept, all kept, torn, sizes without data, directory entries lost, and
//! so on. What is left must open, hold what a prefix of the commits gives, with everything that was durable, agree with
//! itself in every way of reading (for reading only, too, which changes nothing), pass the engine's check, and take
//! further writes; and then the power is cut again, in that recovery or after it.
//!
//! - `NYALA_SIM_STATES=50000`: how many distinct disks are looked at, at least. `NYALA_LONG=1`: two millions.
//! - `NYALA_SEED=7`: another first seed. `NYALA_SIM_THREADS=1`: other than one thread a processor.
//! - `NYALA_SIM_WORKLOAD=verbs`: this workload alone.
//! - `NYALA_SIM_ONLY=verbs/7/0/123/4`: one state again; a failure prints it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may look at the disk behind the engine's back"
)]

mod copies;
mod deep;
mod enumerate;
#[path = "../support/extra.rs"]
mod extra;
mod history;
mod page_states;
mod plan;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/rows.rs"]
mod rows;
mod settings;
#[allow(dead_code, reason = "other tests ask more of it")]
#[path = "../support/shape.rs"]
mod shape;
#[path = "../support/state.rs"]
mod state;
mod tally;
#[allow(dead_code, reason = "other tests ask more of it")]
#[path = "../support/verbs.rs"]
mod verbs;
mod watch;
mod workloads;
mod world;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use enumerate::Visit;
use page_states::NAMED;
use tally::Tally;
use watch::Watch;
use workloads::{WORKLOADS, Workload};

/// What an engine does to its disk. Each of these must be met, with states after it.
const KINDS: &[&str] = &[
    "create directory",
    "sync directory",
    "lock LOCK",
    "create wal",
    "preallocate wal",
    "write wal",
    "sync wal",
    "truncate wal",
    "remove wal",
    "create manifest",
    "preallocate manifest",
    "write manifest",
    "sync manifest",
    "remove manifest",
    "create CURRENT",
    "write CURRENT",
    "sync CURRENT",
    "rename CURRENT",
    "remove CURRENT",
    "create idx",
    "write idx",
    "sync idx",
    "remove idx",
    "create row",
    "write row",
    "sync row",
    "link idx",
    "link row",
    "remove row",
    "create torn",
    "write torn",
    "sync torn",
];

/// Stops the other threads when one panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn whatever_a_power_cut_leaves_is_a_prefix_of_the_commits() {
    let tally = Tally::default();
    if let Some(target) = plan::only() {
        let workload = Workload::named(&target.workload).expect("a workload of this name");
        let (seed, begin, is_over) = (target.seed, |_| (), || false);
        let visit = Visit { workload, seed, page_states: 0, tally: &tally, begin: &begin, is_over: &is_over };
        return visit.one(&target);
    }
    let (seed, states) = (plan::seed(), plan::states());
    let page_states = usize::try_from(states / 8_000).expect("a small number").clamp(1, NAMED + 8);
    let workloads: Vec<&'static Workload> = match plan::workload() {
        None => WORKLOADS.iter().collect(),
        Some(name) => vec![Workload::named(&name).expect("a workload of this name")],
    };
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let watch = Watch::new(plan::threads());
    let work = |thread: usize| {
        let _stop = StopOnPanic(&has_failed);
        let begin = |what| watch.begin(thread, what);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (round, workload) = (number / workloads.len(), workloads[number % workloads.len()]);
            // The first round is done in full: each moment of each workload.
            let is_over = || has_failed.load(Ordering::Relaxed) || (round > 0 && tally.states() >= states);
            if is_over() {
                break;
            }
            let seed = seed + round as u64;
            Visit { workload, seed, page_states, tally: &tally, begin: &begin, is_over: &is_over }.all();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| watch.run());
        let work = &work;
        let threads: Vec<_> = (0..plan::threads()).map(|thread| scope.spawn(move || work(thread))).collect();
        let outcomes: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        watch.end();
        assert!(outcomes.iter().all(Result::is_ok), "a thread has panicked, see above");
    });
    println!("{tally}");
    assert!(tally.states() >= states, "only {} distinct states", tally.states());
    let wanted = if workloads.len() == WORKLOADS.len() { KINDS } else { &[] };
    assert_eq!(tally.missing(wanted), [""; 0], "no state after these");
}

#[test]
fn a_workload_is_the_same_every_time() {
    for workload in &WORKLOADS {
        let prints = || -> Vec<(u64, u64, String)> {
            let eras = workload.run(1);
            let moments = eras.into_iter().flat_map(|era| era.moments);
            moments.map(|moment| (moment.operation, moment.disk.fingerprint(), moment.after)).collect()
        };
        assert_eq!(prints(), prints(), "workload {}", workload.name);
    }
}
