//! A copy of everything that was valid at a mark.

use base::Lsn;
use redo::{Id, Mark, MarkReader};

use crate::desk::Desk;
use crate::error::Result;
use crate::frames::{Compression, encode};
use crate::key::Salts;
use crate::name::{Fill, Name};
use crate::object::Header;
use crate::parts::Parts;
use crate::target::Target;

/// After what time a copy that could not be made is begun again: at first, and at most.
const AGAIN_US: u64 = 5_000_000;
const AGAIN_US_MAX: u64 = 3_600_000_000;

/// Copies, one after the other.
#[derive(Default)]
pub(crate) struct Fills {
    /// The one that is made.
    pub(crate) filling: Filling,
    /// The last block of what was there, if it was not seen to be the log's own: nothing goes on from it.
    pub(crate) unlike: Option<Lsn>,
    /// How many were begun.
    count: u32,
    /// How many could not be made since one was, and when the next one is begun.
    failures: u32,
    again_us: u64,
}

impl Fills {
    /// Whether another one may be begun.
    pub(crate) const fn is_due(&self, now_us: u64) -> bool {
        now_us >= self.again_us
    }

    /// Gets on with a mark: see [`Filling::begin`].
    pub(crate) fn begin(&mut self, desk: &Desk, database: Id, writer: u64) -> bool {
        let worked = self.filling.begin(desk, database, (writer, self.count + 1));
        self.count += u32::from(matches!(self.filling, Filling::Reading(_)));
        worked
    }

    /// It cannot be made to its end.
    pub(crate) fn give_up(&mut self, now_us: u64) {
        self.filling = Filling::Idle;
        self.again_us = now_us + (AGAIN_US << self.failures.min(20)).min(AGAIN_US_MAX);
        self.failures += 1;
    }

    /// All of it is there.
    pub(crate) fn note_complete(&mut self) {
        (self.filling, self.failures) = (Filling::Idle, 0);
    }
}

/// See the file's top.
#[derive(Default)]
pub(crate) enum Filling {
    /// None is made.
    #[default]
    Idle,
    /// There is a mark, which cannot be read yet.
    Marked(Mark, i64),
    /// It is read.
    Reading(Box<Reading>),
}

/// A copy that is being made.
pub(crate) struct Reading {
    reader: MarkReader,
    /// When the mark was taken, in Unix milliseconds.
    time_ms: i64,
    parts: Parts,
    is_read: bool,
    records_done: u64,
}

/// What is to be put next.
pub(crate) struct Portion {
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
    /// What is put of it, if that is not what it is.
    pub(crate) encoded: Option<Vec<u8>>,
    /// The objects that it takes the place of.
    pub(crate) replaces: Vec<Name>,
}

impl Portion {
    /// One that is new.
    pub(crate) const fn new(header: Header, bytes: Vec<u8>) -> Self {
        Self { header, bytes, encoded: None, replaces: Vec::new() }
    }

    /// Makes what is put of it, by the target's key. Done once: what is tried again has the same bytes.
    pub(crate) fn encode(
        &mut self,
        target: &dyn Target,
        salts: &mut Salts,
        compression: Compression,
    ) {
        if self.encoded.is_none() {
            let header = self.header.encode();
            let key = target.keys().first().map(|key| (key, salts.next(&header, &self.bytes)));
            self.encoded = encode(&self.header, &self.bytes, compression, key);
        }
    }

    /// What is put.
    pub(crate) fn stored(&self) -> &[u8] {
        self.encoded.as_deref().unwrap_or(&self.bytes)
    }
}

impl Reading {
    /// Begins to read a mark.
    pub(crate) fn new(
        reader: MarkReader,
        database: Id,
        (writer, number): (u64, u32),
        time_ms: i64,
    ) -> Self {
        let fill = Fill { lsn: reader.lsn(), writer, number };
        let parts = Parts::new(database, fill);
        Self { reader, time_ms, parts, is_read: false, records_done: 0 }
    }

    pub(crate) const fn fill(&self) -> Fill {
        self.parts.fill()
    }

    /// The objects that were made so far.
    pub(crate) fn begun(&self) -> impl Iterator<Item = Name> + use<> {
        self.parts.begun()
    }

    /// When the mark was there.
    pub(crate) const fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// How many records were read, of how many.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.records_done, self.reader.record_count())
    }

    /// Makes the next object, of about so many bytes: the last one says that all are there.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Result<Portion> {
        while !self.is_read && !self.parts.has(bytes_max) {
            match self.reader.next()? {
                Some(block) => {
                    self.records_done += block.records().count() as u64;
                    let records = block.records().map(|(_, record)| record);
                    self.parts.put((block.lsn(), block.time_ms()), records);
                }
                None => self.is_read = true,
            }
        }
        Ok(self.parts.end_part().unwrap_or_else(|| self.parts.whole(self.time_ms)))
    }
}

impl Filling {
    /// How many records of a copy were read, of how many.
    pub(crate) fn progress(&self) -> (u64, u64) {
        match self {
            Self::Reading(reading) => reading.progress(),
            _ => (0, 0),
        }
    }

    /// Gets on with a mark: asks for one, takes it, begins to read it. Returns whether something was done.
    pub(crate) fn begin(&mut self, desk: &Desk, database: Id, number: (u64, u32)) -> bool {
        match std::mem::replace(self, Self::Idle) {
            Self::Idle => match desk.take_mark() {
                Some((mark, time_ms)) => {
                    *self = Self::Marked(mark, time_ms);
                    true
                }
                None => {
                    desk.ask_for_mark();
                    false
                }
            },
            Self::Marked(mark, _) if mark.is_given_up() => false,
            Self::Marked(mark, time_ms) => match mark.read() {
                Ok(reader) => {
                    let reading = Reading::new(reader, database, number, time_ms);
                    *self = Self::Reading(Box::new(reading));
                    true
                }
                Err(mark) => {
                    *self = Self::Marked(mark, time_ms);
                    false
                }
            },
            reading @ Self::Reading(_) => {
                *self = reading;
                false
            }
        }
    }
}
