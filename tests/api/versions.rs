//! Versions of commits: which are durable, and which an open has found again.

use nyala::vfs::SimFs;
use nyala::vfs::sim::{FailedSync, Fault, LastWrite, OpSet, PowerCut};
use nyala::{Durability, Engine, ErrorKind, Options, RepairOptions, Table, Version, repair};

use crate::support::{
    as_after_a_kill, files_of, lazy, plain, plain_table, refused, rows, scratch, simulated, tiny,
};

fn open(disk: &SimFs) -> (Engine, Table) {
    let engine = Engine::open("/db", simulated(disk, lazy())).expect("it opens");
    let table = plain_table(&engine);
    (engine, table)
}

fn write(engine: &Engine, table: &Table, id: u32, durability: Durability) -> Version {
    let mut batch = engine.batch();
    for part in 0..3 {
        batch.upsert(table, (3 * id + part, 1, None::<&str>)).expect("it fits");
    }
    batch.commit(durability).expect("healthy")
}

#[test]
fn versions_grow_and_say_what_is_durable() {
    let disk = SimFs::new(1);
    let (engine, table) = open(&disk);
    assert_eq!((engine.recovered_to(), engine.last_durable()), (Version::default(), Version::default()));
    assert_eq!(engine.last_committed(), Version::default(), "nothing was committed yet");
    assert_eq!(engine.batch().commit(Durability::Sync).expect("empty"), Version::default());
    engine.wait_durable(Version::default()).expect("there is nothing to wait for");

    let first = write(&engine, &table, 1, Durability::Buffered);
    assert_eq!(engine.last_committed(), first);
    assert!(engine.last_durable() < first, "nothing was synced");
    table.upsert((9, 1, None::<&str>)).expect("healthy");
    let single = engine.last_committed();
    assert!(first < single);
    // An empty batch is the one before.
    assert_eq!(engine.batch().commit(Durability::Buffered).expect("empty"), single);
    let second = write(&engine, &table, 2, Durability::Sync);
    assert!(single < second);
    assert_eq!(engine.last_durable(), second, "a sync covers all before it");
    let operations = disk.operations();
    engine.wait_durable(first).expect("it is durable");
    assert_eq!(disk.operations(), operations, "nothing is done for what is durable");

    let third = write(&engine, &table, 3, Durability::Buffered);
    let fourth = write(&engine, &table, 4, Durability::Buffered);
    assert_eq!(engine.last_durable(), second);
    engine.wait_durable(third).expect("healthy");
    assert!(engine.last_durable() >= third);
    let durable = engine.last_durable();
    assert_eq!(durable, fourth, "a sync takes all that there is");
    let fifth = write(&engine, &table, 5, Durability::Buffered);
    engine.sync().expect("healthy");
    assert_eq!(engine.last_durable(), fifth);
    let sixth = write(&engine, &table, 6, Durability::Buffered);
    table.flush().expect("healthy");
    assert_eq!(engine.last_durable(), sixth, "a flush syncs the log first");

    for wrong in [Version(fifth.0 + 1000), Version(u64::MAX)] {
        refused(engine.wait_durable(wrong), ErrorKind::InvalidArgument, &["no commit"]);
    }
    assert_eq!(Version(first.0), first);
    assert_eq!(first.to_string(), first.0.to_string());
}

#[test]
fn after_a_loss_of_power_an_open_says_which_commits_it_has_found() {
    let disk = SimFs::new(1);
    let (engine, table) = open(&disk);
    let mut tickets = Vec::new();
    for id in 0..20 {
        tickets.push(write(&engine, &table, id, Durability::Buffered));
        if id == 7 {
            engine.wait_durable(tickets[7]).expect("healthy");
        }
    }
    assert_eq!(engine.last_durable(), tickets[7]);
    for (policy, found) in [(PowerCut::lose_all(), 7), (PowerCut::keep_all(), 19)] {
        let (engine, table) = open(&disk.power_cut(&policy));
        assert_eq!(engine.recovered_to(), tickets[found], "{policy:?}");
        assert_eq!(engine.recovery_report().recovered_to, tickets[found]);
        assert_eq!((engine.last_durable(), engine.last_committed()), (tickets[found], tickets[found]));
        assert_eq!(rows(&table).len(), 3 * (found + 1));
        for (id, ticket) in tickets.iter().enumerate() {
            let waited = engine.wait_durable(*ticket);
            match id <= found {
                true => waited.expect("it has survived"),
                false => refused(waited, ErrorKind::InvalidArgument, &["did not survive"]),
            }
        }
        let next = write(&engine, &table, 30, Durability::Buffered);
        assert!(next > tickets[19], "a ticket is never used again");
        assert!(engine.last_durable() < next);
        // What was lost stays lost, whatever is durable by now.
        engine.wait_durable(next).expect("healthy");
        for lost in &tickets[found + 1..] {
            refused(engine.wait_durable(*lost), ErrorKind::InvalidArgument, &["did not survive"]);
        }
        engine.wait_durable(tickets[found]).expect("it has survived");
    }
    // In the middle of a batch: it is not there.
    let torn = PowerCut { last_write: LastWrite::TornSectors, ..PowerCut::keep_all() };
    let (engine, table) = open(&disk.power_cut(&torn));
    let found = tickets.iter().position(|ticket| *ticket == engine.recovered_to()).expect("a commit of ours");
    assert_eq!(rows(&table).len(), 3 * (found + 1));
}

#[test]
fn what_an_open_has_found_stays_so_when_nothing_is_left_to_replay() {
    let disk = SimFs::new(1);
    let (engine, table) = open(&disk);
    write(&engine, &table, 0, Durability::Buffered);
    let other = engine.create_table("other", plain()).expect("a table");
    let last = write(&engine, &other, 0, Durability::Buffered);
    // The last commit goes with its table, and has survived nevertheless.
    engine.drop_table("other").expect("it is there");
    engine.close().expect("a clean end");
    assert!(engine.last_durable() >= last);
    engine.wait_durable(last).expect("it is durable");
    drop((engine, table, other));
    for life in 0..3 {
        let (engine, table) = open(&disk);
        assert_eq!(engine.recovery_report().replayed_operations, 0);
        assert_eq!(engine.recovered_to(), last, "life {life}");
        assert_eq!(engine.last_committed(), last);
        assert_eq!(table.count().expect("healthy"), 3);
        if life == 1 {
            engine.close().expect("a clean end");
        }
    }
    // Killed, lost, and killed again: what was lost stays lost.
    let (engine, table) = open(&disk);
    let lost = write(&engine, &table, 5, Durability::Buffered);
    let cut = disk.power_cut(&PowerCut::lose_all());
    for _ in 0..3 {
        let (engine, _) = open(&cut);
        assert_eq!(engine.recovered_to(), last);
        refused(engine.wait_durable(lost), ErrorKind::InvalidArgument, &["did not survive"]);
    }
}

#[test]
fn versions_survive_every_flush_compaction_and_segment_of_the_log() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    let mut last = Version::default();
    for round in 0..6 {
        for id in 0..60 {
            let mut batch = engine.batch();
            batch.upsert(&table, (id, round, "x".repeat(200))).expect("it fits");
            last = batch.commit(Durability::Buffered).expect("healthy");
        }
        if round % 2 == 1 {
            table.compact().expect("healthy");
        }
        let killed = as_after_a_kill(dir.path());
        let engine = Engine::open(killed.path(), tiny()).expect("it opens");
        assert_eq!(engine.recovered_to(), last, "a kill loses nothing");
    }
    assert!(files_of(dir.path(), "wal").len() < 20);
    engine.close().expect("a clean end");
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    assert_eq!(engine.recovered_to(), last);
}

/// Versions have gaps between two lives of a database, and where a commit failed. A report names a commit.
#[test]
fn a_checkpoint_tells_its_last_commit_also_where_versions_have_a_gap() {
    let disk = SimFs::new(1);
    let (engine, table) = open(&disk);
    let last = write(&engine, &table, 1, Durability::Buffered);
    drop(table);
    engine.close().expect("a clean end");
    let (engine, table) = open(&disk);
    let told = |directory: &str, engine: &Engine| {
        let report = engine.checkpoint(directory).expect("a good disk");
        let copy = Engine::open(directory, simulated(&disk, lazy())).expect("it opens");
        assert_eq!(report.version, copy.recovered_to());
        copy.recovered_to()
    };
    assert_eq!(told("/reopened", &engine), last);
    // Versions are given out before the log takes a batch.
    disk.set_capacity(Some(disk.used_bytes()));
    let mut next = 2;
    let last = loop {
        let before = engine.last_committed();
        let mut batch = engine.batch();
        batch.upsert(&table, (next, i64::from(next), "x".repeat(1000))).expect("it fits");
        if batch.commit(Durability::Buffered).is_err() {
            break before;
        }
        next += 1;
    };
    disk.set_capacity(None);
    assert_eq!(told("/full", &engine), last);
}

#[test]
fn versions_of_a_checkpoint_end_where_it_was_made() {
    let disk = SimFs::new(1);
    let (engine, table) = open(&disk);
    let before = write(&engine, &table, 1, Durability::Buffered);
    let report = engine.checkpoint("/copy").expect("a good disk");
    let after = write(&engine, &table, 2, Durability::Sync);
    assert_eq!(report.version, before);
    let copy = Engine::open("/copy", simulated(&disk, lazy())).expect("it opens");
    assert_eq!(copy.recovered_to(), before);
    copy.wait_durable(before).expect("a checkpoint is durable");
    refused(copy.wait_durable(after), ErrorKind::InvalidArgument, &["another database's"]);
    // Its own commits are others, also when they are durable.
    let own = write(&copy, &plain_table(&copy), 3, Durability::Sync);
    assert!(own > after && copy.last_durable() == own);
    refused(copy.wait_durable(after), ErrorKind::InvalidArgument, &["another database's"]);
    refused(engine.wait_durable(own), ErrorKind::InvalidArgument, &["no commit"]);
}

#[test]
fn a_failed_sync_makes_nothing_durable() {
    let disk = SimFs::new(1);
    let (engine, table) = open(&disk);
    let first = write(&engine, &table, 1, Durability::Sync);
    let second = write(&engine, &table, 2, Durability::Buffered);
    disk.fail_at(disk.operations(), Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesDropped));
    refused(engine.wait_durable(second), ErrorKind::Io, &[]);
    assert_eq!(engine.last_durable(), first);
    refused(engine.wait_durable(second), ErrorKind::Io, &[]);
    engine.wait_durable(first).expect("it was durable before");
    assert_eq!(engine.last_durable(), first);
    let (engine, _) = open(&disk.power_cut(&PowerCut::lose_all()));
    assert_eq!(engine.recovered_to(), first);
}

#[test]
fn a_repaired_database_has_the_versions_of_what_was_found() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    write(&engine, &table, 1, Durability::Buffered);
    engine.flush().expect("healthy");
    let last = write(&engine, &table, 2, Durability::Sync);
    let killed = as_after_a_kill(dir.path());
    let source = scratch();
    let target = source.path().join("repaired");
    let options = RepairOptions { engine: Options { ..lazy() }, ..RepairOptions::default() };
    repair(killed.path(), &target, &options).expect("nothing is damaged");
    let repaired = Engine::open(&target, lazy()).expect("it opens");
    assert_eq!(repaired.recovered_to(), last);
    let next = write(&repaired, &plain_table(&repaired), 3, Durability::Buffered);
    assert!(next > last);
    // Without a manifest as well.
    for manifest in files_of(killed.path(), "manifest") {
        std::fs::remove_file(manifest).expect("it is there");
    }
    let target = source.path().join("again");
    repair(killed.path(), &target, &RepairOptions { accept_loss: true, ..options }).expect("it can be read");
    let repaired = Engine::open(&target, lazy()).expect("it opens");
    assert_eq!(repaired.recovered_to(), last);
}
