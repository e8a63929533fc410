//! Full and failing disks, simulated: nothing acknowledged is lost, nothing that failed comes back, reads go on.

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, OpKind, OpSet, PowerCut};
use nyala::{Durability, Engine, ErrorKind, Health, RuntimeMode};

use crate::support::{assert_clean, plain_table, rows, simulated, tiny};

/// Background work in the caller's thread, so that every call has its number.
fn inline(seed: u64) -> nyala::Options {
    nyala::Options { runtime: RuntimeMode::Inline { seed }, background_sync_interval: None, ..tiny() }
}

#[test]
fn on_a_full_disk_reads_go_on_and_writes_come_back_by_resume() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, tiny())).expect("it opens");
    let table = plain_table(&engine);
    table.upsert((0, 0, "first")).expect("a row");
    disk.set_capacity(Some(disk.used_bytes() + 60_000));
    let mut written = vec![(0, 0)];
    let mut next = 1;
    for round in 0..3 {
        let error = loop {
            match table.upsert((next, i64::from(next), "x".repeat(200))) {
                Ok(()) => written.push((next, i64::from(next))),
                Err(error) => break error,
            }
            next += 1;
            assert!(next < 100_000, "the disk is never full");
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(matches!(engine.health(), Health::NoSpace(_)), "{:?}", engine.health());
        crate::support::refused(table.upsert((1_000_000, 1, "a")), ErrorKind::NoSpace, &[]);
        let found = rows(&table);
        let more: Vec<_> = found.iter().filter(|row| !written.contains(row)).collect();
        let missing: Vec<_> = written.iter().filter(|row| !found.contains(row)).collect();
        assert!(
            more.is_empty() && missing.is_empty(),
            "round {round}: reads go on, but {more:?} more, {missing:?} missing"
        );
        // Still full: said again, unless the last scrap takes a small row.
        engine.resume().expect("it may be tried");
        match table.upsert((2_000_000 + round, 1, "a")) {
            Ok(()) => written.push((2_000_000 + round, 1)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
        }
        written.sort_unstable();
        disk.set_capacity(Some(disk.used_bytes() + 300_000 * (1 + u64::from(round))));
        engine.resume().expect("there is space");
        let after = (3_000_000 + round, 7);
        table.upsert((after.0, after.1, "after")).expect("writes are back");
        written.push(after);
        written.sort_unstable();
        assert_eq!(rows(&table), written);
        next += 1;
    }
    disk.set_capacity(None);
    engine.resume().expect("there is space");
    engine.flush().expect("it is flushed");
    assert_clean(&engine);
    let killed = disk.fork();
    engine.close().expect("a clean end");
    for disk in [&disk, &killed] {
        let engine = Engine::open("/db", simulated(disk, tiny())).expect("it opens");
        assert_eq!(rows(&plain_table(&engine)), written);
        assert_clean(&engine);
    }
}

#[test]
fn a_full_disk_at_open_is_said_and_harms_nothing() {
    let disk = SimFs::new(1);
    let engine = Engine::open("/db", simulated(&disk, tiny())).expect("it opens");
    plain_table(&engine).upsert((1, 1, "a")).expect("a row");
    let killed = disk.fork();
    for spare in [0, 10, 100, 1000, 5000] {
        let disk = killed.fork();
        disk.set_capacity(Some(disk.used_bytes() + spare));
        match Engine::open("/db", simulated(&disk, tiny())) {
            Ok(engine) => assert_eq!(rows(&plain_table(&engine)), [(1, 1)]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
        }
        let disk = disk.fork();
        disk.set_capacity(None);
        let engine = Engine::open("/db", simulated(&disk, tiny())).expect("there is space");
        assert_eq!(rows(&plain_table(&engine)), [(1, 1)]);
    }
}

/// Writes a little of everything with a fault at call `n`, and compares what is found after a kill and after a power
/// cut with what was acknowledged. Says whether the fault was met.
fn with_a_fault(n: u64, fault: Fault) -> bool {
    let context = format!("{fault:?} at call {n}");
    let disk = SimFs::new(n);
    let engine = Engine::open("/db", simulated(&disk, inline(n))).expect("it opens");
    let table = plain_table(&engine);
    let start = disk.operations();
    disk.fail_at(start + n, fault);
    // Of each id the last acknowledged number, those that were synced, and those that were tried.
    let (mut acknowledged, mut synced, mut tried) = ([0i64; 40], [0i64; 40], [0i64; 40]);
    let mut failed = false;
    for turn in 1..=120i64 {
        let id = (turn * 7 % 40) as u32;
        let durability = if turn % 5 == 0 { Durability::Sync } else { Durability::Buffered };
        let mut batch = engine.batch();
        batch.upsert(&table, (id, turn, "x".repeat(100))).expect("encoded");
        tried[id as usize] = turn;
        match batch.commit(durability) {
            Ok(_) => {
                acknowledged[id as usize] = turn;
                if durability == Durability::Sync {
                    synced = acknowledged;
                }
                assert!(!failed, "{context}: a write after a failure is refused until somebody resumes");
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Io), "{context}: {error}");
                failed = true;
                if error.kind() == ErrorKind::NoSpace {
                    engine.resume().unwrap_or_else(|error| panic!("{context}: {error}"));
                    failed = false;
                    // Not written, and never will be.
                    tried[id as usize] = acknowledged[id as usize];
                }
            }
        }
        let number = table.get((id,)).expect("reads go on").map_or(0, |row| crate::support::pair(&row).1);
        assert!(
            number >= acknowledged[id as usize] && number <= tried[id as usize],
            "{context}: id {id} is {number}"
        );
        if turn % 30 == 0 && !failed {
            let _ = engine.flush();
            if matches!(engine.health(), Health::NoSpace(_)) {
                engine.resume().expect("there is space");
            }
            failed = !matches!(engine.health(), Health::Healthy);
        }
    }
    let met = disk.operations() > start + n;
    let check = |disk: &SimFs, least: &[i64; 40], how: &str| {
        let engine = Engine::open("/db", simulated(disk, inline(n)))
            .unwrap_or_else(|error| panic!("{context}, {how}: {error}"));
        let found = rows(&plain_table(&engine));
        for id in 0..40u32 {
            let number = found.iter().find(|(other, _)| *other == id).map_or(0, |(_, number)| *number);
            let (least, most) = (least[id as usize], tried[id as usize].max(acknowledged[id as usize]));
            assert!(
                number >= least && number <= most,
                "{context}, {how}: id {id} is {number}, not {least} to {most}"
            );
        }
        assert_clean(&engine);
    };
    let (killed, cut) = (disk.fork(), disk.power_cut(&PowerCut::random(n)));
    check(&killed, &acknowledged, "killed");
    check(&cut, &synced, "power cut");
    met
}

// docs/testing.md, fault 10, 53
#[test]
fn a_write_that_fails_once_at_any_call_is_refused_or_durable() {
    for fault in [
        Fault::enospc().on(OpSet::SPACE),
        Fault::eio().on(OpSet::of(OpKind::Write)),
        Fault::eio().on(OpSet::SYNCS),
        Fault::eio().on(OpSet::of(OpKind::Rename).and(OpKind::Create)),
    ] {
        let mut met = 0;
        for n in (0..400).step_by(7) {
            met += u32::from(with_a_fault(n, fault));
        }
        assert!(met > 10, "{fault:?} was met {met} times");
    }
}

/// What must be replayed takes more room than there is.
#[test]
fn an_open_that_lacks_space_leaves_nothing_however_often_it_is_tried() {
    for (spare, runtime) in [2_000u64, 6_000, 12_000, 30_000].into_iter().flat_map(|spare| {
        [RuntimeMode::Inline { seed: 1 }, RuntimeMode::Threads].map(|runtime| (spare, runtime))
    }) {
        let disk = SimFs::new(1);
        let options = || nyala::Options { runtime, log_bytes_max: 1 << 20, ..tiny() };
        let large = nyala::Options { memory_bytes: 4 << 20, memtable_bytes: Some(1 << 20), ..options() };
        let engine = Engine::open("/db", simulated(&disk, large)).expect("it opens");
        let table = plain_table(&engine);
        let expected: Vec<_> = (0..400u32).map(|id| (id, i64::from(id))).collect();
        for &(id, number) in &expected {
            let noise = (0..20).map(|part| format!("{:08x}", (20 * id + part).wrapping_mul(2_654_435_761)));
            table.upsert((id, number, noise.collect::<String>())).expect("a row");
        }
        let disk = disk.fork();
        let before = (disk.used_bytes(), disk.paths());
        disk.set_capacity(Some(before.0 + spare));
        for attempt in 0..4 {
            let error = Engine::open("/db", simulated(&disk, options())).expect_err("there is no space");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            assert_eq!((disk.used_bytes(), disk.paths()), before, "attempt {attempt} with {spare}");
        }
        disk.set_capacity(None);
        let engine = Engine::open("/db", simulated(&disk, options())).expect("there is space");
        assert_eq!(rows(&plain_table(&engine)), expected);
        assert!(engine.recovery_report().flushed_files > 2, "in several parts");
        assert_clean(&engine);
    }
}
