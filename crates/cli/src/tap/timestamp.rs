//! Times as people read and write them: `2026-11-22T09:15:00.123456789Z`.

use tap::Time;

const DAY_SECONDS: u64 = 86_400;

/// The time in UTC.
pub(super) fn show(time: Time) -> String {
    let (seconds, nanoseconds) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    let (year, month, day) = date(seconds / DAY_SECONDS);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z")
}

/// The time that `text` says: `2026-11-22T09:15:00Z`, with or without a fraction.
pub(super) fn read(text: &str) -> Option<Time> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let is_known = (1970..2500).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && fraction.len() <= 9
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_known {
        return None;
    }
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = (day_of(year, month, day) * 24 + hour) * 3600 + minute * 60 + second;
    Some(Time(seconds * 1_000_000_000 + nanoseconds))
}

/// The day, counted from 1970, of a date; years begin in March as in [`date`].
fn day_of(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}

/// Year, month and day of a day counted from 1970.
fn date(day: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is their last; 400 of them have 146,097 days.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_the_calendar_has_them() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (1_700_000_000, "2023-11-14T22:13:20.000000000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(show(Time(seconds * 1_000_000_000)), shown);
            assert_eq!(read(shown), Some(Time(seconds * 1_000_000_000)));
        }
    }
}
