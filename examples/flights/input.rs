//! Rows of values from lines of text.
//!
//! Owns where the text comes from, what the columns of a file have to be called, and how a field becomes a value. Every
//! error names the file, and the line and the column where there is one.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

use csv::StringRecord;
use flate2::read::MultiGzDecoder;
use nyala::{Column, Date, Schema, Timestamp, Type, Value};

/// What a gzip file starts with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Where a table's rows come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// From a file, which may be compressed, whatever it is called.
    File(PathBuf),
    /// From the program itself.
    Sample(&'static [u8]),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Sample(_) => f.write_str("the sample"),
        }
    }
}

impl Source {
    fn open(&self) -> std::io::Result<Box<dyn Read>> {
        let mut bytes: Box<dyn Read> = match self {
            Source::File(path) => Box::new(BufReader::new(File::open(path)?)),
            Source::Sample(bytes) => Box::new(*bytes),
        };
        let mut start = Vec::new();
        bytes.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut start)?;
        let is_compressed = start == GZIP_MAGIC;
        let whole = std::io::Cursor::new(start).chain(bytes);
        Ok(if is_compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
    }
}

/// The lines of a source, as rows of a table.
pub(crate) struct Rows<'a> {
    source: &'a Source,
    schema: &'a Schema,
    reader: csv::Reader<Box<dyn Read>>,
    /// For each column of the table, its place in a line.
    places: Vec<usize>,
    record: StringRecord,
}

impl<'a> Rows<'a> {
    /// Opens the source and looks for the table's columns in it.
    ///
    /// # Errors
    /// It cannot be read, or lacks a column.
    pub(crate) fn open(source: &'a Source, schema: &'a Schema) -> Result<Rows<'a>, Box<dyn Error>> {
        let bytes = source.open().map_err(|error| format!("{source}: {error}"))?;
        let mut reader = csv::Reader::from_reader(bytes);
        let names = reader.headers().map_err(|error| format!("{source}: {error}"))?;
        let place = |column: &Column| {
            let place = names.iter().position(|name| name == &*column.name);
            place.ok_or_else(|| format!("{source}: there is no column {:?} in its first line", column.name))
        };
        let places = schema.columns().iter().map(place).collect::<Result<_, _>>()?;
        Ok(Rows { source, schema, reader, places, record: StringRecord::new() })
    }

    /// The next row's values, in the order of the table's columns. None at the end.
    ///
    /// # Errors
    /// The source cannot be read, or the line is not what it should be.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Value<'_>>>, Box<dyn Error>> {
        if !self.reader.read_record(&mut self.record).map_err(|error| format!("{}: {error}", self.source))? {
            return Ok(None);
        }
        let (source, line) = (self.source, self.line());
        let value = |(column, &place): (&Column, &usize)| {
            parse(column, &self.record[place]).map_err(|text| {
                format!("{source}, line {line}: column {:?} should be {column}, but is {text:?}", column.name)
            })
        };
        let values = self.schema.columns().iter().zip(&self.places).map(value);
        Ok(Some(values.collect::<Result<_, _>>()?))
    }

    /// The line that the last row began in, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }
}

/// A field as a value of the column, or the field if it is none.
fn parse<'t>(column: &Column, text: &'t str) -> Result<Value<'t>, &'t str> {
    if text == "NA" && column.nullable {
        return Ok(Value::Null);
    }
    let value = match column.ty {
        Type::String => (text != "NA").then_some(Value::String(text)),
        Type::F64 => text.parse().ok().map(Value::F64),
        Type::Timestamp => parse_timestamp(text).map(Value::Timestamp),
        _ => text.parse().ok().map(Value::Int),
    };
    let value = value.ok_or(text)?;
    value.fit(column.ty).map_err(|_| text)
}

/// Reads "2013-01-01T10:00:00Z".
fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_valid = parts.next().is_none()
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    let micros = ((hour * 60 + minute) * 60 + second) * 1_000_000;
    let midnight = Timestamp::from(parse_date(date)?);
    is_valid.then(|| Timestamp::from_micros(midnight.micros().saturating_add(micros)))
}

/// Reads "2013-01-01".
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Date::from_ymd(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

#[cfg(test)]
mod tests;
