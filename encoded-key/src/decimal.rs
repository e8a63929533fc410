//! Decimal numbers of up to 128 bits.
//!
//! Compared, equated and hashed as numbers: 1.5 is 1.50. Never rounds.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use thiserror::Error;

/// The number `unscaled / 10^scale`.
///
/// ```
/// use nyala_encoded_key::Decimal;
/// let price: Decimal = "-123.45".parse()?;
/// assert_eq!(price, Decimal { unscaled: -12_345, scale: 2 });
/// assert_eq!(price, Decimal::new(-123_450, 3));
/// assert_eq!(price.to_string(), "-123.45");
/// assert_eq!(price.rescaled(1), None);
/// # Ok::<(), nyala_encoded_key::ParseDecimalError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    /// The digits, as if there were no point.
    pub unscaled: i128,
    /// How many of the digits stand after the point.
    pub scale: u8,
}

impl Decimal {
    /// The number `unscaled / 10^scale`.
    #[must_use]
    pub const fn new(unscaled: i128, scale: u8) -> Decimal {
        Decimal { unscaled, scale }
    }

    /// The same number with `scale` digits after the point; `None` if digits would be lost, or if it does not fit.
    #[must_use]
    pub fn rescaled(self, scale: u8) -> Option<Decimal> {
        if self.unscaled == 0 {
            return Some(Decimal { unscaled: 0, scale });
        }
        let factor = power_of_ten(self.scale.abs_diff(scale))?;
        let unscaled = if scale >= self.scale {
            self.unscaled.checked_mul(factor)?
        } else if self.unscaled % factor == 0 {
            self.unscaled / factor
        } else {
            return None;
        };
        Some(Decimal { unscaled, scale })
    }

    /// Whether the digits, as they are, number at most `precision`.
    pub(crate) fn fits_precision(self, precision: u8) -> bool {
        power_of_ten(precision).is_none_or(|limit| self.unscaled.unsigned_abs() < limit.unsigned_abs())
    }

    /// The same number with `scale` digits after the point, if it can be and has no more than `precision` digits then.
    #[inline]
    pub(crate) fn fitted(self, precision: u8, scale: u8) -> Option<Decimal> {
        let value = if self.scale == scale { self } else { self.rescaled(scale)? };
        value.fits_precision(precision).then_some(value)
    }

    /// Without zeros at the end of the fraction: one form for each number.
    fn reduced(mut self) -> Decimal {
        if self.unscaled == 0 {
            return Decimal::default();
        }
        while self.scale > 0 && self.unscaled % 10 == 0 {
            self.unscaled /= 10;
            self.scale -= 1;
        }
        self
    }
}

/// `None` if it does not fit.
fn power_of_ten(exponent: u8) -> Option<i128> {
    10i128.checked_pow(u32::from(exponent))
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        if self.scale > other.scale {
            return other.cmp(self).reverse();
        }
        let scaled = match self.unscaled {
            0 => Some(0),
            unscaled => {
                power_of_ten(other.scale - self.scale).and_then(|factor| unscaled.checked_mul(factor))
            }
        };
        match scaled {
            Some(unscaled) => unscaled.cmp(&other.unscaled),
            // Too far from zero for 128 bits, and so farther than any other.
            None => self.unscaled.cmp(&0),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let reduced = self.reduced();
        reduced.unscaled.hash(state);
        reduced.scale.hash(state);
    }
}

impl fmt::Display for Decimal {
    /// With exactly `scale` digits after the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0>width$}", self.unscaled.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        f.pad_integral(self.unscaled >= 0, "", &format!("{whole}{point}{fraction}"))
    }
}

/// Why a text is no [`Decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseDecimalError {
    /// Something else than an optional sign, digits, and at most one point between or beside them.
    #[error("not a decimal number")]
    Malformed,
    /// More digits than 128 bits hold, or more than 255 after the point.
    #[error("a decimal number with too many digits")]
    TooLarge,
}

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    /// Reads `-123.45`, `+7`, `.5`, `5.`; no exponents, no separators.
    fn from_str(text: &str) -> Result<Decimal, ParseDecimalError> {
        let (negative, digits) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            all => (false, all),
        };
        let mut number = Decimal::default();
        let (mut seen_point, mut seen_digit) = (false, false);
        for &byte in digits {
            match byte {
                b'.' if !seen_point => seen_point = true,
                b'0'..=b'9' => {
                    seen_digit = true;
                    let digit = i128::from(byte - b'0');
                    // Towards the sign, for i128::MIN has no positive twin.
                    number.unscaled = number
                        .unscaled
                        .checked_mul(10)
                        .and_then(|value| value.checked_add(if negative { -digit } else { digit }))
                        .ok_or(ParseDecimalError::TooLarge)?;
                    if seen_point {
                        number.scale = number.scale.checked_add(1).ok_or(ParseDecimalError::TooLarge)?;
                    }
                }
                _ => return Err(ParseDecimalError::Malformed),
            }
        }
        if seen_digit { Ok(number) } else { Err(ParseDecimalError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::hash::DefaultHasher;

    fn hash(value: Decimal) -> u64 {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn texts_and_numbers() {
        for (text, unscaled, scale, printed) in [
            ("0", 0, 0, "0"),
            ("-0.00", 0, 2, "0.00"),
            ("123.45", 12_345, 2, "123.45"),
            ("-.5", -5, 1, "-0.5"),
            ("+7.", 7, 0, "7"),
            ("0.001", 1, 3, "0.001"),
            (
                "-170141183460469231731687303715884105728",
                i128::MIN,
                0,
                "-170141183460469231731687303715884105728",
            ),
        ] {
            let value: Decimal = text.parse().unwrap();
            assert_eq!((value.unscaled, value.scale), (unscaled, scale), "{text}");
            assert_eq!(value.to_string(), printed);
        }
        for text in ["", ".", "-", "1e5", "1.2.3", "1_000", " 1", "--1", "١"] {
            assert_eq!(text.parse::<Decimal>(), Err(ParseDecimalError::Malformed), "{text:?}");
        }
        let too_large = "170141183460469231731687303715884105728";
        assert_eq!(too_large.parse::<Decimal>(), Err(ParseDecimalError::TooLarge));
        assert_eq!(format!("0.{}", "0".repeat(256)).parse::<Decimal>(), Err(ParseDecimalError::TooLarge));
    }

    #[test]
    fn rescaling_is_exact_or_refused() {
        let value = Decimal::new(1230, 2);
        assert_eq!(value.rescaled(1).map(|d| d.unscaled), Some(123));
        assert_eq!(value.rescaled(0).map(|d| d.unscaled), None);
        assert_eq!(value.rescaled(255).map(|d| d.unscaled), None);
        assert_eq!(Decimal::new(0, 0).rescaled(255).map(|d| (d.unscaled, d.scale)), Some((0, 255)));
        assert_eq!(Decimal::new(i128::MIN, 0).rescaled(1).map(|d| d.unscaled), None);
        assert_eq!(Decimal::new(5, 255).rescaled(0).map(|d| d.unscaled), None);
    }

    #[test]
    fn order_beyond_128_bits() {
        let tiny = Decimal::new(1, 255);
        let huge = Decimal::new(i128::MAX, 0);
        let deep = Decimal::new(i128::MIN, 0);
        assert!(deep < Decimal::new(-1, 255) && Decimal::new(-1, 255) < Decimal::new(0, 7));
        assert!(Decimal::new(0, 7) < tiny && tiny < huge);
        assert!(Decimal::new(i128::MIN, 255) > deep);
    }

    proptest! {
        #[test]
        fn equal_numbers_hash_alike(unscaled in -10_000i128..10_000, scale in 0u8..6, more in 0u8..6) {
            let one = Decimal::new(unscaled, scale);
            let other = one.rescaled(scale + more).unwrap();
            prop_assert_eq!(one, other);
            prop_assert_eq!(hash(one), hash(other));
        }

        #[test]
        fn order_is_that_of_the_numbers(a in any::<i32>(), b in any::<i32>(), p in 0u8..9, q in 0u8..9) {
            let wide = |unscaled: i32, scale: u8| i128::from(unscaled) * 10i128.pow(u32::from(9 - scale));
            let (x, y) = (Decimal::new(a.into(), p), Decimal::new(b.into(), q));
            prop_assert_eq!(x.cmp(&y), wide(a, p).cmp(&wide(b, q)));
        }

        #[test]
        fn printed_numbers_parse_back(unscaled in any::<i128>(), scale in any::<u8>()) {
            let value = Decimal::new(unscaled, scale);
            let back: Decimal = value.to_string().parse().unwrap();
            prop_assert_eq!((back.unscaled, back.scale), (unscaled, scale));
        }
    }
}
