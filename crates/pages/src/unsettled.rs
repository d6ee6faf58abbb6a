//! Records that a restart has read and that are not with their pages yet.
//!
//! ```text
//!   log ─► ranges, read side by side: records as they came
//!                                     │ sorted into parts: those of every 4096th page
//!                                     │   when one of its pages is first used, and
//!                                     ▼   one after another in the background
//!                                   online log table
//! ```
//!
//! A restart that brought every record to its page would take twice as long. Settling a part shows
//! which of its pages have records: the part of a page is settled before the page is looked up
//! anywhere else, and all parts before a checkpoint begins.
//!
//! The largest cost of a restart is touching memory for the first time. So the records of a range
//! share one piece of memory with few bytes of overhead, and only their positions are sorted.

use crate::log_page::take_record;
use crate::online_log::OnlineLog;
use crate::position::{LogOffset, PageId};

/// The number of parts: a transaction that touches some pages waits for few records of others.
const PARTS: usize = 4096;
/// Parts settled at a time in the background.
const PARTS_A_STEP: usize = 4;

/// Bytes of the log offset before a record.
const LOG_OFFSET_BYTES: usize = 8;

#[expect(clippy::cast_possible_truncation, reason = "any bits of a number of a page will do")]
fn part_of(id: PageId) -> u16 {
    (id.0 % PARTS as u64) as u16
}

/// The records of a range of the log.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Records as in the log, each preceded by its log offset.
    bytes: Vec<u8>,
    /// For each record, its offset in `bytes` and its part; until they are sorted.
    unsorted: Vec<(u32, u16)>,
    /// The offsets of the records of the first part, then of the second, and so on.
    places: Vec<u32>,
    /// For each part, the end of its records in `places`.
    ends: Vec<u32>,
}

fn small(at: usize) -> u32 {
    u32::try_from(at).expect("a range of the log, and a transaction, is far below 4 GiB")
}

fn wide(at: u32) -> usize {
    usize::try_from(at).expect("an address has at least 32 bits")
}

impl Gathered {
    /// Creates it for a range of about `range_bytes` bytes.
    pub(crate) fn new(range_bytes: usize) -> Self {
        let bytes = Vec::with_capacity(range_bytes);
        Self { bytes, unsorted: Vec::new(), places: Vec::new(), ends: Vec::new() }
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, id: PageId, offset: LogOffset, record: &[u8]) {
        self.unsorted.push((small(self.bytes.len()), part_of(id)));
        self.bytes.reserve(LOG_OFFSET_BYTES + record.len());
        self.bytes.extend_from_slice(&offset.0.to_le_bytes());
        self.bytes.extend_from_slice(record);
    }

    /// Sorts the records by part, after the last one was added.
    pub(crate) fn sort(&mut self) {
        self.bytes.shrink_to_fit();
        let unsorted = std::mem::take(&mut self.unsorted);
        if unsorted.is_empty() {
            return;
        }
        let mut next = vec![0; PARTS + 1];
        for (_, part) in &unsorted {
            next[usize::from(*part) + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut next {
            sum += *count;
            *count = sum;
        }
        self.places = vec![0; unsorted.len()];
        for (at, part) in unsorted {
            let next = &mut next[usize::from(part)];
            self.places[wide(*next)] = at;
            *next += 1;
        }
        // The next free place of a part is its end now.
        self.ends = next;
    }

    /// The records of a part, in the order of the log.
    fn part(&self, part: usize) -> impl Iterator<Item = Record<'_>> {
        let end = self.ends.get(part).map_or(0, |end| wide(*end));
        let start = part.checked_sub(1).and_then(|before| self.ends.get(before));
        let places = &self.places[start.map_or(0, |start| wide(*start))..end];
        places.iter().map(|at| Record::at(&self.bytes[wide(*at)..]))
    }
}

/// A record on its way to its page.
#[derive(Clone)]
struct Record<'a> {
    id: PageId,
    offset: LogOffset,
    op: &'a [u8],
    /// The bytes that it takes here.
    bytes: usize,
}

impl<'a> Record<'a> {
    /// The first record in these bytes.
    fn at(records: &'a [u8]) -> Self {
        let (offset, mut rest) = records.split_first_chunk().expect("a log offset was put there");
        let (id, op) = take_record(&mut rest).expect("it was read from the log as a record");
        Self {
            id,
            offset: LogOffset(u64::from_le_bytes(*offset)),
            op,
            bytes: records.len() - rest.len(),
        }
    }
}

/// The records of all ranges, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    ranges: Vec<Gathered>,
    is_settled: Vec<bool>,
    /// The parts before this one are settled.
    next: usize,
    bytes: usize,
}

impl Unsettled {
    pub(crate) fn new(ranges: Vec<Gathered>) -> Self {
        let bytes = ranges.iter().map(|range| range.bytes.len()).sum();
        Self { ranges, is_settled: vec![false; PARTS], next: 0, bytes }
    }

    /// The bytes of the records.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Settles some unsettled parts, if there are any. Returns the pages that become dirty.
    pub(crate) fn settle_next(&mut self, table: &mut OnlineLog) -> Option<Vec<PageId>> {
        let mut dirty = Vec::new();
        let mut count = 0;
        while self.next < self.is_settled.len() && count < PARTS_A_STEP {
            let settled = self.settle_part(self.next, table);
            self.next += 1;
            count += usize::from(!settled.is_empty());
            dirty.extend(settled);
        }
        if dirty.is_empty() {
            *self = Self::default();
            return None;
        }
        Some(dirty)
    }

    /// Settles the part of a page, likewise.
    pub(crate) fn settle(&mut self, id: PageId, table: &mut OnlineLog) -> Vec<PageId> {
        self.settle_part(usize::from(part_of(id)), table)
    }

    fn settle_part(&mut self, part: usize, table: &mut OnlineLog) -> Vec<PageId> {
        if self.is_settled.get(part).is_none_or(|is_settled| *is_settled) {
            return Vec::new();
        }
        self.is_settled[part] = true;
        let mut records: Vec<Record<'_>> =
            self.ranges.iter().flat_map(|range| range.part(part)).collect();
        self.bytes -= records.iter().map(|record| record.bytes).sum::<usize>();
        // The records of a page stay in log order.
        records.sort_by_key(|record| record.id);
        let of_pages = records.chunk_by(|one, next| one.id == next.id);
        of_pages
            .map(|records| {
                table.add_all(
                    records[0].id,
                    records.iter().map(|record| (record.offset, record.op)),
                );
                records[0].id
            })
            .collect()
    }
}
