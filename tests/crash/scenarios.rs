//! Kills in a certain state: what the log, the manifest or the background work must be in the middle of.

use std::path::Path;
use std::time::{Duration, Instant};

use nyala::{Durability, Engine, Options, Schema, Table, Type};

use crate::child::wrong;
use crate::process::{Directory, Process, environment};
use crate::random::Random;
use crate::report::{Message, tell};

/// Rows of the long log.
const ROWS: u32 = 4000;
/// Each key is written several times over.
const KEYS: u32 = 800;

fn schema() -> Schema {
    Schema::builder()
        .key("id", Type::U32)
        .column("turn", Type::U32)
        .column("pad", Type::String)
        .build()
        .expect("good")
}

/// Nothing is flushed before the log is very long.
fn lazy() -> Options {
    Options {
        log_segment_bytes: 64 << 10,
        log_bytes_max: 1 << 30,
        background_sync_interval: None,
        ..Options::default()
    }
}

/// Everything is flushed at once.
fn eager() -> Options {
    Options {
        memory_bytes: 256 << 10,
        memtable_bytes: Some(8 << 10),
        log_segment_bytes: 4096,
        log_bytes_max: 8192,
        row_block_bytes: 256,
        index_block_bytes: 128,
        index_file_bytes: 4096,
        rowset_bytes: 4096,
        ..Options::default()
    }
}

/// Small memory for a long log: recovery writes out many times.
fn narrow() -> Options {
    Options { memory_bytes: 256 << 10, memtable_bytes: Some(16 << 10), ..eager() }
}

fn done(step: u32) {
    tell(&Message::Done { thread: 0, step, outcome: 0, version: 0, committed: 0, durable: 0 });
}

/// The child's side.
pub(crate) fn run_child(role: &str, dir: &Path) {
    let ran = match role {
        "open" => open_only(dir, eager()),
        "recover" => open_only(dir, narrow()),
        "long-log" => long_log(dir),
        "drop" => drop_and_make_again(dir),
        "idle" => busy_beside_idle(dir),
        "sealed" => many_sealed(dir),
        "hold" => hold(dir),
        _ => panic!("there is no role {role:?}"),
    };
    if let Err(error) = ran {
        wrong(error);
    }
}

/// Keeps everything as it is until the kill.
fn wait_for_the_end(engine: Engine) -> Result<(), nyala::Error> {
    done(u32::MAX);
    std::thread::sleep(Duration::from_secs(60));
    drop(engine);
    Ok(())
}

fn open_only(dir: &Path, options: Options) -> Result<(), nyala::Error> {
    tell(&Message::Opening);
    wait_for_the_end(Engine::open(dir, options)?)
}

fn hold(dir: &Path) -> Result<(), nyala::Error> {
    let engine = Engine::open(dir, Options::default())?;
    engine.create_table("t", schema())?.upsert((1, 1, "held"))?;
    wait_for_the_end(engine)
}

fn pad(turn: u32) -> String {
    "x".repeat(100 + turn as usize % 300)
}

fn long_log(dir: &Path) -> Result<(), nyala::Error> {
    let engine = Engine::open(dir, lazy())?;
    let table = engine.create_table("t", schema())?;
    for turn in 0..ROWS {
        table.upsert((turn % KEYS, turn, pad(turn)))?;
        done(turn);
    }
    wait_for_the_end(engine)
}

fn drop_and_make_again(dir: &Path) -> Result<(), nyala::Error> {
    let engine = Engine::open(dir, lazy())?;
    let table = engine.create_table("t", schema())?;
    let other = engine.create_table("other", schema())?;
    for id in 0..100 {
        table.upsert((id, 1, "old"))?;
        other.upsert((id, 1, "other"))?;
        if id == 50 {
            table.flush()?;
        }
    }
    engine.drop_table("t")?;
    let table = engine.create_table("t", schema())?;
    for id in 90..110 {
        table.upsert((id, 2, "new"))?;
    }
    wait_for_the_end(engine)
}

fn busy_beside_idle(dir: &Path) -> Result<(), nyala::Error> {
    let engine = Engine::open(dir, eager())?;
    let idle = engine.create_table("idle", schema())?;
    let busy = engine.create_table("busy", schema())?;
    idle.upsert((7, 7, "the only one"))?;
    for turn in 0..3000 {
        busy.upsert((turn, turn, "busy"))?;
        if turn == 1500 {
            await_short_log(&engine);
            // The first was flushed, so that it did not pin the log. This one lies in the newest part.
            idle.upsert((8, 8, "the other one"))?;
        }
    }
    await_short_log(&engine);
    wait_for_the_end(engine)
}

fn await_short_log(engine: &Engine) {
    let start = Instant::now();
    while engine.stats().log_bytes > eager().log_bytes_max + eager().log_segment_bytes {
        if start.elapsed() > Duration::from_secs(20) {
            wrong(format!("the log stays long: {:?}", engine.stats()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn many_sealed(dir: &Path) -> Result<(), nyala::Error> {
    let engine = Engine::open(dir, eager())?;
    let tables = ["a", "b", "c"]
        .map(|name| engine.open_or_create_table(name, schema()).unwrap_or_else(|error| wrong(error)));
    let mut batch = engine.batch();
    for turn in 0.. {
        for table in &tables {
            for id in 0..8 {
                batch.upsert(table, (turn * 8 + id, turn, "0123456789012345678901234567890123456789"))?;
            }
        }
        batch.commit(Durability::Buffered)?;
        done(turn);
    }
    Ok(())
}

fn is_done(step: u32) -> impl Fn(&Message) -> bool {
    move |message| matches!(message, Message::Done { step: at, .. } if *at >= step)
}

/// Runs a child up to the end of its role, and kills it.
fn run_and_kill(role: &str, dir: &Path) {
    let mut child = Process::start(role, dir);
    child.wait_until(None, is_done(u32::MAX));
    child.kill();
}

fn files(dir: &Path, extension: &str) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let files = entries.map(|entry| {
        (
            entry.file_name().into_string().expect("our names are text"),
            entry.metadata().expect("a file").len(),
        )
    });
    files.filter(|(name, _)| name.ends_with(extension)).collect()
}

fn check(engine: &Engine) {
    let report = engine.check().expect("readable");
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// The last turn of every key, up to the last acknowledged turn, or one that was under way.
fn check_long_log(table: &Table, last: u32) {
    let rows: Vec<_> = table.scan().rows().expect("a scan").collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows.len(), KEYS.min(last + 1) as usize);
    for (id, row) in (0..KEYS).zip(&rows) {
        let turn: u32 = row.get("turn").expect("a number");
        let expected = last - (last + KEYS - id) % KEYS;
        let under_way = turn == last + 1 && turn % KEYS == id;
        assert!(turn == expected || under_way, "key {id}: turn {turn}, must be {expected}");
        assert_eq!(row.get::<u32>("id").expect("a number"), id);
        assert_eq!(row.get::<&str>("pad").expect("text"), pad(turn));
    }
}

fn last_done(told: &[Message]) -> u32 {
    told.iter()
        .filter_map(|message| match message {
            Message::Done { step, .. } if *step != u32::MAX => Some(*step),
            _ => None,
        })
        .max()
        .expect("something was done")
}

// docs/testing.md, fault 7
#[test]
fn segments_that_were_never_flushed_are_replayed_in_order() {
    let dir = Directory::new();
    let mut child = Process::start("long-log", dir.path());
    child.wait_until(None, is_done(1500));
    let last = last_done(&child.kill());
    assert!(files(dir.path(), ".wal").len() >= 3, "{:?}", files(dir.path(), ".wal"));
    assert!(files(dir.path(), ".row").is_empty(), "nothing was flushed");
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    assert!(engine.recovery_report().replayed_operations > u64::from(last));
    check_long_log(&engine.open_table("t", &schema()).expect("it was made"), last);
    check(&engine);
}

// docs/testing.md, fault 8, and 47: reopened above the trigger, compaction starts by itself
#[test]
fn a_recovery_that_is_killed_is_done_again_and_nothing_is_there_twice() {
    let dir = Directory::new();
    run_and_kill("long-log", dir.path());
    let mut random = Random::of(&[environment("NYALA_SEED").unwrap_or(8)]);
    let mut killed_in_time = 0;
    for round in 0..12 {
        let mut child = Process::start("recover", dir.path());
        child.wait_until(None, |message| *message == Message::Opening);
        let moment = Instant::now() + Duration::from_micros(round * 1500 + random.number(1500));
        child.wait_until(Some(moment), |_| false);
        killed_in_time += u32::from(!child.kill().iter().any(is_done(u32::MAX)));
    }
    println!("{killed_in_time} of 12 recoveries were killed half-way");
    let engine = Engine::open(dir.path(), narrow()).expect("it opens");
    check_long_log(&engine.open_table("t", &schema()).expect("it was made"), ROWS - 1);
    check(&engine);
    let start = Instant::now();
    while engine.stats().tables[0].index_runs > 8 {
        assert!(start.elapsed() < Duration::from_secs(20), "compaction does not start by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    engine.close().expect("a clean end");
    // docs/testing.md, fault 9
    for _ in 0..3 {
        let engine = Engine::open(dir.path(), narrow()).expect("it opens");
        assert_eq!(engine.recovery_report().batches, 0);
        assert_eq!(engine.recovery_report().orphans_removed, 2, "the last log and the last manifest");
        check_long_log(&engine.open_table("t", &schema()).expect("it was made"), ROWS - 1);
        check(&engine);
    }
}

// docs/testing.md, fault 12
#[test]
fn a_dropped_table_stays_dropped_and_its_successor_is_another_one() {
    let dir = Directory::new();
    run_and_kill("drop", dir.path());
    for _ in 0..2 {
        let engine = Engine::open(dir.path(), lazy()).expect("it opens");
        let table = engine.open_table("t", &schema()).expect("it was made again");
        let ids: Vec<u32> = table
            .scan()
            .rows()
            .expect("a scan")
            .map(|row| row.expect("a row").get("id").expect("a number"))
            .collect();
        assert_eq!(ids, (90..110).collect::<Vec<_>>());
        assert!(table.scan().filter(nyala::column("turn").ne(2)).rows().expect("a scan").next().is_none());
        assert_eq!(engine.open_table("other", &schema()).expect("untouched").count().expect("rows"), 100);
        check(&engine);
    }
}

// docs/testing.md, fault 11
#[test]
fn a_busy_table_neither_frees_nor_keeps_the_log_of_an_idle_one() {
    let dir = Directory::new();
    run_and_kill("idle", dir.path());
    let engine = Engine::open(dir.path(), eager()).expect("it opens");
    let idle = engine.open_table("idle", &schema()).expect("it was made");
    let rows: Vec<_> = idle.scan().rows().expect("a scan").collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(engine.open_table("busy", &schema()).expect("it was made").count().expect("rows"), 3000);
    check(&engine);
}

// docs/testing.md, fault 13
#[test]
fn the_first_open_may_be_killed_at_any_moment() {
    let mut random = Random::of(&[environment("NYALA_SEED").unwrap_or(13)]);
    let mut killed_in_time = 0;
    for round in 0..20 {
        let dir = Directory::new();
        let mut child = Process::start("open", dir.path());
        child.wait_until(None, |message| *message == Message::Opening);
        let moment = Instant::now() + Duration::from_micros(round * 250 + random.number(250));
        child.wait_until(Some(moment), |_| false);
        killed_in_time += u32::from(!child.kill().iter().any(is_done(u32::MAX)));
        let engine = Engine::open(dir.path(), eager()).expect("the next open works");
        assert_eq!(engine.tables().len(), 0);
        engine.create_table("t", schema()).expect("a new table").upsert((1, 1, "a")).expect("a row");
        engine.close().expect("a clean end");
        let engine = Engine::open(dir.path(), eager()).expect("and the one after");
        assert_eq!(engine.open_table("t", &schema()).expect("it was made").count().expect("rows"), 1);
    }
    println!("{killed_in_time} of 20 first opens were killed half-way");
}

// docs/testing.md, fault 47
#[test]
fn flushes_go_on_after_a_kill_with_sealed_memtables_waiting() {
    let dir = Directory::new();
    let mut random = Random::of(&[environment("NYALA_SEED").unwrap_or(47)]);
    for _ in 0..3 {
        let mut child = Process::start("sealed", dir.path());
        child.wait_until(None, is_done(50 + random.number(200) as u32));
        let last = last_done(&child.kill());
        let engine = Engine::open(dir.path(), eager()).expect("it opens");
        let tables = ["a", "b", "c"].map(|name| engine.open_table(name, &schema()).expect("it was made"));
        let counts = tables.each_ref().map(|table| table.count().expect("rows"));
        assert_eq!((counts[0], counts[0]), (counts[1], counts[2]), "a batch over three tables is whole");
        assert!(counts[0] >= u64::from(last + 1) * 8, "{counts:?} after {last}");
        let start = Instant::now();
        // Rows that are there: the next process may write fewer than these.
        for id in 0..counts[0] {
            tables[0].upsert((id, 0, "after")).expect("a row");
        }
        assert_eq!(tables[0].count().expect("rows"), counts[0]);
        engine.flush().expect("it goes on");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // What a flush gives back may be counted a moment after it is done.
        while engine.stats().tables.iter().any(|table| table.sealed_memtables > 0) {
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", engine.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        check(&engine);
        engine.close().expect("a clean end");
    }
}

// docs/testing.md, fault 61
#[test]
fn another_process_finds_the_directory_locked_until_the_first_is_dead() {
    let dir = Directory::new();
    let mut child = Process::start("hold", dir.path());
    child.wait_until(None, is_done(u32::MAX));
    let before = files(dir.path(), "");
    let error = Engine::open(dir.path(), Options::default()).expect_err("it is held");
    assert_eq!(error.kind(), nyala::ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");
    assert_eq!(files(dir.path(), ""), before);
    child.kill();
    let engine = Engine::open(dir.path(), Options::default()).expect("it is free");
    assert_eq!(engine.open_table("t", &schema()).expect("it was made").count().expect("rows"), 1);
}
