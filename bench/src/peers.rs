//! `peers`: Nyala beside what users would pick instead, with the same rows, budgets and durability, in one run.
//!
//! Each engine does each group of phases in a process of its own, and the engines take turns, so that noise of the
//! machine meets all of them. In each round everything starts from nothing, with another engine first.
//!
//! | group | what | phases |
//! |---|---|---|
//! | load | all rows in random order, then zipfian upserts; a clean close | P1, P2 |
//! | read | open; point reads; scans | P7-clean, P3, P4 |
//! | mixed | as many reads as upserts | P6 |
//! | synced | single rows, each synced | P5 |
//! | killed, reopen | upserts until SIGKILL; open, and look for what was acknowledged | P7-killed |
//! | sequential | all rows in key order, in a new database | P1-sequential |
//!
//! Invariant: every row that is read is checked: its value must be one that was written to its key.

mod args;
pub(crate) mod draw;
mod engines;
mod meter;
mod phases;
pub(crate) mod process;
mod report;
pub(crate) mod rows;
mod store;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::measure;

use args::{Group, Phase, WorkloadArgs, name_of};
pub(crate) use args::{PeersArgs, PeersOnceArgs};
use report::{Report, Series};
use store::{Durability, Engine};

/// Runs the benchmark.
pub(crate) fn run(args: &PeersArgs) -> anyhow::Result<()> {
    let engines = match args.engines.as_slice() {
        [] => Engine::built().collect(),
        named => named.to_vec(),
    };
    for engine in &engines {
        ensure!(engine.is_built(), "this program was built without {0}: use --features {0}", engine.name());
    }
    let folder = args.dir.join("peers");
    measure::make_folder(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut report = Report::new(&engines);
    for round in 0..args.rounds {
        let mut in_turn = engines.clone();
        in_turn.rotate_left(round as usize % engines.len());
        for group in groups(&args.workload) {
            for &engine in &in_turn {
                eprintln!("round {} of {}: {}, {}", round + 1, args.rounds, name_of(&group), engine.name());
                run_group(args, &folder, engine, group, &mut report)
                    .with_context(|| format!("{}, {}", engine.name(), name_of(&group)))?;
            }
        }
        for &engine in engines.iter().filter(|_| !args.keep) {
            measure::remove_folder(&database(&folder, engine, Group::Load))?;
        }
    }
    for &engine in &engines {
        let setup = process::setup(&args.workload, &folder, Durability::Buffered);
        report.set_settings(engine, store::settings(engine, &setup));
    }
    report.print();
    if let Some(plots) = &args.plots {
        measure::make_folder(plots)?;
        for (name, svg) in report.plots(&title(&args.workload)) {
            measure::write_file(&plots.join(name), svg.as_bytes())?;
        }
        eprintln!("drew plots into {}", plots.display());
    }
    if args.json {
        println!("{}", report.to_json(&args.workload, args.rounds));
    }
    Ok(())
}

fn title(workload: &WorkloadArgs) -> String {
    format!(
        "{} rows of {} bytes, {} threads, batches of {}, {} of memory, {} settings",
        workload.rows,
        process::rows(workload).row_bytes(),
        workload.threads,
        workload.batch,
        workload.memory,
        workload.settings.name()
    )
}

/// What has to be run, in this order, for the phases that were asked for.
fn groups(workload: &WorkloadArgs) -> Vec<Group> {
    let mut groups = vec![Group::Load];
    let has = |phases: &[Phase]| phases.iter().any(|&phase| workload.has(phase));
    if has(&[Phase::P3, Phase::P4, Phase::P7]) {
        groups.push(Group::Read);
    }
    if has(&[Phase::P6]) {
        groups.push(Group::Mixed);
    }
    if has(&[Phase::P5]) {
        groups.push(Group::Synced);
    }
    if has(&[Phase::P7]) {
        groups.push(Group::Killed);
    }
    if has(&[Phase::P1]) {
        groups.push(Group::Sequential);
    }
    groups
}

fn database(folder: &Path, engine: Engine, group: Group) -> PathBuf {
    match group {
        Group::Sequential => folder.join(format!("{}-sequential", engine.name())),
        _ => folder.join(engine.name()),
    }
}

fn run_group(
    args: &PeersArgs,
    folder: &Path,
    engine: Engine,
    group: Group,
    report: &mut Report,
) -> anyhow::Result<()> {
    let database = database(folder, engine, group);
    if matches!(group, Group::Load | Group::Sequential) {
        measure::remove_folder(&database)?;
    }
    // What others wrote is not this engine's to wait for.
    rustix::fs::sync();
    let call = Call { workload: &args.workload, engine, database: &database };
    match group {
        Group::Killed => {
            let acknowledged = call.run_and_kill(args.workload.rows / 2)?;
            call.run(Group::Reopen, &acknowledged, report)?;
        }
        _ => call.run(group, &[], report)?,
    }
    if group == Group::Sequential && !args.keep {
        measure::remove_folder(&database)?;
    }
    Ok(())
}

/// A process to be called.
struct Call<'a> {
    workload: &'a WorkloadArgs,
    engine: Engine,
    database: &'a Path,
}

impl Call<'_> {
    fn start(&self, group: Group, acknowledged: &[u64]) -> anyhow::Result<(Child, impl BufRead + use<>)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("peers-once").args(self.workload.to_words());
        command.args(["--engine", self.engine.name(), "--group", &name_of(&group), "--folder"]);
        command.arg(self.database);
        if !acknowledged.is_empty() {
            let batches: Vec<String> = acknowledged.iter().map(u64::to_string).collect();
            command.args(["--acknowledged", &batches.join(",")]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the output of a process")?;
        Ok((child, BufReader::new(stdout)))
    }

    /// Runs a group, and adds what it says to the report.
    fn run(&self, group: Group, acknowledged: &[u64], report: &mut Report) -> anyhow::Result<()> {
        let (mut child, output) = self.start(group, acknowledged)?;
        let mut taken = Ok(());
        for line in output.lines() {
            let line = line?;
            // The process is heard out, so that it does not end for want of a reader.
            taken = taken.and_then(|()| self.take(&line, report));
        }
        let status = child.wait()?;
        ensure!(status.success(), "the process ended with {status}");
        taken
    }

    fn take(&self, line: &str, report: &mut Report) -> anyhow::Result<()> {
        let value: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        if let (Some(phase), Some(metric)) = (value["phase"].as_str(), value["metric"].as_str()) {
            let number = value["value"].as_f64().with_context(|| format!("no number: {line}"))?;
            report.add(self.engine, phase, metric, number);
        } else if let Some(phase) = value["series"].as_str() {
            report.set_series(self.engine, Series::parse(phase, &value["points"])?);
        } else {
            bail!("nobody knows what this is: {line}");
        }
        Ok(())
    }

    /// Has upserts go on until so many rows are acknowledged, and kills the process then. Tells how many batches of
    /// each thread were acknowledged at least.
    fn run_and_kill(&self, rows: u64) -> anyhow::Result<Vec<u64>> {
        let (mut child, output) = self.start(Group::Killed, &[])?;
        let batches = rows.div_ceil(self.workload.batch);
        let mut acknowledged: Vec<u64> = Vec::new();
        let mut is_killed = false;
        for line in output.lines() {
            // The last line may be cut off.
            let Ok(value) = serde_json::from_str::<Value>(&line?) else { continue };
            let Some(counts) = value["acknowledged"].as_array() else { continue };
            acknowledged = counts.iter().filter_map(Value::as_u64).collect();
            if !is_killed && acknowledged.iter().sum::<u64>() >= batches {
                child.kill()?;
                is_killed = true;
            }
        }
        let status = child.wait()?;
        ensure!(is_killed, "the process ended by itself, with {status}");
        Ok(acknowledged)
    }
}

#[cfg(test)]
mod tests;
