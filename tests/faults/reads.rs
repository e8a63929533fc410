//! Reads of which one call to the disk fails: the error is returned, never a wrong or a short answer; the same read
//! works when it is tried again, and so does every other meanwhile.

use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, OpSet};
use nyala::{Engine, Error, ErrorKind, Health, Options, Snapshot, Table};

use crate::kinds::Kind;
use crate::workload::{Width, base};
use crate::world::{DIR, schema};

const ROWS: u32 = 120;

fn options(disk: &SimFs) -> Options {
    Options { fs: Arc::new(disk.clone()), ..base("compactions", 3).options }
}

/// Some runs on one another, with deletions, and nothing to be replayed.
fn prepared() -> SimFs {
    let disk = SimFs::new(1);
    let engine = Engine::open(DIR, options(&disk)).expect("a new disk");
    let table = engine.create_table("t", schema(Width::Plain)).expect("a new table");
    for round in 0..4 {
        for id in (0..ROWS).filter(|id| id % 4 >= round) {
            table.upsert((id, i64::from(id * 10 + round), "y".repeat(60))).expect("a good disk");
        }
        for id in (0..ROWS).filter(|id| id % 31 == round) {
            table.delete((id,)).expect("a good disk");
        }
        engine.flush().expect("a good disk");
    }
    engine.close().expect("a good disk");
    disk
}

/// What a read gives, in a form that can be compared.
type Answer = Vec<(u32, i64)>;

/// A way to read.
struct Way {
    name: &'static str,
    read: fn(&Engine, &Table, &Snapshot) -> Result<Answer, Error>,
}

fn pair(row: &nyala::Row) -> Result<(u32, i64), Error> {
    Ok((row.get("id")?, row.get("number")?))
}

fn collect(rows: nyala::Rows) -> Result<Answer, Error> {
    rows.map(|row| row.and_then(|row| pair(&row))).collect()
}

const WAYS: [Way; 12] = [
    Way {
        name: "get",
        read: |_, table, _| {
            let rows = (0..ROWS).step_by(17).map(|id| table.get((id,)));
            rows.filter_map(Result::transpose).map(|row| row.and_then(|row| pair(&row))).collect()
        },
    },
    Way {
        name: "get at a snapshot",
        read: |_, table, snapshot| table.get_at((60,), snapshot)?.iter().map(pair).collect(),
    },
    Way {
        name: "exists",
        read: |_, table, _| {
            (0..ROWS).step_by(13).map(|id| Ok((id, i64::from(table.exists((id,))?)))).collect()
        },
    },
    Way {
        name: "multi_get",
        read: |_, table, _| table.multi_get((0..ROWS).step_by(9))?.iter().flatten().map(pair).collect(),
    },
    Way { name: "count", read: |_, table, _| Ok(vec![(0, table.count()? as i64)]) },
    Way { name: "scan", read: |_, table, _| collect(table.scan().rows()?) },
    Way { name: "scan in reverse", read: |_, table, _| collect(table.scan().reverse().rows()?) },
    Way { name: "scan of a range", read: |_, table, _| collect(table.scan().range((20,)..(40,)).rows()?) },
    Way { name: "scan at a snapshot", read: |_, table, snapshot| collect(table.scan().at(snapshot).rows()?) },
    Way {
        name: "scan of keys",
        read: |_, table, _| {
            let rows = table.scan().columns(["id"]).rows()?;
            rows.map(|row| row.and_then(|row| Ok((row.get("id")?, 0)))).collect()
        },
    },
    Way {
        name: "scan in parts",
        read: |_, table, _| {
            let parts = table.scan().partitions(3)?.into_iter().map(|part| collect(part.rows()?));
            Ok(parts.collect::<Result<Vec<_>, Error>>()?.concat())
        },
    },
    Way {
        name: "check",
        read: |engine, _, _| {
            let report = engine.check()?;
            assert!(report.is_clean(), "a read that failed is no damage: {:?}", report.problems);
            Ok(vec![(0, report.entries as i64)])
        },
    },
];

fn open(disk: &SimFs) -> (Engine, Table, Snapshot) {
    let engine = Engine::open(DIR, options(disk)).expect("a good disk");
    let table = engine.existing_table("t").expect("it was made");
    let snapshot = engine.snapshot();
    (engine, table, snapshot)
}

#[test]
fn a_read_that_fails_at_any_call_says_so_and_works_the_next_time() {
    let prepared = prepared();
    let (mut failed, mut healed) = (0, 0);
    for Way { name, read } in WAYS {
        let (right, calls) = {
            let disk = prepared.fork();
            let (engine, table, snapshot) = open(&disk);
            let before = disk.operations();
            let right = read(&engine, &table, &snapshot).expect("a good disk");
            (right, disk.operations() - before)
        };
        assert!(calls > 0, "{name} reads nothing from the disk");
        for n in 0..calls {
            for kind in [Kind::EioOnce, Kind::NothingOnce] {
                if kind == Kind::NothingOnce && name == "check" {
                    // To a check that is a file which is too short: a finding, and no error.
                    continue;
                }
                let fault = kind.fault().on(OpSet::READS);
                let disk = prepared.fork();
                let (engine, table, snapshot) = open(&disk);
                disk.fail_at(disk.operations() + n, fault);
                let context = format!("{name}, {} at call {n}", kind.name());
                match read(&engine, &table, &snapshot) {
                    Err(error) => {
                        failed += 1;
                        assert!(kind.may_give(error.kind()), "{context}: {error}");
                    }
                    // A read of several blocks at once, ahead of need, failed, and those needed were read by
                    // themselves.
                    Ok(answer) => {
                        healed += 1;
                        assert_eq!(right, answer, "{context}");
                    }
                }
                let again = read(&engine, &table, &snapshot);
                assert_eq!(
                    right,
                    again.unwrap_or_else(|error| panic!("{context}, again: {error}")),
                    "{context}"
                );
                assert!(matches!(engine.health(), Health::Healthy), "{context}: {:?}", engine.health());
                table.upsert((1, 1, "writes go on")).expect("a good disk");
            }
        }
    }
    println!("{failed} reads failed, {healed} did not although a call did");
    assert!(failed > 200 && healed < failed, "{failed} reads failed, {healed} did not although a call did");
}

#[test]
fn while_reads_fail_every_one_says_so_and_afterwards_all_are_right() {
    let prepared = prepared();
    for Way { name, read } in WAYS {
        let disk = prepared.fork();
        let (engine, table, snapshot) = open(&disk);
        disk.fail_at(disk.operations(), Fault::eio().on(OpSet::READS).forever());
        for _ in 0..3 {
            let error = read(&engine, &table, &snapshot).expect_err("nothing can be read");
            assert_eq!(error.kind(), ErrorKind::Io, "{name}: {error}");
        }
        disk.clear_faults();
        let answer = read(&engine, &table, &snapshot).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (engine, table, snapshot) = open(&prepared.fork());
        assert_eq!(read(&engine, &table, &snapshot).expect("a good disk"), answer, "{name}");
    }
}

#[test]
fn a_compaction_whose_read_fails_leaves_all_as_it_was_and_is_done_later() {
    let prepared = prepared();
    let right = {
        let (_engine, table, _snapshot) = open(&prepared.fork());
        collect(table.scan().rows().expect("a good disk")).expect("a good disk")
    };
    let mut failed = 0;
    for n in 0.. {
        let disk = prepared.fork();
        let (engine, table, _snapshot) = open(&disk);
        let first = disk.operations() + n;
        disk.fail_at(first, Fault::eio().on(OpSet::READS));
        let result = table.compact();
        let was_met = disk.operations() > first;
        disk.clear_faults();
        if let Err(error) = &result {
            failed += 1;
            assert_eq!(error.kind(), ErrorKind::Io, "call {n}: {error}");
        }
        assert!(matches!(engine.health(), Health::Healthy), "call {n}: {:?}", engine.health());
        assert_eq!(
            right,
            collect(table.scan().rows().expect("a good disk")).expect("a good disk"),
            "call {n}"
        );
        table.compact().unwrap_or_else(|error| panic!("call {n}, again: {error}"));
        assert_eq!(
            right,
            collect(table.scan().rows().expect("a good disk")).expect("a good disk"),
            "call {n}"
        );
        assert!(engine.check().expect("a good disk").is_clean(), "call {n}");
        if !was_met {
            break;
        }
    }
    println!("{failed} compactions failed");
    assert!(failed > 10, "{failed} compactions failed");
}
