//! A process that has run out of file descriptors: nothing can be opened or made for a while. Nothing is lost, nothing
//! is poisoned before it was tried again, and what could not be done is done later.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nyala::vfs::{Entry, File, Fs, Lock, SimFs};
use nyala::{Durability, Engine, ErrorKind, Health, Options, Table};

use crate::random::Random;
use crate::workload::{Width, base};
use crate::world::{DIR, schema};

/// Passes calls on to a simulated disk, but for some of those that need a descriptor.
#[derive(Clone, Debug)]
struct Descriptors {
    disk: SimFs,
    calls: Arc<AtomicU64>,
    fails_from: Arc<AtomicU64>,
    fails_until: Arc<AtomicU64>,
}

impl Descriptors {
    fn new(disk: SimFs) -> Descriptors {
        let never = || Arc::new(AtomicU64::new(u64::MAX));
        Descriptors { disk, calls: Arc::default(), fails_from: never(), fails_until: never() }
    }

    /// From the n-th such call from now on, so many fail.
    fn run_out(&self, n: u64, count: u64) {
        let from = self.calls.load(Ordering::Relaxed) + n;
        self.fails_from.store(from, Ordering::Relaxed);
        self.fails_until.store(from.saturating_add(count), Ordering::Relaxed);
    }

    /// Whether as many calls were made as were to fail, and more.
    fn is_over(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.fails_until.load(Ordering::Relaxed)
    }

    fn take(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = self.fails_from.load(Ordering::Relaxed)..self.fails_until.load(Ordering::Relaxed);
        if fails.contains(&call) { Err(io::Error::from_raw_os_error(EMFILE)) } else { Ok(()) }
    }
}

/// Too many open files, on the systems that have this number.
const EMFILE: i32 = 24;

impl Fs for Descriptors {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.take()?;
        self.disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.take()?;
        self.disk.open(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.take()?;
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // The real disk syncs a directory through a handle that it holds.
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.take()?;
        self.disk.lock(path)
    }
}

fn options(fs: &(impl Fs + Clone), seed: u64) -> Options {
    Options { fs: Arc::new(fs.clone()), ..base("flushes", seed).options }
}

/// Numbers by id.
type Rows = std::collections::BTreeMap<u32, i64>;

fn rows(table: &Table) -> Rows {
    let rows = table.scan().columns(["id", "number"]).rows().expect("reads need no descriptor");
    rows.map(|row| row.and_then(|row| Ok((row.get("id")?, row.get("number")?))).expect("reads go on"))
        .collect()
}

struct Run {
    fs: Descriptors,
    engine: Engine,
    table: Table,
    rows: Rows,
    refused: u32,
}

impl Run {
    fn new(seed: u64) -> Run {
        let fs = Descriptors::new(SimFs::new(seed));
        let engine = Engine::open(DIR, options(&fs, seed)).expect("a new disk");
        let table = engine.create_table("t", schema(Width::Plain)).expect("a new table");
        Run { fs, engine, table, rows: Rows::new(), refused: 0 }
    }

    fn write(&mut self, id: u32, number: i64) {
        match self.table.upsert((id, number, "x".repeat(150))) {
            Ok(()) => {
                self.rows.insert(id, number);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                self.refused += 1;
            }
        }
    }

    fn assert_healthy(&self, context: &impl fmt::Display) {
        let health = self.engine.health();
        assert!(matches!(health, Health::Healthy), "{context}: {health:?}");
    }

    fn assert_rows(&self, context: &impl fmt::Display) {
        assert_eq!(self.rows, rows(&self.table), "{context}");
    }

    /// What a kill leaves has all that was acknowledged, and nothing that was refused.
    fn assert_survives(&self, context: &impl fmt::Display) {
        let disk = self.fs.disk.fork();
        let engine =
            Engine::open(DIR, options(&disk, 1)).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(
            self.rows,
            rows(&engine.existing_table("t").expect("it was made")),
            "{context}, after a kill"
        );
        let report = engine.check().expect("the disk is well");
        assert!(report.is_clean(), "{context}: {:?}", report.problems);
    }
}

#[test]
fn out_of_descriptors_at_any_call_nothing_is_poisoned_and_nothing_lost() {
    let (mut refused, mut runs) = (0, 0);
    for count in [1, 3, 8] {
        for n in 0.. {
            let mut random = Random::stream(n, count);
            let context = format!("{count} calls from the {n}th on");
            let mut run = Run::new(7);
            run.fs.run_out(n, count);
            for number in 0..160 {
                run.write(random.below(50) as u32, number);
                if number % 40 == 39 {
                    // What is tried again in the background is done when this returns.
                    run.engine.flush().unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                if number % 70 == 69 {
                    // A compaction that lacks them is given up; another does it later.
                    let _ = run.table.compact();
                }
            }
            run.assert_healthy(&context);
            run.assert_rows(&context);
            run.assert_survives(&context);
            refused += run.refused;
            runs += 1;
            let is_over = run.fs.is_over();
            run.engine.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            if !is_over {
                break;
            }
        }
    }
    println!("{runs} runs, {refused} writes refused");
    assert!(runs > 100 && refused > 5, "{runs} runs, {refused} writes refused");
}

/// Each of the two files that a new manifest needs may be the one that cannot be made.
#[test]
fn tables_are_made_and_dropped_once_there_are_descriptors_again() {
    for made in [0, 1] {
        let run = Run::new(3);
        let wide = |number: u32| run.engine.create_table(&format!("wide{number}"), schema(Width::Wide));
        let mut refused = 0;
        for number in 0..20 {
            // The manifest is rolled now and then, which needs new files.
            run.fs.run_out(made, 1000);
            let table = match wide(number) {
                Ok(table) => table,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    assert!(error.to_string().contains("open files"), "{error}");
                    run.assert_healthy(&number);
                    refused += 1;
                    run.fs.run_out(0, 0);
                    wide(number).expect("there are descriptors again")
                }
            };
            run.fs.run_out(made, 1000);
            if run.engine.drop_table(table.name()).is_err() {
                refused += 1;
                assert_eq!(table.count().expect("it is still there"), 0);
                run.fs.run_out(0, 0);
                run.engine.drop_table(table.name()).expect("there are descriptors again");
            }
            run.assert_healthy(&number);
        }
        assert!(refused > 1, "the manifest is never rolled");
        run.fs.run_out(0, 0);
        assert_eq!(run.engine.tables(), ["t"]);
        run.assert_survives(&"at the end");
    }
}

/// There is no file of rows then, which would be the first that cannot be made.
#[test]
fn a_flush_of_deletions_alone_waits_for_descriptors() {
    let mut run = Run::new(11);
    for number in 0..10 {
        run.write(number, i64::from(number));
    }
    run.engine.flush().expect("a good disk");
    for number in 0..8 {
        run.table.delete((number,)).expect("a good disk");
        run.rows.remove(&number);
    }
    run.fs.run_out(0, 5);
    run.engine.flush().expect("it is tried until there are descriptors");
    assert!(run.fs.is_over(), "nothing failed");
    run.assert_healthy(&"after the flush");
    run.assert_rows(&"after the flush");
    run.assert_survives(&"after the flush");
}

#[test]
fn without_descriptors_for_long_a_flush_gives_up_and_says_so() {
    let mut run = Run::new(5);
    for number in 0..10 {
        run.write(number, i64::from(number));
    }
    run.fs.run_out(0, u64::MAX / 2);
    let error = run.engine.flush().expect_err("there are no descriptors");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("open files"), "{error}");
    assert!(matches!(run.engine.health(), Health::Poisoned(_)), "{:?}", run.engine.health());
    let tried = run.fs.calls.load(Ordering::Relaxed) - run.fs.fails_from.load(Ordering::Relaxed);
    assert!(tried >= 8, "it was tried {tried} times");
    run.assert_rows(&"reads go on");
    run.assert_survives(&"a flush was given up");
    run.fs.run_out(0, 0);
    drop((run.table, run.engine));
    let engine = Engine::open(DIR, options(&run.fs, 6)).expect("there are descriptors again");
    assert_eq!(run.rows, rows(&engine.existing_table("t").expect("it was made")));
}

#[test]
fn an_open_without_descriptors_changes_nothing() {
    let mut run = Run::new(9);
    for number in 0..30 {
        run.write(number, i64::from(number));
    }
    let mut batch = run.engine.batch();
    batch.upsert(&run.table, (5, 77, "synced")).expect("it fits");
    batch.commit(Durability::Sync).expect("healthy");
    run.rows.insert(5, 77);
    for n in 0.. {
        let fs = Descriptors::new(run.fs.disk.fork());
        fs.run_out(n, 1);
        let opened = Engine::open(DIR, options(&fs, 2));
        if opened.is_ok() && !fs.is_over() {
            assert!(n > 8, "{n} calls");
            break;
        }
        if let Err(error) = opened {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
        let engine = Engine::open(DIR, options(&fs, 2)).unwrap_or_else(|error| panic!("call {n}: {error}"));
        assert_eq!(run.rows, rows(&engine.existing_table("t").expect("it was made")), "call {n}");
    }
}
