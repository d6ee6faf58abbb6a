//! A log that is made of blocks which come from elsewhere: an archive.
//!
//! ```text
//!   blocks up to the horizon, what was needed of them ──► compacted images   (in any order of segments)
//!   blocks behind it, whole and in order ───────────────► images as written
//!   keep: images ended · manifest · how far it is, in INTO/restore-tmp       (the same log goes on there)
//!   finish: manifest in INTO/restore-tmp · all of it verified · published    (see `building`)
//! ```
//!
//! Blocks keep their numbers and times. Segments are counted from 1, and ordinals in each from 0: nothing on disk
//! refers to those that they had. Until [`NewLog::finish`] has returned no log is found in the directory, and a
//! server refuses to start there.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use base::checksum::crc32c;
use base::{Lsn, Note, RecordKind, SegmentId};
use env::{Disk, Entropy, Unpublished};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{self, BlockHeader, COMPACTED};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::groups::GROUP_BYTES;
use crate::format::kinds::Kinds;
use crate::format::manifest::{Manifest, Parent};
use crate::format::record;
use crate::format::registry::Registry;
use crate::format::segment::{self, SEGMENT_VERSION, SegmentHeader};
use crate::id::Id;
use crate::inspect::verify::{Report, check_image};
use crate::read::side_by_side::side_by_side;
use crate::restore::building::{Building, Plan, whole_image};
use crate::restore::expiry::{Expiry, ExpiryRule};
use crate::restore::image_writer::ImageWriter;
use crate::restore::reached::Reached;
use crate::restore::restoring::nearest_dir;

/// Past so many bytes an image takes no further block.
const IMAGE_BYTES: u64 = 64 << 20;

/// What a [`NewLog`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The new database.
    pub database: Id,
    /// How many files it has.
    pub files: usize,
    /// Their length.
    pub bytes: u64,
    /// The blocks.
    pub blocks: u64,
    /// The records, each of which was read again.
    pub records: u64,
}

/// See the file's top.
pub struct NewLog {
    /// The images before this one. First: they are waited for before the directory's lock is given back.
    ending: Ending,
    building: Building,
    image: Option<Image>,
    made: Made,
    expiry: ExpiryRule,
    /// How long what was put was when it was kept last, and must be longer by before it is kept again.
    kept_bytes: u64,
    keep_bytes: u64,
}

/// What is made.
#[derive(Debug, Clone, Copy)]
pub struct NewLogOptions<'a> {
    /// The log that it branches off, and the last block.
    pub parent: Parent,
    /// Blocks up to this one may be missing.
    pub horizon: Lsn,
    /// About so many bytes will be put.
    pub bytes: u64,
    /// On how many threads it is made at most.
    pub threads: usize,
    /// Tells it from other logs that may have been begun there.
    pub what: &'a [u8],
    /// When so many bytes were put, it is noted how far it is ([`NewLog::keep`]).
    pub keep_bytes: u64,
    /// When keys expire.
    pub expiry: Expiry,
    /// When the last block was ended, in Unix milliseconds, if that is known.
    pub time_ms: Option<i64>,
}

impl NewLog {
    /// Begins a log in `into`, which must be empty or have an unfinished restore. If that is of the same log, it goes on with it: then the second is what was
    /// given to [`NewLog::keep`] last, and what had been put before is there.
    ///
    /// # Errors
    /// When the directory is not empty or is in use, there is no room for so much, the time is needed and not known, or the disk refuses.
    pub fn begin(
        disk: &Arc<dyn Disk>,
        into: &Path,
        options: &NewLogOptions<'_>,
        entropy: &mut dyn Entropy,
    ) -> Result<(Self, Option<Vec<u8>>)> {
        let NewLogOptions { parent, horizon, bytes, threads, .. } = *options;
        let expiry = options.expiry.rule(parent.lsn, options.time_ms)?;
        let room = |there| check_room(&**disk, into, bytes.saturating_sub(there));
        let same =
            [options.what, format!(", up to {horizon}, expiry {expiry:?}").as_bytes()].concat();
        let plan = Plan { parent, what: &same, threads };
        let building = Building::begin(disk, into, &plan, entropy, room)?;
        let database = building.manifest.database;
        let made = Made { database, files: 0, bytes: 0, blocks: 0, records: 0 };
        let ending = Ending::default();
        let (kept_bytes, keep_bytes) = (0, options.keep_bytes);
        let mut log = Self { ending, building, image: None, made, expiry, kept_bytes, keep_bytes };
        let reached = log.take_up()?;
        if reached.is_none() {
            log.begin_anew(horizon)?;
        }
        Ok((log, reached))
    }

    /// Forgets what was put.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin_anew(&mut self, horizon: Lsn) -> Result<()> {
        // First: what it says is of images that others of the same names take the place of.
        Reached::remove(&*self.building.disk, self.building.notes())?;
        let manifest = &mut self.building.manifest;
        let fresh = Manifest::new(manifest.database, manifest.hash_seed);
        manifest.listed.clear();
        (manifest.next_segment, manifest.registry) = (fresh.next_segment, fresh.registry);
        manifest.horizon = horizon;
        let database = manifest.database;
        self.building.forget_checked();
        self.made = Made { database, files: 0, bytes: 0, blocks: 0, records: 0 };
        self.kept_bytes = 0;
        self.building.remove_others()
    }

    /// Takes up what was kept. `None` if there is nothing, or an image of it is not whole.
    fn take_up(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.building.is_resumed() {
            return Ok(None);
        }
        let reached = Reached::read(&*self.building.disk, self.building.notes())?;
        let manifest = &mut self.building.manifest;
        let Some(reached) = reached.filter(|it| it.next_segment <= manifest.next_segment) else {
            return Ok(None);
        };
        // The manifest may be ahead: what it has noted of later blocks is noted once.
        manifest.listed.retain(|image| image.segment < reached.next_segment);
        manifest.next_segment = reached.next_segment;
        let Building { disk, device, manifest, .. } = &self.building;
        let read = side_by_side(&manifest.listed, self.building.threads(), |image| {
            let path = device.join(segment::file_name(image.segment, image.part));
            whole_image(&**disk, &path)
        });
        let mut found = Vec::with_capacity(read.len());
        for image in read {
            let Some((_, report)) = image? else { return Ok(None) };
            found.push(report);
        }
        let count = |of: fn(&Report) -> u64| found.iter().map(of).sum::<u64>();
        if (count(|it| it.blocks), count(|it| it.records)) != (reached.blocks, reached.records) {
            return Ok(None);
        }
        for report in found {
            self.made.files += 1;
            self.made.blocks += report.blocks;
            self.made.records += report.records;
            self.count(report);
        }
        self.kept_bytes = self.made.bytes;
        self.building.remove_others()?;
        Ok(Some(reached.at))
    }

    /// Notes that all that was put up to now is kept, and that the same log goes on behind `at`, which the caller understands. Not each time that it is asked to: when
    /// enough was put since the last time.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn keep(&mut self, at: impl FnOnce() -> Vec<u8>) -> Result<()> {
        if self.put_bytes() < self.kept_bytes + self.keep_bytes {
            return Ok(());
        }
        self.end_images()?;
        let Building { disk, manifest, .. } = &self.building;
        manifest.write(&**disk, self.building.notes())?;
        let Made { blocks, records, .. } = self.made;
        let reached = Reached { next_segment: manifest.next_segment, blocks, records, at: at() };
        reached.write(&**disk, self.building.notes())?;
        self.kept_bytes = self.made.bytes;
        Ok(())
    }

    /// How long what was put is, without what is being ended.
    fn put_bytes(&self) -> u64 {
        let ending = self.ending.0.len() as u64 * IMAGE_BYTES;
        self.made.bytes + ending + self.image.as_ref().map_or(0, |image| image.writer.len())
    }

    /// Adds a block with these records, encoded. Up to the horizon blocks may come in any order, each once; behind it they come
    /// in order.
    ///
    /// # Errors
    /// When the records are none, or the disk refuses.
    pub fn put(&mut self, lsn: Lsn, time_ms: i64, records: &[u8]) -> Result<()> {
        let changed = self.expiry.apply(records);
        let changed = changed.map_err(|what| Error::corrupt(&self.building.device, 0, what))?;
        let records = changed.as_ref().map_or(records, |changed| &changed.records[..]);
        let is_compacted = lsn <= self.building.manifest.horizon;
        let bytes = (block::HEADER_BYTES + records.len()) as u64;
        let takes = |image: &Image| {
            image.is_compacted() == is_compacted
                && lsn > image.last
                && image.writer.len() + bytes <= IMAGE_BYTES
        };
        if !self.image.as_ref().is_some_and(takes) {
            self.end_image()?;
            self.image = Some(self.begin_image(is_compacted)?);
        }
        let image = self.image.as_mut().expect("begun above");
        let count = image.put(lsn, time_ms, records, &mut self.building.manifest.registry)?;
        self.made.blocks += 1;
        self.made.records += u64::from(count);
        Ok(())
    }

    /// Ends the log, which was at the last block of `parent` at `time_ms`, reads all of it again, and makes it the log of its
    /// directory.
    ///
    /// # Errors
    /// When what is read is not what was put, or the disk refuses. Then there is no log in the directory.
    pub fn finish(mut self, time_ms: i64) -> Result<Made> {
        self.end_images()?;
        let manifest = &mut self.building.manifest;
        manifest.history_floor_ms = time_ms;
        // They were those of another log. Their notes are in this one: a start must know them.
        manifest.registry.clear_backups();
        let made = self.made;
        self.building.finish(made.blocks, made.records).map(|()| made)
    }

    fn begin_image(&mut self, is_compacted: bool) -> Result<Image> {
        let Building { disk, device, manifest, .. } = &mut self.building;
        let segment = manifest.next_segment;
        manifest.next_segment = SegmentId(segment.0 + 1);
        let path = device.join(segment::file_name(segment, 0));
        let output = Unpublished::create(&**disk, &segment::temp_path(&path))?;
        let horizon = manifest.horizon;
        let header = SegmentHeader {
            version: SEGMENT_VERSION,
            database: manifest.database,
            device: manifest.devices[0].id,
            segment,
            part: 0,
            generation: u32::from(is_compacted),
            is_moved: false,
            durable_lsn: if is_compacted { horizon } else { manifest.durable_lsn },
            compaction_lsn: if is_compacted { horizon } else { Lsn::ZERO },
            horizon: if is_compacted { horizon } else { Lsn::ZERO },
            kinds: Kinds::default(),
        };
        let mut writer = ImageWriter::new(output);
        writer.put(&[0; segment::HEADER_BYTES])?;
        Ok(Image {
            writer,
            path,
            header,
            footer: FooterBuilder::new(GROUP_BYTES),
            next_ordinal: 0,
            last: Lsn::ZERO,
        })
    }

    /// Ends all of them, and waits until they were read.
    fn end_images(&mut self) -> Result<()> {
        self.end_image()?;
        while let Some(ended) = self.ending.wait() {
            self.count(ended?);
        }
        Ok(())
    }

    fn end_image(&mut self) -> Result<()> {
        let Some(image) = self.image.take() else { return Ok(()) };
        self.made.files += 1;
        self.building.list(image.header.segment, 0);
        let disk = Arc::clone(&self.building.disk);
        if self.building.threads() == 1 {
            let ended = image.end(&*disk)?;
            self.count(ended);
            return Ok(());
        }
        if self.ending.is_full()
            && let Some(ended) = self.ending.wait()
        {
            self.count(ended?);
        }
        self.ending.begin(image, disk)
    }

    fn count(&mut self, ended: Report) {
        self.made.bytes += ended.bytes;
        self.building.take_checked(ended);
    }
}

/// Gives images their ends and names, and reads them, while the next one is written: one waits for the disk, another is read.
#[derive(Default)]
struct Ending(VecDeque<JoinHandle<Result<Report>>>);

impl Ending {
    /// So many images end at a time.
    const TOGETHER: usize = 2;

    fn is_full(&self) -> bool {
        self.0.len() >= Self::TOGETHER
    }

    /// Begins with the next image.
    fn begin(&mut self, image: Image, disk: Arc<dyn Disk>) -> Result<()> {
        let path = image.path.clone();
        let thread = Builder::new().name("restore".to_owned());
        let ending = thread.spawn(move || image.end(&*disk)).at(&path, "start a thread for")?;
        self.0.push_back(ending);
        Ok(())
    }

    /// Waits until the oldest one was read. Returns what was found in it; `None` if there is none.
    fn wait(&mut self) -> Option<Result<Report>> {
        let thread = self.0.pop_front()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // What has failed already says why.
        for ending in self.0.drain(..) {
            let _ended = ending.join();
        }
    }
}

/// An image that is written.
struct Image {
    writer: ImageWriter,
    path: PathBuf,
    /// Written last, when it is known what it must say.
    header: SegmentHeader,
    footer: FooterBuilder,
    next_ordinal: u32,
    last: Lsn,
}

impl Image {
    const fn is_compacted(&self) -> bool {
        self.header.generation > 0
    }

    /// Adds a block, and what it says of itself to `registry`. Returns how many records it has.
    fn put(
        &mut self,
        lsn: Lsn,
        time_ms: i64,
        records: &[u8],
        registry: &mut Registry,
    ) -> Result<u32> {
        let known = registry.last_command();
        let (mut rest, mut offsets, mut delete_count) = (records, Vec::new(), 0);
        let mut ordinal = self.next_ordinal;
        let wrong = |what: &str| Error::corrupt(&self.path, self.writer.len(), what);
        while !rest.is_empty() {
            let at = block::HEADER_BYTES + records.len() - rest.len();
            let body = record::take_body(&mut rest).map_err(wrong)?;
            let record = record::decode_body(body).map_err(wrong)?;
            let kind = record.kind;
            if kind == RecordKind::Note
                && let Some(note) = Note::decode(record.value)
            {
                registry.take(lsn, &note, known);
            }
            delete_count += u32::from(kind.is_delete());
            self.header.kinds = self.header.kinds.and(Kinds::of_record(&record));
            offsets.push((ordinal, at as u64));
            ordinal = ordinal.checked_add(1).ok_or_else(|| wrong("too many records"))?;
        }
        let record_count = ordinal - self.next_ordinal;
        let header = BlockHeader {
            payload_crc: crc32c(records),
            flags: if self.is_compacted() { COMPACTED } else { 0 },
            lsn,
            time_ms,
            payload_bytes: records.len() as u64,
            record_count,
            first_ordinal: self.next_ordinal,
            segment: self.header.segment,
            database_tag: self.header.database.tag(),
            durable_lsn: lsn.min(self.header.durable_lsn),
        };
        let encoded = header.encode();
        self.footer.add(&WrittenBlock {
            lsn,
            header: &encoded,
            records,
            ordinals: Ordinals::Each(&offsets),
            record_count,
            delete_count,
        });
        self.writer.put(&encoded)?;
        self.writer.put(records)?;
        (self.next_ordinal, self.last) = (ordinal, lsn);
        Ok(record_count)
    }

    /// Writes what is left, gives the file its name, and reads it. Returns what was found.
    fn end(mut self, disk: &dyn Disk) -> Result<Report> {
        let footer = self.footer.finish().encode(self.header.database);
        self.writer.put(&footer)?;
        let output = self.writer.finish()?;
        let path = output.temporary();
        output.file().write_all_at(&self.header.encode(), 0).at(path, "write")?;
        output.publish(disk, &self.path)?;
        check_image(disk, &self.path)
    }
}

/// Whether so much fits, where that can be known.
fn check_room(disk: &dyn Disk, into: &Path, needed_bytes: u64) -> Result<()> {
    let free_bytes = nearest_dir(disk, into).and_then(|dir| disk.available_bytes(dir).ok());
    match free_bytes {
        Some(free_bytes) if free_bytes < needed_bytes => {
            let (path, is_next_to_server) = (into.to_owned(), false);
            Err(Error::NoRoom { path, needed_bytes, free_bytes, is_next_to_server })
        }
        _ => Ok(()),
    }
}
