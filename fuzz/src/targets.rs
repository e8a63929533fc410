//! The targets. Each file says at its head what an input is, and what is asked about it.

pub mod batch;
pub mod directory;
pub mod entries;
pub mod key;
pub mod manifest;
pub mod row;
pub mod sstable;
pub mod wal;
