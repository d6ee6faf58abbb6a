//! When counters rose last: that something has failed since the start says nothing of today.

use std::time::{Duration, Instant};

use crate::info::Info;

/// For how long after a rise a counter is worth a look.
pub(crate) const RECENT: Duration = Duration::from_hours(24);

/// Counters of what has gone wrong since the start.
const FIELDS: [&str; 3] =
    ["redo_compactions_failed", "redo_scrub_errors", "archive_damaged_objects"];

/// See the file's top.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rises([Rise; FIELDS.len()]);

#[derive(Clone, Copy, Debug, Default)]
struct Rise {
    value: u64,
    at: Option<Instant>,
}

impl Rises {
    /// Notes what the counters are at a moment. A counter that is not 0 at the first look counts as having risen
    /// then.
    pub(crate) fn note(&mut self, info: &Info, at: Instant) {
        for (field, rise) in FIELDS.iter().zip(&mut self.0) {
            let value = info.number(field);
            if value > rise.value {
                rise.at = Some(at);
            }
            rise.value = value;
        }
    }

    /// Whether a counter rose within [`RECENT`] before `now`.
    pub(crate) fn is_recent(&self, field: &str, now: Instant) -> bool {
        let rise = FIELDS.iter().zip(&self.0).find(|(name, _)| **name == field);
        let at = rise.and_then(|(_, rise)| rise.at);
        at.is_some_and(|at| now.saturating_duration_since(at) < RECENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_recent_for_a_day_after_it_rose() {
        let (mut rises, begin) = (Rises::default(), Instant::now());
        let at = |hours: u64| begin + Duration::from_hours(hours);
        let field = "redo_compactions_failed";
        for (hour, value, expected) in [
            (0, 0, false),
            (1, 2, true),
            (24, 2, true),
            (25, 2, false),
            (30, 3, true),
            (31, 0, true),
        ] {
            rises.note(&Info::parse(&format!("{field}:{value}")), at(hour));
            assert_eq!(rises.is_recent(field, at(hour)), expected, "{hour}");
        }
        assert!(!rises.is_recent("redo_scrub_errors", at(0)));
    }
}
