//! The benchmarks of Nyala: seed experiments, side by side, with what they are compared to.
//!
//! Owns what is measured and how it is reported: tables for people, and with `--json` one object as the last line.
//! Never judges: whether a number is good enough is for who reads it.

mod allocator;
mod args;
mod instructions;
mod keys;
mod measure;
mod merger;
mod peers;
mod plot;
mod scatter;
mod upsert_tail;

use clap::Parser;

use args::{Args, Command};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Merger(args) => merger::run(&args),
        Command::UpsertTail(args) => upsert_tail::run(&args),
        Command::Instructions(args) => instructions::run(&args),
        Command::InstructionsOnce(args) => instructions::run_once(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Peers(args) => peers::run(&args),
        Command::MergeOnce(args) => merger::once::run(&args),
        Command::PeersOnce(args) => peers::process::run(&args),
    }
}
