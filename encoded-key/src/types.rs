//! The column types.
//!
//! Owns which types there are and which of them are well formed. Knows nothing of values or bytes.

use std::fmt;

/// The greatest precision of a decimal: what fits 128 bits.
pub const DECIMAL_PRECISION_MAX: u8 = 38;

/// The type of a column.
///
/// ```
/// use nyala_encoded_key::Type;
/// assert_eq!(Type::Decimal { precision: 9, scale: 2 }.to_string(), "decimal(9, 2)");
/// assert!(!Type::Decimal { precision: 0, scale: 0 }.is_valid());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `false` before `true`.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A float of 32 bits, in the total order of [`f32::total_cmp`].
    F32,
    /// A float of 64 bits, in the total order of [`f64::total_cmp`].
    F64,
    /// A decimal number with `scale` digits after the point and `precision` digits in all.
    Decimal {
        /// Digits in all, 1 to [`DECIMAL_PRECISION_MAX`].
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// A day: days since 1970-01-01 as a signed integer of 32 bits.
    Date,
    /// A point in time: microseconds since 1970-01-01T00:00:00Z as a signed integer of 64 bits.
    Timestamp,
    /// Text in UTF-8, in the order of its bytes (which is the order of its code points).
    String,
    /// Any bytes, in their order.
    Binary,
}

impl Type {
    /// Whether precision and scale make sense. Only decimals can be invalid.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        match self {
            Type::Decimal { precision, scale } => {
                precision >= 1 && precision <= DECIMAL_PRECISION_MAX && scale <= precision
            }
            _ => true,
        }
    }

    /// Whether values of this type have a length of their own: strings and binaries.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Type::String | Type::Binary)
    }

    /// How many bytes a value takes; `None` for strings and binaries.
    ///
    /// ```
    /// use nyala_encoded_key::Type;
    /// assert_eq!(Type::Decimal { precision: 18, scale: 4 }.fixed_width(), Some(8));
    /// assert_eq!(Type::String.fixed_width(), None);
    /// ```
    #[must_use]
    pub const fn fixed_width(self) -> Option<usize> {
        Some(match self {
            Type::Bool | Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 | Type::F32 | Type::Date => 4,
            Type::I64 | Type::U64 | Type::F64 | Type::Timestamp => 8,
            Type::Decimal { precision: 0..=9, .. } => 4,
            Type::Decimal { precision: 10..=18, .. } => 8,
            Type::Decimal { .. } => 16,
            Type::String | Type::Binary => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Bool => "bool",
            Type::I8 => "i8",
            Type::I16 => "i16",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Decimal { precision, scale } => return write!(f, "decimal({precision}, {scale})"),
            Type::Date => "date",
            Type::Timestamp => "timestamp",
            Type::String => "string",
            Type::Binary => "binary",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decimals_within_the_limits_are_valid() {
        for (precision, scale, valid) in
            [(0, 0, false), (1, 0, true), (1, 1, true), (1, 2, false), (38, 38, true), (39, 0, false)]
        {
            assert_eq!(Type::Decimal { precision, scale }.is_valid(), valid, "({precision}, {scale})");
        }
        assert!(Type::Binary.is_valid());
    }
}
