//! The hash table under databases and large collections: extendible hashing over small pages.
//!
//! ```text
//!   directory, by the top bits of the hash            pages, each a small hash table
//!   ┌─000─┬─001─┬─010─┬─011─┬─100─┬─…                ┌──────────────┐
//!   │  0  │  0  │  1  │  2  │  3  │                  │ 00…  ≤ 448   │ 0
//!   └─────┴─────┴─────┴─────┴─────┴─…                ├──────────────┤
//!                                                    │ 010… ≤ 448   │ 1
//!                                                    └──────────────┘
//! ```
//!
//! A page holds a contiguous range of hashes. A full page splits in two; two small neighbours
//! merge. So the table grows and shrinks some hundred items at a time and never stops the world,
//! and a scan is a walk over the range of hashes: its cursor is the hash to go on from, which
//! stays true whatever splits or merges in between. An item that is there from the beginning to
//! the end of a scan is returned; Redis' guarantee, without its reversed bits.
//!
//! # Invariants
//! - Every page's range is `depth` top bits; the ranges of the pages partition all hashes.
//! - `directory.len() == 1 << depth`, and entry `i` is the page whose range holds the prefix `i`.
//! - No page is deeper than the directory; `deepest` counts the pages that are as deep.

use hashbrown::HashTable;

use crate::hasher::KeyHasher;

/// A full page: 512 buckets at hashbrown's load of 7/8. Smaller pages split faster and make finer
/// scans, but their headers outgrow the cache: at 3 million keys a lookup took a third longer with
/// pages of 112.
const PAGE_ITEMS_MAX: usize = 448;
/// Two neighbours merge when both fit in half a page.
const MERGED_ITEMS_MAX: usize = PAGE_ITEMS_MAX / 2;
/// Hashes that agree in this many bits share a page, however many they are.
const DEPTH_MAX: u32 = 48;
/// Cursors drop the bits below [`DEPTH_MAX`], so that they stay short.
const CURSOR_SHIFT: u32 = 64 - DEPTH_MAX;
/// After this many empty buckets a random pick takes the next item instead.
const RANDOM_TRIES: usize = 4096;

/// What a table finds its items by.
pub(crate) trait Keyed {
    /// The name of the item, unique in its table; it never changes while the item is there.
    fn key(&self) -> &[u8];

    /// Reads the item itself, and not what it points to.
    fn touch(&self) {}
}

/// Where an item is, until its table next changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    page: usize,
    bucket: usize,
}

struct Page<T> {
    /// The least hash of the range.
    start: u64,
    /// How many top bits all hashes of the range share.
    depth: u32,
    items: HashTable<T>,
}

/// A set of items, found by key.
pub(crate) struct Table<T> {
    directory: Vec<u32>,
    depth: u32,
    pages: Vec<Page<T>>,
    deepest: usize,
    len: usize,
}

/// What hashbrown sees of a hash: it picks buckets by the low bits and tags by the top seven,
/// and the directory has used up the top.
const fn within_page(hash: u64) -> u64 {
    hash.rotate_left(32)
}

impl<T: Keyed> Table<T> {
    /// A table without items.
    pub(crate) fn new() -> Self {
        let page = Page { start: 0, depth: 0, items: HashTable::new() };
        Self { directory: vec![0], depth: 0, pages: vec![page], deepest: 1, len: 0 }
    }

    /// How many items there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn directory_index(&self, hash: u64) -> usize {
        let index = hash.checked_shr(64 - self.depth).unwrap_or(0);
        usize::try_from(index).expect("a directory index fits the machine")
    }

    fn page_index(&self, hash: u64) -> usize {
        self.directory[self.directory_index(hash)] as usize
    }

    /// The item with this key, whose hash is `hash`.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&T> {
        let page = &self.pages[self.page_index(hash)];
        page.items.find(within_page(hash), |item| item.key() == key)
    }

    /// The item with this key, to be changed; its key must stay.
    pub(crate) fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut T> {
        let page = self.page_index(hash);
        self.pages[page].items.find_mut(within_page(hash), |item| item.key() == key)
    }

    /// The item with this hash for which `found` holds.
    pub(crate) fn find_by(&self, hash: u64, mut found: impl FnMut(&T) -> bool) -> Option<&T> {
        self.pages[self.page_index(hash)].items.find(within_page(hash), |item| found(item))
    }

    /// The item with this hash for which `found` holds, to be changed; its key must stay.
    pub(crate) fn find_mut_by(
        &mut self,
        hash: u64,
        mut found: impl FnMut(&T) -> bool,
    ) -> Option<&mut T> {
        let page = self.page_index(hash);
        self.pages[page].items.find_mut(within_page(hash), |item| found(item))
    }

    /// Where the item with this key is; true until the table next changes.
    pub(crate) fn locate(&self, hash: u64, key: &[u8]) -> Option<Place> {
        let page = self.page_index(hash);
        let items = &self.pages[page].items;
        let bucket = items.find_bucket_index(within_page(hash), |item| item.key() == key)?;
        Some(Place { page, bucket })
    }

    /// The item at `place`.
    pub(crate) fn at(&self, place: Place) -> &T {
        self.pages[place.page].items.get_bucket(place.bucket).expect("the place is current")
    }

    /// The item at `place`, to be changed; its key must stay.
    pub(crate) fn at_mut(&mut self, place: Place) -> &mut T {
        self.pages[place.page].items.get_bucket_mut(place.bucket).expect("the place is current")
    }

    /// Brings what a lookup of this hash will read into the cache. Many of these in a row overlap
    /// their misses, which as many lookups and insertions do not.
    ///
    /// Returns whether there may be an item that a lookup looks at.
    pub(crate) fn touch(&self, hash: u64) -> bool {
        let page = &self.pages[self.page_index(hash)];
        let mut is_looked_at = false;
        let looked_at = |item: &T| {
            is_looked_at = true;
            item.key().is_empty()
        };
        std::hint::black_box(page.items.find(within_page(hash), looked_at));
        is_looked_at
    }

    /// Brings what an insertion with this hash will write into the cache, as [`Table::touch`] does what a
    /// lookup reads: the buckets from the first one on that may take it.
    pub(crate) fn touch_room(&self, hash: u64) {
        /// hashbrown looks for room in so many buckets at once; a line of the cache has eight.
        const GROUP: usize = 16;
        const STEP: usize = 4;
        let items = &self.pages[self.page_index(hash)].items;
        let Some(last) = items.num_buckets().checked_sub(1) else { return };
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
        let first = within_page(hash) as usize;
        for at in (0..GROUP).step_by(STEP) {
            if let Some(item) = items.get_bucket(first.wrapping_add(at) & last) {
                item.touch();
            }
        }
    }

    /// Adds an item whose key is not in the table.
    pub(crate) fn insert(&mut self, hasher: KeyHasher, hash: u64, item: T) -> Place {
        debug_assert!(self.find(hash, item.key()).is_none(), "a key is in its table once");
        let mut page = self.page_index(hash);
        while self.pages[page].items.len() >= PAGE_ITEMS_MAX && self.pages[page].depth < DEPTH_MAX {
            self.split(hasher, page);
            page = self.page_index(hash);
        }
        self.len += 1;
        let bucket = self.pages[page]
            .items
            .insert_unique(within_page(hash), item, |item| within_page(hasher.hash(item.key())))
            .bucket_index();
        Place { page, bucket }
    }

    /// Takes the item with this key out.
    pub(crate) fn remove(&mut self, hasher: KeyHasher, hash: u64, key: &[u8]) -> Option<T> {
        let page = self.page_index(hash);
        let items = &mut self.pages[page].items;
        let (item, _) =
            items.find_entry(within_page(hash), |item| item.key() == key).ok()?.remove();
        self.len -= 1;
        if items.len() < items.capacity() / 4 {
            items.shrink_to(items.len() * 2, |item| within_page(hasher.hash(item.key())));
        }
        self.merge_if_small(hasher, page);
        Some(item)
    }

    fn split(&mut self, hasher: KeyHasher, page: usize) {
        if self.pages[page].depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&page| [page, page]).collect();
            self.depth += 1;
            self.deepest = 0;
        }
        let low = &mut self.pages[page];
        low.depth += 1;
        let depth = low.depth;
        let bit = 1u64 << (64 - depth);
        // Half a page is as much as the next smaller size holds: it would grow at once, and growing
        // means to hash every key again, whose entries are not in the cache.
        let full = || HashTable::with_capacity(PAGE_ITEMS_MAX);
        let mut high = Page { start: low.start | bit, depth, items: full() };
        let rehash = |item: &T| within_page(hasher.hash(item.key()));
        let items = std::mem::replace(&mut low.items, full());
        // The keys are read once without waiting for one another, so that hashing finds them in
        // the cache.
        std::hint::black_box(items.iter().map(|item| item.key().len()).sum::<usize>());
        for item in items {
            let hash = hasher.hash(item.key());
            let side = if hash & bit == 0 { &mut low.items } else { &mut high.items };
            side.insert_unique(within_page(hash), item, rehash);
        }
        if depth == self.depth {
            self.deepest += 2;
        }
        self.pages.push(high);
        self.point_directory_at(self.pages.len() - 1);
    }

    /// Makes the directory name `page` for all of its range.
    fn point_directory_at(&mut self, page: usize) {
        let Page { start, depth, .. } = self.pages[page];
        let first = self.directory_index(start);
        let count = 1usize << (self.depth - depth);
        let page = u32::try_from(page).expect("pages are fewer than 2^32");
        self.directory[first..first + count].fill(page);
    }

    fn merge_if_small(&mut self, hasher: KeyHasher, page: usize) {
        let Page { start, depth, ref items } = self.pages[page];
        if depth == 0 || items.len() > MERGED_ITEMS_MAX / 4 {
            return;
        }
        let bit = 1u64 << (64 - depth);
        let buddy = self.page_index(start ^ bit);
        let fits = items.len() + self.pages[buddy].items.len() <= MERGED_ITEMS_MAX;
        if self.pages[buddy].depth != depth || !fits {
            return;
        }
        let moved = std::mem::take(&mut self.pages[page].items);
        let kept = &mut self.pages[buddy];
        for item in moved {
            kept.items.insert_unique(within_page(hasher.hash(item.key())), item, |item| {
                within_page(hasher.hash(item.key()))
            });
        }
        kept.start &= !bit;
        kept.depth -= 1;
        self.point_directory_at(buddy);
        if depth == self.depth {
            self.deepest -= 2;
        }
        self.pages.swap_remove(page);
        if page < self.pages.len() {
            self.point_directory_at(page);
        }
        self.halve_directory_if_unused();
    }

    fn halve_directory_if_unused(&mut self) {
        while self.depth > 0 && self.deepest == 0 {
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
            self.deepest = self.pages.iter().filter(|page| page.depth == self.depth).count();
        }
    }

    /// A uniformly random item.
    pub(crate) fn random(&self, rng: &mut fastrand::Rng) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        // Every bucket of every page is as likely, so every item is; a page that has fewer
        // buckets than the largest answers some of the picks with nothing.
        let largest = match &self.pages[..] {
            [page] => page.items.num_buckets(),
            _ => PAGE_ITEMS_MAX * 8 / 7,
        };
        for _ in 0..RANDOM_TRIES {
            let page = &self.pages[rng.usize(..self.pages.len())];
            let buckets = page.items.num_buckets();
            let bucket = rng.usize(..largest.max(1));
            if bucket < buckets
                && let Some(item) = page.items.get_bucket(bucket)
            {
                return Some(item);
            }
        }
        let from = rng.usize(..self.pages.len());
        let (before, after) = self.pages.split_at(from);
        after.iter().chain(before).find_map(|page| page.items.iter().next())
    }

    /// The hash that a scan goes on from which has this cursor.
    pub(crate) const fn hash_of_cursor(cursor: u64) -> u64 {
        cursor << CURSOR_SHIFT
    }

    /// The cursor of a scan that goes on from this hash, to the grain of cursors.
    pub(crate) const fn cursor_of_hash(hash: u64) -> u64 {
        hash >> CURSOR_SHIFT
    }

    /// Visits the items of one page, from `cursor` on (0 to begin), and returns the cursor to go
    /// on from (0 at the end). A page has at most 448 items.
    pub(crate) fn scan<'a>(
        &'a self,
        hasher: KeyHasher,
        cursor: u64,
        mut visit: impl FnMut(&'a T),
    ) -> u64 {
        let from = Self::hash_of_cursor(cursor);
        let page = &self.pages[self.page_index(from)];
        for item in &page.items {
            if page.start == from || hasher.hash(item.key()) >= from {
                visit(item);
            }
        }
        let end = if page.depth == 0 { 0 } else { page.start.wrapping_add(1 << (64 - page.depth)) };
        end >> CURSOR_SHIFT
    }

    /// The items of the page that has the hash `from`, also those before it.
    pub(crate) fn page_items(&self, from: u64) -> impl Iterator<Item = &T> {
        self.pages[self.page_index(from)].items.iter()
    }

    /// As [`Table::page_items`], to be changed; their keys must stay.
    pub(crate) fn page_items_mut(&mut self, from: u64) -> impl Iterator<Item = &mut T> {
        let page = self.page_index(from);
        self.pages[page].items.iter_mut()
    }

    /// The hash at which the page begins that has the hash `from`.
    pub(crate) fn page_start(&self, from: u64) -> u64 {
        self.pages[self.page_index(from)].start
    }

    /// The hash at which the next page begins; `None` behind the last.
    pub(crate) fn page_end(&self, from: u64) -> Option<u64> {
        let page = &self.pages[self.page_index(from)];
        let bytes = 1u64.checked_shl(64 - page.depth)?;
        page.start.checked_add(bytes)
    }

    /// Takes the items out of a page for which `is_chosen` holds. Other pages may have other numbers
    /// then.
    pub(crate) fn take_from_page(
        &mut self,
        hasher: KeyHasher,
        page: usize,
        is_chosen: impl FnMut(&mut T) -> bool,
    ) -> Vec<T> {
        let Some(Page { items, .. }) = self.pages.get_mut(page) else { return Vec::new() };
        let taken: Vec<T> = items.extract_if(is_chosen).collect();
        if taken.is_empty() {
            return taken;
        }
        self.len -= taken.len();
        if items.len() < items.capacity() / 4 {
            items.shrink_to(items.len() * 2, |item| within_page(hasher.hash(item.key())));
        }
        self.merge_if_small(hasher, page);
        taken
    }

    /// The items of one page, to be changed; their keys must stay. `None` when there are fewer
    /// pages. As long as nothing is added or removed, pages and their items keep their order.
    pub(crate) fn page_mut(&mut self, page: usize) -> Option<impl Iterator<Item = &mut T>> {
        Some(self.pages.get_mut(page)?.items.iter_mut())
    }

    /// All items, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.items.iter())
    }

    /// Takes the table apart item by item, for freeing it in slices.
    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        self.pages.into_iter().flat_map(|page| page.items)
    }

    /// The bytes that the table itself takes, without what its items point to.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let items: usize = self.pages.iter().map(|page| page.items.allocation_size()).sum();
        items
            + self.pages.capacity() * size_of::<Page<T>>()
            + self.directory.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    struct Item(Vec<u8>, u32);

    impl Keyed for Item {
        fn key(&self) -> &[u8] {
            &self.0
        }
    }

    impl<T: Keyed> Table<T> {
        fn check(&self, hasher: KeyHasher) {
            assert_eq!(self.directory.len(), 1 << self.depth);
            for (index, &page) in self.directory.iter().enumerate() {
                let page = &self.pages[page as usize];
                let prefix = (index as u64).checked_shl(64 - self.depth).unwrap_or(0);
                let mask = u64::MAX.checked_shl(64 - page.depth).unwrap_or(0);
                assert_eq!(prefix & mask, page.start);
                for item in &page.items {
                    assert_eq!(hasher.hash(item.key()) & mask, page.start);
                }
            }
            let deepest = self.pages.iter().filter(|page| page.depth == self.depth).count();
            assert_eq!(self.deepest, deepest);
            assert_eq!(self.len, self.iter().count());
        }
    }

    fn key(number: u16) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in prop::collection::vec((0u16..3000, any::<bool>()), 0..6000)) {
            let hasher = KeyHasher::new([7; 16]);
            let (mut table, mut model) = (Table::new(), BTreeMap::new());
            for (at, (number, insert)) in ops.iter().enumerate() {
                let (name, at) = (key(*number), u32::try_from(at).unwrap());
                let hash = hasher.hash(&name);
                if *insert {
                    match table.find_mut(hash, &name) {
                        Some(Item(_, value)) => *value = at,
                        None => {
                            table.insert(hasher, hash, Item(name.clone(), at));
                        }
                    }
                    model.insert(name, at);
                } else {
                    let removed = table.remove(hasher, hash, &name).map(|item| item.1);
                    prop_assert_eq!(removed, model.remove(&name));
                }
            }
            table.check(hasher);
            let all: BTreeMap<_, _> = table.iter().map(|i| (i.0.clone(), i.1)).collect();
            prop_assert_eq!(all, model);
        }

        #[test]
        fn a_scan_returns_all_that_stays(seed: u64, stay in 1u16..2000, churn in 0u16..3000) {
            let hasher = KeyHasher::new([9; 16]);
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut table = Table::new();
            for number in 0..stay {
                let name = key(number);
                table.insert(hasher, hasher.hash(&name), Item(name, 0));
            }
            let (mut seen, mut cursor) = (BTreeSet::new(), 0);
            loop {
                cursor = table.scan(hasher, cursor, |item| {
                    seen.insert(item.0.clone());
                });
                if cursor == 0 {
                    break;
                }
                for _ in 0..100 {
                    let name = key(stay + rng.u16(..=churn));
                    let hash = hasher.hash(&name);
                    if table.remove(hasher, hash, &name).is_none() {
                        table.insert(hasher, hash, Item(name, 0));
                    }
                }
            }
            prop_assert!((0..stay).all(|number| seen.contains(&key(number))));
        }
    }

    #[test]
    fn grows_and_shrinks_back_to_one_page_and_picks_evenly() {
        let hasher = KeyHasher::new([1; 16]);
        let mut table = Table::new();
        for number in 0..20_000 {
            let name = key(number);
            table.insert(hasher, hasher.hash(&name), Item(name, 0));
        }
        table.check(hasher);
        assert!(table.pages.len() > 40);
        for number in 10..20_000 {
            let name = key(number);
            assert!(table.remove(hasher, hasher.hash(&name), &name).is_some());
        }
        table.check(hasher);
        assert!(table.pages.len() < 8, "{} pages for ten items", table.pages.len());
        let mut rng = fastrand::Rng::with_seed(5);
        let mut picks = BTreeMap::new();
        for _ in 0..10_000 {
            let name = table.random(&mut rng).map(|item| item.0.clone());
            *picks.entry(name).or_insert(0) += 1;
        }
        assert_eq!(picks.len(), 10);
        assert!(picks.values().all(|&count| count > 800 && count < 1200), "{picks:?}");
    }
}
