//! What types the columns of a file have, from the texts in them.
//!
//! The narrowest type that gives every text back as the same value: bool (`true`, `false`), i64, u64, f64, decimal for
//! numbers that a float would round, date, timestamp; else string. Numbers with a plus or leading zeros are strings,
//! since they are names more often than numbers. Columns outside the key can be null.

use nyala::{ColumnType, Schema, Type};

use super::Field;
use crate::failure::Failure;
use crate::value::{ColumnSpec, parse_date, parse_timestamp};

/// The most digits of a decimal.
const DIGITS_MAX: usize = 38;

/// What is known of all columns.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    columns: Vec<Guess>,
}

/// A schema that was found out, with what a person may want to know of it.
#[derive(Debug)]
pub(crate) struct Inferred {
    pub(crate) schema: Schema,
    pub(crate) hints: Vec<String>,
}

impl Guesses {
    /// Looks at one field of the column at that position.
    pub(crate) fn see(&mut self, column: usize, field: &Field, nulls: &[String]) {
        if self.columns.len() <= column {
            self.columns.resize_with(column + 1, Guess::default);
        }
        let guess = &mut self.columns[column];
        match field {
            Field::Text(text) if nulls.contains(text) => {}
            Field::Text(text) => guess.see(text),
            Field::Json(raw) => match raw.get().as_bytes().first() {
                Some(b'n') => {}
                Some(b'"') => match serde_json::from_str::<String>(raw.get()) {
                    // A number in quotes was meant to be text.
                    Ok(text) => guess.see_text(&text),
                    Err(_) => guess.see_text(""),
                },
                _ => guess.see(raw.get()),
            },
        }
    }

    /// The schema: first the key's columns, then the others in the order of the file. `given` go before what was found.
    pub(crate) fn schema(
        &self,
        names: &[String],
        key: &[ColumnKey],
        given: &[ColumnSpec],
    ) -> anyhow::Result<Inferred> {
        let position = |name: &str| {
            names.iter().position(|other| other == name).ok_or_else(|| {
                Failure::usage(format!("there is no column {name:?} in the file"))
                    .advise(format!("there are: {}", names.join(", ")))
            })
        };
        for (at, spec) in given.iter().enumerate() {
            position(&spec.name)?;
            if given[..at].iter().any(|other| other.name == spec.name) {
                return Err(Failure::usage(format!("--type is given twice for column {}", spec.name)).into());
            }
        }
        let nothing = Guess::default();
        let mut hints = Vec::new();
        let mut type_of = |at: usize| -> (ColumnType, bool) {
            if let Some(spec) = given.iter().find(|spec| spec.name == names[at]) {
                return (spec.ty, true);
            }
            let guess = self.columns.get(at).unwrap_or(&nothing);
            hints.extend(guess.hint().map(|hint| format!("column {}: {hint}", names[at])));
            (ColumnType::from(guess.ty()), false)
        };
        let mut builder = Schema::builder();
        for column in key {
            let (mut ty, _) = type_of(position(&column.name)?);
            ty.descending |= column.descending;
            builder = builder.key(&*column.name, ty);
        }
        for (at, name) in names.iter().enumerate() {
            if key.iter().any(|column| column.name == *name) {
                continue;
            }
            let (ty, is_given) = type_of(at);
            builder = builder.column(name, if is_given { ty } else { ty.nullable() });
        }
        Ok(Inferred { schema: builder.build()?, hints })
    }
}

/// A column of the key, as `--key` gives it: `time:desc`.
#[derive(Clone, Debug)]
pub(crate) struct ColumnKey {
    pub(crate) name: String,
    pub(crate) descending: bool,
}

impl std::str::FromStr for ColumnKey {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<ColumnKey, Self::Err> {
        Ok(match text.strip_suffix(":desc") {
            Some(name) => ColumnKey { name: name.to_owned(), descending: true },
            None => ColumnKey { name: text.to_owned(), descending: false },
        })
    }
}

/// What is known of a column.
#[derive(Clone, Debug)]
struct Guess {
    values: u64,
    numbers: u64,
    is_bool: bool,
    is_int: bool,
    is_i64: bool,
    is_u64: bool,
    /// Each number is what the nearest float is shown as.
    is_f64: bool,
    is_decimal: bool,
    is_date: bool,
    is_timestamp: bool,
    /// The most digits before and after the point.
    digits: (usize, usize),
    /// The one text that is no number, and whether there are others.
    odd: Option<String>,
    has_more_odd: bool,
}

impl Default for Guess {
    fn default() -> Guess {
        Guess {
            values: 0,
            numbers: 0,
            is_bool: true,
            is_int: true,
            is_i64: true,
            is_u64: true,
            is_f64: true,
            is_decimal: true,
            is_date: true,
            is_timestamp: true,
            digits: (0, 0),
            odd: None,
            has_more_odd: false,
        }
    }
}

impl Guess {
    fn see(&mut self, text: &str) {
        self.values += 1;
        self.is_bool &= matches!(text, "true" | "false");
        match Number::of(text) {
            Some(number) => {
                self.numbers += 1;
                self.is_int &= number.is_int;
                self.is_i64 &= text.parse::<i64>().is_ok();
                self.is_u64 &= text.parse::<u64>().is_ok();
                self.is_f64 &= number.is_f64(text);
                self.is_decimal &= !number.has_exponent;
                self.digits = (self.digits.0.max(number.whole), self.digits.1.max(number.fraction));
                (self.is_date, self.is_timestamp) = (false, false);
            }
            None => {
                self.is_date = self.is_date && parse_date(text).is_some();
                self.is_timestamp =
                    self.is_timestamp && text.contains([':']) && parse_timestamp(text).is_some();
                match &self.odd {
                    None if text.len() <= 20 => self.odd = Some(text.to_owned()),
                    Some(odd) if odd == text => {}
                    _ => self.has_more_odd = true,
                }
            }
        }
    }

    /// A text that is no number, whatever it looks like.
    fn see_text(&mut self, text: &str) {
        self.values += 1;
        self.is_bool = false;
        self.has_more_odd = true;
        self.is_date = self.is_date && parse_date(text).is_some();
        self.is_timestamp = self.is_timestamp && text.contains([':']) && parse_timestamp(text).is_some();
    }

    fn ty(&self) -> Type {
        let digits = self.digits.0 + self.digits.1;
        let decimal = || match (u8::try_from(digits), u8::try_from(self.digits.1)) {
            (Ok(precision), Ok(scale)) if digits <= DIGITS_MAX => {
                Some(Type::Decimal { precision: precision.max(1), scale })
            }
            _ => None,
        };
        let is_number = self.numbers == self.values;
        match self.values {
            0 => Type::String,
            _ if self.is_bool => Type::Bool,
            _ if is_number && self.is_int && self.is_i64 => Type::I64,
            _ if is_number && self.is_int && self.is_u64 => Type::U64,
            _ if is_number && !self.is_int && self.is_f64 => Type::F64,
            _ if is_number && self.is_decimal => decimal().unwrap_or(Type::String),
            _ if self.numbers == 0 && self.is_date => Type::Date,
            _ if self.numbers == 0 && self.is_timestamp => Type::Timestamp,
            _ => Type::String,
        }
    }

    /// One word among numbers probably stands for a null.
    fn hint(&self) -> Option<String> {
        let odd = self.odd.as_ref().filter(|_| self.numbers > 0 && !self.has_more_odd)?;
        Some(format!(
            "text, because of {odd:?}; if that stands for a null, import to another table with --null {odd}"
        ))
    }
}

/// A number as it is written.
struct Number {
    is_int: bool,
    has_exponent: bool,
    /// Digits before and after the point.
    whole: usize,
    fraction: usize,
}

impl Number {
    fn of(text: &str) -> Option<Number> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain =
            digits(whole) && (whole.len() == 1 || !whole.starts_with('0')) && fraction.is_none_or(digits);
        let exponent_is_plain =
            exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
        // -0 is another number than 0 only for floats.
        let is_minus_zero = text.starts_with('-') && whole == "0" && fraction.is_none();
        (is_plain && exponent_is_plain && !is_minus_zero).then(|| Number {
            is_int: fraction.is_none() && exponent.is_none(),
            has_exponent: exponent.is_some(),
            whole: whole.len(),
            fraction: fraction.map_or(0, str::len),
        })
    }

    /// Whether the nearest float, as it is shown, is the same number.
    fn is_f64(&self, text: &str) -> bool {
        text.parse::<f64>().is_ok_and(|number| {
            number.is_finite() && significant(&format!("{number:e}")) == significant(text)
        })
    }
}

/// The digits from the first to the last that is not zero, and where the point is.
fn significant(text: &str) -> (String, i64) {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let trimmed = digits.trim_matches('0').to_owned();
    if trimmed.is_empty() {
        return (trimmed, 0);
    }
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    let point = i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(leading).unwrap_or(0);
    (trimmed, point.saturating_add(exponent))
}
