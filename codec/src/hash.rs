//! The hash of an encoded key, computed once and used by every filter.

/// xxh3-64 of an encoded key. Filters on disk are built from it, so it is frozen with the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub u64);

/// Hashes an encoded key.
///
/// ```
/// assert_eq!(nyala_codec::hash_key(b""), nyala_codec::KeyHash(0x2d06_8005_38d3_94c2));
/// ```
#[must_use]
#[inline]
pub fn hash_key(key: &[u8]) -> KeyHash {
    KeyHash(xxhash_rust::xxh3::xxh3_64(key))
}
