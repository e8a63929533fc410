//! The questions: how many, from where, how far, who flew on a day, and in what weather.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use nyala::{Row, Table};
use serde_json::json;

use crate::input;
use crate::load::Inserted;

/// How many flights of the day are shown.
const SHOWN: usize = 8;

/// A day as the tables have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Day {
    year: u16,
    month: u8,
    day: u8,
}

/// Reads "2013-01-01".
///
/// # Errors
/// A sentence for people.
pub(crate) fn parse_day(text: &str) -> Result<Day, String> {
    let date = input::parse_date(text).ok_or("write a date as in 2013-01-01")?;
    let (year, month, day) = date.ymd();
    let year = u16::try_from(year).map_err(|_| "there were no flights in that year")?;
    let small = |number: u32| u8::try_from(number).expect("months and days are small");
    Ok(Day { year, month: small(month), day: small(day) })
}

/// All answers.
#[derive(Debug)]
pub(crate) struct Answers {
    flights: u64,
    by_origin: BTreeMap<String, u64>,
    distance_sum: u64,
    inserted: Inserted,
    weather_rows: u64,
    day: Day,
    carrier: String,
    of_the_day: u64,
    /// The first of them, each with the weather that the first row of its hour tells.
    shown: Vec<String>,
}

/// Asks.
///
/// # Errors
/// The engine failed, or two answers contradict each other.
pub(crate) fn ask(
    flights: &Table,
    weather: &Table,
    latest_weather: &Table,
    inserted: Inserted,
    (day, carrier): (Day, &str),
) -> Result<Answers, Box<dyn Error>> {
    // A key column alone: the index has it, no row is read.
    let mut by_origin = BTreeMap::new();
    let mut cursor = flights.scan().columns(["origin"]).cursor()?;
    while let Some(row) = cursor.next()? {
        let origin: &str = row.get(0)?;
        match by_origin.get_mut(origin) {
            Some(count) => *count += 1,
            None => {
                by_origin.insert(origin.to_owned(), 1);
            }
        }
    }
    let mut distance_sum = 0;
    let mut cursor = flights.scan().columns(["distance"]).cursor()?;
    while let Some(row) = cursor.next()? {
        distance_sum += row.get::<u64>(0)?;
    }

    let of_the_day = flights.scan().prefix((day.year, day.month, day.day, carrier));
    let shown = of_the_day.clone().limit(SHOWN).rows()?.map(|flight| {
        let flight = flight?;
        let key = (flight.get::<&str>("origin")?, day.year, day.month, day.day, flight.get::<u8>("hour")?);
        describe(&flight, weather.get(key)?.as_ref())
    });
    let answers = Answers {
        flights: flights.count()?,
        distance_sum,
        weather_rows: weather.count()?,
        day,
        carrier: carrier.to_owned(),
        shown: shown.collect::<nyala::Result<_>>()?,
        of_the_day: of_the_day.count()?,
        by_origin,
        inserted,
    };
    answers.check(latest_weather)?;
    Ok(answers)
}

impl Answers {
    /// Whether the answers agree with each other.
    fn check(&self, latest_weather: &Table) -> Result<(), Box<dyn Error>> {
        let with_origin: u64 = self.by_origin.values().sum();
        if with_origin != self.flights {
            return Err(format!("{} flights, but {with_origin} when counted by origin", self.flights).into());
        }
        let kept = self.inserted.rows - self.inserted.duplicates.len() as u64;
        let upserted = latest_weather.count()?;
        if self.weather_rows != kept || upserted != kept {
            let text = format!(
                "{kept} hours of weather were taken, but {} are there, and {upserted} by upsert",
                self.weather_rows
            );
            return Err(text.into());
        }
        Ok(())
    }

    /// The line for programs.
    pub(crate) fn json(&self) -> String {
        // Put together here, since a map of serde_json would sort the fields.
        let fields = [
            ("flights", json!(self.flights)),
            ("by_origin", json!(self.by_origin)),
            ("distance_sum", json!(self.distance_sum)),
            ("weather_rows_read", json!(self.inserted.rows)),
            ("weather_rows", json!(self.weather_rows)),
            ("weather_duplicates", json!(self.inserted.duplicates.len())),
        ];
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", fields.join(", "))
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "How many flights?            {}", self.flights)?;
        writeln!(f, "From where?                  {}", joined(&self.by_origin))?;
        writeln!(f, "How far, all together?       {} miles", self.distance_sum)?;
        writeln!(f, "How many hours of weather?   {}", self.weather_rows)?;
        let Day { year, month, day } = self.day;
        writeln!(
            f,
            "{} on {year}-{month:02}-{day:02}?            {} flights",
            self.carrier, self.of_the_day
        )?;
        for shown in &self.shown {
            writeln!(f, "  {shown}")?;
        }
        let more = self.of_the_day - self.shown.len() as u64;
        if more > 0 { writeln!(f, "  and {more} more") } else { Ok(()) }
    }
}

fn joined(counts: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}

/// `1545 EWR to IAH planned at 05:15, 2 min late; temperature 39.0 F, wind 12.7 mph, visibility 10.0 miles`
fn describe(flight: &Row, weather: Option<&Row>) -> nyala::Result<String> {
    let planned: u16 = flight.get("sched_dep_time")?;
    let delay = match flight.get::<Option<i16>>("dep_delay")? {
        None => "cancelled".to_owned(),
        Some(0) => "on time".to_owned(),
        Some(late @ 1..) => format!("{late} min late"),
        Some(early) => format!("{} min early", early.unsigned_abs()),
    };
    let mut text = format!(
        "{:>4} {} to {} planned at {:02}:{:02}, {delay}; ",
        flight.get::<u16>("flight")?,
        flight.get::<&str>("origin")?,
        flight.get::<&str>("dest")?,
        planned / 100,
        planned % 100,
    );
    let Some(weather) = weather else {
        return Ok(text + "weather unknown");
    };
    let mut parts = Vec::new();
    for (column, name, unit) in
        [("temp", "temperature", "F"), ("wind_speed", "wind", "mph"), ("visib", "visibility", "miles")]
    {
        parts.push(match weather.get::<Option<f64>>(column)? {
            Some(value) => format!("{name} {value:.1} {unit}"),
            None => format!("{name} unknown"),
        });
    }
    text += &parts.join(", ");
    Ok(text)
}
