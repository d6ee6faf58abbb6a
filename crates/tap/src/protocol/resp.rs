//! RESP, versions 2 and 3: Redis, Valkey, Indelible.
//!
//! ```text
//!   client ─► requests: found whole where they lie, class by the command table ─► Listener::request
//!                 └► waiting: what each one will be answered ┐
//!   server ─► replies: framed, not kept ─────────────────────┴────────────────► Listener::response
//! ```
//!
//! Replies come in the order of the requests, but not one for each: subscriptions are confirmed
//! once per channel, CLIENT REPLY suppresses answers (a request without one counts as answered by
//! the next reply), and pushes and MONITOR lines come unrequested. An EXEC with a null answer did
//! nothing, and counts as an error.
//!
//! # After a gap
//! A gap within a string of known length costs only that request or reply. After any other gap, the
//! position in the stream is lost; mistaking the middle of a value for a request would be worse
//! than losing requests. The position counts as found again when, twice in a row, everything that
//! the client sent before the server's turn was complete known requests to the last byte, and
//! everything that the server sent before the client's turn was exactly as many complete replies.
//!
//! # Invariants
//! 1. `waiting` has an entry for each unanswered request, in order.
//! 2. A request that establishes connection state is kept only after the server has accepted it.

mod meaning;
mod regain;
mod replies;
mod waiting;

use resp::{Limits, Parsed, Parser};

use self::meaning::{Meaning, ReplyMode, Setting, Words, meaning};
use self::regain::{Progress, Regain};
use self::replies::{Replies, Reply};
use self::waiting::{Expected, Waiting};
use super::{Conversation, Listener, Side};
use crate::entry::{Class, Time};

/// A request may be as long as the server allows; only its received part is held.
const LIMITS: Limits = Limits { bulk_bytes_max: 1 << 40, authenticated: true };

/// The most bytes substituted for missing ones within a string.
const FILLED_BYTES_MAX: u64 = 64 << 20;

/// A connection that speaks RESP.
#[derive(Debug)]
pub struct Resp {
    parser: Parser,
    /// The part of a request that came in earlier calls.
    partial: Vec<u8>,
    /// The minimum number of bytes missing from the request in `partial`.
    missing: usize,
    /// Whether missing bytes of the request in `partial` were substituted.
    has_hole: bool,
    /// The offset of the current request in the client's stream.
    offset: u64,
    replies: Replies,
    session: Session,
    waiting: Waiting,
    /// Set while the position in a stream is lost.
    regain: Option<Regain>,
    /// Whether nothing more can be parsed: a replica, or not RESP at all.
    is_over: bool,
}

/// The effects of earlier requests on the connection.
#[derive(Debug)]
struct Session {
    in_multi: bool,
    /// SELECT inside the open MULTI: takes effect with EXEC.
    selected_in_multi: Option<Vec<u8>>,
    reply_mode: ReplyMode,
}

impl Default for Resp {
    fn default() -> Self {
        Self::new()
    }
}

impl Resp {
    /// Creates a conversation for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            parser: Parser::new(),
            partial: Vec::new(),
            missing: 0,
            has_hole: false,
            offset: 0,
            replies: Replies::new(),
            session: Session {
                in_multi: false,
                selected_in_multi: None,
                reply_mode: ReplyMode::On,
            },
            waiting: Waiting::new(),
            regain: None,
            is_over: false,
        }
    }

    fn client(&mut self, mut bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        if !self.partial.is_empty() {
            let mut partial = std::mem::take(&mut self.partial);
            while !bytes.is_empty() && !self.is_over {
                let (here, rest) = bytes.split_at(self.missing.min(bytes.len()));
                partial.extend_from_slice(here);
                bytes = rest;
                if self.requests(&partial, at, listener) == partial.len() {
                    // A long request leaves no long buffer behind.
                    partial.clear();
                    partial.shrink_to(64 << 10);
                    break;
                }
            }
            self.partial = partial;
            if !self.partial.is_empty() {
                return;
            }
        }
        let taken = self.requests(bytes, at, listener);
        if !self.is_over {
            self.partial.extend_from_slice(&bytes[taken..]);
        }
    }

    /// Reports the complete requests at the front of `bytes`. Returns their length.
    fn requests(&mut self, bytes: &[u8], at: Time, listener: &mut dyn Listener) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_over {
            match self.parser.parse(&bytes[taken..], &LIMITS) {
                Ok(Parsed::Incomplete { missing_bytes }) => {
                    self.missing = missing_bytes;
                    break;
                }
                Ok(Parsed::Request { len }) => {
                    self.request(&bytes[taken..taken + len], at, listener);
                    self.has_hole = false;
                    self.offset += len as u64;
                    taken += len;
                }
                Err(error) => {
                    // The server reports the same and hangs up.
                    listener.unintelligible(Side::Client, &error.to_string(), at);
                    self.is_over = true;
                }
            }
        }
        taken
    }

    fn request(&mut self, payload: &[u8], at: Time, listener: &mut dyn Listener) {
        let mut args = self.parser.args(payload);
        let len = args.len();
        let Some(name) = args.next() else { return };
        let mut word = || args.next().unwrap_or_default();
        let words = Words { name, second: word(), third: word(), len };
        let meaning = match meaning(&words) {
            // The value that it set is unknown.
            Meaning::Set(_) if self.has_hole => Meaning::Plain(Class::Query),
            meaning => meaning,
        };
        if meaning == Meaning::Replica {
            listener.unintelligible(
                Side::Client,
                "the connection of a replica has no requests",
                at,
            );
            self.is_over = true;
            return;
        }
        let number = (!self.has_hole).then(|| self.waiting.number());
        let was_in_multi = self.session.in_multi;
        let is_answered = self.session.is_answered(&meaning);
        let expected = match meaning {
            _ if !is_answered => Expected::Nothing,
            // When the position is found again, all requests before it count as answered.
            _ if let Some(regain) = &mut self.regain => {
                regain.asked();
                Expected::Nothing
            }
            Meaning::Subscription(kind) if !was_in_multi => {
                Expected::Confirmations { kind, left: u32::try_from(len - 1).unwrap_or(1).max(1) }
            }
            Meaning::Exec => Expected::Execution,
            _ => Expected::Reply,
        };
        if meaning == Meaning::Monitor {
            self.waiting.monitors();
        }
        let class = match meaning {
            Meaning::Reset => Class::Connection,
            _ if was_in_multi => Class::Query,
            Meaning::Plain(class) => class,
            Meaning::Set(_) => Class::Connection,
            Meaning::Multi | Meaning::Exec | Meaning::Discard => Class::Query,
            _ => Class::ReadOnly,
        };
        self.waiting.push(number, expected);
        self.session.follow(&meaning, payload, &mut self.waiting);
        if number.is_some() {
            listener.request(class, payload, self.offset, at);
        }
    }

    fn server(&mut self, mut bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        while !self.is_over {
            match self.replies.next(&mut bytes) {
                Ok(None) => break,
                Ok(Some(reply)) => self.reply(&reply, at, listener),
                Err(why) => {
                    listener.unintelligible(Side::Server, why, at);
                    self.lose(false);
                    break;
                }
            }
        }
    }

    fn reply(&mut self, reply: &Reply, at: Time, listener: &mut dyn Listener) {
        if let Some(regain) = &mut self.regain {
            regain.answered();
            return;
        }
        if !self
            .waiting
            .answer(reply, &mut |number, outcome| listener.response(number, outcome, at))
        {
            listener.unintelligible(Side::Server, "a reply without a request", at);
            self.lose(false);
        }
    }

    /// Notes that the position in the server's stream is lost, and possibly that in the client's.
    fn lose(&mut self, client_too: bool) {
        let client_too = client_too || self.regain.as_ref().is_some_and(Regain::has_lost_client);
        self.replies = Replies::new();
        self.regain = Some(Regain::new(client_too));
        if client_too {
            self.parser = Parser::new();
            self.partial.clear();
            self.has_hole = false;
            self.session.in_multi = false;
            self.session.selected_in_multi = None;
        }
    }

    /// Returns whether the position is known again, so that parsing can continue.
    fn regained(
        &mut self,
        side: Side,
        bytes: &[u8],
        at: Time,
        listener: &mut dyn Listener,
    ) -> bool {
        let Some(regain) = &mut self.regain else { return true };
        match regain.heard(side, bytes, !self.replies.is_between()) {
            Progress::Found => {
                self.regain = None;
                // They were executed, because the connection answered later ones; their outcome is
                // unknown.
                self.waiting.answer_all(&mut |number, outcome| {
                    listener.response(number, outcome, at);
                });
                true
            }
            Progress::NewRound => {
                self.replies = Replies::new();
                !regain.has_lost_client()
            }
            Progress::SameRound => side == Side::Server || !regain.has_lost_client(),
        }
    }
}

impl Conversation for Resp {
    fn bytes(&mut self, side: Side, bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        if self.is_over || bytes.is_empty() {
            return;
        }
        let is_understood = self.regained(side, bytes, at, listener);
        match side {
            Side::Client if is_understood => self.client(bytes, at, listener),
            Side::Client => self.offset += bytes.len() as u64,
            Side::Server => self.server(bytes, at, listener),
        }
    }

    fn gap(&mut self, side: Side, missing: u64, at: Time, listener: &mut dyn Listener) {
        if self.is_over {
            return;
        }
        let is_within = match side {
            Side::Server => self.regain.is_none() && self.replies.skip(missing),
            Side::Client => self.fill(missing),
        };
        if is_within {
            return;
        }
        if side == Side::Client {
            self.offset += self.partial.len() as u64 + missing;
        }
        listener.unintelligible(side, "bytes are missing", at);
        self.lose(side == Side::Client);
    }

    fn connection_requests(&self) -> Vec<Vec<u8>> {
        self.waiting.settings()
    }
}

impl Resp {
    /// Substitutes missing bytes if they certainly lie within an argument.
    fn fill(&mut self, missing: u64) -> bool {
        // An argument ends with the two bytes of a line end; a line precedes the next one, of which
        // only the first byte is certainly missing.
        let is_within = self.missing > 2
            && !self.partial.is_empty()
            && missing > 0
            && missing <= FILLED_BYTES_MAX
            && missing <= self.missing as u64 - 2
            && !self.regain.as_ref().is_some_and(Regain::has_lost_client);
        if is_within {
            let missing = usize::try_from(missing).expect("compared with a length");
            self.partial.resize(self.partial.len() + missing, 0);
            self.missing -= missing;
            self.has_hole = true;
        }
        is_within
    }
}

impl Session {
    /// Whether the server answers a request of this meaning.
    fn is_answered(&mut self, meaning: &Meaning) -> bool {
        if self.in_multi {
            return self.reply_mode == ReplyMode::On;
        }
        match (meaning, self.reply_mode) {
            (Meaning::Reply(ReplyMode::On) | Meaning::Reset, _) => {
                self.reply_mode = ReplyMode::On;
                true
            }
            (Meaning::Reply(mode), ReplyMode::On) => {
                self.reply_mode = *mode;
                false
            }
            (_, ReplyMode::SkipNext) => {
                self.reply_mode = ReplyMode::On;
                false
            }
            (_, mode) => mode == ReplyMode::On,
        }
    }

    /// Applies the effect of the last pushed request to the connection.
    fn follow(&mut self, meaning: &Meaning, payload: &[u8], waiting: &mut Waiting) {
        match meaning {
            Meaning::Multi => self.in_multi = true,
            Meaning::Exec | Meaning::Discard | Meaning::Reset => {
                self.in_multi = false;
                let selected = self.selected_in_multi.take();
                if let (Meaning::Exec, Some(selected)) = (meaning, selected) {
                    waiting.sets(Setting::Database, selected);
                }
                if *meaning == Meaning::Reset {
                    waiting.resets();
                }
            }
            Meaning::Set(Setting::Database) if self.in_multi => {
                self.selected_in_multi = Some(payload.to_vec());
            }
            Meaning::Set(setting) if !self.in_multi => waiting.sets(*setting, payload.to_vec()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
