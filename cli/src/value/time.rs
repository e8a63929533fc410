//! Dates and timestamps of text: `2020-07-09`, `2020-07-09T12:34:56.123456Z`.
//!
//! A time without a zone is UTC; one with an offset becomes UTC. More than six digits of a second are refused, unless
//! those beyond are zeros: nothing is rounded.

use nyala::{Date, Timestamp};

const MICROS_PER_DAY: i128 = 86_400_000_000;

/// `2020-07-09`; a year of more than four digits has a sign: `+12020-07-09`, `-0044-03-15`.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut parts = digits.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() < 4 || (year.len() > 4 && digits.len() == text.len()) {
        return None;
    }
    let year = i32::try_from(sign * i64::from(number(year, year.len())?)).ok()?;
    Date::from_ymd(year, number(month, 2)?, number(day, 2)?)
}

/// `2020-07-09T12:34:56.123456Z`. A space instead of the T, fewer digits of the second, no seconds, and `+02:00` instead
/// of the Z are understood, as is a date alone, which is its first moment, and `@` with microseconds since 1970.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    if let Some(micros) = text.strip_prefix('@') {
        return micros.parse().ok().map(Timestamp::from_micros);
    }
    let Some(at) = text.find(['T', 't', ' ']) else {
        return micros_of(parse_date(text)?, 0);
    };
    let date = parse_date(&text[..at])?;
    let (clock, offset_minutes) = zone(&text[at + 1..])?;
    let mut parts = clock.splitn(3, ':');
    let hour = number(parts.next()?, 2).filter(|hour| *hour < 24)?;
    let minute = number(parts.next()?, 2).filter(|minute| *minute < 60)?;
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (second, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            (number(second, 2).filter(|second| *second < 60)?, micros(fraction)?)
        }
    };
    let seconds =
        i128::from(hour) * 3600 + (i128::from(minute) - i128::from(offset_minutes)) * 60 + i128::from(second);
    micros_of(date, seconds * 1_000_000 + i128::from(fraction))
}

fn micros_of(date: Date, micros: i128) -> Option<Timestamp> {
    let micros = i128::from(date.days()) * MICROS_PER_DAY + micros;
    i64::try_from(micros).ok().map(Timestamp::from_micros)
}

/// Splits the zone off: the time of day, and by how many minutes the zone is ahead of UTC.
fn zone(text: &str) -> Option<(&str, i32)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (clock, offset) = text.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = match offset[1..].split_once(':') {
        Some(parts) => parts,
        None => offset[1..].split_at_checked(2)?,
    };
    let hours = number(hours, 2).filter(|hours| *hours < 24)?;
    let minutes = number(minutes, 2).filter(|minutes| *minutes < 60)?;
    Some((clock, sign * i32::try_from(hours * 60 + minutes).ok()?))
}

fn micros(fraction: &str) -> Option<u32> {
    let (kept, beyond) = fraction.split_at_checked(6).unwrap_or((fraction, ""));
    if !beyond.bytes().all(|byte| byte == b'0') {
        return None;
    }
    Some(number(kept, kept.len())? * 10u32.pow(6 - u32::try_from(kept.len()).ok()?))
}

/// A number of exactly so many digits, without a sign.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_plain = !text.is_empty() && text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}
