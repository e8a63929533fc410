//! `keys`: what it costs to have a key ready for the memtable, with memory of its own for each key and without.
//!
//! | variant | what it does for each row |
//! |---|---|
//! | `heap` | a builder, a key and a probe, each in memory of its own, and the key encoded again for the memtable |
//! | `arena` | encodes the key once, to the tail of the batch that goes to the log, and hashes it there |
//!
//! `heap` is how Kudu wrote rows before KUDU-636, `arena` how Nyala does.
//!
//! | part | from where to where |
//! |---|---|
//! | keys | typed values to the key in a batch, with its hash: that part of the write path alone |
//! | load | typed values to an engine that has nothing left to do: log, memtable, flushes and compactions included |
//!
//! The engine's memtable cannot be reached from outside, and need not be: it copies the key's bytes from the batch, and
//! what it costs is the same for both. In the load both go through it. There `heap` writes to a table whose only key
//! column is a binary one, so that the engine takes the bytes as they are and does not encode a third time.

mod heap;
mod load;
mod path;
mod report;

use std::fmt;

use anyhow::Context;
use clap::ValueEnum;

use crate::args::KeysArgs;
use crate::measure;
use crate::peers::rows::Rows;

use report::Report;

/// Where keys live on their way to the memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// Builder, key and probe in memory of their own
    Heap,
    /// In the batch
    Arena,
}

impl Variant {
    const ALL: [Variant; 2] = [Variant::Heap, Variant::Arena];

    fn name(self) -> &'static str {
        match self {
            Variant::Heap => "heap",
            Variant::Arena => "arena",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The length of values: with the key, rows of some 125 bytes.
const VALUE_BYTES: usize = 100;

/// Runs the benchmark.
pub(crate) fn run(args: &KeysArgs) -> anyhow::Result<()> {
    let folder = args.dir.join("keys");
    measure::make_folder(&folder).with_context(|| format!("making {}", folder.display()))?;
    let rows = Rows::new(args.rows, VALUE_BYTES, args.seed);
    let mut report = Report::default();
    for round in 0..args.rounds {
        let mut variants = Variant::ALL;
        variants.rotate_left(round as usize % Variant::ALL.len());
        for variant in variants {
            eprintln!("round {} of {}: {variant}", round + 1, args.rounds);
            for &threads in &args.threads {
                let part = path::run(variant, &rows, threads, args.keys)?;
                report.add(variant, threads, "ns_per_key", part.cpu_ns_per_key);
                report.add(variant, threads, "elapsed_ns_per_key", part.elapsed_ns_per_key);
                report.add(variant, threads, "allocs_per_key", part.allocations_per_key);
            }
            if !args.no_load {
                let load = load::run(args, variant, &rows, &folder)?;
                report.add(variant, args.load_threads, "load_cpu_ns_per_row", load.cpu_ns_per_row);
                report.add(variant, args.load_threads, "load_rows_per_s", load.rows_per_second);
                report.add(variant, args.load_threads, "load_allocs_per_row", load.allocations_per_row);
            }
        }
    }
    report.print();
    if args.json {
        println!("{}", report.to_json());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
