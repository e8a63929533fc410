//! Rows from numbers.
//!
//! Owns what the row of a number looks like, for every kind of key and value. A row is a pure function of its number
//! and the spec, and its number can be told from its key, so a table can be verified without remembering anything.
//!
//! Invariant: different numbers have different keys. Random keys are a permutation of the numbers (`scramble`), with
//! none of their bits lost in any shape of key.
//! Invariant: nothing is allocated per row: a [`RowSource`] fills the same buffers again.
//!
//! | shape | sequential | random; `p` is the scrambled number |
//! |---|---|---|
//! | int | i64: the number | i64: `p` |
//! | composite | u32: number / 2^20, timestamp: a second for each of the rest, string | u32: the upper 10 bits of `p`, timestamp: the lower 54 as a signed number, string |
//! | string | the number in digits, with zeros before it | 11 characters of 6 bits of `p` each, then any text |

mod text;

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use nyala::{Record, Result, RowRef, Schema, Timestamp, Type, Value};

/// What the primary key looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// One i64
    Int,
    /// u32, timestamp and a string of 12 characters: 26 bytes
    Composite,
    /// One string
    String,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Int => "int",
            Shape::Composite => "composite",
            Shape::String => "string",
        }
    }

    fn columns(self) -> usize {
        match self {
            Shape::Int | Shape::String => 1,
            Shape::Composite => 3,
        }
    }
}

/// What rows to make.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) shape: Shape,
    pub(crate) has_random_keys: bool,
    pub(crate) has_random_values: bool,
    pub(crate) int_columns: usize,
    pub(crate) string_columns: usize,
    /// In bytes.
    pub(crate) string_len: usize,
    pub(crate) string_fixed: Option<String>,
    pub(crate) seed: u64,
}

/// Sequential composite keys: so many rows have the same first column.
const ROWS_PER_HOST: u64 = 1 << 20;
/// The time of their first row, in microseconds: 2023-11-14.
const FIRST_MICROS: i64 = 1_700_000_000_000_000;
const MICROS_PER_ROW: i64 = 1_000_000;
/// Random composite keys: the timestamp takes so many bits, the first column the rest.
const TIME_BITS: u32 = 54;
/// The characters at the start of a random string key that are its number.
const NUMBER_SYMBOLS: usize = 11;

impl Spec {
    /// The table's columns.
    ///
    /// # Errors
    /// Those of [`nyala::SchemaBuilder::build`].
    pub(crate) fn schema(&self) -> Result<Schema> {
        let mut schema = Schema::builder();
        schema = match self.shape {
            Shape::Int => schema.key("id", Type::I64),
            Shape::Composite => {
                schema.key("host", Type::U32).key("time", Type::Timestamp).key("metric", Type::String)
            }
            Shape::String => schema.key("name", Type::String),
        };
        for column in 0..self.int_columns {
            schema = schema.column(format!("int_{column}"), Type::I64);
        }
        for column in 0..self.string_columns {
            schema = schema.column(format!("string_{column}"), Type::String);
        }
        schema.build()
    }

    /// Row numbers lie below this.
    pub(crate) fn rows_max(&self) -> u64 {
        match self.shape {
            Shape::Composite if !self.has_random_keys => u64::from(u32::MAX) * ROWS_PER_HOST,
            Shape::String if !self.has_random_keys => {
                let digits = u32::try_from(self.string_len.min(19)).expect("at most 19");
                10u64.pow(digits).min(i64::MAX as u64)
            }
            _ => i64::MAX as u64,
        }
    }

    /// The shortest string that can be a key of its own for any number.
    pub(crate) fn key_text_len_min(&self) -> usize {
        if self.has_random_keys { NUMBER_SYMBOLS } else { 1 }
    }

    /// The number of the row that has this key; any number if there is no such row. The row's key columns must be the
    /// first of its columns.
    ///
    /// # Errors
    /// Those of [`RowRef::get`].
    pub(crate) fn number_of(&self, row: RowRef<'_>) -> Result<u64> {
        let bits = match self.shape {
            Shape::Int => row.get::<i64>(0)? as u64,
            Shape::Composite => {
                let host = u64::from(row.get::<u32>(0)?);
                let micros = row.get::<Timestamp>(1)?.micros();
                if self.has_random_keys {
                    (host << TIME_BITS) | (micros as u64 & ((1 << TIME_BITS) - 1))
                } else {
                    let second = micros.wrapping_sub(FIRST_MICROS) / MICROS_PER_ROW;
                    (host * ROWS_PER_HOST).wrapping_add(second as u64)
                }
            }
            Shape::String => {
                let text = row.get::<&str>(0)?.as_bytes();
                if self.has_random_keys {
                    text::read_symbols(&text[..text.len().min(NUMBER_SYMBOLS)])
                } else {
                    text::read_digits(text)
                }
            }
        };
        Ok(if self.has_random_keys { unscramble(bits, self.seed) } else { bits })
    }
}

/// A row that is made again and again from numbers.
#[derive(Debug)]
pub(crate) struct RowSource<'s> {
    spec: &'s Spec,
    id: i64,
    host: u32,
    time: Timestamp,
    key_text: String,
    ints: Vec<i64>,
    strings: Vec<String>,
}

impl<'s> RowSource<'s> {
    pub(crate) fn new(spec: &'s Spec) -> RowSource<'s> {
        let string = spec.string_fixed.clone().unwrap_or_default();
        RowSource {
            spec,
            id: 0,
            host: 0,
            time: Timestamp::from_micros(0),
            key_text: String::new(),
            ints: vec![0; spec.int_columns],
            strings: vec![string; spec.string_columns],
        }
    }

    /// Becomes the row of this number.
    pub(crate) fn fill(&mut self, number: u64) {
        self.fill_key(number);
        self.fill_values(number);
    }

    /// Becomes the row of this number as far as its key goes.
    pub(crate) fn fill_key(&mut self, number: u64) {
        let spec = self.spec;
        if spec.has_random_keys {
            self.fill_random_key(scramble(number, spec.seed));
        } else {
            self.fill_sequential_key(number);
        }
    }

    fn fill_sequential_key(&mut self, number: u64) {
        match self.spec.shape {
            Shape::Int => self.id = number as i64,
            Shape::Composite => {
                self.host = u32::try_from(number / ROWS_PER_HOST).expect("checked with the arguments");
                let second = (number % ROWS_PER_HOST) as i64;
                self.time = Timestamp::from_micros(FIRST_MICROS + second * MICROS_PER_ROW);
                text::put_metric_of_digits(&mut self.key_text, number);
            }
            Shape::String => text::put_digits(&mut self.key_text, self.spec.string_len, number),
        }
    }

    fn fill_random_key(&mut self, bits: u64) {
        match self.spec.shape {
            Shape::Int => self.id = bits as i64,
            Shape::Composite => {
                self.host = (bits >> TIME_BITS) as u32;
                let unused = u64::BITS - TIME_BITS;
                self.time = Timestamp::from_micros(((bits << unused) as i64) >> unused);
                text::put_random_metric(&mut self.key_text, bits);
            }
            Shape::String => {
                text::put_symbols(&mut self.key_text, NUMBER_SYMBOLS, bits, self.spec.string_len);
            }
        }
    }

    fn fill_values(&mut self, number: u64) {
        let spec = self.spec;
        if !spec.has_random_values {
            self.ints.fill(number as i64);
            if spec.string_fixed.is_none() {
                for string in &mut self.strings {
                    text::put_digits(string, spec.string_len, number);
                }
            }
            return;
        }
        // Another stream than the keys', else the first value of a row would be its key.
        let mut state = scramble(number, spec.seed ^ 0x7661_6c75_6573);
        for int in &mut self.ints {
            *int = next(&mut state) as i64;
        }
        if spec.string_fixed.is_none() {
            for string in &mut self.strings {
                text::put_random(string, spec.string_len, &mut state);
            }
        }
    }

    /// The columns of the key alone.
    pub(crate) fn key(&self) -> Key<'_> {
        Key(self)
    }

    /// Whether this is that row, in all columns.
    ///
    /// # Errors
    /// Those of [`RowRef::value`].
    pub(crate) fn equals(&self, row: RowRef<'_>) -> Result<bool> {
        if row.len() != self.columns() {
            return Ok(false);
        }
        for column in 0..row.len() {
            if row.value(column)? != self.value_at(column) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn value_at(&self, column: usize) -> Value<'_> {
        let Some(column) = column.checked_sub(self.spec.shape.columns()) else {
            return match (self.spec.shape, column) {
                (Shape::Int, _) => Value::Int(self.id),
                (Shape::Composite, 0) => Value::UInt(u64::from(self.host)),
                (Shape::Composite, 1) => Value::Timestamp(self.time),
                _ => Value::String(&self.key_text),
            };
        };
        match self.ints.get(column) {
            Some(&int) => Value::Int(int),
            None => Value::String(&self.strings[column - self.ints.len()]),
        }
    }
}

impl Record for RowSource<'_> {
    fn columns(&self) -> usize {
        self.spec.shape.columns() + self.ints.len() + self.strings.len()
    }

    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>> {
        Ok(self.value_at(index))
    }
}

/// A row's key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a>(&'a RowSource<'a>);

impl Record for Key<'_> {
    fn columns(&self) -> usize {
        self.0.spec.shape.columns()
    }

    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>> {
        Ok(self.0.value_at(index))
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST_FACTOR: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND_FACTOR: u64 = 0x94d0_49bb_1331_11eb;

/// The next of a stream of random numbers (SplitMix64).
#[inline]
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix(*state)
}

/// Mixes all bits, and loses none: an odd factor and a shifted exclusive or can both be undone.
#[inline]
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(FIRST_FACTOR);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(SECOND_FACTOR);
    bits ^ (bits >> 31)
}

/// A permutation of all numbers, another one for each seed.
#[inline]
fn scramble(number: u64, seed: u64) -> u64 {
    mix(number.wrapping_add(seed.wrapping_mul(GOLDEN)))
}

/// The number that `scramble` made `bits` of.
#[inline]
fn unscramble(bits: u64, seed: u64) -> u64 {
    const FIRST_INVERSE: u64 = inverse(FIRST_FACTOR);
    const SECOND_INVERSE: u64 = inverse(SECOND_FACTOR);
    let bits = (bits ^ (bits >> 31) ^ (bits >> 62)).wrapping_mul(SECOND_INVERSE);
    let bits = (bits ^ (bits >> 27) ^ (bits >> 54)).wrapping_mul(FIRST_INVERSE);
    let bits = bits ^ (bits >> 30) ^ (bits >> 60);
    bits.wrapping_sub(seed.wrapping_mul(GOLDEN))
}

/// What an odd factor has to be multiplied with to give 1. Each step doubles the bits that are right.
const fn inverse(factor: u64) -> u64 {
    let mut inverse = factor;
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// What making a row costs by itself, in nanoseconds: what the load would take if the engine took nothing.
pub(crate) fn nanos_per_row(spec: &Spec) -> f64 {
    const ROWS_MAX: u64 = 20_000;
    const TIME_MAX: Duration = Duration::from_millis(20);
    let mut row = RowSource::new(spec);
    let start = Instant::now();
    let mut number = 0;
    while number < ROWS_MAX && (number % 100 > 0 || start.elapsed() < TIME_MAX) {
        row.fill(number);
        black_box(&row);
        number += 1;
    }
    start.elapsed().as_secs_f64() * 1e9 / number.max(1) as f64
}

#[cfg(test)]
mod tests;
