//! Power cuts under several writers: what is found is a prefix of their commits, although nobody outside the engine
//! knows their order.
//!
//! Every batch writes down what its writer saw of the others. So if a batch is found, all that it saw must be too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;
use nyala::{Durability, Engine, Options, Schema, Table, Type};

use super::Ending;
use crate::random::Random;
use crate::replay::{rounds, seed};
use crate::settings;

const WRITERS: usize = 3;
/// The keys of each writer, in each table.
const KEYS: i64 = 6;

/// What a writer wrote last, and what it had seen of all writers before.
type Mark = (i64, [i64; WRITERS]);

struct Progress {
    /// The number of each writer's newest batch that was begun.
    begun: [AtomicI64; WRITERS],
    /// That of its newest batch that was synced.
    synced: [AtomicI64; WRITERS],
    stop: AtomicBool,
}

fn open(disk: &SimFs, options: &Options) -> (Engine, [Table; 2]) {
    let options = Options { fs: Arc::new(disk.clone()), ..options.clone() };
    let engine = Engine::open("/db", options).expect("the disk is well");
    let schema = || {
        let schema = Schema::builder().key("key", Type::I64).column("number", Type::I64);
        let schema = (0..WRITERS).fold(schema, |schema, n| schema.column(format!("saw{n}"), Type::I64));
        schema.build().expect("legal")
    };
    let tables = ["x", "y"].map(|name| engine.open_or_create_table(name, schema()).expect("its schema"));
    (engine, tables)
}

/// What one writer's keys say; they must all say the same. All zeros if there are none.
fn read(tables: &[Table; 2], writer: usize) -> Mark {
    let base = writer as i64 * 100;
    let mut marks: Vec<Mark> = Vec::new();
    for table in tables {
        for row in table.scan().range(base..base + 100).rows().expect("the disk is well") {
            let row = row.expect("the disk is well");
            let saw = std::array::from_fn(|n| row.get(format!("saw{n}").as_str()).expect("a number"));
            marks.push((row.get("number").expect("a number"), saw));
        }
    }
    let Some(first) = marks.first() else { return Mark::default() };
    assert_eq!(vec![*first; 2 * KEYS as usize], marks, "half a batch of writer {writer}");
    *first
}

fn write(engine: &Engine, tables: &[Table; 2], progress: &Progress, writer: usize, mut random: Random) {
    let _ending = Ending(&progress.stop);
    let mut number = read(tables, writer).0;
    while !progress.stop.load(Ordering::Relaxed) {
        number += 1;
        // Any key tells what a batch of its writer says.
        let saw: [i64; WRITERS] = std::array::from_fn(|n| {
            let row = tables[0].get(n as i64 * 100).expect("the disk is well");
            row.map_or(0, |row| row.get("number").expect("a number"))
        });
        let mut batch = engine.batch();
        for table in tables {
            for key in 0..KEYS {
                let key = writer as i64 * 100 + key;
                batch.upsert(table, (key, number, saw[0], saw[1], saw[2])).expect("fits");
            }
        }
        let durability = if random.one_in(4) { Durability::Sync } else { Durability::Buffered };
        progress.begun[writer].store(number, Ordering::SeqCst);
        batch.commit(durability).expect("the disk is well");
        if durability == Durability::Sync {
            progress.synced[writer].store(number, Ordering::SeqCst);
        }
        if random.one_in(40) {
            tables[random.below(2)].flush().expect("the disk is well");
        }
    }
}

#[test]
fn a_power_cut_under_several_writers_leaves_a_prefix_with_all_that_was_synced() {
    let mut random = Random::new(seed());
    let mut disk = SimFs::new(1);
    let mut before: [i64; WRITERS] = [0; WRITERS];
    for round in 0..rounds(25) {
        let options =
            if random.one_in(2) { settings::threads_tiny() } else { settings::threads_small() }.options;
        let (engine, tables) = open(&disk, &options);
        let progress = Progress {
            begun: before.map(AtomicI64::new),
            synced: before.map(AtomicI64::new),
            stop: AtomicBool::new(false),
        };
        let policy = PowerCut::random(random.next());
        let (after, synced, begun) = std::thread::scope(|scope| {
            let _ending = Ending(&progress.stop);
            for writer in 0..WRITERS {
                let random = Random::new(random.next());
                let (engine, tables, progress) = (&engine, &tables, &progress);
                scope.spawn(move || write(engine, tables, progress, writer, random));
            }
            std::thread::sleep(Duration::from_micros(random.below(40_000) as u64));
            let load = |of: &[AtomicI64; WRITERS]| of.each_ref().map(|number| number.load(Ordering::SeqCst));
            let synced = load(&progress.synced);
            let after = disk.power_cut(&policy);
            (after, synced, load(&progress.begun))
        });
        drop((tables, engine));

        disk = after;
        let (engine, tables) = open(&disk, &options);
        let marks: [Mark; WRITERS] = std::array::from_fn(|writer| read(&tables, writer));
        let found = marks.map(|(number, _)| number);
        let why = format!(
            "NYALA_SEED={}, round {round}, {policy:?}: found {found:?}, synced {synced:?}, begun {begun:?}",
            seed()
        );
        for writer in 0..WRITERS {
            assert!((synced[writer]..=begun[writer]).contains(&found[writer]), "writer {writer}, {why}");
            let saw = marks[writer].1;
            let is_prefix = (0..WRITERS).all(|other| found[other] >= saw[other]);
            assert!(is_prefix, "writer {writer} is found, which had seen {saw:?}; {why}");
        }
        let report = engine.check().expect("the disk is well");
        assert!(report.is_clean(), "{:#?}", report.problems);
        before = found;
    }
}
