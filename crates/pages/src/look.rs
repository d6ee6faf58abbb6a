//! Looks at committed content, under the shared latch or the exclusive one.
//!
//! ```text
//!   shared      page in a frame ─► seen;   in none ─► wanted: the caller reads it, and looks again
//!   exclusive   page in a frame ─► seen;   in none ─► brought into one, others may be evicted
//! ```
//!
//! What a look changes (which frame was used, in which leaf a key was found) affects only speed and
//! needs no exclusive latch. `tree` searches trees.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::page::{BODY_BYTES, Kind, Meta, Page};
use crate::pool::Uses;
use crate::position::PageId;

/// The frame that a transaction used last, kept between looks, and its number of hits.
#[derive(Debug, Default)]
pub(crate) struct LastFrame {
    frame: AtomicUsize,
    hits: AtomicU64,
}

impl LastFrame {
    /// Sets the frame that is looked at next.
    pub(crate) fn set(&self, frame: usize) {
        self.frame.store(frame, Ordering::Relaxed);
    }

    /// Pages found in a frame.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

enum Latch<'a> {
    Shared { core: &'a Core, uses: Uses, last: &'a LastFrame },
    Exclusive(&'a mut Core),
}

/// A look at committed content.
pub(crate) struct Look<'a> {
    latch: Latch<'a>,
    wanted: Option<PageId>,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        if let Latch::Shared { uses, last, .. } = &self.latch {
            last.frame.store(uses.last, Ordering::Relaxed);
            last.hits.store(uses.hits, Ordering::Relaxed);
        }
    }
}

impl Core {
    /// A look by the holder of the exclusive latch.
    pub(crate) fn look(&mut self) -> Look<'_> {
        Look { latch: Latch::Exclusive(self), wanted: None }
    }
}

impl<'a> Look<'a> {
    /// A look by one of several concurrent readers.
    pub(crate) fn shared(core: &'a Core, last: &'a LastFrame) -> Self {
        let uses = Uses { last: last.frame.load(Ordering::Relaxed), hits: last.hits() };
        Self { latch: Latch::Shared { core, uses, last }, wanted: None }
    }

    /// The page that made the look fail because it was in no frame.
    pub(crate) fn wanted(&self) -> Option<PageId> {
        self.wanted
    }

    pub(crate) fn core(&self) -> &Core {
        match &self.latch {
            Latch::Shared { core, .. } => core,
            Latch::Exclusive(core) => core,
        }
    }

    /// The current contents of a page.
    pub(crate) fn page(&mut self, id: PageId) -> Result<&Page> {
        match &mut self.latch {
            Latch::Exclusive(core) => core.pool.page(id),
            Latch::Shared { core, uses, .. } => match core.pool.page_in_frame(id, uses) {
                Some(page) => Ok(page),
                None => {
                    core.pool.check_id(id)?;
                    self.wanted = Some(id);
                    Err(Error::Busy)
                }
            },
        }
    }

    /// The current contents of a page if it is in a frame.
    pub(crate) fn page_in_frame(&mut self, id: PageId) -> Option<&Page> {
        match &mut self.latch {
            Latch::Exclusive(core) => core.pool.own_page_in_frame(id),
            Latch::Shared { core, uses, .. } => core.pool.page_in_frame(id, uses),
        }
    }

    pub(crate) fn shape(&self, id: PageId) -> u64 {
        self.core().pool.shape(id)
    }

    pub(crate) fn corrupt_page(&self, id: PageId, what: &str) -> Error {
        self.core().corrupt_page(id, what)
    }

    /// The contents of page 0.
    pub(crate) fn meta(&mut self) -> Result<Meta> {
        let page = self.page(PageId::META)?;
        let (kind, meta) = (page.kind(), page.meta());
        let is_meta = kind == Some(Kind::Meta);
        if !is_meta || meta.page_count > PageId::END.0 || meta.free_count > meta.page_count {
            return Err(self.corrupt_page(PageId::META, "it is not the meta page"));
        }
        Ok(meta)
    }

    /// The root of a table; `None` if the table does not exist.
    pub(crate) fn root(&mut self, table: &[u8]) -> Result<Option<PageId>> {
        if let Some(root) = self.core().known_root(table) {
            return Ok(Some(root));
        }
        let Some(value) = self.tree_get(PageId::CATALOG, table)? else { return Ok(None) };
        let root = self.core().parse_root(&value)?;
        self.core().know_root(table, root);
        Ok(Some(root))
    }

    /// Visits the pages of a large value in order, each with its part of the value.
    pub(crate) fn visit_overflow(
        &mut self,
        owner: PageId,
        address: &[u8],
        mut visit: impl FnMut(PageId, &[u8]),
    ) -> Result<()> {
        let Ok(address) = <[u8; 16]>::try_from(address) else {
            return Err(self.corrupt_page(owner, "the address of a large value is none"));
        };
        let (first, len) = address.split_at(8);
        let mut next = u64::from_le_bytes(first.try_into().expect("eight bytes"));
        let mut left = u64::from_le_bytes(len.try_into().expect("eight bytes"));
        if left > self.meta()?.page_count * BODY_BYTES as u64 {
            return Err(self.corrupt_page(owner, "a large value is larger than all pages"));
        }
        while left > 0 {
            let id = PageId(next);
            let page = self.page(id)?;
            let len = page.count() as u64;
            if page.kind() != Some(Kind::Overflow) || len == 0 || len > left {
                return Err(self.corrupt_page(id, "it is not the next part of a large value"));
            }
            visit(id, page.overflow());
            next = page.next();
            left -= len;
        }
        Ok(())
    }

    pub(crate) fn read_overflow(&mut self, owner: PageId, address: &[u8]) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.visit_overflow(owner, address, |_, part| value.extend_from_slice(part))?;
        Ok(value)
    }
}
