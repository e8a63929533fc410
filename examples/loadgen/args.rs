//! The command line: flags, their defaults, and which of them contradict each other.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use nyala::{Durability, Options};

use crate::generator::{Shape, Spec};

/// Where the table lies if nothing else is said. On the disk, not in a temporary folder that may be memory.
pub(crate) const DEFAULT_DIR: &str = "target/loadgen";

/// Fill a table with generated rows as fast as possible, and report what that took.
///
/// The table "loadgen" of an earlier run in the same directory is dropped first, however that run ended; see --append
/// and --skip-load for the other ways. Exit code 0: all is well; 1: something failed, a row was refused, or a row was
/// not found again; 2: the arguments make no sense.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, max_term_width = 110)]
pub(crate) struct Args {
    /// Threads that load
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) num_threads: u16,

    /// Rows that each thread loads
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub(crate) num_rows_per_thread: u64,

    /// Number of the first row. Thread t loads the rows from seq-start + t * num-rows-per-thread on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seq_start: u64,

    /// Length of generated strings in bytes, except in composite keys
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) string_len: u32,

    /// Put this string into all string columns that are not the key's, instead of a generated one
    #[arg(long, value_name = "TEXT")]
    pub(crate) string_fixed: Option<String>,

    /// Random keys and random values; the same as --use-random-pk --use-random-non-pk
    ///
    /// Random integers include negative ones, random strings include NUL bytes and letters beyond ASCII. Random keys
    /// are a permutation: no two rows have the same.
    #[arg(long)]
    pub(crate) use_random: bool,

    /// Random keys, instead of sequential ones
    #[arg(long)]
    pub(crate) use_random_pk: bool,

    /// Random values in the other columns, instead of sequential ones
    #[arg(long)]
    pub(crate) use_random_non_pk: bool,

    /// Write with upsert, which looks nothing up; without this flag with insert, which checks that the key is new
    #[arg(long)]
    pub(crate) use_upsert: bool,

    /// Rows in a batch
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch_rows: u32,

    /// Integer columns (i64) beside the key
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=400))]
    pub(crate) table_num_int_columns: u16,

    /// String columns beside the key
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=400))]
    pub(crate) table_num_string_columns: u16,

    /// The primary key
    #[arg(long, value_enum, value_name = "SHAPE", default_value_t = Shape::Int)]
    pub(crate) key_shape: Shape,

    /// When a batch counts as written
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Buffered)]
    pub(crate) durability: When,

    /// Memory for memtables and the block cache together: bytes, or a number with KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_bytes)]
    pub(crate) memory: usize,

    /// Directory of the database; it is made if it is not there
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub(crate) dir: PathBuf,

    /// Seed of the random values: the same seed gives the same rows
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Keep the rows of earlier runs. Rows whose keys are there already are errors, unless --use-upsert is given
    #[arg(long)]
    pub(crate) append: bool,

    /// Load nothing: open what an earlier run left, however it ended, and do the rest on that. Give the same flags as
    /// for that run
    #[arg(long, conflicts_with = "append")]
    pub(crate) skip_load: bool,

    /// Read the whole table afterwards, check the number of rows, and report the time
    #[arg(long)]
    pub(crate) run_scan: bool,

    /// Read this many random rows by their keys afterwards, and report the times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) run_gets: u64,

    /// Close, open again, read every row back and compare it with what was generated
    #[arg(long)]
    pub(crate) verify: bool,

    /// Drop the table at the end, and remove the directory if this program made it
    #[arg(long)]
    pub(crate) run_cleanup: bool,

    /// How many of the errors are shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) show_first_n_errors: usize,

    /// Make the last line a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// When a batch counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// When the operating system has it
    Buffered,
    /// When the disk has it
    Sync,
}

impl When {
    pub(crate) fn durability(self) -> Durability {
        match self {
            When::Buffered => Durability::Buffered,
            When::Sync => Durability::Sync,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            When::Buffered => "buffered",
            When::Sync => "sync",
        }
    }
}

impl Args {
    /// What rows to generate.
    ///
    /// # Errors
    /// A sentence, if there are not as many rows of that kind, or the engine would not take the options.
    pub(crate) fn spec(&self) -> Result<Spec, String> {
        let end = u64::from(self.num_threads)
            .checked_mul(self.num_rows_per_thread)
            .and_then(|rows| rows.checked_add(self.seq_start));
        let spec = Spec {
            shape: self.key_shape,
            has_random_keys: self.use_random || self.use_random_pk,
            has_random_values: self.use_random || self.use_random_non_pk,
            int_columns: usize::from(self.table_num_int_columns),
            string_columns: usize::from(self.table_num_string_columns),
            string_len: self.string_len as usize,
            string_fixed: self.string_fixed.clone(),
            seed: self.seed,
        };
        let shortest = spec.key_text_len_min();
        if self.key_shape == Shape::String && spec.string_len < shortest {
            return Err(format!(
                "string keys need --string-len {shortest} or more, else they are not unique"
            ));
        }
        let limit = spec.rows_max();
        match end {
            Some(end) if end <= limit => {}
            _ => return Err(format!("the last row's number would be above {limit}, the most for such keys")),
        }
        self.options().validate().map_err(|error| format!("--memory: {error}"))?;
        Ok(spec)
    }

    /// How to open the engine.
    pub(crate) fn options(&self) -> Options {
        Options {
            memory_bytes: self.memory,
            default_durability: self.durability.durability(),
            create_if_missing: !self.skip_load,
            ..Options::default()
        }
    }

    /// How many rows the whole run loads.
    pub(crate) fn rows(&self) -> u64 {
        u64::from(self.num_threads) * self.num_rows_per_thread
    }
}

/// Reads "64MiB", "1GiB", "1048576".
fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err("write a number with KiB, MiB or GiB".to_owned()),
    };
    let number: usize = digits.parse().map_err(|_| "write a whole number, as in 64MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "that is more memory than any machine has".to_owned())
}
