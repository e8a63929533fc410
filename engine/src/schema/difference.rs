//! How two schemas differ, in words.

use super::{Column, Schema};
use crate::error::{Error, ErrorKind, Result};
use std::fmt::Write as _;

/// How many differences are told one by one.
const TOLD_MAX: usize = 8;

/// Checks that `asked` is what is `stored`: columns, of which the first `stored_keys` are the key. Ids and versions don't
/// count.
pub(super) fn check(stored: &[Column], stored_keys: usize, asked: &Schema) -> Result<()> {
    let mut differences = Vec::new();
    let asked_keys = asked.key_columns();
    if stored_keys != asked_keys {
        differences.push(format!("the table has {stored_keys} key columns, {asked_keys} asked for"));
    }
    let (ours, theirs) = (stored, asked.columns());
    for (index, pair) in ours.iter().zip(theirs).enumerate() {
        differences.extend(column_difference(index, pair.0, pair.1));
    }
    for column in ours.iter().skip(theirs.len()) {
        differences.push(format!("column {:?} ({column}) is in the table, but not asked for", column.name));
    }
    for column in theirs.iter().skip(ours.len()) {
        differences.push(format!("column {:?} ({column}) is asked for, but not in the table", column.name));
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

fn column_difference(index: usize, stored: &Column, asked: &Column) -> Option<String> {
    if stored.name != asked.name {
        let (ours, theirs) = (&stored.name, &asked.name);
        return Some(format!("column {index} is {ours:?} ({stored}), {theirs:?} ({asked}) asked for"));
    }
    let same =
        stored.ty == asked.ty && stored.nullable == asked.nullable && stored.descending == asked.descending;
    if same { None } else { Some(format!("column {:?} is {stored}, {asked} asked for", stored.name)) }
}
