//! The command line.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Parser, Subcommand, ValueEnum};

use crate::allocator;
use crate::instructions::HotPath;
use crate::measure::default_folder;
use crate::merger::Variant;
use crate::peers::{PeersArgs, PeersOnceArgs};

/// Benchmarks of the Nyala storage engine
#[derive(Debug, Parser)]
#[command(name = "nyala-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Merge index runs in three ways: a message a key, reused messages, and the engine's own compaction
    Merger(MergerArgs),
    /// Load a table, upsert at random for long, and see how long batches take while compaction runs
    UpsertTail(UpsertTailArgs),
    /// Count the instructions of the hot paths, and compare them with those that are expected. Needs valgrind
    Instructions(InstructionsArgs),
    /// One process of `instructions`: runs one path
    #[command(hide = true)]
    InstructionsOnce(InstructionsOnceArgs),
    /// Make keys ready for the memtable, with memory of its own for each and without
    Keys(KeysArgs),
    /// Load, upsert, read, scan and reopen, side by side with other engines, each of which is a feature of this program
    Peers(PeersArgs),
    /// One process of `merger`: merges once in each way and prints a line for each
    #[command(hide = true)]
    MergeOnce(MergeOnceArgs),
    /// One process of `peers`: one engine, some phases, a line for each number
    #[command(hide = true)]
    PeersOnce(PeersOnceArgs),
}

/// Which inputs to merge.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// Keys to read, over all runs together
    #[arg(long, default_value_t = 8_000_000)]
    pub(crate) keys: u64,
    /// Runs to merge
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) runs: u64,
    /// The share of keys that are deletions
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) deletions: f64,
    /// Seed of the inputs
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MergerArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The share of a run's keys that an older run has too; several, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.3, 0.9], value_parser = share)]
    pub(crate) overlap: Vec<f64>,
    /// How often each variant runs; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// Which variants, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Variant::ALL)]
    pub(crate) variants: Vec<Variant>,
    /// Which allocators, separated by commas
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [allocator::Kind::System, allocator::Kind::Mimalloc])]
    pub(crate) allocators: Vec<allocator::Kind>,
    /// Also measure what reading, checksumming, filter building and writing the same bytes takes without merging
    #[arg(long)]
    pub(crate) limit: bool,
    /// Do not sample with perf
    #[arg(long)]
    pub(crate) no_profile: bool,
    /// Where inputs and outputs go. The inputs stay there for the next time
    #[arg(long, default_value_os_t = default_folder())]
    pub(crate) dir: PathBuf,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MergeOnceArgs {
    /// The folder of the inputs
    #[arg(long)]
    pub(crate) inputs: PathBuf,
    /// A folder for the outputs, which are removed again
    #[arg(long)]
    pub(crate) outputs: PathBuf,
    /// Which variants, in this order
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) variants: Vec<Variant>,
    /// How often each
    #[arg(long, default_value_t = 1)]
    pub(crate) repeat: u64,
    /// Compare the outputs, key by key
    #[arg(long)]
    pub(crate) compare: bool,
    /// Measure the limit too
    #[arg(long)]
    pub(crate) limit: bool,
}

/// How the rows to upsert are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// A few rows most of the time: zipfian with exponent 0.99, scattered over the table
    Zipfian,
    /// Every row as often as any other
    Uniform,
}

impl Distribution {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Distribution::Zipfian => "zipfian",
            Distribution::Uniform => "uniform",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct UpsertTailArgs {
    /// Rows to load first
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) rows: u64,
    /// Upserts of loaded rows after that
    #[arg(long, default_value_t = 20_000_000)]
    pub(crate) upserts: u64,
    /// Threads that write
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) threads: u64,
    /// Rows in a batch
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) batch: u64,
    /// Which distributions, separated by commas, each with a table of its own
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [Distribution::Zipfian, Distribution::Uniform])]
    pub(crate) distributions: Vec<Distribution>,
    /// Memory of the engine for memtables and block cache together
    #[arg(long, default_value_t = ByteSize::mib(256))]
    pub(crate) memory: ByteSize,
    /// How long to wait at most, in seconds, until the engine has nothing left to do after the upserts
    #[arg(long, default_value_t = 120)]
    pub(crate) idle_seconds: u64,
    /// Check the whole database at the end
    #[arg(long)]
    pub(crate) check: bool,
    /// Keep the databases
    #[arg(long)]
    pub(crate) keep: bool,
    /// Seed of rows and draws
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where databases, CSV files and plots go
    #[arg(long, default_value_os_t = default_folder())]
    pub(crate) dir: PathBuf,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InstructionsArgs {
    /// The counts that are expected
    #[arg(long, default_value = "bench/instructions.json")]
    pub(crate) file: PathBuf,
    /// How far off a count may be, in percent. What else is in the program changes what the compiler inlines, by up to
    /// 8 %
    #[arg(long, default_value_t = 10.0)]
    pub(crate) tolerance: f64,
    /// Write the file anew instead of comparing
    #[arg(long)]
    pub(crate) write: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InstructionsOnceArgs {
    /// Which path
    #[arg(long, value_enum)]
    pub(crate) path: HotPath,
    /// A folder that is not there yet
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Do the work, not only what comes before
    #[arg(long)]
    pub(crate) work: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeysArgs {
    /// Rows of the loads
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) rows: u64,
    /// Threads of the loads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) load_threads: u64,
    /// Load in random order instead of the keys' order
    #[arg(long)]
    pub(crate) random: bool,
    /// Do not load
    #[arg(long)]
    pub(crate) no_load: bool,
    /// Keys of each thread in the part without an engine
    #[arg(long, default_value_t = 5_000_000)]
    pub(crate) keys: u64,
    /// Threads in the part without an engine; several, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8],
          value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) threads: Vec<u64>,
    /// How often each variant runs; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// Memory of the engine for memtables and block cache together
    #[arg(long, default_value_t = ByteSize::mib(256))]
    pub(crate) memory: ByteSize,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where the databases go
    #[arg(long, default_value_os_t = default_folder())]
    pub(crate) dir: PathBuf,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err("write a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_calls_of_the_readme_are_understood() {
        let parse = |line: &str| Args::try_parse_from(line.split(' ')).expect(line).command;
        let Command::Merger(args) = parse("b merger --keys 8000000 --runs 8 --overlap 0,0.3,0.9 --json")
        else {
            panic!("another command");
        };
        assert_eq!(args.overlap, [0.0, 0.3, 0.9]);
        assert_eq!(args.variants, Variant::ALL);
        let Command::UpsertTail(args) = parse("b upsert-tail --rows 10 --upserts 20 --memory 64MiB") else {
            panic!("another command");
        };
        assert_eq!(args.memory, ByteSize::mib(64));
        assert!(Args::try_parse_from(["b", "merger", "--overlap", "1.5"]).is_err());
        let Command::Instructions(args) = parse("b instructions --tolerance 3") else {
            panic!("another command");
        };
        assert!(!args.write);
    }
}
