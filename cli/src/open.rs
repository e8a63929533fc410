//! Opens databases and their tables.
//!
//! What only reads opens for reading only: it takes no lock, works beside a writer, and changes not a byte.

use std::path::Path;

use anyhow::Result;
use nyala::{Engine, ErrorKind, Options, Table};

use crate::failure::{Exit, Failure};

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

/// Opens a database to write to it, and makes it if there is none.
pub(crate) fn or_create(dir: &Path) -> Result<Engine> {
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

/// A missing directory, and a directory that is no database, are told apart.
fn must_be_there(dir: &Path) -> Result<()> {
    let found = dir
        .try_exists()
        .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", dir.display())))?;
    if !found {
        let failure = Failure::new(Exit::NotFound, format!("{} is not there", dir.display()));
        return Err(failure.advise("`nyala import` makes a database").into());
    }
    if !dir.is_dir() {
        let failure = Failure::new(Exit::NotFound, format!("{} is a file", dir.display()));
        return Err(failure.advise("a database is a directory: give the one that the file lies in").into());
    }
    if !dir.join("CURRENT").exists() {
        let failure = Failure::new(Exit::NotFound, format!("{} holds no database", dir.display()));
        let advice = "a database has a file CURRENT; if it is lost, `nyala repair DIR NEW_DIR` does without";
        return Err(failure.advise(advice).into());
    }
    Ok(())
}
