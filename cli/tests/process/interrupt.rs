//! Imports that do not come to their end: what was acknowledged is there, and the same import can be run again.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::nyala::{command, count, done};

const ROWS: u64 = 200_000;

fn file() -> String {
    (0..ROWS).fold("id,x\n".to_owned(), |mut text, id| {
        writeln!(text, "{id},row {id}").expect("to memory");
        text
    })
}

/// Starts an import from standard input, and gives it rows until it has written some.
fn begin(dir: &Path, text: &str) -> Child {
    fs::write(dir.join("first.csv"), "id,x\n0,row 0\n").expect("a file");
    done(dir, ["import", "db", "t", "first.csv", "--key", "id"]);
    let mut child = command(dir, ["import", "db", "t", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    child.stdin.as_mut().expect("a pipe").write_all(&text.as_bytes()[..1 << 20]).expect("it is read");
    while count(dir, "db", "t") < 10_000 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
    }
    child
}

fn kill(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
}

fn is_a_prefix_and_can_be_completed(dir: &Path, text: &str, written_min: u64) {
    let written = count(dir, "db", "t");
    assert!(written >= written_min && written < ROWS, "{written} rows, {written_min} were acknowledged");
    let last = done(dir, ["scan", "db", "t", "--reverse", "--limit", "1", "--columns", "id", "--csv"]);
    assert_eq!(last, format!("id\n{}\n", written - 1), "there is a gap");
    done(dir, ["check", "db"]);
    fs::write(dir.join("all.csv"), text).expect("a file");
    done(dir, ["import", "db", "t", "all.csv"]);
    assert_eq!(count(dir, "db", "t"), ROWS);
}

#[test]
fn ctrl_c_keeps_what_was_written_and_says_how_much() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = file();
    let mut child = begin(dir.path(), &text);
    kill(&child, "-INT");
    // It ends at the next batch.
    let _ = child.stdin.take().expect("a pipe").write_all(&text.as_bytes()[1 << 20..]);
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{out}{err}");
    let report: serde_json::Value = serde_json::from_str(&out).expect("a report");
    let written = report["rows_written"].as_u64().expect("a number");
    assert!(err.contains("run it again"), "{err}");
    assert_eq!(count(dir.path(), "db", "t"), written);
    is_a_prefix_and_can_be_completed(dir.path(), &text, written);
}

#[test]
fn ctrl_c_ends_an_import_that_waits_for_input() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = file();
    let mut child = begin(dir.path(), &text);
    // Standard input stays open, and silent: waiting for a child closes it, unless it is held.
    let silent = child.stdin.take().expect("a pipe");
    kill(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    drop(silent);
    is_a_prefix_and_can_be_completed(dir.path(), &text, 10_000);
}

#[test]
fn the_file_of_rejects_has_all_before_the_last_row_that_is_written() {
    for (signal, is_repeated) in [("-INT", false), ("-INT", true), ("-KILL", false)] {
        let dir = tempfile::tempdir().expect("a directory");
        // Every second record is none; the last one is a row, and ends a batch of 1,000 rows.
        let text = (0..19_999).fold("id,x\n".to_owned(), |mut text, id| {
            writeln!(text, "{},row {id}", if id % 2 == 0 { id.to_string() } else { format!("bad{id}") })
                .expect("to memory");
            text
        });
        fs::write(dir.path().join("first.csv"), "id,x\n0,row 0\n").expect("a file");
        done(dir.path(), ["import", "db", "t", "first.csv", "--key", "id"]);
        let mut child = command(dir.path(), ["import", "db", "t", "-", "--json", "--rejects", "rejects.csv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut silent = child.stdin.take().expect("a pipe");
        silent.write_all(text.as_bytes()).expect("it is read");
        while count(dir.path(), "db", "t") < 10_000 {
            assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        }
        let begun = Instant::now();
        kill(&child, signal);
        // A second one may come while the first is not noticed yet, and then both are one.
        while is_repeated && child.try_wait().expect("a child").is_none() {
            std::thread::sleep(Duration::from_millis(50));
            kill(&child, signal);
        }
        let code = child.wait().expect("it ends").code();
        let is_killed = signal == "-KILL";
        assert_eq!(code, if is_killed { None } else { Some(130) });
        let is_early = begun.elapsed() < Duration::from_secs(3);
        assert_eq!(is_early, is_repeated || is_killed, "it ends at once, or after three seconds");
        let mut err = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        assert_eq!(err.contains("{\"error\":{\"exit_code\":130"), !is_killed, "{err}");
        drop(silent);
        let rejects = fs::read_to_string(dir.path().join("rejects.csv")).expect("a file");
        for id in (1..19_999).step_by(2) {
            assert!(rejects.contains(&format!("\"bad{id},row {id}\"")), "{id} is missing");
        }
    }
}

#[test]
fn a_killed_import_keeps_what_was_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = file();
    let mut child = begin(dir.path(), &text);
    let seen = count(dir.path(), "db", "t");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    is_a_prefix_and_can_be_completed(dir.path(), &text, seen);
}
