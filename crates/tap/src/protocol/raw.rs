//! No protocol: the bytes of each call are a request.
//!
//! Nothing separates requests, so each piece of the client's stream is one, and the server's next
//! bytes answer all pieces before them. This shows traffic. It restores a server only if the
//! division of its requests does not matter.

use super::{Conversation, Listener, Side};
use crate::entry::{Class, Outcome, Time};

/// A connection in an unknown protocol.
#[derive(Debug, Default)]
pub struct Raw {
    offset: u64,
    told: u64,
    answered: u64,
}

impl Raw {
    /// Creates a conversation for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Conversation for Raw {
    fn bytes(&mut self, side: Side, bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        if bytes.is_empty() {
            return;
        }
        match side {
            Side::Client => {
                listener.request(Class::Query, bytes, self.offset, at);
                self.offset += bytes.len() as u64;
                self.told += 1;
            }
            Side::Server => {
                for number in self.answered..self.told {
                    listener.response(number, Outcome::Ok, at);
                }
                self.answered = self.told;
            }
        }
    }

    fn gap(&mut self, side: Side, missing: u64, at: Time, listener: &mut dyn Listener) {
        if side == Side::Client {
            self.offset += missing;
        }
        listener.unintelligible(side, "bytes are missing", at);
    }

    fn connection_requests(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::heard::{Heard, Recorder};

    #[test]
    fn each_piece_is_a_request_and_what_the_server_says_answers_all() {
        let (mut raw, mut recorder) = (Raw::new(), Recorder::default());
        raw.bytes(Side::Client, b"ab", Time(1), &mut recorder);
        raw.bytes(Side::Client, b"cde", Time(2), &mut recorder);
        raw.bytes(Side::Server, b"x", Time(3), &mut recorder);
        raw.bytes(Side::Server, b"y", Time(4), &mut recorder);
        assert_eq!(
            recorder.heard,
            [
                Heard::request(Class::Query, b"ab", 0),
                Heard::request(Class::Query, b"cde", 2),
                Heard::Response(0, Outcome::Ok),
                Heard::Response(1, Outcome::Ok),
            ]
        );
    }
}
