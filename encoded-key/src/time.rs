//! Dates and timestamps: plain counts since 1970, and the proleptic Gregorian calendar for reading and printing them.
//!
//! Never knows a time zone: a timestamp is UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A day, counted from 1970-01-01.
///
/// ```
/// use nyala_encoded_key::Date;
/// let day = Date::from_ymd(2020, 7, 9).expect("a day of the calendar");
/// assert_eq!(day.days(), 18_452);
/// assert_eq!(day.ymd(), (2020, 7, 9));
/// assert_eq!(day.to_string(), "2020-07-09");
/// assert_eq!(Date::from_ymd(2021, 2, 29), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(i32);

impl Date {
    /// The earliest day.
    pub const MIN: Date = Date(i32::MIN);
    /// The latest day.
    pub const MAX: Date = Date(i32::MAX);

    /// The day that is `days` after 1970-01-01, or before it if negative.
    #[must_use]
    pub const fn from_days(days: i32) -> Date {
        Date(days)
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub const fn days(self) -> i32 {
        self.0
    }

    /// The day of the proleptic Gregorian calendar (there is a year 0); `None` if there is no such day, or if it lies
    /// beyond [`Date::MIN`] or [`Date::MAX`].
    #[must_use]
    pub fn from_ymd(year: i32, month: u32, day: u32) -> Option<Date> {
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        // Years are counted from March, so that the leap day is a year's last.
        let year = i64::from(year) - i64::from(month <= 2);
        let day_of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        i32::try_from(era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970).ok().map(Date)
    }

    /// Year, month (1 to 12) and day of the month (1 to 31).
    #[must_use]
    pub fn ymd(self) -> (i32, u32, u32) {
        let days = i64::from(self.0) + DAYS_TO_1970;
        let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        (
            i32::try_from(year).expect("2^31 days are fewer than 2^31 years"),
            u32::try_from(month).expect("a month is 1 to 12"),
            u32::try_from(day).expect("a day is 1 to 31"),
        )
    }
}

/// Days in 400 years.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Date {
    /// `2020-07-09`; a year before 0 or of more than four digits is written out with its sign.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.ymd();
        if (0..=9999).contains(&year) {
            write!(f, "{year:04}-{month:02}-{day:02}")
        } else {
            write!(f, "{year:+05}-{month:02}-{day:02}")
        }
    }
}

/// A point in time, in microseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use nyala_encoded_key::Timestamp;
/// let time = Timestamp::from_micros(1_594_252_800_000_001);
/// assert_eq!(time.to_string(), "2020-07-09T00:00:00.000001Z");
/// assert!(time < Timestamp::now());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest point in time.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest point in time.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// The time of the system's clock, which may jump.
    #[must_use]
    pub fn now() -> Timestamp {
        Timestamp::from(SystemTime::now())
    }

    /// The point in time `micros` microseconds after 1970-01-01T00:00:00Z, or before it if negative.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The day, in UTC.
    ///
    /// ```
    /// use nyala_encoded_key::{Date, Timestamp};
    /// assert_eq!(Timestamp::from_micros(-1).date(), Date::from_days(-1));
    /// ```
    #[must_use]
    pub fn date(self) -> Date {
        let days = self.0.div_euclid(MICROS_PER_DAY);
        Date(i32::try_from(days).expect("2^63 microseconds are fewer than 2^31 days"))
    }
}

impl From<SystemTime> for Timestamp {
    /// Cuts to microseconds, towards the earlier; a time out of range becomes the nearest end.
    fn from(time: SystemTime) -> Timestamp {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(i64::try_from(after.as_micros()).unwrap_or(i64::MAX)),
            Err(error) => {
                let before = error.duration().as_nanos().div_ceil(1000);
                Timestamp(i64::try_from(before).map_or(i64::MIN, |micros| -micros))
            }
        }
    }
}

impl From<Date> for Timestamp {
    /// The start of the day, in UTC; a day out of range becomes the nearest end.
    fn from(date: Date) -> Timestamp {
        Timestamp(i64::from(date.0).saturating_mul(MICROS_PER_DAY))
    }
}

impl fmt::Display for Timestamp {
    /// As RFC 3339 writes it, always with six digits of the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.rem_euclid(MICROS_PER_DAY);
        let seconds = micros / MICROS_PER_SECOND;
        write!(
            f,
            "{}T{:02}:{:02}:{:02}.{:06}Z",
            self.date(),
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            micros % MICROS_PER_SECOND
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn days_of_the_calendar() {
        for (year, month, day, days) in [
            (1970, 1, 1, 0),
            (1969, 12, 31, -1),
            (2000, 2, 29, 11_016),
            (2020, 7, 9, 18_452),
            (1600, 2, 29, -135_081),
            (0, 3, 1, -719_468),
            (-1, 12, 31, -719_529),
        ] {
            let date = Date::from_ymd(year, month, day).unwrap();
            assert_eq!(date.days(), days, "{date}");
            assert_eq!(date.ymd(), (year, month, day));
        }
    }

    #[test]
    fn days_that_are_none() {
        for (year, month, day) in [
            (2021, 2, 29),
            (1900, 2, 29),
            (2020, 2, 30),
            (2020, 4, 31),
            (2020, 0, 1),
            (2020, 13, 1),
            (2020, 1, 0),
            (2020, 1, 32),
            (i32::MAX, 1, 1),
            (i32::MIN, 1, 1),
            (2020, u32::MAX, u32::MAX),
        ] {
            assert_eq!(Date::from_ymd(year, month, day), None, "{year} {month} {day}");
        }
    }

    #[test]
    fn extremes_print_and_convert() {
        for date in [Date::MIN, Date::MAX] {
            let (year, month, day) = date.ymd();
            assert_eq!(Date::from_ymd(year, month, day), Some(date));
        }
        assert_eq!(Date::MIN.to_string(), "-5877641-06-23");
        assert_eq!(Date::MAX.to_string(), "+5881580-07-11");
        assert_eq!(Timestamp::MIN.to_string(), "-290308-12-21T19:59:05.224192Z");
        assert_eq!(Timestamp::MAX.to_string(), "+294247-01-10T04:00:54.775807Z");
        assert_eq!(Timestamp::from_micros(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Timestamp::from(Date::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from(Date::from_days(-1)).micros(), -86_400_000_000);
    }

    #[test]
    fn a_clock_before_1970_is_cut_towards_the_earlier() {
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_nanos(1)).micros(), -1);
        assert_eq!(Timestamp::from(UNIX_EPOCH + Duration::from_nanos(1999)).micros(), 1);
    }

    proptest! {
        #[test]
        fn every_day_round_trips(days in any::<i32>()) {
            let date = Date::from_days(days);
            let (year, month, day) = date.ymd();
            prop_assert_eq!(Date::from_ymd(year, month, day), Some(date));
        }
    }
}
