//! Starting behind a cut: what an index knows of the log is not read again.
//!
//! ```text
//!   1 ──────────── M ─────────────────── cut ──────────────► end
//!     gaps are legitimate   counted, in footers   read, and applied
//!                           or as they are read
//! ```
//!
//! A sealed file that has no block above the cut is left *unread*: its footer says all that the executor's
//! table needs. Others are read as a whole, because their footers are made of all of their blocks; what is
//! in blocks up to the cut is not applied.
//!
//! **Nothing is overlooked.** Every block up to the cut was durable, and above the horizon M none may be
//! missing; so there must be `cut − M` of them, each counted once. That is exact, because
//! - no block above M is in a compacted file;
//! - a file with blocks on both sides of M is read;
//! - so is a segment with further parts, which may have a block twice.
//!
//! Is the number another one, then reading everything says what is missing, and where.

use base::{Lsn, ObjectId};

use crate::format::segment::Footer;
use crate::read::catalog::Catalog;
use crate::read::scan::SegmentFile;

/// Where an index of the log ends: what [`crate::Recovery::run_behind`] believes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartPoint {
    /// The last block that the index knows.
    pub cut: Lsn,
    /// One above every object that a block up to the cut names.
    pub next_object: ObjectId,
}

/// What is known before the log is read. By default nothing: then all of it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownBefore {
    /// The log was durable up to this block.
    pub(crate) durable: Lsn,
    pub(crate) point: StartPoint,
}

impl Default for KnownBefore {
    fn default() -> Self {
        let point = StartPoint { cut: Lsn::ZERO, next_object: ObjectId::NONE.next() };
        Self { durable: Lsn::ZERO, point }
    }
}

/// The blocks up to the cut. See the file's top.
pub(crate) struct Behind {
    pub(crate) cut: Lsn,
    horizon: Lsn,
    /// Of each file of the catalog, whether it is left unread.
    is_unread: Vec<bool>,
    /// How many blocks between horizon and cut were met.
    found_count: u64,
}

impl Behind {
    /// Decides which files of the catalog are left unread.
    pub(crate) fn new(catalog: &Catalog, cut: Lsn, horizon: Lsn) -> Self {
        let mut behind = Self { cut, horizon, is_unread: Vec::new(), found_count: 0 };
        for (index, file) in catalog.files.iter().enumerate() {
            let is_sibling = |other: Option<&SegmentFile>| {
                other.is_some_and(|other| other.header.segment == file.header.segment)
            };
            // The files are sorted by segment and part.
            let has_siblings = is_sibling(catalog.files.get(index + 1))
                || is_sibling(catalog.files[..index].last());
            let unread = behind.footer_of_unread(file).filter(|_| !has_siblings);
            if let Some(footer) = unread
                && footer.min_lsn > horizon
            {
                behind.found_count += footer.block_count;
            }
            behind.is_unread.push(unread.is_some());
        }
        behind
    }

    fn footer_of_unread<'a>(&self, file: &'a SegmentFile) -> Option<&'a Footer> {
        let footer = file.footer.as_deref()?;
        let is_on_one_side = footer.min_lsn > self.horizon || footer.max_lsn <= self.horizon;
        (footer.block_count > 0 && footer.max_lsn <= self.cut && is_on_one_side).then_some(footer)
    }

    /// Whether the file with this index is left unread.
    pub(crate) fn is_unread(&self, index: usize) -> bool {
        self.is_unread[index]
    }

    /// Up to here gaps are no matter for the reader of the rest.
    pub(crate) fn floor(&self) -> Lsn {
        self.horizon.max(self.cut)
    }

    /// A block was read, for the first time. Whether it is behind the cut.
    pub(crate) fn note_block(&mut self, lsn: Lsn) -> bool {
        self.found_count += u64::from(lsn > self.horizon && lsn <= self.cut);
        lsn > self.cut
    }

    /// Whether every block up to the cut that must be there is.
    pub(crate) fn is_complete(&self) -> bool {
        self.found_count == self.cut.0.saturating_sub(self.horizon.0)
    }
}
