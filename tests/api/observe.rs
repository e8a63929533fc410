//! What an engine tells of itself: numbers that add up, events that are told once and in order, and listeners that do
//! no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, OpKind, OpSet};
use nyala::{DiskUsage, Engine, ErrorKind, Event, EventListener, Health, Options, RuntimeMode, Table};

use crate::support::{eventually, files, in_time, lazy, plain_table, rows, scratch, simulated, tiny};

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

/// Calls what a listener can call, whatever it hears.
#[derive(Default)]
struct Caller {
    engine: OnceLock<Engine>,
    calls: AtomicU64,
}

impl EventListener for Caller {
    fn on_event(&self, event: &Event) {
        let Some(engine) = self.engine.get() else { return };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let _ = engine.stats().to_string();
        let _ = engine.snapshot();
        // Once it is closed these are refused.
        let Ok(table) = engine.existing_table("t") else { return };
        let _ = table.upsert((1_000_000, 1, "from the listener"));
        let _ = table.count();
        // What it causes it hears of: not for ever.
        if number < 20 {
            let _ = table.flush();
            let _ = table.compact();
            let name = format!("of event {number}");
            let made = engine.create_table(&name, crate::support::plain());
            if made.is_ok() {
                let _ = engine.drop_table(&name);
            }
        }
        assert!(!number.is_multiple_of(3), "a listener that panics at {event:?}");
    }
}

#[test]
fn a_listener_may_call_the_engine_and_panic_and_is_called_under_no_lock() {
    for runtime in [RuntimeMode::Threads, RuntimeMode::Inline { seed: 3 }] {
        in_time("an engine with a busy listener", Duration::from_secs(60), move || {
            let dir = scratch();
            let caller = Arc::new(Caller::default());
            let listener = Arc::clone(&caller);
            let options = told(move |event: &Event| listener.on_event(event), Options { runtime, ..tiny() });
            let engine = Engine::open(dir.path(), options).expect("it opens");
            assert!(caller.engine.set(engine.clone()).is_ok());
            let table = plain_table(&engine);
            for round in 0..10 {
                write(&table, round * 100..round * 100 + 200);
                table.flush().expect("it is flushed");
            }
            table.delete(1_000_000).expect("deleted");
            let ids: BTreeSet<u32> = rows(&table).into_iter().map(|(id, _)| id).collect();
            assert!((0..1100).all(|id| ids.contains(&id)));
            engine.close().expect("it closes");
            assert!(caller.calls.load(Ordering::Relaxed) > 10);
            assert!(Engine::open(dir.path(), tiny()).is_ok(), "the directory is free");
        });
    }
}

#[test]
fn a_listener_that_waits_holds_up_nobody_but_the_close() {
    let dir = scratch();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let heard = Heard::default();
    let listener = {
        let heard = heard.clone();
        move |event: &Event| {
            // An end of the channel lets everything pass.
            let _ = wait.lock().expect("no panics").recv();
            heard.on_event(event);
        }
    };
    let engine = Engine::open(dir.path(), told(listener, tiny())).expect("it opens");
    let table = plain_table(&engine);
    for round in 0..5 {
        write(&table, round * 100..round * 100 + 300);
        table.flush().expect("it is flushed");
        table.compact().expect("it is compacted");
    }
    assert!(heard.all().is_empty(), "it waits for the first");
    drop(go);
    engine.close().expect("it closes");
    let ended = |event: &&Event| matches!(event, Event::CompactionEnded { result: Ok(_), .. });
    assert_eq!(heard.all().iter().filter(ended).count() as u64, engine.stats().compactions);
}

#[test]
fn a_listener_may_close_the_engine() {
    in_time("closing from within", Duration::from_secs(30), || {
        let dir = scratch();
        let closer: Arc<OnceLock<Engine>> = Arc::default();
        let listener = {
            let closer = Arc::clone(&closer);
            move |event: &Event| {
                if let (Event::FlushEnded { .. }, Some(engine)) = (event, closer.get()) {
                    engine.close().expect("it closes");
                }
            }
        };
        let engine = Engine::open(dir.path(), told(listener, tiny())).expect("it opens");
        assert!(closer.set(engine.clone()).is_ok());
        let table = plain_table(&engine);
        write(&table, 0..10);
        // The flush may be told of a close already.
        let _ = table.flush();
        eventually("the close", || matches!(engine.health(), Health::Closed));
        engine.close().expect("again");
        let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
        assert_eq!(rows(&plain_table(&engine)).len(), 10);
    });
}

#[test]
fn a_listener_that_closes_the_engine_while_another_does_holds_nobody_up() {
    in_time("two closes", Duration::from_secs(30), || {
        let dir = scratch();
        let closer: Arc<OnceLock<Engine>> = Arc::default();
        let listener = {
            let closer = Arc::clone(&closer);
            move |event: &Event| {
                if let (Event::FlushBegun { .. }, Some(engine)) = (event, closer.get()) {
                    // The other one is closing by then, and waits for what this thread does.
                    eventually("the other close", || matches!(engine.health(), Health::Closed));
                    engine.close().expect("it closes");
                }
            }
        };
        let engine = Engine::open(dir.path(), told(listener, lazy())).expect("it opens");
        assert!(closer.set(engine.clone()).is_ok());
        let table = plain_table(&engine);
        write(&table, 0..10);
        table.flush().expect("it is flushed");
        write(&table, 10..20);
        engine.close().expect("it closes");
        let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
        assert_eq!(rows(&plain_table(&engine)).len(), 20);
    });
}

#[test]
fn the_last_handle_may_be_dropped_in_a_listener() {
    for runtime in [RuntimeMode::Threads, RuntimeMode::Inline { seed: 3 }] {
        in_time("an engine that goes in its listener", Duration::from_secs(30), move || {
            let dir = scratch();
            let last: Arc<Mutex<Option<Engine>>> = Arc::default();
            let (gone, wait) = mpsc::channel();
            let listener = {
                let last = Arc::clone(&last);
                move |event: &Event| {
                    if matches!(event, Event::FlushEnded { .. }) {
                        let taken = last.lock().expect("no panics").take();
                        if taken.is_some() {
                            drop(taken);
                            let _ = gone.send(());
                        }
                    }
                }
            };
            let options = told(listener, Options { runtime, ..lazy() });
            let engine = Engine::open(dir.path(), options).expect("it opens");
            let table = plain_table(&engine);
            write(&table, 0..10);
            *last.lock().expect("no panics") = Some(engine);
            let _ = table.flush();
            drop(table);
            wait.recv().expect("it is dropped there");
            eventually("the directory is free", || Engine::open(dir.path(), tiny()).is_ok());
            let engine = Engine::open(dir.path(), tiny()).expect("it is free");
            assert_eq!(rows(&plain_table(&engine)).len(), 10);
        });
    }
}

#[test]
fn an_engine_that_is_closed_lets_go_of_a_listener_that_holds_it() {
    let dir = scratch();
    let caller = Arc::new(Caller::default());
    let options = Options { listener: Some(Arc::clone(&caller) as Arc<dyn EventListener>), ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    assert!(caller.engine.set(engine.clone()).is_ok());
    let listener = Arc::downgrade(&caller);
    drop(caller);
    engine.close().expect("it closes");
    assert!(listener.upgrade().is_none(), "nobody else has it");
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

/// Closing tells of a change of health, and waits until the listener has heard of it.
#[test]
fn a_listener_may_close_the_engine_when_it_hears_of_a_close() {
    in_time("closing from within a close", Duration::from_secs(30), || {
        for options in [tiny(), Options { runtime: RuntimeMode::Inline { seed: 1 }, ..tiny() }] {
            let dir = scratch();
            let closer: Arc<OnceLock<Engine>> = Arc::default();
            let closed = Arc::new(AtomicU64::new(0));
            let listener = {
                let (closer, closed) = (Arc::clone(&closer), Arc::clone(&closed));
                move |event: &Event| {
                    if let (Event::HealthChanged { .. }, Some(engine)) = (event, closer.get()) {
                        engine.close().expect("somebody else does it");
                        closed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            let engine = Engine::open(dir.path(), told(listener, options)).expect("it opens");
            assert!(closer.set(engine.clone()).is_ok());
            write(&plain_table(&engine), 0..10);
            engine.close().expect("a clean end");
            assert_eq!(closed.load(Ordering::Relaxed), 1);
            let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
            assert_eq!(engine.recovery_report().batches, 0, "a clean end leaves nothing to replay");
            assert_eq!(rows(&plain_table(&engine)).len(), 10);
        }
    });
}

#[test]
fn whoever_closes_first_the_listener_or_another_both_return() {
    in_time("closing from within and without", Duration::from_secs(60), || {
        for round in 0..20 {
            let dir = scratch();
            let closer: Arc<OnceLock<Engine>> = Arc::default();
            let listener = {
                let closer = Arc::clone(&closer);
                move |event: &Event| {
                    if let (Event::FlushBegun { .. } | Event::HealthChanged { .. }, Some(engine)) =
                        (event, closer.get())
                    {
                        engine.close().expect("it closes");
                    }
                }
            };
            let engine = Engine::open(dir.path(), told(listener, tiny())).expect("it opens");
            assert!(closer.set(engine.clone()).is_ok());
            let table = plain_table(&engine);
            write(&table, 0..10);
            let flusher = std::thread::spawn(move || drop(table.flush()));
            if round % 2 == 1 {
                eventually("the flush", || engine.stats().flushes > 0 || engine.existing_table("t").is_err());
            }
            engine.close().expect("it closes");
            flusher.join().expect("no panics");
            let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
            assert_eq!(rows(&plain_table(&engine)).len(), 10);
        }
    });
}
