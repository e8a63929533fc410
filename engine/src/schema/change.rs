//! How a schema becomes the next one: columns that are added, renamed or dropped.
//!
//! Invariant: the next schema has the same key columns, and gives no id a second time.

use super::{Column, DroppedColumn, Schema};
use crate::error::{Error, Result};
use crate::row::{RowLayout, RowWriter};
use codec::{ColumnId, SchemaVersion};
use encoded_key::{ColumnType, Value};
use std::sync::Arc;

/// One change of a schema.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A new last column.
    Add {
        name: String,
        ty: ColumnType,
        /// As [`encode_default`] gives it.
        default: Option<Arc<[u8]>>,
    },
    Rename {
        from: String,
        to: String,
    },
    Drop {
        name: String,
    },
}

impl Schema {
    /// The schema that comes of this one by `changes`, one after the other, as one new version.
    ///
    /// # Errors
    /// `InvalidArgument` that names the column.
    pub(crate) fn changed(&self, changes: &[Change]) -> Result<Schema> {
        let version = self.version.0.checked_add(1).map(SchemaVersion);
        let version = version.ok_or_else(|| Error::invalid("the schema has been changed too often"))?;
        let (mut columns, mut dropped) = (self.columns.clone(), self.dropped.clone());
        let mut next = self.next_column_id;
        for change in changes {
            match change {
                Change::Add { name, ty: ColumnType { ty, nullable, descending }, default } => {
                    columns.push(Column {
                        id: next,
                        name: Arc::from(name.as_str()),
                        ty: *ty,
                        nullable: *nullable,
                        descending: *descending,
                        added_in: version,
                        default: default.clone(),
                    });
                    let following = next.0.checked_add(1).map(ColumnId);
                    next = following.ok_or_else(|| Error::invalid("no more columns can be added"))?;
                }
                Change::Rename { from, to } => {
                    let at = find(&columns, from)?;
                    columns[at].name = Arc::from(to.as_str());
                }
                Change::Drop { name } => {
                    let at = find(&columns, name)?;
                    if at < self.key_columns() {
                        return Err(Error::invalid(format!(
                            "column {name:?} is part of the key and cannot be dropped"
                        )));
                    }
                    let column = columns.remove(at);
                    // No row was ever written with a column that comes and goes in one change.
                    if column.added_in < version {
                        dropped.push(DroppedColumn { column, dropped_in: version });
                    }
                }
            }
        }
        dropped.sort_unstable_by_key(|dropped| dropped.column.id);
        Schema::from_parts(version, next, columns, dropped, self.key_columns())
    }
}

fn find(columns: &[Column], name: &str) -> Result<usize> {
    let at = columns.iter().position(|column| &*column.name == name);
    at.ok_or_else(|| Error::invalid(format!("there is no column {name:?}")))
}

/// A default as bytes of a row; `None` for null.
///
/// # Errors
/// `InvalidArgument` that names the column if the value does not fit it.
pub(super) fn encode_default(name: &str, ty: ColumnType, value: Value<'_>) -> Result<Option<Arc<[u8]>>> {
    if matches!(value, Value::Null) && ty.nullable {
        return Ok(None);
    }
    // As the only column of a row, it is the row.
    let column = Column {
        id: ColumnId(1),
        name: Arc::from(name),
        ty: ty.ty,
        nullable: false,
        descending: false,
        added_in: SchemaVersion(1),
        default: None,
    };
    if !ty.ty.is_valid() {
        // `Schema::from_parts` says what is wrong with the type.
        return Ok(None);
    }
    let (layout, mut bytes) = (RowLayout::new([&column]), Vec::new());
    let mut writer = RowWriter::new(&layout, &mut bytes);
    writer.push(value).map_err(|error| error.context("default"))?;
    writer.finish()?;
    Ok(Some(bytes.into()))
}

impl Change {
    /// An added column.
    ///
    /// # Errors
    /// Those of [`encode_default`].
    pub(crate) fn add(name: String, ty: ColumnType, default: Value<'_>) -> Result<Change> {
        let default = encode_default(&name, ty, default)?;
        Ok(Change::Add { name, ty, default })
    }
}
