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
            Some(widths) => writeln!(out, "{}", line(&self.head, widths, &cells)),
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
        let names: Vec<String> =
            self.head.iter().map(|(name, _)| escape_controls(name).into_owned()).collect();
        writeln!(out, "{}", self.style.bold(line(&self.head, &widths, &names).trim_end()))?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        writeln!(out, "{}", rules.join("  "))?;
        for row in &waiting {
            writeln!(out, "{}", line(&self.head, &widths, row))?;
        }
        self.widths = Some(widths);
        Ok(())
    }
}

/// Each cell with spaces up to its width; but none behind the last of the line.
fn line(head: &[(String, Align)], widths: &[usize], cells: &[String]) -> String {
    let mut line = String::new();
    for (at, (cell, (_, align))) in cells.iter().zip(head).enumerate() {
        let missing = " ".repeat(widths[at].saturating_sub(cell.width()));
        let (before, after) = match align {
            Align::Right => (missing.as_str(), ""),
            Align::Left if at + 1 == cells.len() => ("", ""),
            Align::Left => ("", missing.as_str()),
        };
        let gap = if at > 0 { "  " } else { "" };
        line.extend([gap, before, cell, after]);
    }
    line
}
