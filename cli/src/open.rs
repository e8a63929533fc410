//! Opens databases and their tables.
//!
//! What only reads opens for reading only: it takes no lock, works beside a writer, and changes not a byte.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nyala::{Engine, ErrorKind, Options, Table};

use crate::failure::{Exit, Failure};

/// A table of a database that is there.
#[derive(Debug, clap::Args)]
pub(crate) struct TableOf {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The table
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
}

impl TableOf {
    /// Opens both to look at them. The table is open as long as the engine is kept.
    pub(crate) fn for_reading(&self) -> Result<(Engine, Table)> {
        let engine = for_reading(&self.dir)?;
        let table = table(&engine, &self.table)?;
        Ok((engine, table))
    }
}

/// Opens a database to look at it.
pub(crate) fn for_reading(dir: &Path) -> Result<Engine> {
    must_be_there(dir)?;
    Ok(Engine::open_read_only(dir, options())?)
}

/// Opens a database that is there, to change it.
pub(crate) fn for_writing(dir: &Path) -> Result<Engine> {
    must_be_there(dir)?;
    Ok(Engine::open(dir, Options { create_if_missing: false, ..options() })?)
}

/// Opens a database to write to it, and makes it if there is none; but not among other files.
pub(crate) fn or_create(dir: &Path) -> Result<Engine> {
    match look(dir)? {
        Directory::Missing | Directory::Empty | Directory::Remains | Directory::Database => {}
        Directory::File => return Err(is_a_file(dir).into()),
        Directory::Foreign => {
            let text = format!("{} holds no database, and is not empty", dir.display());
            return Err(Failure::usage(text).advise("a new database needs a directory of its own").into());
        }
    }
    Ok(Engine::open(dir, options())?)
}

/// Whoever has the directory may see its keys in errors.
pub(crate) fn options() -> Options {
    Options { keys_in_errors: true, ..Options::default() }
}

/// The table of that name.
pub(crate) fn table(engine: &Engine, name: &str) -> Result<Table> {
    engine.existing_table(name).map_err(|error| match error.kind() {
        ErrorKind::NoSuchTable => {
            let tables = engine.tables();
            let advice = match tables.len() {
                0 => "the database has no tables".to_owned(),
                _ => format!("there are: {}", tables.join(", ")),
            };
            Failure::new(Exit::NotFound, format!("there is no table {name:?}")).advise(advice).into()
        }
        _ => error.into(),
    })
}

/// What is found where a database should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    Missing,
    File,
    Empty,
    /// Files, but none of a database.
    Foreign,
    /// Files of a database whose `CURRENT` is lost, or that was not made to its end.
    Remains,
    Database,
}

/// Looks at the names in a directory, and at nothing else.
pub(crate) fn look(dir: &Path) -> Result<Directory> {
    let named = || dir.display().to_string();
    if !dir.try_exists().with_context(named)? {
        return Ok(Directory::Missing);
    }
    if !dir.is_dir() {
        return Ok(Directory::File);
    }
    let mut found = Directory::Empty;
    for entry in dir.read_dir().with_context(named)? {
        let name = entry.with_context(named)?.file_name();
        let name = name.to_string_lossy();
        if name == "CURRENT" {
            return Ok(Directory::Database);
        } else if is_of_a_database(&name) {
            found = Directory::Remains;
        } else if found == Directory::Empty && name != "LOCK" {
            found = Directory::Foreign;
        }
    }
    Ok(found)
}

/// `17.wal`
fn is_of_a_database(name: &str) -> bool {
    name.split_once('.').is_some_and(|(number, extension)| {
        number.parse::<u64>().is_ok() && matches!(extension, "manifest" | "wal" | "idx" | "row")
    })
}

/// A missing directory, and a directory that is no database, are told apart.
fn must_be_there(dir: &Path) -> Result<()> {
    let shown = dir.display();
    let failure = match look(dir)? {
        Directory::Database => return Ok(()),
        Directory::Missing => Failure::new(Exit::NotFound, format!("{shown} is not there"))
            .advise("`nyala import` makes a database"),
        Directory::File => is_a_file(dir),
        Directory::Empty | Directory::Foreign | Directory::Remains => no_database(dir)
            .advise("a database has a file CURRENT; if it is lost, `nyala repair DIR NEW_DIR` does without"),
    };
    Err(failure.into())
}

/// Something of a database must be there, if only its remains.
pub(crate) fn must_be_repairable(dir: &Path) -> Result<()> {
    match look(dir)? {
        Directory::Database | Directory::Remains => Ok(()),
        Directory::Missing => {
            Err(Failure::new(Exit::NotFound, format!("{} is not there", dir.display())).into())
        }
        Directory::File => Err(is_a_file(dir).into()),
        Directory::Empty | Directory::Foreign => Err(no_database(dir).into()),
    }
}

fn is_a_file(dir: &Path) -> Failure {
    Failure::new(Exit::NotFound, format!("{} is a file", dir.display()))
        .advise("a database is a directory: give the one that the file lies in")
}

fn no_database(dir: &Path) -> Failure {
    Failure::new(Exit::NotFound, format!("{} holds no database", dir.display()))
}
