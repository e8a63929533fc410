//! What a struct's columns are, known when the program is compiled.
//!
//! Owns the fingerprint: one number for names, types and order of columns, so that it costs one comparison a row to
//! know that a struct is what the table holds.
//!
//! Invariant: a shape's fingerprint is that of the schema which is made of it, so both come from one function. Ids,
//! versions and defaults are no part of it.

use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Column, Schema};
use crate::value::ValueType;
use encoded_key::{ColumnType, Type};

/// One column of a [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnShape {
    /// Its name.
    pub name: &'static str,
    /// What values it holds.
    pub ty: Type,
    /// Whether it can be without a value.
    pub nullable: bool,
    /// Whether its values sort from the greatest to the least. Only key columns can.
    pub descending: bool,
}

impl ColumnShape {
    /// A column for values of a type of Rust.
    #[must_use]
    pub const fn of<T: ValueType + ?Sized>(name: &'static str) -> ColumnShape {
        ColumnShape { name, ty: T::TYPE, nullable: T::NULLABLE, descending: false }
    }

    /// A column of decimals.
    #[must_use]
    pub(crate) const fn decimal(name: &'static str, ty: Type, nullable: bool) -> ColumnShape {
        ColumnShape { name, ty, nullable, descending: false }
    }

    /// The same, sorted from the greatest to the least.
    #[must_use]
    pub const fn descending(self) -> ColumnShape {
        ColumnShape { descending: true, ..self }
    }
}

/// The columns that a struct stands for, from [`TypedRecord::SHAPE`](crate::TypedRecord::SHAPE).
#[derive(Debug)]
pub struct Shape {
    columns: &'static [ColumnShape],
    key_columns: usize,
    fingerprint: Fingerprint,
}

impl Shape {
    /// The shape of these columns, of which the first `key_columns` are the key.
    ///
    /// # Panics
    /// If there is no key column, if one can be null, or if another is descending. As a constant, it does not compile
    /// then.
    #[must_use]
    pub const fn new(columns: &'static [ColumnShape], key_columns: usize) -> Shape {
        assert!(key_columns >= 1, "a table needs a primary key");
        assert!(key_columns <= columns.len(), "more key columns than columns");
        let mut fingerprint = Fingerprint::START;
        let mut at = 0;
        while at < columns.len() {
            let ColumnShape { name, ty, nullable, descending } = columns[at];
            let is_key = at < key_columns;
            assert!(!(is_key && nullable), "a key column cannot be null: its type must not be an Option");
            assert!(is_key || !descending, "only a key column can be descending");
            fingerprint = fingerprint.with(name, ColumnType { ty, nullable, descending }, is_key);
            at += 1;
        }
        Shape { columns, key_columns, fingerprint }
    }

    /// The shape of the key alone.
    #[must_use]
    pub const fn key(&self) -> Shape {
        Shape::new(self.columns.split_at(self.key_columns).0, self.key_columns)
    }

    /// All columns, the key's first.
    #[must_use]
    pub const fn columns(&self) -> &'static [ColumnShape] {
        self.columns
    }

    /// How many of the columns, from the first on, are the key.
    #[must_use]
    pub const fn key_columns(&self) -> usize {
        self.key_columns
    }

    /// Checks that a whole row of this shape is one of the schema.
    #[inline]
    pub(super) fn check_row(&self, schema: &Schema) -> Result<()> {
        if self.fingerprint == schema.fingerprint() {
            Ok(())
        } else {
            Err(self.mismatch(schema, schema.columns().len()))
        }
    }

    /// Checks that a record of this shape is a key of the schema.
    #[inline]
    pub(super) fn check_key(&self, schema: &Schema) -> Result<()> {
        if self.fingerprint == schema.key_fingerprint() {
            Ok(())
        } else if self.columns.len() > schema.key_columns() && self.fingerprint == schema.fingerprint() {
            Err(Error::invalid("a key expected, a whole row given: KeyOf(&row) is its key"))
        } else {
            Err(self.mismatch(schema, schema.key_columns()))
        }
    }

    /// Checks that a record of this shape is the first columns of a key of the schema.
    pub(crate) fn check_prefix(&self, schema: &Schema) -> Result<()> {
        let columns = self.columns.len().min(schema.key_columns());
        if self.fingerprint == Fingerprint::of(&schema.columns()[..columns], columns) {
            Ok(())
        } else {
            Err(self.mismatch(schema, columns))
        }
    }

    /// How the first `columns` columns of the schema differ from these.
    #[cold]
    fn mismatch(&self, schema: &Schema, columns: usize) -> Error {
        let text = match Schema::of_shape(self) {
            Ok(asked) => match schema.first_columns_match(columns, &asked) {
                Err(error) => return error,
                Ok(()) => "it is of another kind than the table's".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        Error::new(ErrorKind::SchemaMismatch, text)
    }
}

/// A number that stands for columns: names, types, order, and which are the key. 64-bit FNV-1a: equal by chance once in
/// 2^64, and computed by the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    const START: Fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);

    /// That of the first columns of a schema, of which the first `key_columns` are the key.
    pub(crate) fn of(columns: &[Column], key_columns: usize) -> Fingerprint {
        columns.iter().enumerate().fold(Fingerprint::START, |fingerprint, (at, column)| {
            let Column { ty, nullable, descending, .. } = *column;
            fingerprint.with(&column.name, ColumnType { ty, nullable, descending }, at < key_columns)
        })
    }

    const fn byte(self, byte: u8) -> Fingerprint {
        Fingerprint((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// This, and one column more.
    const fn with(mut self, name: &str, column: ColumnType, is_key: bool) -> Fingerprint {
        let name = name.as_bytes();
        let mut at = 0;
        while at < name.len() {
            self = self.byte(name[at]);
            at += 1;
        }
        let (kind, precision, scale) = match column.ty {
            Type::Bool => (0, 0, 0),
            Type::I8 => (1, 0, 0),
            Type::I16 => (2, 0, 0),
            Type::I32 => (3, 0, 0),
            Type::I64 => (4, 0, 0),
            Type::U8 => (5, 0, 0),
            Type::U16 => (6, 0, 0),
            Type::U32 => (7, 0, 0),
            Type::U64 => (8, 0, 0),
            Type::F32 => (9, 0, 0),
            Type::F64 => (10, 0, 0),
            Type::Decimal { precision, scale } => (11, precision, scale),
            Type::Date => (12, 0, 0),
            Type::Timestamp => (13, 0, 0),
            Type::String => (14, 0, 0),
            Type::Binary => (15, 0, 0),
        };
        let flags = is_key as u8 | (column.nullable as u8) << 1 | (column.descending as u8) << 2;
        // No byte of a name is 0xff: text is UTF-8.
        self.byte(0xff).byte(kind).byte(precision).byte(scale).byte(flags)
    }
}
