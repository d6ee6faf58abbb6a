//! The client protocol of MySQL and MariaDB.
//!
//! ```text
//!   server  greeting                     OK                  OK │ rows … EOF
//!   client            login  (password)     COM_QUERY …                      COM_STMT_EXECUTE …
//!           └────────── Login ────────────┘ └───────────── Commands ─────────────────────────────►
//! ```
//!
//! What the client sends first is reported as one request. The password that may follow is not
//! reported: it is scrambled with a number unique to the connection. A LOAD DATA LOCAL is reported
//! together with its file, when that is complete.
//!
//! [`Class::ReadOnly`] follows from the words of the statement and the server's last transaction
//! status; inside a transaction, everything is [`Class::Query`].
//!
//! The id of a prepared statement is only in the server's answer. It is reported as an additional
//! request of class Connection, an execution without values ([`command::Execute::naming`]). It
//! follows the request that prepared the statement, and recovery does not execute it. So are the
//! types of its parameters, which the client sends with one execution and later executions rely on:
//! recovery must know them even if it skips that execution.
//!
//! A server that breaks a deadlock rolls back a whole transaction without a request from the
//! client. That too is reported as an additional request, a ROLLBACK ([`deadlock_rollback`]), after
//! the refused one.
//!
//! # After a gap
//! A gap within rows of known length costs nothing. After any other gap, parsing resumes where the
//! client begins to send after the server did, if twice before that it sent exactly one packet of
//! number 0 with a known command, and the server answered in complete packets from number 1 on. If
//! the login was not seen, parsing never resumes, because the agreed capabilities are unknown.

pub(crate) mod answer;
pub(crate) mod command;
pub(crate) mod login;
pub(crate) mod packet;
mod regain;
mod session;
pub(crate) mod sql;

use std::collections::VecDeque;

use self::answer::{Answer, Expected, Prepared, Step};
use self::command::{Code, Execute};
use self::login::{Greeting, Login, capability};
use self::packet::Packets;
use self::regain::Regain;
use self::session::{Change, Session};
use self::sql::Kind;
use super::{Conversation, Listener, Side};
use crate::entry::{Class, Outcome, Time};

/// The error number by which a server breaks a deadlock.
const DEADLOCK: [u8; 2] = 1213_u16.to_le_bytes();

/// The request that records a rollback by the server.
pub(crate) fn deadlock_rollback() -> Vec<u8> {
    let mut request = Vec::new();
    packet::write(&mut request, 0, b"\x03ROLLBACK /* deadlock */");
    request
}

/// A connection that speaks MySQL's protocol.
#[derive(Debug)]
pub struct Mysql {
    phase: Phase,
    /// The part of a request that came in earlier calls.
    partial: Vec<u8>,
    /// The offset of the current request in the client's stream.
    offset: u64,
    packets: Packets,
    /// The capabilities agreed on.
    capabilities: u64,
    session: Session,
    waiting: VecDeque<Waiting>,
    told: u64,
    file: Option<File>,
    prepared: Option<Prepared>,
    /// Set while the position is lost and can be found again.
    regain: Option<Regain>,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The server speaks first.
    Greeting,
    /// The client must log in.
    Login,
    /// The server wants a proof of the password.
    Proof,
    Commands,
    /// The position is lost: nothing is parsed until the client begins anew.
    Lost,
    /// Nothing more can be parsed.
    Over,
}

/// An unanswered command.
#[derive(Debug)]
struct Waiting {
    number: u64,
    answer: Answer,
    change: Option<(Change, Vec<u8>)>,
}

/// LOAD DATA LOCAL: the request so far, and its class.
#[derive(Debug)]
struct File {
    number: u64,
    request: Vec<u8>,
    /// Whether the server has requested the file.
    is_wanted: bool,
    /// Whether the file has been reported, so that nothing is reported twice.
    is_told: bool,
}

impl Default for Mysql {
    fn default() -> Self {
        Self::new()
    }
}

impl Mysql {
    /// Creates a conversation for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            phase: Phase::Greeting,
            partial: Vec::new(),
            offset: 0,
            packets: Packets::default(),
            capabilities: 0,
            session: Session::new(),
            waiting: VecDeque::new(),
            told: 0,
            file: None,
            prepared: None,
            regain: None,
        }
    }

    /// The statement prepared last.
    pub(crate) fn last_prepared(&self) -> Option<Prepared> {
        self.prepared
    }

    fn client(&mut self, mut bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        while !bytes.is_empty() && self.is_heard() {
            if self.partial.is_empty() {
                match packet::whole(bytes) {
                    Ok(len) => {
                        self.request(&bytes[..len], at, listener);
                        self.offset += len as u64;
                        bytes = &bytes[len..];
                        continue;
                    }
                    Err(_) => {
                        self.partial.extend_from_slice(bytes);
                        return;
                    }
                }
            }
            let missing = packet::whole(&self.partial).expect_err("a whole one is not kept");
            let (here, rest) = bytes.split_at(missing.min(bytes.len()));
            self.partial.extend_from_slice(here);
            bytes = rest;
            if packet::whole(&self.partial).is_ok() {
                let request = std::mem::take(&mut self.partial);
                self.request(&request, at, listener);
                self.offset += request.len() as u64;
            }
        }
    }

    fn is_heard(&self) -> bool {
        !matches!(self.phase, Phase::Lost | Phase::Over)
    }

    /// Handles a complete payload of the client, with the headers of its packets.
    fn request(&mut self, raw: &[u8], at: Time, listener: &mut dyn Listener) {
        match self.phase {
            Phase::Login => self.login(raw, at, listener),
            Phase::Proof => {}
            Phase::Commands => {
                if !self.answers_question(raw) {
                    self.command(raw, at, listener);
                }
            }
            Phase::Greeting => self.give_up("the client sends before the server", at, listener),
            Phase::Lost | Phase::Over => {}
        }
    }

    fn give_up(&mut self, why: &str, at: Time, listener: &mut dyn Listener) {
        listener.unintelligible(Side::Client, why, at);
        self.phase = Phase::Over;
    }

    fn login(&mut self, raw: &[u8], at: Time, listener: &mut dyn Listener) {
        let payload = packet::payload(raw);
        let Some(login) = Login::parse(&payload) else {
            return self.give_up("a login of the old protocol", at, listener);
        };
        self.capabilities &= login.capabilities;
        let has = |bit: u64| self.capabilities & bit != 0;
        if has(capability::SSL) && payload.len() == 32 {
            self.phase = Phase::Over;
            return listener.encrypted(at);
        }
        if has(capability::COMPRESS) || has(capability::ZSTD) {
            let why = "the connection is compressed: turn compression off in the client or server";
            return self.give_up(why, at, listener);
        }
        let change = Change::Keep("login".into());
        self.tell(Class::Connection, raw, at, listener);
        self.wait(Expected::Login, Some((change, raw.to_vec())));
        self.phase = Phase::Proof;
    }

    fn tell(&mut self, class: Class, raw: &[u8], at: Time, listener: &mut dyn Listener) {
        listener.request(class, raw, self.offset, at);
        self.told += 1;
    }

    /// Notes that the last reported request expects the answer `expected`.
    fn wait(&mut self, expected: Expected, change: Option<(Change, Vec<u8>)>) {
        let answer = Answer::new(expected, self.capabilities);
        self.waiting.push_back(Waiting { number: self.told - 1, answer, change });
    }

    /// Whether the client's packet belongs to an earlier command: a file, or a password.
    fn answers_question(&mut self, raw: &[u8]) -> bool {
        let is_first = raw[3] == 0;
        if let Some(file) = &mut self.file
            && (file.is_wanted || !is_first)
        {
            file.request.extend_from_slice(raw);
            return true;
        }
        let asks = self
            .waiting
            .front()
            .is_some_and(|waiting| matches!(&waiting.change, Some((Change::NewUser, _))));
        asks && !is_first
    }

    fn command(&mut self, raw: &[u8], at: Time, listener: &mut dyn Listener) {
        let payload = packet::payload(raw);
        let (Some(&first), 0) = (payload.first(), raw[3]) else {
            listener.unintelligible(Side::Client, "a packet out of order", at);
            return self.lose();
        };
        let code = Code::of(first);
        if code == Code::Replica {
            return self.give_up("the connection of a replica has no requests", at, listener);
        }
        let payload = self.without_attributes(code, &payload);
        let Some(payload) = payload else {
            return self.give_up("a query with attributes", at, listener);
        };
        let is_alone = self.waiting.is_empty();
        let (class, change) = self.session.command(code, &payload, is_alone);
        if let Some(file) = self.file.as_mut().filter(|file| !file.is_told) {
            file.is_told = true;
            listener.request(Class::Query, &file.request, self.offset, at);
        }
        if code == Code::Query
            && sql::statements(&payload[1..]).iter().any(|one| sql::kind(one) == Kind::LoadsLocal)
        {
            let number = self.told;
            self.file =
                Some(File { number, request: raw.to_vec(), is_wanted: false, is_told: false });
            self.told += 1;
            return self.wait(Expected::Results, None);
        }
        if code == Code::Execute
            && let Some(naming) = self.session.naming(&payload)
        {
            self.tell(Class::Connection, &naming, at, listener);
            listener.response(self.told - 1, Outcome::Ok, at);
        }
        self.tell(class, raw, at, listener);
        match code.expected() {
            // Complete as soon as it arrives.
            Expected::Nothing if self.waiting.is_empty() => {
                listener.response(self.told - 1, Outcome::Ok, at);
            }
            expected => self.wait(expected, change.map(|change| (change, raw.to_vec()))),
        }
    }

    /// Returns the payload without query attributes, of which clients of MySQL 8 send none.
    fn without_attributes<'a>(
        &self,
        code: Code,
        payload: &'a [u8],
    ) -> Option<std::borrow::Cow<'a, [u8]>> {
        if code != Code::Query || self.capabilities & capability::QUERY_ATTRIBUTES == 0 {
            return Some(payload.into());
        }
        match payload {
            [code, 0, 1, rest @ ..] => Some([&[*code], rest].concat().into()),
            _ => None,
        }
    }

    fn server(&mut self, mut bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        while self.phase != Phase::Over {
            let Some(head) = self.packets.next(&mut bytes) else { break };
            match self.phase {
                Phase::Greeting => match Greeting::parse(&head.bytes) {
                    Some(greeting) => {
                        self.capabilities = greeting.capabilities;
                        self.phase = Phase::Login;
                    }
                    // The server refuses the connection, with a reason.
                    None if head.first() == 0xff => {}
                    None => {
                        listener.unintelligible(Side::Server, "an unknown kind of greeting", at);
                        self.phase = Phase::Over;
                    }
                },
                Phase::Login => {}
                _ => self.answer(at, listener),
            }
        }
    }

    /// Handles the server's packet that was just read.
    fn answer(&mut self, at: Time, listener: &mut dyn Listener) {
        self.pop_silent(at, listener);
        let Some(waiting) = self.waiting.front_mut() else {
            // The server gives the reason for its hangup.
            if self.packets.head().first() != 0xff {
                listener.unintelligible(Side::Server, "an answer without a request", at);
                self.lose();
            }
            return;
        };
        match waiting.answer.packet(self.packets.head()) {
            Err(why) => {
                listener.unintelligible(Side::Server, why, at);
                self.lose();
            }
            Ok(Step::More) => {}
            Ok(Step::File) => match &mut self.file {
                Some(file) => file.is_wanted = true,
                None => {
                    let why = "the file of a hidden LOAD DATA LOCAL";
                    listener.unintelligible(Side::Client, why, at);
                    self.file = Some(File {
                        number: waiting.number,
                        request: Vec::new(),
                        is_wanted: true,
                        is_told: true,
                    });
                }
            },
            Ok(Step::Done { outcome, status, prepared }) => {
                self.done(outcome, status, prepared, at, listener);
            }
        }
    }

    fn done(
        &mut self,
        outcome: Outcome,
        status: Option<u16>,
        prepared: Option<Prepared>,
        at: Time,
        listener: &mut dyn Listener,
    ) {
        let Some(waiting) = self.waiting.pop_front() else { return };
        if let Some(file) = self.file.take_if(|file| file.number == waiting.number)
            && !file.is_told
        {
            listener.request(Class::Query, &file.request, self.offset, at);
        }
        if let Some(status) = status {
            self.session.told_status(status);
        }
        if outcome == Outcome::Ok
            && let Some((change, request)) = waiting.change
        {
            self.session.apply(change, request, prepared);
        }
        if self.phase == Phase::Proof {
            self.phase = Phase::Commands;
        }
        listener.response(waiting.number, outcome, at);
        if let Some(Prepared { id, parameters }) = prepared {
            self.prepared = prepared;
            let naming = Execute::naming(id, parameters, &[]);
            self.tell(Class::Connection, &naming, at, listener);
            listener.response(self.told - 1, Outcome::Ok, at);
        }
        let head = &self.packets.head().bytes;
        if outcome == Outcome::Error && head.get(1..3) == Some(&DEADLOCK) {
            self.tell(Class::Query, &deadlock_rollback(), at, listener);
            listener.response(self.told - 1, Outcome::Ok, at);
        }
        self.pop_silent(at, listener);
    }

    /// Completes commands without an answer once all before them are complete.
    fn pop_silent(&mut self, at: Time, listener: &mut dyn Listener) {
        while let Some(waiting) =
            self.waiting.pop_front_if(|front| front.answer.expected() == Expected::Nothing)
        {
            listener.response(waiting.number, Outcome::Ok, at);
        }
    }

    fn lose(&mut self) {
        let can_be_found = matches!(self.phase, Phase::Commands | Phase::Lost);
        self.phase = Phase::Lost;
        self.regain = can_be_found.then(Regain::new);
        self.partial.clear();
        self.packets = Packets::default();
        self.file = None;
    }

    /// Listens while the position is lost. Returns whether it is known again, so that `bytes` begin
    /// with a command.
    fn regained(
        &mut self,
        side: Side,
        bytes: &[u8],
        at: Time,
        listener: &mut dyn Listener,
    ) -> bool {
        let is_found = self.regain.as_mut().is_some_and(|regain| regain.heard(side, bytes));
        if !is_found {
            self.offset += if side == Side::Client { bytes.len() as u64 } else { 0 };
            return false;
        }
        self.regain = None;
        self.phase = Phase::Commands;
        self.session.is_in_doubt();
        // They were executed, because the connection answered later ones; their outcome is unknown.
        while let Some(waiting) = self.waiting.pop_front() {
            listener.response(waiting.number, Outcome::Ok, at);
        }
        true
    }
}

impl Conversation for Mysql {
    fn bytes(&mut self, side: Side, bytes: &[u8], at: Time, listener: &mut dyn Listener) {
        if self.phase == Phase::Over || bytes.is_empty() {
            return;
        }
        if self.phase == Phase::Lost && !self.regained(side, bytes, at, listener) {
            return;
        }
        match side {
            Side::Client => self.client(bytes, at, listener),
            Side::Server => self.server(bytes, at, listener),
        }
    }

    fn gap(&mut self, side: Side, missing: u64, at: Time, listener: &mut dyn Listener) {
        if self.phase == Phase::Over || (side == Side::Server && self.packets.skip(missing)) {
            return;
        }
        if side == Side::Client {
            self.offset += self.partial.len() as u64 + missing;
        }
        listener.unintelligible(side, "bytes are missing", at);
        self.lose();
    }

    fn connection_requests(&self) -> Vec<Vec<u8>> {
        self.session.requests()
    }
}

#[cfg(test)]
mod tests;
