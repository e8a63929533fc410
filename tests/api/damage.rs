//! Files that were cut, changed, removed or exchanged: never a silent loss, never a panic, and what is named is the
//! file.

use std::path::Path;

use nyala::vfs::SimFs;
use nyala::{Durability, Engine, Error, ErrorKind, Options, RuntimeMode, Table};

use crate::support::{
    as_after_a_kill, assert_clean, contents, edit, files, files_of, lazy, newer_current, plain, plain_table,
    refused, rows, scratch, simulated, tiny,
};

/// Ten rows in the log and nowhere else. Gives the directory as a kill leaves it, and where each record ends in the
/// log.
fn ten_in_the_log() -> (tempfile::TempDir, Vec<usize>) {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    let mut ends = Vec::new();
    for id in 0..10 {
        table.upsert((id, i64::from(id), "some text")).expect("a row");
        ends.push(log_end(dir.path()));
    }
    (as_after_a_kill(dir.path()), ends)
}

/// After the last byte of the log that is not zero; records end in one that is not.
fn log_end(dir: &Path) -> usize {
    let bytes = std::fs::read(log(dir)).expect("a log");
    bytes.iter().rposition(|byte| *byte != 0).expect("a header") + 1
}

fn log(dir: &Path) -> std::path::PathBuf {
    files_of(dir, "wal").into_iter().next().expect("a log")
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_str().expect("text").to_owned()
}

// docs/testing.md, fault 1
#[test]
fn a_flipped_bit_in_the_log_is_an_error_that_names_the_place_and_changes_nothing() {
    let (dir, ends) = ten_in_the_log();
    let path = log(dir.path());
    for at in (ends[0]..ends[9]).step_by(5) {
        edit(&path, |bytes| bytes[at] ^= 1 << (at % 8));
        let before = contents(dir.path());
        refused(Engine::open(dir.path(), lazy()), ErrorKind::Corruption, &[&name(&path)]);
        assert!(contents(dir.path()) == before, "something was changed after damage at {at}");
        edit(&path, |bytes| bytes[at] ^= 1 << (at % 8));
    }
    let engine = Engine::open(dir.path(), lazy()).expect("it is whole again");
    assert_eq!(rows(&plain_table(&engine)).len(), 10);
}

// docs/testing.md, fault 2
#[test]
fn a_log_cut_at_every_byte_of_its_last_record_keeps_the_earlier_ones() {
    let (dir, ends) = ten_in_the_log();
    let path = log(dir.path());
    let whole = std::fs::read(&path).expect("a log");
    let nine: Vec<_> = (0..9).map(|id| (id, i64::from(id))).collect();
    for cut in ends[8]..ends[9] {
        for zeros in if cut % 4 == 0 { &[true, false][..] } else { &[true] } {
            let copy = as_after_a_kill(dir.path());
            // The file ends there, or what was not written reads as zeros.
            let mut bytes = whole[..cut].to_vec();
            if *zeros {
                bytes.resize(whole.len(), 0);
            }
            std::fs::write(copy.path().join(name(&path)), bytes).expect("it can be written");
            let engine =
                Engine::open(copy.path(), lazy()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let table = plain_table(&engine);
            assert_eq!(rows(&table), nine, "cut at {cut}");
            let torn = engine.recovery_report().torn.clone();
            if cut > ends[8] {
                let torn = torn.unwrap_or_else(|| panic!("cut at {cut}: it is reported"));
                assert_eq!(torn.offset, ends[8] as u64);
                let saved = torn.saved_as.expect("it is saved");
                // All of it, but for zeros at its end.
                let saved = std::fs::read(copy.path().join(saved)).expect("saved");
                assert!(whole[ends[8]..cut].starts_with(&saved));
                assert!(whole[ends[8] + saved.len()..cut].iter().all(|byte| *byte == 0));
            }
            // What is written after survives the next kill.
            table.upsert((77, 77, "after")).expect("a row");
            let killed = as_after_a_kill(copy.path());
            let engine = Engine::open(killed.path(), lazy()).expect("it opens");
            assert_eq!(rows(&plain_table(&engine)), [&nine[..], &[(77, 77)]].concat());
        }
    }
}

// docs/testing.md, fault 3
#[test]
fn stale_bytes_behind_the_log_are_never_replayed() {
    let (old_dir, old_ends) = ten_in_the_log();
    let old = std::fs::read(log(old_dir.path())).expect("a log");
    let (dir, ends) = ten_in_the_log();
    let path = log(dir.path());
    let good = std::fs::read(&path).expect("a log");
    let expected: Vec<_> = (0..10).map(|id| (id, i64::from(id))).collect();
    let stale = |bytes: &mut Vec<u8>, from: usize, to: usize| {
        let part = &old[from..to];
        bytes[ends[9]..ends[9] + part.len()].copy_from_slice(part);
    };
    for record in 1..10 {
        let mut bytes = good.clone();
        stale(&mut bytes, old_ends[record - 1], old_ends[record]);
        std::fs::write(&path, bytes).expect("it can be written");
        let copy = as_after_a_kill(dir.path());
        // Bytes that look written above what is attested are no torn tail. Either is right, a row more is not.
        match Engine::open(copy.path(), lazy()) {
            Ok(engine) => assert_eq!(rows(&plain_table(&engine)), expected),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
        }
    }
    // Zeros, however many, and a file that ends with the last record.
    for bytes in [good[..ends[9]].to_vec(), [&good[..], &[0; 10_000]].concat()] {
        std::fs::write(&path, bytes).expect("it can be written");
        let copy = as_after_a_kill(dir.path());
        let engine = Engine::open(copy.path(), lazy()).expect("it opens");
        assert_eq!(
            (rows(&plain_table(&engine)), engine.recovery_report().torn.clone()),
            (expected.clone(), None)
        );
    }
}

// docs/testing.md, fault 4
#[test]
fn a_batch_over_two_tables_torn_anywhere_is_whole_or_absent() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let (table, other) = (plain_table(&engine), engine.create_table("u", plain()).expect("a table"));
    table.upsert((1000, 0, "before")).expect("a row");
    let start = log_end(dir.path());
    let mut batch = engine.batch();
    for id in 0..100 {
        batch
            .upsert(if id % 2 == 0 { &table } else { &other }, (id, 1, "x".repeat(id as usize % 60)))
            .expect("encoded");
    }
    batch.commit(Durability::Buffered).expect("it is committed");
    let end = log_end(dir.path());
    let dir = as_after_a_kill(dir.path());
    drop((table, other, batch, engine));
    let path = log(dir.path());
    let whole = std::fs::read(&path).expect("a log");
    for cut in (start..end).step_by(61).chain([end - 1, end]) {
        let mut bytes = whole[..cut].to_vec();
        bytes.resize(whole.len(), 0);
        let copy = as_after_a_kill(dir.path());
        std::fs::write(copy.path().join(name(&path)), bytes).expect("it can be written");
        let engine =
            Engine::open(copy.path(), lazy()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let counts = [plain_table(&engine), engine.open_table("u", &plain()).expect("it was made")];
        let counts = counts.map(|table| table.count().expect("rows"));
        assert_eq!(counts, if cut == end { [51, 50] } else { [1, 0] }, "cut at {cut}");
    }
}

// docs/testing.md, fault 14
#[test]
fn a_current_that_is_damaged_or_missing_is_named_and_nothing_starts_over() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    plain_table(&engine).upsert((1, 1, "a")).expect("a row");
    engine.close().expect("a clean end");
    let path = dir.path().join("CURRENT");
    let good = std::fs::read(&path).expect("it is there");
    let refuse = |what: &str| {
        let before = contents(dir.path());
        refused(Engine::open(dir.path(), lazy()), ErrorKind::Corruption, &["CURRENT"]);
        assert!(contents(dir.path()) == before, "{what}: something was changed");
    };
    for cut in 0..good.len() {
        std::fs::write(&path, &good[..cut]).expect("it can be written");
        refuse("cut");
    }
    for at in 0..good.len() {
        edit(&path, |bytes| *bytes = good.clone());
        edit(&path, |bytes| bytes[at] ^= 4);
        refused(Engine::open(dir.path(), lazy()), ErrorKind::Corruption, &["CURRENT"]);
    }
    for other in [&b"MANIFEST-000001\n"[..], &[0; 4096], &[0xff; 60]] {
        std::fs::write(&path, other).expect("it can be written");
        refuse("another one's");
    }
    std::fs::remove_file(&path).expect("it is there");
    refuse("missing");
    // With only data files left it is no new directory either.
    for manifest in files_of(dir.path(), "manifest") {
        std::fs::remove_file(manifest).expect("it is there");
    }
    refuse("missing, with the manifest");
    std::fs::write(&path, &good).expect("it can be written");
    refused(Engine::open(dir.path(), lazy()), ErrorKind::Corruption, &["manifest"]);
}

// docs/testing.md, fault 61
#[test]
fn a_newer_format_is_refused_and_left_alone_to_the_byte() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    plain_table(&engine).upsert((1, 1, "a")).expect("a row");
    engine.close().expect("a clean end");
    let path = dir.path().join("CURRENT");
    let good = std::fs::read(&path).expect("it is there");
    std::fs::write(&path, newer_current()).expect("it can be written");
    let before = contents(dir.path());
    refused(Engine::open(dir.path(), lazy()), ErrorKind::UnsupportedFormat, &["CURRENT", "newer version"]);
    assert!(contents(dir.path()) == before);
    std::fs::write(&path, good).expect("it can be written");
    assert_eq!(rows(&plain_table(&Engine::open(dir.path(), lazy()).expect("it opens"))), [(1, 1)]);
}

// docs/testing.md, fault 15
#[test]
fn leftovers_of_ours_go_and_files_of_others_stay() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = plain_table(&engine);
    table.upsert((1, 1, "a")).expect("a row");
    engine.close().expect("a clean end");
    let ours = ["CURRENT.tmp", "900.idx", "901.row", "902.wal", "903.manifest"];
    let others = [
        ".DS_Store",
        "Thumbs.db",
        "notes.txt",
        "17.idx.bak",
        "017.row",
        "x.wal",
        "5.sst",
        "current",
        "-1.idx",
        "1e3.row",
        "99999999999999999999.idx",
    ];
    for name in ours.iter().chain(&others) {
        std::fs::write(dir.path().join(name), "left behind").expect("it can be written");
    }
    for folder in ["lost+found", "950.idx", "sub"] {
        std::fs::create_dir(dir.path().join(folder)).expect("a folder");
    }
    std::fs::write(dir.path().join("sub/1.row"), "deep").expect("it can be written");
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    assert_eq!(rows(&plain_table(&engine)), [(1, 1)]);
    engine.flush().expect("it is flushed");
    for name in ours {
        assert!(!dir.path().join(name).exists(), "{name} is ours");
    }
    for name in others.iter().chain(&["lost+found", "950.idx", "sub/1.row"]) {
        assert!(dir.path().join(name).exists(), "{name} is somebody else's");
    }
    let numbers =
        files(dir.path()).into_iter().filter_map(|path| path.file_stem()?.to_str()?.parse::<u64>().ok());
    assert!(numbers.max().is_some_and(|largest| largest > 903), "numbers of leftovers are not used again");
    // A foreign directory with no file of ours becomes a database beside what is there.
    let foreign = scratch();
    std::fs::write(foreign.path().join("photo.jpg"), "jpg").expect("it can be written");
    let engine = Engine::open(foreign.path(), lazy()).expect("foreign files do not count");
    plain_table(&engine).upsert((1, 1, "a")).expect("a row");
    assert!(foreign.path().join("photo.jpg").exists());
}

/// Everything that can be read of a table.
fn read_all(table: &Table) -> Result<Vec<(u32, i64)>, Error> {
    table.scan().rows()?.map(|row| row.map(|row| crate::support::pair(&row))).collect()
}

// docs/testing.md, fault 16
#[test]
fn a_file_that_is_missing_empty_cut_or_exchanged_is_refused_by_its_name() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = plain_table(&engine);
    for round in 0..2 {
        for id in 0..60 {
            table.upsert((60 * round + id, round, "some text that takes some space")).expect("a row");
        }
        table.flush().expect("it is flushed");
    }
    let expected = rows(&table);
    engine.close().expect("a clean end");
    let data: Vec<_> = files_of(dir.path(), "idx").into_iter().chain(files_of(dir.path(), "row")).collect();
    assert!(data.len() >= 4, "{data:?}");
    // No compaction that replaces a file before it is looked at.
    let still = Options { runtime: RuntimeMode::Inline { seed: 1 }, ..tiny() };
    let other_of = |path: &Path| {
        data.iter()
            .find(|other| *other != path && other.extension() == path.extension())
            .expect("two of a kind")
    };
    for path in &data {
        let good = std::fs::read(path).expect("it is there");
        let exchanged = std::fs::read(other_of(path)).expect("it is there");
        let mut tampered = vec![
            ("missing", None),
            ("empty", Some(Vec::new())),
            ("cut", Some(good[..good.len() - 1].to_vec())),
            ("cut in half", Some(good[..good.len() / 2].to_vec())),
            ("longer", Some([&good[..], &[0]].concat())),
            ("all zeros", Some(vec![0; good.len()])),
            ("exchanged", Some(exchanged)),
        ];
        for at in (0..good.len()).step_by(good.len() / 8) {
            let mut changed = good.clone();
            changed[at] ^= 0x10;
            tampered.push(("changed", Some(changed)));
        }
        for (how, bytes) in tampered {
            let copy = as_after_a_kill(dir.path());
            let victim = copy.path().join(name(path));
            match bytes {
                None => std::fs::remove_file(&victim).expect("it is there"),
                Some(bytes) => std::fs::write(&victim, bytes).expect("it can be written"),
            }
            let before = contents(copy.path());
            match Engine::open(copy.path(), still.clone()) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{how}: {error}");
                    let stem = path.file_stem().expect("a number").to_str().expect("text");
                    assert!(error.to_string().contains(stem), "{} {how}: {error}", name(path));
                    assert!(contents(copy.path()) == before, "{how}: something was changed");
                }
                Ok(engine) => {
                    let table = plain_table(&engine);
                    match read_all(&table) {
                        // What is damaged may be no part of any row that is live, but the check finds it.
                        Ok(found) => assert_eq!(found, expected, "{} {how}", name(path)),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Corruption, "{how}: {error}");
                            let stem = path.file_stem().expect("a number").to_str().expect("text");
                            assert!(error.to_string().contains(stem), "{} {how}: {error}", name(path));
                            read_all(&table).expect_err("and again");
                        }
                    }
                    let report = engine.check().expect("a report");
                    let number: u64 = path
                        .file_stem()
                        .expect("a number")
                        .to_str()
                        .expect("text")
                        .parse()
                        .expect("a number");
                    assert!(
                        report.problems.iter().any(|problem| problem.file == Some(number)),
                        "{} {how}: {report:?}",
                        name(path)
                    );
                }
            }
        }
    }
    assert_eq!(
        rows(&plain_table(&Engine::open(dir.path(), tiny()).expect("the original is whole"))),
        expected
    );
}

// docs/testing.md, fault 13, at every call
#[test]
fn the_first_open_halted_at_every_call_leaves_what_can_be_opened() {
    let calls = {
        let disk = SimFs::new(1);
        let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
        let calls = disk.operations();
        engine.close().expect("a clean end");
        calls
    };
    assert!(calls > 10);
    for n in 0..calls {
        let disk = SimFs::new(n);
        disk.halt_at(n);
        let _ = Engine::open("/db", simulated(&disk, lazy()));
        let after = disk.fork();
        let engine = Engine::open("/db", simulated(&after, lazy()))
            .unwrap_or_else(|error| panic!("call {n}: {error}"));
        plain_table(&engine).upsert((1, 1, "a")).expect("a row");
        engine.close().expect("a clean end");
        let engine = Engine::open("/db", simulated(&after, lazy())).expect("it opens");
        assert_eq!(rows(&plain_table(&engine)), [(1, 1)], "call {n}");
    }
}

// docs/testing.md, fault 8, at every call
#[test]
fn a_recovery_halted_at_every_call_is_done_again() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
    let (table, other) = (plain_table(&engine), engine.create_table("u", plain()).expect("a table"));
    for id in 0..30 {
        table.upsert((id % 20, i64::from(id), "a")).expect("a row");
        other.upsert((id, 1, "b")).expect("a row");
        if id == 10 {
            table.flush().expect("it is flushed");
        }
    }
    table.delete((3,)).expect("deleted");
    let expected = rows(&table);
    let killed = disk.fork();
    let calls = {
        let disk = killed.fork();
        let engine = Engine::open("/db", simulated(&disk, lazy())).expect("it opens");
        let calls = disk.operations();
        engine.close().expect("a clean end");
        calls
    };
    for n in 0..calls {
        let disk = killed.fork();
        disk.halt_at(n);
        let _ = Engine::open("/db", simulated(&disk, lazy()));
        let disk = disk.fork();
        let engine =
            Engine::open("/db", simulated(&disk, lazy())).unwrap_or_else(|error| panic!("call {n}: {error}"));
        assert_eq!(rows(&plain_table(&engine)), expected, "call {n}");
        assert_eq!(engine.open_table("u", &plain()).expect("it was made").count().expect("rows"), 30);
        assert_clean(&engine);
        // Killed again, with nothing done.
        let disk = disk.fork();
        let engine =
            Engine::open("/db", simulated(&disk, lazy())).unwrap_or_else(|error| panic!("call {n}: {error}"));
        assert_eq!(rows(&plain_table(&engine)), expected, "call {n}, the second time");
        assert_eq!(engine.recovery_report().replayed_operations, 0, "it was flushed by the one before");
    }
}
