//! A log that is made of blocks which come from elsewhere: an archive.
//!
//! ```text
//!   blocks up to the horizon, what was needed of them ──► compacted images   (in any order of segments)
//!   blocks behind it, whole and in order ───────────────► images as written
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
use crate::format::manifest::Parent;
use crate::format::record;
use crate::format::registry::Registry;
use crate::format::segment::{self, SEGMENT_VERSION, SegmentHeader};
use crate::id::Id;
use crate::inspect::verify::{Report, check_image};
use crate::restore::building::Building;
use crate::restore::expiry::{Expiry, ExpiryRule};
use crate::restore::image_writer::ImageWriter;
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
}

impl NewLog {
    /// Begins a log in `into`, which must be empty or have an unfinished restore. It is a branch of the log of `parent`.
    /// Blocks up to `horizon` may be missing. About `bytes` will be put. It is made on up to so many threads.
    ///
    /// # Errors
    /// When the directory is not empty or is in use, there is no room for so much, or the disk refuses.
    pub fn begin(
        disk: &Arc<dyn Disk>,
        into: &Path,
        (parent, horizon): (Parent, Lsn),
        (bytes, threads): (u64, usize),
        entropy: &mut dyn Entropy,
    ) -> Result<Self> {
        let room = || check_room(&**disk, into, bytes);
        let mut building = Building::begin(disk, into, (parent, threads), entropy, room)?;
        building.manifest.horizon = horizon;
        let database = building.manifest.database;
        let made = Made { database, files: 0, bytes: 0, blocks: 0, records: 0 };
        let ending = Ending::default();
        Ok(Self { ending, building, image: None, made, expiry: ExpiryRule::Same })
    }

    /// Changes when keys expire, of the blocks that are put from now on. The last block was ended at `time_ms`.
    ///
    /// # Errors
    /// When it depends on that time, and it is not known.
    pub fn set_expiry(&mut self, expiry: Expiry, time_ms: Option<i64>) -> Result<()> {
        self.expiry = expiry.rule(self.building.manifest.durable_lsn, time_ms)?;
        Ok(())
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
        self.end_image()?;
        while let Some(ended) = self.ending.wait() {
            self.count(ended?);
        }
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
