//! Reading the whole log in order: what recovery and the verifier have in common.
//!
//! # What counts as missing
//!
//! LSNs are contiguous when blocks are written, but compaction removes blocks without survivors,
//! so a gap is not always a loss. Two numbers tell them apart, both known from what is on disk:
//!
//! ```text
//!   horizon M   no segment that was compacted or removed ever held a block above M
//!               (headers of compacted segments; the manifest, written before a removal)
//!   durable K   every block up to K was durable at some time, or superseded by durable ones
//!               (manifest, segment headers, block headers: all of them repeat it)
//!
//!   1 ─────────────────── M ──────────────── K ───────────────────
//!      gaps are legitimate   a gap is damage   the first gap ends the log
//! ```
//!
//! M ≤ K, because a compaction ends only when everything up to the block that was open at its
//! beginning is durable. Above M every block that was ever written is in a file that was never
//! compacted; if it was durable it must be there, so a gap up to K means that a file was lost or
//! damaged: an error, and nothing is changed. Above K nothing is known to have been acknowledged:
//! under `always` a reply waits for the durable LSN, which is below the first gap; under the other
//! policies losing it is what the user has chosen. From the first gap above K on everything is cut
//! off, also whole blocks behind it, because order is promised: what survives is a prefix.
//!
//! Behind the end of the good blocks of a file without a footer there may be more than a torn
//! write: the bytes there are looked through for headers of blocks. What those say was durable
//! counts for K like what the others say, so that one damaged block does not take with it the only
//! witnesses of what came after it. And a block below M could be damaged without leaving a gap
//! that counts: a damaged block that names its LSN, or any good block behind the damage, at or
//! below K, is an error too.
//!
//! A start from an index does not read all of this: `behind` says what of it, and why a loss is found
//! all the same.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use base::{Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use env::Disk;

use crate::compact::bitmap::Bitmap;
use crate::compact::segments::{Segment, Segments};
use crate::error::{Error, Result};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::record;
use crate::format::segment::Footer;
use crate::read::catalog::Catalog;
use crate::read::merge::{DeviceStream, Merge};
use crate::read::scan::{Block, SegmentFile, Tail, find_block_in};
use crate::recover::behind::{Behind, KnownBefore};
use crate::recover::notes::FoundNotes;
use crate::shared::device::Part;

/// So many LSNs are left behind the end of a log that can go on: more than are written until it is opened
/// again.
const LSNS_LEFT_MIN: u64 = 1 << 48;

/// Takes the records of the log in order, but notes: those are the log's own.
pub trait Replay {
    /// A record, where it is, and its block. What it makes garbage is pushed onto `retired`: the
    /// entry's previous record, if there was one. It must be pushed in this call when `record`
    /// replaces or deletes it.
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    );

    /// Records that will be applied next, notes among them. Nothing has to be done; an implementation that
    /// looks each of them up can overlap the cache misses.
    fn announce(&mut self, _records: &[Record<'_>]) {}

    /// There are no more records. What has turned out to be garbage (elements of objects that have
    /// no root) is pushed onto `retired`.
    fn finish(&mut self, retired: &mut Vec<RecordAddr>);

    /// A record that makes no sense to the keyspace, and why, if there was one: recovery then ends
    /// with an error, before anything on disk is changed. Asked after each block and at the end.
    fn rejected(&self) -> Option<(RecordAddr, String)> {
        None
    }
}

/// A replay that keeps nothing.
pub(crate) struct Nothing;

impl Replay for Nothing {
    fn apply(&mut self, _: &Record<'_>, _: RecordAddr, _: Lsn, _: &mut Vec<RecordAddr>) {}
    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

/// How far recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub bytes_done: u64,
    /// Bytes that there are.
    pub bytes_total: u64,
    /// Records applied.
    pub records: u64,
}

/// What is known of a file once all of the log was read.
pub(crate) struct FileState {
    /// The end of the blocks that stay.
    pub(crate) end: u64,
    /// The last block that stays.
    pub(crate) last_lsn: Lsn,
    /// The last block that is behind the end of the log as it was then.
    pub(crate) beyond_lsn: Lsn,
    /// How many blocks stay.
    pub(crate) block_count: u64,
    /// Blocks behind `end` that are whole and still go.
    pub(crate) cut_block_count: u64,
    /// Its last blocks that are not known to have been durable, with their offsets. They may have
    /// been read from memory that no disk has.
    pub(crate) undurable: VecDeque<(Lsn, u64)>,
    /// Of a file without a footer: what its footer will be made of.
    pub(crate) footer: FooterBuilder,
    /// Of a file without a footer: where its good blocks end.
    pub(crate) tail: Option<Tail>,
}

impl FileState {
    fn new(file: &SegmentFile, group_bytes: u32) -> Self {
        Self {
            end: crate::format::segment::HEADER_BYTES as u64,
            last_lsn: Lsn::ZERO,
            beyond_lsn: Lsn::ZERO,
            block_count: 0,
            cut_block_count: 0,
            undurable: VecDeque::new(),
            footer: FooterBuilder::of_version(file.header.version, group_bytes),
            tail: None,
        }
    }

    /// How many bytes of the file go that are not just unwritten space.
    pub(crate) fn cut_bytes(&self, source: &SegmentFile) -> u64 {
        match (&source.footer, &self.tail) {
            (Some(footer), _) if self.cut_block_count > 0 => footer.data_end - self.end,
            (None, Some(tail)) => tail.end - self.end,
            _ => 0,
        }
    }

    /// The file stays as it is, unread.
    fn note_unread(&mut self, footer: &Footer) {
        self.end = footer.data_end;
        self.last_lsn = footer.max_lsn;
        self.block_count = footer.block_count;
    }
}

/// The whole log, read.
pub(crate) struct LogState {
    /// The last block that stays.
    pub(crate) last_lsn: Lsn,
    pub(crate) horizon: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) files: Vec<FileState>,
    /// One above every object that was ever named, as far as that is known.
    pub(crate) object_end: ObjectId,
    /// The segments that have records; their lengths are for the caller to fill in.
    pub(crate) segments: Segments,
    pub(crate) block_count: u64,
    pub(crate) record_count: u64,
    /// What notes say.
    pub(crate) notes: FoundNotes,
}

/// The log that is read, and how. Files that have no footer yet are to get groups of `group_bytes`.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) dir: &'a Path,
    pub(crate) catalog: &'a Catalog,
    pub(crate) is_parallel: bool,
    pub(crate) group_bytes: u32,
    pub(crate) before: KnownBefore,
}

impl Reading<'_> {
    /// Reads what is not known before, in order, into `replay`. Changes nothing.
    pub(crate) fn run(
        self,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LogState> {
        let Self { disk, catalog, .. } = self;
        let mut reader = Reader::new(&self);
        let mut by_device: Vec<Vec<(usize, SegmentFile)>> = vec![Vec::new(); catalog.devices.len()];
        let files = catalog.files.iter().enumerate();
        for (index, file) in files.filter(|(index, _)| !reader.behind.is_unread(*index)) {
            by_device[file.device].push((index, file.clone()));
        }
        let bytes_total = by_device.iter().flatten().map(|(_, file)| file.len).sum();
        let streams: Vec<DeviceStream> = by_device
            .into_iter()
            .map(|files| DeviceStream::new(disk.clone(), files))
            .collect::<Result<_>>()?;
        let mut run = |merge: Result<Merge>| -> Result<()> {
            let mut merge = merge?;
            reader.run(&mut merge, replay, progress, bytes_total)?;
            for (file, mut tail) in merge.tails {
                tail.look_through(&**disk, &catalog.files[file])?;
                reader.state.files[file].tail = Some(tail);
            }
            Ok(())
        };
        if self.is_parallel {
            std::thread::scope(|scope| run(Merge::parallel(scope, streams)))?;
        } else {
            run(Merge::sequential(streams))?;
        }
        if !reader.behind.is_complete() {
            let is_whole = self.before.point.cut == Lsn::ZERO;
            return Err(if is_whole { self.miscounted() } else { self.find_loss() });
        }
        reader.finish(disk, self.dir, replay)
    }

    /// What is missing up to the cut.
    fn find_loss(self) -> Error {
        let cut = self.before.point.cut;
        let durable = self.before.durable.max(cut);
        let before = KnownBefore { durable, ..KnownBefore::default() };
        let read = Self { before, ..self }.run(&mut Nothing, &mut |_| {});
        read.err().unwrap_or_else(|| self.miscounted())
    }

    fn miscounted(self) -> Error {
        let cut = self.before.point.cut;
        let what = format!("the footers of segments count other blocks up to {cut} than there are");
        Error::corrupt(&crate::format::manifest::path_in(self.dir), 0, what)
    }
}

fn check_accepted(replay: &dyn Replay, file: &Path) -> Result<()> {
    match replay.rejected() {
        Some((addr, what)) => Err(Error::Rejected { file: file.to_owned(), addr, what }),
        None => Ok(()),
    }
}

/// A table of the segments that have files, before their blocks are counted in.
fn list_segments(catalog: &Catalog) -> Segments {
    let mut segments = Segments::default();
    for file in &catalog.files {
        let header = &file.header;
        if segments.get(header.segment).is_none() {
            // Files are sorted by part: this is the first part, if there is one.
            let mut segment = Segment::new(header.segment, file.device);
            segment.max_lsn = header.horizon;
            segment.generation = header.generation;
            segment.compaction_lsn = header.compaction_lsn;
            segment.is_sealed = true;
            if let Some(footer) = &file.footer
                && header.generation > 0
            {
                segment.record_count = footer.survivors.len();
                segment.bitmap = Bitmap::of_survivors(&footer.survivors);
            }
            segments.insert(segment);
        }
        if header.part > 0
            && let Some(segment) = segments.get_mut(header.segment)
        {
            segment.parts.push(Part { device: file.device, number: header.part });
        }
    }
    let mut sharing: BTreeMap<SegmentId, Vec<SegmentId>> = BTreeMap::new();
    for file in catalog.files.iter().filter(|file| file.header.part == 0) {
        // In the order of their segments, as they are in the file.
        sharing.entry(file.leader).or_default().push(file.header.segment);
    }
    sharing.values().filter(|ids| ids.len() > 1).for_each(|ids| segments.share_file(ids));
    segments
}

/// So many records are announced at once at most, before the first of them is applied.
const ANNOUNCED_TOGETHER: usize = 32;

struct Reader<'a> {
    catalog: &'a Catalog,
    behind: Behind,
    state: LogState,
    /// The first missing block, once one was found.
    missing: Option<Missing>,
    /// What was the last block, in case it comes again.
    last: Option<BlockIdentity>,
    retired: Vec<RecordAddr>,
    offsets: Vec<(u32, u64)>,
    bytes_done: u64,
}

/// Two blocks that have all this in common are one that was written twice.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BlockIdentity {
    lsn: Lsn,
    segment: SegmentId,
    first_ordinal: u32,
    payload_bytes: u64,
    payload_crc: u32,
}

#[derive(Clone, Copy)]
struct Missing {
    lsn: Lsn,
    next: Lsn,
    next_file: usize,
}

impl<'a> Reader<'a> {
    fn new(reading: &Reading<'a>) -> Self {
        let Reading { catalog, group_bytes, before, .. } = *reading;
        let manifest = catalog.manifest.as_ref();
        let headers = catalog.files.iter().map(|file| &file.header);
        let known = manifest.map_or(Lsn::ZERO, |manifest| manifest.durable_lsn).max(before.durable);
        let durable = headers.map(|header| header.durable_lsn).fold(known, Lsn::max);
        let horizon = catalog.horizon();
        let behind = Behind::new(catalog, before.point.cut, horizon);
        let mut segments = list_segments(catalog);
        let mut files = Vec::new();
        for (index, file) in catalog.files.iter().enumerate() {
            let mut state = FileState::new(file, group_bytes);
            if let Some(footer) = &file.footer
                && behind.is_unread(index)
            {
                state.note_unread(footer);
                segments.get_mut(file.header.segment).expect("listed").note_unread(footer);
            }
            files.push(state);
        }
        let object_floor = manifest.map_or(ObjectId::NONE.next(), |manifest| manifest.object_floor);
        let state = LogState {
            last_lsn: Lsn::ZERO,
            horizon,
            durable,
            files,
            object_end: object_floor.max(before.point.next_object),
            segments,
            block_count: 0,
            record_count: 0,
            notes: FoundNotes::new(manifest),
        };
        let (retired, offsets) = (Vec::new(), Vec::new());
        Self { catalog, behind, state, missing: None, last: None, retired, offsets, bytes_done: 0 }
    }

    fn run(
        &mut self,
        merge: &mut Merge,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
        bytes_total: u64,
    ) -> Result<()> {
        const REPORT_EVERY_BYTES: u64 = 4 << 20;
        let mut report_at = 0;
        while let Some((index, block)) = merge.next()? {
            let lsn = block.header.lsn;
            self.bytes_done += block.header.block_bytes();
            self.state.durable = self.state.durable.max(block.header.durable_lsn);
            if self.catalog.limit.is_some_and(|limit| lsn > limit) {
                let file = &mut self.state.files[index];
                file.cut_block_count += 1;
                file.beyond_lsn = lsn;
                continue;
            }
            let expected = self.state.last_lsn.max(self.behind.floor()).next();
            if self.missing.is_none() && lsn > expected {
                self.missing = Some(Missing { lsn: expected, next: lsn, next_file: index });
            }
            if self.missing.is_some() {
                self.state.files[index].cut_block_count += 1;
            } else {
                self.take_block(index, &block, replay)?;
            }
            if self.bytes_done >= report_at {
                report_at = self.bytes_done + REPORT_EVERY_BYTES;
                let (bytes_done, records) = (self.bytes_done, self.state.record_count);
                progress(Progress { bytes_done, bytes_total, records });
            }
        }
        let records = self.state.record_count;
        progress(Progress { bytes_done: bytes_total, bytes_total, records });
        Ok(())
    }

    fn take_block(&mut self, index: usize, block: &Block, replay: &mut dyn Replay) -> Result<()> {
        let source = &self.catalog.files[index];
        let lsn = block.header.lsn;
        let corrupt = |what: &str| source.corrupt(block.offset, what);
        // A block is twice there when its device failed after writing it and before syncing it.
        let is_repeated = lsn == self.state.last_lsn;
        let is_applied = !is_repeated && self.behind.note_block(lsn);
        let keeps_offsets = source.footer.is_none();
        let segment_id = source.header.segment;
        let identity = BlockIdentity {
            lsn,
            segment: segment_id,
            first_ordinal: block.header.first_ordinal,
            payload_bytes: block.header.payload_bytes,
            payload_crc: block.header.payload_crc,
        };
        if self.last.replace(identity).is_some_and(|last| last.lsn == lsn && last != identity) {
            return Err(corrupt("another block has the same number and other records"));
        }
        let (mut record_count, mut delete_count, mut next_ordinal) = (0, 0, 0);
        self.offsets.clear();
        let mut bodies = block.bodies();
        let (mut ordinals, mut records) = (Vec::new(), Vec::new());
        loop {
            ordinals.clear();
            records.clear();
            for body in bodies.by_ref().take(ANNOUNCED_TOGETHER) {
                let (ordinal, at, body) = body.map_err(corrupt)?;
                records.push(record::decode_body(body).map_err(corrupt)?);
                ordinals.push(ordinal);
                if keeps_offsets {
                    let offset = crate::format::block::HEADER_BYTES + at;
                    self.offsets.push((ordinal, offset as u64));
                }
            }
            if records.is_empty() {
                break;
            }
            if is_applied {
                replay.announce(&records);
            }
            for (ordinal, record) in ordinals.iter().copied().zip(&records) {
                record_count += 1;
                self.state.object_end = self.state.object_end.max(record.object.next());
                delete_count += u32::from(record.kind.is_delete());
                next_ordinal = ordinal.saturating_add(1);
                let addr = RecordAddr::new(segment_id, ordinal);
                if record.kind == RecordKind::Note {
                    // An index may have what is in the block, and knows nothing of notes.
                    if !is_repeated {
                        self.state.notes.take(lsn, record.value);
                    }
                    self.retired.extend(is_applied.then_some(addr));
                } else if is_applied {
                    replay.apply(record, addr, lsn, &mut self.retired);
                }
            }
        }
        if record_count != block.header.record_count {
            return Err(corrupt("a block has other than the number of records that it says"));
        }
        if !is_repeated {
            let segment = self.state.segments.get_mut(segment_id).expect("listed");
            segment.note_replayed(lsn, record_count, delete_count, next_ordinal);
            self.state.last_lsn = lsn;
        }
        if is_applied {
            self.state.block_count += 1;
            self.state.record_count += u64::from(record_count);
        }
        let file = &mut self.state.files[index];
        if keeps_offsets {
            let (header, records) = (&block.header.encode(), block.payload());
            let ordinals = Ordinals::Each(&self.offsets);
            file.footer.add(&WrittenBlock {
                lsn,
                header,
                records,
                ordinals,
                record_count,
                delete_count,
            });
        }
        file.undurable.push_back((lsn, block.offset));
        while file.undurable.front().is_some_and(|(lsn, _)| *lsn <= self.state.durable) {
            file.undurable.pop_front();
        }
        file.end = block.offset + block.header.block_bytes();
        file.last_lsn = lsn;
        file.block_count += 1;
        self.note_retired(lsn);
        check_accepted(replay, &source.path)
    }

    fn note_retired(&mut self, lsn: Lsn) {
        for addr in self.retired.drain(..) {
            self.state.segments.retire(addr, lsn);
        }
    }

    fn finish(
        mut self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        replay: &mut dyn Replay,
    ) -> Result<LogState> {
        self.collect_durable_evidence(&**disk)?;
        if let Some(limit) = self.catalog.limit {
            self.state.durable = self.state.durable.min(limit);
        }
        let end = self.state.last_lsn.max(self.behind.floor());
        self.check_tails(&**disk, end)?;
        if self.state.durable > end {
            let (next, file) = match self.missing {
                Some(missing) => (missing.next, self.catalog.files[missing.next_file].path.clone()),
                None => (Lsn::ZERO, crate::format::manifest::path_in(dir)),
            };
            let missing = self.missing.map_or(end.next(), |missing| missing.lsn);
            let durable = self.state.durable;
            return Err(Error::Hole { missing, durable, next, file });
        }
        self.check_listed()?;
        self.check_room(dir, end)?;
        self.state.last_lsn = end;
        replay.finish(&mut self.retired);
        check_accepted(replay, &crate::format::manifest::path_in(dir))?;
        self.note_retired(Lsn::ZERO);
        self.state.segments.remove_empty();
        Ok(self.state)
    }

    /// Whether open images go as far as the manifest knows that they did.
    fn check_listed(&self) -> Result<()> {
        for entry in self.catalog.manifest.iter().flat_map(|manifest| &manifest.listed) {
            let images = self.catalog.files.iter().zip(&self.state.files);
            for (image, file) in images.filter(|(image, _)| entry.is_met_by(&image.header)) {
                image.check_listed(entry, file.last_lsn.max(file.beyond_lsn))?;
            }
        }
        Ok(())
    }

    /// Whether the log can go on behind `end`.
    fn check_room(&self, dir: &Path, end: Lsn) -> Result<()> {
        if Lsn::MAX.0 - end.0 >= LSNS_LEFT_MIN {
            return Ok(());
        }
        let mut files = self.catalog.files.iter().zip(&self.state.files);
        let last = files.find(|(file, state)| file.header.horizon.max(state.last_lsn) == end);
        let path = last
            .map_or_else(|| crate::format::manifest::path_in(dir), |(file, _)| file.path.clone());
        let what =
            format!("LSN {end} leaves no room for what is written next, and no log gets there");
        Err(Error::corrupt(&path, 0, what))
    }

    /// Looks behind the ends of files without a footer for blocks that know what was durable.
    fn collect_durable_evidence(&mut self, disk: &dyn Disk) -> Result<()> {
        let mut durable = self.state.durable;
        for (source, file) in self.catalog.files.iter().zip(&self.state.files) {
            let Some(tail) = &file.tail else { continue };
            find_block_in(disk, source, tail.offset..tail.end, |header| {
                durable = durable.max(header.durable_lsn);
                false
            })?;
        }
        self.state.durable = durable;
        Ok(())
    }

    /// Looks behind the ends of files without a footer for what should not be damaged.
    fn check_tails(&self, disk: &dyn Disk, end: Lsn) -> Result<()> {
        let durable = self.state.durable;
        for (source, file) in self.catalog.files.iter().zip(&self.state.files) {
            let Some(tail) = &file.tail else { continue };
            // A file that a failed device has left behind may be damaged: its blocks are elsewhere.
            let segment = source.header.segment;
            let mut others = self.catalog.files.iter().filter(|o| o.header.segment == segment);
            if others.nth(1).is_some() {
                continue;
            }
            let what = tail.what.unwrap_or("unwritten space");
            if tail.damaged_lsn.is_some_and(|lsn| lsn <= durable) {
                return Err(Error::corrupt(&source.path, tail.offset, what));
            }
            let is_evidence = |header: &crate::format::block::BlockHeader| {
                let is_durable = header.lsn <= durable && header.lsn > Lsn::ZERO;
                // Behind the end of the log as it was then there were others.
                is_durable || (header.durable_lsn > end && self.catalog.limit.is_none())
            };
            let found = find_block_in(disk, source, tail.offset..tail.end, is_evidence)?;
            if let Some((at, header)) = found {
                let lsn = header.lsn;
                let what = if lsn <= durable {
                    format!("{what}, but block {lsn}, which was durable, is behind at {at}")
                } else {
                    let known = header.durable_lsn;
                    format!("{what}, but block {lsn} behind at {at} knows {known} to be durable")
                };
                return Err(Error::corrupt(&source.path, tail.offset, what));
            }
        }
        Ok(())
    }
}
