//! Handshakes that have something to do, and how much of a loop's time they may take.
//!
//! A handshake costs the processor between a tenth of a millisecond and some milliseconds, for a
//! client that has not shown yet that it may do anything at all. So the loops do them apart from
//! all other reads, and go on with what else there is: as long as there is other work, handshakes have as much time as that
//! takes, and [`TURN`] at most in an iteration; what a step has taken too much is missing in the next ones.
//!
//! Those that have begun come first: in a storm some are done soon, and not all of them too late.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::engine::ClientKey;

/// How long handshakes go on in an iteration before another step is begun.
const TURN: Duration = Duration::from_millis(1);

/// See the file's top.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// Of clients with which a step was done.
    begun: VecDeque<ClientKey>,
    new: VecDeque<ClientKey>,
    /// When this turn began, or the last one has ended.
    at: Option<Instant>,
    /// How much time there is in this turn.
    credit: Duration,
    /// What steps have taken more than there was.
    debt: Duration,
}

impl Handshakes {
    /// A client has sent something. `has_begun`: not for the first time.
    pub(crate) fn push(&mut self, key: ClientKey, has_begun: bool) {
        if has_begun { &mut self.begun } else { &mut self.new }.push_back(key);
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.new.is_empty()
    }

    /// Begins a turn at `now`. `is_idle`: there is nothing else to do.
    pub(crate) fn begin(&mut self, now: Instant, is_idle: bool) {
        let others = self.at.map_or(TURN, |at| now.saturating_duration_since(at));
        let paid = self.debt.min(others);
        self.debt -= paid;
        self.credit = (others - paid).min(TURN);
        if is_idle {
            (self.credit, self.debt) = (TURN, Duration::ZERO);
        }
        self.at = Some(now);
    }

    /// The next one that has its turn, if there is time left.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ClientKey> {
        let taken = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let key = if taken < self.credit {
            self.begun.pop_front().or_else(|| self.new.pop_front())
        } else {
            None
        };
        if key.is_none() {
            self.debt += taken.saturating_sub(self.credit);
            (self.at, self.credit) = (Some(now), Duration::ZERO);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(300);

    /// A turn in which each step takes so long, but the one of the client 4.
    fn turn(handshakes: &mut Handshakes, now: &mut Instant, is_idle: bool) -> Vec<usize> {
        handshakes.begin(*now, is_idle);
        let mut turn = Vec::new();
        while let Some(ClientKey(key)) = handshakes.next(*now) {
            turn.push(key);
            *now += if key == 4 { Duration::from_millis(5) } else { STEP };
        }
        turn
    }

    #[test]
    fn what_does_not_fit_into_an_iteration_has_its_turn_in_a_later_one() {
        let (mut handshakes, mut now) = (Handshakes::default(), Instant::now());
        for key in 0..10 {
            handshakes.push(ClientKey(key), false);
        }
        let mut turns = Vec::new();
        while !handshakes.is_empty() {
            turns.push(turn(&mut handshakes, &mut now, false));
            now += Duration::from_millis(2);
        }
        // The five milliseconds of the fifth are paid back.
        let none = Vec::new();
        let expected = [vec![0, 1, 2, 3], vec![4], none.clone(), none, vec![5, 6, 7, 8], vec![9]];
        assert_eq!(turns, expected);
    }

    #[test]
    fn they_take_no_more_time_than_all_else() {
        let (mut handshakes, mut now) = (Handshakes::default(), Instant::now());
        let (mut steps, mut others) = (0, Duration::ZERO);
        for round in 0..1000 {
            handshakes.push(ClientKey(round + 10), false);
            steps += turn(&mut handshakes, &mut now, false).len();
            now += Duration::from_micros(50);
            others += Duration::from_micros(50);
        }
        let spent = STEP * u32::try_from(steps).unwrap();
        assert!(spent <= others + TURN + STEP && spent * 2 > others, "{spent:?} of {others:?}");
        // With nothing else to do they have all of it.
        assert_eq!(turn(&mut handshakes, &mut now, true).len(), 4);
        assert_eq!(turn(&mut handshakes, &mut now, true).len(), 4);
    }

    #[test]
    fn those_that_have_begun_come_first() {
        let (mut handshakes, mut now) = (Handshakes::default(), Instant::now());
        handshakes.push(ClientKey(1), false);
        handshakes.push(ClientKey(2), true);
        assert_eq!(turn(&mut handshakes, &mut now, true), [2, 1]);
    }
}
