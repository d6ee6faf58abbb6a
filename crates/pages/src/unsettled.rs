//! Records that a restart has read, and that are not with their pages yet.
//!
//! ```text
//!   log ─► ranges, read side by side ─► parts: records of every 1024th page, as they came
//!                                         │ when one of its pages is first used, and
//!                                         ▼ one after another in the background
//!                                       online log table
//! ```
//!
//! A restart that brought every record to its page would be waited for twice as long. Which pages
//! have records is known when a part is settled: the part of a page is settled before the page is
//! looked up anywhere else, and all parts are before a checkpoint begins.

use hashbrown::HashMap;

use crate::log_page::take_record;
use crate::online_log::OnlineLog;
use crate::position::{Lsn, PageId};

/// How many parts: a transaction that touches some pages waits for a few per cent of the records.
const PARTS: usize = 1024;

/// What the LSN before a record takes.
const LSN_BYTES: usize = 8;

#[expect(clippy::cast_possible_truncation, reason = "any bits of a number of a page will do")]
fn part_of(id: PageId) -> usize {
    id.0 as usize % PARTS
}

/// The records of a range of the log.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Records as they are in the log, each with its LSN before it.
    parts: Vec<Vec<u8>>,
}

impl Gathered {
    /// Of a range of about so many bytes.
    pub(crate) fn new(range_bytes: u64) -> Self {
        let share = usize::try_from(range_bytes).unwrap_or(0) / PARTS;
        Self { parts: (0..PARTS).map(|_| Vec::with_capacity(share * 3 / 2)).collect() }
    }

    /// Adds a record behind those that are there.
    pub(crate) fn push(&mut self, id: PageId, lsn: Lsn, record: &[u8]) {
        let part = &mut self.parts[part_of(id)];
        part.reserve(LSN_BYTES + record.len());
        part.extend_from_slice(&lsn.0.to_le_bytes());
        part.extend_from_slice(record);
    }
}

/// The records of all ranges, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    ranges: Vec<Gathered>,
    /// The parts before this are settled.
    next: usize,
    bytes: usize,
}

impl Unsettled {
    pub(crate) fn new(ranges: Vec<Gathered>) -> Self {
        let bytes = ranges.iter().flat_map(|range| &range.parts).map(Vec::len).sum();
        Self { ranges, next: 0, bytes }
    }

    /// The bytes of the records.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Settles a part that is not settled yet, if there is one. Gives the pages that are dirty by
    /// that.
    pub(crate) fn settle_next(&mut self, table: &mut OnlineLog) -> Option<Vec<PageId>> {
        while self.next < PARTS && !self.ranges.is_empty() {
            let dirty = self.settle_part(self.next, table);
            self.next += 1;
            if !dirty.is_empty() {
                return Some(dirty);
            }
        }
        *self = Self::default();
        None
    }

    /// Settles the part of a page, likewise.
    pub(crate) fn settle(&mut self, id: PageId, table: &mut OnlineLog) -> Vec<PageId> {
        self.settle_part(part_of(id), table)
    }

    fn settle_part(&mut self, part: usize, table: &mut OnlineLog) -> Vec<PageId> {
        let taken = self.ranges.iter_mut().map(|range| std::mem::take(&mut range.parts[part]));
        let parts: Vec<Vec<u8>> = taken.filter(|part| !part.is_empty()).collect();
        self.bytes -= parts.iter().map(Vec::len).sum::<usize>();
        let mut room: HashMap<PageId, usize> = HashMap::new();
        for (id, _, op) in parts.iter().flat_map(|part| records(part)) {
            *room.entry(id).or_default() += op.len();
        }
        for (id, bytes) in &room {
            table.reserve(*id, *bytes);
        }
        for (id, lsn, op) in parts.iter().flat_map(|part| records(part)) {
            table.add(id, lsn, op);
        }
        room.into_keys().collect()
    }
}

/// The records of a part.
fn records(mut part: &[u8]) -> impl Iterator<Item = (PageId, Lsn, &[u8])> {
    std::iter::from_fn(move || {
        let (lsn, rest) = part.split_first_chunk::<LSN_BYTES>()?;
        part = rest;
        let (id, op) = take_record(&mut part).expect("it was read from the log as a record");
        Some((id, Lsn(u64::from_le_bytes(*lsn)), op))
    })
}
