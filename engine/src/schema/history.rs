//! What a schema knows of those before it.
//!
//! A row is laid out as the schema was that it was written with: the value columns that the table had then, in the
//! order of their ids. A column is of a version if it was added in it or before, and dropped later or never; a rename
//! is no matter of a row's. So a schema needs no copies of the earlier ones.
//!
//! Invariant: a column that came after the first version has a value for the rows before it: its default, or null.

use super::{COLUMNS_EVER_MAX, Column, DEFAULT_BYTES_MAX, DroppedColumn, Schema};
use crate::error::{Error, Result};
use crate::row::{self, RowLayout};
use codec::{ColumnId, SchemaVersion};

impl Schema {
    /// The value columns of rows that were written with that version of the schema, in their order; `None` for a
    /// version that the table has not had.
    pub(crate) fn value_columns_at(&self, version: SchemaVersion) -> Option<Vec<&Column>> {
        if version.0 == 0 || version > self.version {
            return None;
        }
        let live = self.columns[self.key_columns()..].iter().filter(|column| column.added_in <= version);
        let dropped = self.dropped_from(version).map(|dropped| &dropped.column);
        let mut columns: Vec<&Column> = live.chain(dropped).collect();
        columns.sort_unstable_by_key(|column| column.id);
        Some(columns)
    }

    /// Whether rows of that version are laid out as those of this one.
    pub(crate) fn has_layout_of(&self, version: SchemaVersion) -> bool {
        version.0 > 0
            && version <= self.version
            && self.columns.iter().all(|column| column.added_in <= version)
            && self.last_drop() <= version
    }

    /// The version that dropped a column last; 0 if none did.
    pub(crate) fn last_drop(&self) -> SchemaVersion {
        self.dropped.iter().map(|dropped| dropped.dropped_in).max().unwrap_or(SchemaVersion(0))
    }

    /// The columns of that version that are no more.
    pub(crate) fn dropped_from(&self, version: SchemaVersion) -> impl Iterator<Item = &DroppedColumn> {
        self.dropped
            .iter()
            .filter(move |dropped| dropped.column.added_in <= version && version < dropped.dropped_in)
    }

    /// Whether there was a column of this name that is no more.
    pub(super) fn had_column(&self, name: &str) -> bool {
        self.dropped.iter().any(|dropped| &*dropped.column.name == name)
    }

    /// Whether this is what `earlier` became, or the same: then every row of `earlier` has the layout that this schema
    /// says it has.
    pub(crate) fn comes_of(&self, earlier: &Schema) -> bool {
        let identity = |column: &Column| (column.id, column.ty, column.nullable, column.descending);
        let keys = |schema: &Schema| -> Vec<_> {
            schema.columns[..schema.key_columns()].iter().map(identity).collect()
        };
        let values = |schema: &Schema| {
            let columns = schema.value_columns_at(earlier.version)?;
            Some(columns.into_iter().map(|column| (identity(column), column.added_in)).collect::<Vec<_>>())
        };
        self.version >= earlier.version && keys(self) == keys(earlier) && values(self) == values(earlier)
    }
}

/// The layouts of a table's rows, whatever version they were written with. Each is made when it is first asked for.
pub(crate) struct RowLayouts<'s> {
    schema: &'s Schema,
    earlier: Vec<(SchemaVersion, RowLayout)>,
}

impl<'s> RowLayouts<'s> {
    /// Those of the versions up to `schema`'s.
    pub(crate) fn new(schema: &'s Schema) -> RowLayouts<'s> {
        RowLayouts { schema, earlier: Vec::new() }
    }

    /// Checks a row that was written with that version.
    ///
    /// # Errors
    /// `Corruption` for a version that the table has not had, or what [`RowLayout::verify`] finds.
    pub(crate) fn verify(&mut self, version: SchemaVersion, row: &[u8]) -> Result<()> {
        if version == self.schema.version {
            return self.schema.row_layout.verify(row);
        }
        let known = self.earlier.iter().position(|(known, _)| *known == version);
        let at = match known {
            Some(at) => at,
            None => {
                let columns = self.schema.value_columns_at(version);
                let columns = columns.ok_or_else(|| unknown_version(version, self.schema.version))?;
                self.earlier.push((version, RowLayout::new(columns)));
                self.earlier.len() - 1
            }
        };
        self.earlier[at].1.verify(row)
    }
}

/// A row of a schema version that its table has not had.
#[cold]
pub(crate) fn unknown_version(found: SchemaVersion, newest: SchemaVersion) -> Error {
    Error::corruption(format!("a row of schema version {found}; the table's versions are 1 to {newest}"))
}

/// Ids are unique, ascend in both lists, and lie below the next one.
pub(super) fn check_ids(columns: &[Column], dropped: &[DroppedColumn], next: ColumnId) -> Result<()> {
    let mut ids: Vec<ColumnId> = columns.iter().map(|column| column.id).collect();
    ids.extend(dropped.iter().map(|dropped| dropped.column.id));
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::invalid(format!("two columns have the id {}", pair[0])));
    }
    let (first, last) = (ids[0], ids[ids.len() - 1]);
    if first.0 == 0 || last >= next {
        let text = format!("column ids must lie from 1 to below {next}, they span {first} to {last}");
        return Err(Error::invalid(text));
    }
    let ascend =
        columns.is_sorted_by_key(|column| column.id) && dropped.is_sorted_by_key(|dropped| dropped.column.id);
    if !ascend {
        return Err(Error::invalid("columns do not stand in the order of their ids"));
    }
    if ids.len() > COLUMNS_EVER_MAX {
        let text = format!(
            "{} columns with those that were dropped; a table can have {COLUMNS_EVER_MAX} in its whole life",
            ids.len()
        );
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// When a column came, and what it holds in rows without it.
pub(super) fn check_column(column: &Column, is_key: bool, version: SchemaVersion) -> Result<()> {
    let name = &column.name;
    let (added_in, is_late) = (column.added_in, column.added_in > SchemaVersion(1));
    if added_in.0 == 0 || added_in > version {
        return Err(Error::invalid(format!(
            "column {name:?} came with version {added_in} of a schema that has {version}"
        )));
    }
    if is_key && (is_late || column.default.is_some()) {
        return Err(Error::invalid(format!(
            "column {name:?}: a key column cannot be added or have a default"
        )));
    }
    if is_late && !column.nullable && column.default.is_none() {
        return Err(Error::invalid(format!(
            "column {name:?} ({column}) needs a default for the rows that are there, or must be nullable"
        )));
    }
    if let Some(bytes) = &column.default {
        if bytes.len() > DEFAULT_BYTES_MAX {
            let len = bytes.len();
            let text = format!("column {name:?}: a default of {len} bytes, the most is {DEFAULT_BYTES_MAX}");
            return Err(Error::invalid(text));
        }
        if row::decode_value(column.ty, bytes).is_none() {
            return Err(Error::invalid(format!("column {name:?}: its default is no {}", column.ty)));
        }
    }
    Ok(())
}

/// A column went after it came.
pub(super) fn check_dropped(dropped: &DroppedColumn, version: SchemaVersion) -> Result<()> {
    check_column(&dropped.column, false, version)?;
    let DroppedColumn { column, dropped_in } = dropped;
    if *dropped_in <= column.added_in || *dropped_in > version {
        return Err(Error::invalid(format!(
            "column {:?} came with version {} and went with {dropped_in} of a schema that has {version}",
            column.name, column.added_in
        )));
    }
    Ok(())
}
