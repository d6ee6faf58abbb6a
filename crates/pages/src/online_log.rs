//! The online log table: redo records in memory, by page, in the order of their LSNs.
//!
//! ```text
//!   page ─► records:  lsn, end │ lsn, end │ …        one piece of memory each, grown by an eighth
//!           bytes:    operation│ operation│ …
//! ```
//!
//! A page is *dirty* when it has records here: its image in storage lacks them. A record is
//! *pending* until its group is durable in the log, which is what the paper calls uncommitted
//! wherever storage is concerned: no image with a pending record is ever written (ADR 9).
//!
//! Memory that is used here is not there for frames, so records of a page lie together, and what
//! counts is the memory that they take, not only what is in it.

use std::ops::Range;

use hashbrown::HashMap;

use crate::position::{Lsn, PageId};
use crate::redo_record;

/// What a page costs: its two lists and its place in the table.
const PAGE_OVERHEAD_BYTES: usize = 96;

/// A redo record: its operation is in the bytes of its page, up to `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogRecord {
    pub(crate) lsn: Lsn,
    end: u32,
    /// It gives the page all of its content.
    is_whole: bool,
}

/// The records of one page.
#[derive(Debug, Default)]
pub(crate) struct PageLog {
    records: Vec<LogRecord>,
    bytes: Vec<u8>,
}

fn place(at: u32) -> usize {
    usize::try_from(at).expect("an address has at least 32 bits")
}

/// Makes room for `more` and a little beyond.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more + list.len() / 8);
    }
}

/// Makes room for `more` of many that come at once: time counts more than memory.
fn grow_fast<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(if list.is_empty() {
            more * RECORDS_AT_RESTART
        } else {
            more + list.len()
        });
    }
}

/// A restart gives a page room for so many records like its first at once.
const RECORDS_AT_RESTART: usize = 4;

impl PageLog {
    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many records are older than `lsn`.
    pub(crate) fn len_before(&self, lsn: Lsn) -> usize {
        self.records.partition_point(|record| record.lsn < lsn)
    }

    /// How many records are as old as `lsn` or older.
    pub(crate) fn len_through(&self, lsn: Lsn) -> usize {
        self.records.partition_point(|record| record.lsn <= lsn)
    }

    /// A copy of the first records.
    pub(crate) fn first(&self, count: usize) -> Self {
        let bytes = self.bytes[..self.start(count)].to_vec();
        Self { records: self.records[..count].to_vec(), bytes }
    }

    /// The last of the first `len` records that makes those before it superfluous.
    pub(crate) fn last_whole(&self, len: usize) -> Option<usize> {
        self.records[..len].iter().rposition(|record| record.is_whole)
    }

    /// Some of the records with their operations, the oldest first.
    pub(crate) fn operations(&self, which: Range<usize>) -> impl Iterator<Item = (Lsn, &[u8])> {
        let mut start = self.start(which.start);
        self.records[which].iter().map(move |record| {
            let from = std::mem::replace(&mut start, place(record.end));
            (record.lsn, &self.bytes[from..start])
        })
    }

    /// The memory that it takes.
    fn cost(&self) -> usize {
        self.records.capacity() * size_of::<LogRecord>() + self.bytes.capacity()
    }

    fn start(&self, i: usize) -> usize {
        i.checked_sub(1).map_or(0, |before| place(self.records[before].end))
    }

    /// Adds a record for which there is room.
    fn push(&mut self, lsn: Lsn, op: &[u8]) {
        self.bytes.extend_from_slice(op);
        let end = u32::try_from(self.bytes.len()).expect("the table is smaller than 4 GiB a page");
        self.records.push(LogRecord { lsn, end, is_whole: redo_record::is_whole(op) });
    }

    fn remove_first(&mut self, count: usize) {
        let cut = self.start(count);
        self.records.drain(..count);
        self.bytes.drain(..cut);
        let cut = u32::try_from(cut).expect("it is the end of a record");
        self.records.iter_mut().for_each(|record| record.end -= cut);
        self.records.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    fn truncate(&mut self, count: usize) {
        self.bytes.truncate(self.start(count));
        self.records.truncate(count);
    }
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct OnlineLog {
    pages: HashMap<PageId, PageLog>,
    bytes: usize,
}

impl OnlineLog {
    /// A table that will soon have records of so many pages.
    pub(crate) fn with_pages(page_count: usize) -> Self {
        Self { pages: HashMap::with_capacity(page_count), bytes: 0 }
    }

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
        self.pages.get(&id).map_or(&[], |log| log.records.as_slice())
    }

    /// What there is of a page.
    pub(crate) fn log(&self, id: PageId) -> &PageLog {
        static NONE: PageLog = PageLog { records: Vec::new(), bytes: Vec::new() };
        self.pages.get(&id).unwrap_or(&NONE)
    }

    /// Adds a record; true if the page was clean.
    pub(crate) fn add(&mut self, id: PageId, lsn: Lsn, op: &[u8]) -> bool {
        self.add_with_room(id, lsn, op, |log| {
            grow(&mut log.records, 1);
            grow(&mut log.bytes, op.len());
        })
    }

    /// Adds one of many records that come at once.
    pub(crate) fn add_of_many(&mut self, id: PageId, lsn: Lsn, op: &[u8]) {
        self.add_with_room(id, lsn, op, |log| {
            grow_fast(&mut log.records, 1);
            grow_fast(&mut log.bytes, op.len());
        });
    }

    fn add_with_room(
        &mut self,
        id: PageId,
        lsn: Lsn,
        op: &[u8],
        make_room: impl FnOnce(&mut PageLog),
    ) -> bool {
        let log = self.pages.entry(id).or_default();
        let is_new = log.records.is_empty();
        assert!(log.records.last().is_none_or(|last| last.lsn <= lsn), "records come in order");
        let before = log.cost();
        make_room(log);
        log.push(lsn, op);
        self.bytes += log.cost() - before;
        self.bytes += if is_new { PAGE_OVERHEAD_BYTES } else { 0 };
        is_new
    }

    /// Drops the first `count` records of a page: its image in storage has them.
    pub(crate) fn remove_first(&mut self, id: PageId, count: usize) {
        self.change(id, |log| log.remove_first(count));
    }

    /// Drops the records of a page from `lsn` on: their group came to nothing.
    pub(crate) fn remove_from(&mut self, id: PageId, lsn: Lsn) {
        self.change(id, |log| log.truncate(log.len_before(lsn)));
    }

    fn change(&mut self, id: PageId, change: impl FnOnce(&mut PageLog)) {
        let Some(log) = self.pages.get_mut(&id) else { return };
        self.bytes -= log.cost();
        change(log);
        if log.records.is_empty() {
            self.pages.remove(&id);
            self.bytes -= PAGE_OVERHEAD_BYTES;
        } else {
            self.bytes += log.cost();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_added_and_memory_is_given_back() {
        let mut table = OnlineLog::default();
        let page = PageId(3);
        for lsn in 1..100 {
            let op = vec![7; usize::try_from(lsn).expect("small")];
            assert_eq!(table.add(page, Lsn(lsn), &op), lsn == 1);
        }
        table.remove_first(page, 10);
        table.remove_from(page, Lsn(90));
        let left: Vec<(Lsn, usize)> =
            table.log(page).operations(0..79).map(|(lsn, op)| (lsn, op.len())).collect();
        let wanted: Vec<(Lsn, usize)> =
            (11..90).zip(11..).map(|(lsn, len)| (Lsn(lsn), len)).collect();
        assert_eq!(left, wanted);
        assert!(table.bytes() >= (11..90).sum::<usize>());
        table.remove_first(page, 79);
        assert_eq!((table.bytes(), table.page_count()), (0, 0));
    }
}
