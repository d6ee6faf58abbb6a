//! What the log says behind a cut: the entries of the next one, and what is known with them.
//!
//! ```text
//!   Recovery::run_behind ── records ─┐
//!                                    ├─► Tail ── cut ─► Batch
//!   Follower ────────────── blocks ──┘
//! ```
//!
//! Recovery feeds it at an instant start, the follower from then on: what is read twice is not
//! written twice.

use base::{Lsn, Record, RecordAddr};
use keyspace::BadRecord;
use logindex::{Batch, Delta};
use redo::{LogBlock, Replay};

use crate::error::Result;
use crate::known::Known;
use crate::namer::Namer;

/// See the file's top.
pub struct Tail {
    namer: Namer,
    known: Known,
    delta: Delta,
    /// The last block that was read, or behind which nothing is missing.
    last: Lsn,
    last_cut: Lsn,
    /// How many bytes of the log the delta stands for.
    bytes: u64,
    rejected: Option<(RecordAddr, BadRecord)>,
}

impl Tail {
    /// Begins behind `cut`, as of which `known` is.
    pub(crate) fn behind(cut: Lsn, known: Known, namer: Namer) -> Self {
        Self {
            namer,
            known,
            delta: Delta::new(),
            last: cut,
            last_cut: cut,
            bytes: 0,
            rejected: None,
        }
    }

    /// Takes a block, or nothing of it.
    pub(crate) fn note_block(&mut self, block: &LogBlock) -> Result<()> {
        // A cut has whole blocks, and is judged by what they say: nothing of one that turns out to be
        // bad is taken over.
        let (known, len) = (self.known.clone(), self.delta.len());
        let noted = self.note_records(block);
        match noted {
            Ok(()) => self.last = block.lsn(),
            Err(_) => {
                self.known = known;
                self.delta.truncate(len);
            }
        }
        noted
    }

    fn note_records(&mut self, block: &LogBlock) -> Result<()> {
        for record in block.records() {
            let (addr, record) = record?;
            self.known.note(&record, addr)?;
            if let Some(entry) = self.namer.entry(&record, addr) {
                self.delta.push(entry);
            }
            self.bytes += bytes_of(&record);
        }
        Ok(())
    }

    /// Nothing is missing up to `end`.
    pub(crate) fn note_end(&mut self, end: Lsn) {
        self.last = self.last.max(end);
    }

    /// See [`Known::note_start`].
    pub(crate) fn note_start(&mut self) {
        self.known.note_start();
    }

    /// See [`Known::note_built`].
    pub(crate) const fn note_built(&mut self) {
        self.known.note_built();
    }

    /// The last block that was read.
    #[must_use]
    pub const fn last(&self) -> Lsn {
        self.last
    }

    /// The last cut.
    #[must_use]
    pub const fn last_cut(&self) -> Lsn {
        self.last_cut
    }

    /// What is known as of the last block that was read.
    #[must_use]
    pub const fn known(&self) -> &Known {
        &self.known
    }

    pub(crate) const fn known_mut(&mut self) -> &mut Known {
        &mut self.known
    }

    /// The bytes of the log that were read since the last cut, and the entries.
    #[must_use]
    pub fn pending(&self) -> (u64, usize) {
        (self.bytes, self.delta.len())
    }

    /// Cuts behind the last block that was read; `None` if that is where the last cut is.
    pub(crate) fn cut(&mut self) -> Option<Batch> {
        if self.last == self.last_cut {
            return None;
        }
        self.last_cut = self.last;
        self.bytes = 0;
        Some(self.delta.cut(self.last, self.known.encode(), self.known.judge()))
    }
}

impl Replay for Tail {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        // What the index has, it would count twice.
        if lsn <= self.last_cut || self.rejected.is_some() {
            return;
        }
        if let Err(bad) = self.known.note(record, addr) {
            self.rejected = Some((addr, bad));
            return;
        }
        if let Some(entry) = self.namer.entry(record, addr) {
            self.delta.push(entry);
        }
        self.bytes += bytes_of(record);
        self.note_end(lsn);
    }

    /// What is garbage is found by a [`crate::ValidityPass`].
    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.rejected.as_ref().map(|(addr, bad)| (*addr, bad.to_string()))
    }
}

/// At least one a record: a block of records without bytes must end a step, too.
const fn bytes_of(record: &Record<'_>) -> u64 {
    1 + (record.key.len() + record.sub.len() + record.value.len()) as u64
}
