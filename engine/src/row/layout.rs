//! Where each value column lies in a row's bytes, and reading them.
//!
//! | bytes | what |
//! |---|---|
//! | nulls | one bit for each nullable column, in column order, lowest bit first; 1 is null. Padded with 0 bits to whole bytes; absent if no column is nullable |
//! | fixed | the columns of fixed width, in column order, little-endian: bool 1 byte (0 or 1); integers and floats their width; decimals 4, 8 or 16 bytes for a precision up to 9, 18 or 38; date 4; timestamp 8. A null is zeros |
//! | ends | for each string or binary column but the last, a u32: where its bytes end, counted from the start of `texts` |
//! | texts | the bytes of the string and binary columns, in column order. The last one ends with the row. A null has none |
//!
//! So a row of one binary column that is not nullable is that column's bytes and nothing else.
//!
//! The writer of these bytes is [`RowWriter`](super::RowWriter); numbers are in `fixed`.
//!
//! Invariant: reading is strict. Bytes that the writer cannot have written are corruption, never a panic; and no
//! two different byte strings are the same row.

use super::fixed;
use crate::error::{Error, Result};
use crate::schema::Column;
use encoded_key::{Type, Value};
use std::ops::Range;
use std::sync::Arc;

/// The longest row in bytes, its key not counted.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// Bytes of one entry of `ends`.
pub(super) const END_BYTES: usize = 4;

/// Where each value column of a schema lies in a row.
///
/// Columns are counted from the first that is not in the key.
#[derive(Clone, Debug)]
pub(crate) struct RowLayout {
    slots: Arc<[Slot]>,
    null_bits: usize,
    /// Where `ends` starts.
    ends_start: usize,
    /// Where `texts` starts: the length of all that comes before.
    texts_start: usize,
    texts: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) ty: Type,
    /// The bit that tells whether it is null, if it can be.
    pub(super) null_bit: Option<usize>,
    pub(super) place: Place,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// From `start` on in the row, `width` bytes.
    Fixed { start: usize, width: usize },
    /// The string or binary column of this ordinal.
    Text { ordinal: usize },
}

impl RowLayout {
    /// The layout of rows with these columns, none of them of the key.
    pub(crate) fn new<'c>(columns: impl IntoIterator<Item = &'c Column>) -> RowLayout {
        let columns: Vec<&Column> = columns.into_iter().collect();
        let null_bits = columns.iter().filter(|column| column.nullable).count();
        let mut next_null_bit = 0;
        let mut fixed_end = null_bits.div_ceil(8);
        let mut texts = 0;
        let mut slots = Vec::with_capacity(columns.len());
        for column in columns {
            let place = match column.ty.fixed_width() {
                Some(width) => {
                    fixed_end += width;
                    Place::Fixed { start: fixed_end - width, width }
                }
                None => {
                    texts += 1;
                    Place::Text { ordinal: texts - 1 }
                }
            };
            let null_bit = column.nullable.then_some(next_null_bit);
            next_null_bit += usize::from(column.nullable);
            slots.push(Slot { name: Arc::clone(&column.name), ty: column.ty, null_bit, place });
        }
        let texts_start = fixed_end + END_BYTES * usize::saturating_sub(texts, 1);
        RowLayout { slots: slots.into(), null_bits, ends_start: fixed_end, texts_start, texts }
    }

    /// How many columns a row has.
    #[must_use]
    pub(crate) fn columns(&self) -> usize {
        self.slots.len()
    }

    /// The value of a column.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if the bytes are not a row of this layout, as far as
    /// this column shows.
    ///
    /// # Panics
    /// If there is no such column.
    #[inline]
    pub(crate) fn get<'a>(&self, row: &'a [u8], column: usize) -> Result<Value<'a>> {
        let slot = &self.slots[column];
        self.check_length(row)?;
        if slot.is_null(row) {
            return Ok(Value::Null);
        }
        match slot.place {
            Place::Fixed { start, width } => fixed::decode(slot.ty, &row[start..start + width])
                .ok_or_else(|| slot.damaged("impossible number")),
            Place::Text { ordinal } => {
                let bytes =
                    &row[self.text_range(row, ordinal).ok_or_else(|| slot.damaged("impossible length"))?];
                match slot.ty {
                    Type::String => match std::str::from_utf8(bytes) {
                        Ok(text) => Ok(Value::String(text)),
                        Err(error) => Err(slot.damaged(&error.to_string())),
                    },
                    _ => Ok(Value::Binary(bytes)),
                }
            }
        }
    }

    /// Checks a whole row: every value, and that nothing is there that the writer doesn't write.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) that names the first column in which it shows.
    pub(crate) fn verify(&self, row: &[u8]) -> Result<()> {
        if row.len() > ROW_BYTES_MAX {
            return Err(Error::corruption(format!(
                "row: {} bytes, at most {ROW_BYTES_MAX} are written",
                row.len()
            )));
        }
        self.check_length(row)?;
        if !self.null_bits.is_multiple_of(8) && row[self.null_bits / 8] >> (self.null_bits % 8) != 0 {
            return Err(Error::corruption("row: padding of the null bits is not zero"));
        }
        for (column, slot) in self.slots.iter().enumerate() {
            self.get(row, column)?;
            let bytes = match slot.place {
                Place::Fixed { start, width } => start..start + width,
                Place::Text { ordinal } => {
                    self.text_range(row, ordinal).ok_or_else(|| slot.damaged("impossible length"))?
                }
            };
            if slot.is_null(row) && row[bytes].iter().any(|&byte| byte != 0) {
                return Err(slot.damaged("a null with a value"));
            }
            if slot.is_null(row)
                && let Place::Text { ordinal } = slot.place
                && self.text_range(row, ordinal).is_none_or(|range| !range.is_empty())
            {
                return Err(slot.damaged("a null with a length"));
            }
        }
        Ok(())
    }

    pub(super) fn slot(&self, column: usize) -> Option<&Slot> {
        self.slots.get(column)
    }

    /// How long the part before `texts` is, that every row has.
    pub(super) fn head_bytes(&self) -> usize {
        self.texts_start
    }

    /// Where the end of the text `ordinal` is written; the last one's is not.
    pub(super) fn end_position(&self, ordinal: usize) -> Option<usize> {
        (ordinal + 1 < self.texts).then(|| self.ends_start + END_BYTES * ordinal)
    }

    #[inline]
    fn check_length(&self, row: &[u8]) -> Result<()> {
        let fits = row.len() == self.texts_start || (row.len() > self.texts_start && self.texts > 0);
        if fits { Ok(()) } else { Err(self.wrong_length(row.len())) }
    }

    #[cold]
    fn wrong_length(&self, found: usize) -> Error {
        let expected = if self.texts > 0 { "at least " } else { "" };
        Error::corruption(format!("row: {expected}{} bytes expected, {found} found", self.texts_start))
    }

    /// The bytes of a text, if the ends beside it make sense. The row's length has been checked.
    #[inline]
    fn text_range(&self, row: &[u8], ordinal: usize) -> Option<Range<usize>> {
        let start = match ordinal.checked_sub(1) {
            Some(before) => self.text_end(row, before)?,
            None => 0,
        };
        let end = match ordinal + 1 < self.texts {
            true => self.text_end(row, ordinal)?,
            false => row.len() - self.texts_start,
        };
        let range = self.texts_start + start..self.texts_start.checked_add(end)?;
        (range.start <= range.end && range.end <= row.len()).then_some(range)
    }

    #[inline]
    fn text_end(&self, row: &[u8], ordinal: usize) -> Option<usize> {
        let at = self.ends_start + END_BYTES * ordinal;
        let bytes = row[at..at + END_BYTES].try_into().expect("END_BYTES bytes");
        let end = usize::try_from(u32::from_le_bytes(bytes)).ok()?;
        (end <= row.len() - self.texts_start).then_some(end)
    }
}

impl Slot {
    #[inline]
    fn is_null(&self, row: &[u8]) -> bool {
        self.null_bit.is_some_and(|bit| row[bit / 8] >> (bit % 8) & 1 == 1)
    }

    #[cold]
    fn damaged(&self, what: &str) -> Error {
        Error::corruption(format!("row: column {:?} ({}): {what}", self.name, self.ty))
    }
}
