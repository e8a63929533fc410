//! Readers, writers, snapshots, flushes and compactions at the same time.
//!
//! A run is as long as a clock says and no two are the same. What is checked does not depend on the order of things:
//! batches that write one number to every key of two tables must be seen whole, by every kind of read, and numbers
//! never go back for one reader; a key that is always there is never absent; of many inserts of a key one succeeds.

mod power;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use nyala::{Durability, Engine, ErrorKind, Options, Schema, Snapshot, Table, Type};

use crate::random::Random;
use crate::replay::{seconds, seed};
use crate::settings;

/// The keys that every batch writes, in each of the two tables.
const KEYS: i64 = 24;

struct Bench {
    engine: Engine,
    tables: [Table; 2],
    /// The greatest number whose commit has returned.
    acknowledged: AtomicI64,
    stop: AtomicBool,
    until: Instant,
}

/// Ends the run of all threads when one panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bench {
    fn new(options: Options, dir: &std::path::Path) -> Bench {
        let engine = Engine::open(dir, options).expect("an empty directory");
        let schema = || {
            let schema = Schema::builder().key("key", Type::I64).column("number", Type::I64);
            schema.column("padding", Type::Binary).build().expect("legal")
        };
        let tables = ["x", "y"].map(|name| engine.create_table(name, schema()).expect("a new name"));
        let until = Instant::now() + Duration::from_secs_f64(seconds(2.0));
        let bench =
            Bench { engine, tables, acknowledged: AtomicI64::new(0), stop: AtomicBool::new(false), until };
        bench.write_all(1, Durability::Buffered);
        bench
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    fn write_all(&self, number: i64, durability: Durability) {
        let mut batch = self.engine.batch();
        for table in &self.tables {
            for key in 0..KEYS {
                // The keys of a batch are not sorted, and some are deleted first.
                let key = (key * 7) % KEYS;
                if (key + number) % 5 == 0 {
                    batch.delete(table, key).expect("fits");
                }
                batch.upsert(table, (key, number, vec![number as u8; 8])).expect("fits");
            }
        }
        batch.commit(durability).expect("a good disk");
        self.acknowledged.fetch_max(number, Ordering::SeqCst);
    }

    /// Writes one number after the other.
    fn writer(&self, mut random: Random) {
        let _ending = Ending(&self.stop);
        for number in 2.. {
            if !self.goes_on() {
                return;
            }
            let durability = if random.one_in(3) { Durability::Sync } else { Durability::Buffered };
            self.write_all(number, durability);
        }
    }

    /// Writes beside the keys that are checked, so that groups of commits overlap and memtables fill.
    fn bystander(&self, mut random: Random, base: i64) {
        let _ending = Ending(&self.stop);
        let mut expected = vec![None; 16];
        while self.goes_on() {
            let table = &self.tables[0];
            let slot = random.below(expected.len());
            let key = base + slot as i64;
            let number = random.within(0..1_000_000);
            if random.one_in(3) {
                table.delete(key).expect("a good disk");
                expected[slot] = None;
            } else {
                let mut batch = self.engine.batch();
                batch.upsert(table, (key, number, random.bytes(30))).expect("fits");
                batch.commit(*random.pick(&[Durability::Sync, Durability::Buffered])).expect("a good disk");
                expected[slot] = Some(number);
            }
            // Nobody else writes these keys: what was acknowledged is what is read.
            let slot = random.below(expected.len());
            let found = table.get(base + slot as i64).expect("a good disk");
            let found = found.map(|row| row.get::<i64>("number").expect("a number"));
            assert_eq!(expected[slot], found, "key {} of one writer", base + slot as i64);
        }
    }

    fn point_reader(&self, mut random: Random) {
        let _ending = Ending(&self.stop);
        let mut newest = 0;
        while self.goes_on() {
            let acknowledged = self.acknowledged.load(Ordering::SeqCst);
            newest = newest.max(acknowledged);
            let table = &self.tables[random.below(2)];
            let key = random.within(0..KEYS);
            let row = table.get(key).expect("a good disk");
            let row = row.unwrap_or_else(|| panic!("key {key} is always there, and was not found"));
            let number: i64 = row.get("number").expect("a number");
            assert!(number >= newest, "key {key} has number {number} after {newest} was seen");
            newest = number;
            assert!(table.exists(key).expect("a good disk"), "key {key} is always there");
        }
    }

    fn scan_reader(&self, mut random: Random) {
        let _ending = Ending(&self.stop);
        let mut newest = 0;
        while self.goes_on() {
            newest = newest.max(self.acknowledged.load(Ordering::SeqCst));
            let table = &self.tables[random.below(2)];
            let number = read_whole(table, None, random.one_in(2));
            assert!(number >= newest, "a scan gives number {number} after {newest} was seen");
            newest = number;
            let keys: Vec<i64> = (0..KEYS).collect();
            let rows = table.multi_get(keys).expect("a good disk");
            let mut numbers = rows
                .iter()
                .map(|row| row.as_ref().expect("it is always there").get::<i64>("number").expect("a number"));
            let first = numbers.next().expect("there are keys");
            assert!(numbers.all(|number| number == first), "multi_get sees half a batch");
            assert_eq!(KEYS as u64, table.scan().range(0..KEYS).count().expect("a good disk"), "count");
        }
    }

    fn snapshot_reader(&self, mut random: Random) {
        let _ending = Ending(&self.stop);
        let mut kept: Vec<(Snapshot, i64)> = Vec::new();
        while self.goes_on() {
            // Many are taken, so that some are taken in a bad moment; each is kept for longer than a flush takes.
            let snapshot = self.engine.snapshot();
            let number = self.read_at(&snapshot, random.below(2), random.within(0..KEYS));
            kept.push((snapshot, number));
            let (snapshot, number) = random.pick(&kept);
            let found = if random.one_in(8) {
                read_whole(&self.tables[random.below(2)], Some(snapshot), random.one_in(2))
            } else {
                self.read_at(snapshot, random.below(2), random.within(0..KEYS))
            };
            assert_eq!(*number, found, "a snapshot sees half a batch, or has changed");
            if kept.len() > 100 + random.below(100) {
                kept.swap_remove(random.below(kept.len()));
            }
        }
    }

    fn read_at(&self, snapshot: &Snapshot, table: usize, key: i64) -> i64 {
        let row = self.tables[table].get_at(key, snapshot).expect("a good disk");
        let row = row.unwrap_or_else(|| panic!("key {key} is not in a snapshot"));
        row.get("number").expect("a number")
    }

    /// Flushes and compacts all the time.
    fn tidier(&self, mut random: Random) {
        let _ending = Ending(&self.stop);
        while self.goes_on() {
            let table = &self.tables[random.below(2)];
            match random.below(3) {
                0 => self.engine.flush().expect("a good disk"),
                1 => table.flush().expect("a good disk"),
                _ => table.compact().expect("a good disk"),
            }
        }
    }

    fn check(&self) {
        let report = self.engine.check().expect("a good disk");
        assert!(report.is_clean(), "check: {:#?}", report.problems);
    }
}

/// Reads all keys of a table; they must all be there, with one number. Gives it.
fn read_whole(table: &Table, at: Option<&Snapshot>, reverse: bool) -> i64 {
    let mut scan = table.scan().range(0..KEYS);
    if reverse {
        scan = scan.reverse();
    }
    if let Some(snapshot) = at {
        scan = scan.at(snapshot);
    }
    let rows: Vec<(i64, i64)> = scan
        .rows()
        .expect("a good disk")
        .map(|row| {
            let row = row.expect("a good disk");
            (row.get("key").expect("a key"), row.get("number").expect("a number"))
        })
        .collect();
    let mut keys: Vec<i64> = (0..KEYS).collect();
    if reverse {
        keys.reverse();
    }
    assert_eq!(keys, rows.iter().map(|(key, _)| *key).collect::<Vec<_>>(), "a scan misses keys");
    let number = rows[0].1;
    assert!(rows.iter().all(|(_, found)| *found == number), "a scan sees half a batch: {rows:?}");
    number
}

#[test]
fn reads_see_batches_whole_and_miss_no_key_while_memtables_come_and_go() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bench = Bench::new(settings::threads_small().options, dir.path());
    let random = |n: u64| Random::new(seed().wrapping_mul(100) + n);
    std::thread::scope(|scope| {
        scope.spawn(|| bench.writer(random(0)));
        scope.spawn(|| bench.bystander(random(1), 1000));
        scope.spawn(|| bench.bystander(random(2), -1000));
        // Many: what they would find wrong is only there for a moment.
        for n in 0..4 {
            let random = random(10 + n);
            scope.spawn(|| bench.point_reader(random));
        }
        scope.spawn(|| bench.scan_reader(random(4)));
        scope.spawn(|| bench.snapshot_reader(random(5)));
        scope.spawn(|| bench.snapshot_reader(random(7)));
        scope.spawn(|| bench.tidier(random(6)));
    });
    bench.check();
    let last = bench.acknowledged.load(Ordering::SeqCst);
    let options = settings::threads_small().options;
    drop(bench);
    let engine = Engine::open(dir.path(), options).expect("it was closed");
    for name in ["x", "y"] {
        assert_eq!(last, read_whole(&engine.existing_table(name).expect("it was made"), None, false));
    }
}

#[test]
fn of_many_inserts_of_a_key_one_succeeds() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let engine = Engine::open(dir.path(), settings::threads_small().options).expect("an empty directory");
    let schema = Schema::builder().key("key", Type::I64).column("owner", Type::I64).build().expect("legal");
    let table = engine.create_table("t", schema).expect("a new name");
    let keys = 400;
    let wins: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let insert_all = |owner: i64| {
            let mut won = Vec::new();
            for key in 0..keys {
                match table.insert((key, owner)) {
                    Ok(()) => won.push(key),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}"),
                }
            }
            won
        };
        let threads: Vec<_> = (0..4).map(|owner| scope.spawn(move || insert_all(owner))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (owner, keys) in (0..).zip(wins) {
        all.extend(keys.into_iter().map(|key| (key, owner)));
    }
    all.sort_unstable();
    let rows = table.scan().rows().expect("a good disk").map(|row| {
        let row = row.expect("a good disk");
        (row.get("key").expect("a key"), row.get("owner").expect("an owner"))
    });
    assert_eq!(all, rows.collect::<Vec<(i64, i64)>>());
    assert_eq!(all.len() as i64, keys);
}
