//! What an open tells of itself.

use std::path::{Path, PathBuf};

use nyala::vfs::Fs;
use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, OpKind, OpSet};
use nyala::{Engine, ErrorKind, Options, RuntimeMode};

use crate::forge::{Part, entries, forge, records};
use crate::support::{DIR, files, name, number, open, options, read, sixty_rows, table, write};

/// A database whose last ten batches are in the log only, as a kill leaves it.
fn killed() -> SimFs {
    let disk = sixty_rows();
    let engine = open(&disk);
    for n in 0..10 {
        write(&engine, n, n + 1);
    }
    disk.fork()
}

#[test]
fn a_new_database_says_so_and_a_clean_one_has_nothing_to_replay() {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    let report = engine.recovery_report();
    assert!(report.is_new && report.orphans.is_empty() && report.log_segments == 0);
    write(&engine, 0, 60);
    engine.close().expect("a good disk");
    for _ in 0..2 {
        let engine = open(&disk);
        let report = engine.recovery_report().clone();
        assert!(!report.is_new && report.torn.is_none(), "{report}");
        assert_eq!((report.batches, report.replayed_operations, report.replayed_versions), (0, 0, None));
        assert_eq!((report.flushed_runs, report.flushed_files, report.flushed_bytes), (0, 0, 0));
        // The last log and the last manifest.
        assert_eq!((report.log_segments, report.orphans_removed), (1, 2));
        assert!(report.orphans.iter().any(|name| name.ends_with(".wal")), "{report}");
        assert!(report.orphans.iter().any(|name| name.ends_with(".manifest")), "{report}");
        engine.close().expect("a good disk");
    }
}

#[test]
fn what_was_replayed_is_counted_and_what_became_of_it() {
    let disk = killed();
    let engine = open(&disk);
    let report = engine.recovery_report();
    assert_eq!((report.batches, report.replayed_operations, report.skipped_operations), (10, 10, 0));
    let (first, last) = report.replayed_versions.expect("ten operations");
    assert_eq!(last.0 - first.0, 9);
    assert!(first.0 > 60 && last <= engine.snapshot().version(), "{report}");
    assert_eq!((report.flushed_runs, report.flushed_files), (1, 2));
    let new: u64 = ["idx", "row"]
        .iter()
        .filter_map(|kind| files(&disk, kind).pop())
        .map(|path| read(&disk, &path).len() as u64)
        .sum();
    assert_eq!(report.flushed_bytes, new);
    assert!(report.log_bytes > 10 * 55, "{report}");
    assert!(report.duration > std::time::Duration::ZERO);
    assert!(
        report.to_string().contains("10 batches") && report.to_string().contains("1 index runs in 2 files")
    );
}

/// A log that is many times the memory: parts of it are written out beside the replay of what follows.
#[test]
fn a_log_larger_than_the_memory_is_replayed_in_parts_with_threads_and_without() {
    const ROWS: u32 = 600;
    let disk = SimFs::new(1);
    let engine = Engine::open(DIR, Options { memory_bytes: 64 << 20, ..options(&disk) }).expect("a new one");
    for round in 0..10 {
        for from in (0..ROWS).step_by(20) {
            write(&engine, from, from + 20);
        }
        table(&engine).delete((name(round),)).expect("a good disk");
    }
    let disk = disk.fork();
    drop(engine);
    let is_whole = |engine: &Engine| {
        let rows = table(engine).scan().rows().expect("a good disk");
        let numbers = rows.map(|row| row.expect("a good disk").get::<i64>("number").expect("a number"));
        // The last round wrote all rows, and deleted this one.
        assert!(numbers.eq((0..i64::from(ROWS)).filter(|number| *number != 9)));
    };
    for runtime in [RuntimeMode::Inline { seed: 1 }, RuntimeMode::Threads] {
        let small = |disk: &SimFs| Options { memory_bytes: 256 << 10, runtime, ..options(disk) };
        let sound = disk.fork();
        let engine = Engine::open(DIR, small(&sound)).expect("a sound database");
        assert!(engine.recovery_report().flushed_runs > 5, "{}", engine.recovery_report());
        is_whole(&engine);
        drop(engine);
        let operations = sound.operations();
        let mut failed = 0;
        for n in (1..operations).step_by(operations as usize / 40) {
            let disk = disk.fork();
            disk.fail_at(n, Fault::eio().on(OpSet::CHANGES));
            match Engine::open(DIR, small(&disk)) {
                Ok(engine) => drop(engine),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    failed += 1;
                }
            }
            let engine = Engine::open(DIR, small(&disk.fork())).expect("a good disk");
            is_whole(&engine);
        }
        assert!(failed > 10, "{failed} of 40 opens met the failure");
    }
}

#[test]
fn operations_that_are_in_rowsets_already_are_skipped() {
    let disk = sixty_rows();
    let engine = open(&disk);
    write(&engine, 0, 5);
    engine.flush().expect("a good disk");
    write(&engine, 5, 8);
    let disk = disk.fork();
    let engine = open(&disk);
    let report = engine.recovery_report();
    assert_eq!(report.replayed_operations, 3, "{report}");
    assert!(report.skipped_operations == 5 || report.batches == 1, "{report}");
}

#[test]
fn what_was_cut_off_is_told_with_its_place_and_saved() {
    let disk = killed();
    let log = files(&disk, "wal").pop().expect("a log");
    let last = *records(&read(&disk, &log)).last().expect("a record");
    disk.damage(&log, |bytes| bytes[last.end - 7..].fill(0)).expect("it is there");
    let torn_bytes = read(&disk, &log)[last.offset..last.end - 7].to_vec();
    let engine = open(&disk);
    let report = engine.recovery_report();
    let torn = report.torn.clone().expect("a torn tail");
    assert_eq!((torn.segment, torn.offset), (number(&log), last.offset as u64));
    assert_eq!((torn.bytes, torn.saved_bytes), (torn_bytes.len() as u64, torn_bytes.len() as u64));
    assert!(!torn.reason.is_empty());
    assert_eq!(report.batches, 9, "{report}");
    let saved = torn.saved_as.expect("it is saved");
    assert_eq!(read(&disk, &Path::new(DIR).join(&saved)), torn_bytes);
    assert!(report.to_string().contains(&saved), "{report}");
    assert_eq!(table(&engine).count().expect("a good disk"), 60);
    drop(engine);
    // The next open has nothing to tell of it, and the file stays.
    let engine = open(&disk);
    assert!(engine.recovery_report().torn.is_none());
    assert_eq!(read(&disk, &Path::new(DIR).join(&saved)), torn_bytes);
}

#[test]
fn damage_in_the_log_is_refused_and_reported_by_nobody() {
    let disk = killed();
    let has_three = |log: &PathBuf| records(&read(&disk, log)).len() > 2;
    let log = files(&disk, "wal").into_iter().find(has_three).expect("a log of ten batches");
    let third = records(&read(&disk, &log))[2];
    disk.damage(&log, |bytes| bytes[third.body + 3] ^= 1).expect("it is there");
    let error = Engine::open(DIR, options(&disk)).expect_err("a bit flipped in the middle");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&format!("{}.wal", number(&log))), "{error}");
}

/// Index files whose entries lead into another run's rowset, or nowhere, while what they say of themselves is as it
/// was, or fits what they lead to. Compactions count on each rowset to lie under one run.
#[test]
fn entries_that_lead_to_where_the_file_does_not_say_never_panic() {
    let disk = sixty_rows();
    for from in [10, 30] {
        let engine = open(&disk);
        write(&engine, from, from + 20);
        engine.flush().expect("a good disk");
        engine.close().expect("a good disk");
    }
    let runs = files(&disk, "idx");
    assert_eq!(runs.len(), 3, "{runs:?}");
    let rowsets: Vec<u8> =
        files(&disk, "row").iter().map(|path| u8::try_from(number(path)).expect("few")).collect();
    // An entry ends in `10 rowset 18 row`; of the rowsets the properties say `3a 04 08 rowset 10 entries`.
    let lead = |disk: &SimFs, run: usize, to: u8, all: bool, says_so: bool| {
        forge(disk, &runs[run], |file| {
            for block in file.of(Part::Data) {
                let found = entries(file.payload(&block));
                let found = if all { &found[..] } else { &found[..1] };
                file.edit(&block, |payload| found.iter().for_each(|entry| payload[entry.value.end - 3] = to));
            }
            let properties = file.of(Part::Properties)[0];
            let own = rowsets[run];
            file.edit(&properties, |payload| {
                let says = [0x3a, 0x04, 0x08, own];
                let at = payload.windows(4).position(|window| window == says).expect("one rowset");
                if says_so {
                    payload[at + 3] = to;
                }
            });
        });
    };
    let (mut refused, mut opened) = (0, 0);
    for (run, other) in [(0, 1), (1, 0), (1, 2), (2, 0), (2, 1), (0, 9), (1, 9)] {
        let to = rowsets.get(other).copied().unwrap_or(127);
        for (all, says_so, both) in [
            (false, false, false),
            (true, false, false),
            (true, true, false),
            (false, false, true),
            (true, false, true),
            (true, true, true),
        ] {
            let context = format!("run {run} into {to}, {all} {says_so} {both}");
            let disk = disk.fork();
            lead(&disk, run, to, all, says_so);
            if both && other < 3 {
                lead(&disk, other, rowsets[run], all, says_so);
            }
            let engine = match Engine::open(DIR, options(&disk)) {
                Ok(engine) => engine,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{context}: {error}");
                    refused += 1;
                    continue;
                }
            };
            opened += 1;
            let table = table(&engine);
            assert!(!engine.check().expect("a good disk").is_clean(), "{context}");
            for n in 0..60 {
                let _ = table.get((crate::support::name(n),));
            }
            for round in 0..6 {
                write(&engine, round * 5, round * 5 + 30);
                let _ = engine.flush();
                let _ = table.compact();
            }
            let health = format!("{:?}", engine.health());
            assert!(!health.contains("panic"), "{context}: {health}");
            let _ = engine.close();
        }
    }
    assert!(refused >= 8 && opened >= 20, "{refused} {opened}");
}

#[test]
fn orphans_are_named_and_those_that_stay_too() {
    let disk = sixty_rows();
    let orphans = ["900.idx", "901.row", "CURRENT.tmp"];
    for name in orphans {
        disk.create(&Path::new(DIR).join(name)).expect("a new name");
    }
    disk.create(Path::new("/db/somebody.else")).expect("a new name");
    let refusing = disk.fork();
    let engine = open(&disk);
    let report = engine.recovery_report();
    for name in &orphans[..2] {
        assert!(report.orphans.iter().any(|removed| removed == name), "{name}: {report}");
    }
    assert!(report.orphans_left.is_empty());
    assert_eq!(report.orphans_removed, report.orphans.len() as u64);
    assert!(disk.paths().contains(&Path::new(DIR).join("somebody.else")));

    // From the moment on at which the new CURRENT is in force, nothing can be removed.
    let probe = refusing.fork();
    drop(open(&probe));
    let renamed = probe.log().iter().position(|call| *call == OpKind::Rename).expect("CURRENT is renamed");
    refusing.fail_at(renamed as u64, Fault::eio().on(OpSet::of(OpKind::Remove)).forever());
    let engine = open(&refusing);
    let report = engine.recovery_report();
    assert!(report.orphans_left.iter().any(|left| left == "900.idx"), "{report}");
    assert!(report.to_string().contains("left: "), "{report}");
    assert!(refusing.paths().contains(&Path::new("/db/900.idx").to_owned()));
}
