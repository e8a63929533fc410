//! Which stretches of some bytes carry their own checksum, all of them at once.
//!
//! Trying every end with every beginning takes a time that grows with the square of the bytes. A CRC is linear, so
//! there is a better way. With `Z` for what one more zero byte does to a checksum, `P(i)` for the checksum of the bytes
//! before `i`, and `S(i)` for the seed of a block at `i`, the block from `s` to `e` has the checksum
//!
//! ```text
//! Z^(e-s) (S(s) + P(s)) + P(e)
//! ```
//!
//! where `+` is exclusive or. It is the one stored at `e` exactly if `Z^-s (S(s) + P(s))` equals `Z^-e (stored +
//! P(e))`. One side knows only the beginning, the other only the end: both are computed once for each place, sorted,
//! and compared. `Z` multiplies by a power of x modulo the polynomial of the CRC, so it can be undone.

use codec::{Checksummer, FileId, Kind};

/// The polynomial of CRC-32, the lowest power in the highest bit, as in zlib.
const POLYNOMIAL: u32 = 0xedb8_8320;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// A checksum that takes in one byte after the other, and can be asked after each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running(u32);

impl Running {
    /// Of a block of `kind` at `offset` of `file`.
    pub(super) fn new(kind: Kind, file: FileId, offset: u64) -> Running {
        Running(!seed(kind, file, offset))
    }

    fn of_nothing() -> Running {
        Running(!0)
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        self.0 = TABLE[usize::from(self.0 as u8 ^ byte)] ^ self.0 >> 8;
    }

    #[inline]
    pub(super) fn value(self) -> u32 {
        !self.0
    }
}

/// The checksum of a block before its first byte.
fn seed(kind: Kind, file: FileId, offset: u64) -> u32 {
    Checksummer::new(kind, file, offset).value().0
}

/// `a` times `b` modulo the polynomial.
#[inline]
fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    for power in (0..32).rev() {
        sum ^= b & (a >> power & 1).wrapping_neg();
        b = b >> 1 ^ POLYNOMIAL & (b & 1).wrapping_neg();
    }
    sum
}

/// What `Z` undone makes of `a`.
#[inline]
fn before_a_zero_byte(mut a: u32) -> u32 {
    for _ in 0..8 {
        a = if a >> 31 == 1 { (a ^ POLYNOMIAL) << 1 | 1 } else { a << 1 };
    }
    a
}

/// x to the power of 0.
const ONE: u32 = 1 << 31;

/// The pairs of a beginning and an end between which a checksum holds, by beginning, then by end. `bytes` lie at
/// `offset` of `file`. An end is where the stored checksum stands, which the bytes must hold.
///
/// Both lists ascend. Of what it finds, one pair in four thousand million is chance.
pub(super) fn matches(
    (kind, file, offset): (Kind, FileId, u64),
    bytes: &[u8],
    beginnings: &[usize],
    ends: &[usize],
) -> Vec<(usize, usize)> {
    let mut begin: Vec<(u32, usize)> = Vec::with_capacity(beginnings.len());
    let mut end: Vec<(u32, usize)> = Vec::with_capacity(ends.len());
    let (mut beginnings, mut ends) = (beginnings.iter().copied().peekable(), ends.iter().copied().peekable());
    let mut prefix = Running::of_nothing();
    let mut power = ONE;
    for at in 0..bytes.len() {
        if beginnings.next_if_eq(&at).is_some() {
            let sum = seed(kind, file, offset + at as u64) ^ prefix.value();
            begin.push((product(power, sum), at));
        }
        if ends.next_if_eq(&at).is_some()
            && let Some(stored) = bytes[at..].first_chunk()
        {
            let sum = u32::from_le_bytes(*stored) ^ prefix.value();
            end.push((product(power, sum), at));
        }
        prefix.push(bytes[at]);
        power = before_a_zero_byte(power);
    }
    begin.sort_unstable();
    end.sort_unstable();
    let mut found = Vec::new();
    let mut from = 0;
    for (sum, begins) in begin {
        from += end[from..].partition_point(|(other, _)| *other < sum);
        let behind = from + end[from..].partition_point(|place| *place <= (sum, begins));
        let equal = end[behind..].iter().take_while(|(other, _)| *other == sum);
        found.extend(equal.map(|(_, ends)| (begins, *ends)).take(EQUAL_MAX));
    }
    found.sort_unstable();
    found
}

/// How many ends are taken for one beginning. There is one, and chance; more are made on purpose.
const EQUAL_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use codec::checksum;

    use super::*;

    #[test]
    fn the_running_checksum_is_the_checksum() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut running = Running::new(Kind::KeyedBlock, FileId(9), 1 << 40);
        for at in 0..bytes.len() {
            let sum = checksum(Kind::KeyedBlock, FileId(9), 1 << 40, &[&bytes[..at]]);
            assert_eq!(running.value(), sum.0, "{at}");
            running.push(bytes[at]);
        }
    }

    #[test]
    fn a_zero_byte_can_be_undone() {
        let mut value = 0x1234_5678u32;
        for _ in 0..100 {
            let after = TABLE[usize::from(value as u8)] ^ value >> 8;
            assert_eq!(before_a_zero_byte(after), value);
            assert_eq!(product(ONE, value), value);
            value = value.wrapping_mul(0x9e37_79b9) ^ after;
        }
    }

    /// Every stretch that checks out is found, those that lie within one another too, and no other.
    #[test]
    fn every_stretch_with_its_checksum_is_found() {
        let place = (Kind::OrdinalBlock, FileId(3), 1000);
        let mut bytes: Vec<u8> = (0..2000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let planted = [(0, 50), (54, 55), (90, 700), (120, 300), (304, 690), (1000, 1996)];
        for (begin, end) in planted {
            let sum = checksum(place.0, place.1, 1000 + begin as u64, &[&bytes[begin..end]]).0;
            bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        }
        // What was planted later has changed what the long one takes in.
        let sum = checksum(place.0, place.1, 1090, &[&bytes[90..700]]).0;
        bytes[700..704].copy_from_slice(&sum.to_le_bytes());
        let all: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(matches(place, &bytes, &all, &all), planted);
        assert_eq!(matches(place, &bytes, &[54, 120], &[55, 690, 1996, 1999]), [(54, 55)]);
        assert!(matches((Kind::KeyedBlock, place.1, place.2), &bytes, &all, &all).is_empty());
        assert!(matches((place.0, FileId(4), place.2), &bytes, &all, &all).is_empty());
        assert!(matches((place.0, place.1, 999), &bytes, &all, &all).is_empty());
    }

    /// As many ends as one likes can be made to fit one beginning.
    #[test]
    fn what_is_made_on_purpose_costs_no_more() {
        let place = (Kind::OrdinalBlock, FileId(3), 0);
        let mut bytes = vec![0; 4096];
        for end in (8..4088).step_by(8) {
            let sum = checksum(place.0, place.1, 0, &[&bytes[..end]]).0;
            bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        }
        let all: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(matches(place, &bytes, &[0], &all).len(), EQUAL_MAX);
    }
}
