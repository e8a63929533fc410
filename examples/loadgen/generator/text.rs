//! Generated text: digits, and random characters among which are NUL and letters of two bytes.
//!
//! Every function fills a `String` anew, with as many bytes as asked for, in the memory that it has.

use super::next;

/// The 64 characters that random text is made of: 6 bits each. NUL is one of them.
const SYMBOLS: [u8; 64] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz\0";

/// What each byte stands for; 64 if it is no symbol.
const SYMBOL_OF: [u8; 256] = {
    let mut table = [64; 256];
    let mut symbol = 0;
    while symbol < 64 {
        table[SYMBOLS[symbol] as usize] = symbol as u8;
        symbol += 1;
    }
    table
};

/// One of 32 letters from U+00E0 on, two bytes each.
fn letter(bits: u64) -> [u8; 2] {
    [0xc3, 0xa0 + (bits & 31) as u8]
}

/// Lets `write` put bytes into the string. They must be UTF-8.
fn rewrite(text: &mut String, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::mem::take(text).into_bytes();
    bytes.clear();
    write(&mut bytes);
    *text = String::from_utf8(bytes).expect("made of whole characters");
}

/// The number in digits, with zeros before it; its last digits if there is no room for more.
pub(super) fn put_digits(text: &mut String, len: usize, number: u64) {
    rewrite(text, |bytes| {
        bytes.resize(len, b'0');
        write_digits(bytes, number);
    });
}

fn write_digits(zeros: &mut [u8], mut number: u64) {
    for byte in zeros.iter_mut().rev() {
        if number == 0 {
            break;
        }
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Undoes `put_digits`; any number for other text.
pub(super) fn read_digits(text: &[u8]) -> u64 {
    text.iter()
        .fold(0u64, |number, byte| number.wrapping_mul(10).wrapping_add(u64::from(byte.wrapping_sub(b'0'))))
}

/// Random text of `len` bytes.
pub(super) fn put_random(text: &mut String, len: usize, state: &mut u64) {
    rewrite(text, |bytes| {
        bytes.resize(len, 0);
        write_random(bytes, state);
    });
}

fn write_random(out: &mut [u8], state: &mut u64) {
    for chunk in out.chunks_mut(8) {
        for (byte, bits) in chunk.iter_mut().zip(next(state).to_le_bytes()) {
            *byte = SYMBOLS[usize::from(bits & 63)];
        }
    }
    if out.len() >= 2 {
        let bits = next(state);
        let at = ((u128::from(bits) * (out.len() as u128 - 1)) >> 64) as usize;
        out[at..at + 2].copy_from_slice(&letter(bits));
    }
}

/// All of `bits` in the first `symbols` characters, random text behind them, `len` bytes in all.
pub(super) fn put_symbols(text: &mut String, symbols: usize, bits: u64, len: usize) {
    rewrite(text, |bytes| {
        bytes.resize(len, 0);
        let (head, tail) = bytes.split_at_mut(symbols);
        let mut rest = bits;
        for byte in head {
            *byte = SYMBOLS[(rest & 63) as usize];
            rest >>= 6;
        }
        write_random(tail, &mut { bits });
    });
}

/// The bits in the first characters of `put_symbols`; any number for other text.
pub(super) fn read_symbols(text: &[u8]) -> u64 {
    text.iter().rev().fold(0u64, |bits, byte| (bits << 6) | u64::from(SYMBOL_OF[usize::from(*byte)] & 63))
}

/// Twelve characters, fourteen bytes: a letter, ten digits of the number, a letter.
pub(super) fn put_metric_of_digits(text: &mut String, number: u64) {
    put_metric(text, 0, |digits| {
        digits.fill(b'0');
        write_digits(digits, number);
    });
}

/// Twelve characters, fourteen bytes: a letter, ten random characters, a letter.
pub(super) fn put_random_metric(text: &mut String, bits: u64) {
    let mut state = bits;
    let mut random = next(&mut state);
    put_metric(text, next(&mut state), |symbols| {
        for byte in symbols {
            *byte = SYMBOLS[(random & 63) as usize];
            random >>= 6;
        }
    });
}

fn put_metric(text: &mut String, letters: u64, write: impl FnOnce(&mut [u8])) {
    rewrite(text, |bytes| {
        bytes.resize(14, 0);
        bytes[..2].copy_from_slice(&letter(letters));
        write(&mut bytes[2..12]);
        bytes[12..].copy_from_slice(&letter(letters >> 5));
    });
}
