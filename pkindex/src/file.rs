//! One index file: an sstable of keys and their entries, opened.

use std::path::Path;
use std::sync::Arc;

use codec::FileId;
use sstable::{Cache, FileInfo, KeyedReader};
use vfs::Fs;

use crate::error::{Error, Result};
use crate::properties::Properties;

/// An open index file.
#[derive(Debug)]
pub struct IndexFile {
    /// What the file is known by.
    pub info: FileInfo,
    /// What the file says of itself, checked.
    pub properties: Properties,
    /// Its reader.
    pub reader: Arc<KeyedReader>,
}

impl IndexFile {
    /// Opens an index file of which `len` bytes and this footer checksum are expected.
    ///
    /// Reads the footer and the properties, no entries.
    ///
    /// # Errors
    /// [`Error::Sstable`] if the file is missing, is another one, or is damaged where it was read;
    /// [`Error::Properties`] if its properties contradict themselves or the file.
    pub fn open(
        fs: &dyn Fs,
        path: &Path,
        id: FileId,
        cache: Arc<Cache>,
        expect: (u64, u32),
    ) -> Result<Arc<IndexFile>> {
        let reader = KeyedReader::open(fs, path, id, cache, Some(expect))?;
        let properties = Properties::decode(id, reader.user_properties())?;
        let bad = |reason: String| Error::Properties { file: id, reason };
        if properties.keys != reader.entries() {
            return Err(bad(format!("{} keys, but the file has {}", properties.keys, reader.entries())));
        }
        // Compressed or not, an entry takes more than a byte: no two have the same version.
        if properties.entries > reader.file_len() {
            return Err(bad(format!("{} entries in {} bytes", properties.entries, reader.file_len())));
        }
        if properties.first_key != reader.first_key() || properties.last_key != reader.last_key() {
            return Err(bad("the first and the last key are not the file's".to_owned()));
        }
        Ok(Arc::new(IndexFile { info: reader.info(), properties, reader }))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.info.id
    }

    pub(crate) fn first_key(&self) -> &[u8] {
        &self.properties.first_key
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.properties.last_key
    }
}
