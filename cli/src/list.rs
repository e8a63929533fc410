//! Several texts in one argument, as csv has them: commas between, and double quotes around one that has a comma.

use std::str::FromStr;

/// The texts of one argument; none if it is empty.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut records = reader.records();
    let Some(record) = records.next() else { return Ok(Vec::new()) };
    let record = record.map_err(|error| error.to_string())?;
    match records.next() {
        None => Ok(record.iter().map(str::to_owned).collect()),
        Some(_) => Err("one line expected, several found".to_owned()),
    }
}

/// An argument of at least one thing.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> FromStr for List<T>
where
    T: FromStr<Err: std::fmt::Display>,
{
    type Err = String;

    fn from_str(text: &str) -> Result<List<T>, String> {
        let texts = split(text)?;
        if texts.is_empty() {
            return Err("give at least one".to_owned());
        }
        texts
            .iter()
            .map(|text| text.parse().map_err(|error: T::Err| error.to_string()))
            .collect::<Result<_, _>>()
            .map(List)
    }
}
