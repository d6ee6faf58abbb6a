//! Numbers as people read them.

use std::fmt::Write as _;

use crate::report::Bound;

/// Bytes, with a unit.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub(crate) fn bytes(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A count, in groups of three digits.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            // A space that does not break, and is no digit for a screen reader.
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// Microseconds, with a unit.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub(crate) fn micros(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// A bound of a histogram, with its sign; a dash for none.
pub(crate) fn bound(bound: Option<Bound>) -> String {
    match bound {
        Some(Bound::UpTo(us)) => format!("≤ {}", rounded(us)),
        Some(Bound::Above(us)) => format!("> {}", rounded(us)),
        None => "–".to_owned(),
    }
}

/// Microseconds that are a bound, and no more exact than that.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn rounded(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Seconds, in the two largest units.
pub(crate) fn seconds(s: u64) -> String {
    let (days, hours, minutes) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{minutes} min {} s", s % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A part of a whole, in percent.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 })
}

/// A time, in UTC.
pub(crate) fn moment(unix_s: i64) -> String {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let mut text = String::new();
    let _infallible = write!(text, "{year:04}-{month:02}-{day:02} ");
    let _infallible =
        write!(text, "{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60);
    text
}

/// Year, month and day of a day since 1970: Howard Hinnant's `civil_from_days`.
const fn date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that a leap day is the last of one.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let is_next_year = if month <= 2 { 1 } else { 0 };
    (year_of_era + era * 400 + is_next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1_232_880), "1.18 MiB");
        assert_eq!(bytes(64 << 30), "64.0 GiB");
        assert_eq!(count(1_234_567), "1\u{a0}234\u{a0}567");
        assert_eq!((count(12), count(123)), ("12".to_owned(), "123".to_owned()));
        assert_eq!(micros(1500), "1.50 ms");
        let bounds =
            [Some(Bound::UpTo(128)), Some(Bound::UpTo(4096)), Some(Bound::Above(1 << 24)), None];
        assert_eq!(bounds.map(bound), ["≤ 128 µs", "≤ 4.1 ms", "> 16.8 s", "–"]);
        assert_eq!(seconds(93_784), "1 d 2 h");
        assert_eq!(percent(1, 3), "33.3 %");
    }

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(moment(1_795_877_219), "2026-11-28 14:46:59 UTC");
        assert_eq!(moment(-1), "1969-12-31 23:59:59 UTC");
    }
}
