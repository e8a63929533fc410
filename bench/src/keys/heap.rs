//! A key as Kudu made it before KUDU-636: its own memory for the list of raw columns, the bytes, the key and the probe.
//!
//! Modelled on `EncodedKeyBuilder`, `EncodedKey` and `RowSetKeyProbe` of `kudu/common/encoded_key.cc` and
//! `kudu/tablet/rowset.h`. What is different is in favour of this variant: the list of columns has its final length
//! from the start, where the C++ one grew to 1, 2 and 4, and columns are encoded by this project's encoder, which is
//! quicker than a virtual call for each. `MemRowSet::Insert` encoded the key once more into a buffer on the stack; here
//! that buffer is one that the thread keeps.

use encoded_key::{KeyBuilder, KeyError, KeyLayout, Value};

use codec::{KeyHash, hash_key};

/// Builds one key. Made anew for each.
pub(super) struct EncodedKeyBuilder<'v> {
    encoded: Vec<u8>,
    raw_keys: Vec<Value<'v>>,
}

impl<'v> EncodedKeyBuilder<'v> {
    fn new(layout: &KeyLayout, bytes: usize) -> EncodedKeyBuilder<'v> {
        EncodedKeyBuilder {
            encoded: Vec::with_capacity(bytes),
            raw_keys: Vec::with_capacity(layout.columns().len()),
        }
    }

    /// Encodes all columns, and gives the key memory of its own.
    fn build(mut self, layout: &KeyLayout, columns: &[Value<'v>]) -> Result<Box<EncodedKey<'v>>, KeyError> {
        let mut builder = KeyBuilder::new(layout, &mut self.encoded);
        for &column in columns {
            builder.push(column)?;
            self.raw_keys.push(column);
        }
        builder.finish()?;
        Ok(Box::new(EncodedKey { encoded: self.encoded, raw_keys: self.raw_keys }))
    }
}

/// A key with the columns that it was made of.
pub(super) struct EncodedKey<'v> {
    encoded: Vec<u8>,
    raw_keys: Vec<Value<'v>>,
}

/// A key with what filters are asked with.
pub(super) struct RowSetKeyProbe<'v> {
    key: Box<EncodedKey<'v>>,
    hash: KeyHash,
}

impl<'v> RowSetKeyProbe<'v> {
    /// Encodes and hashes a key of about `bytes` bytes.
    pub(super) fn new(
        layout: &KeyLayout,
        columns: &[Value<'v>],
        bytes: usize,
    ) -> Result<Box<RowSetKeyProbe<'v>>, KeyError> {
        let key = EncodedKeyBuilder::new(layout, bytes).build(layout, columns)?;
        let hash = hash_key(&key.encoded);
        Ok(Box::new(RowSetKeyProbe { key, hash }))
    }

    pub(super) fn hash(&self) -> KeyHash {
        self.hash
    }

    #[cfg(test)]
    pub(super) fn encoded(&self) -> &[u8] {
        &self.key.encoded
    }

    /// Encodes the key again, from the columns, for the memtable.
    pub(super) fn encode_for_memtable(
        &self,
        layout: &KeyLayout,
        buffer: &mut Vec<u8>,
    ) -> Result<(), KeyError> {
        buffer.clear();
        let mut builder = KeyBuilder::new(layout, buffer);
        for &column in &self.key.raw_keys {
            builder.push(column)?;
        }
        builder.finish()?;
        Ok(())
    }
}
