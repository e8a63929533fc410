//! Readers: one open file, shared by all who read it.
//!
//! What stays in memory is the root of the block index and the properties; all else comes through the cache.

mod keyed;
mod ordinal;

pub use keyed::KeyedReader;
pub use ordinal::OrdinalReader;
pub(crate) use ordinal::{Rows, rows_of};
