//! Records of a file, one after the other, with the line on which each begins. Knows no table.
//!
//! A record that makes no sense is told as such, and the next one is read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use anyhow::Result;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::FileForm;
use crate::failure::Failure;

/// The longest line of JSON: room for a maximal row, all of it escaped.
const LINE_BYTES_MAX: u64 = 512 << 20;

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
    Csv { reader: csv::Reader<Box<dyn Read + 'r>>, record: csv::ByteRecord },
    Json { reader: BufReader<Box<dyn Read + 'r>>, by_name: HashMap<String, usize>, record: Vec<u8> },
}

impl<'r> Records<'r> {
    /// Reads the names, if the form has them first.
    pub(crate) fn new(bytes: Box<dyn Read + 'r>, form: FileForm, delimiter: u8) -> Result<Records<'r>> {
        match form {
            FileForm::Csv => {
                let mut reader = csv::ReaderBuilder::new()
                    .flexible(true)
                    .delimiter(delimiter)
                    .buffer_capacity(256 << 10)
                    .from_reader(bytes);
                let names: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
                check_names(&names)?;
                Ok(Records { names, kind: Kind::Csv { reader, record: csv::ByteRecord::new() }, line: 1 })
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
            Kind::Csv { record, .. } => {
                let mut text = Vec::new();
                // Writing to memory cannot fail.
                let _ = crate::output::write_csv_record(&mut text, record.iter());
                String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned()
            }
            Kind::Json { record, .. } => String::from_utf8_lossy(record).trim_end().to_owned(),
        }
    }

    /// The next record, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Fields>> {
        match &mut self.kind {
            Kind::Csv { reader, record } => {
                if !reader.read_byte_record(record)? {
                    return Ok(None);
                }
                self.line = record.position().map_or(0, csv::Position::line);
                Ok(Some(csv_fields(record, self.names.len())))
            }
            Kind::Json { reader, by_name, record } => loop {
                record.clear();
                self.line += 1;
                if reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', record)? == 0 {
                    return Ok(None);
                }
                if record.len() as u64 == LINE_BYTES_MAX {
                    let line = self.line;
                    return Err(
                        Failure::usage(format!("line {line} is longer than {LINE_BYTES_MAX} bytes")).into()
                    );
                }
                if !record.iter().all(u8::is_ascii_whitespace) {
                    return Ok(Some(json_fields(record, &mut self.names, by_name)));
                }
            },
        }
    }
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    let mut seen = std::collections::HashSet::new();
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
    let mut fields: Vec<(usize, Field)> = Vec::with_capacity(object.0.len());
    for (name, value) in object.0 {
        let at = match by_name.get(&*name) {
            Some(at) => *at,
            None => {
                names.push(name.to_string());
                by_name.insert(name.to_string(), names.len() - 1);
                names.len() - 1
            }
        };
        if fields.iter().any(|(other, _)| *other == at) {
            return Err(format!("{name:?} is there twice"));
        }
        fields.push((at, Field::Json(value.to_owned())));
    }
    Ok(fields)
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
