//! The online log table: redo records in memory, by page, in the order of their LSNs.
//!
//! A page is *dirty* when it has records here: its image in storage lacks them. A record is
//! *pending* until its group is durable in the log, which is what the paper calls uncommitted
//! wherever storage is concerned: no image with a pending record is ever written (ADR 9).

use hashbrown::HashMap;

use crate::position::{Lsn, PageId};

/// What a record costs beside its bytes: its entry in the page's list, and the allocation.
const RECORD_OVERHEAD_BYTES: usize = 40;
/// What a page costs: its list and its place in the table.
const PAGE_OVERHEAD_BYTES: usize = 64;

/// A redo record.
#[derive(Debug)]
pub(crate) struct LogRecord {
    pub(crate) lsn: Lsn,
    pub(crate) op: Box<[u8]>,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct OnlineLog {
    pages: HashMap<PageId, Vec<LogRecord>>,
    bytes: usize,
}

fn cost(records: &[LogRecord]) -> usize {
    records.iter().map(|record| record.op.len() + RECORD_OVERHEAD_BYTES).sum()
}

impl OnlineLog {
    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many pages are dirty.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The dirty pages, ascending, so that a checkpoint writes in the order of the file.
    pub(crate) fn pages(&self) -> Vec<PageId> {
        let mut pages: Vec<PageId> = self.pages.keys().copied().collect();
        pages.sort_unstable();
        pages
    }

    /// The records of a page, the oldest first.
    pub(crate) fn records(&self, id: PageId) -> &[LogRecord] {
        self.pages.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Adds a record; true if the page was clean.
    pub(crate) fn add(&mut self, id: PageId, lsn: Lsn, op: &[u8]) -> bool {
        let mut is_new = false;
        let records = self.pages.entry(id).or_insert_with(|| {
            is_new = true;
            Vec::new()
        });
        assert!(records.last().is_none_or(|last| last.lsn <= lsn), "records come in order");
        records.push(LogRecord { lsn, op: op.into() });
        self.bytes += op.len() + RECORD_OVERHEAD_BYTES;
        self.bytes += if is_new { PAGE_OVERHEAD_BYTES } else { 0 };
        is_new
    }

    /// Drops the first `count` records of a page: its image in storage has them.
    pub(crate) fn remove_first(&mut self, id: PageId, count: usize) {
        let Some(records) = self.pages.get_mut(&id) else { return };
        self.bytes -= cost(&records[..count]);
        records.drain(..count);
        self.forget_if_empty(id);
    }

    /// Drops the records of a page from `lsn` on: their group came to nothing.
    pub(crate) fn remove_from(&mut self, id: PageId, lsn: Lsn) {
        let Some(records) = self.pages.get_mut(&id) else { return };
        let keep = records.partition_point(|record| record.lsn < lsn);
        self.bytes -= cost(&records[keep..]);
        records.truncate(keep);
        self.forget_if_empty(id);
    }

    fn forget_if_empty(&mut self, id: PageId) {
        if self.pages.get(&id).is_some_and(Vec::is_empty) {
            self.pages.remove(&id);
            self.bytes -= PAGE_OVERHEAD_BYTES;
        }
    }
}
