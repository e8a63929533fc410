//! The program of the tutorial, docs/tutorial.md: flights from a file to a table, and questions about them.
//!
//! ```text
//! cargo run --example tutorial [FLIGHTS.csv.gz [DIRECTORY]]
//! ```
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it reads a file of its own")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use nyala::{Date, Durability, Engine, ErrorKind, FromRow, Options, Record, Schema, Table, column};

#[derive(Debug, PartialEq, Record)]
struct Flight<'a> {
    #[nyala(key)]
    day: Date,
    #[nyala(key)]
    carrier: &'a str,
    #[nyala(key)]
    number: u16,
    #[nyala(key)]
    origin: &'a str,
    dest: &'a str,
    planned: u16,
    dep_delay: Option<i16>,
    distance: u32,
    tail: Option<&'a str>,
}

/// Where an aircraft was: a second way to the flights.
#[derive(Record)]
struct ByTail<'a> {
    #[nyala(key)]
    tail: &'a str,
    #[nyala(key)]
    day: Date,
    #[nyala(key)]
    planned: u16,
    #[nyala(key)]
    carrier: &'a str,
    #[nyala(key)]
    number: u16,
    #[nyala(key)]
    origin: &'a str,
}

/// The columns that a question needs.
#[derive(FromRow)]
struct Delay {
    carrier: String,
    dep_delay: Option<i16>,
}

/// A line of the file.
fn flight(line: &csv::StringRecord) -> Result<Flight<'_>, Box<dyn Error>> {
    let known = |at: usize| Some(&line[at]).filter(|text| *text != "NA");
    let day = Date::from_ymd(line[0].parse()?, line[1].parse()?, line[2].parse()?).ok_or("no such day")?;
    Ok(Flight {
        day,
        carrier: &line[9],
        number: line[10].parse()?,
        origin: &line[12],
        dest: &line[13],
        planned: line[4].parse()?,
        dep_delay: known(5).map(str::parse).transpose()?,
        distance: line[15].parse()?,
        tail: known(11),
    })
}

fn load(engine: &Engine, flights: &Table, by_tail: &Table, file: &Path) -> Result<(), Box<dyn Error>> {
    let file = flate2::read::GzDecoder::new(std::fs::File::open(file)?);
    let mut batch = engine.batch();
    for line in csv::Reader::from_reader(file).records() {
        let line = line?;
        let flight = flight(&line)?;
        batch.upsert(flights, &flight)?;
        if let Flight { tail: Some(tail), day, planned, carrier, number, origin, .. } = flight {
            batch.upsert(by_tail, ByTail { tail, day, planned, carrier, number, origin })?;
        }
        if batch.len() >= 1000 {
            batch.commit(Durability::Buffered)?;
        }
    }
    batch.commit(Durability::Sync)?;
    Ok(())
}

fn ask(engine: &Engine, flights: &Table, by_tail: &Table) -> nyala::Result<()> {
    let new_year = Date::from_ymd(2013, 1, 1).expect("a day");

    // One flight, by its key.
    let row = flights.get((new_year, "UA", 1545, "EWR"))?.expect("it was loaded");
    let flight: Flight = row.to()?;
    assert_eq!((flight.dest, flight.dep_delay), ("IAH", Some(2)));

    // How many there are: the index knows, no row is read.
    assert_eq!(flights.count()?, 3601);
    assert_eq!(flights.scan().prefix((new_year, "UA")).count()?, 165);

    // Which were more than ten hours late.
    for row in flights.scan().filter(column("dep_delay").gt(600)).rows()? {
        let row = row?;
        let late: Flight = row.to()?;
        println!(
            "{} {}{} from {}: {:?} min late",
            late.day, late.carrier, late.number, late.origin, late.dep_delay
        );
    }

    // The mean delay of each carrier. Only two columns are read, into a struct that owns them.
    let mut delays: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for delay in flights.scan().records()? {
        let Delay { carrier, dep_delay } = delay?;
        if let Some(minutes) = dep_delay {
            let (sum, flights) = delays.entry(carrier).or_default();
            *sum += i64::from(minutes);
            *flights += 1;
        }
    }
    assert_eq!(delays["UA"], (5363, 652));

    // Where an aircraft went, in the order of time, from the second table. Both are read at one moment.
    let now = engine.snapshot();
    for row in by_tail.scan().prefix("N279JB").at(&now).rows()? {
        let row = row?;
        let ByTail { day, carrier, number, origin, planned, .. } = row.to()?;
        let flight = flights.get_at((day, carrier, number, origin), &now)?.expect("written with the entry");
        println!("{day} at {planned:04}: {origin} to {}", flight.get::<&str>("dest")?);
    }
    Ok(())
}

/// Gives a flight another aircraft, in both tables.
fn swap_aircraft(
    engine: &Engine,
    (flights, by_tail): (&Table, &Table),
    key: (Date, &str, u16, &str),
    tail: &str,
) -> nyala::Result<()> {
    engine.transact(|transaction| {
        let row = transaction.get(flights, key)?.expect("the caller has seen it");
        let old: Flight = row.to()?;
        let Flight { day, planned, carrier, number, origin, .. } = old;
        if let Some(tail) = old.tail {
            transaction.delete(by_tail, ByTail { tail, day, planned, carrier, number, origin })?;
        }
        transaction.upsert(by_tail, ByTail { tail, day, planned, carrier, number, origin })?;
        transaction.update(flights, key, [("tail", tail)])
    })
}

fn run(file: &Path, directory: &Path) -> Result<(), Box<dyn Error>> {
    let engine = Engine::open(directory, Options::default())?;
    let flights = engine.open_or_create_table("flights", Schema::of::<Flight>()?)?;
    let by_tail = engine.open_or_create_table("by_tail", Schema::of::<ByTail>()?)?;
    load(&engine, &flights, &by_tail, file)?;
    ask(&engine, &flights, &by_tail)?;

    let key = (Date::from_ymd(2013, 1, 1).expect("a day"), "UA", 1545, "EWR");
    swap_aircraft(&engine, (&flights, &by_tail), key, "N279JB")?;
    assert_eq!(by_tail.scan().prefix("N14228").count()?, 0);
    assert_eq!(by_tail.scan().prefix("N279JB").count()?, 12);

    let error = flights.insert(Flight { dest: "LAX", ..flights.get(key)?.expect("it is there").to()? });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::DuplicateKey);

    let backup = directory.join(format!("backup-{}", engine.last_committed()));
    engine.checkpoint(&backup)?;
    let copy = Engine::open_read_only(&backup, Options::default())?;
    assert_eq!(copy.existing_table("flights")?.count()?, 3601);
    assert!(copy.check()?.is_clean());

    engine.close()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next().unwrap_or("examples/flights/data/flights.csv.gz".into());
    let directory = arguments.next().unwrap_or("target/tutorial".into());
    run(file.as_ref(), directory.as_ref())
}

#[test]
fn what_it_asserts_holds() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/flights/data/flights.csv.gz");
    let directory = tempfile::tempdir().expect("a directory");
    // Twice: a second run finds what the first has left.
    for _ in 0..2 {
        run(file.as_ref(), directory.path()).expect("every question is answered");
    }
}
