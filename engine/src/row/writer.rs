//! Writing a row's bytes, in the layout that `layout` describes.
//!
//! Invariant: the bytes go straight to the tail of the buffer where they will live; if anything fails, or the writer
//! is dropped before it has finished, the buffer is as long as before.

use super::fixed;
use super::layout::{END_BYTES, Place, ROW_BYTES_MAX, RowLayout, Slot};
use crate::error::{Error, Result};
use encoded_key::{Misfit, Value};
use std::ops::Range;

/// Writes one row to the tail of a buffer, value by value in column order.
#[derive(Debug)]
pub(crate) struct RowWriter<'a> {
    layout: &'a RowLayout,
    out: &'a mut Vec<u8>,
    start: usize,
    next_column: usize,
    bytes_max: usize,
    finished: bool,
}

impl<'a> RowWriter<'a> {
    /// Starts a row at the end of `out`.
    #[inline]
    #[must_use]
    pub(crate) fn new(layout: &'a RowLayout, out: &'a mut Vec<u8>) -> RowWriter<'a> {
        RowWriter::with_limit(layout, out, ROW_BYTES_MAX)
    }

    /// Starts a row that is not written to disk and may be longer than one that is.
    #[inline]
    #[must_use]
    pub(super) fn with_limit(layout: &'a RowLayout, out: &'a mut Vec<u8>, bytes_max: usize) -> RowWriter<'a> {
        let start = out.len();
        out.resize(start + layout.head_bytes(), 0);
        RowWriter { layout, out, start, next_column: 0, bytes_max, finished: false }
    }

    /// Writes the value of the next column.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the column: a value that doesn't
    /// fit its type, a null that it can't hold, a row that gets too long. The row is lost then.
    #[inline]
    pub(crate) fn push(&mut self, value: Value<'_>) -> Result<()> {
        let Some(slot) = self.layout.slot(self.next_column) else {
            return Err(Error::invalid(format!("more values than the {} columns", self.layout.columns())));
        };
        self.next_column += 1;
        match (slot.place, value) {
            (_, Value::Null) => self.put_null(slot),
            (Place::Fixed { start, width }, value) => {
                let at = self.start + start;
                fixed::encode(slot.ty, value, &mut self.out[at..at + width])
                    .map_err(|misfit| told(slot, misfit))
            }
            (Place::Text { ordinal }, value) => {
                match value.fit(slot.ty).map_err(|misfit| told(slot, misfit))? {
                    Value::String(text) => self.put_text(slot, ordinal, text.as_bytes()),
                    Value::Binary(bytes) => self.put_text(slot, ordinal, bytes),
                    _ => unreachable!("strings and binaries only"),
                }
            }
        }
    }

    /// Ends the row and tells where in the buffer it lies.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the first column without a value.
    #[inline]
    pub(crate) fn finish(mut self) -> Result<Range<usize>> {
        if let Some(slot) = self.layout.slot(self.next_column) {
            return Err(Error::invalid(format!("no value for column {:?}", slot.name)));
        }
        self.finished = true;
        Ok(self.start..self.out.len())
    }

    fn put_null(&mut self, slot: &Slot) -> Result<()> {
        let Some(bit) = slot.null_bit else {
            return Err(Error::invalid(format!("column {:?} ({}) cannot be null", slot.name, slot.ty)));
        };
        self.out[self.start + bit / 8] |= 1 << (bit % 8);
        match slot.place {
            Place::Fixed { .. } => Ok(()),
            Place::Text { ordinal } => self.put_text(slot, ordinal, &[]),
        }
    }

    fn put_text(&mut self, slot: &Slot, ordinal: usize, bytes: &[u8]) -> Result<()> {
        let row_bytes = self.out.len() - self.start;
        if bytes.len() > self.bytes_max - row_bytes.min(self.bytes_max) {
            let text = format!(
                "column {:?}: {} bytes make a row of {}, the most is {}",
                slot.name,
                bytes.len(),
                row_bytes.saturating_add(bytes.len()),
                self.bytes_max
            );
            return Err(Error::invalid(text));
        }
        self.out.extend_from_slice(bytes);
        if let Some(at) = self.layout.end_position(ordinal) {
            let end = self.out.len() - self.start - self.layout.head_bytes();
            let end = u32::try_from(end).expect("a row is shorter than 4 GiB");
            self.out[self.start + at..self.start + at + END_BYTES].copy_from_slice(&end.to_le_bytes());
        }
        Ok(())
    }
}

impl Drop for RowWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

impl RowLayout {
    /// Writes to the tail of `out` the row `old` with some columns changed, for an update. Of several changes of one
    /// column the last counts.
    ///
    /// # Errors
    /// Those of [`RowLayout::get`] for the old row and of [`RowWriter::push`] for the changes; `out` is as before then.
    pub(crate) fn patch(
        &self,
        old: &[u8],
        changes: &[(usize, Value<'_>)],
        out: &mut Vec<u8>,
    ) -> Result<Range<usize>> {
        if let Some(&(column, _)) = changes.iter().find(|&&(column, _)| column >= self.columns()) {
            return Err(Error::invalid(format!("there is no value column {column}")));
        }
        let mut writer = RowWriter::new(self, out);
        for column in 0..self.columns() {
            let value = match changes.iter().rfind(|&&(changed, _)| changed == column) {
                Some(&(_, value)) => value,
                None => self.get(old, column)?,
            };
            writer.push(value)?;
        }
        writer.finish()
    }
}

#[cold]
fn told(slot: &Slot, misfit: Misfit) -> Error {
    Error::invalid(format!("column {:?}: {misfit}", slot.name))
}
