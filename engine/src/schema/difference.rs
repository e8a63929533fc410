//! How two schemas differ, in words.

use super::{Column, Schema};
use crate::error::{Error, ErrorKind, Result};
use std::fmt::Write as _;

/// How many differences are told one by one.
const TOLD_MAX: usize = 8;

/// Checks that `asked` is what the first `columns` columns of `stored` are. Ids and versions don't count.
pub(super) fn check(stored: &Schema, columns: usize, asked: &Schema) -> Result<()> {
    let mut differences = Vec::new();
    let stored_keys = stored.key_columns().min(columns);
    let asked_keys = asked.key_columns();
    if stored_keys != asked_keys {
        differences.push(format!("the table has {stored_keys} key columns, {asked_keys} asked for"));
    }
    let ours = &stored.columns()[..columns];
    let found = |name: &str| ours.iter().any(|column| *column.name == *name);
    for column in ours {
        match asked.column_index(&column.name) {
            Some(index) => differences.extend(type_difference(column, &asked.columns()[index])),
            None => {
                let text = format!("column {:?} ({column}) is in the table, but not asked for", column.name);
                differences.push(text);
            }
        }
    }
    for column in asked.columns().iter().filter(|column| !found(&column.name)) {
        let why = if stored.had_column(&column.name) { "any more" } else { "" };
        let text = format!("column {:?} ({column}) is asked for, but not in the table {why}", column.name);
        differences.push(text.trim_end().to_owned());
    }
    if differences.is_empty() {
        differences.extend(order_difference(ours, asked));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let mut text = differences[..differences.len().min(TOLD_MAX)].join("; ");
    if differences.len() > TOLD_MAX {
        write!(text, "; and {} more", differences.len() - TOLD_MAX).expect("writing to a string cannot fail");
    }
    Err(Error::new(ErrorKind::SchemaMismatch, text))
}

fn type_difference(stored: &Column, asked: &Column) -> Option<String> {
    let same =
        stored.ty == asked.ty && stored.nullable == asked.nullable && stored.descending == asked.descending;
    if same { None } else { Some(format!("column {:?} is {stored}, {asked} asked for", stored.name)) }
}

/// Of the same columns: the first place where they stand otherwise.
fn order_difference(stored: &[Column], asked: &Schema) -> Option<String> {
    let mut pairs = stored.iter().zip(asked.columns()).enumerate();
    let (index, (ours, theirs)) = pairs.find(|(_, (ours, theirs))| ours.name != theirs.name)?;
    Some(format!(
        "the columns are the same, in another order: column {index} is {:?}, {:?} asked for",
        ours.name, theirs.name
    ))
}
