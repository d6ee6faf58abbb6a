//! Brings keys to another server, step by step.
//!
//! Redis sends everything at once and then looks at the answers. Here AUTH and SELECT are answered before the first
//! RESTORE leaves: otherwise values would go into database 0 of a target that has not the one that was named.

use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use super::desk::{Desk, GivenUp, Outcome, Ticket};
use super::error::MigrateError;
use super::order::{Order, Parcel};
use super::wire::{Dialer, Wire};

/// How much is sent at a time: each piece has the whole timeout.
const PIECE_BYTES: usize = 64 << 10;

/// How many answers are heard in a step.
const LINES_A_STEP: usize = 64;

/// How much of a line that makes no sense is shown.
const SHOWN_BYTES_MAX: usize = 128;

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourierStep {
    /// Something; there is more.
    Worked,
    /// Nothing: it is the engine's turn.
    Idle,
    /// It is over.
    Finished,
}

enum Stage {
    Connecting,
    /// The target is ready; the engine takes the values.
    Ready(Box<dyn Wire>),
    Sending(Sending),
    Hearing(Hearing),
    Over,
}

/// Parcels leave.
struct Sending {
    wire: Box<dyn Wire>,
    parcels: IntoIter<Parcel>,
    /// Encoded, and not sent yet.
    bytes: Vec<u8>,
    sent: usize,
    /// How many answers there will be.
    count: usize,
}

/// Answers come.
struct Hearing {
    wire: Box<dyn Wire>,
    acknowledged: Vec<bool>,
    heard: usize,
    failure: Option<MigrateError>,
}

/// See the file's top.
pub struct Courier {
    desk: Arc<Desk>,
    order: Order,
    stage: Stage,
}

impl Courier {
    /// What carries out an order, and what the engine keeps of it.
    #[must_use]
    pub fn new(order: Order) -> (Self, Ticket) {
        let desk = Desk::new();
        let ticket = Ticket::new(Arc::clone(&desk));
        (Self { desk, order, stage: Stage::Connecting }, ticket)
    }

    /// Tells whether the engine wants nothing more.
    pub(super) fn given_up(&self) -> GivenUp {
        GivenUp(Arc::clone(&self.desk))
    }

    /// Whether the engine has something to do.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.desk.has_news()
    }

    /// Waits until the engine has done something, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        self.desk.wait(timeout);
    }

    /// Does some of it. It waits for the target, and for nothing else.
    pub fn step(&mut self, dialer: &mut dyn Dialer) -> CourierStep {
        if self.desk.is_given_up() {
            self.stage = Stage::Over;
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Connecting => match self.connect(dialer) {
                Ok(wire) => {
                    self.desk.offer();
                    self.stage = Stage::Ready(wire);
                }
                Err(failure) => self.desk.end(Outcome::of(failure)),
            },
            Stage::Ready(wire) => match self.desk.take_parcels() {
                Some(parcels) => self.stage = Stage::Sending(Sending::new(wire, parcels)),
                None => {
                    self.stage = Stage::Ready(wire);
                    return CourierStep::Idle;
                }
            },
            Stage::Sending(mut sending) => match sending.step(&self.order) {
                Ok(false) => self.stage = Stage::Sending(sending),
                Ok(true) => self.stage = Stage::Hearing(sending.hear()),
                Err(failure) => self.desk.end(Outcome::of(failure)),
            },
            Stage::Hearing(mut hearing) => {
                if hearing.step() {
                    let Hearing { acknowledged, failure, .. } = hearing;
                    self.desk.end(Outcome { acknowledged, failure });
                } else {
                    self.stage = Stage::Hearing(hearing);
                }
            }
            Stage::Over => return CourierStep::Finished,
        }
        CourierStep::Worked
    }

    /// Connects, authenticates and selects the database.
    fn connect(&self, dialer: &mut dyn Dialer) -> Result<Box<dyn Wire>, MigrateError> {
        let Order { host, port, credentials, database, timeout, .. } = &self.order;
        let mut wire = dialer.dial(host, *port, *timeout).map_err(MigrateError::of_connecting)?;
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        if let Some(credentials) = credentials {
            let name = credentials.name.as_deref();
            let words = [Some(&b"AUTH"[..]), name, Some(&credentials.password)];
            put_request(&mut bytes, &words.into_iter().flatten().collect::<Vec<_>>());
            sent.push("AUTH");
        }
        put_request(&mut bytes, &[b"SELECT", database.to_string().as_bytes()]);
        sent.push("SELECT");
        wire.send(&bytes).map_err(MigrateError::Write)?;
        let mut failure = None;
        for command in sent {
            let line = wire.line().map_err(MigrateError::Read)?;
            failure = failure.or_else(|| judge(command, &line).err());
            if failure.is_some() {
                // The first error is what counts, and a target that has none to come is not waited for.
                break;
            }
        }
        failure.map_or(Ok(wire), Err)
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        // One that has panicked must not be waited for.
        self.desk.end(Outcome::of(MigrateError::GivenUp));
    }
}

impl Sending {
    fn new(wire: Box<dyn Wire>, parcels: Vec<Parcel>) -> Self {
        let count = parcels.len();
        Self { wire, parcels: parcels.into_iter(), bytes: Vec::new(), sent: 0, count }
    }

    /// Sends a piece. Whether it was the last one.
    fn step(&mut self, order: &Order) -> Result<bool, MigrateError> {
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            self.bytes.shrink_to(2 * PIECE_BYTES);
        }
        // What was sent of a large value stays in front until all of it is gone.
        while self.bytes.len() < PIECE_BYTES
            && let Some(parcel) = self.parcels.next()
        {
            put_parcel(&mut self.bytes, parcel, order);
        }
        let piece = &self.bytes[self.sent..self.bytes.len().min(self.sent + PIECE_BYTES)];
        self.wire.send(piece).map_err(MigrateError::Write)?;
        self.sent += piece.len();
        Ok(self.sent == self.bytes.len() && self.parcels.len() == 0)
    }

    /// All were sent.
    fn hear(self) -> Hearing {
        let acknowledged = vec![false; self.count];
        Hearing { wire: self.wire, acknowledged, heard: 0, failure: None }
    }
}

impl Hearing {
    /// Hears some answers. Whether no more come.
    fn step(&mut self) -> bool {
        let end = self.acknowledged.len().min(self.heard + LINES_A_STEP);
        for acknowledged in &mut self.acknowledged[self.heard..end] {
            match self.wire.line() {
                Ok(line) => match judge("RESTORE", &line) {
                    Ok(()) => *acknowledged = true,
                    Err(failure @ MigrateError::Refused(_)) => {
                        self.failure.get_or_insert(failure);
                    }
                    // What comes behind that cannot be believed.
                    Err(failure) => {
                        self.failure.get_or_insert(failure);
                        return true;
                    }
                },
                Err(error) => {
                    self.failure.get_or_insert(MigrateError::Read(error));
                    return true;
                }
            }
        }
        self.heard = end;
        end == self.acknowledged.len()
    }
}

/// Whether an answer is the one that is hoped for: anything else keeps the key here.
fn judge(command: &'static str, line: &[u8]) -> Result<(), MigrateError> {
    let shown = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    match line {
        b"+OK" => Ok(()),
        [b'-', error @ ..] => Err(MigrateError::Refused(shown(error))),
        _ => {
            let line = shown(&line[..line.len().min(SHOWN_BYTES_MAX)]);
            Err(MigrateError::Unexpected { command, line })
        }
    }
}

fn put_request(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

fn put_parcel(bytes: &mut Vec<u8>, parcel: Parcel, order: &Order) {
    let Parcel { key, ttl_ms, value } = parcel;
    let payload = rdb::encode_for(&value, order.payload_readers);
    // There may be room for the value's bytes no more than twice.
    drop(value);
    let ttl = ttl_ms.to_string();
    let words: [&[u8]; 5] = [b"RESTORE", &key, ttl.as_bytes(), &payload, b"REPLACE"];
    put_request(bytes, &words[..if order.replaces { 5 } else { 4 }]);
}
