//! How a file is to be written, and what a written file is known by.

use codec::FileId;

/// How data blocks are compressed. Block indexes and filters never are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4, for each block that becomes an eighth smaller or more.
    #[default]
    Lz4,
}

/// How a file is to be written. Any value is legal: sizes are targets, and a block holds at least one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// Bytes of a data block, before compression. Default 4 KiB: a point read decodes one block, so smaller is
    /// quicker to read and larger compresses better.
    pub block_bytes: usize,
    /// Bytes of a partition of the block index. Default 16 KiB. The last key of each partition stays in memory while
    /// the file is open.
    pub index_block_bytes: usize,
    /// Every how many entries a keyed block writes a key in full. Default 16: fewer is quicker to search and larger.
    pub restart_interval: usize,
    /// Default [`Compression::Lz4`].
    pub compression: Compression,
    /// Whether a keyed file gets a filter, of some 9 bits a key. Default true.
    pub filter: bool,
    /// Every how many bytes the disk is asked to begin writing, so that the sync at the end has less to wait for.
    /// Default 1 MiB; 0 means never.
    pub writeback_bytes: u64,
    /// Every how many bytes the file is synced while it is written, so that neither the sync at the end nor one of
    /// another file, of a log above all, has to wait for more than this. Default 8 MiB; 0 means only at the end.
    pub sync_bytes: u64,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            block_bytes: 4 << 10,
            index_block_bytes: 16 << 10,
            restart_interval: 16,
            compression: Compression::default(),
            filter: true,
            writeback_bytes: 1 << 20,
            sync_bytes: 8 << 20,
        }
    }
}

/// What a finished file is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number.
    pub id: FileId,
    /// Its length in bytes.
    pub len: u64,
    /// The checksum of its footer, which covers the checksum of every block: two files that differ anywhere differ
    /// in it.
    pub footer_checksum: u32,
    /// How many entries, or rows.
    pub entries: u64,
    /// The first key; empty in an ordinal file and in a file without entries.
    pub first_key: Vec<u8>,
    /// The last key; likewise.
    pub last_key: Vec<u8>,
}
