//! Damage is found, named and repaired: `check`, `repair` and the report of a recovery.
//!
//! Files are forged with their checksums put right again, by code of its own that follows `docs/file-formats.md`: only
//! what looks deeper than checksums can see it.

mod altered;
mod check;
#[path = "../support/random.rs"]
mod choices;
mod forge;
mod history;
mod matrix;
mod opening;
mod random;
mod renamed;
mod support;
