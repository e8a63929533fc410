//! The smallest shared words of the Nyala storage engine: the id newtypes, varints, bounded reads, seeded
//! checksums and the key hash.
//!
//! Owns no file and knows no format: it only says how a number, a checksum or a hash is written down.
#![forbid(unsafe_code)]

mod checksum;
mod hash;
mod id;
mod read;
mod varint;

pub use checksum::{Checksum, Checksummer, Kind, checksum};
pub use hash::{KeyHash, hash_key};
pub use id::{ColumnId, FileId, Location, RowId, RowsetId, SchemaVersion, TableId, TabletId, Version};
pub use read::{ReadError, Reader};
pub use varint::{VARINT_BYTES_MAX, put_varint, varint_len};
