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
//! The redo starting point is the smallest log offset of the dirty page table and the begin record:
//! everything committed during the checkpoint lies behind it.

use base::varint;

use crate::core::Core;
use crate::data_file::{Master, Slots};
use crate::log_page::GroupKind;
use crate::pool::PageWrite;
use crate::position::{LogOffset, PageId};

/// A checkpoint begins when less than this share of the online log table is free, in percent.
const FREE_PERCENT_MIN: usize = 10;
/// A checkpoint begins when the log reaches this share of its maximum length, in percent …
const LOG_PERCENT_DUE: u64 = 90;
/// … and writes pages whose oldest record is older than this share. Lower values make the next
/// checkpoint due later, but give pages less time to gather records.
const LOG_PERCENT_KEPT: u64 = 75;
/// After a checkpoint that leaves less than this free, the next one tries harder.
const FREE_PERCENT_GOOD: usize = 30;

/// Pages written in one step, at most: their images take memory in addition to the pool.
const STEP_WRITES_MAX: usize = 64;

/// A checkpoint in progress.
pub(crate) struct Checkpoint {
    begin: LogOffset,
    /// The pages still to be visited, in reverse order.
    pages: Vec<PageId>,
    dirty_pages: Vec<(PageId, LogOffset)>,
    min_del: usize,
    max_age: u64,
    redo_start: LogOffset,
}

/// How hard a checkpoint tries to free the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// By `min_del` and `max_age`.
    Normal,
    /// Writes every page.
    All,
    /// Writes no page: only the dirty page table is saved (Algorithm 2, line 18).
    None,
}

/// The contents of a checkpoint record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    pub(crate) begin: LogOffset,
    pub(crate) dirty_pages: Vec<(PageId, LogOffset)>,
    pub(crate) active: Vec<u64>,
    pub(crate) slots: Slots,
}

impl CheckpointRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put(&mut out, self.begin.0);
        varint::put(&mut out, self.dirty_pages.len() as u64);
        for (id, offset) in &self.dirty_pages {
            varint::put(&mut out, id.0);
            varint::put(&mut out, offset.0);
        }
        varint::put(&mut out, self.active.len() as u64);
        self.active.iter().for_each(|id| varint::put(&mut out, *id));
        varint::put_bytes(&mut out, self.slots.bytes());
        out
    }

    pub(crate) fn decode(mut input: &[u8]) -> Option<Self> {
        let input = &mut input;
        let begin = LogOffset(varint::take(input)?);
        let mut dirty_pages = Vec::new();
        for _ in 0..varint::take(input)? {
            dirty_pages.push((PageId(varint::take(input)?), LogOffset(varint::take(input)?)));
        }
        let mut active = Vec::new();
        for _ in 0..varint::take(input)? {
            active.push(varint::take(input)?);
        }
        let slots = Slots::from_bytes(varint::take_bytes(input)?);
        input.is_empty().then_some(Self { begin, dirty_pages, active, slots })
    }

    /// The position from which recovery needs the log.
    pub(crate) fn redo_start(&self) -> LogOffset {
        self.dirty_pages
            .iter()
            .map(|(_, offset)| *offset)
            .min()
            .unwrap_or(self.begin)
            .min(self.begin)
    }
}

impl Core {
    /// The log offset of the begin record of the checkpoint in progress.
    pub(crate) fn checkpoint_begin(&self) -> Option<LogOffset> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.begin)
    }

    /// Whether upkeep is due between transactions.
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

    /// Whether the log is nearly as long as a restart may read.
    fn is_log_long(&self) -> bool {
        let log_bytes = self.log.next_offset().0 - self.redo_start.0;
        log_bytes > self.options.log_bytes_max / 100 * LOG_PERCENT_DUE
    }

    /// Whether the online log table is full.
    pub(crate) fn is_table_full(&self) -> bool {
        self.pool.record_bytes() >= self.options.online_log_bytes
    }

    /// Lines 1 and 2: begins a checkpoint and returns the log offset of its begin record. The
    /// caller writes the log before the first step.
    pub(crate) fn begin_checkpoint(&mut self, effort: Effort) -> LogOffset {
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

    /// Lines 3 to 8 for at most `page_count` pages: returns those that must be written. The caller
    /// writes them without the latch, then calls [`Core::finish_step`]; until then it keeps its
    /// turn.
    pub(crate) fn begin_step(&mut self, page_count: usize) -> Vec<PageWrite> {
        let (next_offset, durable_end) = (self.log.next_offset(), self.log.durable_end());
        let checkpoint = self.checkpoint.as_mut().expect("whose turn it is has seen it");
        // Everything that existed when the checkpoint began is durable; otherwise a page could be
        // skipped as pending.
        assert!(checkpoint.begin < durable_end, "the log is written before the steps");
        let mut writes = Vec::new();
        for _ in 0..page_count {
            if writes.len() == STEP_WRITES_MAX {
                break;
            }
            let Some(id) = checkpoint.pages.pop() else { break };
            let log = self.pool.table.log(id);
            // Line 5: "committed", for storage, means durable in the log.
            let committed = log.len_before(durable_end);
            let Some(first) = log.first_offset().filter(|_| committed > 0) else { continue };
            let age = next_offset.0 - first.0;
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

    /// Lines 9 to 19: the writes of the step have succeeded or failed. Returns whether no pages are
    /// left.
    pub(crate) fn finish_step(&mut self, writes: Vec<PageWrite>, is_written: bool) -> bool {
        for write in writes {
            self.pool.finish_write(write, is_written);
        }
        let checkpoint = self
            .checkpoint
            .as_ref()
            .expect("the caller has the turn, so the checkpoint has not ended");
        checkpoint.pages.is_empty()
    }

    /// All pages were visited: the checkpoint record will name the images now in the data file.
    /// Returns whether the data file must be synced first.
    pub(crate) fn close_checkpoint(&mut self) -> bool {
        self.pool.freeze_slots();
        std::mem::take(&mut self.pool.has_unsynced_pages)
    }

    /// Lines 20 to 22: appends the checkpoint record to the log buffer.
    pub(crate) fn log_checkpoint(&mut self) -> LogOffset {
        let checkpoint = self.checkpoint.as_mut().expect("the thread that closed it ends it");
        let record = CheckpointRecord {
            begin: checkpoint.begin,
            dirty_pages: std::mem::take(&mut checkpoint.dirty_pages),
            active: self.log.active(),
            slots: self.pool.frozen_slots().clone(),
        };
        checkpoint.redo_start = record.redo_start();
        let offset = self.log.append(GroupKind::Checkpoint, &record.encode());
        self.log.append(GroupKind::CheckpointEnd, &[]);
        offset
    }

    /// Line 23: the master record for the durable checkpoint record at `offset`.
    pub(crate) fn next_master(&self, offset: LogOffset) -> Master {
        Master {
            sequence: self.master.sequence + 1,
            checkpoint: offset,
            durable_end: self.log.durable_end(),
        }
    }

    /// Ends the checkpoint after its master record has become durable. Returns the position before
    /// which the log is no longer needed.
    pub(crate) fn finish_checkpoint(&mut self, master: Master) -> LogOffset {
        let checkpoint = self.checkpoint.take().expect("the thread that closed it ends it");
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
            begin: LogOffset(70),
            dirty_pages: vec![(PageId(3), LogOffset(60)), (PageId(300), LogOffset(65))],
            active: vec![4, 5],
            slots,
        };
        let bytes = record.encode();
        assert_eq!(CheckpointRecord::decode(&bytes), Some(record.clone()));
        assert_eq!(record.redo_start(), LogOffset(60));
        for len in 0..bytes.len() {
            assert_eq!(CheckpointRecord::decode(&bytes[..len]), None);
        }
    }
}
