//! What a column holds, said in one expression: `Type::String.nullable()`, `Type::I64.descending()`.
//!
//! Whether a column may be null or descending is checked where columns are put together, not here.

use crate::Type;

/// What a column holds: a type, and whether it can be null or sorts descending.
///
/// ```
/// use nyala_encoded_key::{ColumnType, Type};
/// assert!(Type::String.nullable().nullable);
/// assert!(Type::U32.descending().descending);
/// assert_eq!(ColumnType::from(Type::U32).ty, Type::U32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type of its values.
    pub ty: Type,
    /// Whether it can be without a value.
    pub nullable: bool,
    /// Whether its values sort from the greatest to the least.
    pub descending: bool,
}

impl ColumnType {
    /// The same, but it can be without a value. Not for key columns.
    #[must_use]
    pub fn nullable(self) -> ColumnType {
        ColumnType { nullable: true, ..self }
    }

    /// The same, but its values sort from the greatest to the least. Only for key columns.
    #[must_use]
    pub fn descending(self) -> ColumnType {
        ColumnType { descending: true, ..self }
    }
}

impl From<Type> for ColumnType {
    fn from(ty: Type) -> ColumnType {
        ColumnType { ty, nullable: false, descending: false }
    }
}

impl Type {
    /// A column of this type that can be without a value. Not for key columns.
    #[must_use]
    pub fn nullable(self) -> ColumnType {
        ColumnType::from(self).nullable()
    }

    /// A column of this type whose values sort from the greatest to the least. Only for key columns.
    #[must_use]
    pub fn descending(self) -> ColumnType {
        ColumnType::from(self).descending()
    }
}
