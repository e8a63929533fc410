//! Puts checksums right in bytes that were changed, so that the changes reach what lies behind them.
//!
//! Written from `docs/file-formats.md` and not with the engine's own encoders: what these find by the page is also what
//! a target compares the engine's readers with. Takes any bytes: what cannot be made out is left as it is.

pub mod current;
pub mod log;
pub mod sstable;
