//! When a block was ended, for people to read.

use std::fmt;

/// A time in Unix milliseconds, shown in seconds with a fraction and as a date in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfBlock(pub i64);

impl fmt::Display for TimeOfBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, in_day) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = date_of(days);
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, ms) = (in_day / 1000 % 60, in_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// The date of a day since 1970-01-01, in the Gregorian calendar: years begin in March, so that a leap
/// day is the last of them.
const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + if month <= 2 { 1 } else { 0 }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_on_both_sides_of_leap_days() {
        let shown = |days: i64| TimeOfBlock(days * 86_400_000 + 45_296_789).to_string();
        assert_eq!(shown(0), "1970-01-01T12:34:56.789Z");
        assert_eq!(shown(11_016), "2000-02-29T12:34:56.789Z");
        assert_eq!(shown(11_017), "2000-03-01T12:34:56.789Z");
        assert_eq!(shown(20_782), "2026-11-25T12:34:56.789Z");
        assert_eq!(shown(-1), "1969-12-31T12:34:56.789Z");
    }
}
