//! The workloads: named scripts that follow from a seed, each with an eye to one part of the engine.

use nyala::vfs::sim::{FailedSync, Fault, LastWrite, OpKind, OpSet, PowerCut};
use nyala::{Durability, Options};

use crate::settings::{each_batch, roomy, tiny};
use crate::shape::{Part, Row, Shape};
use crate::verbs::{Op, Verb};
use crate::world::{Era, World};

/// A script and the options that it runs with.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) options: fn() -> Options,
    script: fn(&mut World),
}

/// All of them.
pub(crate) const WORKLOADS: [Workload; 18] = [
    Workload { name: "first_open", options: roomy, script: first_open },
    Workload { name: "verbs", options: roomy, script: verbs },
    Workload { name: "transactions", options: tiny, script: transactions },
    Workload { name: "tables", options: tiny, script: tables },
    Workload { name: "alterations", options: each_batch, script: alterations },
    Workload { name: "flushes", options: tiny, script: flushes },
    Workload { name: "background", options: each_batch, script: background },
    Workload { name: "compaction", options: tiny, script: compaction },
    Workload { name: "moved_rows", options: each_batch, script: moved_rows },
    Workload { name: "manifest_rolls", options: roomy, script: manifest_rolls },
    Workload { name: "log_segments", options: small_segments, script: log_segments },
    Workload { name: "snapshots", options: each_batch, script: snapshots },
    Workload { name: "checkpoints", options: tiny, script: checkpoints },
    Workload { name: "reopenings", options: tiny, script: reopenings },
    Workload { name: "recoveries", options: tiny, script: recoveries },
    Workload { name: "full_disk", options: tiny, script: full_disk },
    Workload { name: "failing_disk", options: tiny, script: failing_disk },
    Workload { name: "failing_log", options: small_segments, script: failing_log },
];

impl Workload {
    pub(crate) fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// Runs the script on an empty disk.
    pub(crate) fn run(&self, seed: u64) -> Vec<Era> {
        let name = self.name.bytes().fold(seed, |hash, byte| hash.rotate_left(7) ^ u64::from(byte));
        let mut world = World::new(name, (self.options)());
        world.open();
        (self.script)(&mut world);
        world.compare();
        world.finish()
    }
}

fn small_segments() -> Options {
    Options { log_segment_bytes: 4 << 10, log_bytes_max: 64 << 10, ..roomy() }
}

/// The making of a database, and the first row.
fn first_open(world: &mut World) {
    world.create("a");
    world.write_batch(1, Durability::Sync);
    world.close_and_open();
    world.write_batch(1, Durability::Buffered);
}

/// Every verb, and batches over several tables, buffered and synced.
fn verbs(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..60 {
        match world.random.below(4) {
            0 | 1 => world.write_one(),
            _ => world.write_some(8),
        }
    }
}

/// Transactions, each with one that is a conflict, among batches and flushes.
fn transactions(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..24 {
        let durability = *world.random.pick(&[Durability::Buffered, Durability::Sync]);
        world.write_transactions(6, durability);
        match world.random.below(6) {
            0 => world.flush_table(),
            1 => world.write_some(4),
            2 => world.sync(),
            3 => world.kill_and_open(),
            _ => {}
        }
    }
}

/// Tables are made, written, dropped, and made again under the same names.
fn tables(world: &mut World) {
    for _ in 0..24 {
        let name = *world.random.pick(&["a", "b", "c"]);
        if world.has(name) {
            world.drop(name)
        } else {
            world.create(name)
        }
        for _ in 0..world.random.below(3) {
            world.write_some(6);
        }
        if world.random.one_in(4) {
            world.flush_table();
        }
    }
}

/// Flushes of everything and of single tables, that were asked for.
fn flushes(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..14 {
        for _ in 0..world.random.below(3) {
            world.write_some(6);
        }
        match world.random.below(3) {
            0 => world.flush(),
            1 => world.flush_table(),
            _ => world.sync(),
        }
    }
}

/// Memtables that are sealed after every batch: flushes, compactions and the bound of the log come by themselves.
fn background(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..30 {
        world.write_some(10);
    }
}

/// Runs of several files, compacted when asked and by chance.
fn compaction(world: &mut World) {
    world.create("a");
    for _ in 0..8 {
        world.write_batch(40, Durability::Buffered);
        world.flush_table();
        if world.random.one_in(3) {
            world.compact();
        }
    }
    world.compact();
}

/// The same few keys overwritten: rowsets fill with garbage, and what is left of them moves.
fn moved_rows(world: &mut World) {
    world.create_as("a", Shape::TextDown);
    for round in 0..10 {
        for _ in 0..2 {
            world.write_batch(20, Durability::Buffered);
        }
        if round % 3 == 2 {
            world.compact();
        }
    }
}

/// Keys so long that a few edits fill a manifest.
fn manifest_rolls(world: &mut World) {
    const KEY_BYTES: usize = 3000;
    world.create_as("a", Shape::Bytes);
    for round in 0..16 {
        let op = |byte: u8, world: &mut World| {
            let mut key = vec![byte; KEY_BYTES];
            key.push(world.random.below(3) as u8);
            let row = Row::plain(round, vec![byte; 10], &[]);
            let verb = if world.random.one_in(5) { Verb::Delete } else { Verb::Upsert(row) };
            Op { table: "a".to_owned(), key: vec![Part::Bytes(key)], verb }
        };
        let ops = vec![op(1, world), op(2, world)];
        world.write_ops(&ops, Durability::Buffered);
        world.flush_table();
        if round % 6 == 5 {
            world.compact();
        }
    }
}

/// Batches that end within a segment, fill one, and are longer than one.
fn log_segments(world: &mut World) {
    world.create_as("a", Shape::Int);
    world.create_as("b", Shape::Int);
    for _ in 0..40 {
        let table = if world.random.one_in(3) { "b" } else { "a" };
        let bytes = *world.random.pick(&[10, 100, 700, 700, 1500, 5000]);
        let durability = if world.random.one_in(4) { Durability::Sync } else { Durability::Buffered };
        put(world, table, bytes, durability);
        match world.random.below(6) {
            0 => world.write_some(4),
            1 => world.flush_table(),
            2 => {
                // The log of one table ends durably, that of the other goes on in the next segment: there the log
                // begins once the first is flushed.
                put(world, "a", 700, Durability::Sync);
                put(world, "b", 3500, Durability::Buffered);
                world.flush_named("a");
            }
            _ => {}
        }
    }
}

/// A row of so many bytes in a table whose key is a number.
fn put(world: &mut World, table: &str, bytes: usize, durability: Durability) {
    let number = world.random.within(0..40);
    let blob = world.random.bytes(bytes);
    let row = Row::plain(number, blob, &world.state().tables[table].extra);
    let op = Op { table: table.to_owned(), key: vec![Part::Int(number)], verb: Verb::Upsert(row) };
    world.write_ops(&[op], durability);
}

/// Snapshots that outlive flushes and compactions.
fn snapshots(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..24 {
        world.write_some(8);
        match world.random.below(8) {
            0..3 => world.keep_snapshot(),
            3 => world.drop_snapshot(),
            4 => world.compact(),
            _ => {}
        }
        world.read_snapshots();
    }
}

/// Copies of it all, while there is more to flush and to compact. The power is cut in them, and after they are made.
fn checkpoints(world: &mut World) {
    world.create("a");
    world.create("b");
    for round in 0..5 {
        for _ in 0..1 + world.random.below(3) {
            world.write_some(10);
        }
        if world.random.one_in(2) {
            world.flush_table();
        }
        world.checkpoint();
        if round % 2 == 1 {
            world.compact();
        }
    }
    world.write_some(10);
}

/// Closed and opened, killed and opened, with something to replay or with nothing.
fn reopenings(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..10 {
        for _ in 0..world.random.below(4) {
            world.write_some(10);
        }
        match world.random.below(3) {
            0 => world.close_and_open(),
            _ => world.kill_and_open(),
        }
    }
}

/// Power cuts, and what is written between one and the next.
fn recoveries(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..8 {
        for _ in 0..1 + world.random.below(4) {
            world.write_some(10);
        }
        if world.random.one_in(3) {
            world.flush_table();
        }
        let seed = world.random.next();
        let policy = if world.random.one_in(2) {
            // A torn tail of the log, which is saved aside.
            world.write_batch(10, Durability::Buffered);
            PowerCut { last_write: LastWrite::TornSectors, seed, ..PowerCut::keep_all() }
        } else {
            PowerCut::random(seed)
        };
        world.cut_and_open(&policy);
    }
}

/// A disk that is full again and again, wherever that strikes.
fn full_disk(world: &mut World) {
    world.create("a");
    world.create("b");
    // Once for certain what chance may leave out: a write of the log that fails has its rest cut off.
    world.arm(0, Fault::enospc().on(OpSet::of(OpKind::Write)).forever());
    world.write_some(3);
    world.heal();
    for _ in 0..10 {
        world.write_some(10);
        if world.random.one_in(2) {
            let free = world.random.below(12_000) as u64;
            world.fill(free);
        } else {
            let after = world.random.below(12) as u64;
            world.arm(after, Fault::enospc().on(OpSet::of(OpKind::Write)).forever());
        }
        for _ in 0..1 + world.random.below(6) {
            anything(world);
        }
        if !world.heal() {
            let policy = PowerCut::random(world.random.next());
            world.cut_and_open(&policy);
        }
    }
}

/// A disk of which one call fails, again and again: mostly a sync, in each of the ways in which a sync can fail.
fn failing_disk(world: &mut World) {
    world.create("a");
    world.create("b");
    for _ in 0..14 {
        world.write_some(6);
        let kind = *world.random.pick(&[
            FailedSync::PagesClean,
            FailedSync::PagesClean,
            FailedSync::PagesDropped,
            FailedSync::PagesMixed,
        ]);
        let fault = match world.random.below(6) {
            0 => Fault::eio().on(OpSet::CHANGES),
            1 => Fault::short().forever(),
            2 => Fault::eio().on(OpSet::of(OpKind::SyncDir)),
            _ => Fault::eio().on(OpSet::SYNCS),
        };
        let after = world.random.below(20) as u64;
        world.arm(after, fault.sync(kind));
        for _ in 0..2 + world.random.below(6) {
            anything(world);
        }
        if !world.heal() {
            let policy = PowerCut::random(world.random.next());
            world.cut_and_open(&policy);
        }
    }
}

/// A log with many segments on a disk that fails to sync, whoever it is that asks: a commit, a flush, or housekeeping,
/// whose errors nobody sees.
fn failing_log(world: &mut World) {
    world.create_as("a", Shape::Int);
    for _ in 0..24 {
        put(world, "a", 1800, Durability::Buffered);
        let kind = if world.random.one_in(3) { OpSet::SYNCS } else { OpSet::of(OpKind::SyncDir) };
        world.arm(0, Fault::eio().on(kind));
        for _ in 0..1 + world.random.below(6) {
            put(world, "a", 1800, Durability::Buffered);
        }
        put(world, "a", 10, Durability::Sync);
        put(world, "a", 10, Durability::Sync);
        if !world.heal() {
            let policy = PowerCut::random(world.random.next());
            world.cut_and_open(&policy);
        }
    }
}

/// Columns and names come and go between writes, flushes, merges and reopenings.
fn alterations(world: &mut World) {
    world.create("a");
    world.create("b");
    for round in 0..14 {
        world.write_some(8);
        if round % 5 == 2 {
            world.keep_snapshot();
        }
        if let Some(name) = world.table_name() {
            world.alter(&name);
        }
        if round % 3 == 1
            && let Some(name) = world.table_name()
        {
            let free = ["a", "b", "c"].into_iter().find(|free| !world.has(free));
            world.rename(&name, free.expect("there are two tables"));
        }
        world.write_batch(4, Durability::Buffered);
        match world.random.below(6) {
            0 => world.flush_table(),
            1 => world.compact(),
            2 => world.kill_and_open(),
            3 => world.close_and_open(),
            _ => {}
        }
        world.read_snapshots();
        world.compare();
    }
}

/// One verb of those that write.
fn anything(world: &mut World) {
    match world.random.below(13) {
        0..3 => world.write_one(),
        3..7 => world.write_some(10),
        7 => world.flush(),
        8 => world.flush_table(),
        9 => world.compact(),
        10 => world.sync(),
        11 => {
            if let Some(name) = world.table_name() {
                world.alter(&name);
            }
        }
        _ => {
            let name = *world.random.pick(&["a", "b", "c"]);
            if world.has(name) { world.drop(name) } else { world.create(name) }
        }
    }
}

/// What a process does after a power cut, before the next one: some batches, one of them synced, and whatever else.
pub(crate) fn second_life(world: &mut World) {
    for step in 0..4 {
        if world.is_halted() {
            return;
        }
        match step {
            1 => world.write_batch(5, Durability::Sync),
            2 => world.write_batch(5, Durability::Buffered),
            _ => anything(world),
        }
    }
}
