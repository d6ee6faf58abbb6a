//! Reading a log while it is written, compacted and healed.
//!
//! ```text
//!   record(7:130) ─► images of segment 7 ─► the group that has ordinal 130 ─► CRC ─► the record
//!   blocks(from)  ─► images of all ─► merge by LSN ─► each block once, up to the durable LSN
//! ```
//!
//! 1. What is not durable is not there: neither a record nor a block above the durable LSN is shown,
//!    because a crash could take it back.
//! 2. The answer is right or an error. Everything that is given out has been compared with its
//!    checksum, on a handle of a file whose header is the one that was looked up.
//! 3. A file may be replaced at any moment. The reader sees that by a name that is gone, by another
//!    header under the name, or by a file that ends too early because it has no name any more and is
//!    being given back; it then looks the segment up again. Addresses and LSNs stay, so it goes on
//!    where it was.
//!    A group that is damaged twice in the same image is damaged, and no other one with it.
//! 4. It takes no lock that the executor waits for, and keeps no file from being replaced: what a
//!    compaction has dropped may be gone before it is read. A mark keeps it.
//! 5. It holds the log's lock with the log's threads: another process, or this one, opens the log when
//!    its readers and marks are dropped, too.
//!
//! What is known of where the records of an image are is kept: see `places`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Lsn, Record, RecordAddr, SegmentId};
use env::{FileError, ReadTogether};

use crate::error::{Error, Result};
use crate::format::block::BlockHeader;
use crate::format::record;
use crate::id::Id;
use crate::origin::Origin;
use crate::read::blocks::Blocks;
use crate::read::extent::{self, Extent};
use crate::read::group_read::{GroupPlace, GroupRead};
use crate::read::handles::Handles;
use crate::read::images::{self, ATTEMPTS_MAX};
use crate::read::past;
use crate::read::places::{FoundRecord, Places, Source};
use crate::read::scan::{Block, SegmentFile};
use crate::read::segment_scan::SegmentScan;
use crate::read::together::{Planned, Together};
use crate::shared::device::{Device, Shared};
use crate::shared::index_bound::IndexBound;

/// What a reader by address may hold on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderLimits {
    /// So many files are kept open; each may take two descriptors.
    pub open_files: usize,
    /// So many groups and blocks are known by their place: 16 bytes each. What else is known of
    /// segments counts by its bytes.
    pub places: usize,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self { open_files: 8, places: 1 << 20 }
    }
}

/// How much memory a place takes, and about how much an image, apart from its survivors.
const PLACE_BYTES: usize = 16;
const IMAGE_BYTES: usize = 512;

/// See the file's top.
pub struct Reader {
    shared: Arc<Shared>,
    limits: ReaderLimits,
    /// Segments that were looked up.
    segments: HashMap<SegmentId, Known>,
    handles: Handles,
    group: GroupRead,
    together: Together,
    /// How many records were asked for.
    uses: u64,
}

/// What is known of a segment.
#[derive(Default)]
struct Known {
    images: Vec<Located>,
    /// When it was asked for last.
    used: u64,
}

struct Located {
    image: SegmentFile,
    places: Places,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let limits = ReaderLimits::default();
        Self {
            shared,
            limits,
            segments: HashMap::new(),
            handles: Handles::new(limits.open_files),
            group: GroupRead::default(),
            together: Together::default(),
            uses: 0,
        }
    }

    /// Lets it hold on to so much from now on.
    #[must_use]
    pub fn with_limits(mut self, limits: ReaderLimits) -> Self {
        self.limits = limits;
        self.handles.count_max = limits.open_files;
        self
    }

    /// Returns the record at `addr`; `None` if a compaction has dropped it, or it is not durable.
    ///
    /// # Errors
    /// When a file cannot be read, or is damaged.
    pub fn record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>> {
        let found = self.find_record(addr);
        self.shrink();
        found
    }

    /// Gives back memory that is too large to be kept.
    pub(crate) fn shrink(&mut self) {
        self.group.shrink();
    }

    /// As [`Reader::record`]; the group that it was in is kept.
    pub(crate) fn find_record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>> {
        let mut damaged: Option<Vec<SegmentFile>> = None;
        let mut attempt = 1;
        loop {
            let error = match self.try_record(addr) {
                Err(error) if attempt < ATTEMPTS_MAX => error,
                found => return found,
            };
            // Where it was known to be something else may be by now. What is damaged in a file that
            // was just found to be in place is.
            let known = self.segments.remove(&addr.segment()).unwrap_or_default();
            self.handles.forget(addr.segment());
            let is_damage = matches!(error, Error::File(FileError::Corrupt { .. }));
            let images = known.images.into_iter().map(|located| located.image).collect();
            if is_damage && damaged.as_ref().is_some_and(|before| are_same(before, &images)) {
                return Err(error);
            }
            damaged = is_damage.then_some(images);
            attempt += 1;
        }
    }

    /// Reads the blocks from `from` on up to the last one that is durable now, in order. They say
    /// everything that has changed since the block before `from`, deletions included, or are refused
    /// by [`Blocks::next`]: compactions drop deletions after a while. A mark's state goes on with the
    /// block behind it, an empty state with block 1.
    ///
    /// While compactions go on, what comes of them is the state at [`Blocks::end`] but for entries that
    /// later blocks have changed: those may be missing. With the blocks of the next call they come.
    #[must_use]
    pub fn blocks(&self, from: Lsn) -> Blocks {
        Blocks::new(Arc::clone(&self.shared), from)
    }

    /// As [`Reader::blocks`], for an index that has bounded every compaction since it read block 1.
    ///
    /// What was dropped before this start does not make it refuse blocks then: the bound has kept the
    /// delete records behind the last cut, in the lives before this one, too.
    #[must_use]
    pub fn blocks_of_index(&self, from: Lsn) -> Blocks {
        Blocks::of_index(Arc::clone(&self.shared), from)
    }

    /// As [`Reader::blocks`], with every record that the blocks ever had: also what is garbage by now. Of blocks
    /// that a compaction has dropped something of, and that history does not have, [`Blocks::next`] says that they are gone.
    #[must_use]
    pub fn whole_blocks(&self, from: Lsn) -> Blocks {
        Blocks::whole(Arc::clone(&self.shared), from)
    }

    /// The blocks up to `last` with what was needed when that was the last one, as far as history tells it;
    /// otherwise with what is left of them.
    #[must_use]
    pub fn blocks_of_state(&self, last: Lsn) -> Blocks {
        Blocks::of_state(Arc::clone(&self.shared), last)
    }

    /// Returns how much of the past the log tells now, with what history has. A compaction makes it less.
    ///
    /// # Errors
    /// When a file cannot be read, or is damaged.
    pub fn extent(&self) -> Result<Extent> {
        let images = images::find_all(&self.shared)?;
        let manifest = self.shared.manifest.get();
        let floor = past::floor(&manifest);
        let horizon = extent::horizon(&manifest, &images).min(floor);
        let told_from = extent::told_from(&manifest, &images).min(floor);
        Ok(Extent { horizon, told_from, durable: self.shared.durability.durable_lsn() })
    }

    /// Returns the id of the database that the log is of.
    #[must_use]
    pub fn database(&self) -> Id {
        self.shared.database
    }

    /// Returns whose blocks the log has.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin { database: self.shared.database, parent: self.shared.manifest.get().parent }
    }

    /// Returns how many times the log was opened, this time included.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.manifest.get().epoch
    }

    /// Returns how many bytes of blocks were written since the log was opened.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let written = |device: &Device| device.written_bytes.load(Ordering::Relaxed);
        self.shared.devices.iter().map(written).sum()
    }

    /// Returns the length at which segments end now: from there on compactions may take them.
    #[must_use]
    pub fn roll_bytes(&self) -> u64 {
        self.shared.roll_bytes.load(Ordering::Relaxed)
    }

    /// Asks for everything up to `lsn` to be synced, whatever the policy.
    pub fn request_sync(&self, lsn: Lsn) {
        self.shared.request_sync(lsn);
    }

    /// Returns the segments that there are now, newest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentId> {
        let listed = self.shared.manifest.listing().images();
        let ids: BTreeSet<SegmentId> = listed.into_iter().map(|(segment, ..)| segment).collect();
        ids.into_iter().rev().collect()
    }

    /// Reads all that is durable of a segment, block by block; nothing of one that is gone.
    #[must_use]
    pub fn scan(&self, segment: SegmentId) -> SegmentScan {
        SegmentScan::new(Arc::clone(&self.shared), segment)
    }

    /// Another reader of the same log.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }

    /// The bound that an index of the log sets to compaction.
    #[must_use]
    pub fn index_bound(&self) -> Arc<IndexBound> {
        Arc::clone(&self.shared.index_bound)
    }

    fn try_record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>> {
        let durable = self.shared.durability.durable_lsn();
        self.locate(addr.segment())?;
        let known = self.segments.get_mut(&addr.segment()).expect("located above");
        for Located { image, places } in &mut known.images {
            let ordinal = addr.ordinal();
            if !image.may_have(ordinal) {
                continue;
            }
            let disk = &*self.shared.disk;
            let last_block = images::last_block(&self.shared, image, durable);
            let file = self.handles.get(disk, image)?;
            let source = Source { disk, file: &*file, image, durable, last_block };
            let found = places.find(&source, &mut self.group, ordinal)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The disk's way to read several groups at a time.
    pub(crate) fn together(&mut self) -> Option<&mut dyn ReadTogether> {
        self.together.get(&*self.shared.disk)
    }

    /// How many files it may keep open.
    pub(crate) const fn open_files(&self) -> usize {
        self.limits.open_files
    }

    /// Whether [`Reader::records`] reads several of them at a time.
    pub fn reads_together(&mut self) -> bool {
        self.together().is_some()
    }

    /// Where the record at `addr` is read from, if that is a group, and no other image may have it, too.
    pub(crate) fn plan(&mut self, addr: RecordAddr) -> Result<Option<Planned>> {
        if !self.reads_together() {
            return Ok(None);
        }
        let durable = self.shared.durability.durable_lsn();
        self.locate(addr.segment())?;
        let known = self.segments.get_mut(&addr.segment()).expect("located above");
        let mut having =
            known.images.iter_mut().filter(|located| located.image.may_have(addr.ordinal()));
        let (Some(Located { image, places }), None) = (having.next(), having.next()) else {
            return Ok(None);
        };
        let disk = &*self.shared.disk;
        let file = self.handles.get(disk, image)?;
        let last_block = images::last_block(&self.shared, image, durable);
        let source = Source { disk, file: &*file, image, durable, last_block };
        let Some(groups) = places.groups(&source)? else { return Ok(None) };
        let place = GroupPlace::of(image, groups, addr.ordinal())?;
        Ok(Some(Planned { file, image: image.clone(), place }))
    }

    /// Makes the segment known, and as it is now if it grows.
    fn locate(&mut self, segment: SegmentId) -> Result<()> {
        self.uses += 1;
        let known = self.segments.get(&segment).map(|known| &known.images[..]).unwrap_or_default();
        if known.is_empty() || known.iter().any(|it| matches!(it.places, Places::Unknown)) {
            self.keep_to_limit();
        }
        if let Some(known) = self.segments.get_mut(&segment) {
            known.used = self.uses;
            // A segment without any image may have been too new; one with may have got a part.
            let is_growing = known.images.iter().any(|located| located.image.footer.is_none());
            if !known.images.is_empty() && !is_growing {
                return Ok(());
            }
        }
        let images = images::find_segment(&self.shared, segment)?;
        let mut before = self.segments.remove(&segment).unwrap_or_default().images;
        let located = images.into_iter().map(|image| {
            let at = before.iter().position(|known| is_same(&known.image, &image));
            let places = at.map_or(Places::Unknown, |at| before.swap_remove(at).places);
            Located { image, places }
        });
        let known = Known { images: located.collect(), used: self.uses };
        self.segments.insert(segment, known);
        Ok(())
    }

    /// Forgets the segments that were used least recently, if too much is known.
    fn keep_to_limit(&mut self) {
        let mut places: usize = self.segments.values().map(Known::cost).sum();
        while places > self.limits.places {
            let oldest = self.segments.iter().min_by_key(|(_, known)| known.used);
            let Some((id, cost)) = oldest.map(|(id, known)| (*id, known.cost())) else { return };
            places -= cost;
            self.segments.remove(&id);
        }
    }
}

impl Known {
    /// How much it takes, in places.
    fn cost(&self) -> usize {
        self.images.iter().map(Located::cost).sum()
    }
}

impl Located {
    fn cost(&self) -> usize {
        let footer = self.image.footer.as_ref();
        let bits = footer.map_or(0, |footer| footer.survivors.bitmap_bytes());
        self.places.count() + (IMAGE_BYTES + bits) / PLACE_BYTES
    }
}

/// Whether these are the same images.
fn are_same(before: &[SegmentFile], now: &Vec<SegmentFile>) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| is_same(before, now))
}

fn is_same(before: &SegmentFile, now: &SegmentFile) -> bool {
    before.path == now.path && before.start == now.start && before.header == now.header
}

/// A block of the log, with all of its records.
pub struct LogBlock {
    pub(crate) block: Block,
    pub(crate) source: Arc<SegmentFile>,
}

impl LogBlock {
    /// Its number.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.block.header.lsn
    }

    /// The wall-clock time of its sealing, in Unix milliseconds.
    #[must_use]
    pub const fn time_ms(&self) -> i64 {
        self.block.header.time_ms
    }

    /// Its header, as it is in the file.
    #[must_use]
    pub const fn header(&self) -> &BlockHeader {
        &self.block.header
    }

    /// Its records, encoded.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.block.payload()
    }

    /// Its records with their addresses, in order. Those that a compaction has dropped are missing.
    pub fn records(&self) -> impl Iterator<Item = Result<(RecordAddr, Record<'_>)>> {
        self.block.bodies().map(|body| {
            let corrupt = |what: &str| self.corrupt(what);
            let (ordinal, _, body) = body.map_err(corrupt)?;
            let record = record::decode_body(body).map_err(corrupt)?;
            Ok((RecordAddr::new(self.block.header.segment, ordinal), record))
        })
    }

    pub(crate) fn corrupt(&self, what: &str) -> Error {
        self.source.corrupt(self.block.offset, what)
    }
}
