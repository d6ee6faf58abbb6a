//! Reads every record that was valid at a mark, segment by segment.
//!
//! ```text
//!   segment ─► kept files, or those in place ─► parts by LSN, each block once ─► valid records
//!                     ▲        opened, and then: was it replaced? │
//!                     └───────────────────────────────────────────┘
//! ```
//!
//! The order is by segment, and by LSN within a segment; it does not matter, because of every entry
//! there is one record. A file that goes away while it is read was not needed by the mark: its
//! successor has the same, and the reader goes on in it behind the last block that it gave out. A
//! segment that is read is let go. How many records it must have had is known: another number is an
//! error.

use std::sync::Arc;

use base::{Lsn, Record, RecordAddr};

use crate::compact::kept::Whereabouts;
use crate::compact::mark_slot::Marked;
use crate::error::{Error, Result};
use crate::format::record;
use crate::mark::handle::Hold;
use crate::mark::validity::{SegmentValidity, Validity, as_of};
use crate::read::images::{self, ATTEMPTS_MAX};
use crate::read::parts::Parts;
use crate::read::reader::LogBlock;
use crate::read::scan::SegmentFile;
use crate::shared::device::Shared;

/// See the file's top.
pub struct MarkReader {
    shared: Arc<Shared>,
    hold: Hold,
    lsn: Lsn,
    segments: Vec<SegmentValidity>,
    /// The segment that is read.
    at: usize,
    parts: Option<Parts>,
    /// The last block of it that was given out, or passed over.
    last: Lsn,
    /// How many of its valid records were met.
    met_count: u32,
    /// Records of blocks up to here are not shown.
    after: Option<Lsn>,
    failures: usize,
}

/// A block, of which only what was valid at the mark is shown.
pub struct MarkedBlock {
    block: LogBlock,
    /// The valid records: their ordinals, and where in the block they are.
    valid: Vec<(u32, std::ops::Range<usize>)>,
    /// How many there are, shown or not.
    valid_count: u64,
}

impl MarkedBlock {
    /// Its number.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.block.lsn()
    }

    /// The wall-clock time of its sealing, in Unix milliseconds.
    #[must_use]
    pub const fn time_ms(&self) -> i64 {
        self.block.time_ms()
    }

    /// How many bytes its records take, valid or not.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.block.block.payload().len()
    }

    /// How many valid records it has, also those that are not shown.
    #[must_use]
    pub const fn valid_count(&self) -> u64 {
        self.valid_count
    }

    /// Its valid records with their addresses.
    ///
    /// # Panics
    /// Never: they were decoded before.
    pub fn records(&self) -> impl Iterator<Item = (RecordAddr, Record<'_>)> {
        let block = &self.block.block;
        self.valid.iter().map(|(ordinal, body)| {
            let record = record::decode_body(&block.payload()[body.clone()]);
            let addr = RecordAddr::new(block.header.segment, *ordinal);
            (addr, record.expect("it was decoded when it was found"))
        })
    }
}

impl MarkReader {
    pub(crate) fn new(shared: Arc<Shared>, hold: Hold, mut marked: Marked) -> Self {
        let lsn = marked.lsn;
        let segments = as_of(&mut marked);
        for empty in segments.iter().filter(|segment| segment.valid_count() == 0) {
            hold.holds.release(hold.id, empty.segment());
        }
        let (last, met_count, after) = (Lsn::ZERO, 0, None);
        Self {
            shared,
            hold,
            lsn,
            segments,
            at: 0,
            parts: None,
            last,
            met_count,
            after,
            failures: 0,
        }
    }

    /// Leaves out the records of blocks up to `lsn`. Segments without newer ones are not read; in others such blocks are
    /// read, checked, and shown without records.
    pub fn show_after(&mut self, lsn: Lsn) {
        self.after = Some(lsn);
        for passed in self.segments.iter().filter(|segment| !self.is_read(segment)) {
            self.hold.holds.release(self.hold.id, passed.segment());
        }
    }

    /// Whether it may have what is shown.
    fn is_read(&self, segment: &SegmentValidity) -> bool {
        self.after.is_none_or(|after| segment.has_newer_than(after))
    }

    /// Becomes what tells which records were valid; no file is held any more.
    #[must_use]
    pub fn into_validity(self) -> Validity {
        Validity::new(self.segments)
    }

    /// Returns the last block that is part of the mark.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns how many records will be read: all that are valid and no delete records, shown or not.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        let read = self.segments.iter().filter(|segment| self.is_read(segment));
        read.map(|segment| u64::from(segment.valid_count())).sum()
    }

    /// Returns the validity bitmaps, ascending by segment. A segment that is missing has nothing
    /// that is valid.
    #[must_use]
    pub fn segments(&self) -> &[SegmentValidity] {
        &self.segments
    }

    /// Returns the next block with valid records; `None` when all were read.
    ///
    /// # Errors
    /// When a file cannot be read, is damaged, or was replaced and could not be kept.
    #[expect(clippy::should_implement_trait, reason = "after an error it can go on")]
    pub fn next(&mut self) -> Result<Option<MarkedBlock>> {
        while let Some(segment) = self.segments.get(self.at) {
            if segment.valid_count() == 0 || !self.is_read(segment) {
                self.at += 1;
                continue;
            }
            match self.step() {
                Ok(Some(block)) => {
                    self.failures = 0;
                    return Ok(Some(block));
                }
                Ok(None) => self.end_segment()?,
                Err(error) => {
                    self.parts = None;
                    self.failures += 1;
                    let is_final = matches!(error, Error::NotKept { .. });
                    if is_final || self.failures >= ATTEMPTS_MAX {
                        self.failures = 0;
                        return Err(error);
                    }
                }
            }
        }
        Ok(None)
    }

    fn end_segment(&mut self) -> Result<()> {
        let segment = &self.segments[self.at];
        if self.met_count != segment.valid_count() {
            let (id, expected) = (segment.segment(), segment.valid_count());
            return Err(Error::Incomplete { segment: id, expected, found: self.met_count });
        }
        self.hold.holds.release(self.hold.id, segment.segment());
        self.at += 1;
        (self.parts, self.last, self.met_count) = (None, Lsn::ZERO, 0);
        Ok(())
    }

    /// The next block of the segment with valid records.
    fn step(&mut self) -> Result<Option<MarkedBlock>> {
        if self.parts.is_none() {
            self.parts = Some(self.open()?);
        }
        let segment = &self.segments[self.at];
        let parts = self.parts.as_mut().expect("opened above");
        while let Some(block) = parts.next(self.last, self.lsn)? {
            let mut valid = Vec::new();
            let payload_at = block.block.payload().as_ptr() as usize;
            for body in block.block.bodies() {
                let (ordinal, _, body) = body.map_err(|what| block.corrupt(what))?;
                let record = record::decode_body(body).map_err(|what| block.corrupt(what))?;
                if segment.is_valid(ordinal) && !record.kind.is_delete() {
                    let start = body.as_ptr() as usize - payload_at;
                    valid.push((ordinal, start..start + body.len()));
                }
            }
            self.last = block.lsn();
            if !valid.is_empty() {
                self.met_count += u32::try_from(valid.len()).expect("no more than ordinals");
                let valid_count = valid.len() as u64;
                if self.after.is_some_and(|after| block.lsn() <= after) {
                    valid.clear();
                }
                return Ok(Some(MarkedBlock { block, valid, valid_count }));
            }
        }
        Ok(None)
    }

    /// Opens the files that the mark needs of the segment.
    fn open(&self) -> Result<Parts> {
        let id = self.segments[self.at].segment();
        for _ in 0..ATTEMPTS_MAX {
            let whereabouts = self.hold.holds.find(self.hold.id, id);
            let images = match &whereabouts {
                Whereabouts::Lost => return Err(Error::NotKept { segment: id }),
                Whereabouts::InPlace => images::find_segment(&self.shared, id)?,
                Whereabouts::Kept(files) => {
                    let mut images = Vec::new();
                    for (path, device) in files {
                        images.extend(SegmentFile::read_running(
                            &*self.shared.disk,
                            path,
                            *device,
                        )?);
                    }
                    images.retain(|image| image.header.segment == id);
                    images
                }
            };
            let last_block = |image: &_| images::last_block(&self.shared, image, self.lsn);
            let parts = Parts::open(&*self.shared.disk, images, last_block);
            // Of a file that was opened before this, no word of a replacement means: it is the one.
            if self.hold.holds.find(self.hold.id, id) == whereabouts {
                return parts;
            }
        }
        Err(Error::Changing { path: crate::format::manifest::path_in(self.shared.manifest.dir()) })
    }
}
