//! What an engine tells of itself: numbers that add up, events that are told once and in order, and listeners that do
//! no harm.

mod listeners;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, OpKind, OpSet};
use nyala::{DiskUsage, Engine, ErrorKind, Event, EventListener, Health, Options, RuntimeMode, Table};

use crate::support::{eventually, files, lazy, plain_table, scratch, simulated, tiny};

/// Everything that was told, in order.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl EventListener for Heard {
    fn on_event(&self, event: &Event) {
        self.0.lock().expect("no panics").push(event.clone());
    }
}

impl Heard {
    fn all(&self) -> Vec<Event> {
        self.0.lock().expect("no panics").clone()
    }
}

fn told(listener: impl EventListener + 'static, options: Options) -> Options {
    Options { listener: Some(Arc::new(listener)), ..options }
}

fn write(table: &Table, ids: std::ops::Range<u32>) {
    for id in ids {
        table.upsert((id, i64::from(id), "some text")).expect("a row");
    }
}

/// The lengths of the files by extension, and of all.
fn on_disk(dir: &std::path::Path) -> BTreeMap<String, u64> {
    let mut lengths = BTreeMap::new();
    for file in files(dir) {
        let extension = file.extension().map_or_else(String::new, |e| e.to_string_lossy().into_owned());
        // One that was deleted meanwhile is not there.
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        *lengths.entry(extension).or_default() += length;
        *lengths.entry("all".to_owned()).or_default() += length;
        *lengths.entry("files".to_owned()).or_default() += 1;
    }
    lengths
}

#[test]
fn the_parts_add_up_to_what_the_directory_holds() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let tables =
        ["a", "b"].map(|name| engine.open_or_create_table(name, crate::support::plain()).expect("a table"));
    for round in 0..3 {
        for table in &tables {
            write(table, round..round + 200);
        }
        engine.flush().expect("it is flushed");
    }
    std::fs::write(dir.path().join("notes.txt"), "none of ours").expect("it can be written");
    let mut held = tables[0].scan().batches().expect("a scan");
    held.next().expect("a batch").expect("read");
    for table in &tables {
        table.compact().expect("it is compacted");
    }
    let quiet = |says: &dyn Fn(&DiskUsage) -> bool| {
        let mut found = None;
        eventually("what is obsolete is what is held", || {
            let before = on_disk(dir.path());
            let stats = engine.stats();
            let disk = stats.disk.expect("it can be listed");
            let real = on_disk(dir.path());
            // Else a file was made or deleted meanwhile.
            let is_quiet = before == real && says(&disk);
            found = is_quiet.then_some((stats, disk, real));
            is_quiet
        });
        found.expect("just found")
    };
    let (stats, disk, real) = quiet(&|disk| disk.obsolete_bytes > 0);
    assert_eq!((disk.files, disk.total_bytes()), (real["files"], real["all"]));
    assert_eq!(disk.unfinished_bytes, 0);
    assert_eq!(disk.other_bytes, "none of ours".len() as u64);
    assert!(disk.index_bytes + disk.row_bytes < real["idx"] + real["row"], "the scan holds some of both");
    assert_eq!(disk.index_bytes, stats.tables.iter().map(|table| table.index_bytes).sum::<u64>());
    assert_eq!(disk.row_bytes, stats.tables.iter().map(|table| table.row_bytes).sum::<u64>());
    assert!(stats.tables.iter().all(|table| table.disk_bytes() > 0 && table.index_runs == 1));

    drop(held);
    let (_, disk, real) = quiet(&|disk| disk.obsolete_bytes == 0);
    assert_eq!((disk.index_bytes, disk.row_bytes), (real["idx"], real["row"]));
    assert_eq!(disk.log_bytes, real["wal"]);
    assert_eq!(disk.manifest_bytes, real["manifest"] + real[""]);
    assert!(matches!(engine.stats().health, Health::Healthy));
    engine.close().expect("it closes");
    assert!(matches!(engine.stats().health, Health::Closed));
}

#[test]
fn the_files_of_which_listeners_hear_are_those_that_are_there() {
    let dir = scratch();
    let heard = Heard::default();
    let engine = Engine::open(dir.path(), told(heard.clone(), tiny())).expect("it opens");
    let table = plain_table(&engine);
    for round in 0..10 {
        write(&table, round * 50..round * 50 + 300);
        if round % 3 == 0 {
            table.compact().expect("it is compacted");
        }
    }
    engine.close().expect("it closes");
    let (mut there, mut flushing, mut compacting) = (BTreeMap::new(), 0, 0);
    let mut wrote = 0;
    for event in heard.all() {
        match event {
            Event::FileMade { name, bytes, .. } => {
                assert!(there.insert(name.clone(), bytes).is_none(), "{name} is made once");
            }
            Event::FileDeleted { name, .. } => {
                let is_table = name.ends_with(".idx") || name.ends_with(".row");
                assert_eq!(there.remove(&name).is_some(), is_table, "{name}");
            }
            Event::FlushBegun { tables, memtable_bytes, .. } => {
                assert!(!tables.is_empty() && tables.iter().all(|table| table == "t"), "{tables:?}");
                assert!(memtable_bytes > 0);
                flushing += 1;
            }
            Event::FlushEnded { result, .. } => {
                let summary = result.expect("a good disk");
                assert!(summary.files >= 2 && summary.bytes > 0, "{summary:?}");
                wrote += summary.bytes;
                flushing -= 1;
                assert_eq!(flushing, 0, "one at a time");
            }
            Event::CompactionBegun { table, runs, bytes, .. } => {
                assert!(table == "t" && runs > 0 && bytes > 0);
                compacting += 1;
            }
            Event::CompactionEnded { result, .. } => {
                assert!(result.is_err() || result.is_ok_and(|done| done.entries_in >= done.entries_dropped));
                compacting -= 1;
            }
            Event::HealthChanged { health, .. } => assert!(matches!(health, Health::Closed), "{health:?}"),
            Event::StallBegun { .. } | Event::StallEnded { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((flushing, compacting), (0, 0), "what begins ends");
    assert_eq!(wrote, engine.stats().flushed_bytes);
    let real: BTreeMap<String, u64> = files(dir.path())
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "idx" || e == "row"))
        .map(|file| {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            (name, file.metadata().expect("a file").len())
        })
        .collect();
    assert_eq!(there, real);
}

#[test]
fn each_change_of_health_is_told() {
    let disk = SimFs::new(1);
    let heard = Heard::default();
    let options = Options { runtime: RuntimeMode::Inline { seed: 1 }, ..simulated(&disk, tiny()) };
    let engine = Engine::open("/db", told(heard.clone(), options)).expect("it opens");
    let table = plain_table(&engine);
    disk.set_capacity(Some(disk.used_bytes() + 20_000));
    let refused = (0..10_000).find_map(|id| table.upsert((id, 1, "x".repeat(200))).err());
    assert_eq!(refused.expect("it is full at last").kind(), ErrorKind::NoSpace);
    disk.set_capacity(None);
    engine.resume().expect("there is space");
    engine.close().expect("it closes");
    let changes: Vec<&str> = heard
        .all()
        .iter()
        .filter_map(|event| match event {
            Event::HealthChanged { health, .. } => Some(match health {
                Health::Healthy => "healthy",
                Health::NoSpace(cause) => {
                    assert_eq!(cause.kind(), ErrorKind::NoSpace);
                    "no space"
                }
                Health::Closed => "closed",
                other => panic!("{other:?}"),
            }),
            _ => None,
        })
        .collect();
    assert_eq!(changes, ["no space", "healthy", "closed"]);
}

#[test]
fn a_table_that_is_dropped_while_it_is_flushed_keeps_its_name_to_the_end() {
    let dir = scratch();
    let heard = Heard::default();
    let engine = Engine::open(dir.path(), told(heard.clone(), tiny())).expect("it opens");
    for round in 0..20 {
        let name = format!("t{round}");
        let table = engine.create_table(&name, crate::support::plain()).expect("it is new");
        write(&table, 0..200);
        engine.drop_table(&name).expect("it is dropped");
    }
    engine.close().expect("it closes");
    let mut begun = Vec::new();
    let mut compacted = BTreeMap::<String, i64>::new();
    for event in heard.all() {
        match event {
            Event::FlushBegun { tables, .. } => begun = tables,
            Event::FlushEnded { tables, .. } => assert_eq!(tables, begun),
            Event::CompactionBegun { table, .. } => *compacted.entry(table).or_default() += 1,
            Event::CompactionEnded { table, .. } => *compacted.entry(table).or_default() -= 1,
            _ => {}
        }
    }
    assert!(!begun.is_empty() && compacted.values().all(|open| *open == 0), "{compacted:?}");
}

#[test]
fn what_cannot_be_deleted_counts_as_obsolete() {
    let disk = SimFs::new(1);
    let options = Options { runtime: RuntimeMode::Inline { seed: 1 }, ..simulated(&disk, lazy()) };
    let engine = Engine::open("/db", options).expect("it opens");
    let table = plain_table(&engine);
    for _ in 0..3 {
        write(&table, 0..100);
        table.flush().expect("it is flushed");
    }
    disk.fail_at(disk.operations(), Fault::eio().on(OpSet::of(OpKind::Remove)).forever());
    table.compact().expect("it is compacted");
    // Housekeeping comes by chance.
    for id in 0..200 {
        write(&table, id..id + 1);
    }
    let disk_usage = engine.stats().disk.expect("it can be listed");
    assert!(disk_usage.obsolete_bytes > 0 && disk_usage.unfinished_bytes == 0, "{disk_usage:?}");
    assert!(engine.stats().obsolete_files > 0);
    disk.clear_faults();
    engine.close().expect("it closes");
}

#[test]
fn an_engine_that_reads_only_says_what_its_directory_holds() {
    let dir = scratch();
    let heard = Heard::default();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    for round in 0..3 {
        write(&table, round..round + 100);
        table.flush().expect("it is flushed");
    }
    write(&table, 200..3000);
    let own = || engine.stats().disk.expect("it can be listed");
    let (mut before, mut found) = (own(), None);
    eventually("a reader that sees what the writer does", || {
        let options = told(heard.clone(), Options { memory_bytes: 256 << 10, ..Options::default() });
        let reader = Engine::open_read_only(dir.path(), options).expect("it opens");
        let after = own();
        // Else a file was made or deleted meanwhile.
        let is_quiet = before == after;
        before = after;
        found = Some(reader);
        is_quiet && before.obsolete_bytes == 0
    });
    let reader = found.expect("just found");
    let stats = reader.stats();
    assert_eq!(stats.disk, Some(before));
    assert!(matches!(stats.health, Health::ReadOnly) && stats.memtable_bytes > 128 << 10, "{stats}");
    assert_eq!(stats.slowed_by, None, "what was replayed slows nobody");
    reader.close().expect("it closes");
    assert!(heard.all().is_empty(), "there is nothing to tell");
}

/// What was told of flushes, compactions and health, in short.
fn told_in_short(heard: &Heard) -> Vec<&'static str> {
    let short = |event: &Event| match event {
        Event::FlushBegun { .. } => Some("flush begun"),
        Event::FlushEnded { result: Ok(_), .. } => Some("flush ended"),
        Event::FlushEnded { result: Err(_), .. } => Some("flush failed"),
        Event::CompactionBegun { .. } => Some("compaction begun"),
        Event::CompactionEnded { result: Ok(_), .. } => Some("compaction ended"),
        Event::CompactionEnded { result: Err(_), .. } => Some("compaction failed"),
        Event::HealthChanged { health: Health::Poisoned(_), .. } => Some("poisoned"),
        Event::HealthChanged { .. } => Some("other health"),
        _ => None,
    };
    heard.all().iter().filter_map(short).collect()
}

#[test]
fn what_fails_is_told_with_its_cause_and_then_what_it_does_to_the_health() {
    let disk = SimFs::new(1);
    let heard = Heard::default();
    let options = Options { runtime: RuntimeMode::Inline { seed: 1 }, ..simulated(&disk, lazy()) };
    let engine = Engine::open("/db", told(heard.clone(), options)).expect("it opens");
    let table = plain_table(&engine);
    for _ in 0..2 {
        write(&table, 0..10);
        table.flush().expect("it is flushed");
    }
    let fails = Fault::eio().on(OpSet::of(OpKind::Create)).forever();
    disk.fail_at(disk.operations(), fails);
    assert_eq!(table.compact().expect_err("no file can be made").kind(), ErrorKind::Io);
    assert_eq!(engine.stats().failed_compactions, 1);
    assert!(matches!(engine.stats().health, Health::Healthy), "the inputs stay in force");
    let so_far = told_in_short(&heard);
    let flush = ["flush begun", "flush ended"];
    assert_eq!(so_far, [&flush[..], &flush, &["compaction begun", "compaction failed"]].concat());
    write(&table, 0..10);
    table.flush().expect_err("no file can be made");
    let Health::Poisoned(cause) = engine.stats().health else { panic!("{}", engine.stats().health) };
    assert!(cause.to_string().contains("flush"), "{cause}");
    let mut since = told_in_short(&heard).split_off(so_far.len());
    // It may have been tried again.
    since.retain(|told| !told.starts_with("compaction"));
    assert_eq!(since, ["flush begun", "flush failed", "poisoned"]);
}

type Door = (&'static str, fn(&Engine, &Table) -> Result<(), nyala::Error>);

/// Without threads the listener is told by whoever called: before the call returns, and also if it fails.
#[test]
fn each_door_tells_what_came_of_it_before_it_returns() {
    let doors: [Door; 15] = [
        ("upsert", |_, table| table.upsert((7, 7, "x"))),
        ("insert", |_, table| table.insert((8, 7, "x"))),
        ("batch", |engine, table| {
            let mut batch = engine.batch();
            batch.upsert(table, (7, 7, "x"))?;
            batch.commit(nyala::Durability::Sync).map(drop)
        }),
        ("transaction", |engine, table| {
            let mut transaction = engine.transaction();
            transaction.upsert(table, (7, 7, "x"))?;
            transaction.commit(nyala::Durability::Sync).map(drop)
        }),
        ("delete_range", |_, table| table.delete_range((0,)..(3,), 2).map(drop)),
        ("create_table", |engine, _| engine.create_table("new", crate::support::plain()).map(drop)),
        ("rename_table", |engine, _| engine.rename_table("t", "u").map(drop)),
        ("drop_table", |engine, _| engine.drop_table("t")),
        ("alter", |_, table| table.alter().drop_column("text").apply().map(drop)),
        ("sync", |engine, _| engine.sync()),
        ("wait_durable", |engine, _| engine.wait_durable(engine.last_committed())),
        ("Engine::flush", |engine, _| engine.flush()),
        ("Table::flush", |_, table| table.flush()),
        ("compact", |_, table| table.compact()),
        ("update", |_, table| table.update((1,)).set("number", 2).apply()),
    ];
    for (name, door) in doors {
        let disk = SimFs::new(1);
        let heard = Heard::default();
        let options = Options {
            runtime: RuntimeMode::Inline { seed: 1 },
            default_durability: nyala::Durability::Sync,
            ..simulated(&disk, lazy())
        };
        let engine = Engine::open("/db", told(heard.clone(), options)).expect("it opens");
        let table = plain_table(&engine);
        let mut batch = engine.batch();
        (0..5).try_for_each(|id| batch.upsert(&table, (id, 1, "x"))).expect("it fits");
        batch.commit(nyala::Durability::Buffered).expect("a good disk");
        assert!(!heard.all().iter().any(|event| matches!(event, Event::HealthChanged { .. })));
        disk.fail_at(disk.operations(), Fault::eio().on(OpSet::of(OpKind::Sync)).forever());
        door(&engine, &table).expect_err("nothing can be synced");
        let poisoned =
            |event: &Event| matches!(event, Event::HealthChanged { health: Health::Poisoned(_), .. });
        assert_eq!(
            heard.all().iter().filter(|event| poisoned(event)).count(),
            1,
            "{name}: {:?}",
            heard.all()
        );
        disk.clear_faults();
    }
}
