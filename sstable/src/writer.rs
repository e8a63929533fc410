//! Writers: entries or rows in, one finished and synced file out.
//!
//! ```text
//! header
//! partition: data block ... data block, filter (keyed files), index partition
//! partition ...
//! properties, root of the index, footer
//! ```
//!
//! Nothing is allocated per entry: all buffers are kept from block to block. Memory is bounded by one partition.

mod keyed;
mod ordinal;

pub use keyed::{KeyedWriter, WriterScratch};
pub use ordinal::OrdinalWriter;
