//! How many instructions the hot paths take, and whether that has changed: counted by valgrind's callgrind, so that it
//! is the same number on a busy machine as on an idle one.
//!
//! Each path runs twice in a process of its own, once with its work and once without: the difference is the work's.
//! What the kernel does is not counted, nor how long memory takes.
//!
//! Owns the file of counts that are expected. They hold for the compiler that made them; with another one they are
//! shown and not judged.

mod counts;
mod paths;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};

use self::counts::Counts;
pub(crate) use self::paths::HotPath;
use crate::args::{InstructionsArgs, InstructionsOnceArgs};
use crate::measure;

/// Counts every path, and compares or writes.
pub(crate) fn run(args: &InstructionsArgs) -> anyhow::Result<()> {
    let Some(valgrind) = version("valgrind") else {
        println!("SKIPPED: counting instructions needs valgrind");
        return Ok(());
    };
    let rustc = version("rustc").context("asking rustc for its version")?;
    let folder = measure::default_folder().join("instructions");
    let mut counted = Counts { rustc, valgrind, paths: Vec::new() };
    for path in HotPath::ALL {
        eprintln!("counting {}", path.name());
        let with = count(path, true, &folder)?;
        let without = count(path, false, &folder)?;
        let work = with.checked_sub(without).context("work takes instructions")?;
        counted.paths.push((path.name().to_owned(), work as f64 / path.times() as f64));
    }
    measure::remove_folder(&folder)?;
    if args.write {
        return counted.write(&args.file);
    }
    let expected = Counts::read(&args.file)?;
    report(&counted, &expected, args.tolerance)
}

/// One path, in this process.
pub(crate) fn run_once(args: &InstructionsOnceArgs) -> anyhow::Result<()> {
    args.path.run(&args.dir, args.work)
}

/// The first line of what a program says of its version.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The instructions of a process that runs a path.
fn count(path: HotPath, work: bool, folder: &Path) -> anyhow::Result<u64> {
    measure::remove_folder(folder)?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["instructions-once", "--path", path.name(), "--dir"]).arg(folder);
    if work {
        command.arg("--work");
    }
    let output = command.output().context("running valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {text}", path.name());
    total(&text).with_context(|| format!("valgrind tells no total: {text}"))
}

/// The total that callgrind tells at the end: `==1234== Collected : 5678`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().rev().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn report(counted: &Counts, expected: &Counts, tolerance: f64) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["path", "instructions", "expected", "change"]);
    for column in 1..4 {
        table.column_mut(column).expect("four columns").set_cell_alignment(CellAlignment::Right);
    }
    let mut outside = Vec::new();
    for (name, count) in &counted.paths {
        let Some(before) = expected.of(name) else {
            outside.push(name.as_str());
            table.add_row([name, &format!("{count:.0}"), "none", ""]);
            continue;
        };
        let change = (count / before - 1.0) * 100.0;
        if change.abs() > tolerance {
            outside.push(name.as_str());
        }
        table.add_row([name, &format!("{count:.0}"), &format!("{before:.0}"), &format!("{change:+.1} %")]);
    }
    println!("{table}");
    if counted.rustc != expected.rustc {
        println!("SKIPPED: the expected counts are of {}, this is {}", expected.rustc, counted.rustc);
        return Ok(());
    }
    if !outside.is_empty() {
        bail!(
            "more than {tolerance} % off: {}. If that is meant, write the file anew with --write",
            outside.join(", ")
        );
    }
    Ok(())
}
