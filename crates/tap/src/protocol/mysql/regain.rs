//! Finds the position again after a gap, by rounds: a command, and its complete answer.

use super::command::Code;
use super::packet::{self, Packets};
use crate::protocol::Side;

/// Consecutive rounds that must match.
const ROUNDS: u32 = 2;

/// The most bytes kept of a client in one round.
const BURST_BYTES_MAX: usize = 1 << 20;

/// The rounds since the position was lost.
#[derive(Debug)]
pub(super) struct Regain {
    turn: Side,
    burst: Vec<u8>,
    answer: Packets,
    fits: bool,
    has_answer: bool,
    rounds: u32,
}

impl Regain {
    pub(super) fn new() -> Self {
        Self {
            turn: Side::Server,
            burst: Vec::new(),
            answer: Packets::default(),
            fits: false,
            has_answer: false,
            rounds: 0,
        }
    }

    /// Handles `bytes` of a side. Returns whether they certainly begin with a command.
    pub(super) fn heard(&mut self, side: Side, bytes: &[u8]) -> bool {
        let is_turn = side != self.turn;
        self.turn = side;
        match side {
            Side::Client => {
                if is_turn {
                    let fits = self.fits && self.has_answer && self.answer.is_between();
                    self.rounds = if fits { self.rounds + 1 } else { 0 };
                    if self.rounds == ROUNDS {
                        return true;
                    }
                    self.burst.clear();
                    self.fits = true;
                    self.has_answer = false;
                    self.answer = Packets::default();
                }
                let room = BURST_BYTES_MAX - self.burst.len();
                self.fits &= bytes.len() <= room;
                self.burst.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Side::Server => {
                if is_turn {
                    self.fits &= is_command(&self.burst);
                }
                let mut rest = bytes;
                while let Some(head) = self.answer.next(&mut rest) {
                    self.fits &= self.has_answer || head.sequence == 1;
                    self.has_answer = true;
                }
            }
        }
        false
    }
}

/// Whether the bytes are exactly one command.
fn is_command(bytes: &[u8]) -> bool {
    packet::whole(bytes) == Ok(bytes.len())
        && bytes[3] == 0
        && bytes.get(packet::HEADER_BYTES).is_some_and(|code| Code::of(*code) != Code::Other)
}
