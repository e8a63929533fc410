//! Floats as text, to the bit.
//!
//! The shortest digits that give the same float again. A NaN that is not the usual one is written with its bits, since
//! floats can be keys, and keys are told apart by all their bits.

/// An `f64` as text.
pub(crate) fn show_f64(value: f64) -> String {
    if value.is_nan() && value.to_bits() != f64::NAN.to_bits() {
        return format!("NaN(0x{:016x})", value.to_bits());
    }
    format!("{value:?}")
}

/// An `f32` as text.
pub(crate) fn show_f32(value: f32) -> String {
    if value.is_nan() && value.to_bits() != f32::NAN.to_bits() {
        return format!("NaN(0x{:08x})", value.to_bits());
    }
    format!("{value:?}")
}

/// An `f64` of text: the nearest to a decimal number, `inf`, `NaN`, or a NaN with its bits.
pub(crate) fn parse_f64(text: &str) -> Option<f64> {
    match nan_bits(text) {
        Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits).filter(|value| value.is_nan()),
        None => text.parse().ok().filter(|value: &f64| value.is_finite() || is_named(text)),
    }
}

/// An `f32` of text.
pub(crate) fn parse_f32(text: &str) -> Option<f32> {
    match nan_bits(text) {
        Some(bits) => u32::from_str_radix(bits, 16).ok().map(f32::from_bits).filter(|value| value.is_nan()),
        None => text.parse().ok().filter(|value: &f32| value.is_finite() || is_named(text)),
    }
}

fn nan_bits(text: &str) -> Option<&str> {
    text.strip_prefix("NaN(0x")?.strip_suffix(')')
}

/// Whether infinity or NaN was meant, and not a number that is too large.
fn is_named(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_digit())
}
