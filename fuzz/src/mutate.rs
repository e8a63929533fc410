//! A small mutator of its own, so that the corpus can be varied without libFuzzer: deterministic by its seed.
//!
//! Knows no format. What it does to an input is what finds faults in decoders: bits and bytes that change, numbers at
//! the ends of their range at any place, in either byte order or as a varint, pieces that go, come twice, change places
//! or come from another input.

/// A generator of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound as u64).expect("it is below a usize")
    }
}

/// Numbers that are often handled wrong.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x0001_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x0001_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

/// Changes `bytes` in one to four ways. `other` is an input to take pieces from. It gets no longer than `bytes_max`.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance, bytes_max: usize) {
    for _ in 0..=chance.below(4) {
        change(bytes, other, chance);
    }
    bytes.truncate(bytes_max);
}

fn change(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    if bytes.is_empty() {
        bytes.push(chance.number().to_le_bytes()[0]);
        return;
    }
    let at = chance.below(bytes.len());
    let length = piece(chance, bytes.len() - at);
    match chance.below(12) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes[at] = chance.number().to_le_bytes()[0],
        2 => bytes[at] = bytes[at].wrapping_add(1),
        3 => bytes[at] = bytes[at].wrapping_sub(1),
        4 => number(bytes, at, chance),
        5 => nearby(bytes, at, chance),
        6 => {
            bytes.drain(at..at + length);
        }
        7 => {
            let copy = bytes[at..at + length].to_vec();
            let to = chance.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        8 => {
            let copy = bytes[at..at + length].to_vec();
            let to = chance.below(bytes.len() - length + 1);
            bytes[to..to + length].copy_from_slice(&copy);
        }
        9 if !other.is_empty() => {
            let from = chance.below(other.len());
            let length = piece(chance, other.len() - from);
            bytes.splice(at..at, other[from..from + length].iter().copied());
        }
        10 => bytes[at..at + length].fill(0),
        _ => bytes.truncate(at),
    }
}

/// The length of a piece, most often short.
fn piece(chance: &mut Chance, most: usize) -> usize {
    let bound = 1 << chance.below(10);
    1 + chance.below(most.min(bound))
}

/// Writes one of the special numbers.
fn number(bytes: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let number = NUMBERS[chance.below(NUMBERS.len())];
    let width = [1, 2, 4, 8][chance.below(4)].min(bytes.len() - at);
    let here = &mut bytes[at..at + width];
    match chance.below(3) {
        0 => here.copy_from_slice(&number.to_le_bytes()[..width]),
        1 => here.copy_from_slice(&number.to_be_bytes()[8 - width..]),
        _ => {
            let mut varint = Vec::new();
            codec::put_varint(&mut varint, number);
            let end = bytes.len().min(at + 1 + chance.below(4));
            bytes.splice(at..end, varint);
        }
    }
}

/// Moves a number of four bytes a little: lengths and offsets that are off by some.
fn nearby(bytes: &mut [u8], at: usize, chance: &mut Chance) {
    let Some(here) = bytes.get_mut(at..at + 4) else { return };
    let number = u32::from_le_bytes(here.try_into().expect("four bytes"));
    let by = u32::try_from(chance.below(33)).expect("small").wrapping_sub(16);
    here.copy_from_slice(&number.wrapping_add(by).to_le_bytes());
}
