//! Fills a table as fast as it can, and says what that took. After Kudu's `kudu perf loadgen`.
//!
//! ```text
//! cargo run --release --example loadgen
//! cargo run --release --example loadgen -- --use-random-pk --key-shape composite --verify
//! cargo run --release --example loadgen -- --help
//! ```
//!
//! Owns the order of things: open, load, read, close, open again and verify, clean up, report. Every row is a function
//! of its number and the seed (`generator.rs`), so that nothing has to be remembered to verify it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example is a program of its own: only the libraries go through vfs"
)]

mod args;
mod generator;
mod process;
mod reads;
mod report;
mod verify;
mod worker;

use std::error::Error;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;
use nyala::{Engine, ErrorKind, Table};

use args::Args;
use generator::Spec;
use report::{LoadFigures, Report};
use verify::Expected;
use worker::Outcome;

/// The table's name. A second run finds it again.
const TABLE: &str = "loadgen";

fn main() -> ExitCode {
    let args = Args::parse();
    let spec = match args.spec() {
        Ok(spec) => spec,
        Err(text) => {
            eprintln!("error: {text}\n\nFor more information, try '--help'.");
            return ExitCode::from(2);
        }
    };
    match run(&args, &spec) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does all that was asked for. False if it ran to its end, but a row was refused or not found again.
fn run(args: &Args, spec: &Spec) -> Result<bool, Box<dyn Error>> {
    let options = args.options();
    let is_new = !args.dir.exists();
    let opening = Instant::now();
    let mut engine = Engine::open(&args.dir, options.clone())?;
    let seconds = opening.elapsed().as_secs_f64();
    say(&report::Opening { dir: &args.dir, seconds, report: engine.recovery_report() })?;
    let table = table(args, spec, &engine)?;

    let mut report = Report::default();
    let mut expected = Expected::unknown(args);
    if !args.skip_load {
        let (figures, outcome) = load(args, spec, &engine, &table)?;
        say(&figures)?;
        expected = Expected::loaded(args, &outcome);
        report.load = Some(figures);
    }
    if args.run_scan {
        say(report.scan.insert(reads::scan(&table, &expected)?))?;
    }
    if args.run_gets > 0 {
        say(report.gets.insert(reads::gets(&table, spec, &expected, args.run_gets)?))?;
    }
    report.end = engine.stats();
    say(&report::Layout(&report.end))?;
    drop(table);
    if args.verify {
        let closing = Instant::now();
        engine.close()?;
        let closed = closing.elapsed();
        let opening = Instant::now();
        engine = Engine::open(&args.dir, options)?;
        let opened = opening.elapsed();
        let table = engine.open_table(TABLE, &spec.schema()?)?;
        say(report.verification.insert(verify::verify(&table, spec, &expected, closed, opened)?))?;
    }
    if args.run_cleanup {
        clean_up(args, &engine, is_new)?;
    } else {
        engine.close()?;
    }
    say(&report::PeakMemory(process::peak_memory()))?;
    if args.json {
        say(&format_args!("{}\n", report.json()))?;
    }
    Ok(report.is_good())
}

/// Prints a part of the report as soon as it is known: what comes later may fail.
fn say(part: &impl Display) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{part}")?;
    out.flush()
}

/// The table to load into, or to read if nothing is loaded.
fn table(args: &Args, spec: &Spec, engine: &Engine) -> Result<Table, Box<dyn Error>> {
    let schema = spec.schema()?;
    if args.skip_load {
        return Ok(engine.open_table(TABLE, &schema)?);
    }
    if !args.append {
        match engine.drop_table(TABLE) {
            Err(error) if error.kind() != ErrorKind::NoSuchTable => return Err(error.into()),
            _ => {}
        }
    }
    Ok(engine.open_or_create_table(TABLE, schema)?)
}

/// Loads the rows, then flushes what is left in memory.
fn load(
    args: &Args,
    spec: &Spec,
    engine: &Engine,
    table: &Table,
) -> Result<(LoadFigures, Outcome), Box<dyn Error>> {
    let generator_nanos = generator::nanos_per_row(spec);
    let cpu_before = process::cpu_time();
    let start = Instant::now();
    let outcome = worker::run(args, spec, engine, table);
    let seconds = outcome.finished.duration_since(start).as_secs_f64();
    let cpu_seconds = (process::cpu_time() - cpu_before).as_secs_f64();
    let mut figures = LoadFigures {
        kind: report::kind_of_load(args),
        rows: outcome.stored,
        errors: outcome.errors,
        first_errors: outcome.first_errors.clone(),
        seconds,
        cpu_seconds,
        generator_nanos,
        latencies: outcome.latencies.clone(),
        stats: engine.stats(),
        flush_seconds: None,
        flushed: engine.stats(),
        memory: process::resident_memory(),
    };
    if let Some(error) = &outcome.fatal {
        figures.first_errors.push(format!("a thread gave up: {error}"));
        return Ok((figures, outcome));
    }
    let flushing = Instant::now();
    engine.flush()?;
    figures.flush_seconds = Some(flushing.elapsed().as_secs_f64());
    figures.flushed = engine.stats();
    Ok((figures, outcome))
}

/// Drops the table, closes, and removes the directory if this program made it.
fn clean_up(args: &Args, engine: &Engine, is_new: bool) -> Result<(), Box<dyn Error>> {
    engine.drop_table(TABLE)?;
    engine.close()?;
    if is_new || args.dir == Path::new(args::DEFAULT_DIR) {
        std::fs::remove_dir_all(&args.dir)
            .map_err(|error| format!("cannot remove {}: {error}", args.dir.display()))?;
    }
    Ok(())
}

/// Whether a progress bar would be seen, and would not be in the way.
fn shows_progress() -> bool {
    std::io::stderr().is_terminal()
}
