//! A document: facts, and lists of things with the same facts each. What every command but those of rows prints.
//!
//! | form | a fact | a list |
//! |---|---|---|
//! | table | a line `name: value` | a table under its title |
//! | csv | a record `name,value`, if there is no list | the records of the list |
//! | csv of all | a record `,name,value` | for each cell a record `key,name,value`; the key is the first cell |
//! | json | a field | a field with an array of objects |
//!
//! A document has at most one list that csv shows; others are details. One of several documents of a kind says which it
//! is: in a first fact, or in csv in a first column, whose line of names stands above the first document alone.
//!
//! Names are those of JSON; for people the underscores become spaces, and sizes get units.

use std::io::{self, Write};

use super::csv::write_record;
use super::json::write_string;
use super::table::{Align, Table};
use super::{Format, Style};
use crate::value::escape_controls;

/// A document being put together.
#[derive(Debug, Default)]
pub(crate) struct Document {
    facts: Vec<(String, Item)>,
    list: Option<List>,
    details: Vec<List>,
    csv: CsvForm,
    /// Of several: whether it is the first, and which it is.
    which: Option<(Turn, String, Item)>,
    /// Lines for people alone.
    remarks: Vec<String>,
}

/// What csv shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CsvForm {
    #[default]
    ListOrFacts,
    All,
}

/// Things with the same facts each.
#[derive(Debug)]
pub(crate) struct List {
    name: String,
    columns: Vec<String>,
    rows: Vec<Vec<Item>>,
}

/// A fact.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Null,
    Bool(bool),
    Count(u64),
    /// The number of a file, or a place in it: written as it is elsewhere, in names and messages.
    Number(u64),
    Bytes(u64),
    Percent(f64),
    Text(String),
    /// A text for people, and a value of JSON for programs.
    Json {
        text: String,
        json: String,
    },
}

/// Of several documents of a kind: only the first has names of columns in csv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    First,
    Later,
}

impl From<bool> for Item {
    fn from(value: bool) -> Item {
        Item::Bool(value)
    }
}

impl From<u64> for Item {
    fn from(value: u64) -> Item {
        Item::Count(value)
    }
}

impl From<nyala::Version> for Item {
    fn from(version: nyala::Version) -> Item {
        Item::Count(version.into())
    }
}

impl From<usize> for Item {
    fn from(value: usize) -> Item {
        Item::Count(value as u64)
    }
}

impl From<&str> for Item {
    fn from(value: &str) -> Item {
        Item::Text(value.to_owned())
    }
}

impl From<String> for Item {
    fn from(value: String) -> Item {
        Item::Text(value)
    }
}

impl<T: Into<Item>> From<Option<T>> for Item {
    fn from(value: Option<T>) -> Item {
        value.map_or(Item::Null, Into::into)
    }
}

impl Item {
    pub(crate) fn for_people(&self) -> String {
        match self {
            Item::Null => "-".to_owned(),
            Item::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
            Item::Count(count) => grouped(*count),
            Item::Number(number) => number.to_string(),
            Item::Bytes(bytes) => sized(*bytes),
            Item::Percent(share) => format!("{share:.1} %"),
            Item::Text(text) | Item::Json { text, .. } => text.clone(),
        }
    }

    pub(super) fn for_programs(&self) -> String {
        match self {
            Item::Null => String::new(),
            Item::Bool(value) => value.to_string(),
            Item::Count(number) | Item::Number(number) | Item::Bytes(number) => number.to_string(),
            Item::Percent(share) => format!("{share:.1}"),
            Item::Text(text) | Item::Json { text, .. } => text.clone(),
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Item::Null => out.write_all(b"null"),
            Item::Text(text) => write_string(out, text),
            Item::Json { json, .. } => out.write_all(json.as_bytes()),
            other => out.write_all(other.for_programs().as_bytes()),
        }
    }

    fn align(&self) -> Align {
        match self {
            Item::Count(_) | Item::Number(_) | Item::Bytes(_) | Item::Percent(_) => Align::Right,
            Item::Null | Item::Bool(_) | Item::Text(_) | Item::Json { .. } => Align::Left,
        }
    }
}

/// `12,345,678`
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.5 MiB`
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn sized(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

impl List {
    pub(crate) fn new(name: &str, columns: &[&str]) -> List {
        List {
            name: name.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn push<const N: usize>(&mut self, row: [Item; N]) {
        assert_eq!(N, self.columns.len(), "a row has a cell for each column");
        self.rows.push(row.into());
    }

    fn write_table(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let align = |at: usize| {
            let known = self.rows.iter().find(|row| !matches!(row[at], Item::Null));
            known.map_or(Align::Left, |row| row[at].align())
        };
        let head = self.columns.iter().enumerate().map(|(at, name)| (spaced(name), align(at)));
        let mut table = Table::new(head.collect(), style);
        for row in &self.rows {
            table.row(out, &row.iter().map(Item::for_people).collect::<Vec<_>>())?;
        }
        table.finish(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"[")?;
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            write_object(out, self.columns.iter().zip(row))?;
        }
        out.write_all(b"]")
    }
}

pub(super) fn write_object<'a>(
    out: &mut dyn Write,
    fields: impl Iterator<Item = (&'a String, &'a Item)>,
) -> io::Result<()> {
    out.write_all(b"{")?;
    for (at, (name, item)) in fields.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        write_string(out, name)?;
        out.write_all(b":")?;
        item.write_json(out)?;
    }
    out.write_all(b"}")
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

impl Document {
    pub(crate) fn fact(&mut self, name: &str, item: impl Into<Item>) {
        self.facts.push((name.to_owned(), item.into()));
    }

    pub(crate) fn list(&mut self, list: List) {
        assert!(self.list.is_none(), "csv shows one list");
        self.list = Some(list);
    }

    /// Csv shows facts and list together, a record for each.
    pub(crate) fn all_in_csv(&mut self) {
        self.csv = CsvForm::All;
    }

    /// It is one of several, told apart by a fact.
    pub(crate) fn one_of_several(&mut self, turn: Turn, name: &str, item: impl Into<Item>) {
        self.which = Some((turn, name.to_owned(), item.into()));
    }

    /// A list that csv does not show.
    pub(crate) fn detail(&mut self, list: List) {
        self.details.push(list);
    }

    fn lists(&self) -> impl Iterator<Item = &List> {
        self.list.iter().chain(&self.details)
    }

    /// A sentence that people read below the rest, and programs do not see.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    pub(crate) fn write(&self, out: &mut dyn Write, format: Format, style: Style) -> io::Result<()> {
        match format {
            Format::Table => self.write_for_people(out, style),
            Format::Csv => self.write_csv(out),
            Format::Json => self.write_json(out),
        }
    }

    fn write_for_people(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let width = self.all_facts().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, item) in self.all_facts() {
            let padding = " ".repeat(width - name.len());
            let value = item.for_people();
            writeln!(out, "{}:{padding} {}", style.bold(&spaced(name)), escape_controls(&value))?;
        }
        for (at, list) in self.lists().enumerate() {
            if list.rows.is_empty() {
                continue;
            }
            if at > 0 || !self.facts.is_empty() {
                writeln!(out)?;
            }
            if !list.name.is_empty() {
                writeln!(out, "{}", style.bold(&spaced(&list.name)))?;
            }
            list.write_table(out, style)?;
        }
        for remark in &self.remarks {
            writeln!(out, "{remark}")?;
        }
        Ok(())
    }

    /// Facts, that which tells it apart from others first.
    fn all_facts(&self) -> impl Iterator<Item = (&str, &Item)> {
        let which = self.which.as_ref().map(|(_, name, item)| (name.as_str(), item));
        which.into_iter().chain(self.facts.iter().map(|(name, item)| (name.as_str(), item)))
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.list {
            Some(list) if self.csv == CsvForm::All => {
                let key = list.columns.first().map_or("key", String::as_str);
                self.csv_head(out, &[key, "name", "value"])?;
                for (name, item) in &self.facts {
                    self.csv_record(out, vec![String::new(), name.clone(), item.for_programs()])?;
                }
                for row in &list.rows {
                    let key = row.first().map(Item::for_programs).unwrap_or_default();
                    for (name, item) in list.columns.iter().zip(row).skip(1) {
                        self.csv_record(out, vec![key.clone(), name.clone(), item.for_programs()])?;
                    }
                }
                Ok(())
            }
            Some(list) => {
                let columns: Vec<&str> = list.columns.iter().map(String::as_str).collect();
                self.csv_head(out, &columns)?;
                let rows = &list.rows;
                rows.iter()
                    .try_for_each(|row| self.csv_record(out, row.iter().map(Item::for_programs).collect()))
            }
            None => {
                self.csv_head(out, &["name", "value"])?;
                let facts = &self.facts;
                facts.iter().try_for_each(|(name, item)| {
                    self.csv_record(out, vec![name.clone(), item.for_programs()])
                })
            }
        }
    }

    fn csv_head(&self, out: &mut dyn Write, names: &[&str]) -> io::Result<()> {
        match &self.which {
            Some((Turn::Later, ..)) => Ok(()),
            Some((Turn::First, which, _)) => write_record(out, [which.as_str()].iter().chain(names)),
            None => write_record(out, names),
        }
    }

    fn csv_record(&self, out: &mut dyn Write, mut cells: Vec<String>) -> io::Result<()> {
        if let Some((.., which)) = &self.which {
            cells.insert(0, which.for_programs());
        }
        write_record(out, &cells)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (at, (name, item)) in self.all_facts().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            write_string(out, name)?;
            out.write_all(b":")?;
            item.write_json(out)?;
        }
        for (at, list) in self.lists().enumerate() {
            if at > 0 || self.all_facts().next().is_some() {
                out.write_all(b",")?;
            }
            write_string(out, &list.name)?;
            out.write_all(b":")?;
            list.write_json(out)?;
        }
        out.write_all(b"}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{grouped, sized};

    #[test]
    fn numbers_are_shown_as_people_read_them() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1023, 1024, 1_048_575, 3 << 29].map(sized),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB"]
        );
    }
}
