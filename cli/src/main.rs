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
mod open;
mod output;
mod selection;
mod value;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::{Format, Output, Style, write_json_string};

fn main() -> ExitCode {
    let args = Args::parse();
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
            tell(&failure, format);
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

/// Says on standard error what failed. If that is closed, the exit code has to do.
fn tell(failure: &Failure, format: Format) {
    let mut text = Vec::new();
    let written = match format {
        Format::Json => as_json(&mut text, failure),
        Format::Table | Format::Csv => {
            let style = Style::of_stderr();
            let advice = failure.advice.iter().map(|advice| format!("\n{} {advice}", style.bold("help:")));
            writeln!(text, "{} {}{}", style.red("error:"), failure.message, advice.collect::<String>())
        }
    };
    let _ = written.and_then(|()| std::io::stderr().lock().write_all(&text));
}

fn as_json(text: &mut Vec<u8>, failure: &Failure) -> std::io::Result<()> {
    write!(text, "{{\"error\":{{\"exit_code\":{},\"message\":", failure.exit as u8)?;
    write_json_string(text, &failure.message)?;
    text.extend_from_slice(b",\"help\":");
    match &failure.advice {
        Some(advice) => write_json_string(text, advice)?,
        None => text.extend_from_slice(b"null"),
    }
    writeln!(text, "}}}}")
}
