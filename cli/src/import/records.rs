//! Records of a file, one after the other, with the line on which each begins. Knows no table.
//!
//! A record that makes no sense is told as such, and the next one is read.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use anyhow::Result;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::FileForm;
use crate::failure::Failure;
use crate::output::write_delimited_record;

/// The longest record: room for a maximal row, all of it escaped.
const RECORD_BYTES_MAX: u64 = 512 << 20;

/// What some programs begin a file with; for csv its reader leaves it out.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a record holds under a name.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    /// Of csv.
    Text(String),
    /// Of JSON.
    Json(Box<RawValue>),
}

/// The fields of a record, each with the position of its name in [`Records::names`]; or why there are none.
pub(crate) type Fields = std::result::Result<Vec<(usize, Field)>, String>;

/// The records of a file.
pub(crate) struct Records<'r> {
    names: Vec<String>,
    kind: Kind<'r>,
    line: u64,
}

enum Kind<'r> {
    Csv {
        reader: csv::Reader<Marked<'r>>,
        record: csv::ByteRecord,
        delimiter: u8,
        since_record: Rc<Cell<u64>>,
    },
    Json {
        reader: BufReader<Box<dyn Read + 'r>>,
        by_name: HashMap<String, usize>,
        record: Vec<u8>,
    },
}

impl<'r> Records<'r> {
    /// Reads the names, if the form has them first.
    pub(crate) fn new(bytes: Box<dyn Read + 'r>, form: FileForm, delimiter: u8) -> Result<Records<'r>> {
        match form {
            FileForm::Csv => {
                let since_record = Rc::new(Cell::new(0));
                let marked = Marked { bytes, end: END, since_record: Rc::clone(&since_record) };
                let mut reader = csv::ReaderBuilder::new()
                    .flexible(true)
                    .delimiter(delimiter)
                    .buffer_capacity(256 << 10)
                    .from_reader(marked);
                let names = names(reader.byte_headers()?)?;
                check_names(&names)?;
                Ok(Records {
                    names,
                    kind: Kind::Csv { reader, record: csv::ByteRecord::new(), delimiter, since_record },
                    line: 1,
                })
            }
            FileForm::Jsonl => {
                let reader = BufReader::with_capacity(256 << 10, bytes);
                let kind = Kind::Json { reader, by_name: HashMap::new(), record: Vec::new() };
                Ok(Records { names: Vec::new(), kind, line: 0 })
            }
        }
    }

    /// The names that were met so far: of csv all, of JSON those of the records before.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The line on which the last record began, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The last record as it stood there; bytes that are no text are replaced.
    pub(crate) fn raw(&self) -> String {
        match &self.kind {
            Kind::Csv { record, delimiter, .. } => {
                let mut text = Vec::new();
                let fields = record.iter().map(|field| field.strip_suffix(END).unwrap_or(field));
                write_delimited_record(&mut text, *delimiter, fields).expect("writing to memory cannot fail");
                String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned()
            }
            Kind::Json { record, .. } => String::from_utf8_lossy(record).trim_end().to_owned(),
        }
    }

    /// The next record, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Fields>> {
        match &mut self.kind {
            Kind::Csv { reader, record, since_record, .. } => {
                since_record.set(0);
                if !reader.read_byte_record(record)? || *record == [END_TEXT][..] {
                    return Ok(None);
                }
                self.line = record.position().map_or(0, csv::Position::line);
                Ok(Some(csv_fields(record, self.names.len())))
            }
            Kind::Json { reader, by_name, record } => loop {
                record.clear();
                self.line += 1;
                if reader.by_ref().take(RECORD_BYTES_MAX).read_until(b'\n', record)? == 0 {
                    return Ok(None);
                }
                if record.len() as u64 == RECORD_BYTES_MAX {
                    let line = self.line;
                    return Err(Failure::usage(format!(
                        "line {line} is longer than {RECORD_BYTES_MAX} bytes"
                    ))
                    .into());
                }
                if self.line == 1 && record.starts_with(BYTE_ORDER_MARK) {
                    record.drain(..BYTE_ORDER_MARK.len());
                }
                if !record.iter().all(u8::is_ascii_whitespace) {
                    return Ok(Some(json_fields(record, &mut self.names, by_name)));
                }
            },
        }
    }
}

/// The bytes of a csv file, and the mark behind them. A quote that is not closed would take in all that follows, unseen;
/// so it takes in the mark.
struct Marked<'r> {
    bytes: Box<dyn Read + 'r>,
    end: &'static [u8],
    /// How many bytes were read since a record was asked for.
    since_record: Rc<Cell<u64>>,
}

/// No text: these bytes are never in UTF-8.
const END_TEXT: &[u8] = b"\xff\xfeend of the file\xfe\xff";
const OPEN_QUOTE: &str = "a quote is not closed";
const END: &[u8] = b"\n\xff\xfeend of the file\xfe\xff";

impl Read for Marked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.bytes.read(buffer)? {
            0 => self.end.read(buffer)?,
            read => read,
        };
        let since_record = self.since_record.get() + read as u64;
        if since_record > RECORD_BYTES_MAX {
            return Err(io::Error::other(format!(
                "a record is longer than {RECORD_BYTES_MAX} bytes: is a quote not closed?"
            )));
        }
        self.since_record.set(since_record);
        Ok(read)
    }
}

/// Whether a quote is not closed.
fn is_open(record: &csv::ByteRecord) -> bool {
    record.iter().next_back().is_some_and(|last| last.ends_with(END_TEXT))
}

fn names(head: &csv::ByteRecord) -> Result<Vec<String>, Failure> {
    if *head == [END_TEXT][..] {
        return Ok(Vec::new());
    }
    if is_open(head) {
        return Err(Failure::usage(format!("line 1: {OPEN_QUOTE}")));
    }
    let name = |(at, name): (usize, &[u8])| match std::str::from_utf8(name) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Failure::usage(format!("the name of column {} of the file is not UTF-8", at + 1))),
    };
    head.iter().enumerate().map(name).collect()
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(Failure::usage(format!("column {} of the file has no name", at + 1))
                .advise("the first line of a csv file has the names of its columns"));
        }
        if !seen.insert(name) {
            return Err(Failure::usage(format!("two columns of the file are called {name:?}")));
        }
    }
    Ok(())
}

fn csv_fields(record: &csv::ByteRecord, names: usize) -> Fields {
    if is_open(record) {
        return Err(OPEN_QUOTE.to_owned());
    }
    if record.len() != names {
        return Err(format!("{names} fields expected, {} found", record.len()));
    }
    record
        .iter()
        .enumerate()
        .map(|(at, bytes)| match std::str::from_utf8(bytes) {
            Ok(text) => Ok((at, Field::Text(text.to_owned()))),
            Err(error) => {
                Err(format!("field {} is not UTF-8 (from its byte {})", at + 1, error.valid_up_to() + 1))
            }
        })
        .collect()
}

fn json_fields(line: &[u8], names: &mut Vec<String>, by_name: &mut HashMap<String, usize>) -> Fields {
    let object: Object<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    // Of a record that makes no sense no name is learnt.
    let mut seen = HashSet::with_capacity(object.0.len());
    for (name, _) in &object.0 {
        if name.is_empty() {
            return Err("a field has no name".to_owned());
        }
        if !seen.insert(&**name) {
            return Err(format!("{name:?} is there twice"));
        }
    }
    let fields = object.0.into_iter().map(|(name, value)| {
        let at = by_name.get(&*name).copied().unwrap_or_else(|| {
            names.push(name.to_string());
            by_name.insert(name.into_owned(), names.len() - 1);
            names.len() - 1
        });
        (at, Field::Json(value.to_owned()))
    });
    Ok(fields.collect())
}

/// An object of JSON whose fields keep their order and their digits.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Object<'de>, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(name) = map.next_key::<Name<'de>>()? {
                    fields.push((name.0, map.next_value()?));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Borrowed unless it has escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Name<'de>, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
