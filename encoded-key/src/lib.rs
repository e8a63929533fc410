//! Column values to bytes that sort like the values.
//!
//! A key is a tuple of typed columns, each ascending or descending ([`KeyLayout`]). Its encoding is one byte string,
//! and comparing two of them byte by byte compares the tuples. The encoding is the one of Apache Kudu, extended by
//! bools, floats and descending columns; `fixed.rs` and `text.rs` have it as tables.
//!
//! A key is encoded once, straight to where its bytes will live: to the tail of a buffer ([`KeyBuilder`]) or to an
//! arena ([`KeyArena`]). What is read back is checked to the byte ([`KeyDecoder`]): bytes that decode are exactly the
//! bytes that encoding the values again gives. Scans get their bounds from [`KeyRange`].
//!
//! ```
//! use nyala_encoded_key::{KeyBuilder, KeyColumn, KeyDecoder, KeyError, KeyLayout, Type, Value};
//!
//! let layout = KeyLayout::new(vec![Type::I8.into(), Type::String.into(), KeyColumn::descending(Type::I32)])?;
//! let mut buffer = Vec::new();
//! let mut builder = KeyBuilder::new(&layout, &mut buffer);
//! builder.push(Value::Int(-5))?;
//! builder.push(Value::String("ab\0c"))?;
//! builder.push(Value::Int(7))?;
//! let key = builder.finish()?;
//! assert_eq!(buffer[key.clone()], [0x7b, b'a', b'b', 0, 1, b'c', 0, 0, 0x7f, 0xff, 0xff, 0xf8]);
//!
//! let mut scratch = Vec::new();
//! let mut decoder = KeyDecoder::new(&layout, &buffer[key]);
//! assert_eq!(decoder.next_column(&mut scratch)?, Value::Int(-5));
//! assert_eq!(decoder.next_column(&mut scratch)?, Value::String("ab\0c"));
//! assert_eq!(decoder.next_column(&mut scratch)?, Value::Int(7));
//! decoder.finish()?;
//! # Ok::<(), KeyError>(())
//! ```
//!
//! Owns no file, and knows nothing of columns that are not part of a key.
#![forbid(unsafe_code)]

mod arena;
mod bounds;
mod builder;
mod column;
mod decimal;
mod decoder;
mod error;
mod fixed;
mod key;
mod layout;
mod sink;
mod text;
mod time;
mod types;
mod value;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;

pub use arena::KeyArena;
pub use bounds::KeyRange;
pub use builder::KeyBuilder;
pub use column::ColumnType;
pub use decimal::{Decimal, ParseDecimalError};
pub use decoder::{KeyDecoder, borrow_column, decode_column};
pub use error::KeyError;
pub use key::{EncodedKey, KeyProbe};
pub use layout::{KeyColumn, KeyLayout};
pub use time::{Date, Timestamp};
pub use types::{DECIMAL_PRECISION_MAX, Type};
pub use value::{Misfit, Value};

/// The version of the bytes. A file that names another one cannot be read.
pub const CODEC_VERSION: u16 = 1;

/// The longest key, in bytes: 64 KiB - 1.
pub const KEY_BYTES_MAX: usize = 65_535;
