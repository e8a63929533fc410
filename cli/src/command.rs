//! The subcommands, one a file: its arguments, and what it does.

pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod drop;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod rename;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod stats;

use anyhow::Result;

use crate::args::Command;
use crate::failure::Exit;
use crate::output::Output;

/// Runs a subcommand.
pub(crate) fn run(command: &Command, out: &mut Output) -> Result<Exit> {
    match command {
        Command::Inspect(args) => inspect::run(args, out),
        Command::Get(args) => get::run(args, out),
        Command::Scan(args) => scan::run(args, out),
        Command::Import(args) => import::run(args, out),
        Command::Export(args) => export::run(args, out),
        Command::Stats(args) => stats::run(args, out),
        Command::Check(args) => check::run(args, out),
        Command::Compact(args) => compact::run(args, out),
        Command::Rename(args) => rename::run(args, out),
        Command::Drop(args) => drop::run(args, out),
        Command::Checkpoint(args) => checkpoint::run(args, out),
        Command::Repair(args) => repair::run(args, out),
        Command::Dump(args) => dump::run(args, out),
        Command::Key(args) => key::run(args, out),
        Command::Completions(args) => completions::run(args, out),
    }
}
