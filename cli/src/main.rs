//! `nyala`: looks into, fills, checks and repairs the tables of a database, without the Rust types of its rows.
//!
//! Owns the process: arguments, exit code, what is said on standard error. Each subcommand is a file in `command/`.
//! Knows the engine by its public interface only.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the command reads and writes its own files as they are: only the engine goes through vfs"
)]

mod args;
mod command;
mod failure;
mod filter;
mod import;
mod interrupt;
mod list;
mod open;
mod output;
mod selection;
mod value;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::failure::Exit;
use crate::output::{Format, Output};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let format = args.format();
    let mut out = Output::new(format);
    let ran = command::run(&args.command, &mut out).and_then(|exit| Ok(out.flush().map(|()| exit)?));
    let exit = match ran {
        Ok(exit) => exit,
        Err(error) if failure::is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            // Rows that came before the failure are printed before it.
            let _ = out.flush();
            let failure = failure::classify(&error);
            failure.tell(format);
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

/// Help that was asked for, or arguments that make no sense.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && args::wants_json(std::env::args_os()) {
        let failure = failure::of_arguments(error);
        failure.tell(Format::Json);
        return ExitCode::from(failure.exit as u8);
    }
    // If nobody reads it, the exit code has to do.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Exit::Usage } else { Exit::Done } as u8)
}
