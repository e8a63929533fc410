//! Why a key cannot be made or read. Errors name the column and the place, and never contain a value.

use thiserror::Error;

use crate::{KEY_BYTES_MAX, Misfit, Type};

/// Why a key cannot be made or read. Columns count from 0, and `at` counts bytes from the start of the key.
///
/// ```
/// use nyala_encoded_key::{KeyBuilder, KeyError, KeyLayout, Type, Value};
/// let layout = KeyLayout::new(vec![Type::U8.into()])?;
/// let error = KeyBuilder::new(&layout, &mut Vec::new()).push(Value::String("secret")).unwrap_err();
/// assert_eq!(error.to_string(), "key column 0: u8 expected, string found");
/// assert_eq!(error.column(), Some(0));
/// assert!(!error.is_damage());
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key without columns.
    #[error("a key needs at least one column")]
    NoColumns,
    /// A type whose parameters make no sense.
    #[error("key column {column}: {ty} is no valid type")]
    InvalidType {
        /// The column.
        column: usize,
        /// Its type.
        ty: Type,
    },
    /// A value of another kind than the column's.
    #[error("key column {column}: {expected} expected, {found} found")]
    WrongType {
        /// The column.
        column: usize,
        /// Its type.
        expected: Type,
        /// What was given.
        found: &'static str,
    },
    /// A number that the column's type cannot hold exactly.
    #[error("key column {column}: a number out of range for {expected}")]
    OutOfRange {
        /// The column.
        column: usize,
        /// Its type.
        expected: Type,
    },
    /// Null, which no key column takes.
    #[error("key column {column}: null in a key")]
    Null {
        /// The column.
        column: usize,
    },
    /// A text to start with was given for a column that is neither string nor binary.
    #[error("key column {column}: {ty} has no beginning to search for")]
    NotText {
        /// The column.
        column: usize,
        /// Its type.
        ty: Type,
    },
    /// The key would be longer than [`KEY_BYTES_MAX`].
    #[error("a key of at least {bytes} bytes; the limit is {KEY_BYTES_MAX}")]
    TooLong {
        /// How long it would be at least: the columns after the one that broke the limit are not counted.
        bytes: usize,
    },
    /// More values than the key has columns.
    #[error("more values than the {columns} columns of the key")]
    TooManyColumns {
        /// How many columns the key has.
        columns: usize,
    },
    /// Fewer values than the key has columns, or a column that the key does not have.
    #[error("key column {column} of {columns} is missing")]
    MissingColumn {
        /// The first column that is missing.
        column: usize,
        /// How many columns the key has.
        columns: usize,
    },
    /// Bytes that are no key: cut off, or with a content that the column's type does not have.
    #[error("key column {column}, byte {at}: {what}")]
    Malformed {
        /// The column.
        column: usize,
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Bytes that no builder writes.
    #[error("key column {column}, byte {at}: {what}, which is not canonical")]
    NonCanonical {
        /// The column.
        column: usize,
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Bytes after the last column.
    #[error("{left} bytes left over after the key's last column, at byte {at}")]
    Trailing {
        /// Where they start.
        at: usize,
        /// How many.
        left: usize,
    },
}

impl KeyError {
    /// The column that the error is about, if it is about one.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        match *self {
            KeyError::InvalidType { column, .. }
            | KeyError::WrongType { column, .. }
            | KeyError::OutOfRange { column, .. }
            | KeyError::Null { column }
            | KeyError::NotText { column, .. }
            | KeyError::MissingColumn { column, .. }
            | KeyError::Malformed { column, .. }
            | KeyError::NonCanonical { column, .. } => Some(column),
            KeyError::NoColumns
            | KeyError::TooLong { .. }
            | KeyError::TooManyColumns { .. }
            | KeyError::Trailing { .. } => None,
        }
    }

    /// Whether bytes that should be a key are none: damage, or the wrong layout. The other errors are the caller's.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, KeyError::Malformed { .. } | KeyError::NonCanonical { .. } | KeyError::Trailing { .. })
    }

    #[cold]
    pub(crate) fn misfit(column: usize, misfit: Misfit) -> KeyError {
        match misfit {
            Misfit::Null => KeyError::Null { column },
            Misfit::WrongType { expected, found } => KeyError::WrongType { column, expected, found },
            Misfit::OutOfRange { expected } => KeyError::OutOfRange { column, expected },
        }
    }
}
