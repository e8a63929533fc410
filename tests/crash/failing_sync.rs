//! Syncs that a real kernel fails: `strace` lets one `fsync` or `fdatasync` of the child return EIO.
//!
//! The engine is poisoned then: it refuses writes and reads on. A reopen finds everything that was acknowledged.

use std::process::{Command, Stdio};

use nyala::Engine;

use crate::child::options;
use crate::cycles::{Promised, begun_and_done, compare, found_by};
use crate::process::{Directory, Process, environment};
use crate::report::Message;
use crate::work::{Owned, THREADS};

// docs/testing.md, fault 54
#[test]
fn after_a_sync_that_the_kernel_failed_nothing_acknowledged_is_lost() {
    let runs = environment("NYALA_FAILED_SYNCS").unwrap_or(6);
    let works = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=1", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !works.is_ok_and(|status| status.success()) {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: a sync that the kernel fails needs strace, and the permission to trace\n",
        );
        return;
    }
    let seed = environment("NYALA_SEED").unwrap_or(54);
    println!("seed {seed}, {runs} runs; replay with NYALA_SEED={seed} NYALA_FAILED_SYNCS={runs}");
    let dir = Directory::new();
    let mut promised: Vec<Promised> = (0..THREADS).map(|_| Promised::default()).collect();
    let (mut failed_opens, mut poisoned, mut steps) = (0, 0, 0);
    for run in 0..runs {
        // The n-th of each thread and kind. Opening takes some.
        let n = 1 + (run * run / 2) % 60;
        let inject = format!("inject=fsync,fdatasync:error=EIO:when={n}");
        let strace = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject];
        let told = Process::start_under(&strace, &format!("eio {seed} {run}"), dir.path()).wait_for_its_end();
        let failures: Vec<_> = told.iter().filter(|message| matches!(message, Message::Failed(_))).collect();
        for failure in &failures {
            let Message::Failed(text) = failure else { unreachable!("just filtered") };
            assert!(text.contains("I/O"), "run {run}: {text}");
        }
        if told.iter().any(|message| matches!(message, Message::Ready { .. })) {
            poisoned += u32::from(!failures.is_empty());
            steps += begun_and_done(&told, seed, run, &mut promised);
        } else {
            assert!(!failures.is_empty(), "run {run}: neither opened nor failed");
            failed_opens += 1;
        }
        let engine = Engine::open(dir.path(), options(seed, run + 1000))
            .unwrap_or_else(|error| panic!("run {run}: it must open again: {error}"));
        let report = engine.check().expect("it can be read");
        assert!(report.is_clean(), "{:?}", report.problems);
        let found: Vec<Owned> = found_by(&engine, promised.len());
        compare(found, run, &mut promised);
        engine.close().expect("a clean end");
    }
    println!(
        "{failed_opens} opens failed, {poisoned} engines were poisoned at work, {steps} steps acknowledged"
    );
    assert!(failed_opens > 0 && poisoned > 0 && steps > 0, "{failed_opens} {poisoned} {steps}");
}
