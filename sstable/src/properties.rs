//! What a file tells about itself, beside its index.
//!
//! | bytes | what |
//! |---|---|
//! | varint | entries, or rows |
//! | varint | data blocks |
//! | varint, n | first key; empty without entries and in ordinal files |
//! | varint, n | last key, likewise |
//! | varint, n | what the file's owner gave; never interpreted |

use codec::{ReadError, Reader, put_varint};

use crate::block::Block;
use crate::error::Result;

/// What a file tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) entries: u64,
    pub(crate) blocks: u64,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

impl Properties {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.entries);
        put_varint(out, self.blocks);
        for bytes in [&self.first_key, &self.last_key, &self.user] {
            put_varint(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
    }

    pub(crate) fn decode(block: &Block) -> Result<Properties> {
        let decode = || -> std::result::Result<Properties, ReadError> {
            let mut reader = Reader::new(&block.bytes);
            let properties = Properties {
                entries: reader.varint()?,
                blocks: reader.varint()?,
                first_key: reader.prefixed()?.to_vec(),
                last_key: reader.prefixed()?.to_vec(),
                user: reader.prefixed()?.to_vec(),
            };
            reader.finish()?;
            Ok(properties)
        };
        decode().map_err(|source| block.malformed("properties", source))
    }
}
