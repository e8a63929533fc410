//! The command line: its subcommands, and what they share. Each subcommand's own arguments stand with it.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::command;
use crate::output::Format;

/// Look into, fill, check and repair the tables of a Nyala database.
///
/// Commands that only read open the database for reading only: they work beside a program that has it open, and change
/// nothing.
#[derive(Debug, Parser)]
#[command(name = "nyala", version, max_term_width = 100, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// The form of what is printed
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value = "table",
        display_order = 900
    )]
    output: Format,

    /// The same as --output json; errors are JSON then, too
    #[arg(long, global = true, conflicts_with = "output", display_order = 901)]
    json: bool,

    /// The same as --output csv
    #[arg(long, global = true, conflicts_with_all = ["output", "json"], display_order = 902)]
    csv: bool,
}

impl Args {
    pub(crate) fn format(&self) -> Format {
        match (self.json, self.csv) {
            (true, _) => Format::Json,
            (false, true) => Format::Csv,
            (false, false) => self.output,
        }
    }
}

/// Whether the form is JSON, of arguments that cannot be read as a whole.
pub(crate) fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<OsString> = arguments.take_while(|word| word != "--").collect();
    words.iter().any(|word| word == "--json" || word == "--output=json")
        || words.windows(2).any(|pair| pair[0] == "--output" && pair[1] == "json")
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 failed; 2 the arguments make no sense; 3 not found; 4 done, and something was found (problems,
losses, rows set aside); 5 another process has the database open; 6 damaged; 7 the disk is full; 130 interrupted.
Colours are only used on a terminal, and not if NO_COLOR is set.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Inspect(command::inspect::Args),
    Get(command::get::Args),
    Scan(command::scan::Args),
    Import(command::import::Args),
    Export(command::export::Args),
    Stats(command::stats::Args),
    Check(command::check::Args),
    Compact(command::compact::Args),
    Rename(command::rename::Args),
    Drop(command::drop::Args),
    Checkpoint(command::checkpoint::Args),
    Repair(command::repair::Args),
    Dump(command::dump::Args),
    Key(command::key::Args),
    Completions(command::completions::Args),
}
