//! What a file tells about itself, beside its index.
//!
//! | bytes | what |
//! |---|---|
//! | varint | entries, or rows |
//! | varint | data blocks |
//! | varint | how data blocks were to be compressed: 0 not at all, 1 LZ4. Any other number is read like 1: it is each block that says what it is |
//! | varint, n | first key; empty without entries and in ordinal files |
//! | varint, n | last key, likewise |
//! | varint, n | what the file's owner gave; never interpreted |

use codec::{ReadError, Reader, put_varint};

use crate::block::Block;
use crate::error::Result;
use crate::options::Compression;

/// What a file tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) entries: u64,
    pub(crate) blocks: u64,
    pub(crate) compression: Compression,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

impl Properties {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.entries);
        put_varint(out, self.blocks);
        put_varint(out, compression_to_number(self.compression));
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
                compression: compression_from_number(reader.varint()?),
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

fn compression_to_number(compression: Compression) -> u64 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
    }
}

fn compression_from_number(number: u64) -> Compression {
    if number == 0 { Compression::None } else { Compression::Lz4 }
}
