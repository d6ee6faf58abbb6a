//! A log that is made of blocks which come from elsewhere: an archive.
//!
//! ```text
//!   blocks up to the horizon, what was needed of them ──► compacted images   (in any order of segments)
//!   blocks behind it, whole and in order ───────────────► images as written
//!   finish: manifest in INTO/restore-tmp · all of it verified · published    (see `restoring`)
//! ```
//!
//! Blocks keep their numbers and times. Segments are counted from 1, and ordinals in each from 0: nothing on disk
//! refers to those that they had. Until [`NewLog::finish`] has returned no log is found in the directory, and a
//! server refuses to start there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::crc32c;
use base::{Lsn, Note, ObjectId, RecordKind, SegmentId};
use env::{Disk, Entropy, Unpublished};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{self, BlockHeader, COMPACTED};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::groups::GROUP_BYTES;
use crate::format::kinds::Kinds;
use crate::format::listing::Listed;
use crate::format::manifest::{DeviceMark, Manifest, ManifestDevice, Parent};
use crate::format::record;
use crate::format::registry::Registry;
use crate::format::segment::{self, SEGMENT_VERSION, SegmentHeader};
use crate::id::Id;
use crate::inspect::verify::verify_unlocked;
use crate::options::default_device;
use crate::restore::restoring::{build_dir, check_into};
use crate::write::publication::{begin, discard, publish};

/// How much is gathered for a write.
const WRITE_BYTES: usize = 1 << 20;

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
    disk: Arc<dyn Disk>,
    into: PathBuf,
    build: PathBuf,
    device: PathBuf,
    manifest: Manifest,
    image: Option<Image>,
    made: Made,
}

impl NewLog {
    /// Begins a log in `into`, which must be empty or have an unfinished restore. It is a branch of the log of `parent`.
    /// Blocks up to `horizon` may be missing.
    ///
    /// # Errors
    /// When the directory is not empty, or the disk refuses.
    pub fn begin(
        disk: &Arc<dyn Disk>,
        into: &Path,
        (parent, horizon): (Parent, Lsn),
        entropy: &mut dyn Entropy,
    ) -> Result<Self> {
        check_into(&**disk, into)?;
        let build = build_dir(into);
        discard(&**disk, &build, into)?;
        begin(&**disk, &build, into)?;
        let [mut database, mut device, mut hash_seed] = [[0; 16]; 3];
        for bytes in [&mut database, &mut device, &mut hash_seed] {
            entropy.fill(bytes);
        }
        let (database, device) = (Id(database), Id(device));
        let path = default_device(into);
        let manifest = Manifest {
            database,
            hash_seed,
            epoch: 1,
            durable_lsn: parent.lsn,
            horizon,
            next_segment: SegmentId(1),
            object_floor: ObjectId::NONE.next(),
            devices: vec![ManifestDevice {
                id: device,
                path: path.strip_prefix(into).unwrap_or(&path).to_owned(),
                is_leaving: false,
            }],
            listed: Vec::new(),
            history: Vec::new(),
            history_floor: parent.lsn,
            history_floor_ms: 0,
            history_points: Vec::new(),
            registry: Registry::default(),
            parent: Some(parent),
        };
        // First: what is made is found by what it says, after a crash.
        manifest.write(&**disk, &build)?;
        disk.create_dir_all(&path).at(&path, "make")?;
        DeviceMark { database, device }.write(&**disk, &path)?;
        let made = Made { database, files: 0, bytes: 0, blocks: 0, records: 0 };
        let (disk, into) = (Arc::clone(disk), into.to_owned());
        Ok(Self { disk, into, build, device: path, manifest, image: None, made })
    }

    /// Adds a block with these records, encoded. Up to the horizon blocks may come in any order, each once; behind it they come
    /// in order.
    ///
    /// # Errors
    /// When the records are none, or the disk refuses.
    pub fn put(&mut self, lsn: Lsn, time_ms: i64, records: &[u8]) -> Result<()> {
        let is_compacted = lsn <= self.manifest.horizon;
        let bytes = (block::HEADER_BYTES + records.len()) as u64;
        let takes = |image: &Image| {
            image.is_compacted() == is_compacted
                && lsn > image.last
                && image.at + bytes <= IMAGE_BYTES
        };
        if !self.image.as_ref().is_some_and(takes) {
            self.end_image()?;
            self.image = Some(self.begin_image(is_compacted)?);
        }
        let image = self.image.as_mut().expect("begun above");
        let count = image.put(lsn, time_ms, records, &mut self.manifest.registry)?;
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
        self.manifest.history_floor_ms = time_ms;
        // They were those of another log. Their notes are in this one: a start must know them.
        self.manifest.registry.clear_backups();
        self.manifest.write(&*self.disk, &self.build)?;
        let report = verify_unlocked(&self.disk, &self.build, std::slice::from_ref(&self.device));
        if let Some(error) = report.errors.into_iter().next() {
            return Err(error);
        }
        let (made, lsn) = (self.made, self.manifest.durable_lsn);
        if (report.blocks, report.records, report.last_lsn) != (made.blocks, made.records, lsn) {
            return Err(Error::NotRestored {
                path: self.into,
                lsn,
                last: report.last_lsn,
                records: made.records,
                found: report.records,
            });
        }
        publish(&*self.disk, &self.build, &self.into)?;
        Ok(made)
    }

    fn begin_image(&mut self, is_compacted: bool) -> Result<Image> {
        let segment = self.manifest.next_segment;
        self.manifest.next_segment = SegmentId(segment.0 + 1);
        let path = self.device.join(segment::file_name(segment, 0));
        let output = Unpublished::create(&*self.disk, &segment::temp_path(&path))?;
        let horizon = self.manifest.horizon;
        let header = SegmentHeader {
            version: SEGMENT_VERSION,
            database: self.manifest.database,
            device: self.manifest.devices[0].id,
            segment,
            part: 0,
            generation: u32::from(is_compacted),
            is_moved: false,
            durable_lsn: if is_compacted { horizon } else { self.manifest.durable_lsn },
            compaction_lsn: if is_compacted { horizon } else { Lsn::ZERO },
            horizon: if is_compacted { horizon } else { Lsn::ZERO },
            kinds: Kinds::default(),
        };
        Ok(Image {
            output,
            path,
            header,
            footer: FooterBuilder::new(GROUP_BYTES),
            buffer: Vec::new(),
            written: segment::HEADER_BYTES as u64,
            at: segment::HEADER_BYTES as u64,
            next_ordinal: 0,
            last: Lsn::ZERO,
        })
    }

    fn end_image(&mut self) -> Result<()> {
        let Some(image) = self.image.take() else { return Ok(()) };
        self.made.files += 1;
        let segment = image.header.segment;
        self.made.bytes += image.end(&*self.disk)?;
        self.manifest.listed.push(Listed { segment, part: 0, last_lsn: Listed::SEALED });
        Ok(())
    }
}

/// An image that is written.
struct Image {
    output: Unpublished,
    path: PathBuf,
    /// Written last, when it is known what it must say.
    header: SegmentHeader,
    footer: FooterBuilder,
    buffer: Vec<u8>,
    /// How far it is written.
    written: u64,
    /// Where the next block begins.
    at: u64,
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
        let wrong = |what: &str| Error::corrupt(&self.path, self.at, what);
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
            self.header.kinds = self.header.kinds.and(Kinds::of(kind));
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
        self.write(&encoded)?;
        self.write(records)?;
        (self.next_ordinal, self.last) = (ordinal, lsn);
        Ok(record_count)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let path = self.output.temporary();
        self.output.file().write_all_at(&self.buffer, self.written).at(path, "write")?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left, and gives the file its name. Returns its length.
    fn end(mut self, disk: &dyn Disk) -> Result<u64> {
        let footer = self.footer.finish().encode(self.header.database);
        self.write(&footer)?;
        self.flush()?;
        let path = self.output.temporary();
        self.output.file().write_all_at(&self.header.encode(), 0).at(path, "write")?;
        self.output.publish(disk, &self.path)?;
        Ok(self.at)
    }
}
