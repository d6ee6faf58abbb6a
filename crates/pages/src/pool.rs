//! The buffer pool: frames, the PFAT, flushing-less eviction and on-the-fly redo (section 3.1).
//!
//! ```text
//!   PFAT   page ─► InFrame(frame, dirty) ─► frames          online log table
//!          page ─► EvictedDirty ───────────────────────────► records of the page
//!          absent: clean, in storage only
//!
//!   a victim: clean   ─► dropped
//!             dirty   ─► dropped, EvictedDirty             (never written)
//!   a page wanted: EvictedDirty ─► image in storage, if its records need one, + its records
//! ```
//!
//! Invariants: a page is dirty in the PFAT exactly when it has records in the table. After a
//! restart a page is settled ([`crate::unsettled`]) before it is in a frame. A frame equals, byte
//! for byte, the result of on-the-fly redo. An image is written to storage only with records whose
//! groups are durable (*no-steal*), so nothing ever needs undo. No frame is referenced across a
//! call that may evict: callers name pages, not frames. A frame has a page exactly when it is not
//! in `unused`, and exactly then the replacement knows it.

mod unlatched;

pub(crate) use unlatched::PageWrite;
use unlatched::Reads;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::data_file::{DataFile, Slots};
use crate::error::{Error, Result};
use crate::online_log::OnlineLog;
use crate::options::Stats;
use crate::page::{PAGE_BYTES, Page, Place};
use crate::position::{LogOffset, PageId};
use crate::redo::{Image, redo};
use crate::redo_record::Op;
use crate::replacement::Replacement;
use crate::shared_log::SharedLog;
use crate::unsettled::Unsettled;

/// An entry of the page/frame addressing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pfat {
    /// The page is in a frame; dirty if storage has an older image.
    InFrame { frame: usize, is_dirty: bool },
    /// The paper's (−1, dirty): evicted without flushing.
    EvictedDirty,
}

struct Frame {
    page: Option<PageId>,
    image: Page,
}

/// The frame uses of one reader.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    /// The frame used last; using it again does not count as another use.
    pub(crate) last: usize,
    /// The number of pages found in a frame.
    pub(crate) hits: u64,
}

/// Frames, PFAT, online log table, and the storage beneath them.
pub(crate) struct Pool {
    frames: Vec<Frame>,
    frame_count_max: usize,
    unused: Vec<usize>,
    replacement: Replacement,
    /// The uses of the current or last holder of the exclusive latch.
    uses: Uses,
    /// [`Pool::shape`], shared by all pages whose numbers have the same remainder.
    shapes: Vec<u64>,
    pfat: HashMap<PageId, Pfat>,
    pub(crate) table: OnlineLog,
    /// Records that are not yet with their pages, after a restart.
    pub(crate) unsettled: Unsettled,
    pub(crate) data: Arc<DataFile>,
    /// The slots that recovery would read.
    stable: Slots,
    /// The slots that recovery will read once the checkpoint that is about to end is durable.
    frozen: Option<Slots>,
    /// The slots with the newest images.
    latest: Slots,
    /// The log; it knows what is durable.
    pub(crate) log: Arc<SharedLog>,
    flush_on_eviction: bool,
    pub(crate) has_unsynced_pages: bool,
    /// Pages that a checkpoint is writing without the latch.
    being_written: Vec<PageId>,
    reads: Reads,
    /// Whether a page write has failed, so that the store must be poisoned.
    pub(crate) has_failed: bool,
    pub(crate) stats: Stats,
}

/// The number of distinct shapes.
const SHAPES: usize = 4096;

#[expect(clippy::cast_possible_truncation, reason = "any bits of a number of a page will do")]
fn shape_slot(id: PageId) -> usize {
    id.0 as usize % SHAPES
}

impl Pool {
    pub(crate) fn new(
        data: DataFile,
        pool_bytes: usize,
        flush_on_eviction: bool,
        slots: Slots,
        log: Arc<SharedLog>,
    ) -> Self {
        let frame_count_max = (pool_bytes / PAGE_BYTES).max(16);
        Self {
            frames: Vec::new(),
            frame_count_max,
            unused: Vec::new(),
            replacement: Replacement::new(frame_count_max),
            uses: Uses::default(),
            shapes: vec![0; SHAPES],
            pfat: HashMap::new(),
            table: OnlineLog::default(),
            unsettled: Unsettled::default(),
            data: Arc::new(data),
            stable: slots.clone(),
            frozen: None,
            latest: slots,
            log,
            flush_on_eviction,
            has_unsynced_pages: false,
            being_written: Vec::new(),
            reads: Reads::default(),
            has_failed: false,
            stats: Stats::default(),
        }
    }

    /// The current contents of a page.
    pub(crate) fn page(&mut self, id: PageId) -> Result<&Page> {
        let frame = self.fetch(id)?;
        Ok(&self.frames[frame].image)
    }

    /// The current contents of a page if it is in a frame; for the holder of the exclusive latch.
    pub(crate) fn own_page_in_frame(&mut self, id: PageId) -> Option<&Page> {
        let frame = self.find_own(id)?;
        Some(&self.frames[frame].image)
    }

    /// The current contents of a page if it is in a frame.
    pub(crate) fn page_in_frame(&self, id: PageId, uses: &mut Uses) -> Option<&Page> {
        let frame = self.find(id, uses)?;
        Some(&self.frames[frame].image)
    }

    /// `page_hits` counts only those under the exclusive latch.
    pub(crate) fn stats(&self) -> Stats {
        Stats { page_hits: self.uses.hits, ..self.stats }
    }

    /// # Errors
    /// [`crate::FileError::Corrupt`] if no store can have such a page.
    pub(crate) fn check_id(&self, id: PageId) -> Result<()> {
        if id >= PageId::END {
            let what = format!("something points to page {id}, which no store has");
            return Err(Error::corrupt(self.data.path(), 0, what));
        }
        Ok(())
    }

    /// A number that changes at least whenever the range of keys that the page may hold changes.
    pub(crate) fn shape(&self, id: PageId) -> u64 {
        self.shapes[shape_slot(id)]
    }

    /// Changes a page: adds its record to the table and applies it to the frame. The record is
    /// pending until the log is durable past `offset`. `place` as for [`Op::apply`].
    pub(crate) fn change(
        &mut self,
        id: PageId,
        offset: LogOffset,
        op: &Op<'_>,
        place: Option<Place>,
        bytes: &[u8],
    ) -> Result<()> {
        let frame = if op.is_whole() { self.frame_for_whole(id)? } else { self.fetch(id)? };
        if !matches!(op, Op::Put(_) | Op::Patch { .. } | Op::Remove { .. } | Op::Meta(_)) {
            self.shapes[shape_slot(id)] += 1;
        }
        let path = self.data.path();
        op.apply(&mut self.frames[frame].image, id, offset, place)
            .map_err(|what| Error::corrupt(path, DataFile::offset(id, false), what))?;
        if self.table.add(id, offset, bytes) {
            self.pfat.insert(id, Pfat::InFrame { frame, is_dirty: true });
        }
        Ok(())
    }

    /// Takes back the changes of a failed group (section 3.3). It drops the frames; on-the-fly redo
    /// restores the previous contents.
    pub(crate) fn drop_changes(&mut self, pages: &BTreeSet<PageId>, offset: LogOffset) {
        for id in pages {
            self.shapes[shape_slot(*id)] += 1;
            self.drop_frame(*id);
            self.table.remove_from(*id, offset);
            self.mark_in_storage(*id);
        }
    }

    /// Sets the PFAT entry of a page that is in no frame.
    fn mark_in_storage(&mut self, id: PageId) {
        if !self.table.has(id) {
            self.pfat.remove(&id);
        } else {
            self.pfat.insert(id, Pfat::EvictedDirty);
        }
    }

    fn drop_frame(&mut self, id: PageId) {
        if let Some(frame) = self.frame_of(id) {
            self.frames[frame].page = None;
            self.replacement.dropped(frame);
            self.unused.push(frame);
        }
    }

    /// Puts a page into an empty frame.
    fn enter(&mut self, frame: usize, id: PageId, is_dirty: bool) {
        self.frames[frame].page = Some(id);
        self.replacement.entered(frame, id);
        self.pfat.insert(id, Pfat::InFrame { frame, is_dirty });
    }

    /// The bytes of all records.
    pub(crate) fn record_bytes(&self) -> usize {
        self.table.bytes() + self.unsettled.bytes()
    }

    /// Whether a page has records; settles the page.
    pub(crate) fn has_records(&mut self, id: PageId) -> bool {
        let dirty = self.unsettled.settle(id, &mut self.table);
        self.mark_evicted(&dirty);
        self.table.has(id)
    }

    /// Settles some pages after a restart. Returns false if none are left.
    pub(crate) fn settle_next(&mut self) -> bool {
        let dirty = self.unsettled.settle_next(&mut self.table);
        self.mark_evicted(dirty.as_deref().unwrap_or_default());
        dirty.is_some()
    }

    /// Settles all pages.
    pub(crate) fn settle_all(&mut self) {
        while self.settle_next() {}
    }

    /// Algorithm 2, lines 16 and 17.
    fn mark_evicted(&mut self, dirty: &[PageId]) {
        self.pfat.extend(dirty.iter().map(|id| (*id, Pfat::EvictedDirty)));
    }

    /// The frame of a page, if any.
    fn find(&self, id: PageId, uses: &mut Uses) -> Option<usize> {
        if self.frames.get(uses.last).is_some_and(|frame| frame.page == Some(id)) {
            return Some(uses.last);
        }
        let frame = self.frame_of(id)?;
        *uses = Uses { last: frame, hits: uses.hits + 1 };
        self.replacement.used(frame);
        Some(frame)
    }

    fn frame_of(&self, id: PageId) -> Option<usize> {
        match self.pfat.get(&id) {
            Some(Pfat::InFrame { frame, .. }) => Some(*frame),
            _ => None,
        }
    }

    fn find_own(&mut self, id: PageId) -> Option<usize> {
        let mut uses = self.uses;
        let found = self.find(id, &mut uses);
        self.uses = uses;
        found
    }

    fn fetch(&mut self, id: PageId) -> Result<usize> {
        if let Some(frame) = self.find_own(id) {
            return Ok(frame);
        }
        let is_dirty = self.has_records(id);
        let frame = self.free_frame()?;
        let mut image = std::mem::take(&mut self.frames[frame].image);
        let read = self.read(id, &mut image);
        self.frames[frame].image = image;
        if let Err(error) = read {
            self.unused.push(frame);
            return Err(error);
        }
        self.enter(frame, id, is_dirty);
        self.uses.last = frame;
        Ok(frame)
    }

    /// Returns a frame for a page that will be replaced whole.
    fn frame_for_whole(&mut self, id: PageId) -> Result<usize> {
        if let Some(frame) = self.frame_of(id) {
            return Ok(frame);
        }
        self.has_records(id);
        let frame = self.free_frame()?;
        // The table may already know the page; the frame is new.
        self.enter(frame, id, true);
        Ok(frame)
    }

    /// Builds the current contents of a page anew.
    fn image(&mut self, id: PageId) -> Result<Page> {
        let mut page = Page::blank();
        self.read(id, &mut page)?;
        Ok(page)
    }

    /// On-the-fly redo: the image in storage and the records of the page.
    fn read(&mut self, id: PageId, page: &mut Page) -> Result<()> {
        self.check_id(id)?;
        let log = self.table.log(id);
        let image = Image::InSlot(self.latest.get(id));
        let has_read = redo(&self.data, id, image, log, log.len(), page)?;
        self.stats.page_reads += u64::from(has_read);
        self.stats.redos += u64::from(log.len() > 0);
        Ok(())
    }

    /// Returns an empty frame: a new one, or that of a victim.
    fn free_frame(&mut self) -> Result<usize> {
        if let Some(frame) = self.unused.pop() {
            return Ok(frame);
        }
        if self.frames.len() < self.frame_count_max {
            self.frames.push(Frame { page: None, image: Page::blank() });
            return Ok(self.frames.len() - 1);
        }
        let victim = self.replacement.victim();
        let id = self.frames[victim].page.expect("a frame without a page is in the unused list");
        if !self.flush_on_eviction || !self.flush(id, victim)? {
            self.drop_unflushed(id);
        }
        self.frames[victim].page = None;
        self.replacement.evicted(victim, id);
        Ok(victim)
    }

    /// Sets the PFAT entry of a page that leaves its frame without being written.
    fn drop_unflushed(&mut self, id: PageId) {
        let Entry::Occupied(mut entry) = self.pfat.entry(id) else {
            unreachable!("a page in a frame has an entry")
        };
        if matches!(entry.get(), Pfat::InFrame { is_dirty: true, .. }) {
            entry.insert(Pfat::EvictedDirty);
            self.stats.evictions_flushing_less += 1;
        } else {
            entry.remove();
            self.stats.evictions_clean += 1;
        }
    }

    /// Writes a page that leaves its frame, if it is dirty and writable. Returns whether it was
    /// written.
    fn flush(&mut self, id: PageId, frame: usize) -> Result<bool> {
        let log = self.table.log(id);
        let is_durable = log.last_offset().is_some_and(|last| last < self.log.durable_end());
        if !is_durable || !self.is_slot_free(id) || !self.is_writable(id) {
            return Ok(false);
        }
        let count = log.len();
        self.write_frame(id, frame)?;
        self.table.remove_first(id, count);
        self.pfat.remove(&id);
        self.stats.evictions_flushed += 1;
        Ok(true)
    }

    fn write_frame(&mut self, id: PageId, frame: usize) -> Result<()> {
        let mut image = std::mem::take(&mut self.frames[frame].image);
        let written = self.update_page(id, &mut image);
        self.frames[frame].image = image;
        written
    }

    /// Writes an image to the slot that recovery does not read.
    fn update_page(&mut self, id: PageId, image: &mut Page) -> Result<()> {
        assert!(
            image.log_offset() < self.log.durable_end(),
            "no-steal: page {id} has pending changes"
        );
        assert!(self.is_slot_free(id), "a checkpoint needs both slots of page {id}");
        image.seal();
        let slot = !self.stable.get(id);
        self.has_unsynced_pages = true;
        let written = self.data.write_page(id, slot, image);
        self.has_failed |= written.is_err();
        written?;
        self.latest.set(id, slot);
        self.stats.page_writes += 1;
        Ok(())
    }

    /// Freezes the slots after a checkpoint has written its pages. Its record names the newest
    /// images as of now. Until [`Pool::settle_slots`], neither these slots nor the stable ones may
    /// be overwritten.
    pub(crate) fn freeze_slots(&mut self) {
        self.frozen = Some(self.latest.clone());
    }

    pub(crate) fn frozen_slots(&self) -> &Slots {
        self.frozen.as_ref().unwrap_or(&self.stable)
    }

    /// Makes the frozen slots stable, after their checkpoint has become durable.
    pub(crate) fn settle_slots(&mut self) {
        self.stable = self.frozen.take().expect("it was frozen for the record");
    }

    /// Whether a page has a slot that no checkpoint needs.
    fn is_slot_free(&self, id: PageId) -> bool {
        self.frozen.as_ref().is_none_or(|frozen| frozen.get(id) == self.stable.get(id))
    }

    /// Proves the invariants stated at the top of this file.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.settle_all();
        let path = self.data.path().to_path_buf();
        let wrong = |id: PageId, what: &str| {
            Err(Error::corrupt(&path, DataFile::offset(id, false), format!("page {id}: {what}")))
        };
        for id in self.table.pages() {
            if !matches!(
                self.pfat.get(&id),
                Some(Pfat::EvictedDirty | Pfat::InFrame { is_dirty: true, .. })
            ) {
                return wrong(id, "it has records and is not dirty");
            }
        }
        for (frame, in_it) in self.frames.iter().enumerate() {
            assert_eq!(self.replacement.has(frame), in_it.page.is_some(), "frame {frame}");
        }
        let entries: Vec<(PageId, Pfat)> = self.pfat.iter().map(|(id, e)| (*id, *e)).collect();
        for (id, entry) in entries {
            let has_records = self.table.has(id);
            match entry {
                Pfat::EvictedDirty if !has_records => {
                    return wrong(id, "it was evicted dirty and has no records");
                }
                Pfat::EvictedDirty => {}
                Pfat::InFrame { is_dirty, .. } if is_dirty != has_records => {
                    return wrong(id, "it is dirty without records, or clean with them");
                }
                Pfat::InFrame { frame, .. } => {
                    let image = self.image(id)?;
                    if self.frames[frame].page != Some(id)
                        || image.bytes()[4..] != self.frames[frame].image.bytes()[4..]
                    {
                        return wrong(id, "on-the-fly redo makes another page than the frame has");
                    }
                }
            }
        }
        Ok(())
    }
}
