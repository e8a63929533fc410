//! `merger`: the same index runs merged in three ways, in turn.
//!
//! | variant | what it does for each key |
//! |---|---|
//! | `fresh` | copies key and value, parses a message, builds a list, a new message and its bytes, and drops them all |
//! | `reused` | the same work in messages, lists and buffers that are cleared and kept |
//! | `nyala` | whatever [`pkindex::Compaction::run`] does, which is what the engine's worker calls |
//!
//! `fresh` is how StarRocks merged its persistent index before its pull request 72843, `reused` how it does since. All
//! three read with the same cursors and the same merge, keep what the same rules need, and write with the same writer
//! of blocks, index and filter. What comes out is compared, key by key.
//!
//! Each round runs every variant once, in an order that rotates, in a process of its own for each allocator.
//!
//! Invariant: only merging is measured: opening the inputs, comparing and clearing away are not.

mod baseline;
mod compare;
mod inputs;
mod limit;
pub(crate) mod once;
mod output;
mod profile;
mod report;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::allocator::{self, Kind};
use crate::args::{InputArgs, MergerArgs};
use crate::measure;

use report::{Case, Report};

/// Merges inputs in `folder`, made there if need be, as the engine does; without `work` it only makes them.
pub(crate) fn merge_engine(folder: &Path, input: &InputArgs, work: bool) -> anyhow::Result<()> {
    once::merge_engine(folder, input, work)
}

/// Builds one index run of so many keys, in a folder.
pub(crate) fn build_run(folder: &Path, keys: u64) -> anyhow::Result<()> {
    inputs::build_one(folder, keys)
}

/// A way to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// New messages, lists, keys and buffers for each key
    Fresh,
    /// The same, cleared and kept from key to key
    Reused,
    /// The engine's compaction
    Nyala,
}

impl Variant {
    pub(crate) const ALL: [Variant; 3] = [Variant::Fresh, Variant::Reused, Variant::Nyala];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Variant::Fresh => "fresh",
            Variant::Reused => "reused",
            Variant::Nyala => "nyala",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Runs the benchmark.
pub(crate) fn run(args: &MergerArgs) -> anyhow::Result<()> {
    let folder = args.dir.join("merger");
    let perf = match args.no_profile {
        true => None,
        false => profile::find(),
    };
    let mut report = Report::default();
    for &overlap in &args.overlap {
        let inputs = inputs::ensure(&folder, &args.input, overlap)?;
        let mut cases: Vec<Case> = Vec::new();
        for round in 0..args.rounds {
            for &allocator in &args.allocators {
                let task = Task { inputs: &inputs, folder: &folder, allocator };
                let first = round as usize % args.variants.len().max(1);
                let mut variants = args.variants.clone();
                variants.rotate_left(first);
                eprintln!("overlap {overlap}, {allocator}: round {} of {}", round + 1, args.rounds);
                // Every round writes the same: to compare once is enough.
                for line in task.measure(&variants, round == 0, args.limit)? {
                    report::add_line(&mut cases, allocator, overlap, &line)?;
                }
            }
        }
        if let Some(perf) = &perf {
            for case in cases.iter_mut().filter(|case| case.variant != report::LIMIT) {
                let task = Task { inputs: &inputs, folder: &folder, allocator: case.allocator };
                eprintln!("overlap {overlap}, {}: samples of {}", case.allocator, case.variant);
                case.samples = Some(profile::sample(perf, &task, &case.variant, case.elapsed_seconds())?);
            }
        }
        report.cases.append(&mut cases);
    }
    report.print();
    if args.json {
        println!("{}", report.to_json());
    }
    Ok(())
}

/// What a process is to merge, and with which allocator.
struct Task<'a> {
    inputs: &'a Path,
    folder: &'a Path,
    allocator: Kind,
}

impl Task<'_> {
    /// The call of this program that does it.
    fn arguments(&self, variants: &str) -> Vec<std::ffi::OsString> {
        let outputs: PathBuf = self.folder.join(format!("outputs-{}", std::process::id()));
        let arguments: [&std::ffi::OsStr; 7] = [
            "merge-once".as_ref(),
            "--inputs".as_ref(),
            self.inputs.as_ref(),
            "--outputs".as_ref(),
            outputs.as_ref(),
            "--variants".as_ref(),
            variants.as_ref(),
        ];
        arguments.iter().map(|&argument| argument.to_owned()).collect()
    }

    /// Merges once in each way, in another process, and gives what that said.
    fn measure(&self, variants: &[Variant], compare: bool, limit: bool) -> anyhow::Result<Vec<Value>> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name()).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(self.arguments(&names.join(","))).env(allocator::VARIABLE, self.allocator.name());
        if compare {
            command.arg("--compare");
        }
        if limit {
            command.arg("--limit");
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("the process that merges ended with {}", output.status);
        }
        let lines = String::from_utf8(output.stdout).context("its output")?;
        lines.lines().map(|line| serde_json::from_str(line).context("a line of its output")).collect()
    }
}

/// Removes what a process left in its folder for outputs.
fn clear(folder: &Path) -> anyhow::Result<()> {
    measure::remove_folder(folder).with_context(|| format!("removing {}", folder.display()))
}

#[cfg(test)]
mod tests;
