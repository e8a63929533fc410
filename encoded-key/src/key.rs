//! An encoded key, and one with its hash.

use std::fmt;

use codec::{KeyHash, hash_key};

/// The bytes of a key, borrowed from where they live. Compares like the key's tuple.
///
/// ```
/// use nyala_encoded_key::EncodedKey;
/// let key = EncodedKey::new(&[0x7f, 0xff]);
/// assert_eq!(key.bytes(), [0x7f, 0xff]);
/// assert_eq!(format!("{key:?}"), "EncodedKey(7fff)");
/// assert!(key < EncodedKey::new(&[0x80]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EncodedKey<'a>(&'a [u8]);

impl<'a> EncodedKey<'a> {
    /// Takes bytes that a builder wrote.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> EncodedKey<'a> {
        EncodedKey(bytes)
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for EncodedKey<'_> {
    /// In hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncodedKey(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// A key with its hash, computed once for all the filters that it is looked up in.
///
/// ```
/// use nyala_encoded_key::KeyProbe;
/// let probe = KeyProbe::new(b"key");
/// assert_eq!(probe.key(), b"key");
/// assert_eq!(probe.hash(), KeyProbe::new(b"key").hash());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyProbe<'a> {
    key: EncodedKey<'a>,
    hash: KeyHash,
}

impl<'a> KeyProbe<'a> {
    /// Hashes the bytes of an encoded key.
    #[must_use]
    #[inline]
    pub fn new(key: &'a [u8]) -> KeyProbe<'a> {
        KeyProbe { key: EncodedKey(key), hash: hash_key(key) }
    }

    /// The key's bytes.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key.bytes()
    }

    /// The key's hash.
    #[must_use]
    #[inline]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }
}

impl<'a> From<EncodedKey<'a>> for KeyProbe<'a> {
    #[inline]
    fn from(key: EncodedKey<'a>) -> KeyProbe<'a> {
        KeyProbe::new(key.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_above_127_print_right() {
        assert_eq!(format!("{:?}", EncodedKey::new(&[0x00, 0x7f, 0x80, 0xff])), "EncodedKey(007f80ff)");
    }
}
