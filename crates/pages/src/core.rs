//! Everything below the latch: the pool, the trees, and the path of changes to both and to the log.
//!
//! A [`Change`] is the group of redo records of one committing transaction. While it is being
//! built, its records are in the online log table and its frames show them. If that fails (a page
//! cannot be read), both are dropped, as section 3.3 of the paper drops an aborted transaction. If
//! it succeeds, the group goes into the log buffer as a whole, before any reader can see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use base::varint;
use hashbrown::HashMap;

use crate::data_file::Master;
use crate::error::Result;
use crate::leaf_hints::LeafHints;
use crate::log_page::{GroupKind, put_record};
use crate::options::{Options, Stats};
use crate::page::{BODY_BYTES, Cell, Kind, Meta, Place};
use crate::pool::Pool;
use crate::position::{LogOffset, PageId};
use crate::redo_record::{Op, put_runs};
use crate::shared_log::SharedLog;
use crate::split::InsertRuns;

/// A value shorter than this is logged whole.
const PATCH_BYTES_MIN: usize = 16;

/// The state that the latch protects.
pub(crate) struct Core {
    pub(crate) pool: Pool,
    pub(crate) log: Arc<SharedLog>,
    /// The roots of tables looked up so far.
    roots: Mutex<HashMap<Vec<u8>, PageId>>,
    pub(crate) leaf_hints: LeafHints,
    pub(crate) insert_runs: InsertRuns,
    pub(crate) master: Master,
    pub(crate) checkpoint: Option<crate::checkpoint::Checkpoint>,
    /// How much harder checkpoints must try because the last ones freed too little.
    pub(crate) pressure: u32,
    /// Whether the checkpoint that ends a restart is still to begin.
    pub(crate) is_restarting: bool,
    /// The redo starting point of the last checkpoint.
    pub(crate) redo_start: LogOffset,
    /// Whether deleted tables may have pages left to free.
    pub(crate) has_deleted_tables: bool,
    /// The record being encoded.
    scratch: Vec<u8>,
    /// The runs of the patch being built.
    runs: Vec<u8>,
    pub(crate) options: Options,
}

/// The group of records being built.
pub(crate) struct Change {
    offset: LogOffset,
    body: Vec<u8>,
    touched: BTreeSet<PageId>,
    /// Tables created by this group.
    new_roots: Vec<(Vec<u8>, PageId)>,
}

impl Core {
    pub(crate) fn new(pool: Pool, master: Master, redo_start: LogOffset, options: Options) -> Self {
        Self {
            log: Arc::clone(&pool.log),
            pool,
            roots: Mutex::default(),
            leaf_hints: LeafHints::default(),
            insert_runs: InsertRuns::default(),
            master,
            checkpoint: None,
            pressure: 0,
            is_restarting: true,
            redo_start,
            has_deleted_tables: true,
            scratch: Vec::new(),
            runs: Vec::new(),
            options,
        }
    }

    pub(crate) fn stats(&mut self) -> Stats {
        self.pool.settle_all();
        let mut stats = self.pool.stats();
        let log = self.log.lock();
        (stats.log_flushes, stats.log_page_writes) = (log.flushes, log.page_writes);
        drop(log);
        stats.online_log_bytes = self.pool.table.bytes() as u64;
        stats.dirty_pages = self.pool.table.page_count() as u64;
        if let Ok(meta) = self.meta() {
            stats.pages = meta.page_count;
            stats.free_pages = meta.free_count;
        }
        stats
    }

    /// Begins a group.
    pub(crate) fn begin_change(&self, transaction: u64) -> Change {
        let mut body = Vec::new();
        varint::put(&mut body, transaction);
        Change {
            offset: self.log.open_group(),
            body,
            touched: BTreeSet::new(),
            new_roots: Vec::new(),
        }
    }

    /// Appends the group to the log buffer, or drops all of it if building it failed.
    pub(crate) fn end_change(&mut self, change: Change, made: Result<()>) -> Result<LogOffset> {
        if let Err(error) = made {
            self.pool.drop_changes(&change.touched, change.offset);
            self.log.drop_group();
            let failed = Err(error);
            return if self.pool.has_failed { self.log.poison_by(failed) } else { failed };
        }
        self.roots().extend(change.new_roots);
        let offset = self.log.append(GroupKind::Commit, &change.body);
        assert_eq!(offset, change.offset, "nothing is logged while a group is made");
        Ok(offset)
    }

    /// Changes one page as part of a group.
    pub(crate) fn change_page(
        &mut self,
        change: &mut Change,
        id: PageId,
        op: &Op<'_>,
    ) -> Result<()> {
        self.scratch.clear();
        op.encode(&mut self.scratch);
        self.change_page_as_encoded(change, id, op, None)
    }

    fn change_page_as_encoded(
        &mut self,
        change: &mut Change,
        id: PageId,
        op: &Op<'_>,
        place: Option<Place>,
    ) -> Result<()> {
        change.touched.insert(id);
        self.pool.change(id, change.offset, op, place, &self.scratch)?;
        put_record(&mut change.body, id, &self.scratch);
        Ok(())
    }

    /// Puts a cell on a page, at the place that a search has found. A value that differs little
    /// from the old one is logged as a patch: the smaller a record, the more changes of a page
    /// share one write of it.
    pub(crate) fn put_cell(
        &mut self,
        change: &mut Change,
        id: PageId,
        place: Place,
        cell: Cell<'_>,
    ) -> Result<()> {
        self.scratch.clear();
        if let Ok(i) = place
            && !cell.is_overflow
            && cell.value.len() >= PATCH_BYTES_MIN
        {
            let old = self.pool.page(id)?.cell(i);
            if !old.is_overflow && old.value.len() == cell.value.len() {
                self.runs.clear();
                put_runs(&mut self.runs, old.value, cell.value);
                if self.runs.len() < cell.value.len() {
                    Op::Patch { key: cell.key, runs: &self.runs }.encode(&mut self.scratch);
                }
            }
        }
        let op = Op::Put(cell);
        if self.scratch.is_empty() {
            op.encode(&mut self.scratch);
        }
        self.change_page_as_encoded(change, id, &op, Some(place))
    }

    /// Removes the cell at the place that a search has found.
    pub(crate) fn remove_cell(
        &mut self,
        change: &mut Change,
        id: PageId,
        place: Place,
        key: &[u8],
    ) -> Result<()> {
        let op = Op::Remove { key };
        self.scratch.clear();
        op.encode(&mut self.scratch);
        self.change_page_as_encoded(change, id, &op, Some(place))
    }

    /// The first group of a new store: page 0, and an empty catalog.
    pub(crate) fn bootstrap(&mut self) -> Result<LogOffset> {
        let mut change = self.begin_change(0);
        let meta = Meta { page_count: 2, free_head: 0, free_count: 0 };
        let made = self.change_page(&mut change, PageId::META, &Op::Meta(meta)).and_then(|()| {
            let op = Op::Format { kind: Kind::Leaf, level: 0, cells: &[] };
            self.change_page(&mut change, PageId::CATALOG, &op)
        });
        self.end_change(change, made)
    }

    pub(crate) fn meta(&mut self) -> Result<Meta> {
        self.look().meta()
    }

    /// Allocates a page: a free one, or a new one at the end. Its contents are undefined; the
    /// caller must write all of them.
    pub(crate) fn allocate(&mut self, change: &mut Change) -> Result<PageId> {
        let mut meta = self.meta()?;
        let id = if meta.free_head == 0 {
            meta.page_count += 1;
            PageId(meta.page_count - 1)
        } else {
            let id = PageId(meta.free_head);
            let page = self.pool.page(id)?;
            if page.kind() != Some(Kind::Free) {
                return Err(self.corrupt_page(id, "a page in the list of free pages is not free"));
            }
            meta.free_head = page.next();
            meta.free_count = meta.free_count.saturating_sub(1);
            id
        };
        self.change_page(change, PageId::META, &Op::Meta(meta))?;
        Ok(id)
    }

    /// Frees a page.
    pub(crate) fn free(&mut self, change: &mut Change, id: PageId) -> Result<()> {
        let meta = self.meta()?;
        self.change_page(change, id, &Op::Free { next: meta.free_head })?;
        let meta = Meta { free_head: id.0, free_count: meta.free_count + 1, ..meta };
        self.change_page(change, PageId::META, &Op::Meta(meta))
    }

    /// Writes a large value into overflow pages. Returns the contents of its cell: the first page
    /// and the length.
    pub(crate) fn write_overflow(&mut self, change: &mut Change, value: &[u8]) -> Result<[u8; 16]> {
        let mut next = 0;
        // Back to front, so that each page can name its successor.
        for part in value.chunks(BODY_BYTES).rev() {
            let id = self.allocate(change)?;
            self.change_page(change, id, &Op::Overflow { next, part })?;
            next = id.0;
        }
        let mut address = [0; 16];
        address[..8].copy_from_slice(&next.to_le_bytes());
        address[8..].copy_from_slice(&(value.len() as u64).to_le_bytes());
        Ok(address)
    }

    pub(crate) fn free_overflow(
        &mut self,
        change: &mut Change,
        owner: PageId,
        address: &[u8],
    ) -> Result<()> {
        let mut pages = Vec::new();
        self.look().visit_overflow(owner, address, |id, _| pages.push(id))?;
        pages.into_iter().try_for_each(|id| self.free(change, id))
    }

    fn roots(&self) -> MutexGuard<'_, HashMap<Vec<u8>, PageId>> {
        self.roots.lock().expect("nothing panics while it holds the roots")
    }

    /// The root of a table if it was looked up before.
    pub(crate) fn known_root(&self, table: &[u8]) -> Option<PageId> {
        self.roots().get(table).copied()
    }

    /// Remembers the root of a table.
    pub(crate) fn know_root(&self, table: &[u8], root: PageId) {
        self.roots().insert(table.to_vec(), root);
    }

    /// Forgets the root of a table that is being deleted. If the deletion fails, the root is looked
    /// up again.
    pub(crate) fn forget_root(&self, table: &[u8]) {
        self.roots().remove(table);
    }

    /// Parses the root page from a catalog value.
    pub(crate) fn parse_root(&self, value: &[u8]) -> Result<PageId> {
        match <[u8; 8]>::try_from(value) {
            Ok(bytes) => Ok(PageId(u64::from_le_bytes(bytes))),
            Err(_) => {
                Err(self.corrupt_page(PageId::CATALOG, "the catalog has an entry that is none"))
            }
        }
    }

    /// Returns the root of a table, creating it if there is none.
    pub(crate) fn root_for_writing(&mut self, change: &mut Change, table: &[u8]) -> Result<PageId> {
        if let Some(root) = self.look().root(table)? {
            return Ok(root);
        }
        let root = self.allocate(change)?;
        let op = Op::Format { kind: Kind::Leaf, level: 0, cells: &[] };
        self.change_page(change, root, &op)?;
        self.tree_put(change, PageId::CATALOG, table, &root.0.to_le_bytes())?;
        change.new_roots.push((table.to_vec(), root));
        Ok(root)
    }
}
