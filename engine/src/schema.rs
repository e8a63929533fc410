//! The columns of a table.
//!
//! Owns names, types, order and identity of columns, what a valid set of them is, how a schema comes of another, and
//! how two differ. Never touches a row's or a key's bytes; it only holds the layouts that do.
//!
//! A schema knows those before it: which columns came when, and which went. So the newest one tells the layout of any
//! row of its table.
//!
//! Invariant: a `Schema` is valid: 1 to 1,000 columns with unique names and ids, the first `key_columns()` of them,
//! at least one, not nullable.
//! Invariant: columns stand in the order of their ids, and an id stands for one column for ever.

mod builder;
mod cell;
mod change;
mod difference;
mod history;
mod persist;
#[cfg(test)]
mod tests;

/// The messages of `proto/schema.proto`, generated.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]
mod pb {
    include!("schema/pb.rs");
}

use crate::error::{Error, Result};
use crate::record::{Fingerprint, RowBuilder, Shape, TypedRecord};
use crate::row::RowLayout;
pub use builder::SchemaBuilder;
pub(crate) use cell::SchemaCell;
pub(crate) use change::Change;
use codec::{ColumnId, SchemaVersion};
use encoded_key::{ColumnType, KeyColumn, KeyError, KeyLayout, Type, Value};
pub(crate) use history::{RowLayouts, unknown_version};
use std::fmt;
use std::sync::Arc;

/// The most columns that a table can have.
pub const COLUMNS_MAX: usize = 1000;

/// The longest name of a column, in bytes.
pub const COLUMN_NAME_BYTES_MAX: usize = 255;

/// The most columns that a table can have in its whole life, those that were dropped included: it remembers each of
/// them.
pub const COLUMNS_EVER_MAX: usize = 4000;

/// The longest default of a column, in bytes.
pub const DEFAULT_BYTES_MAX: usize = 4096;

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Names the column for the table's whole life, whatever its name is.
    pub id: ColumnId,
    /// Unique in the table.
    pub name: Arc<str>,
    /// What values it holds.
    pub ty: Type,
    /// Whether it can be without a value.
    pub nullable: bool,
    /// Whether its values sort from the greatest to the least. Only key columns can.
    pub descending: bool,
    /// The schema version that brought it.
    added_in: SchemaVersion,
    /// Its default as bytes of a row; none if that is null or if there is none.
    default: Option<Arc<[u8]>>,
}

impl Column {
    /// What it holds where a row was written without it: in rows that are older than the column, and in those that a
    /// [`RowBuilder`] gives no value for it. `None` if it has no default; a column that can be null holds null then.
    ///
    /// ```
    /// use nyala::{Schema, Type, Value};
    /// let schema = Schema::builder().key("id", Type::U64).column_with_default("unit", Type::String, "none").build()?;
    /// assert_eq!(schema.columns()[1].default_value(), Some(Value::String("none")));
    /// # Ok::<(), nyala::Error>(())
    /// ```
    #[must_use]
    pub fn default_value(&self) -> Option<Value<'_>> {
        let bytes = self.default.as_deref()?;
        Some(crate::row::decode_value(self.ty, bytes).expect("checked when the schema was made"))
    }
}

impl fmt::Display for Column {
    /// The type as a person writes it: "u32, descending", "string, nullable".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty)?;
        if self.descending {
            f.write_str(", descending")?;
        }
        if self.nullable {
            f.write_str(", nullable")?;
        }
        Ok(())
    }
}

/// A column that a table had once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DroppedColumn {
    pub(crate) column: Column,
    /// The schema version that took it away.
    pub(crate) dropped_in: SchemaVersion,
}

/// The columns of a table; the first of them are its primary key.
///
/// ```
/// use nyala::{Schema, Type};
///
/// let schema = Schema::builder()
///     .key("host", Type::U32)
///     .key("time", Type::Timestamp.descending())
///     .column("value", Type::F64)
///     .column("note", Type::String.nullable())
///     .build()
///     .unwrap();
/// assert_eq!(schema.key_columns(), 2);
/// assert_eq!(schema.column_index("note"), Some(3));
/// assert_eq!(&*schema.columns()[0].name, "host");
/// ```
#[derive(Clone)]
pub struct Schema {
    version: SchemaVersion,
    next_column_id: ColumnId,
    columns: Vec<Column>,
    /// Those that it had once, in the order of their ids.
    dropped: Vec<DroppedColumn>,
    /// Column positions in the order of their names.
    by_name: Vec<u16>,
    key_layout: KeyLayout,
    row_layout: RowLayout,
    /// Of all columns, and of the key's.
    fingerprint: Fingerprint,
    key_fingerprint: Fingerprint,
}

impl Schema {
    /// Starts a schema without columns.
    #[must_use]
    pub fn builder() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    /// The schema of the tables whose rows are `T`: a column for each field.
    ///
    /// ```
    /// use nyala::{Record, Schema, Timestamp};
    ///
    /// #[derive(Record)]
    /// struct Metric<'a> {
    ///     #[nyala(key)]
    ///     host: u32,
    ///     #[nyala(key, desc)]
    ///     time: Timestamp,
    ///     value: f64,
    ///     note: Option<&'a str>,
    /// }
    /// assert_eq!(
    ///     format!("{:?}", Schema::of::<Metric>()?),
    ///     r#"Schema v1 (key "host": u32, key "time": timestamp, descending, "value": f64, "note": string, nullable)"#,
    /// );
    /// # Ok::<(), nyala::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`SchemaBuilder::build`], for what the compiler did not notice.
    pub fn of<T: TypedRecord>() -> Result<Schema> {
        Schema::of_shape(T::SHAPE)
    }

    pub(crate) fn of_shape(shape: &Shape) -> Result<Schema> {
        let columns = shape.columns().iter().enumerate();
        let builder = columns.fold(Schema::builder(), |builder, (at, column)| {
            let ty = ColumnType { ty: column.ty, nullable: column.nullable, descending: column.descending };
            if at < shape.key_columns() {
                builder.key(column.name, ty)
            } else {
                builder.column(column.name, ty)
            }
        });
        builder.build()
    }

    /// All columns, the key's first.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many of the columns, from the first on, are the primary key.
    #[must_use]
    pub fn key_columns(&self) -> usize {
        self.key_layout.columns().len()
    }

    /// The position of the column called `name`.
    #[must_use]
    pub fn column_index(&self, name: &str) -> Option<usize> {
        let found =
            self.by_name.binary_search_by(|&index| (*self.columns[usize::from(index)].name).cmp(name));
        found.ok().map(|at| usize::from(self.by_name[at]))
    }

    /// Which schema of its table this is; the first is 1.
    #[must_use]
    pub fn version(&self) -> SchemaVersion {
        self.version
    }

    /// How the key columns are encoded.
    #[must_use]
    pub(crate) fn key_layout(&self) -> &KeyLayout {
        &self.key_layout
    }

    /// How the other columns are laid out in a row.
    #[must_use]
    pub(crate) fn row_layout(&self) -> &RowLayout {
        &self.row_layout
    }

    /// Starts a row, to be filled column by column.
    #[must_use]
    pub fn row(&self) -> RowBuilder<'_> {
        RowBuilder::new(self, self.columns.len())
    }

    /// Starts a key, to be filled column by column.
    #[must_use]
    pub fn key(&self) -> RowBuilder<'_> {
        RowBuilder::new(self, self.key_columns())
    }

    /// Checks that `other` is the same for all that a program can see: the columns' order, names and types, and
    /// which of them are the key. Ids, versions and defaults don't count.
    ///
    /// # Errors
    /// [`ErrorKind::SchemaMismatch`](crate::ErrorKind::SchemaMismatch) that names the columns which differ, and both
    /// types of each.
    pub fn matches(&self, other: &Schema) -> Result<()> {
        difference::check(self, self.columns.len(), other)
    }

    /// Checks that the first `columns` columns are what `asked` has.
    pub(crate) fn first_columns_match(&self, columns: usize, asked: &Schema) -> Result<()> {
        difference::check(self, columns, asked)
    }

    /// Of all columns.
    #[inline]
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Of the key's columns.
    #[inline]
    pub(crate) fn key_fingerprint(&self) -> Fingerprint {
        self.key_fingerprint
    }

    /// The position of the column called `name`, or an error that names it.
    pub(crate) fn find_column(&self, name: &str) -> Result<usize> {
        self.column_index(name).ok_or_else(|| Error::invalid(format!("there is no column {name:?}")))
    }

    /// Tells the error of a key codec, met at the key column of this position, with the column's name.
    #[cold]
    pub(crate) fn key_error(&self, column: usize, error: KeyError) -> Error {
        let Some(name) = self.columns[..self.key_columns()].get(column).map(|column| &column.name) else {
            return Error::from(error);
        };
        Error::invalid(match error {
            KeyError::WrongType { expected, found, .. } => {
                format!("key column {name:?}: {expected} expected, {found} found")
            }
            KeyError::OutOfRange { expected, .. } => {
                format!("key column {name:?}: a number out of range for {expected}")
            }
            KeyError::Null { .. } => format!("key column {name:?}: null in a key"),
            KeyError::MissingColumn { .. } => format!("key column {name:?}: no value"),
            error => return Error::from(error).context(format_args!("key column {name:?}")),
        })
    }

    /// Makes a schema of checked parts, or tells what is wrong with them.
    fn from_parts(
        version: SchemaVersion,
        next_column_id: ColumnId,
        columns: Vec<Column>,
        dropped: Vec<DroppedColumn>,
        key_columns: usize,
    ) -> Result<Schema> {
        check_counts(columns.len(), key_columns)?;
        history::check_ids(&columns, &dropped, next_column_id)?;
        for (index, column) in columns.iter().enumerate() {
            check_column(column, index < key_columns)?;
            history::check_column(column, index < key_columns, version)?;
        }
        for dropped in &dropped {
            check_column(&dropped.column, false)?;
            history::check_dropped(dropped, version)?;
        }
        let mut by_name: Vec<u16> =
            (0..columns.len()).map(|i| u16::try_from(i).expect("at most 1,000 columns")).collect();
        by_name.sort_by(|&a, &b| columns[usize::from(a)].name.cmp(&columns[usize::from(b)].name));
        if let Some(pair) = by_name
            .windows(2)
            .find(|pair| columns[usize::from(pair[0])].name == columns[usize::from(pair[1])].name)
        {
            let name = &columns[usize::from(pair[0])].name;
            return Err(Error::invalid(format!("two columns are called {name:?}")));
        }
        let key = columns[..key_columns]
            .iter()
            .map(|column| KeyColumn { ty: column.ty, descending: column.descending })
            .collect();
        let key_layout = KeyLayout::new(key).map_err(|error| Error::from(error).context("key"))?;
        let row_layout = RowLayout::new(&columns[key_columns..]);
        let fingerprint = Fingerprint::of(&columns, key_columns);
        let key_fingerprint = Fingerprint::of(&columns[..key_columns], key_columns);
        Ok(Schema {
            version,
            next_column_id,
            columns,
            dropped,
            by_name,
            key_layout,
            row_layout,
            fingerprint,
            key_fingerprint,
        })
    }
}

fn check_counts(columns: usize, key_columns: usize) -> Result<()> {
    if key_columns == 0 {
        return Err(Error::invalid("a schema needs at least one key column"));
    }
    if columns > COLUMNS_MAX {
        return Err(Error::invalid(format!("{columns} columns, the most is {COLUMNS_MAX}")));
    }
    if key_columns > columns {
        return Err(Error::invalid(format!("{key_columns} key columns of {columns} columns")));
    }
    Ok(())
}

fn check_column(column: &Column, is_key: bool) -> Result<()> {
    let name = &column.name;
    if name.is_empty() {
        return Err(Error::invalid("a column needs a name"));
    }
    if name.len() > COLUMN_NAME_BYTES_MAX {
        let start: String = name.chars().take(20).collect();
        let text = format!(
            "column {start:?}...: a name of {} bytes, the most is {COLUMN_NAME_BYTES_MAX}",
            name.len()
        );
        return Err(Error::invalid(text));
    }
    if let Type::Decimal { precision, scale } = column.ty
        && !column.ty.is_valid()
    {
        let text = format!(
            "column {name:?}: a decimal({precision}, {scale}) needs 1 to 38 digits, of them 0 to all behind the point"
        );
        return Err(Error::invalid(text));
    }
    if is_key && column.nullable {
        return Err(Error::invalid(format!("column {name:?}: a key column cannot be nullable")));
    }
    if !is_key && column.descending {
        return Err(Error::invalid(format!("column {name:?}: only a key column can be descending")));
    }
    Ok(())
}

impl PartialEq for Schema {
    /// Equal in everything, ids and version too. See [`Schema::matches`] for what a program can see.
    fn eq(&self, other: &Schema) -> bool {
        self.version == other.version
            && self.next_column_id == other.next_column_id
            && self.key_columns() == other.key_columns()
            && self.columns == other.columns
            && self.dropped == other.dropped
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema v{} (", self.version)?;
        for (index, column) in self.columns.iter().enumerate() {
            let key = if index < self.key_columns() { "key " } else { "" };
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{key}{:?}: {column}", column.name)?;
        }
        f.write_str(")")
    }
}
