//! Rows of one schema version as rows of another.
//!
//! Columns are the same if their ids are. A column that the row was written without has its default, or null.
//!
//! Invariant: nothing is allocated per row.

use super::fixed::decode_value;
use super::layout::{ROW_BYTES_MAX, RowLayout};
use super::writer::RowWriter;
use crate::error::Result;
use crate::schema::{COLUMNS_MAX, Column, DEFAULT_BYTES_MAX};
use encoded_key::Value;

/// Defaults can make a row longer than any that is written.
const BYTES_MAX: usize = ROW_BYTES_MAX + COLUMNS_MAX * (DEFAULT_BYTES_MAX + 16);

/// How rows of one layout become rows of another.
#[derive(Debug)]
pub(super) struct Translation {
    from: RowLayout,
    to: RowLayout,
    /// For each column of `to`.
    sources: Box<[Source]>,
}

/// Where the value of a column comes from.
#[derive(Debug)]
enum Source {
    /// The column of `from` at this position.
    Column(usize),
    /// The row has no such column.
    Absent(Column),
}

impl Translation {
    /// From rows with the value columns `from` to rows with the value columns `to`.
    pub(super) fn new(from: &[&Column], to: &[Column]) -> Translation {
        let source = |column: &Column| match from.iter().position(|other| other.id == column.id) {
            Some(position) => Source::Column(position),
            None => Source::Absent(column.clone()),
        };
        Translation {
            from: RowLayout::new(from.iter().copied()),
            to: RowLayout::new(to),
            sources: to.iter().map(source).collect(),
        }
    }

    /// Writes `row` in the other layout to the tail of `out`.
    ///
    /// # Errors
    /// `Corruption` if the row is damaged; `out` is as before then.
    pub(super) fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut writer = RowWriter::with_limit(&self.to, out, BYTES_MAX);
        for source in &self.sources {
            writer.push(match source {
                Source::Column(position) => self.from.get(row, *position)?,
                Source::Absent(column) => value_without(column),
            })?;
        }
        writer.finish().map(drop)
    }
}

/// What a column holds in a row that was written without it.
fn value_without(column: &Column) -> Value<'_> {
    match column.default_value() {
        Some(value) => value,
        None if column.nullable => Value::Null,
        // The column was dropped before the row was written. Whoever asks for it is told so; something has to stand
        // here.
        None => {
            const ZEROS: [u8; 16] = [0; 16];
            let width = column.ty.fixed_width().unwrap_or(0);
            decode_value(column.ty, &ZEROS[..width]).expect("zeros are a value of every type")
        }
    }
}
