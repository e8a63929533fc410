//! Opening for reading only: what is seen, and that nothing is changed, whoever else has the database open.

mod between;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;
use nyala::{Durability, Engine, ErrorKind, Health, Options, RuntimeMode, Schema, Table, Type};

use crate::gate::ReadOnlyFs;
use crate::load::{Load, WRITERS, load_schema, prefix_of};
use crate::support::{
    as_after_a_kill, assert_clean, contents, effort, eventually, files, files_of, lazy, newer_current, on,
    plain_table, refused, rows, scratch, simulated, tiny,
};

/// Any call that would change something fails the open.
fn reading() -> Options {
    on(Arc::new(ReadOnlyFs), Options::default())
}

fn expected(ids: std::ops::Range<u32>) -> Vec<(u32, i64)> {
    ids.map(|id| (id, i64::from(id))).collect()
}

fn upsert(table: &Table, ids: std::ops::Range<u32>) {
    for id in ids {
        table.upsert((id, i64::from(id), "x".repeat(90))).expect("a row");
    }
}

/// Rows 0 to 60: some flushed, some in the log, some in both an older and a newer version.
fn filled(dir: &Path, options: Options) -> (Engine, Table) {
    let engine = Engine::open(dir, options).expect("it opens");
    let table = plain_table(&engine);
    for id in 10..40 {
        table.upsert((id, -1, "older")).expect("a row");
    }
    table.upsert((100, 1, "deleted later")).expect("a row");
    engine.flush().expect("it is flushed");
    upsert(&table, 0..30);
    engine.flush().expect("it is flushed");
    upsert(&table, 30..60);
    table.delete(100).expect("a deletion");
    (engine, table)
}

/// Everything that can be told of a directory and its files without changing them.
type Print = Vec<(PathBuf, u64, SystemTime, Vec<u8>)>;

fn print(dir: &Path) -> Print {
    let of = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).expect("it is there");
        let bytes = if metadata.is_file() { std::fs::read(path).expect("a file") } else { Vec::new() };
        (path.clone(), metadata.len(), metadata.modified().expect("a time"), bytes)
    };
    std::iter::once(dir.to_owned()).chain(files(dir)).map(|path| of(&path)).collect()
}

/// Reads in every way there is, and checks.
fn read_everything(engine: &Engine) {
    let table = engine.existing_table("t").expect("it is there");
    assert_eq!(rows(&table), expected(0..60));
    let reverse =
        table.scan().reverse().rows().expect("a scan").map(|row| row.expect("a row").get::<u32>("id"));
    assert_eq!(reverse.map(|id| id.expect("an id")).collect::<Vec<_>>(), (0..60).rev().collect::<Vec<_>>());
    assert_eq!(table.count().expect("a count"), 60);
    assert!(table.get(7).expect("a read").is_some() && table.get(100).expect("a read").is_none());
    let found = table.multi_get([35, 99, 3]).expect("reads");
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(table.scan().range(5..8).at(&engine.snapshot()).count().expect("a count"), 3);
    assert_clean(engine);
    let stats = engine.stats();
    assert!(stats.index_bytes > 0 && stats.row_bytes > 0 && stats.log_bytes > 0 && stats.manifest_bytes > 0);
}

#[test]
fn a_closed_database_is_read_and_no_byte_nor_time_of_it_changes() {
    let dir = scratch();
    let (engine, table) = filled(dir.path(), lazy());
    let version = engine.snapshot().version();
    drop((engine, table));
    let before = print(dir.path());
    let engine = Engine::open_read_only(dir.path(), reading()).expect("it opens");
    assert!(engine.is_read_only() && matches!(engine.health(), Health::ReadOnly));
    assert_eq!((engine.recovery_report().replayed_operations, engine.snapshot().version()), (0, version));
    read_everything(&engine);
    engine.close().expect("nothing to do");
    refused(engine.existing_table("t"), ErrorKind::Closed, &[]);
    assert!(matches!(engine.health(), Health::Closed) && engine.is_read_only());
    refused(engine.sync(), ErrorKind::Closed, &[]);
    assert_eq!(print(dir.path()), before);
    // The next one is the only one: no lock is left, and none was there.
    drop(engine);
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    read_everything(&engine);
}

#[test]
fn what_a_kill_leaves_is_read_as_it_would_be_recovered_and_left_as_it_is() {
    let dir = scratch();
    let (_engine, _table) = filled(dir.path(), lazy());
    let killed = as_after_a_kill(dir.path());
    // A write that was interrupted.
    let last = files_of(killed.path(), "wal").pop().expect("a log");
    crate::support::edit(&last, |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") + 1;
        bytes[end..end + 40].fill(0xd1);
    });
    let before = print(killed.path());
    let engine = Engine::open_read_only(killed.path(), reading()).expect("it opens");
    let report = engine.recovery_report();
    assert_eq!((report.replayed_operations, report.orphans_removed), (31, 0), "{report:?}");
    let torn = report.torn.as_ref().expect("there is a torn tail");
    assert_eq!((torn.bytes, &torn.saved_as), (40, &None));
    read_everything(&engine);
    assert_eq!(print(killed.path()), before);
    drop(engine);
    let recovered = Engine::open(killed.path(), lazy()).expect("it opens");
    assert_eq!(recovered.recovery_report().torn.as_ref().map(|torn| torn.bytes), Some(40));
    read_everything(&recovered);
}

#[test]
fn what_is_replayed_is_one_memtable_however_little_memory_there_is() {
    const ROWS: u32 = 10_000;
    let dir = scratch();
    let (engine, table) = (Engine::open(dir.path(), lazy()).expect("it opens"), "t");
    upsert(&plain_table(&engine), 0..ROWS);
    let little = Options { memory_bytes: 256 << 10, ..reading() };
    let reader = Engine::open_read_only(dir.path(), little).expect("it opens");
    let table = reader.existing_table(table).expect("it is there");
    let stats = table.stats();
    assert_eq!((stats.sealed_memtables, stats.index_runs), (0, 0), "{stats}");
    assert!(stats.memtable_bytes > 1 << 20, "{stats}");
    assert_eq!(table.count().expect("a count"), u64::from(ROWS));
}

#[test]
fn beside_a_writer_that_rests_no_byte_nor_time_changes_and_the_writer_notices_nothing() {
    let dir = scratch();
    let (writer, table) = filled(dir.path(), lazy());
    eventually("the writer rests", || {
        let before = print(dir.path());
        std::thread::sleep(std::time::Duration::from_millis(120));
        print(dir.path()) == before
    });
    let before = print(dir.path());
    let readers: Vec<Engine> =
        (0..3).map(|_| Engine::open_read_only(dir.path(), reading()).expect("it opens")).collect();
    readers.iter().for_each(read_everything);
    assert_eq!(print(dir.path()), before);
    // One state, for as long as they are open.
    upsert(&table, 60..70);
    table.delete(3).expect("writers go on");
    writer.flush().expect("writers go on");
    table.compact().expect("writers go on");
    readers.iter().for_each(read_everything);
    assert_eq!(rows(&table).len(), 69);
    let later = Engine::open_read_only(dir.path(), reading()).expect("it opens");
    assert_eq!(rows(&later.existing_table("t").expect("it is there")), rows(&table));
    drop(readers);
    writer.close().expect("a clean end");
    // Not even the end of the writer, and the next one.
    let next = Engine::open(dir.path(), lazy()).expect("no lock is in the way");
    plain_table(&next).upsert((200, 1, "the next")).expect("a row");
    assert_eq!(later.existing_table("t").expect("it is there").count().expect("a count"), 69);
    assert_clean(&later);
}

#[test]
fn files_that_the_writer_deletes_stay_readable() {
    let dir = scratch();
    let (writer, table) = filled(dir.path(), tiny());
    let reader = Engine::open_read_only(dir.path(), reading()).expect("it opens");
    let read = reader.existing_table("t").expect("it is there");
    let mut running = read.scan().rows().expect("a scan");
    let first = running.next().expect("a row").expect("a row");
    assert_eq!(first.get::<u32>("id").expect("an id"), 0);
    let before = files(dir.path());
    for round in 0..3 {
        for id in 0..60 {
            table.upsert((id, round - 100, "over and over")).expect("a row");
        }
        table.compact().expect("a compaction");
    }
    writer.flush().expect("a flush");
    eventually("old files are deleted", || writer.stats().obsolete_files == 0);
    let gone = before.iter().filter(|path| !path.exists()).count();
    assert!(gone > 4, "{gone} files");
    let rest: Vec<u32> = running.map(|row| row.and_then(|row| row.get("id")).expect("it reads on")).collect();
    assert_eq!(rest, (1..60).collect::<Vec<_>>());
    read_everything(&reader);
    drop((writer, table));
    std::fs::remove_dir_all(dir.path()).expect("nobody else needs it");
    read_everything(&reader);
}

#[test]
fn every_write_is_refused_and_reads_go_on() {
    let dir = scratch();
    drop(filled(dir.path(), lazy()));
    let engine = Engine::open_read_only(dir.path(), reading()).expect("it opens");
    let table = engine.existing_table("t").expect("it is there");
    let schema = || Schema::builder().key("id", Type::U32).build().expect("legal");
    let mut batch = engine.batch();
    batch.upsert(&table, (1, 1, "a")).expect("it is only encoded");
    let refusals = [
        table.upsert((1, 1, "a")),
        table.insert((1000, 1, "a")),
        table.insert_ignore((1, 1, "a")).map(drop),
        table.update(1).set("number", 5).apply(),
        table.delete(1),
        batch.commit(Durability::Buffered).map(drop),
        batch.commit(Durability::Sync).map(drop),
        engine.create_table("u", schema()).map(drop),
        engine.open_or_create_table("u", schema()).map(drop),
        engine.drop_table("t"),
        engine.flush(),
        table.flush(),
        table.compact().map(drop),
        engine.sync(),
        engine.resume(),
        engine.checkpoint(dir.path().join("checkpoint")).map(drop),
    ];
    for (number, refusal) in refusals.into_iter().enumerate() {
        let error = refusal.expect_err("it would write");
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{number}: {error}");
    }
    refused(engine.open_table("u", &schema()), ErrorKind::NoSuchTable, &[]);
    refused(engine.open_table("t", &schema()), ErrorKind::SchemaMismatch, &[]);
    read_everything(&engine);
    assert_eq!(engine.tables(), ["t"]);
}

#[test]
fn where_there_is_no_database_none_is_made() {
    let dir = scratch();
    refused(
        Engine::open_read_only(dir.path(), Options::default()),
        ErrorKind::InvalidArgument,
        &["no database"],
    );
    let missing = dir.path().join("missing");
    refused(Engine::open_read_only(&missing, Options::default()), ErrorKind::InvalidArgument, &["missing"]);
    std::fs::write(dir.path().join("notes.txt"), "foreign").expect("a file");
    refused(
        Engine::open_read_only(dir.path(), Options::default()),
        ErrorKind::InvalidArgument,
        &["no database"],
    );
    assert_eq!(files(dir.path()).len(), 1);
}

#[test]
fn damage_is_told_at_once_and_left_alone() {
    let dir = scratch();
    drop(filled(dir.path(), lazy()));
    // The log that a close leaves holds an attestation; with a row there is more to damage.
    let writer = Engine::open(dir.path(), lazy()).expect("it opens");
    plain_table(&writer).upsert((7, 7, "x".repeat(90))).expect("a row");
    writer.sync().expect("a sync");
    let good = as_after_a_kill(dir.path());
    let mut seen = 0;
    for path in files(good.path()) {
        let name = path.file_name().expect("a file").to_owned();
        if name == "LOCK" {
            continue;
        }
        let damaged = scratch();
        for file in files(good.path()) {
            std::fs::copy(&file, damaged.path().join(file.file_name().expect("a file"))).expect("a copy");
        }
        crate::support::edit(&damaged.path().join(&name), |bytes| {
            let at = if bytes.len() > 30 { 25 } else { 7 };
            bytes[at] ^= 1;
        });
        let before = contents(damaged.path());
        let start = Instant::now();
        // The header of a file of rows is not looked at by an open.
        if let Err(error) = Engine::open_read_only(damaged.path(), reading()) {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{}: {error}", name.display());
            seen += 1;
        }
        assert!(start.elapsed().as_secs() < 5, "{}", name.display());
        assert_eq!(contents(damaged.path()), before);
        // A file that is gone is damage as well.
        std::fs::remove_file(damaged.path().join(&name)).expect("it is there");
        let error = Engine::open_read_only(damaged.path(), reading()).expect_err("a file is missing");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{}: {error}", name.display());
    }
    assert!(seen >= 3, "CURRENT, manifest and log at least, not {seen}");
    std::fs::write(good.path().join("CURRENT"), newer_current()).expect("a file");
    refused(Engine::open_read_only(good.path(), reading()), ErrorKind::UnsupportedFormat, &[]);
}

/// Beside writers, flushes, compactions, and tables that come and go.
#[test]
fn beside_a_busy_writer_each_open_sees_a_prefix_of_the_commits_with_all_before_it() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let load = Load::new(engine);
    let mut opens = 0;
    std::thread::scope(|scope| {
        let load = &load;
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || load.write(writer))));
        scope.spawn(|| load.churn());
        let _stop = load.stop_at_the_end();
        for round in 0.. {
            // However slow the machine is, much goes on meanwhile.
            if round >= 60 * effort() && load.engine.stats().flushes > 20 {
                break;
            }
            let before = load.seen();
            let reader = match Engine::open_read_only(dir.path(), reading()) {
                Ok(reader) => reader,
                Err(error) => panic!("round {round}: {error}"),
            };
            let after: Vec<i64> = load.seen().into_iter().map(|number| number + 1).collect();
            let found = prefix_of(&reader);
            for writer in 0..WRITERS {
                let range = before[writer]..=after[writer];
                assert!(range.contains(&found[writer]), "round {round}: {before:?}, {found:?}, {after:?}");
            }
            if round % 4 == 0 {
                assert_clean(&reader);
            }
            opens += 1;
        }
    });
    assert!(opens >= 60);
    assert_clean(&load.engine);
    assert!(load.engine.open_table("x", &load_schema()).is_ok());
}

fn inline(disk: &SimFs) -> Options {
    let options = Options { background_sync_interval: None, ..tiny() };
    simulated(disk, Options { runtime: RuntimeMode::Inline { seed: 3 }, ..options })
}

/// The ids in `t`, which are a prefix of all, as are those in `v`, which have their rows in the same batches; and
/// whether there is a table `u`, whose row comes after the first 90.
fn prefix(reader: &Engine) -> u32 {
    let ids = rows(&reader.existing_table("t").expect("it was there before"));
    let count = ids.len() as u32;
    assert_eq!(ids, expected(0..count));
    assert_eq!(rows(&reader.existing_table("v").expect("it was there before")), expected(60..count));
    if let Ok(other) = reader.existing_table("u") {
        assert!(count >= 90, "a table without what was committed before it: {count}");
        assert!(count == 90 || other.count().expect("a count") == 1, "its row was committed before row 91");
    } else {
        assert!(count <= 90, "what was committed after a table that is not there: {count}");
    }
    count
}

/// Whoever passes on what is durable would else pass on what a loss of power takes back.
#[test]
fn what_the_writer_has_not_synced_is_seen_and_not_said_to_be_durable() {
    let disk = SimFs::new(1);
    let writer = Engine::open("/db", Options { create_if_missing: true, ..inline(&disk) }).expect("it opens");
    let table = plain_table(&writer);
    upsert(&table, 0..10);
    writer.sync().expect("a good disk");
    writer.flush().expect("a good disk");
    let synced = writer.last_durable();
    upsert(&table, 10..20);
    let reader = Engine::open_read_only("/db", inline(&disk)).expect("it opens");
    let seen = reader.last_committed();
    assert_eq!((seen, reader.recovered_to()), (writer.last_committed(), writer.last_committed()));
    assert_eq!((reader.last_durable(), writer.last_durable()), (synced, synced));
    reader.wait_durable(synced).expect("it is durable");
    refused(reader.wait_durable(seen), ErrorKind::ReadOnly, &[]);
    let lost = Engine::open("/db", inline(&disk.power_cut(&PowerCut::lose_all()))).expect("it opens");
    assert_eq!(lost.recovered_to(), synced);

    writer.flush().expect("a good disk");
    let reader = Engine::open_read_only("/db", inline(&disk)).expect("it opens");
    assert_eq!(reader.last_durable(), seen);
    reader.wait_durable(seen).expect("it is durable");
}
