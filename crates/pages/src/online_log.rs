//! The online log table: redo records in memory, by page, in the order of their log offsets.
//!
//! ```text
//!   page ─► runs:   offset, end      │ offset, end │ …  one piece of memory each, grown by an eighth
//!           bytes:  op │ op │ op     │ op          │ …
//! ```
//!
//! A page is *dirty* when it has records here: its image in storage lacks them. A record is
//! *pending* until its group is durable in the log, which is what the paper calls uncommitted
//! wherever storage is concerned: no image with a pending record is ever written (ADR 9).
//!
//! The records of one group for one page form a *run*: the rows of an order come together, and a
//! restart visits their page once. Only the first record of a run may replace the whole page.
//!
//! Memory used here is not available for frames, so the records of a page lie together, and what
//! counts is the memory allocated, not only the bytes in it.

use std::ops::Range;

use base::varint;
use hashbrown::HashMap;

use crate::position::{LogOffset, PageId};
use crate::redo_record;

/// The cost of a page: its two lists and its entry in the table.
const PAGE_OVERHEAD_BYTES: usize = 96;

/// Redo records of one group. Their operations are the bytes of their page up to `end`, each
/// preceded by its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) offset: LogOffset,
    end: u32,
    record_count: u16,
    /// Whether the first record replaces the whole page.
    is_whole: bool,
}

/// The records of one page.
#[derive(Debug, Default)]
pub(crate) struct PageLog {
    runs: Vec<Run>,
    bytes: Vec<u8>,
}

/// Bytes of the length of a record.
const LENGTH_BYTES: usize = 2;

fn place(at: u32) -> usize {
    usize::try_from(at).expect("an address has at least 32 bits")
}

/// Reserves room for `more`, and a little extra.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more + list.len() / 8);
    }
}

impl Run {
    /// Whether another record of this group can join the run.
    fn takes(&self, offset: LogOffset, is_whole: bool) -> bool {
        self.offset == offset && !is_whole && self.record_count < u16::MAX
    }
}

impl PageLog {
    fn start(&self, i: usize) -> usize {
        i.checked_sub(1).map_or(0, |before| place(self.runs[before].end))
    }

    /// Adds a record, to the last run if that is of the same group.
    fn push(&mut self, offset: LogOffset, op: &[u8]) {
        let is_whole = redo_record::is_whole(op);
        varint::put_bytes(&mut self.bytes, op);
        let end = u32::try_from(self.bytes.len()).expect("the table is smaller than 4 GiB a page");
        match self.runs.last_mut() {
            Some(last) if last.takes(offset, is_whole) => {
                last.end = end;
                last.record_count += 1;
            }
            _ => self.runs.push(Run { offset, end, record_count: 1, is_whole }),
        }
    }

    /// The number of runs.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The number of runs older than `offset`.
    pub(crate) fn len_before(&self, offset: LogOffset) -> usize {
        self.runs.partition_point(|run| run.offset < offset)
    }

    /// The number of runs as old as `offset` or older.
    pub(crate) fn len_through(&self, offset: LogOffset) -> usize {
        self.runs.partition_point(|run| run.offset <= offset)
    }

    /// The log offset of the oldest run.
    pub(crate) fn first_offset(&self) -> Option<LogOffset> {
        self.runs.first().map(|run| run.offset)
    }

    /// The log offset of the newest run.
    pub(crate) fn last_offset(&self) -> Option<LogOffset> {
        self.runs.last().map(|run| run.offset)
    }

    /// The number of records in the first `runs` runs.
    pub(crate) fn record_count(&self, runs: usize) -> usize {
        self.runs[..runs].iter().map(|run| usize::from(run.record_count)).sum()
    }

    /// A copy of the first runs.
    pub(crate) fn first(&self, count: usize) -> Self {
        let bytes = self.bytes[..self.start(count)].to_vec();
        Self { runs: self.runs[..count].to_vec(), bytes }
    }

    /// The last of the first `len` runs that makes all before it superfluous.
    pub(crate) fn last_whole(&self, len: usize) -> Option<usize> {
        self.runs[..len].iter().rposition(|run| run.is_whole)
    }

    /// The operations of a range of runs, oldest first.
    pub(crate) fn operations(
        &self,
        which: Range<usize>,
    ) -> impl Iterator<Item = (LogOffset, &[u8])> {
        let mut start = self.start(which.start);
        self.runs[which].iter().flat_map(move |run| {
            let from = std::mem::replace(&mut start, place(run.end));
            let mut rest = &self.bytes[from..start];
            std::iter::from_fn(move || {
                let next = |rest: &mut _| varint::take_bytes(rest).expect("it was put there");
                (!rest.is_empty()).then(|| (run.offset, next(&mut rest)))
            })
        })
    }

    /// The memory allocated.
    fn cost(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.bytes.capacity()
    }

    fn remove_first(&mut self, count: usize) {
        let Self { runs, bytes } = self;
        let cut = count.checked_sub(1).map_or(0, |last| runs[last].end);
        runs.drain(..count);
        bytes.drain(..place(cut));
        runs.iter_mut().for_each(|run| run.end -= cut);
        runs.shrink_to_fit();
        bytes.shrink_to_fit();
    }

    fn truncate(&mut self, count: usize) {
        self.bytes.truncate(self.start(count));
        self.runs.truncate(count);
    }
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct OnlineLog {
    pages: HashMap<PageId, PageLog>,
    bytes: usize,
}

impl OnlineLog {
    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of dirty pages.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The dirty pages, ascending, so that a checkpoint writes in file order.
    pub(crate) fn pages(&self) -> Vec<PageId> {
        let mut pages: Vec<PageId> = self.pages.keys().copied().collect();
        pages.sort_unstable();
        pages
    }

    /// Whether a page is dirty.
    pub(crate) fn has(&self, id: PageId) -> bool {
        self.pages.contains_key(&id)
    }

    /// The records of a page.
    pub(crate) fn log(&self, id: PageId) -> &PageLog {
        static NONE: PageLog = PageLog { runs: Vec::new(), bytes: Vec::new() };
        self.pages.get(&id).unwrap_or(&NONE)
    }

    /// Adds a record. Returns whether the page was clean.
    pub(crate) fn add(&mut self, id: PageId, offset: LogOffset, op: &[u8]) -> bool {
        let log = self.pages.entry(id).or_default();
        let last = log.last_offset();
        assert!(last.is_none_or(|last| last <= offset), "records come in order");
        let before = log.cost();
        grow(&mut log.bytes, LENGTH_BYTES + op.len());
        if last != Some(offset) {
            grow(&mut log.runs, 1);
        }
        log.push(offset, op);
        self.bytes += log.cost() - before;
        self.bytes += if last.is_none() { PAGE_OVERHEAD_BYTES } else { 0 };
        last.is_none()
    }

    /// Adds records of a page, oldest first, allocating no more memory than they need.
    pub(crate) fn add_all<'a>(
        &mut self,
        id: PageId,
        records: impl Iterator<Item = (LogOffset, &'a [u8])> + Clone,
    ) {
        let log = self.pages.entry(id).or_default();
        let (before, was_clean) = (log.cost(), log.runs.is_empty());
        let (mut bytes, mut runs, mut last) = (0, 0, None);
        for (offset, op) in records.clone() {
            bytes += LENGTH_BYTES + op.len();
            runs += usize::from(last != Some(offset));
            last = Some(offset);
        }
        log.bytes.reserve_exact(bytes);
        log.runs.reserve_exact(runs);
        for (offset, op) in records {
            assert!(log.last_offset().is_none_or(|last| last <= offset), "records come in order");
            log.push(offset, op);
        }
        self.bytes += log.cost() - before;
        self.bytes += if was_clean { PAGE_OVERHEAD_BYTES } else { 0 };
    }

    /// Drops the first `count` runs of a page after its image in storage includes them.
    pub(crate) fn remove_first(&mut self, id: PageId, count: usize) {
        self.change(id, |log| log.remove_first(count));
    }

    /// Drops the records of a page from `offset` on, because their group has failed.
    pub(crate) fn remove_from(&mut self, id: PageId, offset: LogOffset) {
        self.change(id, |log| log.truncate(log.len_before(offset)));
    }

    fn change(&mut self, id: PageId, change: impl FnOnce(&mut PageLog)) {
        let Some(log) = self.pages.get_mut(&id) else { return };
        self.bytes -= log.cost();
        change(log);
        if log.len() == 0 {
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
        for offset in 1..100 {
            let op = vec![7; usize::try_from(offset).expect("small")];
            assert_eq!(table.add(page, LogOffset(offset), &op), offset == 1);
        }
        table.remove_first(page, 10);
        table.remove_from(page, LogOffset(90));
        let left: Vec<(LogOffset, usize)> =
            table.log(page).operations(0..79).map(|(offset, op)| (offset, op.len())).collect();
        let wanted: Vec<(LogOffset, usize)> =
            (11..90).zip(11..).map(|(offset, len)| (LogOffset(offset), len)).collect();
        assert_eq!(left, wanted);
        assert!(table.bytes() >= (11..90).sum::<usize>());
        table.remove_first(page, 79);
        assert_eq!((table.bytes(), table.page_count()), (0, 0));
    }

    #[test]
    fn what_a_group_does_to_a_page_is_a_run_that_begins_with_all_of_its_content() {
        let mut free = Vec::new();
        redo_record::Op::Free { next: 0 }.encode(&mut free);
        let records: [(u64, &[u8]); 5] =
            [(1, b"\x05a"), (1, b"\x05b"), (1, &free), (1, b"\x05c"), (2, b"\x05d")];
        let mut table = OnlineLog::default();
        for (offset, op) in records {
            table.add(PageId(3), LogOffset(offset), op);
            table.add(PageId(4), LogOffset(offset), op);
        }
        for id in [PageId(3), PageId(4)] {
            let log = table.log(id);
            assert_eq!((log.len(), log.record_count(3), log.last_whole(3)), (3, 5, Some(1)));
            assert!(
                log.operations(1..3)
                    .eq(records[2..].iter().map(|(offset, op)| (LogOffset(*offset), *op)))
            );
        }
    }
}
