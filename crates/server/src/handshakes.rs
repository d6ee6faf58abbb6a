//! Handshakes that have something to do, and how much of a loop's time they may take.
//!
//! A handshake costs the processor between a tenth of a millisecond and some milliseconds, for a
//! client that has not shown yet that it may do anything at all. So the loops do them apart from
//! all other reads, in the order in which their clients have sent something, and go on with what
//! else there is after [`TURN`]; the rest has its turn in the next iteration.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::engine::ClientKey;

/// How long handshakes go on in an iteration before another one is begun.
const TURN: Duration = Duration::from_millis(1);

/// See the file's top.
#[derive(Default)]
pub(crate) struct Handshakes {
    waiting: VecDeque<ClientKey>,
    until: Option<Instant>,
}

impl Handshakes {
    /// A client has sent something.
    pub(crate) fn push(&mut self, key: ClientKey) {
        self.waiting.push_back(key);
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Begins an iteration at `now`.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.until = Some(now + TURN);
    }

    /// The next one that has its turn, if there is time left.
    pub(crate) fn next(&mut self, now: Instant) -> Option<ClientKey> {
        if self.until.is_some_and(|until| now >= until) {
            return None;
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_an_iteration_has_its_turn_in_the_next_one() {
        let (mut handshakes, mut now) = (Handshakes::default(), Instant::now());
        for key in 0..10 {
            handshakes.push(ClientKey(key));
        }
        let mut turns = Vec::new();
        while !handshakes.is_empty() {
            handshakes.begin(now);
            let mut turn = Vec::new();
            while let Some(ClientKey(key)) = handshakes.next(now) {
                turn.push(key);
                now += Duration::from_micros(if key == 4 { 5_000 } else { 300 });
            }
            turns.push(turn);
            now += Duration::from_millis(2);
        }
        assert_eq!(turns, [vec![0, 1, 2, 3], vec![4], vec![5, 6, 7, 8], vec![9]]);
    }
}
