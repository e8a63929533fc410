//! Which rows and columns of a table: bounds of keys, a filter, columns. Shared by `scan` and `export`.

use std::ops::Bound;

use anyhow::Result;
use nyala::{Scan, Schema, Table, Type};

use crate::failure::Failure;
use crate::filter;
use crate::list::{self, List};
use crate::value::{Owned, borrow, parse};

/// Which rows, and which columns of them. Keys are given as values with commas between them, in the order of the key's
/// columns, and may stop after any of them; a value or a name with a comma goes in double quotes.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Only rows whose key begins with these values
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<String>,

    /// Only rows whose next key column, after those of --prefix, begins with this text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    starts_with: Option<String>,

    /// From this key on
    #[arg(long, value_name = "KEY", conflicts_with = "after", allow_hyphen_values = true)]
    from: Option<String>,

    /// After this key, and after all that begin with it
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    after: Option<String>,

    /// Up to this key, with all that begin with it
    #[arg(long, value_name = "KEY", conflicts_with = "before", allow_hyphen_values = true)]
    to: Option<String>,

    /// Before this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    before: Option<String>,

    /// Only rows for which this holds, such as "dep_delay > 60 and carrier = 'UA'"
    #[arg(long = "where", value_name = "CONDITION")]
    filter: Option<String>,

    /// Only these columns, in this order
    #[arg(long, value_name = "NAME,..")]
    columns: Vec<List<String>>,

    /// At most so many rows
    #[arg(long, value_name = "ROWS", allow_negative_numbers = true)]
    limit: Option<usize>,

    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
}

impl Selection {
    /// The scan of the table, and the columns that it gives.
    pub(crate) fn scan(&self, table: &Table) -> Result<(Scan, Vec<(String, Type)>)> {
        let schema = table.schema();
        let mut scan = table.scan();
        let prefix = self.prefix.as_deref().map(|text| key(schema, "--prefix", text)).transpose()?;
        let prefix = prefix.unwrap_or_default();
        scan = match &self.starts_with {
            Some(text) => {
                let column = schema.columns()[..schema.key_columns()].get(prefix.len());
                let column = column.ok_or_else(|| {
                    Failure::usage("--starts-with: --prefix has all columns of the key already")
                })?;
                let start =
                    parse(text, column.ty).map_err(|why| Failure::usage(format!("--starts-with: {why}")))?;
                scan.starts_with(borrow(&prefix), start)
            }
            None => scan.prefix(borrow(&prefix)),
        };
        let lower = bound(schema, ("--from", &self.from), ("--after", &self.after))?;
        let upper = bound(schema, ("--to", &self.to), ("--before", &self.before))?;
        scan = scan.range((lower.as_ref().map(|key| borrow(key)), upper.as_ref().map(|key| borrow(key))));
        if let Some(condition) = &self.filter {
            scan = scan.filter(filter::parse(condition, schema)?);
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        if self.reverse {
            scan = scan.reverse();
        }
        let columns = self.columns(schema)?;
        if !self.columns.is_empty() {
            scan = scan.columns(columns.iter().map(|(name, _)| name));
        }
        Ok((scan, columns))
    }

    fn columns(&self, schema: &Schema) -> Result<Vec<(String, Type)>> {
        let of = |at: usize| (schema.columns()[at].name.to_string(), schema.columns()[at].ty);
        if self.columns.is_empty() {
            return Ok((0..schema.columns().len()).map(of).collect());
        }
        let mut positions = Vec::new();
        for name in self.columns.iter().flat_map(|list| &list.0) {
            let at = schema.column_index(name).ok_or_else(|| unknown_column(schema, name))?;
            if positions.contains(&at) {
                return Err(Failure::usage(format!("--columns has {name:?} twice")).into());
            }
            positions.push(at);
        }
        Ok(positions.into_iter().map(of).collect())
    }
}

/// There is no such column; there are these.
pub(crate) fn unknown_column(schema: &Schema, name: &str) -> Failure {
    let names: Vec<&str> = schema.columns().iter().map(|column| &*column.name).collect();
    Failure::usage(format!("there is no column {name:?}")).advise(format!("there are: {}", names.join(", ")))
}

fn bound(
    schema: &Schema,
    (included, key_included): (&str, &Option<String>),
    (excluded, key_excluded): (&str, &Option<String>),
) -> Result<Bound<Vec<Owned>>> {
    Ok(match (key_included, key_excluded) {
        (Some(text), _) => Bound::Included(key(schema, included, text)?),
        (None, Some(text)) => Bound::Excluded(key(schema, excluded, text)?),
        (None, None) => Bound::Unbounded,
    })
}

/// The first values of a key, from one argument.
fn key(schema: &Schema, argument: &str, text: &str) -> Result<Vec<Owned>> {
    let texts = list::split(text).map_err(|why| Failure::usage(format!("{argument}: {why}")))?;
    key_values(schema, texts.iter().map(String::as_str)).map_err(|failure| {
        let Failure { exit, message, advice } = failure;
        Failure { exit, message: format!("{argument}: {message}"), advice }.into()
    })
}

/// The first values of a key, each of its own text.
pub(crate) fn key_values<'t>(
    schema: &Schema,
    texts: impl Iterator<Item = &'t str>,
) -> Result<Vec<Owned>, Failure> {
    let columns = &schema.columns()[..schema.key_columns()];
    let described = || {
        let names = columns.iter().map(|column| format!("{} ({column})", column.name));
        format!("the key is: {}", names.collect::<Vec<_>>().join(", "))
    };
    let mut values = Vec::new();
    for (at, text) in texts.enumerate() {
        let Some(column) = columns.get(at) else {
            return Err(Failure::usage(format!("more values than the key has columns, {}", columns.len()))
                .advise(described()));
        };
        let value = parse(text, column.ty).map_err(|why| {
            Failure::usage(format!("key column {}: {why}", column.name)).advise(described())
        })?;
        values.push(value);
    }
    Ok(values)
}

/// The values of a whole key, each of its own text.
pub(crate) fn whole_key<'t>(
    schema: &Schema,
    texts: impl Iterator<Item = &'t str>,
) -> Result<Vec<Owned>, Failure> {
    let key = key_values(schema, texts)?;
    match schema.columns()[..schema.key_columns()].get(key.len()) {
        None => Ok(key),
        Some(missing) => {
            let columns = schema.key_columns();
            Err(Failure::usage(format!("the key has {columns} columns: {} is missing", missing.name)))
        }
    }
}
