//! A disk that fails under a repair: the source is left alone, and no half database behind.

use std::path::Path;

use nyala::{Engine, ErrorKind, RepairError, examine, repair};

use super::{TARGET, careful, contents};
use crate::history::{killed, table};
use crate::support::{DIR, options};

/// Every call of a repair that fails leaves the source alone and no database behind.
#[test]
fn a_repair_that_the_disk_interrupts_leaves_nothing_that_opens() {
    use nyala::vfs::sim::{Fault, OpSet};
    let (disk, _) = killed(6);
    let probe = disk.fork();
    let start = probe.operations();
    repair(DIR, TARGET, &careful(&probe)).expect("nothing is damaged");
    let calls = probe.operations() - start;
    let rows = table(&Engine::open(TARGET, options(&probe)).expect("just repaired"), "first").count();
    let rows = rows.expect("sound");
    let before = contents(&disk);
    let (mut failed, mut begun, mut empty, mut said, mut whole) = (0, 0, 0, 0, 0);
    for n in 0..calls {
        let disk = disk.fork();
        disk.fail_at(disk.operations() + n, Fault::enospc().on(OpSet::CHANGES).forever());
        let calls_before = disk.log().len();
        if repair(DIR, TARGET, &careful(&disk)).is_err() {
            failed += 1;
            let changes = disk.log()[calls_before..].iter().filter(|call| call.changes_disk()).count();
            disk.clear_faults();
            assert!(contents(&disk) == before, "call {n}: the source was changed");
            let left: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(TARGET)).collect();
            if left.iter().all(|path| path.ends_with("LOCK")) {
                // The first thing that it does could not be done.
                empty += 1;
                assert!(changes < 12, "call {n}: {changes} changes, and {left:?} is left");
                continue;
            }
            begun += 1;
            match Engine::open(TARGET, options(&disk)) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "call {n}: {error}");
                    said += usize::from(error.to_string().contains("repair again"));
                }
                // It was being checked, and nothing could be written any more, not even that.
                Ok(engine) => {
                    whole += 1;
                    assert!(engine.check().expect("a good disk").is_clean(), "call {n}");
                    assert_eq!(table(&engine, "first").count().expect("sound"), rows, "call {n}");
                }
            }
        }
    }
    // All but those in which that text itself could not be written.
    assert!(failed > 50 && begun > 20 && empty > 5, "{failed}: {begun}, {empty}");
    assert!(said + whole + 3 > begun && said > whole, "{begun}, {said}, {whole}");
}

/// What the disk gives the first time and not the second is not lost unsaid.
#[test]
fn what_is_lost_in_the_second_reading_needs_to_be_accepted_too() {
    use nyala::vfs::sim::{Fault, OpSet};
    let (disk, history) = killed(6);
    let probe = disk.fork();
    let start = probe.operations();
    examine(DIR, &careful(&probe)).expect("nothing is damaged");
    let first = probe.operations() - start;
    let probe = disk.fork();
    let start = probe.operations();
    repair(DIR, TARGET, &careful(&probe)).expect("nothing is damaged");
    let all = probe.operations() - start;
    let mut refused = 0;
    for n in first..all {
        let disk = disk.fork();
        disk.fail_at(disk.operations() + n, Fault::eio().on(OpSet::READS));
        match repair(DIR, TARGET, &careful(&disk)) {
            Ok(report) => {
                assert!(report.is_lossless(), "call {n}: {report}");
                // Nothing was read from that call on: the next open would meet it.
                disk.clear_faults();
                history.assert_repaired(&disk, Path::new(TARGET), &report, &format!("call {n}"));
            }
            Err(RepairError::WouldLose(report)) => {
                assert!(!report.is_written && !report.is_lossless(), "call {n}: {report}");
                disk.clear_faults();
                if !disk.paths().iter().any(|path| path.starts_with(TARGET)) {
                    // That was the end of the first reading.
                    continue;
                }
                refused += 1;
                let error = Engine::open(TARGET, options(&disk)).expect_err("it was not accepted");
                assert_eq!(error.kind(), ErrorKind::Corruption, "call {n}: {error}");
            }
            Err(RepairError::Failed(_)) => {}
            Err(other) => panic!("call {n}: {other}"),
        }
    }
    assert!(refused > 10, "{refused} of {first} to {all}");
}
