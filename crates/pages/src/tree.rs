//! B+trees of committed content, and how they grow and shrink.
//!
//! ```text
//!   root (its page never moves)      branch: ""→A  "m"→B       "" stands for the lowest key
//!    ├ A  leaf: keys < "m"           leaf:   cells; large values are in overflow pages
//!    └ B  leaf: keys ≥ "m"
//! ```
//!
//! Every change is a list of redo records in the group of the committing transaction. Pending
//! changes of other transactions are in their own overlays, by key, so nothing needs to be re-homed
//! when keys move. A split or merge is complete before the next one begins; the operation that
//! needed it descends again from the root. Where a page is split: `split`.
//!
//! Nodes have no links to their siblings: a scan that runs past the end of a leaf descends again
//! with the separator from its way down.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::core::{Change, Core};
use crate::error::{Error, Result};
use crate::leaf_hints::{LeafEnd, hash};
use crate::look::Look;
use crate::page::{BODY_BYTES, Cell, Kind, Page, Place};
use crate::position::PageId;
use crate::redo_record::{Op, put_cell};

/// A page that uses less of its body than this tries to merge with a neighbour.
const UNDERFULL_BYTES: usize = BODY_BYTES / 4;
/// Merging stops short of full, so that the next insert does not split the page again.
const MERGED_BYTES_MAX: usize = BODY_BYTES / 4 * 3;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Borrows the key of a bound.
pub(crate) fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The path from the root to a leaf.
pub(crate) struct Path {
    pub(crate) pages: Vec<PageId>,
    /// No key of the leaf is below this.
    low: Vec<u8>,
    /// Every key of the leaf is below this.
    high: Option<Vec<u8>>,
}

pub(crate) fn branch_cell<'a>(key: &'a [u8], child: &'a [u8; 8]) -> Cell<'a> {
    Cell { key, value: child, is_overflow: false }
}

const WRONG_LEVEL: &str = "it is not of the level that its parent says";

/// Returns the child that leads to the leaf for `key`. With `is_below`, the leaf is that for the
/// keys directly below it; no key stands for the end. `None` if the page is that leaf. `level` is
/// that of its parent.
fn way_down(
    page: &Page,
    level: Option<u8>,
    key: Option<&[u8]>,
    is_below: bool,
) -> std::result::Result<Option<usize>, &'static str> {
    let is_right_level = level.is_none_or(|level| page.level().checked_add(1) == Some(level));
    if !is_right_level || (page.kind() == Some(Kind::Leaf)) != (page.level() == 0) {
        return Err(WRONG_LEVEL);
    }
    match page.kind() {
        Some(Kind::Leaf) => return Ok(None),
        Some(Kind::Branch) => {}
        _ => return Err("a tree refers to a page of the wrong kind"),
    }
    Ok(Some(match key {
        None => page.count() - 1,
        Some(key) => match page.search(key) {
            Ok(i) if is_below => i.saturating_sub(1),
            Ok(i) => i,
            Err(i) => i.saturating_sub(1),
        },
    }))
}

impl Look<'_> {
    /// Descends to a leaf as [`way_down`] says, remembering the path.
    fn descend(&mut self, root: PageId, key: Option<&[u8]>, is_below: bool) -> Result<Path> {
        let mut path = Path { pages: vec![root], low: Vec::new(), high: None };
        let mut level: Option<u8> = None;
        loop {
            let id = *path.pages.last().expect("it has the root");
            let page = self.page(id)?;
            let i = match way_down(page, level, key, is_below) {
                Ok(Some(i)) => i,
                Ok(None) => return Ok(path),
                Err(what) => return Err(self.corrupt_page(id, what)),
            };
            if i > 0 {
                path.low = page.cell(i).key.to_vec();
            }
            if i + 1 < page.count() {
                path.high = Some(page.cell(i + 1).key.to_vec());
            }
            level = Some(page.level());
            path.pages.push(page.child(i));
        }
    }

    /// Descends to a leaf as [`way_down`] says, without reading it: see [`Look::leaf`].
    fn leaf_of(&mut self, root: PageId, key: Option<&[u8]>, is_below: bool) -> Result<PageId> {
        let mut id = root;
        let mut level: Option<u8> = None;
        while level != Some(1) {
            let page = self.page(id)?;
            match way_down(page, level, key, is_below) {
                Ok(Some(i)) => {
                    level = Some(page.level());
                    id = page.child(i);
                }
                Ok(None) => break,
                Err(what) => return Err(self.corrupt_page(id, what)),
            }
        }
        Ok(id)
    }

    /// Returns the page that a level-1 branch, or a root without branches, names as a leaf.
    fn leaf(&mut self, id: PageId) -> Result<&Page> {
        let page = self.page(id)?;
        if page.kind() != Some(Kind::Leaf) || page.level() != 0 {
            return Err(self.corrupt_page(id, WRONG_LEVEL));
        }
        self.page(id)
    }

    /// Finds the leaf for `key`, and the place of the key in it.
    fn find(&mut self, root: PageId, key: &[u8]) -> Result<(PageId, Place)> {
        let hash = hash(root, key);
        if let Some(found) = self.find_by_hint(root, key, hash) {
            return Ok(found);
        }
        let leaf = self.leaf_of(root, Some(key), false)?;
        self.core().leaf_hints.set(root, hash, leaf, self.shape(leaf));
        // If the leaf is in no frame, the repeated query goes to it directly.
        Ok((leaf, self.leaf(leaf)?.search(key)))
    }

    fn find_by_hint(&mut self, root: PageId, key: &[u8], hash: u64) -> Option<(PageId, Place)> {
        let (leaf, shape) = self.core().leaf_hints.get(root, hash)?;
        if self.shape(leaf) != shape {
            return None;
        }
        let page = self.page_in_frame(leaf).filter(|page| page.kind() == Some(Kind::Leaf))?;
        let place = page.search(key);
        let is_inside = match place {
            Ok(_) => true,
            Err(0) => false,
            Err(i) if i < page.count() => true,
            Err(_) => self.core().leaf_hints.is_before_end(leaf, shape, key),
        };
        is_inside.then_some((leaf, place))
    }

    /// As [`Core::find`], for a caller that probably stays in the same leaf as the last time.
    fn find_near(&mut self, root: PageId, key: &[u8]) -> Result<(PageId, Place)> {
        let near = hash(root, &[]);
        if let Some(found) = self.find_by_hint(root, key, near) {
            return Ok(found);
        }
        let found = self.find(root, key)?;
        self.core().leaf_hints.set(root, near, found.0, self.shape(found.0));
        Ok(found)
    }

    /// The pages from the root to the last leaf.
    pub(crate) fn last_path(&mut self, root: PageId) -> Result<Vec<PageId>> {
        self.descend(root, None, false).map(|path| path.pages)
    }

    /// Returns the value of `key`.
    pub(crate) fn tree_get(&mut self, root: PageId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.find(root, key)? {
            (leaf, Ok(i)) => self.value(leaf, i).map(Some),
            (_, Err(_)) => Ok(None),
        }
    }

    /// The value of the cell at place `i` of a leaf.
    fn value(&mut self, leaf: PageId, i: usize) -> Result<Vec<u8>> {
        let cell = self.page(leaf)?.cell(i);
        let (value, is_overflow) = (cell.value.to_vec(), cell.is_overflow);
        if is_overflow { self.read_overflow(leaf, &value) } else { Ok(value) }
    }

    /// Whether `key` exists; for a caller about to write it, perhaps near the last one.
    pub(crate) fn tree_has(&mut self, root: PageId, key: &[u8]) -> Result<bool> {
        let near = self.find_by_hint(root, key, hash(root, &[]));
        let (_, place) = near.map_or_else(|| self.find(root, key), Ok)?;
        Ok(place.is_ok())
    }

    /// Calls `see` with the first key from `from` on, or with `None` at the end.
    pub(crate) fn tree_next<T>(
        &mut self,
        root: PageId,
        from: Bound<&[u8]>,
        mut see: impl FnMut(Option<&[u8]>) -> T,
    ) -> Result<T> {
        match self.next_place(root, from)? {
            Some((leaf, i)) => Ok(see(Some(self.page(leaf)?.cell(i).key))),
            None => Ok(see(None)),
        }
    }

    /// Appends the first entries from `from` on to `entries`, from one leaf, up to a maximum. It
    /// stops when `see` refuses one; `see` is called with each key, and with `None` for the end.
    pub(crate) fn tree_entries(
        &mut self,
        root: PageId,
        from: Bound<&[u8]>,
        count: usize,
        mut see: impl FnMut(Option<&[u8]>) -> bool,
        entries: &mut VecDeque<Entry>,
    ) -> Result<()> {
        let Some((leaf, first)) = self.next_place(root, from)? else {
            see(None);
            return Ok(());
        };
        let page = self.page(leaf)?;
        let mut overflowing = Vec::new();
        for i in first..page.count().min(first + count) {
            let cell = page.cell(i);
            if !see(Some(cell.key)) {
                break;
            }
            if cell.is_overflow {
                overflowing.push(entries.len());
            }
            entries.push_back((cell.key.to_vec(), cell.value.to_vec()));
        }
        for i in overflowing {
            entries[i].1 = self.read_overflow(leaf, &entries[i].1)?;
        }
        Ok(())
    }

    /// The last entry up to `to`.
    pub(crate) fn tree_previous_entry(
        &mut self,
        root: PageId,
        to: Bound<&[u8]>,
    ) -> Result<Option<Entry>> {
        let place = self.previous_place(root, to)?;
        self.entry(place)
    }

    fn entry(&mut self, place: Option<(PageId, usize)>) -> Result<Option<Entry>> {
        let Some((leaf, i)) = place else { return Ok(None) };
        let key = self.page(leaf)?.cell(i).key.to_vec();
        Ok(Some((key, self.value(leaf, i)?)))
    }

    /// The leaf and place of the first key from `from` on.
    fn next_place(&mut self, root: PageId, from: Bound<&[u8]>) -> Result<Option<(PageId, usize)>> {
        let key = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let (leaf, place) = self.find_near(root, key)?;
        let i = match (place, from) {
            (Ok(i), Bound::Excluded(_)) => i + 1,
            (Ok(i) | Err(i), _) => i,
        };
        if i < self.page(leaf)?.count() {
            return Ok(Some((leaf, i)));
        }
        if let Some(first) = self.first_behind(leaf)? {
            return Ok(Some((first, 0)));
        }
        // The key is the first of a later leaf.
        let mut high = self.descend(root, Some(key), false)?.high;
        let mut end = LeafEnd { leaf, shape: self.shape(leaf), high: high.clone(), next: None };
        while let Some(key) = high {
            let path = self.descend(root, Some(&key), false)?;
            let leaf = *path.pages.last().expect("it has the root");
            end.next.get_or_insert((leaf, self.shape(leaf)));
            let page = self.page(leaf)?;
            let i = page.search(&key).unwrap_or_else(|i| i);
            if i < page.count() {
                self.core().leaf_hints.set_end(end);
                return Ok(Some((leaf, i)));
            }
            high = path.high;
        }
        self.core().leaf_hints.set_end(end);
        Ok(None)
    }

    /// The leaf after this one, if that is known and it has keys.
    fn first_behind(&mut self, leaf: PageId) -> Result<Option<PageId>> {
        let next = self.core().leaf_hints.next(leaf, self.shape(leaf));
        let Some((next, shape)) = next else { return Ok(None) };
        let is_good = self.shape(next) == shape && self.page(next)?.count() > 0;
        Ok(is_good.then_some(next))
    }

    /// The leaf and place of the last key up to `to`.
    fn previous_place(
        &mut self,
        root: PageId,
        to: Bound<&[u8]>,
    ) -> Result<Option<(PageId, usize)>> {
        let (key, is_below) = match to {
            Bound::Included(key) => (Some(key), false),
            Bound::Excluded(key) => (Some(key), true),
            Bound::Unbounded => (None, false),
        };
        let end = |page: &Page, key: Option<&[u8]>, is_below: bool| match key {
            None => page.count(),
            Some(key) => match page.search(key) {
                Ok(i) if is_below => i,
                Ok(i) => i + 1,
                Err(i) => i,
            },
        };
        let leaf = self.leaf_of(root, key, is_below)?;
        let count = end(self.leaf(leaf)?, key, is_below);
        if count > 0 {
            return Ok(Some((leaf, count - 1)));
        }
        // The key is the last of an earlier leaf.
        let mut low = self.descend(root, key, is_below)?.low;
        while !low.is_empty() {
            let path = self.descend(root, Some(&low), true)?;
            let leaf = *path.pages.last().expect("it has the root");
            let count = end(self.page(leaf)?, Some(&low), true);
            if count > 0 {
                return Ok(Some((leaf, count - 1)));
            }
            low = path.low;
        }
        Ok(None)
    }

    /// Estimates the number of keys. The result is exact if there is only one leaf; otherwise it
    /// comes from a few descents, each the product of the numbers of children along it (Knuth
    /// 1975).
    pub(crate) fn tree_len_estimate(&mut self, root: PageId) -> Result<u64> {
        const WAYS: u64 = 16;
        let mut sum: u64 = 0;
        for way in 0..WAYS {
            let mut product: u64 = 1;
            let mut id = root;
            for depth in 0..u64::from(u8::MAX) {
                let page = self.page(id)?;
                let count = page.count() as u64;
                product = product.saturating_mul(count);
                if page.kind() != Some(Kind::Branch) {
                    break;
                }
                // Descents evenly spread at every level, and differently at each.
                let place = (way * (2 * depth + 1) % WAYS * 2 + 1) * count / (2 * WAYS);
                id = page.child(usize::try_from(place).expect("less than a page has"));
            }
            sum = sum.saturating_add(product);
        }
        Ok(sum / WAYS)
    }
}

impl Core {
    /// Sets `key` to `value`. Returns whether it existed.
    pub(crate) fn tree_put(
        &mut self,
        change: &mut Change,
        root: PageId,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let (mut leaf, mut place) = self.look().find(root, key)?;
        let was_there = self.free_overflow_of(change, leaf, place)?;
        let direct = Cell { key, value, is_overflow: false };
        let address;
        let cell = if direct.is_small() {
            direct
        } else {
            address = self.write_overflow(change, value)?;
            Cell { key, value: &address, is_overflow: true }
        };
        let run = self.run_before(leaf, place)?;
        while !self.pool.page(leaf)?.fits_at(place, &cell) {
            let path = self.look().descend(root, Some(key), false)?;
            self.split(change, &path.pages, Some((key, run)))?;
            (leaf, place) = self.look().find(root, key)?;
        }
        self.put_cell(change, leaf, place, cell)?;
        if !was_there {
            self.insert_runs.note(leaf, key, run);
        }
        Ok(was_there)
    }

    /// Removes `key`. Returns whether it existed.
    pub(crate) fn tree_remove(
        &mut self,
        change: &mut Change,
        root: PageId,
        key: &[u8],
    ) -> Result<bool> {
        let (leaf, place) = self.look().find(root, key)?;
        if !self.free_overflow_of(change, leaf, place)? {
            return Ok(false);
        }
        self.remove_cell(change, leaf, place, key)?;
        if leaf != root && self.pool.page(leaf)?.used_bytes() < UNDERFULL_BYTES {
            let path = self.look().descend(root, Some(key), false)?;
            self.merge(change, &path.pages)?;
        }
        Ok(true)
    }

    /// Frees the overflow pages of the value at a place, if any. Returns whether a key is there.
    fn free_overflow_of(
        &mut self,
        change: &mut Change,
        leaf: PageId,
        place: Place,
    ) -> Result<bool> {
        let Ok(i) = place else { return Ok(false) };
        let cell = self.pool.page(leaf)?.cell(i);
        if cell.is_overflow {
            let address = cell.value.to_vec();
            self.free_overflow(change, leaf, &address)?;
        }
        Ok(true)
    }

    /// Merges the last page of `path` with a neighbour if it is underfull. Continues with its
    /// parent, and so on up.
    fn merge(&mut self, change: &mut Change, path: &[PageId]) -> Result<()> {
        let (id, above) = path.split_last().expect("it has the root");
        let Some(parent) = above.last() else { return self.shrink(change, *id) };
        let used = self.pool.page(*id)?.used_bytes();
        if used >= UNDERFULL_BYTES {
            return Ok(());
        }
        let page = self.pool.page(*parent)?;
        let place = (0..page.count()).find(|i| page.child(*i) == *id);
        let place = place.ok_or_else(|| self.corrupt_page(*parent, "it lost a child"))?;
        for left in [place.checked_sub(1), Some(place)].into_iter().flatten() {
            let page = self.pool.page(*parent)?;
            if left + 1 >= page.count() {
                continue;
            }
            let separator = page.cell(left + 1).key.to_vec();
            let (left, right) = (page.child(left), page.child(left + 1));
            if self.merge_two(change, left, right, &separator)? {
                self.change_page(change, *parent, &Op::Remove { key: &separator })?;
                self.pool.stats.merges += 1;
                return self.merge(change, above);
            }
        }
        Ok(())
    }

    fn merge_two(
        &mut self,
        change: &mut Change,
        left: PageId,
        right: PageId,
        separator: &[u8],
    ) -> Result<bool> {
        let left_page = self.pool.page(left)?;
        let (used, kind) = (left_page.used_bytes(), left_page.kind());
        let page = self.pool.page(right)?;
        if page.kind() != kind {
            return Err(self.corrupt_page(right, "its neighbour is of another kind"));
        }
        if used + page.used_bytes() + separator.len() > MERGED_BYTES_MAX {
            return Ok(false);
        }
        let mut cells = Vec::new();
        for cell in page.cells() {
            let key = if cell.key.is_empty() && kind == Some(Kind::Branch) {
                separator
            } else {
                cell.key
            };
            put_cell(&mut cells, &Cell { key, ..cell });
        }
        self.change_page(change, left, &Op::Append { cells: &cells })?;
        self.free(change, right)?;
        Ok(true)
    }

    /// Replaces a root that has one child by that child.
    fn shrink(&mut self, change: &mut Change, root: PageId) -> Result<()> {
        loop {
            let page = self.pool.page(root)?;
            if page.kind() != Some(Kind::Branch) || page.count() > 1 {
                return Ok(());
            }
            let child = page.child(0);
            let page = self.pool.page(child)?;
            let kind = page.kind().filter(|kind| matches!(kind, Kind::Leaf | Kind::Branch));
            let level = page.level();
            let mut cells = Vec::new();
            page.cells().for_each(|cell| put_cell(&mut cells, &cell));
            let Some(kind) = kind else {
                return Err(self.corrupt_page(child, "a tree refers to a page of the wrong kind"));
            };
            self.change_page(change, root, &Op::Format { kind, level, cells: &cells })?;
            self.free(change, child)?;
        }
    }

    pub(crate) fn corrupt_page(&self, id: PageId, what: &str) -> Error {
        let offset = crate::data_file::DataFile::offset(id, false);
        Error::corrupt(self.pool.data.path(), offset, format!("page {id}: {what}"))
    }
}
