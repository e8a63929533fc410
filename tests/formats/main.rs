//! Format version 1 is final: what it wrote once is kept in `tests/fixtures`, and opened here by the code of today.
//!
//! A fixture is a folder `tests/fixtures/v<format version>/<name>` with the files of a database, each packed by gzip
//! but for `CURRENT` and `LOCK`, and beside it `<name>.jsonl`: its tables and rows, written by whoever wrote the
//! database, from what it meant to write and not from what it read. A fixture that is there is never written again.
//!
//! Environment: `NYALA_FIXTURES_WRITE=1` writes the fixtures that are missing.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "fixtures are copied as they are, and looked at behind the engine's back"
)]

mod expected;
mod fixtures;
mod forge;
mod golden;
mod newer;
mod open;
mod scenarios;
mod single;
mod writer;
