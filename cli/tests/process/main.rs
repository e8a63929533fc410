//! The command end to end, as a process: what it prints, how it ends, and what it leaves on the disk.
//!
//! `kept` compares all that is printed with files in `tests/kept`. After a change that is meant,
//! `NYALA_KEPT_WRITE=1 cargo test -p nyala-cli` writes them anew: read the difference before you commit it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test makes, damages and compares files as they are"
)]

mod arguments;
mod documents;
mod dump;
mod export;
mod full_disk;
mod import;
mod interrupt;
mod kept;
mod mask;
mod names;
mod nyala;
mod pipes;
mod reading;
mod tables;
mod world;
