//! The block index: from a key or an ordinal to a block, in two levels.
//!
//! The root stays in memory while the file is open, and names partitions; a partition names data blocks, and is loaded
//! through the cache. A partition of a keyed file has a partition of the filter beside it, for the same keys.
//! Each partition lies right after the data blocks that it names.

pub(crate) mod keyed;
pub(crate) mod ordinal;
pub(crate) mod root;
