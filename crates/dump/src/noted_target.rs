//! A dump as an RDB file, with its companion.

use std::io::Write;
use std::sync::Arc;

use base::{ObjectId, RecordAddr};
use keyspace::Type;
use rdb::length_bytes;

use crate::companion::{Companion, CompanionWriter, Entry, Head, Part};
use crate::error::{Error, Result};
use crate::rdb_target::{RdbTarget, is_in_parts};
use crate::target::{DumpedKey, Element, Noted, Target};

/// Writes what it is given as an RDB file, or copies it from another one, and notes of which records it is.
pub(crate) struct NotedTarget<W> {
    rdb: RdbTarget<W>,
    companion: CompanionWriter,
    /// What the file had before its first key.
    pub(crate) head_bytes: u64,
    /// A stream came: nothing that is noted of it is of use.
    pub(crate) has_streams: bool,
    state: State,
    /// The part that is being written.
    part: Option<PartBegun>,
}

enum State {
    Between,
    /// A key that is one record, and where it begins.
    Key(RecordAddr, u64),
    /// An object of which nothing is written yet.
    Object(RecordAddr, ObjectId, u64),
    /// A string whose value begins there.
    String(u64),
    Collection,
    /// What is written of it is not noted.
    Stream,
}

struct PartBegun {
    addr: RecordAddr,
    order: u64,
    from: u64,
    elements: u64,
}

impl<W: Write> NotedTarget<W> {
    pub(crate) const fn new(rdb: RdbTarget<W>, companion: CompanionWriter) -> Self {
        let head_bytes = rdb.position();
        let state = State::Between;
        Self { rdb, companion, head_bytes, has_streams: false, state, part: None }
    }

    /// How many bytes the companion has so far.
    pub(crate) const fn companion_bytes(&self) -> u64 {
        self.companion.bytes()
    }

    /// Says which database the next key is in.
    pub(crate) fn select(&mut self, index: u32) -> Result<()> {
        let from = self.rdb.position();
        self.rdb.select(index).map_err(refused)?;
        match self.rdb.position() - from {
            0 => Ok(()),
            bytes => self.companion.entry(&Entry::Database { index, bytes }),
        }
    }

    /// Copies bytes that something is noted of before or afterwards.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<()> {
        self.rdb.copy(bytes).map_err(refused)
    }

    /// A key that is one record was copied, so many bytes.
    pub(crate) fn key_copied(&mut self, addr: RecordAddr, bytes: u64) -> Result<()> {
        self.companion.entry(&Entry::Key { addr, bytes })
    }

    /// Times, form and name of an object were copied; what its value consists of comes next.
    pub(crate) fn head_copied(&mut self, head: &Head) -> Result<()> {
        self.companion.entry(&Entry::Object(*head))?;
        let from = self.rdb.position();
        self.state = match head.value_type {
            Type::String => State::String(from),
            _ => State::Collection,
        };
        self.rdb.key_copied(head.value_type, head.count).map_err(refused)
    }

    /// A part of a collection was copied. REQUIRES: before that the part in front of it was ended.
    pub(crate) fn part_copied(&mut self, part: &Part) -> Result<()> {
        self.rdb.elements_copied(part.elements);
        self.companion.part(part)
    }

    /// A string is copied as a whole: its value, of so many bytes, is still to come.
    pub(crate) fn string_copied(
        &mut self,
        head: &Head,
        chunks: impl Iterator<Item = Result<RecordAddr>>,
        value_bytes: u64,
    ) -> Result<()> {
        self.companion.entry(&Entry::Object(*head))?;
        for addr in chunks {
            self.companion.chunk(addr?)?;
        }
        self.companion.end_string(value_bytes)
    }

    /// Notes the part that is being written, if there is one: what follows is another one.
    pub(crate) fn end_part(&mut self) -> Result<()> {
        let Some(PartBegun { addr, order, from, elements }) = self.part.take() else {
            return Ok(());
        };
        match self.state {
            State::String(_) => self.companion.chunk(addr),
            _ => {
                let bytes = self.rdb.position() - from;
                self.companion.part(&Part { addr, order, elements, bytes })
            }
        }
    }

    /// Ends file and companion. Returns the target, to which everything is written and not synced, how many bytes
    /// that are, the file's checksum if it has one, and the companion.
    pub(crate) fn finish(self) -> Result<(W, u64, Option<u64>, Arc<Companion>)> {
        // An end mark and a checksum.
        const END_BYTES: u64 = 1 + 8;
        let len = self.rdb.position() + END_BYTES;
        let companion = self.companion.finish()?;
        let (target, sum) = self.rdb.finish_summed().map_err(refused)?;
        Ok((target, len, sum, companion))
    }
}

fn refused(error: rdb::WriteError) -> Error {
    Error::Target(Box::new(error))
}

impl<W: Write> Target for NotedTarget<W> {
    type Error = Error;

    const NOTES_RECORDS: bool = true;

    fn note(&mut self, noted: Noted) -> Result<()> {
        match noted {
            Noted::Key(addr) => self.state = State::Key(addr, 0),
            Noted::Object { addr, object, parts } => {
                self.state = State::Object(addr, object, parts);
            }
            Noted::Lost { addr, db } => self.companion.entry(&Entry::Lost { addr, db })?,
            Noted::Part { .. } if matches!(self.state, State::Stream) => {}
            Noted::Part { addr, order } => {
                self.end_part()?;
                let from = self.rdb.position();
                self.part = Some(PartBegun { addr, order, from, elements: 0 });
            }
        }
        Ok(())
    }

    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<()> {
        self.select(key.database)?;
        let from = self.rdb.position();
        self.rdb.begin(key).map_err(refused)?;
        match self.state {
            State::Key(addr, _) => self.state = State::Key(addr, from),
            State::Object(..) if key.value_type == Type::Stream => {
                self.has_streams = true;
                self.state = State::Stream;
            }
            State::Object(addr, object, parts) => {
                let (value_type, count) = (key.value_type, key.count);
                let is_string = value_type == Type::String;
                // What says how long the value is was written with the head.
                let has_length = !is_string || is_in_parts(count);
                let behind = if has_length { length_bytes(count) } else { 0 };
                let bytes = self.rdb.position() - from - behind;
                let head = Head { addr, object, value_type, bytes, count, parts };
                self.companion.entry(&Entry::Object(head))?;
                self.state = match is_string {
                    true => State::String(from + bytes),
                    false => State::Collection,
                };
            }
            _ => unreachable!("it was noted of which record the key is"),
        }
        Ok(())
    }

    fn element(&mut self, element: Element<'_>) -> Result<()> {
        if let Some(part) = &mut self.part {
            part.elements += 1;
        }
        self.rdb.element(element).map_err(refused)
    }

    fn end(&mut self) -> Result<()> {
        self.end_part()?;
        self.rdb.end().map_err(refused)?;
        match std::mem::replace(&mut self.state, State::Between) {
            State::Key(addr, from) => {
                self.companion.entry(&Entry::Key { addr, bytes: self.rdb.position() - from })
            }
            State::String(from) => self.companion.end_string(self.rdb.position() - from),
            _ => Ok(()),
        }
    }
}
