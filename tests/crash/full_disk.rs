//! A real disk that is full: a small tmpfs, filled up, made free, gone on with.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nyala::{Durability, Engine, Error, ErrorKind, Health, Options, Schema, Table, Type};

use crate::mounts::{self, Tmpfs};
use crate::process::{Directory, environment};
use crate::random::Random;

const NAME: &str = "full_disk::a_full_tmpfs_stops_writes_and_nothing_else";
const DISK_BYTES: u64 = 3 << 20;

fn schema() -> Schema {
    Schema::builder().key("id", Type::U32).column("text", Type::String).build().expect("good")
}

fn options(random: &mut Random) -> Options {
    let segment_bytes = 4096 << random.number(5);
    Options {
        memory_bytes: 512 << 10,
        memtable_bytes: Some(8192 << random.number(4)),
        log_segment_bytes: segment_bytes,
        log_bytes_max: segment_bytes * (2 + random.number(20)),
        rowset_bytes: 64 << 10,
        index_file_bytes: 8192,
        background_threads: 2,
        background_sync_interval: Some(Duration::from_millis(5)),
        ..Options::default()
    }
}

/// What must be there.
type Rows = BTreeMap<u32, String>;

// docs/testing.md, fault 53
#[test]
fn a_full_tmpfs_stops_writes_and_nothing_else() {
    if !mounts::are_our_own(NAME) {
        return;
    }
    let seed = environment("NYALA_SEED").unwrap_or(53);
    let rounds = environment("NYALA_FULL_DISKS").unwrap_or(6);
    println!("seed {seed}; replay with NYALA_SEED={seed}");
    let dir = Directory::new();
    let mut refused = 0;
    for round in 0..rounds {
        let at = dir.path().join(format!("disk-{round}"));
        let _disk = Tmpfs::mount(&at, DISK_BYTES);
        refused += fill_and_free(&at, &mut Random::of(&[seed, round]), round);
    }
    println!("{rounds} disks were full, {refused} writes refused");
    assert!(refused >= rounds);
}

/// Fills the disk, frees it, goes on; several times. Gives how many writes were refused.
fn fill_and_free(at: &Path, random: &mut Random, round: u64) -> u64 {
    let (ballast, db) = (at.join("ballast"), at.join("db"));
    let options = options(random);
    let mut engine = Engine::open(&db, options.clone()).expect("there is space");
    let mut table = engine.create_table("t", schema()).expect("a new table");
    let mut rows = Rows::new();
    let mut refused = 0;
    for turn in 0..3 {
        // Leave so little that it is full soon, at another place each time.
        let ballast_bytes = (DISK_BYTES - used(at)).saturating_sub(200_000 + random.number(300_000));
        std::fs::write(&ballast, vec![7; ballast_bytes as usize]).expect("it fits");
        let error = write_until_full(&engine, &table, &mut rows, random);
        refused += 1;
        assert_eq!(error.kind(), ErrorKind::NoSpace, "round {round}, turn {turn}: {error}");
        assert!(matches!(engine.health(), Health::NoSpace(_)), "{:?}", engine.health());
        // Reads go on; writes are refused, and leave no trace.
        compare(&table, &rows);
        for id in [1, 5000] {
            let error = table.upsert((id, "refused")).expect_err("still full");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            refused += 1;
        }
        compare(&table, &rows);
        match (round + turn) % 3 {
            // Space comes back while it is open.
            0 => {
                std::fs::remove_file(&ballast).expect("it is there");
                engine.resume().expect("there is space");
            }
            // It ends without space and begins with some.
            1 => {
                let _ = engine.close();
                drop((table, engine));
                std::fs::remove_file(&ballast).expect("it is there");
                engine = Engine::open(&db, options.clone()).expect("there is space");
                table = engine.open_table("t", &schema()).expect("it was made");
            }
            // It ends without space, and cannot even begin, or can; then there is some.
            _ => {
                let _ = engine.close();
                drop((table, engine));
                fill_up(at);
                match Engine::open(&db, options.clone()) {
                    Ok(engine) => drop(engine),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
                }
                for name in [&ballast, &at.join("more")] {
                    std::fs::remove_file(name).expect("it is there");
                }
                engine = Engine::open(&db, options.clone()).expect("there is space");
                table = engine.open_table("t", &schema()).expect("it was made");
            }
        }
        compare(&table, &rows);
        for id in 6000..6020 {
            table.upsert((id, "goes on")).expect("there is space");
            rows.insert(id, "goes on".into());
        }
        engine.flush().expect("there is space");
        compare(&table, &rows);
        let report = engine.check().expect("readable");
        assert!(report.is_clean(), "{:?}", report.problems);
    }
    engine.close().expect("there is space");
    drop((table, engine));
    let engine = Engine::open(&db, options).expect("there is space");
    compare(&engine.open_table("t", &schema()).expect("it was made"), &rows);
    refused
}

/// Writes until it is refused. What was acknowledged is in `rows` then.
fn write_until_full(engine: &Engine, table: &Table, rows: &mut Rows, random: &mut Random) -> Error {
    for _ in 0..200_000 {
        let mut batch = engine.batch();
        let mut written = Rows::new();
        for _ in 0..1 + random.number(8) {
            let id = random.number(2000) as u32;
            // Nothing that compresses.
            let text: String =
                (0..random.number(600)).map(|_| char::from(b' ' + random.number(90) as u8)).collect();
            batch.upsert(table, (id, text.as_str())).expect("a row");
            written.insert(id, text);
        }
        let durability = if random.one_in(8) { Durability::Sync } else { Durability::Buffered };
        match batch.commit(durability) {
            Ok(_) => rows.append(&mut written),
            Err(error) => return error,
        }
    }
    panic!("the disk is never full: {:?}", engine.stats());
}

/// Takes what is left.
fn fill_up(at: &Path) {
    let mut bytes = 1 << 20;
    let mut file = std::fs::File::create(at.join("more")).expect("a name takes no space");
    while bytes > 0 {
        if std::io::Write::write_all(&mut file, &vec![9; bytes]).is_err() {
            bytes /= 2;
        }
    }
}

fn used(at: &Path) -> u64 {
    let entries = std::fs::read_dir(at).expect("a directory").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => used(&entry.path()),
            Ok(metadata) => metadata.len().next_multiple_of(4096),
            // It was removed just now.
            Err(_) => 0,
        })
        .sum()
}

fn compare(table: &Table, rows: &Rows) {
    let found: Rows = table
        .scan()
        .rows()
        .expect("a scan")
        .map(|row| {
            let row = row.expect("a row");
            (row.get("id").expect("a number"), row.get::<String>("text").expect("text"))
        })
        .collect();
    let different = rows.keys().chain(found.keys()).find(|id| rows.get(id) != found.get(id));
    assert_eq!(
        different,
        None,
        "must be {:.80?}, is {:.80?}",
        different.map(|id| rows.get(id)),
        different.map(|id| found.get(id))
    );
    assert_eq!(table.count().expect("rows"), rows.len() as u64);
}
