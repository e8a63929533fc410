//! Columns under one another, as wide as their widest cell.
//!
//! A table of any length is written as it comes: widths are those of the first rows, and a wider cell that comes later
//! pushes its own line only.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::Style;
use crate::value::escape_controls;

/// So many rows decide how wide columns are.
const ROWS_MEASURED: usize = 500;

/// Where the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table that is being written.
pub(crate) struct Table {
    head: Vec<(String, Align)>,
    style: Style,
    /// Rows that wait until widths are decided.
    waiting: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl Table {
    pub(crate) fn new(head: Vec<(String, Align)>, style: Style) -> Table {
        Table { head, style, waiting: Vec::new(), widths: None }
    }

    pub(crate) fn row(&mut self, out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
        let cells: Vec<String> = cells.iter().map(|cell| escape_controls(cell).into_owned()).collect();
        match &self.widths {
            Some(widths) => line(out, &self.head, widths, &cells),
            None => {
                self.waiting.push(cells);
                if self.waiting.len() >= ROWS_MEASURED { self.start(out) } else { Ok(()) }
            }
        }
    }

    pub(crate) fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.widths.is_none() { self.start(out) } else { Ok(()) }
    }

    fn start(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let widest = |at: usize, name: &str| {
            waiting.iter().map(|row| row[at].width()).max().unwrap_or(0).max(escape_controls(name).width())
        };
        let widths: Vec<usize> =
            self.head.iter().enumerate().map(|(at, (name, _))| widest(at, name)).collect();
        let mut names = Vec::new();
        for (at, (name, align)) in self.head.iter().enumerate() {
            names.push(padded(&escape_controls(name), widths[at], *align, at + 1 == self.head.len()));
        }
        writeln!(out, "{}", self.style.bold(names.join("  ").trim_end()))?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        writeln!(out, "{}", rules.join("  "))?;
        for row in &waiting {
            line(out, &self.head, &widths, row)?;
        }
        self.widths = Some(widths);
        Ok(())
    }
}

fn line(out: &mut dyn Write, head: &[(String, Align)], widths: &[usize], cells: &[String]) -> io::Result<()> {
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.write_all(b"  ")?;
        }
        out.write_all(padded(cell, widths[at], head[at].1, at + 1 == cells.len()).as_bytes())?;
    }
    out.write_all(b"\n")
}

/// The cell with spaces up to the width; the last of a line has none behind it.
fn padded(cell: &str, width: usize, align: Align, is_last: bool) -> String {
    let missing = " ".repeat(width.saturating_sub(cell.width()));
    match align {
        Align::Right => format!("{missing}{cell}"),
        Align::Left if is_last => cell.to_owned(),
        Align::Left => format!("{cell}{missing}"),
    }
}
