//! The columns of a key, and of a key with its row, as a filter asks for them.

use encoded_key::{KeyLayout, Value, decode_column};

use super::predicate::Columns;
use crate::error::{Error, Result};
use crate::schema::Schema;

/// The columns of an encoded key; value columns are not known yet.
pub(super) struct KeyColumns<'a> {
    pub(super) layout: &'a KeyLayout,
    pub(super) key: &'a [u8],
    pub(super) scratch: &'a mut Vec<u8>,
}

impl Columns for KeyColumns<'_> {
    fn value(&mut self, column: usize) -> Result<Option<Value<'_>>> {
        if column >= self.layout.columns().len() {
            return Ok(None);
        }
        key_value(self.layout, self.key, column, self.scratch).map(Some)
    }
}

/// All columns.
pub(super) struct RowColumns<'a> {
    pub(super) schema: &'a Schema,
    pub(super) key: &'a [u8],
    pub(super) row: &'a [u8],
    pub(super) scratch: &'a mut Vec<u8>,
}

impl Columns for RowColumns<'_> {
    fn value(&mut self, column: usize) -> Result<Option<Value<'_>>> {
        match column.checked_sub(self.schema.key_columns()) {
            Some(value_column) => self.schema.row_layout().get(self.row, value_column).map(Some),
            None => key_value(self.schema.key_layout(), self.key, column, self.scratch).map(Some),
        }
    }
}

fn key_value<'a>(
    layout: &'a KeyLayout,
    key: &'a [u8],
    column: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<Value<'a>> {
    decode_column(layout, key, column, scratch).map_err(damaged_key)
}

/// A key of the index that cannot be decoded is damage, not a bad argument.
#[cold]
pub(super) fn damaged_key(error: encoded_key::KeyError) -> Error {
    Error::corruption(format!("a stored key does not decode: {error}"))
}
