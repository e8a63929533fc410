//! The engine under stress, its tables, what its threads have done so far, and how they run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nyala::{Engine, Health, Options, Schema, Table, Type};

use crate::bank::{self, ACCOUNTS, START, WRITERS};
use crate::watchdog::{Beat, watch};

pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, which is no number")))
}

/// How long a test goes on.
fn length() -> Duration {
    let usual = if std::env::var_os("NYALA_LONG").is_some() { 120 } else { 3 };
    Duration::from_secs(number("NYALA_STRESS_SECONDS").unwrap_or(usual))
}

/// A thread's choices (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// What a thread does: until [`World::goes_on`] says no.
pub(crate) type Part = fn(&World, &mut Chance, &Beat);

pub(crate) struct World {
    engine: Engine,
    /// Accounts, each in the table of its parity; what is in both together is constant.
    pub(crate) bank: [Table; 2],
    /// What each writer did, one row a batch; the newest few.
    pub(crate) journal: Table,
    /// Keys that several threads want.
    pub(crate) claims: Table,
    pub(crate) claim_front: AtomicU64,
    pub(crate) claims_won: AtomicU64,
    /// The number of each writer's last batch that was synced.
    pub(crate) synced: [AtomicU64; WRITERS],
    /// The number of each writer's last batch, and its accounts after it.
    pub(crate) written: [Mutex<bank::Written>; WRITERS],
    next_writer: AtomicU64,
    done: Mutex<BTreeMap<&'static str, u64>>,
    stop: AtomicBool,
}

impl World {
    /// A new database in `dir`.
    pub(crate) fn open(dir: &Path, options: Options) -> World {
        let world = World::reopen(dir, options);
        let mut batch = world.engine.batch();
        for account in 0..(WRITERS * ACCOUNTS) as u64 {
            batch.upsert(world.bank_of(account), (account, START)).expect("it fits");
        }
        batch.commit(nyala::Durability::Sync).expect("healthy");
        world
    }

    /// What is in `dir`; the tables are made if they are not there.
    pub(crate) fn reopen(dir: &Path, options: Options) -> World {
        let engine = Engine::open(dir, options).expect("it opens");
        let accounts = || Schema::builder().key("account", Type::U64).column("balance", Type::I64).build();
        let journal = Schema::builder().key("writer", Type::U32).key("number", Type::U64);
        let journal = journal.column("text", Type::String).build().expect("a schema");
        let claims =
            Schema::builder().key("key", Type::U64).column("by", Type::U64).build().expect("a schema");
        let table = |name: &str, schema: Schema| engine.open_or_create_table(name, schema).expect("a table");
        World {
            bank: ["even", "odd"].map(|name| table(name, accounts().expect("a schema"))),
            journal: table("journal", journal),
            claims: table("claims", claims),
            engine,
            claim_front: AtomicU64::new(0),
            claims_won: AtomicU64::new(0),
            synced: Default::default(),
            written: Default::default(),
            next_writer: AtomicU64::new(0),
            done: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn bank_of(&self, account: u64) -> &Table {
        &self.bank[(account % 2) as usize]
    }

    /// A writer's number, once for each.
    pub(crate) fn become_writer(&self) -> usize {
        usize::try_from(self.next_writer.fetch_add(1, Ordering::Relaxed)).expect("a few writers")
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Counts what was done, so that a test that covers nothing fails.
    pub(crate) fn did(&self, what: &'static str) {
        *self.done.lock().expect("nobody panics with it").entry(what).or_default() += 1;
    }

    pub(crate) fn run(&self, parts: &[(&str, Part)]) {
        self.run_all(parts, None::<(&str, fn(&World, &mut Chance, &Beat))>);
    }

    pub(crate) fn run_beside(
        &self,
        parts: &[(&str, Part)],
        beside: (&str, impl Fn(&World, &mut Chance, &Beat) + Send),
    ) {
        self.run_all(parts, Some(beside));
    }

    fn run_all(
        &self,
        parts: &[(&str, Part)],
        beside: Option<(&str, impl Fn(&World, &mut Chance, &Beat) + Send)>,
    ) {
        let seed = number("NYALA_SEED").unwrap_or(1);
        println!("seed {seed}, for {:?}", length());
        let names = parts.iter().map(|(name, _)| *name).chain(beside.as_ref().map(|(name, _)| *name));
        let beats: Vec<Arc<Beat>> = names.map(Beat::new).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watchdog = scope.spawn(|| {
                watch(&beats, || over.load(Ordering::Relaxed), || format!("{:#?}", self.engine.stats()))
            });
            let mut threads = Vec::new();
            for (at, (name, part)) in parts.iter().enumerate() {
                let beat = &beats[at];
                let mut chance = Chance(seed.wrapping_mul(1000).wrapping_add(at as u64));
                let body = move || self.work(beat, || part(self, &mut chance, beat));
                threads.push(
                    std::thread::Builder::new()
                        .name((*name).to_owned())
                        .spawn_scoped(scope, body)
                        .expect("a thread"),
                );
            }
            if let Some((name, part)) = beside {
                let beat = &beats[parts.len()];
                let mut chance = Chance(seed.wrapping_mul(1000).wrapping_add(999));
                let body = move || self.work(beat, || part(self, &mut chance, beat));
                threads.push(
                    std::thread::Builder::new()
                        .name(name.to_owned())
                        .spawn_scoped(scope, body)
                        .expect("a thread"),
                );
            }
            let start = Instant::now();
            while start.elapsed() < length() && self.goes_on() {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.stop.store(true, Ordering::Relaxed);
            let failed: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().err()).collect();
            over.store(true, Ordering::Relaxed);
            watchdog.join().expect("it watched");
            assert!(failed.is_empty(), "{} threads failed; NYALA_SEED={seed}", failed.len());
        });
        let steps: Vec<u64> = beats.iter().map(|beat| beat.steps()).collect();
        assert!(steps.iter().all(|&steps| steps > 1), "{steps:?}");
        assert!(matches!(self.engine.health(), Health::Healthy));
    }

    fn work(&self, beat: &Beat, part: impl FnOnce()) {
        // If one fails, the others need not go on for long.
        struct Stop<'a>(&'a World);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.stop.store(true, Ordering::Relaxed);
            }
        }
        let stop = Stop(self);
        beat.doing("beginning");
        part();
        drop(stop);
    }

    /// Fails if some kind of work was never done.
    pub(crate) fn assert_all_was_done(&self, but: &[&str]) {
        let done = self.done.lock().expect("nobody panics with it");
        println!("{done:?}");
        let all = [
            "batches",
            "synced batches",
            "claims won",
            "claims lost",
            "snapshots read",
            "held snapshots read again",
            "scans in reverse",
            "iterators walked",
            "tables made",
            "tables dropped",
            "handles of dropped tables refused",
            "flushes",
            "compactions",
            "checks",
        ];
        let missing: Vec<_> =
            all.iter().filter(|what| !done.contains_key(*what) && !but.contains(what)).collect();
        assert!(missing.is_empty(), "never done: {missing:?}");
    }

    pub(crate) fn assert_clean(&self) {
        let report = self.engine.check().expect("it can be read");
        assert!(report.is_clean(), "{:?}", report.problems);
    }

    /// Closes, under the eyes of the watchdog too.
    pub(crate) fn close(&self) {
        let beat = Beat::new("close");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| watch(&[Arc::clone(&beat)], || over.load(Ordering::Relaxed), String::new));
            beat.doing("closing");
            self.engine.close().expect("a clean end");
            over.store(true, Ordering::Relaxed);
        });
    }
}
