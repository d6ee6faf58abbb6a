//! How long which states of an archive are kept: `24h:all 7d:hour 30d:day`.
//!
//! ```text
//!   now         24h            7d                 30d
//!    │ every one │ one an hour  │ one a day        │ none
//! ```
//!
//! Of an hour the last state is kept, and as soon as all of the hour is older than the age before the colon's rule. So
//! a state that is kept for its day was kept for its hour before, and a little more is kept than was asked for, never less.

use std::fmt;
use std::str::FromStr;

/// So many rules are enough for anyone.
const RULES_MAX: usize = 8;

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Units of ages, from the longest: a year is 365 days.
const UNITS: [(char, i64); 6] = [
    ('y', 365 * DAY_MS),
    ('w', 7 * DAY_MS),
    ('d', DAY_MS),
    ('h', HOUR_MS),
    ('m', MINUTE_MS),
    ('s', SECOND_MS),
];

const FOREVER: &str = "forever";

/// Of how long a time one state is kept, its last. Periods are those of UTC; weeks begin on Monday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Every {
    /// Each of them.
    All,
    /// One a minute.
    Minute,
    /// One an hour.
    Hour,
    /// One a day.
    Day,
    /// One a week.
    Week,
    /// One a month.
    Month,
    /// One a year.
    Year,
}

const EVERY: [(Every, &str); 7] = [
    (Every::All, "all"),
    (Every::Minute, "minute"),
    (Every::Hour, "hour"),
    (Every::Day, "day"),
    (Every::Week, "week"),
    (Every::Month, "month"),
    (Every::Year, "year"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    /// Up to this age; `i64::MAX` for whatever age.
    age_ms: i64,
    every: Every,
}

/// See the file's top.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    rules: [Option<Rule>; RULES_MAX],
}

/// Why a text is no such rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "give ages, and of how long a time one state is kept up to each: 24h:all 7d:hour 30d:day forever:month. Ages have s, m, h, d, w or y and grow; behind the colon is all, minute, hour, day, week, month or year, and grows, too"
)]
pub struct NotRules;

impl Every {
    /// The number of the period that a time is in; times of `All` are periods of their own.
    fn number(self, time_ms: i64) -> i64 {
        let days = time_ms.div_euclid(DAY_MS);
        match self {
            Self::All => time_ms,
            Self::Minute => time_ms.div_euclid(MINUTE_MS),
            Self::Hour => time_ms.div_euclid(HOUR_MS),
            Self::Day => days,
            // Day 0 was a Thursday.
            Self::Week => (days + 3).div_euclid(7),
            Self::Month => month_of(days),
            Self::Year => month_of(days).div_euclid(12),
        }
    }

    /// When a period ends.
    fn end_ms(self, number: i64) -> i64 {
        let next = number.saturating_add(1);
        match self {
            Self::All => number,
            Self::Minute => next.saturating_mul(MINUTE_MS),
            Self::Hour => next.saturating_mul(HOUR_MS),
            Self::Day => next.saturating_mul(DAY_MS),
            Self::Week => next.saturating_mul(7).saturating_sub(3).saturating_mul(DAY_MS),
            Self::Month => first_day_of(next).saturating_mul(DAY_MS),
            Self::Year => first_day_of(next.saturating_mul(12)).saturating_mul(DAY_MS),
        }
    }

    /// Whether two times are in the same period.
    pub(crate) fn is_same(self, one_ms: i64, other_ms: i64) -> bool {
        self.number(one_ms) == self.number(other_ms)
    }
}

/// The month of a day, as years times 12 and months from 0: both count from 1970-01-01 as the calendar does.
fn month_of(day: i64) -> i64 {
    // Eras of 400 years that begin on March 1.
    let day = day.saturating_add(719_468);
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    (year + era * 400) * 12 + from_march + 2
}

/// The first day of such a month.
fn first_day_of(month: i64) -> i64 {
    let from_march = month.saturating_sub(2);
    let (year, of_year) = (from_march.div_euclid(12), from_march.rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day = of_era * 365 + of_era / 4 - of_era / 100 + (153 * of_year + 2) / 5;
    era.saturating_mul(146_097).saturating_add(day).saturating_sub(719_468)
}

impl Keep {
    /// Everything.
    pub const ALL: Self = Self { rules: [None; RULES_MAX] };

    /// Whether everything is kept.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.rules[0].is_none()
    }

    fn rules(&self) -> impl DoubleEndedIterator<Item = Rule> + '_ {
        self.rules.iter().flatten().copied()
    }

    /// Of how long a time one state is kept, of those around this time, by now; `None` if none is.
    pub(crate) fn every_at(&self, time_ms: i64, now_ms: i64) -> Option<Every> {
        let Some(oldest) = self.rules().next_back() else { return Some(Every::All) };
        if time_ms < now_ms.saturating_sub(oldest.age_ms) {
            return None;
        }
        let ages = std::iter::once(0).chain(self.rules().map(|rule| rule.age_ms));
        let has_ended = |every: Every, age_ms: i64| {
            every.end_ms(every.number(time_ms)) <= now_ms.saturating_sub(age_ms)
        };
        // Of several that have begun to hold, the one for what is older.
        let holding =
            self.rules().zip(ages).filter(|(rule, age_ms)| has_ended(rule.every, *age_ms));
        Some(holding.last().map_or(Every::All, |(rule, _)| rule.every))
    }

    /// The shortest time of which one state is kept.
    pub(crate) fn finest(&self) -> Every {
        let thinning = self.rules().map(|rule| rule.every).find(|every| *every != Every::All);
        thinning.unwrap_or(Every::All)
    }
}

impl FromStr for Keep {
    type Err = NotRules;

    fn from_str(text: &str) -> Result<Self, NotRules> {
        let mut keep = Self::ALL;
        let mut before: Option<Rule> = None;
        for (index, word) in text.split_whitespace().enumerate() {
            let (age, every) = word.split_once(':').ok_or(NotRules)?;
            let every = EVERY.into_iter().find(|(_, name)| *name == every).ok_or(NotRules)?.0;
            let rule = Rule { age_ms: age_of(age).ok_or(NotRules)?, every };
            let grows = |before: Rule| before.age_ms < rule.age_ms && before.every < rule.every;
            if !before.is_none_or(grows) {
                return Err(NotRules);
            }
            *keep.rules.get_mut(index).ok_or(NotRules)? = Some(rule);
            before = Some(rule);
        }
        Ok(keep)
    }
}

fn age_of(text: &str) -> Option<i64> {
    if text == FOREVER {
        return Some(i64::MAX);
    }
    let unit = text.chars().next_back()?;
    let number = &text[..text.len() - unit.len_utf8()];
    let (_, unit_ms) = UNITS.into_iter().find(|(letter, _)| *letter == unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = number.parse().ok().filter(|number| is_number && *number > 0)?;
    number.checked_mul(unit_ms)
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in self.rules().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let every = EVERY.into_iter().find(|(every, _)| *every == rule.every);
            let every = every.map_or("", |(_, name)| name);
            if rule.age_ms == i64::MAX {
                write!(f, "{space}{FOREVER}:{every}")?;
                continue;
            }
            let unit = UNITS.into_iter().find(|(_, unit_ms)| rule.age_ms % unit_ms == 0);
            let (letter, unit_ms) = unit.unwrap_or(UNITS[UNITS.len() - 1]);
            write!(f, "{space}{}{letter}:{every}", rule.age_ms / unit_ms)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keep(text: &str) -> Keep {
        text.parse().unwrap()
    }

    /// 2026-11-26T00:00:00Z, a Thursday.
    const NOW_MS: i64 = 1_795_651_200_000;

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in ["", "24h:all", "1h:all 7d:hour 4w:day forever:month", "90s:minute 2y:year"] {
            assert_eq!(keep(text).to_string().parse(), Ok(keep(text)), "{text}");
        }
        assert_eq!(keep("24h:all 14d:hour").to_string(), "1d:all 2w:hour");
        assert!(keep("").is_all() && !keep("1d:all").is_all());
        let wrong = ["24h", "24h:", ":all", "24:all", "0h:all", "-1h:all", "24h:often", "1x:all"];
        for text in wrong.into_iter().chain(["7d:hour 24h:all", "1d:day 7d:hour", "1d:all 2d:all"])
        {
            assert_eq!(text.parse::<Keep>(), Err(NotRules), "{text}");
        }
        let many = (1..10).map(|n| format!("{n}d:all")).collect::<Vec<_>>().join(" ");
        assert!(many.parse::<Keep>().is_err());
        assert!("99999999999y:all".parse::<Keep>().is_err());
    }

    #[test]
    fn a_period_counts_when_all_of_it_is_old_enough() {
        let keep = keep("24h:all 7d:hour 30d:day");
        let at = |hours: i64| keep.every_at(NOW_MS - hours * HOUR_MS, NOW_MS);
        assert_eq!([at(0), at(23), at(24)], [Some(Every::All); 3]);
        assert_eq!([at(25), at(7 * 24)], [Some(Every::Hour); 2]);
        // That day has ended seven days ago.
        assert_eq!(keep.every_at(NOW_MS - 7 * DAY_MS - 1, NOW_MS), Some(Every::Day));
        let later = NOW_MS + 12 * HOUR_MS;
        assert_eq!(keep.every_at(later - 7 * DAY_MS - 1, later), Some(Every::Hour));
        assert_eq!([at(30 * 24), at(30 * 24 + 1)], [Some(Every::Day), None]);
        assert_eq!(Keep::ALL.every_at(0, NOW_MS), Some(Every::All));
        let hours = super::tests::keep("7d:hour");
        assert_eq!(hours.every_at(NOW_MS - 1, NOW_MS), Some(Every::Hour));
        assert_eq!(hours.every_at(NOW_MS, NOW_MS), Some(Every::All), "the hour has not ended");
        let forever = super::tests::keep("1d:all forever:year");
        assert_eq!(forever.every_at(i64::MIN / 4, NOW_MS), Some(Every::Year));
    }

    #[test]
    fn months_and_weeks_are_those_of_the_calendar() {
        let of =
            |every: Every, time_ms| (every.number(time_ms), every.end_ms(every.number(time_ms)));
        // December 1, Monday the 30th, and January 1.
        assert_eq!(of(Every::Month, NOW_MS), (2026 * 12 + 10, NOW_MS + 5 * DAY_MS));
        assert_eq!(of(Every::Week, NOW_MS).1, NOW_MS + 4 * DAY_MS);
        assert_eq!(of(Every::Year, NOW_MS), (2026, NOW_MS + 36 * DAY_MS));
        assert_eq!(of(Every::Month, -1), (1969 * 12 + 11, 0));
        // February 29, 2000.
        assert_eq!(of(Every::Month, 951_782_400_000).1, 951_868_800_000);
    }

    proptest! {
        #[test]
        fn a_time_is_before_the_end_of_its_period_and_not_before_that_of_the_one_before(
            time_ms in -4_000_000_000_000_i64..8_000_000_000_000,
        ) {
            for (every, _) in EVERY.into_iter().skip(1) {
                let number = every.number(time_ms);
                prop_assert!(time_ms < every.end_ms(number));
                prop_assert!(time_ms >= every.end_ms(number - 1));
            }
        }

        #[test]
        fn what_is_older_is_never_kept_more_of(
            older in 0_i64..4_000_000, younger in 0_i64..4_000_000, later in 0_i64..4_000_000,
        ) {
            let keep = keep("24h:all 7d:hour 30d:day");
            let now_ms = NOW_MS + later * 1000;
            let at = |age_s: i64| keep.every_at(now_ms - age_s * 1000, now_ms);
            let (older, younger) = (at(older.max(younger)), at(older.min(younger)));
            prop_assert!(older.is_none() || younger.is_some_and(|it| it <= older.unwrap()));
        }
    }
}
