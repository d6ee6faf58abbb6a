//! A connection that stands for an original one (figure 6.5).
//!
//! ```text
//!            send               all sent                 the answer is whole
//!   FREE ──────────► SENDING ──────────────► WAITING_RSP ────────────────────► FREE
//! ```
//!
//! The end of an answer is found by the same [`Conversation`] that observed the original
//! connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::dialect::Dialect;
use crate::entry::{Class, Outcome, Time};
use crate::error::{Error, Result};
use crate::protocol::{Listener, Side};

/// The time that a server has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes kept of an answer, to show an error.
const ANSWER_BYTES: usize = 4096;

/// The paper's states of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Sending,
    WaitingRsp,
}

/// A connection to the server being restored.
pub(super) struct Target {
    stream: TcpStream,
    pub(super) dialect: Dialect,
    pub(super) state: State,
    hears: Hears,
    out: Vec<u8>,
    sent: usize,
    /// The number of the request in flight.
    number: u64,
    /// The beginning of the answer.
    answer: Vec<u8>,
}

/// What the conversation has reported.
#[derive(Debug, Default)]
struct Hears {
    told: u64,
    /// The latest answer.
    answered: Option<(u64, Outcome)>,
    unintelligible: Option<String>,
}

impl Listener for Hears {
    fn request(&mut self, _: Class, _: &[u8], _: u64, _: Time) {
        self.told += 1;
    }

    fn response(&mut self, number: u64, outcome: Outcome, _: Time) {
        // The last report counts: after the answer to a preparation comes the statement's id.
        self.answered = Some((number, outcome));
    }

    fn unintelligible(&mut self, _: Side, why: &str, _: Time) {
        self.unintelligible.get_or_insert_with(|| why.to_owned());
    }

    fn encrypted(&mut self, _: Time) {
        self.unintelligible.get_or_insert_with(|| "the server insists on TLS".to_owned());
    }
}

impl Target {
    /// Connects, for use in `dialect`.
    pub(super) fn connect(address: SocketAddr, dialect: Dialect) -> Result<Self> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let stream = connect()
            .map_err(|error: io::Error| Error::io(format!("connecting to {address}"), error))?;
        Ok(Self {
            stream,
            dialect,
            state: State::Free,
            hears: Hears::default(),
            out: Vec::new(),
            sent: 0,
            number: 0,
            answer: Vec::new(),
        })
    }

    /// Begins to send a request; `is_told_late` if the conversation reports it only after its
    /// answer. Returns the outcome immediately if there will be no answer.
    pub(super) fn send(&mut self, bytes: Vec<u8>, is_told_late: bool) -> Result<Option<Outcome>> {
        debug_assert_eq!(self.state, State::Free, "one request at a time");
        self.state = State::Sending;
        self.answer.clear();
        self.hears.answered = None;
        self.dialect.conversation().bytes(Side::Client, &bytes, Time(0), &mut self.hears);
        self.number = (self.hears.told + u64::from(is_told_late)).saturating_sub(1);
        self.out = bytes;
        self.sent = 0;
        self.write()?;
        Ok(self.answered())
    }

    /// Returns the outcome of what was sent; the connection is free afterwards.
    fn answered(&mut self) -> Option<Outcome> {
        let outcome = self.hears.outcome_of(self.number);
        let outcome = outcome.filter(|_| self.state == State::WaitingRsp)?;
        self.state = State::Free;
        Some(outcome)
    }

    fn write(&mut self) -> Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("sending a request", error)),
            }
        }
        self.out = Vec::new();
        self.state = State::WaitingRsp;
        Ok(())
    }

    /// Whether all of the request was sent and nothing of the answer has arrived.
    pub(super) fn is_unanswered(&self) -> bool {
        self.state == State::WaitingRsp && self.answer.is_empty()
    }

    /// The descriptor and events to wait for.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let mut flags = PollFlags::IN;
        if self.state == State::Sending {
            flags |= PollFlags::OUT;
        }
        PollFd::new(&self.stream, flags)
    }

    /// Sends and receives as much as possible without waiting. Returns the outcome if the answer is
    /// complete.
    ///
    /// # Errors
    /// If the connection is lost.
    pub(super) fn proceed(&mut self) -> Result<Option<Outcome>> {
        if self.state == State::Sending {
            self.write()?;
        }
        let mut bytes = [0; 16 << 10];
        let mut lost = None;
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
                    lost = Some(Error::io("the server closed the connection", closed));
                    break;
                }
                Ok(len) => {
                    let kept = len.min(ANSWER_BYTES - self.answer.len());
                    self.answer.extend_from_slice(&bytes[..kept]);
                    let conversation = self.dialect.conversation();
                    conversation.bytes(Side::Server, &bytes[..len], Time(0), &mut self.hears);
                    // The next wait reports whatever happens now.
                    if len < bytes.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    lost = Some(Error::io("receiving an answer", error));
                    break;
                }
            }
        }
        if let Some(why) = self.hears.unintelligible.take() {
            return Err(Error::Server { what: why });
        }
        match (self.answered(), lost) {
            (None, Some(lost)) => Err(lost),
            (outcome, _) => Ok(outcome),
        }
    }

    /// Sends `bytes`, waits for the answer and returns its beginning.
    pub(super) fn ask(&mut self, bytes: &[u8]) -> Result<(Outcome, Vec<u8>)> {
        let outcome = match self.send(bytes.to_vec(), false)? {
            Some(outcome) => outcome,
            None => self.wait()?,
        };
        Ok((outcome, std::mem::take(&mut self.answer)))
    }

    /// Waits for the answer.
    fn wait(&mut self) -> Result<Outcome> {
        loop {
            if let Some(outcome) = self.proceed()? {
                return Ok(outcome);
            }
            wait_for(&mut [self.poll_fd()], None)?;
        }
    }

    /// The text of the last answer, if it was an error.
    pub(super) fn error_text(&self) -> String {
        self.dialect.error_text(&self.answer)
    }

    /// For a login, which no conversation can predict.
    pub(super) fn blocking_stream(&mut self, is_blocking: bool) -> Result<&mut TcpStream> {
        self.stream
            .set_nonblocking(!is_blocking)
            .map_err(|error| Error::io("setting up a connection", error))?;
        Ok(&mut self.stream)
    }

    /// Passes the bytes of a login to the conversation.
    pub(super) fn heard(&mut self, side: Side, bytes: &[u8]) {
        self.dialect.conversation().bytes(side, bytes, Time(0), &mut self.hears);
    }
}

impl Hears {
    fn outcome_of(&self, number: u64) -> Option<Outcome> {
        match self.answered {
            Some((answered, outcome)) if answered >= number => Some(outcome),
            _ => None,
        }
    }
}

/// Waits until a descriptor is ready, or for the timeout.
pub(super) fn wait_for(descriptors: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<()> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match poll(descriptors, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::io("waiting for answers", error)),
    }
}
