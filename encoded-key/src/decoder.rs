//! Reads keys back, strictly.
//!
//! Invariant: a key that decodes is exactly what encoding its values gives.
//! Never panics and never allocates by what the bytes say: a text is at most as long as its escaped form.

use std::ops::Range;

use crate::text::{Escaped, TextError};
use crate::{KEY_BYTES_MAX, KeyColumn, KeyError, KeyLayout, Type, Value, fixed, text};

/// Reads the columns of a key in order.
///
/// ```
/// use nyala_encoded_key::{KeyDecoder, KeyError, KeyLayout, Type, Value};
/// let layout = KeyLayout::new(vec![Type::Bool.into(), Type::U16.into()])?;
/// let mut scratch = Vec::new();
///
/// let mut decoder = KeyDecoder::new(&layout, &[1, 0x12, 0x34, 0xff]);
/// assert_eq!(decoder.next_column(&mut scratch)?, Value::Bool(true));
/// assert_eq!(decoder.skip_column()?, 1..3);
/// assert_eq!(decoder.finish(), Err(KeyError::Trailing { at: 3, left: 1 }));
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyDecoder<'a> {
    layout: &'a KeyLayout,
    key: &'a [u8],
    at: usize,
    column: usize,
}

impl<'a> KeyDecoder<'a> {
    /// A decoder at the first column of `key`.
    #[must_use]
    #[inline]
    pub fn new(layout: &'a KeyLayout, key: &'a [u8]) -> KeyDecoder<'a> {
        KeyDecoder { layout, key, at: 0, column: 0 }
    }

    /// The next column. It is borrowed from the key, or, if it had to be unescaped, from `scratch`, which is
    /// overwritten.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] or [`KeyError::NonCanonical`] if the bytes are none that a builder writes, and
    /// [`KeyError::MissingColumn`] after the last column. The decoder then stays where it is.
    #[inline]
    pub fn next_column<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Result<Value<'s>, KeyError>
    where
        'a: 's,
    {
        let raw = Raw::find(self.layout, self.key, self.column, self.at)?;
        let value = raw.value(self.column, self.at, scratch);
        if value.is_ok() {
            self.pass(raw.end);
        }
        value
    }

    /// Passes over the next column and tells where in the key it lies, the end of an escaped text included. Checks only
    /// what it takes to find its end.
    ///
    /// # Errors
    /// [`KeyError::Malformed`], [`KeyError::NonCanonical`], [`KeyError::MissingColumn`].
    #[inline]
    pub fn skip_column(&mut self) -> Result<Range<usize>, KeyError> {
        let start = self.at;
        let raw = Raw::find(self.layout, self.key, self.column, start)?;
        self.pass(raw.end);
        Ok(start..raw.end)
    }

    /// Checks that all columns were read, that nothing is left, and that the key is no longer than a key can be.
    ///
    /// # Errors
    /// [`KeyError::MissingColumn`], [`KeyError::Trailing`], [`KeyError::Malformed`].
    #[inline]
    pub fn finish(self) -> Result<(), KeyError> {
        let columns = self.layout.columns().len();
        if self.column < columns {
            return Err(KeyError::MissingColumn { column: self.column, columns });
        }
        match self.key.len() - self.at {
            0 if self.key.len() <= KEY_BYTES_MAX => Ok(()),
            0 => Err(KeyError::Malformed {
                column: columns - 1,
                at: KEY_BYTES_MAX,
                what: "a key longer than any that is written",
            }),
            left => Err(KeyError::Trailing { at: self.at, left }),
        }
    }

    #[inline]
    fn pass(&mut self, end: usize) {
        self.at = end;
        self.column += 1;
    }
}

/// Where column `index` starts.
#[inline]
fn column_start(layout: &KeyLayout, key: &[u8], index: usize) -> Result<usize, KeyError> {
    let mut at = 0;
    for column in 0..index {
        at = Raw::find(layout, key, column, at)?.end;
    }
    Ok(at)
}

/// A column as it lies in a key.
#[derive(Clone, Copy)]
struct Raw<'k> {
    spec: KeyColumn,
    /// Of an escaped text, without its end.
    bytes: &'k [u8],
    /// How many of them are escaped.
    escapes: usize,
    /// Whether the bytes are a text that must be unescaped.
    is_foreign: bool,
    /// Where in the key the column ends.
    end: usize,
}

impl<'k> Raw<'k> {
    /// Column `column`, which starts at byte `at`.
    #[inline]
    fn find(layout: &KeyLayout, key: &'k [u8], column: usize, at: usize) -> Result<Raw<'k>, KeyError> {
        let Some(&spec) = layout.columns().get(column) else {
            return Err(KeyError::MissingColumn { column, columns: layout.columns().len() });
        };
        let rest = &key[at..];
        if let Some(width) = spec.ty.fixed_width() {
            let Some(bytes) = rest.get(..width) else {
                return Err(cut_off(column, key, "the key ends within the column"));
            };
            return Ok(Raw { spec, bytes, escapes: 0, is_foreign: false, end: at + width });
        }
        if !layout.is_escaped(column) {
            return Ok(Raw { spec, bytes: rest, escapes: 0, is_foreign: false, end: key.len() });
        }
        match text::split(rest, spec.descending) {
            Ok(Escaped { bytes, escapes }) => {
                let is_foreign = spec.descending || escapes > 0;
                Ok(Raw { spec, bytes, escapes, is_foreign, end: at + bytes.len() + text::END_BYTES })
            }
            Err(TextError::NoEnd) => Err(cut_off(column, key, "the key ends within a text")),
            Err(TextError::BadEscape { at: within }) => Err(KeyError::NonCanonical {
                column,
                at: at + within,
                what: "an escape that stands for nothing",
            }),
        }
    }

    #[inline]
    fn value<'s>(self, column: usize, at: usize, scratch: &'s mut Vec<u8>) -> Result<Value<'s>, KeyError>
    where
        'k: 's,
    {
        if self.is_foreign {
            text::unescape(
                Escaped { bytes: self.bytes, escapes: self.escapes },
                self.spec.descending,
                scratch,
            );
            return native_value(self.spec, scratch, column, at);
        }
        native_value(self.spec, self.bytes, column, at)
    }
}

/// The value of bytes that need no unescaping.
#[inline]
fn native_value(spec: KeyColumn, bytes: &[u8], column: usize, at: usize) -> Result<Value<'_>, KeyError> {
    match spec.ty {
        Type::Binary => Ok(Value::Binary(bytes)),
        Type::String => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::String(text)),
            Err(_) => Err(KeyError::Malformed { column, at, what: "a string that is not UTF-8" }),
        },
        ty => fixed::decode(ty, spec.descending, bytes, |what| KeyError::NonCanonical { column, at, what }),
    }
}

#[cold]
fn cut_off(column: usize, key: &[u8], what: &'static str) -> KeyError {
    KeyError::Malformed { column, at: key.len(), what }
}

/// Reads column `index` of `key`, borrowed from the key whenever it needs no unescaping, and otherwise from `scratch`,
/// which is overwritten. Of the columns before it, checks only what it takes to find their ends; those after it are not
/// looked at.
///
/// # Errors
/// As [`KeyDecoder::next_column`]; [`KeyError::MissingColumn`] if there is no such column.
///
/// ```
/// use nyala_encoded_key::{KeyError, KeyLayout, Type, Value, decode_column};
/// let layout = KeyLayout::new(vec![Type::String.into(), Type::U8.into()])?;
/// let mut scratch = Vec::new();
/// assert_eq!(decode_column(&layout, b"a\0\x01b\0\0\x07", 0, &mut scratch)?, Value::String("a\0b"));
/// assert_eq!(decode_column(&layout, b"a\0\x01b\0\0\x07", 1, &mut scratch)?, Value::UInt(7));
/// # Ok::<(), KeyError>(())
/// ```
#[inline]
pub fn decode_column<'a>(
    layout: &KeyLayout,
    key: &'a [u8],
    index: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<Value<'a>, KeyError> {
    let at = column_start(layout, key, index)?;
    Raw::find(layout, key, index, at)?.value(index, at, scratch)
}

/// Reads column `index` of `key` if it can be borrowed from the key. `None` means that it must be unescaped, which
/// [`decode_column`] does: a text in a descending column, or one with NUL bytes that is not the key's last column.
///
/// # Errors
/// As [`decode_column`].
///
/// ```
/// use nyala_encoded_key::{KeyError, KeyLayout, Type, Value, borrow_column};
/// let layout = KeyLayout::new(vec![Type::String.into(), Type::U8.into()])?;
/// assert_eq!(borrow_column(&layout, b"ab\0\0\x07", 0)?, Some(Value::String("ab")));
/// assert_eq!(borrow_column(&layout, b"a\0\x01b\0\0\x07", 0)?, None);
/// # Ok::<(), KeyError>(())
/// ```
#[inline]
pub fn borrow_column<'a>(
    layout: &KeyLayout,
    key: &'a [u8],
    index: usize,
) -> Result<Option<Value<'a>>, KeyError> {
    let at = column_start(layout, key, index)?;
    let raw = Raw::find(layout, key, index, at)?;
    if raw.is_foreign { Ok(None) } else { native_value(raw.spec, raw.bytes, index, at).map(Some) }
}
