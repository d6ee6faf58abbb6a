//! Decides which records of the log a restart needs, and where they wait until their pages are
//! used.

use base::varint;
use hashbrown::HashMap;

use crate::checkpoint::CheckpointRecord;
use crate::log_page::{Group, GroupKind, take_record};
use crate::log_reader::Visited;
use crate::log_scan::Gather;
use crate::position::{LogOffset, PageId};
use crate::unsettled::Gathered;

/// Pages with numbers below this (32 GiB) are looked up in a list.
const PAGES_LISTED_MAX: usize = 4 << 20;

/// Tells which records are missing from the images that the last checkpoint names.
pub(crate) struct Needed {
    /// For each page with a small number, its first needed record. It is relative to the redo
    /// starting point, which halves the memory of log offsets.
    from: Vec<u32>,
    /// The same for larger page numbers, if they are in the dirty page table.
    from_beyond: HashMap<PageId, u32>,
    /// The same for all other pages.
    begin: u32,
    redo_start: LogOffset,
}

impl Needed {
    pub(crate) fn new(checkpoint: &CheckpointRecord) -> Self {
        let redo_start = checkpoint.redo_start();
        let begin = since(redo_start, checkpoint.begin);
        let mut needed = Self { from: Vec::new(), from_beyond: HashMap::new(), begin, redo_start };
        let listed = checkpoint.dirty_pages.iter().filter_map(|(id, _)| place(*id)).max();
        needed.from.resize(listed.map_or(0, |last| last + 1), begin);
        for (id, offset) in &checkpoint.dirty_pages {
            let from = since(redo_start, *offset);
            match place(*id) {
                Some(at) => needed.from[at] = from,
                None => {
                    needed.from_beyond.insert(*id, from);
                }
            }
        }
        needed
    }

    /// Line 9 of Algorithm 2: tests whether the page's image as of the checkpoint lacks the record.
    fn is_needed(&self, id: PageId, since_start: u32) -> bool {
        let listed = usize::try_from(id.0).ok().and_then(|at| self.from.get(at));
        since_start >= *listed.or_else(|| self.from_beyond.get(&id)).unwrap_or(&self.begin)
    }
}

fn place(id: PageId) -> Option<usize> {
    usize::try_from(id.0).ok().filter(|at| *at < PAGES_LISTED_MAX)
}

/// The distance of `offset` from the start. A distance too large for the type counts as needed; the
/// log offset of the page decides later.
fn since(start: LogOffset, offset: LogOffset) -> u32 {
    u32::try_from(offset.0.saturating_sub(start.0)).unwrap_or(u32::MAX)
}

/// The records of a range of the log that a restart needs.
pub(crate) struct Replayed {
    pub(crate) records: Gathered,
    pub(crate) last_transaction: u64,
}

impl Gather for Needed {
    type Gathered = Replayed;

    fn begin(&self, bytes: usize) -> Replayed {
        Replayed { records: Gathered::new(bytes), last_transaction: 0 }
    }

    fn visit(&self, replayed: &mut Replayed, group: &Group<'_>) -> Visited {
        if group.kind != GroupKind::Commit {
            return Ok(());
        }
        let mut body = group.body;
        let transaction = varint::take(&mut body);
        replayed.last_transaction = transaction.unwrap_or(0).max(replayed.last_transaction);
        let since_start = since(self.redo_start, group.offset);
        while !body.is_empty() {
            let from_here = body;
            let (id, _op) = take_record(&mut body).ok_or("a group has a record that is none")?;
            if self.is_needed(id, since_start) {
                let record = &from_here[..from_here.len() - body.len()];
                replayed.records.push(id, group.offset, record);
            }
        }
        Ok(())
    }

    fn end(&self, replayed: &mut Replayed) {
        replayed.records.sort();
    }
}
