//! What the code of the derive macros calls, and nobody else.

use super::ColumnShape;
use crate::error::{Error, Result};
use crate::row::RowRef;
use crate::value::FromValue;
use encoded_key::{Decimal, Type};

/// A field of a struct, expected at `position` of the row.
#[inline]
pub fn field<'r, T: FromValue<'r>>(row: &RowRef<'r>, position: usize, name: &str) -> Result<T> {
    match row.column_called(name, position) {
        Some(column) => row.value_as(column),
        None => Err(lacks(name)),
    }
}

/// A field of a struct, or what it is if the row lacks the column.
#[inline]
pub fn field_or<'r, T: FromValue<'r>>(
    row: &RowRef<'r>,
    position: usize,
    name: &str,
    default: impl FnOnce() -> T,
) -> Result<T> {
    match row.column_called(name, position) {
        Some(column) => row.value_as(column),
        None => Ok(default()),
    }
}

#[cold]
fn lacks(name: &str) -> Error {
    Error::invalid(format!("the row has no column {name:?}"))
}

/// A column of decimals.
#[must_use]
pub const fn decimal<T: DecimalField>(name: &'static str, precision: u8, scale: u8) -> ColumnShape {
    ColumnShape::decimal(name, Type::Decimal { precision, scale }, T::NULLABLE)
}

/// What `#[nyala(decimal(precision, scale))]` can be said of.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no decimal",
    label = "`decimal(precision, scale)` is for fields of type `Decimal` or `Option<Decimal>`"
)]
pub trait DecimalField {
    /// Whether it can be null.
    const NULLABLE: bool;
}

impl DecimalField for Decimal {
    const NULLABLE: bool = false;
}

impl DecimalField for Option<Decimal> {
    const NULLABLE: bool = true;
}
