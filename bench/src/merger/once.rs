//! One process of the benchmark: merges the inputs once in each way, and prints a line of JSON for each.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use codec::Version;
use pkindex::{Compaction, CompactionOptions, InlineExecutor, Relocate, Retention, Run, RunWriter};
use serde_json::json;
use sstable::FileInfo;

use crate::args::MergeOnceArgs;
use crate::{allocator, measure};

use super::baseline::{self, Fresh, Reused};
use super::output::Folder;
use super::{Variant, clear, compare, inputs, limit, report};

/// What merging gave.
pub(super) struct Merging {
    pub(super) files: Vec<FileInfo>,
    /// Keys read: one that several runs have counts once for each.
    pub(super) keys_in: u64,
}

impl Merging {
    pub(super) fn keys_out(&self) -> u64 {
        self.files.iter().map(|file| file.entries).sum()
    }

    pub(super) fn bytes_out(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// Merges, prints, and clears away.
pub(crate) fn run(args: &MergeOnceArgs) -> anyhow::Result<()> {
    let runs = inputs::open(&args.inputs)?;
    ensure!(!runs.is_empty(), "there are no inputs in {}", args.inputs.display());
    let result = run_all(args, &runs);
    clear(&args.outputs)?;
    result
}

fn run_all(args: &MergeOnceArgs, runs: &[Arc<Run>]) -> anyhow::Result<()> {
    let folder = Folder::new(&args.outputs, 1)?;
    let mut first: Option<(Variant, Merging)> = None;
    for _ in 0..args.repeat {
        for &variant in &args.variants {
            let merging = measure_variant(variant, runs, &folder)?;
            match &first {
                Some((other, expected)) if args.compare => {
                    let keys = compare::compare(&folder, &expected.files, &merging.files);
                    let keys =
                        keys.with_context(|| format!("the outputs of {other} and {variant} differ"))?;
                    eprintln!("{other} and {variant} wrote the same {keys} keys");
                    folder.remove(&merging.files)?;
                }
                Some(_) => folder.remove(&merging.files)?,
                None => first = Some((variant, merging)),
            }
        }
    }
    if let Some((_, merging)) = first.filter(|_| args.limit) {
        let bytes_in = bytes_in(runs);
        let (done, took) = measure::timed(|| limit::run(&args.inputs, &args.outputs, &merging));
        done.context("measuring the limit")?;
        print_line(report::LIMIT, took, 0, &merging, bytes_in);
    }
    Ok(())
}

fn measure_variant(variant: Variant, runs: &[Arc<Run>], folder: &Folder) -> anyhow::Result<Merging> {
    let before = allocator::allocations();
    let (merging, took) = measure::timed(|| merge(variant, runs, folder));
    let allocations = allocator::allocations() - before;
    let merging = merging.with_context(|| format!("merging with {variant}"))?;
    print_line(variant.name(), took, allocations, &merging, bytes_in(runs));
    Ok(merging)
}

fn bytes_in(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| run.bytes()).sum()
}

fn print_line(variant: &str, took: measure::Took, allocations: u64, merging: &Merging, bytes_in: u64) {
    let line = json!({
        "allocator": allocator::current().name(),
        "variant": variant,
        "cpu_ns": took.cpu.as_nanos() as u64,
        "elapsed_ns": took.elapsed.as_nanos() as u64,
        "allocations": allocations,
        "keys_in": merging.keys_in,
        "keys_out": merging.keys_out(),
        "bytes_in": bytes_in,
        "bytes_out": merging.bytes_out(),
    });
    println!("{line}");
}

/// Merges all runs into one, as a compaction of the whole index does: no snapshots, nothing below.
fn merge(variant: Variant, runs: &[Arc<Run>], folder: &Folder) -> anyhow::Result<Merging> {
    let retention = Retention { floor: Version::MAX, snapshots: Vec::new() };
    let options = CompactionOptions::default();
    let readahead = options.readahead_bytes;
    let (files, keys_in) = match variant {
        Variant::Fresh => {
            let out = RunWriter::new(folder, &options.run);
            baseline::merge_runs(runs, readahead, &mut Fresh::new(&retention), out)?
        }
        Variant::Reused => {
            let out = RunWriter::new(folder, &options.run);
            baseline::merge_runs(runs, readahead, &mut Reused::new(&retention), out)?
        }
        Variant::Nyala => {
            let inputs = runs.to_vec();
            let compaction = Compaction { inputs, base: true, retention, moving: Vec::new(), options };
            let unused = |_: usize| -> Box<dyn Relocate> { unreachable!("no rows are moved") };
            let outcome = compaction.run(folder, &InlineExecutor, &unused, &AtomicBool::new(false))?;
            ensure!(outcome.reused.is_empty(), "files moved whole: the inputs must interleave");
            (outcome.files.into_iter().map(|file| file.info).collect(), outcome.stats.entries_in)
        }
    };
    Ok(Merging { files, keys_in })
}

/// Sees to inputs in `folder`, and with `work` merges them as the engine does.
pub(super) fn merge_engine(
    folder: &std::path::Path,
    input: &crate::args::InputArgs,
    work: bool,
) -> anyhow::Result<()> {
    let runs = inputs::open(&inputs::ensure(folder, input, 0.0)?)?;
    let outputs = Folder::new(&folder.join("outputs"), 1)?;
    if work {
        let merging = merge(Variant::Nyala, &runs, &outputs)?;
        ensure!(merging.keys_in == input.keys, "{} keys of {}", merging.keys_in, input.keys);
    }
    Ok(())
}

/// Merges small inputs in all ways, for the tests.
#[cfg(test)]
pub(super) fn merge_for_test(
    variant: Variant,
    inputs: &std::path::Path,
    folder: &Folder,
) -> anyhow::Result<(Merging, u64)> {
    let runs = inputs::open(inputs)?;
    let before = allocator::allocations();
    let merging = merge(variant, &runs, folder)?;
    Ok((merging, allocator::allocations() - before))
}
