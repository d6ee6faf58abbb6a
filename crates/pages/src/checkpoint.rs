//! Algorithm 1: a checkpoint that compacts the online log table, in steps between commits.
//!
//! ```text
//!   begin: record in the log, log synced            everything older is committed for good
//!   step:  for each page with records               commits go on meanwhile: pages are
//!                                                   read and written without the latch
//!            enough of them, or old enough ─► write the page, drop them
//!            otherwise                     ─► dirty page table
//!   end:   data file synced ─► checkpoint record, synced ─► master record, synced
//!          ─► log before the redo starting point removed, slots settled
//! ```
//!
//! The redo starting point is the smallest LSN of the dirty page table and of the begin record:
//! what was committed while the checkpoint was being taken is behind that.

use base::varint;

use crate::core::Core;
use crate::data_file::{Master, Slots};
use crate::log_page::GroupKind;
use crate::pool::PageWrite;
use crate::position::{Lsn, PageId};

/// A share of the online log table that must be free, in percent: with less, a checkpoint begins.
const FREE_PERCENT_MIN: usize = 10;
/// A checkpoint begins when the log is so long, in percent of what it may be …
const LOG_PERCENT_DUE: u64 = 90;
/// … and writes pages whose oldest record is so old: the less it leaves to the next one, the
/// sooner that comes, but the longer pages gather records.
const LOG_PERCENT_KEPT: u64 = 75;
/// A checkpoint that leaves less than this free makes the next one try harder.
const FREE_PERCENT_GOOD: usize = 30;

/// A step writes so many pages at most: their images are in memory in addition to the pool.
const STEP_WRITES_MAX: usize = 64;

/// A checkpoint that is being taken.
pub(crate) struct Checkpoint {
    begin: Lsn,
    /// The pages still to be looked at, the last first.
    pages: Vec<PageId>,
    dirty_pages: Vec<(PageId, Lsn)>,
    min_del: usize,
    max_age: u64,
    redo_start: Lsn,
}

/// How hard a checkpoint tries to free the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// By `min_del` and `max_age`.
    Normal,
    /// Every page is written.
    All,
    /// None is: only the dirty page table is saved (Algorithm 2, line 18).
    None,
}

/// What a checkpoint record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    pub(crate) begin: Lsn,
    pub(crate) dirty_pages: Vec<(PageId, Lsn)>,
    pub(crate) active: Vec<u64>,
    pub(crate) slots: Slots,
}

impl CheckpointRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put(&mut out, self.begin.0);
        varint::put(&mut out, self.dirty_pages.len() as u64);
        for (id, lsn) in &self.dirty_pages {
            varint::put(&mut out, id.0);
            varint::put(&mut out, lsn.0);
        }
        varint::put(&mut out, self.active.len() as u64);
        self.active.iter().for_each(|id| varint::put(&mut out, *id));
        varint::put_bytes(&mut out, self.slots.bytes());
        out
    }

    pub(crate) fn decode(mut input: &[u8]) -> Option<Self> {
        let input = &mut input;
        let begin = Lsn(varint::take(input)?);
        let mut dirty_pages = Vec::new();
        for _ in 0..varint::take(input)? {
            dirty_pages.push((PageId(varint::take(input)?), Lsn(varint::take(input)?)));
        }
        let mut active = Vec::new();
        for _ in 0..varint::take(input)? {
            active.push(varint::take(input)?);
        }
        let slots = Slots::from_bytes(varint::take_bytes(input)?);
        input.is_empty().then_some(Self { begin, dirty_pages, active, slots })
    }

    /// Where the log is needed from.
    pub(crate) fn redo_start(&self) -> Lsn {
        self.dirty_pages.iter().map(|(_, lsn)| *lsn).min().unwrap_or(self.begin).min(self.begin)
    }
}

impl Core {
    /// The LSN of the record that says that the checkpoint which is being taken began.
    pub(crate) fn checkpoint_begin(&self) -> Option<Lsn> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.begin)
    }

    /// Whether there is anything to do between transactions.
    pub(crate) fn is_upkeep_due(&self) -> bool {
        self.is_restarting
            || self.checkpoint.is_some()
            || self.has_deleted_tables
            || self.needs_checkpoint()
    }

    fn free_percent(&self) -> usize {
        let capacity = self.options.online_log_bytes.max(1);
        capacity.saturating_sub(self.pool.record_bytes()) * 100 / capacity
    }

    /// Whether a checkpoint is due.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        self.free_percent() < FREE_PERCENT_MIN || self.is_log_long()
    }

    /// Whether a restart would soon have to read more than it may.
    fn is_log_long(&self) -> bool {
        let log_bytes = self.log.next_lsn().0 - self.redo_start.0;
        log_bytes > self.options.log_bytes_max / 100 * LOG_PERCENT_DUE
    }

    /// Whether nothing more fits the online log table.
    pub(crate) fn is_table_full(&self) -> bool {
        self.pool.record_bytes() >= self.options.online_log_bytes
    }

    /// Lines 1 and 2; gives the LSN of the record of line 1. The caller writes the log before the
    /// first step.
    pub(crate) fn begin_checkpoint(&mut self, effort: Effort) -> Lsn {
        let begin = self.log.append(GroupKind::CheckpointBegin, &[]);
        let capacity = self.options.online_log_bytes as u64;
        let max_age = match self.options.max_age_bytes {
            0 => capacity.saturating_mul(4),
            bytes => bytes,
        };
        let is_log_long = self.is_log_long();
        let (min_del, max_age) = match effort {
            Effort::All => (1, 0),
            Effort::None => (usize::MAX, u64::MAX),
            Effort::Normal if is_log_long => (
                self.options.min_del,
                max_age.min(self.options.log_bytes_max / 100 * LOG_PERCENT_KEPT),
            ),
            Effort::Normal if self.pressure > 3 => (1, 0),
            Effort::Normal => (self.options.min_del, max_age >> (2 * self.pressure)),
        };
        self.is_restarting = false;
        self.pool.settle_all();
        let mut pages = self.pool.table.pages();
        pages.reverse();
        self.checkpoint = Some(Checkpoint {
            begin,
            pages,
            dirty_pages: Vec::new(),
            min_del,
            max_age,
            redo_start: begin,
        });
        begin
    }

    /// Lines 3 to 8 for so many pages: those to be written. The caller writes them without the
    /// latch and then calls [`Core::finish_step`]; it is the caller's turn until then.
    pub(crate) fn begin_step(&mut self, page_count: usize) -> Vec<PageWrite> {
        let (next_lsn, durable_end) = (self.log.next_lsn(), self.log.durable_end());
        let checkpoint = self.checkpoint.as_mut().expect("whose turn it is has seen it");
        // What was there when it began is durable: else a page could be passed over as pending.
        assert!(checkpoint.begin < durable_end, "the log is written before the steps");
        let mut writes = Vec::new();
        for _ in 0..page_count {
            if writes.len() == STEP_WRITES_MAX {
                break;
            }
            let Some(id) = checkpoint.pages.pop() else { break };
            let log = self.pool.table.log(id);
            // Line 5: committed for storage is what is durable in the log.
            let committed = log.len_before(durable_end);
            let Some(first) = log.first_lsn().filter(|_| committed > 0) else { continue };
            let age = next_lsn.0 - first.0;
            let is_worth_it =
                log.record_count(committed) >= checkpoint.min_del || age >= checkpoint.max_age;
            if is_worth_it && self.pool.is_writable(id) {
                writes.push(self.pool.begin_write(id, committed));
            } else {
                checkpoint.dirty_pages.push((id, first));
            }
        }
        writes
    }

    /// Lines 9 to 19: the pages of the step were written, or that has failed. True when there are
    /// no pages left.
    pub(crate) fn finish_step(&mut self, writes: Vec<PageWrite>, is_written: bool) -> bool {
        for write in writes {
            self.pool.finish_write(write, is_written);
        }
        let checkpoint = self.checkpoint.as_ref().expect("nobody else ends it");
        checkpoint.pages.is_empty()
    }

    /// The last page was seen: what is in the data file now is what the checkpoint record will
    /// say. True if the data file must be synced before that.
    pub(crate) fn close_checkpoint(&mut self) -> bool {
        self.pool.freeze_slots();
        std::mem::take(&mut self.pool.has_unsynced_pages)
    }

    /// Lines 20 to 22: the checkpoint record, in the log buffer.
    pub(crate) fn log_checkpoint(&mut self) -> Lsn {
        let checkpoint = self.checkpoint.as_mut().expect("only who closed it ends it");
        let record = CheckpointRecord {
            begin: checkpoint.begin,
            dirty_pages: std::mem::take(&mut checkpoint.dirty_pages),
            active: self.log.active(),
            slots: self.pool.frozen_slots().clone(),
        };
        checkpoint.redo_start = record.redo_start();
        let lsn = self.log.append(GroupKind::Checkpoint, &record.encode());
        self.log.append(GroupKind::CheckpointEnd, &[]);
        lsn
    }

    /// Line 23: the master record for the checkpoint record at `lsn`, which is durable.
    pub(crate) fn next_master(&self, lsn: Lsn) -> Master {
        Master {
            sequence: self.master.sequence + 1,
            checkpoint: lsn,
            durable_end: self.log.durable_end(),
        }
    }

    /// The master record is durable. The log is not needed before the position returned.
    pub(crate) fn finish_checkpoint(&mut self, master: Master) -> Lsn {
        let checkpoint = self.checkpoint.take().expect("only who closed it ends it");
        self.master = master;
        self.pool.settle_slots();
        self.redo_start = checkpoint.redo_start;
        let is_tight = self.free_percent() < FREE_PERCENT_GOOD;
        self.pressure = if is_tight { self.pressure + 1 } else { 0 };
        self.pool.stats.checkpoints += 1;
        self.redo_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_record_is_read_as_written() {
        let mut slots = Slots::default();
        slots.set(PageId(9), true);
        let record = CheckpointRecord {
            begin: Lsn(70),
            dirty_pages: vec![(PageId(3), Lsn(60)), (PageId(300), Lsn(65))],
            active: vec![4, 5],
            slots,
        };
        let bytes = record.encode();
        assert_eq!(CheckpointRecord::decode(&bytes), Some(record.clone()));
        assert_eq!(record.redo_start(), Lsn(60));
        for len in 0..bytes.len() {
            assert_eq!(CheckpointRecord::decode(&bytes[..len]), None);
        }
    }
}
