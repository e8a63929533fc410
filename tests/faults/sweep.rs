//! Tries every kind of failure at every call of a workload, or at a seeded share of the calls, and counts what was met.
//!
//! A share holds at least one of each class: kind of failure, kind of call, kind of file, and for the plainest kinds of
//! failure what the engine was at.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nyala::vfs::SimFs;
use nyala::vfs::sim::OpKind;

use crate::after::examine;
use crate::kinds::Kind;
use crate::random::Random;
use crate::workload::{Workload, all_sets, base};
use crate::world::{Call, Phase, Seen, Strike, World};

/// How large a part of the calls is tried by default: one in so many.
const SHARE: usize = 60;

const SEED: u64 = 20_261_130;

/// A run that takes longer hangs. (Generous: a busy machine must not be taken for a hang.)
const HANG: Duration = Duration::from_secs(180);

/// So many failed runs are told before a sweep ends.
const FAILURES_MAX: usize = 8;

pub(crate) fn seed() -> u64 {
    match std::env::var("NYALA_SEED") {
        Ok(text) => text.parse().expect("NYALA_SEED is a number"),
        Err(_) => SEED,
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// `workload/option set:kind:call`, from the environment.
fn only() -> Option<String> {
    std::env::var("NYALA_FAULT_ONLY").ok()
}

/// Tells how to replay if the test panics, and ends the process if a run hangs.
struct Replay {
    told: String,
}

static RUNNING: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

impl Replay {
    fn new(workload: &Workload, strike: Strike, call: &Call) -> Replay {
        static WATCH: std::sync::Once = std::sync::Once::new();
        WATCH.call_once(|| {
            std::thread::spawn(watch);
        });
        let Workload { name, set, seed, .. } = workload;
        let Strike { n, kind } = strike;
        let told = format!(
            "workload {name} with options {set}, seed {seed}: {} at call {n}, {:?} of {} while {:?}\n\
             replay: NYALA_SEED={seed} NYALA_FAULT_ONLY={name}/{set}:{}:{n} cargo test -p nyala --test faults {} -- \
             --nocapture",
            kind.name(),
            call.op,
            call.path.display(),
            call.phase,
            kind.name(),
            name.replace('-', "_"),
        );
        RUNNING.lock().expect("no panics here").insert(told.clone(), Instant::now());
        Replay { told }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        RUNNING.lock().expect("no panics here").remove(&self.told);
        if std::thread::panicking() {
            eprintln!("\n{}\n", self.told);
        }
    }
}

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().expect("no panics here");
        if let Some((told, _)) = running.iter().find(|(_, since)| since.elapsed() > HANG) {
            eprintln!("\nhangs for {HANG:?}: {told}\n");
            std::process::exit(101);
        }
    }
}

/// What kind of file a path names.
fn file_kind(call: &Call) -> String {
    let extension = call.path.extension().map(|extension| extension.to_string_lossy().into_owned());
    extension.unwrap_or_else(|| {
        call.path.file_name().map_or("/".into(), |name| name.to_string_lossy().into_owned())
    })
}

/// How often what was met.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: usize,
    runs: usize,
    met: BTreeMap<(Kind, OpKind), usize>,
    poisoned: usize,
    undecided: usize,
    no_space: usize,
    failed_opens: usize,
    failed_reads: usize,
    unharmed: usize,
}

impl Tally {
    fn note(&mut self, kind: Kind, op: OpKind, seen: &Seen) {
        self.runs += 1;
        *self.met.entry((kind, op)).or_default() += 1;
        self.poisoned += usize::from(seen.poisoned);
        self.undecided += usize::from(seen.undecided);
        self.no_space += usize::from(seen.no_space > 0);
        self.failed_opens += usize::from(seen.failed_opens > 0);
        self.failed_reads += usize::from(seen.failed_reads > 0);
        let met_nothing = seen.failed_opens + seen.failed_reads + seen.refused + seen.no_space == 0;
        self.unharmed += usize::from(met_nothing && !seen.poisoned);
    }

    fn of_kind(&self, kind: Kind) -> usize {
        self.met.iter().filter(|((of, _), _)| *of == kind).map(|(_, count)| count).sum()
    }

    fn print(&self, workload: &Workload, took: Duration) {
        let Workload { name, set, .. } = workload;
        println!(
            "{name} with options {set}: {} calls, {} runs in {took:.1?}: {} poisoned ({} with a batch undecided), {} without \
             space, {} opens failed, {} with failed reads, {} unharmed",
            self.calls,
            self.runs,
            self.poisoned,
            self.undecided,
            self.no_space,
            self.failed_opens,
            self.failed_reads,
            self.unharmed
        );
        for kind in Kind::ALL {
            let met: Vec<String> = (self.met.iter())
                .filter(|((of, _), _)| *of == kind)
                .map(|((_, op), count)| format!("{op:?} {count}"))
                .collect();
            println!("  {}: {}", kind.name(), met.join(", "));
        }
    }
}

fn disk(workload: &Workload, n: u64) -> SimFs {
    // Decides how much of a failing write is written.
    SimFs::new(workload.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// One run: a failure at one call, what it leaves, and whether that is what the contract says of such a call.
fn run(workload: &Workload, strike: Strike, calls: &[Call]) -> Seen {
    let call = &calls[strike.n as usize];
    let _replay = Replay::new(workload, strike, call);
    let mut world = World::new(workload, disk(workload, strike.n), Some(strike));
    world.play();
    assert_eq!(world.struck.as_ref(), Some(call), "the same calls are made in every run, up to the failure");
    let seen = world.seen;
    if only().is_some() {
        println!("{call:?}: {seen:?}, health {:?}", world.health());
    }
    examine(workload, world, strike.kind, workload.seed ^ strike.n);
    check_outcome(strike, calls, &seen);
    seen
}

/// Whether a call syncs a segment of the log that is made ahead.
fn is_sync_ahead(calls: &[Call], n: usize) -> bool {
    let before = &calls[n.saturating_sub(1)];
    calls[n].op == OpKind::Sync && before.op == OpKind::Preallocate && before.path == calls[n].path
}

/// Whether a call syncs the directory for such a segment.
fn is_directory_ahead(calls: &[Call], n: usize) -> bool {
    calls[n].op == OpKind::SyncDir && n > 0 && is_sync_ahead(calls, n - 1)
}

/// What `docs/recovery.md` says of a failure of this call.
fn check_outcome(strike: Strike, calls: &[Call], seen: &Seen) {
    let n = strike.n as usize;
    let call = &calls[n];
    if strike.kind.is_harmless() {
        assert!(
            !seen.poisoned && seen.failed_opens + seen.failed_reads == 0,
            "it must not be noticed: {seen:?}"
        );
        return;
    }
    let (Kind::EioOnce | Kind::SyncKept | Kind::SyncDropped | Kind::SyncMixed | Kind::SyncFull) = strike.kind
    else {
        return;
    };
    let file = file_kind(call);
    // A segment that is made ahead: nothing depends on it yet. A failed sync of the directory is told by the next
    // append.
    let is_told = calls[n + 1..]
        .iter()
        .take_while(|later| later.phase != Phase::Opening)
        .any(|later| later.op == OpKind::Write && later.phase == Phase::Running && file_kind(later) == "wal");
    match call.phase {
        Phase::Running => {
            let is_log = matches!(file.as_str(), "wal" | "manifest");
            let must_poison = call.op == OpKind::SyncDir && (!is_directory_ahead(calls, n) || is_told)
                || is_log && matches!(call.op, OpKind::Write | OpKind::Sync) && !is_sync_ahead(calls, n)
                || call.op == OpKind::Rename;
            let may_poison = must_poison
                || call.op == OpKind::SyncDir
                || matches!(file.as_str(), "manifest" | "tmp")
                || file == "wal" && !is_sync_ahead(calls, n);
            assert!(seen.poisoned || !must_poison, "the engine must be poisoned");
            // With the disk full as well, a flush fails twice, and for the other reason the second time.
            assert!(!seen.poisoned || may_poison || seen.poisoned_in_need, "the engine must not be poisoned");
        }
        Phase::Opening => {
            let matters = matches!(call.op, OpKind::Write | OpKind::Sync | OpKind::SyncDir | OpKind::Rename);
            assert!(seen.failed_opens > 0 || !matters || file == "torn", "the open must fail");
            assert!(!seen.poisoned);
        }
        Phase::Copying | Phase::Closing => assert!(!seen.poisoned),
    }
}

/// Which failures are tried.
fn choose(workload: &Workload, calls: &[Call], all: bool) -> Vec<Strike> {
    let mut random = Random::stream(workload.seed, 99);
    let mut strikes = Vec::new();
    for kind in Kind::ALL {
        let mut classes: BTreeMap<(OpKind, String, Phase), Vec<u64>> = BTreeMap::new();
        for (n, call) in calls.iter().enumerate().filter(|(_, call)| kind.strikes(call.op)) {
            let is_told_apart = kind.is_first_of_its_sort() || call.op == OpKind::SyncDir;
            let phase = if is_told_apart { call.phase } else { Phase::Running };
            let file = match &calls[n.saturating_sub(1)] {
                _ if is_directory_ahead(calls, n) => "ahead".into(),
                // What puts a manifest in force.
                before if before.op == OpKind::Rename => "CURRENT".into(),
                _ => file_kind(call),
            };
            let class = (call.op, file, phase);
            classes.entry(class).or_default().push(n as u64);
        }
        for numbers in classes.values() {
            let first = random.below(numbers.len());
            let chosen = numbers
                .iter()
                .enumerate()
                .filter(|(index, _)| all || *index == first || random.one_in(SHARE));
            strikes.extend(chosen.map(|(_, n)| Strike { n: *n, kind }));
        }
    }
    strikes
}

fn sweep(workload: &Workload, all: bool) -> Tally {
    let start = Instant::now();
    let (calls, seen) = World::calls_of(workload, disk(workload, 0));
    assert!(!seen.poisoned && seen.failed_opens + seen.failed_reads == 0, "nothing fails yet: {seen:?}");
    let mut tally = Tally { calls: calls.len(), ..Tally::default() };
    let mut failed = 0;
    for strike in choose(workload, &calls, all) {
        // One failure must not hide the others, but many of them say no more than a few.
        match catch_unwind(AssertUnwindSafe(|| run(workload, strike, &calls))) {
            Ok(seen) => tally.note(strike.kind, calls[strike.n as usize].op, &seen),
            Err(_) => failed += 1,
        }
        if failed == FAILURES_MAX {
            break;
        }
    }
    tally.print(workload, start.elapsed());
    assert_eq!(failed, 0, "failed runs of {} with options {}: see above", workload.name, workload.set);
    tally
}

/// A base workload, or one failure of it. With `NYALA_FAULTS_ALL` every call, with `NYALA_LONG` under all options.
pub(crate) fn sweep_named(name: &'static str) {
    let seed = seed();
    if let Some(only) = only() {
        let parts: Vec<&str> = only.split([':', '/']).collect();
        let [workload, set, kind, n] = parts[..] else {
            panic!("NYALA_FAULT_ONLY is workload/options:kind:call")
        };
        if workload != name {
            return;
        }
        let mut sets = all_sets(name, seed).into_iter();
        let workload = sets.find(|workload| workload.set == set).expect("an option set");
        let kind = Kind::named(kind).expect("a kind of failure");
        let n = n.parse().expect("the number of a call");
        let (calls, _) = World::calls_of(&workload, disk(&workload, 0));
        println!("{:?}", run(&workload, Strike { n, kind }, &calls));
        return;
    }
    let workloads = if is_set("NYALA_LONG") { all_sets(name, seed) } else { vec![base(name, seed)] };
    let all = is_set("NYALA_LONG") || is_set("NYALA_FAULTS_ALL");
    for workload in workloads {
        let tally = sweep(&workload, all);
        for kind in Kind::ALL {
            assert!(tally.of_kind(kind) >= 5, "{} was met {} times", kind.name(), tally.of_kind(kind));
        }
        assert!(tally.poisoned > 0 && tally.undecided > 0 && tally.no_space > 0, "{tally:?}");
        assert!(tally.failed_opens > 0, "{tally:?}");
    }
}

/// What the base workloads do to a disk, without failures.
pub(crate) fn covered(names: &[&'static str]) -> (BTreeSet<(OpKind, Phase)>, Seen) {
    let mut covered = BTreeSet::new();
    let mut all = Seen::default();
    for name in names {
        let workload = base(name, seed());
        let (calls, seen) = World::calls_of(&workload, disk(&workload, 0));
        println!("{name}: {} calls, {seen:?}", calls.len());
        covered.extend(calls.iter().map(|call| (call.op, call.phase)));
        all.flushes += seen.flushes;
        all.compactions += seen.compactions;
        all.rows_moved += seen.rows_moved;
        all.no_space += seen.no_space;
    }
    (covered, all)
}
