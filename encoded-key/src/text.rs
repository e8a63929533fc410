//! Strings and binaries: their bytes, escaped where something follows or where the order is turned around.
//!
//! | column | bytes |
//! |---|---|
//! | last and ascending | the text as it is, to the end of the key |
//! | ascending, not last | the text with every `00` written as `00 01`, then `00 00` |
//! | descending, last or not | the same with every bit flipped: `ff` as `ff fe`, then `ff ff` |
//!
//! The end is smaller than any byte that can follow within a text, so that `"a"` sorts before `"a\0"` and before `"aa"`
//! whatever comes after it in the key.
//!
//! Invariant: bytes that decode are the bytes that encoding the text gives: after `00` only `01` and `00` are allowed.
//! Never looks at what the text says; that a string is UTF-8 is the decoder's business.

use crate::sink::Sink;

/// What ends an escaped text takes.
pub(crate) const END_BYTES: usize = 2;

/// Appends `text` escaped, without its end.
#[inline]
pub(crate) fn encode_open<S: Sink>(out: &mut S, text: &[u8], descending: bool) {
    let start = out.len();
    let mut rest = text;
    while let Some(at) = find(rest, 0) {
        out.extend(&rest[..at]);
        out.extend(&[0, 1]);
        rest = &rest[at + 1..];
    }
    out.extend(rest);
    if descending {
        flip(&mut out.bytes_mut()[start..]);
    }
}

/// Appends `text` escaped and ended.
#[inline]
pub(crate) fn encode<S: Sink>(out: &mut S, text: &[u8], descending: bool) {
    out.reserve(text.len() + END_BYTES);
    encode_open(out, text, descending);
    out.extend(if descending { &[0xff, 0xff] } else { &[0, 0] });
}

/// An escaped text, as it lies in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Escaped<'a> {
    /// Without the end.
    pub(crate) bytes: &'a [u8],
    /// How many bytes are escaped.
    pub(crate) escapes: usize,
}

/// Why there is no escaped text. Offsets count from the start of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextError {
    /// The bytes end before the text does.
    NoEnd,
    /// An escape that stands for nothing.
    BadEscape { at: usize },
}

/// The escaped text that `bytes` start with.
#[inline]
pub(crate) fn split(bytes: &[u8], descending: bool) -> Result<Escaped<'_>, TextError> {
    let mark = if descending { 0xff } else { 0 };
    let mut escapes = 0;
    let mut from = 0;
    while let Some(found) = find(&bytes[from..], mark) {
        let at = from + found;
        match bytes.get(at + 1).map(|byte| byte ^ mark) {
            Some(0) => return Ok(Escaped { bytes: &bytes[..at], escapes }),
            Some(1) => escapes += 1,
            Some(_) => return Err(TextError::BadEscape { at }),
            None => return Err(TextError::NoEnd),
        }
        from = at + 2;
    }
    Err(TextError::NoEnd)
}

/// Writes the text that `escaped` stands for over `out`.
pub(crate) fn unescape(escaped: Escaped<'_>, descending: bool, out: &mut Vec<u8>) {
    let mark = if descending { 0xff } else { 0 };
    out.clear();
    out.reserve(escaped.bytes.len() - escaped.escapes);
    let mut rest = escaped.bytes;
    while let Some(at) = find(rest, mark) {
        out.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    if descending {
        flip(out);
    }
}

/// Flips every bit.
fn flip(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Where `wanted` stands first, found eight bytes at a time.
#[inline]
fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let pattern = LOW * u64::from(wanted);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word) ^ pattern;
        // The lowest high bit that is set marks the first zero byte; those above it may lie.
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == wanted).map(|at| 8 * words.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(text: &[u8], descending: bool) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, text, descending);
        out
    }

    #[test]
    fn escapes_that_stand_for_nothing_are_refused() {
        for byte in 2..=0xff {
            assert_eq!(split(&[b'a', 0, byte, 0, 0], false), Err(TextError::BadEscape { at: 1 }));
            assert_eq!(split(&[b'a', 0xff, !byte, 0xff, 0xff], true), Err(TextError::BadEscape { at: 1 }));
        }
    }

    #[test]
    fn a_text_cut_anywhere_has_no_end() {
        for descending in [false, true] {
            let bytes = encoded(b"ab\0\0c\xff\xff\0", descending);
            for len in 0..bytes.len() {
                assert_eq!(split(&bytes[..len], descending), Err(TextError::NoEnd), "{len}");
            }
            assert_eq!(split(&bytes, descending).unwrap().escapes, 3);
        }
    }

    proptest! {
        #[test]
        fn find_is_position(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x80), Just(0xff), any::<u8>()], 0..40),
            wanted in prop_oneof![Just(0u8), Just(0xff)],
        ) {
            prop_assert_eq!(find(&bytes, wanted), bytes.iter().position(|byte| *byte == wanted));
        }

        #[test]
        fn escaping_is_undone(
            text in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..40),
            after in proptest::collection::vec(any::<u8>(), 0..4),
            descending in any::<bool>(),
        ) {
            let mut bytes = encoded(&text, descending);
            let len = bytes.len();
            bytes.extend_from_slice(&after);
            let escaped = split(&bytes, descending).unwrap();
            prop_assert_eq!(escaped.bytes.len() + END_BYTES, len);
            prop_assert_eq!(escaped.bytes.len() - escaped.escapes, text.len());
            let mut out = vec![1, 2, 3];
            unescape(escaped, descending, &mut out);
            prop_assert_eq!(out, text);
        }
    }
}
