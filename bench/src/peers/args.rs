//! The command line of `peers`.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::ValueEnum;

use crate::measure::default_folder;

use super::rows::VALUE_BYTES_MIN;
use super::store::{Engine, Taste};

/// What is done to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Load all rows in random order, and into another database in key order
    #[value(name = "P1")]
    P1,
    /// As many zipfian upserts as there are rows
    #[value(name = "P2")]
    P2,
    /// Point reads: a fifth as many as there are rows; a tenth that are missing, a tenth zipfian
    #[value(name = "P3")]
    P3,
    /// Full scans forwards, backwards and of keys alone, and short scans, one for 50 rows
    #[value(name = "P4")]
    P4,
    /// Single-row synced commits by 2 and by 8 threads
    #[value(name = "P5")]
    P5,
    /// Half reads, half upserts: a tenth as many of each as there are rows
    #[value(name = "P6")]
    P6,
    /// Reopen after a clean close, and after a SIGKILL in the middle of upserts
    #[value(name = "P7")]
    P7,
}

/// What an engine's processes share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkloadArgs {
    /// Rows
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..=1 << 32))]
    pub(crate) rows: u64,
    /// Length of a value in bytes, half of which compress
    #[arg(long, default_value_t = 100, value_parser = value_bytes)]
    pub(crate) value_bytes: usize,
    /// Threads that write and read; P5 has its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) threads: u64,
    /// Rows in a batch, and reads in a transaction
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) batch: u64,
    /// Memory of an engine for memtables and caches together
    #[arg(long, default_value_t = ByteSize::mib(256))]
    pub(crate) memory: ByteSize,
    /// Whose settings
    #[arg(long, value_enum, default_value_t = Taste::Documented)]
    pub(crate) settings: Taste,
    /// How long each part of P5 takes, in seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// How long to wait at most, in seconds, until an engine has nothing left to do
    #[arg(long, default_value_t = 900)]
    pub(crate) idle_seconds: u64,
    /// Seed of rows and draws
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Which phases, separated by commas. All but P1 load without measuring it if P1 is not asked for
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true,
          default_values_t = [Phase::P1, Phase::P2, Phase::P3, Phase::P4, Phase::P5, Phase::P6, Phase::P7])]
    pub(crate) phases: Vec<Phase>,
}

impl WorkloadArgs {
    /// The same, as words of a command line.
    pub(super) fn to_words(&self) -> Vec<String> {
        let phases: Vec<String> = self.phases.iter().map(name_of).collect();
        let words = [
            ("--rows", self.rows.to_string()),
            ("--value-bytes", self.value_bytes.to_string()),
            ("--threads", self.threads.to_string()),
            ("--batch", self.batch.to_string()),
            ("--memory", self.memory.as_u64().to_string()),
            ("--settings", self.settings.name().to_owned()),
            ("--seconds", self.seconds.to_string()),
            ("--idle-seconds", self.idle_seconds.to_string()),
            ("--seed", self.seed.to_string()),
            ("--phases", phases.join(",")),
        ];
        words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    pub(super) fn has(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PeersArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Which engines, separated by commas; all that this program was built with if none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) engines: Vec<Engine>,
    /// How often everything is done; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// Where databases go
    #[arg(long, default_value_os_t = default_folder())]
    pub(crate) dir: PathBuf,
    /// Keep the databases
    #[arg(long)]
    pub(crate) keep: bool,
    /// Draw plots into this folder
    #[arg(long)]
    pub(crate) plots: Option<PathBuf>,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What one process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// P1 in random order, and P2
    Load,
    /// P1 in key order
    Sequential,
    /// P7 after a clean close, P3, P4
    Read,
    /// P6
    Mixed,
    /// P5
    Synced,
    /// Upserts until it is killed
    Killed,
    /// P7 after that
    Reopen,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PeersOnceArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[arg(long, value_enum)]
    pub(crate) engine: Engine,
    #[arg(long, value_enum)]
    pub(crate) group: Group,
    /// The folder of the database
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// Batches that each thread had acknowledged before it was killed
    #[arg(long, value_delimiter = ',')]
    pub(crate) acknowledged: Vec<u64>,
}

/// As it is written on the command line.
pub(super) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is skipped").get_name().to_owned()
}

fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (VALUE_BYTES_MIN..=1 << 20).contains(&number) => Ok(number),
        _ => Err(format!("write a number from {VALUE_BYTES_MIN} to {}", 1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        workload: WorkloadArgs,
    }

    #[test]
    fn a_process_gets_what_its_parent_was_told() {
        let line = "b --rows 5000 --value-bytes 1024 --threads 3 --batch 7 --memory 1MiB --settings argued \
                    --seconds 2 --idle-seconds 3 --seed 9 --phases p1,P7";
        let first = Line::parse_from(line.split_whitespace()).workload;
        assert_eq!(first.phases, [Phase::P1, Phase::P7]);
        let words = first.to_words();
        let again = Line::parse_from(std::iter::once("b".to_owned()).chain(words)).workload;
        assert_eq!(format!("{first:?}"), format!("{again:?}"));
        assert!(Line::try_parse_from(["b", "--value-bytes", "31"]).is_err());
    }
}
