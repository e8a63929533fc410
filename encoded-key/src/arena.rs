//! An arena for keys that are needed for a while: probes, bounds, read sets.
//!
//! Invariant: memory is kept over a reset, but never more than [`KEPT_BYTES_MAX`].

use std::borrow::Borrow;

use bumpalo::Bump;
use bumpalo::collections::Vec as BumpVec;

use crate::builder::put_columns;
use crate::{EncodedKey, KeyError, KeyLayout, Value};

/// An arena that outgrew this is replaced at its reset.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Room for texts in a first guess at a key's size; a key that needs more grows in place.
const TEXT_BYTES_GUESS: usize = 32;

/// Encodes keys into memory of its own, which is freed all at once.
///
/// ```
/// use nyala_encoded_key::{KeyArena, KeyError, KeyLayout, Type, Value};
/// let layout = KeyLayout::new(vec![Type::U8.into(), Type::String.into()])?;
/// let mut arena = KeyArena::new();
/// let one = arena.encode(&layout, [Value::Int(1), Value::String("a")])?;
/// let two = arena.encode(&layout, [Value::Int(2), Value::String("")])?;
/// assert!(one < two);
/// assert_eq!(one.bytes(), b"\x01a");
/// arena.reset();
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Debug, Default)]
pub struct KeyArena {
    bump: Bump,
}

impl KeyArena {
    /// An empty arena. It allocates when the first key comes.
    #[must_use]
    pub fn new() -> KeyArena {
        KeyArena::default()
    }

    /// Encodes one key, all of its columns given in order.
    ///
    /// # Errors
    /// As [`crate::KeyBuilder::push`] and [`crate::KeyBuilder::finish`].
    pub fn encode<'v, V>(
        &self,
        layout: &KeyLayout,
        values: impl IntoIterator<Item = V>,
    ) -> Result<EncodedKey<'_>, KeyError>
    where
        V: Borrow<Value<'v>>,
    {
        let columns = layout.columns().len();
        let guess = if layout.fixed_columns() == columns { 0 } else { TEXT_BYTES_GUESS };
        let mut out = BumpVec::with_capacity_in(layout.bytes_min() + guess, &self.bump);
        let column = put_columns(layout, values, &mut out)?;
        if column < columns {
            return Err(KeyError::MissingColumn { column, columns });
        }
        Ok(EncodedKey::new(out.into_bump_slice()))
    }

    /// Copies bytes that are an encoded key already.
    #[must_use]
    pub fn copy(&self, key: &[u8]) -> EncodedKey<'_> {
        EncodedKey::new(self.bump.alloc_slice_copy(key))
    }

    /// Forgets all keys. The memory is kept, unless it has outgrown 1 MiB.
    pub fn reset(&mut self) {
        if self.bump.allocated_bytes() > KEPT_BYTES_MAX {
            self.bump = Bump::new();
        } else {
            self.bump.reset();
        }
    }

    /// How much memory the arena holds, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.bump.allocated_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KEY_BYTES_MAX, KeyBuilder, Type};

    fn layout(types: &[Type]) -> KeyLayout {
        KeyLayout::new(types.iter().map(|ty| (*ty).into()).collect()).unwrap()
    }

    #[test]
    fn arena_and_builder_write_the_same_bytes() {
        let layout = layout(&[Type::String, Type::I16, Type::Binary]);
        let long = "x\0".repeat(300);
        let arena = KeyArena::new();
        let mut buffer = Vec::new();
        for text in ["", "a", "a\0b", &long] {
            let values = [Value::String(text), Value::Int(-1), Value::Binary(text.as_bytes())];
            let mut builder = KeyBuilder::new(&layout, &mut buffer);
            for value in values {
                builder.push(value).unwrap();
            }
            let range = builder.finish().unwrap();
            assert_eq!(arena.encode(&layout, values).unwrap().bytes(), &buffer[range]);
        }
    }

    #[test]
    fn a_failed_key_leaves_the_others_alone() {
        let layout = layout(&[Type::I8, Type::Binary]);
        let arena = KeyArena::new();
        let first = arena.encode(&layout, [Value::Int(1), Value::Binary(b"first")]).unwrap();
        let too_long = vec![0xff; KEY_BYTES_MAX];
        assert_eq!(
            arena.encode(&layout, [Value::Int(1), Value::Binary(&too_long)]),
            Err(KeyError::TooLong { bytes: KEY_BYTES_MAX + 1 })
        );
        assert_eq!(
            arena.encode(&layout, [Value::Int(1)]),
            Err(KeyError::MissingColumn { column: 1, columns: 2 })
        );
        let none: [Value<'_>; 0] = [];
        assert_eq!(arena.encode(&layout, none), Err(KeyError::MissingColumn { column: 0, columns: 2 }));
        let last = arena.encode(&layout, [Value::Int(2), Value::Binary(b"last")]).unwrap();
        assert_eq!((first.bytes(), last.bytes()), (&b"\x81first"[..], &b"\x82last"[..]));
    }

    #[test]
    fn a_reset_keeps_memory_up_to_a_bound() {
        let layout = layout(&[Type::Binary]);
        let mut arena = KeyArena::new();
        let key = vec![7; 10_000];
        for _ in 0..10 {
            let _ = arena.encode(&layout, [Value::Binary(&key)]).unwrap();
        }
        arena.reset();
        let kept = arena.allocated_bytes();
        assert!(kept > 0);
        let _ = arena.copy(&key);
        assert_eq!(arena.allocated_bytes(), kept);
        for _ in 0..300 {
            let _ = arena.copy(&key);
        }
        assert!(arena.allocated_bytes() > KEPT_BYTES_MAX);
        arena.reset();
        assert_eq!(arena.allocated_bytes(), 0);
    }
}
