//! Pieces of a file as they come: a table, records of csv, or an object of JSON each.
//!
//! Invariant: after the first failure, and after the last piece that was asked for, nothing more is printed.

use std::ops::ControlFlow;

use anyhow::Result;
use nyala::inspect::Gap;

use crate::failure::Exit;
use crate::output::{Document, Format, Item, ItemWriter, Output};

/// Prints pieces, and remembers what went wrong.
pub(super) struct Pieces<'o> {
    out: &'o mut Output,
    writer: Option<ItemWriter>,
    /// How many may still be printed.
    left: u64,
    is_damaged: bool,
    failed: Option<std::io::Error>,
}

impl<'o> Pieces<'o> {
    pub(super) fn new(out: &'o mut Output, limit: Option<u64>) -> Pieces<'o> {
        Pieces { out, writer: None, left: limit.unwrap_or(u64::MAX), is_damaged: false, failed: None }
    }

    /// What the file says of itself. Not in csv, which has one kind of record.
    pub(super) fn head(&mut self, head: &Document) -> Result<()> {
        if self.out.format != Format::Csv {
            self.out.document(head)?;
        }
        if self.out.format == Format::Table {
            writeln!(self.out.writer())?;
        }
        Ok(())
    }

    /// What each piece has.
    pub(super) fn columns(&mut self, names: &[&str]) {
        let (format, style) = (self.out.format, self.out.style);
        match ItemWriter::start(self.out.writer(), format, style, names) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.failed = Some(error),
        }
    }

    pub(super) fn piece(&mut self, items: &[Item]) -> ControlFlow<()> {
        let Some(writer) = self.writer.as_mut().filter(|_| self.left > 0 && self.failed.is_none()) else {
            return ControlFlow::Break(());
        };
        self.left -= 1;
        match writer.row(self.out.writer(), items) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// A gap. At the end of a log it is what every interrupted write leaves.
    pub(super) fn gap(&mut self, gap: &Gap) -> ControlFlow<()> {
        if gap.is_tail {
            eprintln!("byte {}: the end; {} bytes follow ({})", gap.offset, gap.bytes, gap.why);
            return ControlFlow::Continue(());
        }
        self.damage(gap.offset, Some(gap.bytes), &gap.why)
    }

    /// Something that cannot be read. Told on standard error, where no program takes it for a piece.
    pub(super) fn damage(&mut self, offset: u64, bytes: Option<u64>, why: &str) -> ControlFlow<()> {
        self.is_damaged = true;
        let bytes = bytes.map(|bytes| format!("{bytes} bytes ")).unwrap_or_default();
        eprintln!("byte {offset}: {bytes}cannot be read: {why}");
        ControlFlow::Continue(())
    }

    pub(super) fn finish(self) -> Result<Exit> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        if let Some(writer) = self.writer {
            writer.finish(self.out.writer())?;
        }
        Ok(if self.is_damaged { Exit::Found } else { Exit::Done })
    }
}
