//! A reader that never passes the end and never trusts a length.

use thiserror::Error;

/// Why bytes could not be read. Offsets count from the start of the slice that the reader was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Fewer bytes are left than asked for.
    #[error("at byte {at}: {wanted} bytes wanted, {left} left")]
    Short {
        /// Where.
        at: usize,
        /// How many bytes were asked for.
        wanted: u64,
        /// How many there are.
        left: usize,
    },
    /// A varint of more than 64 bits, or written longer than it needs to be.
    #[error("at byte {at}: a varint that is too long")]
    Varint {
        /// Where the varint starts.
        at: usize,
    },
    /// Bytes are left where none should be.
    #[error("{left} bytes left over at byte {at}")]
    Trailing {
        /// Where they start.
        at: usize,
        /// How many.
        left: usize,
    },
}

/// Reads numbers and slices from the front of a byte slice.
///
/// ```
/// let mut reader = nyala_codec::Reader::new(&[1, 0, 0xac, 0x02, b'x']);
/// assert_eq!(reader.u16(), Ok(1));
/// assert_eq!(reader.varint(), Ok(300));
/// assert_eq!(reader.bytes(1), Ok(&b"x"[..]));
/// assert!(reader.finish().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// How far it has read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`] if there are fewer; the reader then stays where it is.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], ReadError> {
        if length > self.left() {
            return Err(ReadError::Short { at: self.at, wanted: length as u64, left: self.left() });
        }
        let start = self.at;
        self.at += length;
        Ok(&self.bytes[start..self.at])
    }

    /// The next `N` bytes, as an array.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        Ok(self.bytes(N)?.try_into().expect("bytes(N) gives N bytes"))
    }

    /// One byte.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, ReadError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little-endian.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn u16(&mut self) -> Result<u16, ReadError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A varint of at most 64 bits, in its shortest form.
    ///
    /// # Errors
    /// [`ReadError::Short`], or [`ReadError::Varint`]: what a writer of ours never writes is damage.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, ReadError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    break;
                }
                return Ok(value);
            }
        }
        Err(ReadError::Varint { at: start })
    }

    /// A varint, then as many bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`], [`ReadError::Varint`].
    #[inline]
    pub fn prefixed(&mut self) -> Result<&'a [u8], ReadError> {
        let at = self.at;
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(length) if length <= self.left() => self.bytes(length),
            _ => Err(ReadError::Short { at, wanted: length, left: self.left() }),
        }
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`ReadError::Trailing`].
    pub fn finish(self) -> Result<(), ReadError> {
        match self.left() {
            0 => Ok(()),
            left => Err(ReadError::Trailing { at: self.at, left }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{put_varint, varint_len};
    use proptest::prelude::*;

    #[test]
    fn a_varint_longer_than_needed_is_refused() {
        assert_eq!(Reader::new(&[0x80, 0x00]).varint(), Err(ReadError::Varint { at: 0 }));
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(ReadError::Varint { at: 0 }));
        let mut over = [0xff; 10];
        over[9] = 2;
        assert_eq!(Reader::new(&over).varint(), Err(ReadError::Varint { at: 0 }));
    }

    #[test]
    fn a_length_is_never_trusted() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        bytes.push(1);
        assert_eq!(
            Reader::new(&bytes).prefixed(),
            Err(ReadError::Short { at: 0, wanted: u64::MAX, left: 1 })
        );
    }

    proptest! {
        #[test]
        fn varints_round_trip(value in prop_oneof![any::<u64>(), 0u64..1000, (0u32..64).prop_map(|s| 1 << s)]) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_len(value));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            while reader.left() > 0 {
                if reader.varint().is_err() && reader.prefixed().is_err() && reader.u8().is_err() {
                    break;
                }
            }
        }
    }
}
