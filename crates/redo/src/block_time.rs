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

/// The time that a text of RFC 3339 says, in Unix milliseconds: `2026-11-22T10:31:05.412+01:00`.
#[must_use]
pub fn parse_time(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.splitn(3, ':').map(digits);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // First: of digits alone it is known that three bytes are three characters.
    digits(fraction)?;
    let ms = digits(&format!("{fraction:0<3}")[..3])?;
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let hours = digits(hours).filter(|hours| *hours < 24)?;
            let minutes = digits(minutes).filter(|minutes| *minutes < 60)?;
            let offset = hours * 60 + minutes;
            if zone.starts_with('-') { -offset } else { offset }
        }
    };
    let is_date =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // No 30th of February.
    let is_date = is_date && date_of(days_of(year, month, day)) == (year, month, day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds =
        days_of(year, month, day) * 86_400 + hour * 3600 + (minute - offset) * 60 + second;
    Some(seconds * 1000 + ms)
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The day of a date, counted from 1970-01-01.
const fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: a leap day is the last of them.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719_468
}

/// How long a text says that something is ago, in milliseconds: `-90s`, `-2m`, `-1h`, `-1d`.
#[must_use]
pub fn parse_ago(text: &str) -> Option<i64> {
    let ago = text.strip_prefix('-')?;
    let unit = ago.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    digits(&ago[..ago.len() - 1])?.checked_mul(seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "2026-11-22",
            "2026-11-22T10:31:05",
            "2026-11-22T10:31:05.ééZ",
            "2026-11-22T10:31:05.Z",
            "2026-11-22T10:31:05.-1Z",
            "2026-11-22T10:31:05+999999999999999999:00",
            "2026-11-22T10:31:05+24:00",
            "2026-11-22T24:00:00Z",
            "99999999999999999999-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-02-29T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2100-02-29T00:00:00Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(parse_time("1970-01-01T01:00:00.0015+01:00"), Some(1));
        assert!(parse_time("2000-02-29T00:00:00Z").is_some());
        for text in
            ["-", "-s", "-é", "-1é", "--1s", "-99999999999999999999d", "-9223372036854775807d"]
        {
            assert_eq!(parse_ago(text), None, "{text}");
        }
        assert_eq!(parse_ago("-90s"), Some(90_000));
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_none(
            text in "\\PC{0,40}",
            fraction in "\\PC{0,6}",
            zone in "[Zz+-]\\PC{0,24}",
        ) {
            let _ = (parse_time(&text), parse_ago(&text));
            let _ = parse_time(&format!("2026-11-22T10:31:05.{fraction}{zone}"));
        }
    }

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
