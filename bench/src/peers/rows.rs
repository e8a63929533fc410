//! The rows: which keys there are, what their values hold, and whether a value that was read belongs to its key.
//!
//! A row is known by its number, which is its place in key order. Everything about it follows from the number and the
//! seed. A value carries a stamp, which tells who wrote it, and a word that follows from number and stamp.
//!
//! | bytes of a key | |
//! |---|---|
//! | 4 | host, big-endian |
//! | 8 | time in microseconds, big-endian, the sign bit flipped |
//! | 12 | metric |
//! | 2 | 00 00, which end a string |
//!
//! | bytes of a value | |
//! |---|---|
//! | 8 | stamp, big-endian |
//! | 8 | check word |
//! | to the half | random |
//! | the other half | the first half again, so that a compressor finds half of it |

use std::iter;

use crate::scatter::scatter;

/// The length of an encoded key.
pub(crate) const KEY_BYTES: usize = 26;
/// The shortest value: its first half holds stamp and check word.
pub(crate) const VALUE_BYTES_MIN: usize = 32;

const HOSTS: u64 = 1000;
const METRICS: [&str; 4] = ["cpu.user.pct", "disk.read.ms", "mem.free.kib", "net.rx.bytes"];
/// No row has it, and it sorts right before those that there are.
const NO_METRIC: &str = "absent.value";
/// 2023-11-14, in microseconds.
const START: i64 = 1_700_000_000_000_000;
const MICROS: u64 = 1_000_000;

/// A key before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) host: u32,
    pub(crate) time: i64,
    pub(crate) metric: &'static str,
}

impl Key {
    /// The bytes that every engine without columns stores.
    #[inline]
    pub(crate) fn encode(&self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[..4].copy_from_slice(&self.host.to_be_bytes());
        bytes[4..12].copy_from_slice(&((self.time as u64) ^ (1 << 63)).to_be_bytes());
        bytes[12..24].copy_from_slice(self.metric.as_bytes());
        bytes
    }
}

/// Host and time of an encoded key; `None` if it is none.
#[inline]
pub(crate) fn decode_key(bytes: &[u8]) -> Option<(u32, i64)> {
    let bytes: &[u8; KEY_BYTES] = bytes.try_into().ok()?;
    let host = u32::from_be_bytes(bytes[..4].try_into().ok()?);
    let time = (u64::from_be_bytes(bytes[4..12].try_into().ok()?) ^ (1 << 63)) as i64;
    Some((host, time))
}

/// A value as an engine with columns gives it: the stamp, and all bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    pub(crate) stamp: u64,
    pub(crate) rest: &'a [u8],
}

impl<'a> Value<'a> {
    /// Reads the value of an engine without columns.
    #[inline]
    pub(crate) fn split(bytes: &'a [u8]) -> Option<Value<'a>> {
        let (stamp, rest) = bytes.split_first_chunk()?;
        Some(Value { stamp: u64::from_be_bytes(*stamp), rest })
    }
}

/// All rows of a run.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    count: u64,
    /// How many rows a host has; the last host may have fewer.
    per_host: u64,
    value_bytes: usize,
    seed: u64,
}

impl Rows {
    /// `count` rows, at least one; values of `value_bytes`, at least [`VALUE_BYTES_MIN`].
    pub(crate) fn new(count: u64, value_bytes: usize, seed: u64) -> Rows {
        assert!(count > 0 && value_bytes >= VALUE_BYTES_MIN);
        Rows { count, per_host: count.div_ceil(HOSTS), value_bytes, seed: scatter(seed) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// What a user would say that a row is large.
    pub(crate) fn row_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }

    #[inline]
    pub(crate) fn key(&self, number: u64) -> Key {
        let (host, second) = (number / self.per_host, number % self.per_host);
        let metric = METRICS[(number % METRICS.len() as u64) as usize];
        Key { host: host as u32, time: START + (second * MICROS) as i64, metric }
    }

    /// A key that no row has, right before that of a row.
    #[inline]
    pub(crate) fn missing_key(&self, number: u64) -> Key {
        Key { metric: NO_METRIC, ..self.key(number) }
    }

    /// The row with this host and time, if there is one.
    #[inline]
    pub(crate) fn number(&self, host: u32, time: i64) -> Option<u64> {
        let micros = u64::try_from(time.checked_sub(START)?).ok()?;
        let (second, rest) = (micros / MICROS, micros % MICROS);
        let number = u64::from(host) * self.per_host + second;
        (rest == 0 && second < self.per_host && number < self.count).then_some(number)
    }

    /// The row at a place of a random order in which each row is once.
    #[inline]
    pub(crate) fn shuffled(&self, place: u64) -> u64 {
        // Each step is a permutation of the numbers of so many bits; what lies beyond the rows goes round again.
        let bits = u64::BITS - (self.count - 1).leading_zeros();
        let mask = u64::MAX >> (u64::BITS - bits.max(1));
        let shift = bits.div_ceil(2).max(1);
        let mut number = place;
        loop {
            for factor in [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
                number = number.wrapping_mul(factor).wrapping_add(self.seed) & mask;
                number ^= number >> shift;
            }
            if number < self.count {
                return number;
            }
        }
    }

    #[inline]
    fn check_word(number: u64, stamp: u64) -> u64 {
        scatter(number ^ scatter(stamp))
    }

    /// Writes the value that a row gets with a stamp.
    #[inline]
    pub(crate) fn fill(&self, number: u64, stamp: u64, value: &mut [u8]) {
        let half = value.len().div_ceil(2);
        let check = Rows::check_word(number, stamp);
        value[..8].copy_from_slice(&stamp.to_be_bytes());
        value[8..16].copy_from_slice(&check.to_be_bytes());
        let random = iter::successors(Some(check), |word| Some(scatter(*word)));
        for (bytes, word) in value[16..half].chunks_mut(8).zip(random.skip(1)) {
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
        value.copy_within(0..value.len() - half, half);
    }

    /// Whether a value is one that this row was given, by the words at its beginning and at its end.
    #[inline]
    pub(crate) fn is_of(&self, number: u64, value: Value<'_>) -> bool {
        let rest = value.rest;
        if rest.len() + 8 != self.value_bytes {
            return false;
        }
        // The value is all there: its last eight bytes are those of the first half again.
        let (end, half) = (rest.len(), self.value_bytes.div_ceil(2));
        let repeats = rest[end - 8..] == rest[end - half - 8..end - half];
        repeats && rest[..8] == Rows::check_word(number, value.stamp).to_be_bytes()
    }
}

/// Rows to be written together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    keys: Vec<Key>,
    values: Vec<u8>,
    value_bytes: usize,
}

impl Batch {
    pub(crate) fn new(rows: &Rows) -> Batch {
        Batch { keys: Vec::new(), values: Vec::new(), value_bytes: rows.value_bytes() }
    }

    /// Holds these rows from now on, each with this stamp.
    pub(crate) fn fill(&mut self, rows: &Rows, numbers: &[u64], stamp: u64) {
        self.keys.clear();
        self.keys.extend(numbers.iter().map(|&number| rows.key(number)));
        self.values.resize(numbers.len() * self.value_bytes, 0);
        for (value, &number) in self.values.chunks_exact_mut(self.value_bytes).zip(numbers) {
            rows.fill(number, stamp, value);
        }
    }

    /// Keys and whole values.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &[u8])> {
        self.keys.iter().zip(self.values.chunks_exact(self.value_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_sort_by_number_and_tell_it() {
        let rows = Rows::new(123_457, 100, 1);
        let mut before = [0; KEY_BYTES];
        for number in (0..rows.count()).step_by(7) {
            let key = rows.key(number);
            let bytes = key.encode();
            assert!(before < bytes, "{number}");
            assert_eq!(decode_key(&bytes), Some((key.host, key.time)));
            assert_eq!(rows.number(key.host, key.time), Some(number));
            let missing = rows.missing_key(number).encode();
            assert!(before < missing && missing < bytes);
            before = bytes;
        }
        assert_eq!(rows.number(1000, START), None);
        assert_eq!((rows.number(0, START - 1), rows.number(0, START + 1)), (None, None));
        assert_eq!(decode_key(&before[..25]), None);
    }

    #[test]
    fn the_encoding_is_the_engines_own() {
        use encoded_key::{KeyBuilder, KeyLayout, Type, Value};
        // With a column behind the string, which then has an end.
        let types = [Type::U32, Type::I64, Type::String, Type::Binary];
        let layout = KeyLayout::new(types.iter().map(|ty| (*ty).into()).collect()).expect("a layout");
        let key = Key { host: 7, time: -5, metric: METRICS[1] };
        let mut bytes = Vec::new();
        let mut builder = KeyBuilder::new(&layout, &mut bytes);
        let values = [Value::UInt(7), Value::Int(-5), Value::String(METRICS[1]), Value::Binary(b"")];
        for value in values {
            builder.push(value).expect("it fits");
        }
        builder.finish().expect("all columns");
        assert_eq!(bytes, key.encode());
    }

    #[test]
    fn a_random_order_has_each_row_once() {
        for count in [1, 2, 3, 1000, 1024, 1025, 70_001] {
            let rows = Rows::new(count, 100, 3);
            let numbers: Vec<u64> = (0..count).map(|place| rows.shuffled(place)).collect();
            let different: HashSet<u64> = numbers.iter().copied().collect();
            assert_eq!(different.len() as u64, count);
            if count > 1000 {
                let ascending = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
                assert!((count * 2 / 5..count * 3 / 5).contains(&ascending), "{ascending} of {count}");
            }
        }
    }

    #[test]
    fn values_belong_to_their_rows_and_damage_shows() {
        for value_bytes in [32, 33, 47, 48, 99, 100, 1024] {
            let rows = Rows::new(1000, value_bytes, 1);
            let mut batch = Batch::new(&rows);
            batch.fill(&rows, &[5, 6], 77);
            assert_eq!(batch.iter().len(), 2);
            for ((key, value), number) in batch.iter().zip([5, 6]) {
                assert_eq!(*key, rows.key(number));
                let split = Value::split(value).expect("a value");
                assert_eq!((split.stamp, value.len()), (77, value_bytes));
                assert!(rows.is_of(number, split), "{value_bytes}");
                assert!(!rows.is_of(number + 1, split) && !rows.is_of(number, Value { stamp: 78, ..split }));
                assert!(!rows.is_of(number, Value { rest: &split.rest[1..], ..split }));
                let mut damaged = value.to_vec();
                damaged[value_bytes - 1] ^= 1;
                assert!(!rows.is_of(number, Value::split(&damaged).expect("a value")), "{value_bytes}");
            }
        }
    }

    #[test]
    fn half_of_a_value_is_found_again() {
        let rows = Rows::new(10, 100, 1);
        let mut value = [0; 100];
        rows.fill(3, 9, &mut value);
        assert_eq!(value[..50], value[50..]);
        let different: HashSet<u8> = value[..50].iter().copied().collect();
        assert!(different.len() > 30);
    }
}
