//! Finds the position again after a gap, by rounds: all that the client sends until the server's
//! turn, and all that the server answers until the client's turn.
//!
//! The turns change at the same bytes, however the bytes are split into calls.

use resp::{Limits, Parsed, Parser};

use super::meaning::{Words, is_certain};
use crate::protocol::Side;

/// Consecutive rounds that must match.
const ROUNDS: u32 = 2;

/// The most bytes kept of a client in one round.
const BURST_BYTES_MAX: usize = 1 << 20;

/// What a piece of a stream has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The piece begins with a request.
    Found,
    /// The piece begins a round.
    NewRound,
    SameRound,
}

/// The rounds since the position was lost.
#[derive(Debug)]
pub(super) struct Regain {
    /// The client's bytes in this round, if its own position is lost.
    burst: Option<Vec<u8>>,
    turn: Side,
    /// Whether the round began with the client's first bytes after the server's.
    is_whole: bool,
    asked: u64,
    answered: u64,
    rounds: u32,
}

impl Regain {
    pub(super) fn new(has_lost_client: bool) -> Self {
        Self {
            burst: has_lost_client.then(Vec::new),
            turn: Side::Server,
            is_whole: false,
            asked: 0,
            answered: 0,
            rounds: 0,
        }
    }

    pub(super) fn has_lost_client(&self) -> bool {
        self.burst.is_some()
    }

    /// Counts a request of a client whose own position is known.
    pub(super) fn asked(&mut self) {
        self.asked += 1;
    }

    /// Counts a reply.
    pub(super) fn answered(&mut self) {
        self.answered += 1;
    }

    /// Handles `bytes` of a side; `within_reply` if the server's last reply was incomplete.
    pub(super) fn heard(&mut self, side: Side, bytes: &[u8], within_reply: bool) -> Progress {
        let mut progress = Progress::SameRound;
        if side != self.turn {
            self.turn = side;
            match side {
                Side::Client => {
                    let fits = self.is_whole
                        && self.asked > 0
                        && self.answered == self.asked
                        && !within_reply;
                    self.rounds = if fits { self.rounds + 1 } else { 0 };
                    if self.rounds == ROUNDS {
                        return Progress::Found;
                    }
                    self.is_whole = true;
                    self.asked = 0;
                    self.answered = 0;
                    if let Some(burst) = &mut self.burst {
                        burst.clear();
                    }
                    progress = Progress::NewRound;
                }
                Side::Server => {
                    if let Some(burst) = &mut self.burst {
                        self.asked = requests(burst);
                    }
                }
            }
        }
        if let (Side::Client, Some(burst)) = (side, &mut self.burst) {
            let room = BURST_BYTES_MAX.saturating_sub(burst.len());
            if bytes.len() > room {
                self.is_whole = false;
            }
            burst.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        progress
    }
}

/// Counts the requests in the bytes; 0 unless they are certainly requests to the last byte.
fn requests(bytes: &[u8]) -> u64 {
    let (mut parser, mut count, mut from) = (Parser::new(), 0, 0);
    while from < bytes.len() {
        let Ok(Parsed::Request { len }) = parser.parse(&bytes[from..], &Limits::default()) else {
            return 0;
        };
        let mut args = parser.args(&bytes[from..from + len]);
        let len_of_args = args.len();
        let mut word = || args.next().unwrap_or_default();
        let words = Words { name: word(), second: word(), third: word(), len: len_of_args };
        // An inline line of words may be anything.
        if bytes[from] != b'*' || !is_certain(&words) {
            return 0;
        }
        count += 1;
        from += len;
    }
    count
}
