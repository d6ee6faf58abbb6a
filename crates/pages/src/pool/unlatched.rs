//! Reads and writes of pages without the latch, concurrently with other threads.
//!
//! ```text
//!   under the latch        without it                        under the latch
//!   begin_read     ─► image in storage read, redo    ─► finish_read    the rest, and into a frame
//!   begin_write    ─► redo, sealed, written          ─► finish_write   its records are dropped
//! ```
//!
//! Invariants: a page that is being read is not written, so no image changes during a read. Only
//! one thread writes a page, the one that takes a step of the checkpoint; records that are added
//! meanwhile come after the written ones and are kept.

use std::sync::{Arc, Mutex, MutexGuard};

use super::{Pfat, Pool};
use crate::data_file::DataFile;
use crate::error::Result;
use crate::online_log::PageLog;
use crate::page::Page;
use crate::position::PageId;
use crate::redo::{Image, redo};

/// Unused images kept for reuse, at most.
const SPARE_IMAGES: usize = 64;

/// The reads in progress without the latch.
#[derive(Default)]
pub(super) struct Reads(Mutex<ReadsState>);

#[derive(Default)]
struct ReadsState {
    /// Pages being read.
    pages: Vec<PageId>,
    /// Images for reuse.
    spare: Vec<Page>,
}

impl Reads {
    fn lock(&self) -> MutexGuard<'_, ReadsState> {
        self.0.lock().expect("nothing panics while it holds them")
    }

    fn spare(&self) -> Page {
        self.lock().spare.pop().unwrap_or_else(Page::blank)
    }

    fn keep(&self, image: Page) {
        let mut reads = self.lock();
        if reads.spare.len() < SPARE_IMAGES {
            reads.spare.push(image);
        }
    }
}

/// A wanted page that is in no frame.
pub(crate) struct PageRead {
    data: Arc<DataFile>,
    id: PageId,
    /// The slot of its image, and the records to apply.
    slot: bool,
    log: PageLog,
    image: Page,
    has_read: bool,
}

impl PageRead {
    /// Builds the page; false if that failed.
    pub(crate) fn read(&mut self) -> bool {
        let Self { data, id, slot, log, image, .. } = self;
        let read = redo(data, *id, Image::InSlot(*slot), log, log.len(), image);
        self.has_read = read.as_ref().is_ok_and(|has_read| *has_read);
        read.is_ok()
    }
}

/// A page being written with its first records, which are durable.
pub(crate) struct PageWrite {
    data: Arc<DataFile>,
    id: PageId,
    record_count: usize,
    /// The slot of its image and the records to apply. `None` if the image is copied from a frame.
    source: Option<(bool, PageLog)>,
    image: Page,
    /// The slot that recovery does not read.
    slot: bool,
    has_read: bool,
}

impl PageWrite {
    /// Builds the image and writes it.
    pub(crate) fn write(&mut self) -> Result<()> {
        if let Some((slot, log)) = &self.source {
            let image = Image::InSlot(*slot);
            self.has_read = redo(&self.data, self.id, image, log, log.len(), &mut self.image)?;
        }
        self.image.seal();
        self.data.write_page(self.id, self.slot, &self.image)
    }
}

impl Pool {
    /// Begins a read, without the latch, of a page that is in no frame. The caller holds the latch
    /// at least shared.
    pub(crate) fn begin_read(&self, id: PageId) -> PageRead {
        let log = self.table.log(id);
        let (slot, log) = (self.latest.get(id), log.first(log.len()));
        let image = self.reads.spare();
        self.reads.lock().pages.push(id);
        PageRead { data: Arc::clone(&self.data), id, slot, log, image, has_read: false }
    }

    /// Puts a page that was read into a frame, unless it is in one by now. Returns that frame.
    pub(crate) fn finish_read(&mut self, read: PageRead, is_read: bool) -> Result<Option<usize>> {
        let PageRead { id, slot, mut image, has_read, .. } = read;
        let mut reads = self.reads.lock();
        let at = reads.pages.iter().position(|other| *other == id);
        reads.pages.swap_remove(at.expect("begin_read has put it there"));
        drop(reads);
        self.stats.page_reads += u64::from(has_read);
        let mut found = self.frame_of(id);
        if is_read && found.is_none() {
            let is_dirty = self.has_records(id);
            let frame = self.free_frame()?;
            // The records added since the read began.
            let log = self.table.log(id);
            self.stats.redos += u64::from(log.len() > 0);
            let redone = redo(&self.data, id, Image::Loaded(slot), log, log.len(), &mut image);
            if let Err(error) = redone {
                self.unused.push(frame);
                return Err(error);
            }
            std::mem::swap(&mut self.frames[frame].image, &mut image);
            self.enter(frame, id, is_dirty);
            found = Some(frame);
        }
        self.reads.keep(image);
        Ok(found)
    }

    /// Whether an image of the page may be written now.
    pub(crate) fn is_writable(&self, id: PageId) -> bool {
        !self.being_written.contains(&id) && !self.reads.lock().pages.contains(&id)
    }

    /// Begins a write of the page with its first `committed` runs, which are durable (Algorithm 1,
    /// lines 9 to 17).
    pub(crate) fn begin_write(&mut self, id: PageId, committed: usize) -> PageWrite {
        assert!(self.is_slot_free(id), "a checkpoint needs both slots of page {id}");
        let mut image = self.reads.spare();
        let log = self.table.log(id);
        let source = match self.pfat.get(&id) {
            Some(Pfat::InFrame { frame, .. }) if committed == log.len() => {
                image.bytes_mut().copy_from_slice(self.frames[*frame].image.bytes());
                None
            }
            _ => Some((self.latest.get(id), log.first(committed))),
        };
        let slot = !self.stable.get(id);
        self.being_written.push(id);
        let data = Arc::clone(&self.data);
        PageWrite { data, id, record_count: committed, source, image, slot, has_read: false }
    }

    /// Ends a write, whether it succeeded or failed.
    pub(crate) fn finish_write(&mut self, write: PageWrite, is_written: bool) {
        let PageWrite { id, record_count, image, slot, has_read, .. } = write;
        self.being_written.retain(|other| *other != id);
        self.stats.page_reads += u64::from(has_read);
        if !is_written {
            self.has_failed = true;
            return;
        }
        assert!(
            image.log_offset() < self.log.durable_end(),
            "no-steal: page {id} has pending changes"
        );
        self.reads.keep(image);
        self.has_unsynced_pages = true;
        self.latest.set(id, slot);
        self.stats.page_writes += 1;
        self.table.remove_first(id, record_count);
        if let Some(Pfat::InFrame { frame, .. }) = self.pfat.get(&id) {
            let is_dirty = self.table.has(id);
            self.pfat.insert(id, Pfat::InFrame { frame: *frame, is_dirty });
        } else {
            self.mark_in_storage(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::look::{LastFrame, Look};
    use crate::{Durability, Env, LockWait, Options, PageStore, Upkeep};
    use env_sim::{Faults, SimClock, SimDisk};

    const KEYS: u32 = 2000;

    /// A store with far more data than its pool holds.
    fn store() -> PageStore {
        let env = Env {
            disk: Arc::new(SimDisk::new(1, Faults::default())),
            clock: Arc::new(SimClock::new(0)),
        };
        let options = Options {
            pool_bytes: 16 * 8192,
            lock_wait: LockWait::Refuse,
            upkeep: Upkeep::Inline,
            ..Options::new(PathBuf::from("/store"))
        };
        let store = PageStore::open(&env, options).expect("no faults");
        (0..KEYS).for_each(|key| put(&store, key, b"old"));
        store.checkpoint_all().expect("no faults");
        store
    }

    fn put(store: &PageStore, key: u32, value: &[u8]) {
        let transaction = store.begin().expect("healthy");
        let value = [value, &[0; 400]].concat();
        transaction.table("t").insert(key.to_be_bytes(), value).expect("there is one writer");
        transaction.commit(Durability::Immediate).expect("no faults");
    }

    /// Returns the first bytes of a value. Runs `meanwhile` while a page with records is read
    /// without the latch.
    fn get(store: &PageStore, key: u32, meanwhile: impl Fn()) -> Vec<u8> {
        let key = key.to_be_bytes();
        let mut is_done = false;
        loop {
            let core = store.inner.share();
            let last = LastFrame::default();
            let mut look = Look::shared(&core, &last);
            let root = look.root(b"t").map(|root| root.expect("it was made"));
            let got = root.and_then(|root| look.tree_get(root, &key));
            let Some(wanted) = look.wanted() else {
                assert!(is_done, "the page is in no frame and has records");
                return got.expect("no faults").expect("it is there")[..3].to_vec();
            };
            let mut read = core.pool.begin_read(wanted);
            let has_records = core.pool.table.log(wanted).len() > 0;
            drop(look);
            drop(core);
            assert!(read.read());
            if has_records {
                meanwhile();
                is_done = true;
            }
            store.inner.latch().pool.finish_read(read, true).expect("no faults");
        }
    }

    /// Uses enough pages to evict every page except roots.
    fn evict_all(store: &PageStore) {
        for key in (KEYS / 2..KEYS).rev() {
            let reader = store.begin_read().expect("healthy");
            reader.table("t").get(key.to_be_bytes()).expect("no faults");
        }
    }

    #[test]
    fn a_page_that_changes_and_that_a_checkpoint_passes_while_it_is_read_loses_nothing() {
        let store = store();
        put(&store, 0, b"new");
        evict_all(&store);
        let value = get(&store, 0, || {
            put(&store, 0, b"now");
            evict_all(&store);
            store.checkpoint_all().expect("no faults");
        });
        assert_eq!(value, b"now");
        store.check().expect("sound");
    }
}
