//! Loads two real tables, flights from New York and the weather there, and answers questions about them.
//!
//! ```text
//! cargo run --release --example flights
//! cargo run --release --example flights -- FLIGHTS.csv.gz WEATHER.csv.gz --json
//! ```
//!
//! Owns the command line and the order of things. The tables are in `tables.rs`, files become rows in `input.rs` and
//! get into tables in `load.rs`, and `answers.rs` asks. `data/` has a small sample of the files, and `README.md` where
//! they are from.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example is a program of its own: only the libraries go through vfs"
)]

mod answers;
mod input;
mod load;
mod tables;

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nyala::{Engine, Options};

use input::Source;

/// Load the flights from New York in 2013 and the weather there, and answer questions about them.
///
/// The files are CSV, plain or compressed with gzip, with a line of column names; "NA" is null. Without files a sample
/// is loaded that comes with the program. The tables of an earlier run are made anew. Exit code 0: all is well; 1: a
/// file or the database failed; 2: the arguments make no sense.
#[derive(Debug, Parser)]
#[command(name = "flights", version, max_term_width = 110)]
struct Args {
    /// Flights [default: four days, which come with the program]
    #[arg(value_name = "FLIGHTS.csv[.gz]")]
    flights: Option<PathBuf>,

    /// Weather [default: four days, which come with the program]
    #[arg(value_name = "WEATHER.csv[.gz]")]
    weather: Option<PathBuf>,

    /// The day whose flights are shown, as YYYY-MM-DD
    #[arg(long, value_name = "DATE", default_value = "2013-01-01", value_parser = answers::parse_day)]
    day: answers::Day,

    /// The carrier whose flights are shown
    #[arg(long, value_name = "CODE", default_value = "UA")]
    carrier: String,

    /// Directory of the database; it is made if it is not there
    #[arg(long, value_name = "DIR", default_value = "target/flights")]
    dir: PathBuf,

    /// Make the last line a JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let source = |path: &Option<PathBuf>, sample| match path {
        Some(path) => Source::File(path.clone()),
        None => Source::Sample(sample),
    };
    let flights_source = source(&args.flights, include_bytes!("data/flights.csv.gz"));
    let weather_source = source(&args.weather, include_bytes!("data/weather.csv.gz"));

    let engine = Engine::open(&args.dir, Options::default())?;
    let flights = tables::make_anew(&engine, "flights", tables::flights()?)?;
    let weather = tables::make_anew(&engine, "weather", tables::weather()?)?;
    let latest_weather = tables::make_anew(&engine, "latest_weather", tables::weather()?)?;

    let mut out = std::io::stdout().lock();
    let rows = load::in_batches(&engine, &flights, &flights_source)?;
    writeln!(out, "{flights_source}: {rows} flights loaded")?;

    // The same hours once more, when the clocks go back: the first row of a key stays, or the last.
    let first_kept = load::one_by_one(&weather, &weather_source)?;
    let shown = &first_kept.duplicates;
    writeln!(out, "{weather_source}: {} rows read, {} are there already:", first_kept.rows, shown.len())?;
    for duplicate in shown.iter().take(10) {
        writeln!(out, "  {duplicate}")?;
    }
    load::with_upsert(&engine, &latest_weather, &weather_source)?;

    let answers = answers::ask(&flights, &weather, &latest_weather, first_kept, (args.day, &args.carrier))?;
    write!(out, "{answers}")?;
    if args.json {
        writeln!(out, "{}", answers.json())?;
    }
    out.flush()?;
    engine.close()?;
    Ok(())
}
