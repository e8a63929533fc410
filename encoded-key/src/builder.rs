//! Encodes keys, column by column, to where their bytes will live.
//!
//! Invariant: what a failed or abandoned builder wrote is cut off again.
//! Never stages a key elsewhere, and never allocates but for the buffer it is given.

use std::borrow::Borrow;
use std::ops::Range;

use crate::sink::Sink;
use crate::{KEY_BYTES_MAX, KeyError, KeyLayout, Value, fixed, text};

/// Writes one key to the tail of a buffer.
///
/// A push that fails leaves the builder as it was before. Dropped without [`KeyBuilder::finish`], the buffer is as it
/// was before the key.
///
/// ```
/// use nyala_encoded_key::{KeyBuilder, KeyError, KeyLayout, Type, Value};
/// let layout = KeyLayout::new(vec![Type::String.into(), Type::I64.into()])?;
/// let mut buffer = b"earlier".to_vec();
///
/// let mut builder = KeyBuilder::new(&layout, &mut buffer);
/// builder.push(Value::String("cpu"))?;
/// assert!(builder.push(Value::Null).is_err());
/// builder.push(Value::Int(-1))?;
/// let key = builder.finish()?;
/// assert_eq!(key, 7..20);
/// assert_eq!(&buffer[key], b"cpu\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
///
/// KeyBuilder::new(&layout, &mut buffer).push(Value::String("abandoned"))?;
/// assert_eq!(buffer.len(), 20);
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Debug)]
pub struct KeyBuilder<'a> {
    layout: &'a KeyLayout,
    out: &'a mut Vec<u8>,
    start: usize,
    /// The column that comes next.
    column: usize,
    finished: bool,
}

impl<'a> KeyBuilder<'a> {
    /// A builder of one key at the end of `out`.
    #[must_use]
    #[inline]
    pub fn new(layout: &'a KeyLayout, out: &'a mut Vec<u8>) -> KeyBuilder<'a> {
        out.reserve(layout.bytes_min());
        let start = out.len();
        KeyBuilder { layout, out, start, column: 0, finished: false }
    }

    /// Encodes the value of the next column.
    ///
    /// # Errors
    /// [`KeyError::Null`], [`KeyError::WrongType`], [`KeyError::OutOfRange`] if the column cannot take the value,
    /// [`KeyError::TooManyColumns`], [`KeyError::TooLong`].
    #[inline]
    pub fn push(&mut self, value: Value<'_>) -> Result<(), KeyError> {
        put_column(self.layout, self.column, &value, self.start, self.out)?;
        self.column += 1;
        Ok(())
    }

    /// The column that comes next, counted from 0.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// Ends the key and tells where in the buffer it lies.
    ///
    /// # Errors
    /// [`KeyError::MissingColumn`]; the buffer is then as it was before the key.
    #[inline]
    pub fn finish(mut self) -> Result<Range<usize>, KeyError> {
        let columns = self.layout.columns().len();
        if self.column < columns {
            return Err(KeyError::MissingColumn { column: self.column, columns });
        }
        self.finished = true;
        Ok(self.start..self.out.len())
    }
}

impl Drop for KeyBuilder<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

/// Encodes columns from the first on, and tells how many. On an error `out` holds a part of them.
pub(crate) fn put_columns<'v, S, V>(
    layout: &KeyLayout,
    values: impl IntoIterator<Item = V>,
    out: &mut S,
) -> Result<usize, KeyError>
where
    S: Sink,
    V: Borrow<Value<'v>>,
{
    let start = out.len();
    let mut column = 0;
    for value in values {
        put_column(layout, column, value.borrow(), start, out)?;
        column += 1;
    }
    Ok(column)
}

/// Encodes `value` as column `column` of the key that starts at `start`. On an error `out` is as it was before.
#[inline]
fn put_column<S: Sink>(
    layout: &KeyLayout,
    column: usize,
    value: &Value<'_>,
    start: usize,
    out: &mut S,
) -> Result<(), KeyError> {
    let columns = layout.columns();
    let Some(&spec) = columns.get(column) else {
        return Err(KeyError::TooManyColumns { columns: columns.len() });
    };
    let before = out.len();
    if spec.ty.is_text() {
        put_text(value, spec.ty, column, before - start, |text| {
            if layout.is_escaped(column) {
                text::encode(out, text, spec.descending);
            } else {
                out.extend(text);
            }
        })?;
    } else {
        fixed::encode(out, spec.ty, spec.descending, value)
            .map_err(|misfit| KeyError::misfit(column, misfit))?;
    }
    let bytes = out.len() - start;
    if bytes > KEY_BYTES_MAX {
        out.truncate(before);
        return Err(KeyError::TooLong { bytes });
    }
    Ok(())
}

/// Encodes the beginning of a text as column `column`: what all texts that start with it start with.
pub(crate) fn put_text_open(
    layout: &KeyLayout,
    column: usize,
    value: &Value<'_>,
    out: &mut Vec<u8>,
) -> Result<(), KeyError> {
    let columns = layout.columns();
    let Some(&spec) = columns.get(column) else {
        return Err(KeyError::MissingColumn { column, columns: columns.len() });
    };
    if !spec.ty.is_text() {
        return Err(KeyError::NotText { column, ty: spec.ty });
    }
    put_text(value, spec.ty, column, out.len(), |text| {
        if layout.is_escaped(column) {
            text::encode_open(out, text, spec.descending);
        } else {
            out.extend_from_slice(text);
        }
    })?;
    if out.len() > KEY_BYTES_MAX {
        return Err(KeyError::TooLong { bytes: out.len() });
    }
    Ok(())
}

/// Gives the bytes of `value` to `put`, unless they are already too long before anything is copied.
#[inline]
fn put_text(
    value: &Value<'_>,
    ty: crate::Type,
    column: usize,
    before: usize,
    put: impl FnOnce(&[u8]),
) -> Result<(), KeyError> {
    let text = value.text(ty).map_err(|misfit| KeyError::misfit(column, misfit))?;
    let bytes = before.saturating_add(text.len());
    if bytes > KEY_BYTES_MAX {
        return Err(KeyError::TooLong { bytes });
    }
    put(text);
    Ok(())
}
