//! How pages of a tree are split, and how a tree grows.
//!
//! ```text
//!   in the middle, by bytes     behind an ascending run of inserts
//!   │ a c e g │ i k m o │       │ a b c d e ▸ │ k m o │      the run goes on in the left page, which
//!                                                            fills; the next split takes off one cell
//! ```
//!
//! A split logs the contents of the right page as a whole. Keys often come in ascending order at
//! many places of a table at once, as orders do in each district. With splits in the middle, such a
//! table would log half a page each time and leave half-full pages behind. So each leaf remembers
//! the key inserted last; a few inserts directly behind one another are a run. The memory only
//! decides where to split and may be forgotten at any time.

use crate::core::{Change, Core};
use crate::error::Result;
use crate::leaf_hints::hash;
use crate::page::{Cell, Kind, Page, Place};
use crate::position::PageId;
use crate::redo_record::{Op, put_cell};
use crate::tree::branch_cell;

/// Leaves remembered, at most.
const LEAVES: usize = 1024;
/// Consecutive inserts that make a run.
const RUN_MIN: u8 = 3;

/// The last key inserted into each leaf, and the length of the run before it.
pub(crate) struct InsertRuns {
    leaves: Vec<LastInsert>,
}

#[derive(Clone, Copy)]
struct LastInsert {
    leaf: PageId,
    hash: u64,
    run: u8,
}

impl Default for InsertRuns {
    fn default() -> Self {
        Self { leaves: vec![LastInsert { leaf: PageId::META, hash: 0, run: 0 }; LEAVES] }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "any bits of a number of a page will do")]
fn slot(leaf: PageId) -> usize {
    leaf.0 as usize % LEAVES
}

impl InsertRuns {
    /// The length of the run that an insert directly behind `key` would continue.
    fn behind(&self, leaf: PageId, key: &[u8]) -> u8 {
        let last = self.leaves[slot(leaf)];
        let is_next = last.leaf == leaf && last.hash == hash(leaf, key);
        if is_next { last.run.saturating_add(1) } else { 0 }
    }

    /// Notes that `key` was inserted behind a run.
    pub(crate) fn note(&mut self, leaf: PageId, key: &[u8], run: u8) {
        self.leaves[slot(leaf)] = LastInsert { leaf, hash: hash(leaf, key), run };
    }
}

impl Core {
    /// The length of the run that an insert at a place would continue.
    pub(crate) fn run_before(&mut self, leaf: PageId, place: Place) -> Result<u8> {
        let Err(i @ 1..) = place else { return Ok(0) };
        let before = self.pool.page(leaf)?.cell(i - 1).key;
        Ok(self.insert_runs.behind(leaf, before))
    }

    /// Splits the last page of `path`, or the ancestor that must be split first. The split is for a
    /// key and the length of the run that it continues.
    pub(crate) fn split(
        &mut self,
        change: &mut Change,
        path: &[PageId],
        for_key: Option<(&[u8], u8)>,
    ) -> Result<()> {
        let (id, above) = path.split_last().expect("it has the root");
        let Some(parent) = above.last() else { return self.grow(change, *id) };
        let page = self.pool.page(*id)?;
        let (kind, level) = (page.kind().expect("it was descended to"), page.level());
        let at = split_place(page, for_key);
        let separator = page.cell(at).key.to_vec();
        let mut cells = Vec::new();
        for (i, cell) in page.cells().enumerate().skip(at) {
            // The first child of a branch has the empty key.
            let key = if kind == Kind::Branch && i == at { &[] } else { cell.key };
            put_cell(&mut cells, &Cell { key, ..cell });
        }
        if !self.pool.page(*parent)?.fits(&branch_cell(&separator, &[0; 8])) {
            return self.split(change, above, None);
        }
        let right = self.allocate(change)?;
        self.change_page(change, right, &Op::Format { kind, level, cells: &cells })?;
        self.change_page(change, *id, &Op::CutFrom { key: &separator })?;
        let child = right.0.to_le_bytes();
        self.change_page(change, *parent, &Op::Put(branch_cell(&separator, &child)))?;
        self.pool.stats.splits += 1;
        Ok(())
    }

    /// Makes the root the parent of a new page with its former contents.
    fn grow(&mut self, change: &mut Change, root: PageId) -> Result<()> {
        let page = self.pool.page(root)?;
        let (kind, level) = (page.kind().expect("it was descended to"), page.level());
        let mut cells = Vec::new();
        page.cells().for_each(|cell| put_cell(&mut cells, &cell));
        let child = self.allocate(change)?;
        self.change_page(change, child, &Op::Format { kind, level, cells: &cells })?;
        let mut only = Vec::new();
        put_cell(&mut only, &branch_cell(&[], &child.0.to_le_bytes()));
        let op = Op::Format { kind: Kind::Branch, level: level + 1, cells: &only };
        self.change_page(change, root, &op)
    }
}

/// Chooses the first cell of the right page.
///
/// That is the place of the new key if it continues a run, or the last cell if the key is above all
/// others, so that the left page stays full; otherwise the middle by bytes.
fn split_place(page: &Page, for_key: Option<(&[u8], u8)>) -> usize {
    let last = page.count() - 1;
    if let Some((key, run)) = for_key {
        let place = page.search(key).unwrap_or_else(|i| i);
        if place > last {
            return last;
        }
        if run >= RUN_MIN && place > 0 {
            return place;
        }
    }
    let half = page.used_bytes() / 2;
    let mut sum = 0;
    for (i, cell) in page.cells().enumerate() {
        sum += cell.bytes();
        if sum > half {
            return i.clamp(1, last);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use crate::{Durability, Env, Options, PAGE_BYTES, PageStore, Upkeep};
    use env_sim::{Faults, SimClock, SimDisk};

    #[test]
    fn keys_that_ascend_at_many_places_fill_their_pages() {
        let env = Env {
            disk: Arc::new(SimDisk::new(1, Faults::default())),
            clock: Arc::new(SimClock::new(0)),
        };
        let options = Options { upkeep: Upkeep::Inline, ..Options::new(PathBuf::from("/store")) };
        let store = PageStore::open(&env, options).expect("no faults");
        const PLACES: u32 = 10;
        const KEYS: u32 = 1000;
        let value = [7; 80];
        for number in 0..KEYS {
            let transaction = store.begin().expect("healthy");
            for place in 0..PLACES {
                let key = [place.to_be_bytes(), number.to_be_bytes()].concat();
                transaction.table("orders").insert(key, value).expect("there is one writer");
            }
            transaction.commit(Durability::Group).expect("no faults");
        }
        store.check().expect("sound");
        let stats = store.stats();
        // Key, value, cell header and slot.
        let bytes = u64::from(KEYS * PLACES) * (8 + 80 + 4 + 6);
        let full_pages = bytes / PAGE_BYTES as u64;
        assert!(stats.pages * 100 < full_pages * 130, "{} of {full_pages}", stats.pages);
    }
}
