//! In a pipe: whoever reads may have had enough, and that is no failure.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use crate::nyala::{command, done};
use crate::world::flights;

#[test]
fn a_broken_pipe_ends_quietly() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = flights();
    let file = file.to_str().expect("a plain name");
    done(
        dir.path(),
        ["import", "db", "flights", file, "--key", "year,month,day,carrier,flight,origin", "--null", "NA"],
    );
    for arguments in [
        &["scan", "db", "flights"][..],
        &["scan", "db", "flights", "--csv"],
        &["scan", "db", "flights", "--json"],
        &["export", "db", "flights"],
        &["export", "db", "flights", "--format", "jsonl"],
    ] {
        let mut child = command(dir.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut first = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut first).expect("a line");
        assert!(first.contains("year"), "{first}");
        drop(out);
        let mut err = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_file_can_come_from_standard_input_and_go_to_standard_output() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = command(dir.path(), ["import", "db", "t", "-", "--key", "id"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    child.stdin.take().expect("a pipe").write_all(b"id,x\n2,b\n1,a\n").expect("it is read");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(done(dir.path(), ["export", "db", "t"]), "id,x\n1,a\n2,b\n");
}

#[test]
fn colours_are_for_terminals() {
    let dir = tempfile::tempdir().expect("a directory");
    let output =
        command(dir.path(), ["scan", "nowhere", "t"]).env_remove("NO_COLOR").output().expect("it runs");
    assert!(!output.stderr.contains(&0x1b));
    assert!(output.stderr.starts_with(b"error: "));
}
