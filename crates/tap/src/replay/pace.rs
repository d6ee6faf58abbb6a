//! The pace of a replay that is limited relative to the recording.

use std::time::Duration;

use crate::entry::Time;

/// The maximum speed of sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    speed: Option<f64>,
    /// When the first request was recorded, and when it was sent.
    first: Option<(Time, Duration)>,
}

impl Pace {
    pub(super) fn new(speed: Option<f64>) -> Self {
        Self { speed, first: None }
    }

    /// Returns how long a request recorded at `at` must wait; `now` is read from the caller's
    /// clock.
    pub(super) fn pause(&mut self, at: Time, now: Duration) -> Duration {
        let (first, began) = *self.first.get_or_insert((at, now));
        let Some(speed) = self.speed else { return Duration::ZERO };
        let recorded = Duration::from_nanos(at.0.saturating_sub(first.0));
        // A speed near zero pauses forever.
        let due = Duration::try_from_secs_f64(recorded.as_secs_f64() / speed);
        due.unwrap_or(Duration::MAX).saturating_sub(now.saturating_sub(began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time(1_795_338_900_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn distances_are_those_of_the_recording_divided_by_the_speed() {
        for (speed, expected) in [(1.0, [0, 100, 350]), (4.0, [0, 25, 88]), (0.5, [0, 200, 700])] {
            let mut pace = Pace::new(Some(speed));
            // The replay itself takes no time, and began a second after its clock did.
            let mut now = 1000 * MS;
            for (recorded, due) in [0, 100, 350].into_iter().zip(expected) {
                now += pace.pause(at(recorded), now);
                assert_eq!((now - 1000 * MS).as_micros().div_ceil(1000), due, "speed {speed}");
            }
        }
    }

    #[test]
    fn a_replay_that_is_late_does_not_pause_until_it_has_caught_up() {
        let mut pace = Pace::new(Some(1.0));
        assert_eq!(pace.pause(at(0), 5 * MS), Duration::ZERO);
        assert_eq!(pace.pause(at(100), 200 * MS), Duration::ZERO);
        assert_eq!(pace.pause(at(300), 205 * MS), 100 * MS);
        // A request recorded after its clock was set back is due immediately.
        assert_eq!(pace.pause(Time(at(0).0 - 1), 205 * MS), Duration::ZERO);
    }

    #[test]
    fn without_a_speed_nothing_waits() {
        let mut pace = Pace::new(None);
        assert_eq!(pace.pause(at(0), MS), Duration::ZERO);
        assert_eq!(pace.pause(at(10_000), MS), Duration::ZERO);
    }
}
