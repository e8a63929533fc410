//! Which columns a key has, in which order and direction.
//!
//! Invariant: at least one column, and every type valid.

use crate::{KeyError, Type};

/// One column of a key.
///
/// ```
/// use nyala_encoded_key::{KeyColumn, Type};
/// assert_eq!(KeyColumn::from(Type::I64), KeyColumn { ty: Type::I64, descending: false });
/// assert!(KeyColumn::descending(Type::Timestamp).descending);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyColumn {
    /// The type of its values.
    pub ty: Type,
    /// Whether greater values come first.
    pub descending: bool,
}

impl KeyColumn {
    /// A column whose smaller values come first.
    #[must_use]
    pub const fn ascending(ty: Type) -> KeyColumn {
        KeyColumn { ty, descending: false }
    }

    /// A column whose greater values come first.
    #[must_use]
    pub const fn descending(ty: Type) -> KeyColumn {
        KeyColumn { ty, descending: true }
    }
}

impl From<Type> for KeyColumn {
    fn from(ty: Type) -> KeyColumn {
        KeyColumn::ascending(ty)
    }
}

/// The columns of a key, in order.
///
/// ```
/// use nyala_encoded_key::{KeyColumn, KeyError, KeyLayout, Type};
/// let layout = KeyLayout::new(vec![KeyColumn::ascending(Type::String), KeyColumn::descending(Type::I64)])?;
/// assert_eq!(layout.columns().len(), 2);
/// assert_eq!(KeyLayout::new(vec![]), Err(KeyError::NoColumns));
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyLayout {
    columns: Box<[KeyColumn]>,
    /// How many columns from the first on have a fixed width, and so a fixed place.
    fixed_columns: usize,
    /// What any key takes at least: the fixed widths and the ends of escaped texts.
    bytes_min: usize,
}

impl KeyLayout {
    /// A layout of `columns`.
    ///
    /// # Errors
    /// [`KeyError::NoColumns`], or [`KeyError::InvalidType`] for a decimal whose precision or scale make no sense.
    pub fn new(columns: Vec<KeyColumn>) -> Result<KeyLayout, KeyError> {
        if columns.is_empty() {
            return Err(KeyError::NoColumns);
        }
        if let Some(column) = columns.iter().position(|column| !column.ty.is_valid()) {
            return Err(KeyError::InvalidType { column, ty: columns[column].ty });
        }
        let fixed_columns = columns.iter().take_while(|column| !column.ty.is_text()).count();
        let mut layout = KeyLayout { columns: columns.into(), fixed_columns, bytes_min: 0 };
        layout.bytes_min = (0..layout.columns.len()).map(|index| layout.column_bytes_min(index)).sum();
        Ok(layout)
    }

    /// The columns, in order.
    #[must_use]
    #[inline]
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// What any key of this layout takes at least, in bytes.
    #[must_use]
    #[inline]
    pub fn bytes_min(&self) -> usize {
        self.bytes_min
    }

    /// Whether a text in this column is escaped and ended; otherwise its bytes are the rest of the key.
    #[inline]
    pub(crate) fn is_escaped(&self, column: usize) -> bool {
        self.columns[column].descending || column + 1 < self.columns.len()
    }

    /// How many columns from the first on have a fixed width.
    #[inline]
    pub(crate) fn fixed_columns(&self) -> usize {
        self.fixed_columns
    }

    fn column_bytes_min(&self, index: usize) -> usize {
        match self.columns[index].ty.fixed_width() {
            Some(width) => width,
            None if self.is_escaped(index) => crate::text::END_BYTES,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_knows_its_least_size() {
        let layout = |columns: &[KeyColumn]| KeyLayout::new(columns.to_vec()).unwrap();
        assert_eq!(layout(&[Type::Binary.into()]).bytes_min(), 0);
        assert_eq!(layout(&[KeyColumn::descending(Type::Binary)]).bytes_min(), 2);
        let composite =
            layout(&[Type::I16.into(), Type::String.into(), Type::F64.into(), Type::String.into()]);
        assert_eq!((composite.bytes_min(), composite.fixed_columns()), (12, 1));
    }

    #[test]
    fn an_invalid_type_is_named() {
        let bad = Type::Decimal { precision: 5, scale: 6 };
        assert_eq!(
            KeyLayout::new(vec![Type::I8.into(), bad.into()]),
            Err(KeyError::InvalidType { column: 1, ty: bad })
        );
    }
}
