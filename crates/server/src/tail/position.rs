//! A position in the log: the next block, and what must be known to read it.
//!
//! **Keys of large values** that are learned from what is left of the blocks before are right, though some records
//! are missing there ([`Translator::learn`] has the proof); at worst a key is not known.
//!
//! **Databases** are not so lucky: the newest record that says which is which may have been dropped, because a
//! newer one behind the position has made it garbage, while one before it is still there. So what was learned of
//! them counts only if the newest record met is the newest that there is, or if no compaction has dropped what was
//! needed at the position. Otherwise the position cannot be taken.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr, RecordKind};
use changes::{Heading, Translator};
use redo::{Extent, Id, LogBlock};

use super::error::{TailError, TailResult};
use super::{ROOTS_BYTES_MAX, desk::Answer};

/// See the file's top.
pub(super) struct Position {
    translator: Translator,
    /// The id of the log.
    log: String,
    next: Lsn,
    /// The lines that were written last, with their blocks: those right before `next`.
    last: VecDeque<(Lsn, Arc<[u8]>)>,
    /// The newest record of the databases that was learned of.
    databases: Option<RecordAddr>,
    line: Vec<u8>,
}

impl Position {
    /// Before the first block of this log.
    pub(super) fn first(log: Id) -> Self {
        Self {
            log: log.to_string(),
            translator: Translator::new(ROOTS_BYTES_MAX),
            next: Lsn(1),
            last: VecDeque::new(),
            databases: None,
            line: Vec::new(),
        }
    }

    /// The block that it reads next.
    pub(super) const fn next(&self) -> Lsn {
        self.next
    }

    /// How many keys of large values it has forgotten, and what those take that it has.
    pub(super) const fn roots(&self) -> (u64, usize) {
        (self.translator.forgotten(), self.translator.roots_bytes())
    }

    /// Whether it is where a client is that knows everything up to `after`, or has lines behind that.
    pub(super) fn serves(&self, after: Lsn) -> bool {
        let first = self.last.front().map_or(self.next, |(lsn, _)| *lsn);
        (first..=self.next).contains(&after.next())
    }

    /// Lines that it still has of blocks behind `after`.
    pub(super) fn repeat(&self, after: Lsn, count_max: usize) -> Option<Answer> {
        let behind = self.last.iter().filter(|(lsn, _)| *lsn > after).take(count_max);
        let (lsns, lines): (Vec<Lsn>, Vec<_>) = behind.cloned().unzip();
        lsns.last().map(|last| Answer { last: *last, lines })
    }

    /// Learns of what is left of a block that is not given out.
    pub(super) fn learn(&mut self, block: &LogBlock) -> TailResult<()> {
        for found in block.records() {
            let (addr, record) = found?;
            if record.kind == RecordKind::Databases {
                self.databases = Some(addr);
            }
            self.learn_record(block.lsn(), &record)?;
        }
        Ok(())
    }

    /// Learns of a record of this block, which is not given out.
    pub(super) fn learn_record(&mut self, lsn: Lsn, record: &Record<'_>) -> TailResult<()> {
        self.translator.learn(record).map_err(|bad| TailError::Record { lsn, bad })
    }

    /// Everything before the block `next` was learned, of a log with this extent by now, whose newest record of the
    /// databases is at `newest`.
    pub(super) fn learned(
        mut self,
        next: Lsn,
        extent: Extent,
        newest: Option<RecordAddr>,
    ) -> TailResult<Self> {
        if next <= extent.told_from && self.databases != newest {
            return Err(TailError::Gone { from: next, whole_from: extent.told_from.next() });
        }
        self.next = next;
        Ok(self)
    }

    /// Forgets the lines that were written last.
    pub(super) fn begin_reply(&mut self) {
        self.last.clear();
    }

    /// Writes the next block as a line. Returns how many changes it has.
    pub(super) fn write(&mut self, block: &LogBlock) -> TailResult<(usize, Arc<[u8]>)> {
        let records = block.records().map(|found| found.map(|(_, record)| record));
        let records: Vec<Record<'_>> = records.collect::<Result<_, _>>()?;
        self.write_records((block.lsn(), block.time_ms()), &records)
    }

    /// The same of its number, its time and its records.
    pub(super) fn write_records(
        &mut self,
        (lsn, time_ms): (Lsn, i64),
        records: &[Record<'_>],
    ) -> TailResult<(usize, Arc<[u8]>)> {
        self.line.clear();
        let Self { translator, line, log, .. } = self;
        let written =
            changes::write_block(translator, Heading { lsn, log, time_ms }, records, line);
        let count = written.map_err(|bad| TailError::Record { lsn, bad })?;
        let line: Arc<[u8]> = self.line.as_slice().into();
        self.line.shrink_to(super::REPLY_BYTES_MAX);
        self.next = lsn.next();
        self.last.push_back((lsn, Arc::clone(&line)));
        Ok((count, line))
    }
}
