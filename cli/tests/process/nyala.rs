//! Runs the command.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The command with these arguments, in a directory.
pub(crate) fn command<A: AsRef<OsStr>>(dir: &Path, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1")
        .env_remove("CLICOLOR_FORCE");
    command
}

/// Runs it to its end.
pub(crate) fn run<A: AsRef<OsStr>>(dir: &Path, arguments: impl IntoIterator<Item = A>) -> Ran {
    let output = command(dir, arguments).output().expect("the command runs");
    Ran {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).expect("it prints text"),
        err: String::from_utf8(output.stderr).expect("it prints text"),
    }
}

/// Runs it, and it must succeed.
pub(crate) fn done<A: AsRef<OsStr>>(dir: &Path, arguments: impl IntoIterator<Item = A>) -> String {
    let ran = run(dir, arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    ran.out
}

/// How many rows a table has.
pub(crate) fn count(dir: &Path, database: &str, table: &str) -> u64 {
    let out = done(dir, ["scan", database, table, "--count", "--csv"]);
    out.lines()
        .last()
        .and_then(|line| line.strip_prefix("rows,"))
        .expect("a count")
        .parse()
        .expect("a number")
}
