//! Which records of the log a restart needs, and where they go until their pages are used.

use base::varint;
use hashbrown::HashMap;

use crate::checkpoint::CheckpointRecord;
use crate::log_page::{Group, GroupKind, take_record};
use crate::log_reader::Visited;
use crate::position::{Lsn, PageId};
use crate::unsettled::Gathered;

/// Pages with numbers below this (32 GiB of them) are looked up in a list.
const PAGES_LISTED_MAX: usize = 4 << 20;

/// Which records are not in the images that the last checkpoint names.
pub(crate) struct Needed {
    /// The first record that is needed of each page with a small enough number.
    from: Vec<Lsn>,
    /// That of pages with larger ones, if they are in the dirty page table.
    from_beyond: HashMap<PageId, Lsn>,
    begin: Lsn,
    /// From here on all are needed.
    all_from: Lsn,
}

impl Needed {
    pub(crate) fn new(checkpoint: &CheckpointRecord) -> Self {
        let begin = checkpoint.begin;
        let mut needed =
            Self { from: Vec::new(), from_beyond: HashMap::new(), begin, all_from: begin };
        for (id, lsn) in &checkpoint.dirty_pages {
            match usize::try_from(id.0) {
                Ok(at) if at < PAGES_LISTED_MAX => {
                    if at >= needed.from.len() {
                        needed.from.resize(at + 1, begin);
                    }
                    needed.from[at] = *lsn;
                }
                _ => {
                    needed.from_beyond.insert(*id, *lsn);
                }
            }
            needed.all_from = needed.all_from.max(*lsn);
        }
        needed
    }

    /// Line 9 of Algorithm 2: is it in the page's image as of the checkpoint?
    fn is_needed(&self, id: PageId, lsn: Lsn) -> bool {
        if lsn >= self.all_from {
            return true;
        }
        let listed = usize::try_from(id.0).ok().and_then(|at| self.from.get(at));
        lsn >= *listed.or_else(|| self.from_beyond.get(&id)).unwrap_or(&self.begin)
    }
}

/// What a range of the log has for a restart.
pub(crate) struct Replayed {
    pub(crate) records: Gathered,
    pub(crate) last_transaction: u64,
}

impl Replayed {
    /// Nothing yet, of a range of about so many bytes.
    pub(crate) fn new(range_bytes: u64) -> Self {
        Self { records: Gathered::new(range_bytes), last_transaction: 0 }
    }

    /// Takes what is needed of a group.
    pub(crate) fn take(&mut self, group: &Group<'_>, needed: &Needed) -> Visited {
        if group.kind != GroupKind::Commit {
            return Ok(());
        }
        let mut body = group.body;
        let transaction = varint::take(&mut body);
        self.last_transaction = transaction.unwrap_or(0).max(self.last_transaction);
        while !body.is_empty() {
            let from_here = body;
            let (id, _op) = take_record(&mut body).ok_or("a group has a record that is none")?;
            if needed.is_needed(id, group.lsn) {
                let record = &from_here[..from_here.len() - body.len()];
                self.records.push(id, group.lsn, record);
            }
        }
        Ok(())
    }
}
